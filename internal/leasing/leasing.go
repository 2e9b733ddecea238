// Package leasing holds the credentials of one session: leased at their first use, added
// by its proxy or delivered inside as the operator says, and given back at its end.
package leasing

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/lease"
	"github.com/nacre-dev/nacre/internal/lease/issuer"
	"github.com/nacre-dev/nacre/internal/lease/sshagent"
	"github.com/nacre-dev/nacre/internal/machines"
	"github.com/nacre-dev/nacre/internal/session"
)

// Credentials are what one session holds of credentials. A nil one holds none.
type Credentials struct {
	session   *session.Session
	inst      *installation.Installation
	others    *Others
	holds     []*hold
	authority *egress.Authority
	sweeping  func() // ends the sweeps; nil where there are none
	asked     Asked
	logins    logins
	written   written
}

// hold is one credential of a session, whose leases begin at the first use.
type hold struct {
	of          *Credentials
	config      config.Credential
	placeholder string // what stands inside in its place

	mu     sync.Mutex
	leases []*lease.Lease // value, access key, session token: as many as there are
	spent  []*lease.Lease // those whose budget was used up, given back
	ended  bool           // the session gave back what it holds, and leases nothing more
	granting
	standing standing

	reading sync.Mutex
	private sshagent.Signer // of a key of SSH, once it was read
}

func leaseBroker(inst *installation.Installation, others *machines.Leases) *lease.Broker {
	o := lease.Options{
		Path: filepath.Join(inst.Registry.Paths().State, "leases.jsonl"), Now: inst.Options.Now, Getenv: inst.Options.Getenv,
		Alive: func(id nacre.SessionID) bool {
			known, err := inst.Registry.Show(id)
			return err == nil && known.Live()
		},
		Issuer: func(name string) (lease.Issuer, error) {
			at, err := find(inst, name)
			if err != nil {
				return nil, err
			}
			return issuerOf(inst, inst.Config.Credentials[at])
		},
	}
	if others != nil {
		o.Elsewhere = elsewhere{inst, others}
	}
	return lease.New(o)
}

