package assembly

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/lease"
)

const (
	// bundleFile and credentialsDir are beside the sockets, where a sandbox sees them.
	bundleFile     = "ca.pem"
	credentialsDir = "credentials"
	// maxBundle is the largest list of authorities that is read, in bytes.
	maxBundle = 16 << 20
)

// trustVariables name the file of authorities that a client trusts.
func trustVariables() []string {
	return []string{
		"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO",
		"PIP_CERT", "AWS_CA_BUNDLE", "DENO_CERT", "npm_config_cafile",
	}
}

// systemBundles are where distributions keep the authorities they trust.
func systemBundles() []string {
	return []string{
		"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/pki/tls/cacert.pem",
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
	}
}

// holding is what one session holds of credentials.
type holding struct {
	sealed    *sealed
	broker    *lease.Broker
	holds     []*hold
	authority *egress.Authority
}

// hold is one credential of a session, whose leases begin at the first use.
type hold struct {
	of     *holding
	config CredentialConfig

	mu     sync.Mutex
	leases []*lease.Lease // value, access key, session token: as many as there are
}

func (r *Runtime) leaseBroker() *lease.Broker {
	return lease.New(lease.Options{
		Path: filepath.Join(r.registry.Paths().State, "leases.jsonl"), Now: r.options.Now, Getenv: r.options.Getenv,
		Alive: func(id nacre.SessionID) bool {
			known, err := r.registry.Show(id)
			return err == nil && known.Live()
		},
	})
}