// issuerOf is who mints a credential; nil where nobody does.
func issuerOf(inst *installation.Installation, c config.Credential) (lease.Issuer, error) {
	if !c.Mint.Named() {
		return nil, nil //nolint:nilnil // a static one
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	if err := inst.Config.Egress.Outward(transport, inst.Options.Getenv); err != nil {
		return nil, &config.Error{Err: err}
	}
	return issuer.New(c.Mint, issuer.Options{
		Transport: transport, Now: inst.Options.Now, Owner: c.Owner(),
		Root: func(ctx context.Context) (nacre.Secret, error) { return c.Source().ReadRoot(ctx, inst.Options.Getenv) },
		Key:  func(ctx context.Context) (lease.Material, error) { return rootKey(ctx, inst, c) },
	})
}

// rootKey is the key of AWS that a role is assumed with.
func rootKey(ctx context.Context, inst *installation.Installation, c config.Credential) (m lease.Material, err error) {
	for _, part := range []struct {
		into   *nacre.Secret
		source lease.Source
	}{{&m.Value, c.Source()}, {&m.AccessKey, c.AccessKey()}, {&m.SessionToken, c.SessionToken()}} {
		if part.into == &m.SessionToken && !part.source.Named() {
			continue
		}
		if *part.into, err = part.source.Read(ctx, inst.Options.Getenv); err != nil {
			return lease.Material{}, err
		}
	}
	return m, nil
}

// Asked is what a session holds credentials for.
type Asked struct {
	// Rules are where it may connect to, and Opened what it may ask of hosts that are opened
	// without a secret.
	Rules  []nacre.EgressRule
	Opened []egress.Credential
	// Uses are what it may use credentials for beside what the config says, for as long as they are
	// among those that Standing reads.
	Uses     []egress.Use
	Standing func() ([]egress.Use, error)
	// Patience is how long a request waits for the person who grants its credential.
	Patience time.Duration
	// Powers are those that it has, and Withheld tells of one that it has lost; Revoked, of all that it was granted.
	Powers   []string
	Withheld func(power string) bool
	Revoked  func() bool
}

// Open takes the credentials that a session will need, and fails where one has no
// value: the operator finds out now, not the agent later.
// What was taken before it failed is there to be closed.
func Open(ctx context.Context, inst *installation.Installation, s *session.Session, a Asked) (*Credentials, error) {
	configs := inst.Config.CredentialsOf(s.Group(), a.Powers...)
	if len(configs) == 0 && len(a.Opened) == 0 && !installation.HasAuthorities(inst) {
		return nil, nil //nolint:nilnil // a nil one holds none
	}
	l := &Credentials{session: s, inst: inst, others: OthersOf(inst), asked: a}
	l.written.dir, l.written.group = inst.Registry.Paths().Config, string(s.Group())
	return l, l.take(ctx, configs)
}

func (l *Credentials) take(ctx context.Context, configs []config.Credential) error {
	if len(configs) == 0 {
		return l.deliver(ctx, hostsOf(l.asked.Opened))
	}
	if err := l.sweep(ctx); err != nil {
		return err
	}
	l.sweepLater(ctx, configs)
	granted, err := grantedBefore(l.inst, session.Earlier(l.session))
	if err != nil {
		return fmt.Errorf("what was granted before the session was interrupted: %w", err)
	}
	hosts := hostsOf(l.asked.Opened)
	for _, c := range configs {
		lost := l.written.lost(c) != nil // since this nacre started: it is held without a value, and requests are refused
		if lost && c.Inside() {
			continue
		}
		h := &hold{of: l, config: c, placeholder: "nacre-placeholder-" + installation.RandomHex()}
		if budget, is := granted[c.Name]; is && c.Mint.Budget.Named() && !c.OverSSH() {
			h.budget = &budget
		}
		l.holds = append(l.holds, h)
		if !lost && (c.Inside() || slices.ContainsFunc(l.asked.Rules, c.Covers)) {
			if err := h.ready(ctx); err != nil {
				return &installation.NotReady{What: "credentials", Next: "nacre doctor tries them all", Err: err}
			}
		}
		if host := c.Rule(nil).Host; !c.Inside() && !c.OverSSH() && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return l.deliver(ctx, hosts)
}

// sweep takes back what sessions that are gone left, and records it.
func (l *Credentials) sweep(ctx context.Context) error {
	orphans, err := l.others.broker.Sweep(ctx)
	if err != nil {
		return &installation.NotReady{What: "credentials", Err: err}
	}
	others, _ := l.others.TakeBack(ctx, rested) // what is left is taken back later, here or at another machine
	orphans = append(orphans, others...)
	for _, orphan := range orphans {
		if err := l.session.Recorder.Commit(ctx, orphaned(orphan)); err != nil {
			return err
		}
	}
	return nil
}

// sweepEvery is how long what a crash left is good, while another session runs.
const sweepEvery = 5 * time.Minute

// sweepLater sweeps until the session ends, where anything is minted.
func (l *Credentials) sweepLater(ctx context.Context, configs []config.Credential) {
	if !slices.ContainsFunc(configs, func(c config.Credential) bool { return c.Mint.Named() }) {
		return
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it ends with the session
	done := make(chan struct{})
	l.sweeping = func() { cancel(); <-done }
	go func() {
		defer close(done)
		ticker := time.NewTicker(sweepEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				l.lapse(ctx)
				_ = l.sweep(ctx) // the next one, or the next session, tries again
			}
		}
	}()
}

func (l *Credentials) record(ctx context.Context, outcome string, what any) error {
	detail, err := json.Marshal(what)
	if err != nil {
		return err
	}
	return l.session.Recorder.Commit(ctx, nacre.Record{Kind: lease.Kind, Source: "core", Outcome: outcome, Detail: detail})
}

// lapse takes back what nobody uses any more, and what was lost: what fails is tried again by the next sweep.
func (l *Credentials) lapse(ctx context.Context) {
	for _, h := range l.holds {
		h.mu.Lock()
		if h.gone() != nil {
			_ = release(ctx, h.leases)
			h.spent, h.leases, h.budget = append(h.spent, h.leases...), nil, nil // where it comes back, a person is asked anew
		}
		leases := slices.Concat(h.spent, h.leases)
		h.mu.Unlock()
		for _, held := range leases {
			_ = held.Lapse(ctx)
		}
	}
}

// ready tells, when a session opens, whether a credential can be used: one is leased. Of one
// that a person grants at its first use, what it is minted with is read.
func (h *hold) ready(ctx context.Context) (err error) {
	switch {
	case h.config.OverSSH():
		_, err = h.signer(ctx)
	case h.config.Mint.Budget.Named():
		_, err = h.config.Source().ReadRoot(ctx, h.of.inst.Options.Getenv)
	default:
		_, err = h.leased(ctx, h.gone)
	}
	return err
}

// material is what the credential is made of now, for a request that it is added to, where that is
// not gone. Why there is nothing is recorded: whoever asks is not told.
func (h *hold) material(ctx context.Context, gone func() error) (m egress.Material, err error) {
	if err = gone(); err == nil {
		m, err = h.leased(ctx, gone)
	}
	if err != nil && h.standing.news(err.Error()) && h.of.logins.count(&h.of.logins.denied, maxRefused) {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), grantLimit)
		defer cancel()
		_ = h.of.record(late, recordRefused, map[string]string{"credential": h.config.Name, "reason": err.Error()}) // nothing was done
	}
	return m, err
}

// leased is what the credential is made of now. Where a person has to grant it, that person is
// asked. It does not look whether the credential is gone: what withholds a power is the taint of
// a run, which is known once the session is open.
func (h *hold) leased(ctx context.Context, gone func() error) (egress.Material, error) {
	m, err := h.values(ctx)
	if !errors.Is(err, lease.ErrExhausted) {
		return m, err
	}
	if err := h.granted(ctx); err != nil {
		return egress.Material{}, fmt.Errorf("credential %s: %w", h.config.Name, err)
	}
	if err := gone(); err != nil { // a person was waited for meanwhile
		return egress.Material{}, err
	}
	return h.values(ctx)
}

// values are what the credential is made of, where that is granted. What is exhausted is
// given back.
func (h *hold) values(ctx context.Context) (egress.Material, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m, err := h.read(ctx)
	if err == nil {
		h.standing.given(h.leases[0].Until())
	}
	if h.budget != nil && errors.Is(err, lease.ErrExhausted) {
		h.standing.lose(h.of.inst.Options.Now())
		_ = release(ctx, h.leases) // what was not taken back is tried again by the next sweep
		h.spent, h.leases, h.budget = append(h.spent, h.leases...), nil, nil
		err = errors.Join(err, h.of.record(ctx, recordExhausted, map[string]string{"credential": h.config.Name}))
	}
	return m, err
}

func (h *hold) read(ctx context.Context) (egress.Material, error) {
	if err := h.acquire(ctx); err != nil {
		return egress.Material{}, err
	}
	if h.config.Mint.Named() {
		return h.minted(ctx)
	}
	var parts [3][]nacre.Secret
	for i, l := range h.leases {
		values, err := l.Values(ctx)
		if err != nil {
			return egress.Material{}, err
		}
		parts[i] = values
	}
	m := egress.Material{Value: parts[0][0], Earlier: append(slices.Clone(parts[0][1:]), rest(parts[2])...)}
	if len(parts[1]) > 0 {
		m.AccessKey = parts[1][0]
	}
	if len(parts[2]) > 0 {
		m.SessionToken = parts[2][0]
	}
	return m, nil
}

// minted is what was made for the session alone: of an AWS key, all parts at once.
func (h *hold) minted(ctx context.Context) (egress.Material, error) {
	before := h.leases[0].Made()
	held, err := h.leases[0].Materials(ctx)
	if err == nil && h.budget != nil && h.leases[0].Made() > before {
		err = h.of.record(ctx, recordMinted, map[string]string{"credential": h.config.Name})
	}
	if err != nil {
		return egress.Material{}, err
	}
	m := egress.Material{Value: held[0].Value, AccessKey: held[0].AccessKey, SessionToken: held[0].SessionToken}
	for _, earlier := range held[1:] {
		m.Earlier = append(m.Earlier, earlier.Value)
		if !earlier.SessionToken.Empty() {
			m.Earlier = append(m.Earlier, earlier.SessionToken)
		}
	}
	return m, nil
}

func rest(values []nacre.Secret) []nacre.Secret { return values[min(1, len(values)):] }