// openLeases takes the credentials that the session will need, and fails where
// one has no value: the operator finds out now, not the agent later.
func (s *sealed) openLeases(ctx context.Context, group nacre.Group) error {
	configs := s.runtime.config.credentials(group)
	if len(configs) == 0 {
		return nil
	}
	s.leases = &holding{sealed: s, broker: s.runtime.leaseBroker()}
	orphans, err := s.leases.broker.Sweep()
	if err != nil {
		return &NotReady{What: "credentials", err: err}
	}
	for _, orphan := range orphans {
		if err := s.recordLease(ctx, "orphaned", orphan); err != nil {
			return err
		}
	}
	var hosts []string
	for _, c := range configs {
		h := &hold{of: s.leases, config: c}
		s.leases.holds = append(s.leases.holds, h)
		if c.inside() || slices.ContainsFunc(s.rules, c.covers) {
			if _, err := h.material(ctx); err != nil {
				return &NotReady{What: "credentials", Next: "nacre doctor tries them all", err: err}
			}
		}
		if host := c.rule(h).Host; !c.inside() && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return s.leases.deliver(hosts)
}

func (s *sealed) recordLease(ctx context.Context, outcome string, what any) error {
	detail, err := json.Marshal(what)
	if err != nil {
		return err
	}
	return s.Recorder.Commit(ctx, nacre.Record{Kind: lease.Kind, Source: "core", Outcome: outcome, Detail: detail})
}

// material implements egress.Credential's: what the credential is made of now.
func (h *hold) material(ctx context.Context) (egress.Material, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.acquire(ctx); err != nil {
		return egress.Material{}, err
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

func rest(values []nacre.Secret) []nacre.Secret { return values[min(1, len(values)):] }

// acquire leases what the credential is made of, once.
func (h *hold) acquire(ctx context.Context) error {
	if len(h.leases) > 0 {
		return nil
	}
	ttl, err := h.config.ttl()
	if err != nil {
		return err
	}
	s := h.of.sealed
	var taken []*lease.Lease
	for i, source := range []lease.Source{h.config.value(), h.config.accessKey(), h.config.sessionToken()} {
		if i > 0 && !named(source) {
			continue
		}
		l, err := h.of.broker.Acquire(ctx, s.ID(), s.Group(), lease.Spec{Name: h.config.Name, Source: source, TTL: ttl, Expires: h.config.Expires})
		if err != nil {
			return errors.Join(err, release(taken))
		}
		taken = append(taken, l)
	}
	if err := s.recordLease(ctx, "acquired", map[string]string{"credential": h.config.Name, "delivery": h.delivery()}); err != nil {
		return errors.Join(err, release(taken))
	}
	h.leases = taken
	return nil
}

func (h *hold) delivery() string {
	if h.config.inside() {
		return deliverInside
	}
	return deliverProxy
}

func release(leases []*lease.Lease) error {
	var errs []error
	for _, l := range leases {
		errs = append(errs, l.Release())
	}
	return errors.Join(errs...)
}

// deliver writes what the sandbox is given: the authorities it trusts, and the
// files of credentials that the operator wants inside.
func (l *holding) deliver(hosts []string) error {
	dir := l.sealed.SocketDir()
	if len(hosts) > 0 {
		var err error
		if l.authority, err = egress.NewAuthority(hosts, l.sealed.runtime.options.Now); err != nil {
			return &ConfigError{err}
		}
		bundle, err := l.sealed.runtime.bundle()
		if err != nil {
			return &NotReady{What: "the list of authorities", err: err}
		}
		if err := give(filepath.Join(dir, bundleFile), append(bundle, l.authority.PEM()...)); err != nil {
			return err
		}
	}
	for _, h := range l.holds {
		if h.config.AsFile == "" {
			continue
		}
		m, err := h.material(l.sealed.Context())
		if err == nil {
			err = os.MkdirAll(filepath.Join(dir, credentialsDir), 0o755) //nolint:gosec // below a folder that is the operator's alone; inside, the agent reads it
		}
		if err == nil {
			err = give(filepath.Join(dir, credentialsDir, h.config.AsFile), []byte(m.Value.Reveal()))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// give writes a file that the sandbox reads. The folder above it is the
// operator's alone, and ends with the session.
func give(name string, data []byte) error {
	return os.WriteFile(name, data, 0o444) //nolint:gosec // the sandbox's user reads it
}

// bundle is the list of authorities that this machine trusts; empty where there is none.
func (r *Runtime) bundle() ([]byte, error) {
	names := systemBundles()
	if own := r.options.Getenv("SSL_CERT_FILE"); own != "" {
		names = []string{own}
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil && info.Size() > maxBundle {
			err = fmt.Errorf("%s has more than %d bytes", name, maxBundle)
		}
		if err != nil {
			return nil, err
		}
		data, err := os.ReadFile(name)
		return append(data, '\n'), err
	}
	return nil, nil
}

// environment is what the sandbox needs to know of the session's credentials.
func (l *holding) environment() ([]string, error) {
	if l == nil {
		return nil, nil
	}
	var env []string
	if l.authority != nil {
		env = trust()
	}
	for _, h := range l.holds {
		if h.config.AsEnv == "" {
			continue
		}
		m, err := h.material(l.sealed.Context())
		if err != nil {
			return nil, err
		}
		env = append(env, h.config.AsEnv+"="+m.Value.Reveal())
	}
	return env, nil
}

func trust() []string {
	var env []string
	for _, name := range trustVariables() {
		env = append(env, name+"="+nacre.SocketDir+"/"+bundleFile)
	}
	return env
}

// credentialed gives the session's proxy the credentials that it adds.
func (s *sealed) credentialed(o egress.Options) (egress.Options, error) {
	if s.leases == nil {
		return o, nil
	}
	o.Authority = s.leases.authority
	for _, h := range s.leases.holds {
		if h.config.inside() {
			continue
		}
		c := h.config.rule(h)
		var err error
		if c.Roots, err = h.config.roots(); err != nil {
			return o, &NotReady{What: "credentials", err: err}
		}
		o.Credentials = append(o.Credentials, c)
	}
	return o, nil
}

// closeLeases gives back what the session holds. The proxy may still run: it
// has no value from then on.
func (s *sealed) closeLeases(ctx context.Context) error {
	if s.leases == nil {
		return nil
	}
	var errs []error
	for _, h := range s.leases.holds {
		h.mu.Lock()
		leases := h.leases
		h.mu.Unlock()
		if len(leases) == 0 {
			continue
		}
		errs = append(errs, release(leases), s.recordLease(ctx, "released", map[string]string{"credential": h.config.Name}))
	}
	return errors.Join(errs...)
}

// checkCredentials tries to read each credential, and prints none.
func (r *Runtime) checkCredentials(ctx context.Context) []Finding {
	var findings []Finding
	for _, c := range r.config.Credentials {
		findings = append(findings, r.checkCredential(ctx, c))
	}
	return findings
}

func (r *Runtime) checkCredential(ctx context.Context, c CredentialConfig) Finding {
	var from []string
	for i, source := range []lease.Source{c.value(), c.accessKey(), c.sessionToken()} {
		if i > 0 && !named(source) {
			continue
		}
		if _, err := source.Read(ctx, r.options.Getenv); err != nil {
			return Finding{"credential", "fail", c.Name + ": " + err.Error(), "put the value there: sessions of " + strings.Join(c.Groups, ", ") + " need it"}
		}
		from = append(from, source.String())
	}
	if _, err := c.roots(); err != nil {
		return Finding{"credential", "fail", err.Error(), "ca_file names the authorities that vouch for " + c.Host}
	}
	switch now := r.options.Now(); {
	case !c.Expires.IsZero() && !now.Before(c.Expires):
		return Finding{"credential", "fail", c.Name + " expired at " + c.Expires.UTC().Format("2006-01-02 15:04"), "put a new value there and set expires"}
	case c.inside():
		return Finding{"credential", "warn", c.Name + " · from " + strings.Join(from, ", ") + " · delivered inside, where its agent reads it", ""}
	}
	return Finding{"credential", "ok", c.Name + " for " + c.Host + " · from " + strings.Join(from, ", ") + " · stays outside", ""}
}