// acquire leases what the credential is made of, once.
func (h *hold) acquire(ctx context.Context) error {
	if h.ended {
		return fmt.Errorf("credential %s: %w", h.config.Name, lease.ErrEnded)
	}
	if len(h.leases) > 0 {
		return nil
	}
	if h.config.Mint.Budget.Named() && h.budget == nil {
		return lease.ErrExhausted // nobody granted any yet
	}
	ttl, err := h.config.Lifetime()
	if err != nil {
		return err
	}
	s := h.of.session
	by, err := issuerOf(h.of.inst, h.config)
	if err != nil {
		return err
	}
	if err := h.config.Source().BoundTo(h.config.Host); err != nil {
		return err
	}
	var taken []*lease.Lease
	for i, source := range []lease.Source{h.config.Source(), h.config.AccessKey(), h.config.SessionToken()} {
		if i > 0 && (by != nil || !source.Named()) {
			continue // a minted key is one lease, and these are what it is minted with
		}
		l, err := h.of.others.broker.Acquire(ctx, s.ID(), s.Group(), lease.Spec{Name: h.config.Name, Source: source, Issuer: by, TTL: ttl, Expires: h.config.Expires, Budget: h.budget})
		if err != nil {
			return errors.Join(err, release(ctx, taken))
		}
		taken = append(taken, l)
	}
	if err := h.of.record(ctx, recordAcquired, map[string]string{"credential": h.config.Name, "delivery": h.delivery()}); err != nil {
		return errors.Join(err, release(ctx, taken))
	}
	h.leases = taken
	return nil
}

func (h *hold) delivery() string {
	if h.config.Inside() {
		return config.DeliverInside
	}
	return config.DeliverProxy
}

func release(ctx context.Context, leases []*lease.Lease) error {
	var errs []error
	for _, l := range leases {
		errs = append(errs, l.Release(ctx))
	}
	return errors.Join(errs...)
}

// deliver writes what the sandbox is given: the authorities it trusts, and the
// files of credentials that the operator wants inside.
func (l *Credentials) deliver(ctx context.Context, hosts []string) error {
	dir := l.session.SocketDir()
	if len(hosts) > 0 {
		var err error
		if l.authority, err = egress.NewAuthority(hosts, l.inst.Options.Now); err != nil {
			return &config.Error{Err: err}
		}
	}
	var own []byte // of the proxy that opens connections
	if l.authority != nil {
		own = l.authority.PEM()
	}
	if err := installation.GiveAuthorities(l.inst, dir, own); err != nil {
		return err
	}
	for _, h := range l.holds {
		if h.config.AsFile == "" {
			continue
		}
		m, err := h.leased(ctx, h.gone)
		if err == nil {
			err = os.MkdirAll(filepath.Join(dir, config.CredentialsDir), 0o755)
		}
		if err == nil {
			err = give(filepath.Join(dir, config.CredentialsDir, h.config.AsFile), []byte(m.Value.Reveal()))
		}
		if err != nil {
			return err
		}
	}
	return l.describeSSH()
}

// give writes a file that the sandbox reads. The folder above it is the
// operator's alone, and ends with the session.
func give(name string, data []byte) error {
	return os.WriteFile(name, data, 0o444)
}

// hostsOf are the hosts of credentials whose TLS is opened, each once.
func hostsOf(list []egress.Credential) (hosts []string) {
	for _, c := range list {
		if !c.Plain && !slices.Contains(hosts, c.Host) {
			hosts = append(hosts, c.Host)
		}
	}
	return hosts
}

// Shown is what the sandbox needs to know of the session's credentials.
func (l *Credentials) Shown() ([]nacre.Mount, []string, error) {
	if l == nil {
		return nil, nil, nil
	}
	env := installation.Trusted(l.inst)
	if l.authority != nil {
		env = installation.TrustVariables()
	}
	for _, h := range l.holds {
		if h.config.PlaceholderEnv != "" {
			env = append(env, h.config.PlaceholderEnv+"="+h.placeholder)
		}
		if h.config.AsEnv == "" {
			continue
		}
		m, err := h.leased(l.session.Context(), h.gone)
		if err != nil {
			return nil, nil, err
		}
		env = append(env, h.config.AsEnv+"="+m.Value.Reveal())
	}
	mounts, logins := l.shownSSH()
	return mounts, slices.Concat(env, l.remotes(), logins), nil
}

// Into gives the session's proxy the credentials that it adds.
func (l *Credentials) Into(o egress.Options) (egress.Options, error) {
	if l == nil {
		return o, nil
	}
	o.Authority, o.Revoked = l.authority, l.revoking(o.Revoked)
	roots, err := l.inst.Config.Egress.Roots()
	if err != nil {
		return o, &config.Error{Err: err}
	}
	for _, h := range l.holds {
		if h.config.Inside() || h.config.OverSSH() {
			continue
		}
		o.Inspect.Placeholders = append(o.Inspect.Placeholders, h.placeholder)
		c := h.config.Rule(nil)
		c.Source = h.source(h.gone)
		if c.Roots, err = h.config.Roots(); err != nil {
			return o, &installation.NotReady{What: "credentials", Err: err}
		}
		o.Credentials = append(append(o.Credentials, c), h.further(c)...)
	}
	o.Credentials = append(o.Credentials, l.asked.Opened...)
	for i := range o.Credentials {
		o.Credentials[i].Roots = cmp.Or(o.Credentials[i].Roots, roots)
	}
	return o, nil
}

// Uses are what was learned of credentials when the session began.
func (l *Credentials) Uses() []egress.Use {
	if l == nil {
		return nil
	}
	return l.asked.Uses
}

// Close gives back what the session holds. The proxy may still run: it has no value
// from then on.
func (l *Credentials) Close(ctx context.Context) error {
	if l == nil {
		return nil
	}
	if l.sweeping != nil {
		l.sweeping()
	}
	var errs []error
	for _, h := range l.holds {
		h.standing.lose(l.inst.Options.Now())
		h.mu.Lock()
		leases := slices.Concat(h.spent, h.leases)
		h.ended = true
		h.mu.Unlock()
		h.standing.lose(l.inst.Options.Now()) // once more: a request may have had its value since
		if len(leases) == 0 {
			continue
		}
		errs = append(errs, release(ctx, leases), l.record(ctx, "released", map[string]string{"credential": h.config.Name}))
	}
	return errors.Join(errs...)
}

// Locked are the credentials of a group that its sessions with these powers do not have, each with the power that it takes.
func Locked(inst *installation.Installation, group nacre.Group, powers []string) (texts []string) {
	for _, c := range inst.Config.Credentials {
		if power := c.Locked(); power != "" && slices.Contains(c.Groups, string(group)) && !slices.Contains(powers, power) {
			texts = append(texts, c.Name+" of "+power)
		}
	}
	return texts
}

// Check tries to read each credential, and prints none.
func Check(ctx context.Context, inst *installation.Installation) []installation.Finding {
	var findings []installation.Finding
	for _, c := range inst.Config.Credentials {
		findings = append(findings, checkCredential(ctx, inst, c))
	}
	return findings
}

func checkCredential(ctx context.Context, inst *installation.Installation, c config.Credential) installation.Finding {
	switch {
	case c.Mint.Named():
		return checkMinted(ctx, inst, c)
	case c.OverSSH():
		return checkSSH(ctx, &hold{of: &Credentials{inst: inst}, config: c})
	}
	if err := c.Source().BoundTo(c.Host); err != nil {
		return installation.Finding{Name: "credential", Status: "fail", Text: c.Name + ": " + err.Error(), Fix: "nacre credentials login signs in; host is that of the MCP server that the sign-in is for"}
	}
	var from []string
	for i, source := range []lease.Source{c.Source(), c.AccessKey(), c.SessionToken()} {
		if i > 0 && !source.Named() {
			continue
		}
		if _, err := source.Read(ctx, inst.Options.Getenv); err != nil {
			return installation.Finding{Name: "credential", Status: "fail", Text: c.Name + ": " + err.Error(), Fix: "put the value there: sessions of " + strings.Join(c.Groups, ", ") + " need it"}
		}
		from = append(from, source.String())
	}
	if _, err := c.Roots(); err != nil {
		return installation.Finding{Name: "credential", Status: "fail", Text: err.Error(), Fix: "ca_file names the authorities that vouch for " + c.Host}
	}
	switch now := inst.Options.Now(); {
	case !c.Expires.IsZero() && !now.Before(c.Expires):
		return installation.Finding{Name: "credential", Status: "fail", Text: c.Name + " expired at " + c.Expires.UTC().Format("2006-01-02 15:04"), Fix: "put a new value there and set expires"}
	case c.Inside():
		return installation.Finding{Name: "credential", Status: "warn", Text: c.Name + " · from " + strings.Join(from, ", ") + " · delivered inside, where its agent reads it", Fix: ""}
	}
	return installation.Finding{Name: "credential", Status: "ok", Text: c.Name + " for " + c.Host + " · from " + strings.Join(from, ", ") + " · stays outside", Fix: ""}
}
