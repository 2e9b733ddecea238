package learn

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/access"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/learned"
	"github.com/nacre-dev/nacre/internal/operator"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/receipt"
	"github.com/nacre-dev/nacre/internal/registry"
)

const (
	// DefaultTime is how long an approval stands unless a person says otherwise.
	DefaultTime = 30 * 24 * time.Hour
	// latest is how many sessions a proposal is made of where none is named, and history
	// in how many others its lines are tried: the latest of them.
	latest  = 20
	history = 200
	// maxRefusals is how many refusals of one session are read; further ones say little new.
	maxRefusals = 10_000

	// learnChain is an operator's chain of what was approved and taken back.
	learnChain = "learn-"
	// Kind of the records in it.
	Kind nacre.Kind = "learn"
)

// Look proposes what the sessions asked for and were refused, those that have begun last
// where none is named. It changes nothing.
func Look(inst *installation.Installation, sessions []nacre.SessionID) (Proposal, error) {
	of, others, err := looked(inst, sessions)
	if err != nil {
		return Proposal{}, err
	}
	refusals, err := refusalsOf(inst, of)
	if err != nil {
		return Proposal{}, err
	}
	known, err := allowed(inst)
	if err != nil {
		return Proposal{}, err
	}
	facts, err := factsOf(inst)
	if err != nil {
		return Proposal{}, err
	}
	groups := access.ToolGroups(inst, inst.Options.Now())
	approvals, err := All(inst)
	if err != nil {
		return Proposal{}, err
	}
	refusals.Hosts = slices.DeleteFunc(refusals.Hosts, known)
	refusals.Calls = slices.DeleteFunc(refusals.Calls, func(c Call) bool {
		for _, exact := range groups[c.Group].Exactly {
			if exact.Tool == c.Tool && slices.Contains(exact.Arguments, c.Arguments) {
				return true
			}
		}
		return c.ofTheGroup() && groups.AllowsCall(c.Group, nacre.Capability{Tool: c.Tool}, nil)
	})
	refusals.Folders = slices.DeleteFunc(refusals.Folders, func(f Folder) bool {
		_, is := approvals.FolderAt(inst.Options.Now(), f.Group, f.Folder)
		return is
	})
	p := Propose(refusals, facts)
	tried, err := refusalsOf(inst, others)
	if err != nil {
		return Proposal{}, err
	}
	p.Try(tried, len(others))
	return p, nil
}

// looked are the sessions that a proposal is made of, and those that it is tried on. Of an
// installation with many sessions the latest are read alone.
func looked(inst *installation.Installation, named []nacre.SessionID) (of, others []registry.Session, err error) {
	all, err := inst.Registry.Live()
	if err != nil {
		return nil, nil, err
	}
	over, _, err := inst.Registry.Page(0, latest+history+len(named))
	if err != nil {
		return nil, nil, err
	}
	all = append(all, over...)
	slices.SortStableFunc(all, func(a, b registry.Session) int { return b.Started.Compare(a.Started) })
	for _, id := range named {
		s, err := inst.Registry.Show(id)
		if err != nil {
			return nil, nil, err
		}
		of = append(of, s)
	}
	for _, s := range all {
		switch {
		case slices.Contains(named, s.ID):
		case len(named) == 0 && len(of) < latest:
			of = append(of, s)
		case len(others) < history:
			others = append(others, s)
		}
	}
	return of, others, nil
}

// allowed tells refusals of what the config lets every session reach by now.
func allowed(inst *installation.Installation) (func(Refusal) bool, error) {
	now, err := access.EgressAt(inst, inst.Options.Now())
	if err != nil {
		return nil, err
	}
	rules, err := now.Rules(nil)
	if err != nil {
		return nil, err
	}
	only, err := now.Opened(nil)
	if err != nil {
		return nil, err
	}
	return func(r Refusal) bool {
		if r.leased() {
			return slices.ContainsFunc(inst.Config.CredentialsOf(r.Group), func(c config.Credential) bool { return uses(c, now.Uses(), r) })
		}
		text, why := r.wants()
		rule, err := posture.ParseEgress(text)
		if why != "" || err != nil || !slices.ContainsFunc(rules, func(have nacre.EgressRule) bool {
			return have.Host == rule.Host && have.Port == rule.Port && have.Protocol == rule.Protocol
		}) {
			return false
		}
		named := func(c egress.Credential) bool { return c.Host == rule.Host && c.Port == rule.Port }
		return !slices.ContainsFunc(only, named) || slices.ContainsFunc(only, func(c egress.Credential) bool {
			return named(c) && r.seesRequest() && c.Lets(r.Method, r.Path)
		})
	}, nil
}

// uses tells whether a credential is for a refused request by now.
func uses(c config.Credential, learned []egress.Use, r Refusal) bool {
	if c.Inside() || c.OverSSH() {
		return false
	}
	rule := c.Rule(nil)
	return slices.ContainsFunc(append(rule.Further(r.Group, learned), rule), func(c egress.Credential) bool {
		return c.Host == r.Host && c.Port == r.Port && c.Lets(r.Method, r.Path)
	})
}

// factsOf are the tools of the plugins, and the credentials that the proxy adds.
func factsOf(inst *installation.Installation) (Facts, error) {
	facts := Facts{Tools: map[nacre.ToolName]ToolFacts{}}
	found, err := access.Plugins(inst)
	if err != nil {
		return Facts{}, err
	}
	for _, f := range found {
		for _, t := range f.Manifest.Provides.Tools {
			c := inst.Config.Tools[string(t.Name)].Apply(t.Capability(f.Name, f.Hash))
			facts.Tools[t.Name] = ToolFacts{Reads: c.Safety == nacre.Read && !c.HighRisk, Sinks: len(c.Sinks)+len(c.Text) > 0}
		}
	}
	for _, c := range inst.Config.Credentials {
		if rule := c.Rule(nil); !c.Inside() && !c.OverSSH() && rule.Git.IsZero() {
			facts.Credentials = append(facts.Credentials, CredentialFacts{c.Name, c.Groups, rule.Rule().String()})
		}
	}
	return facts, nil
}

func refusalsOf(inst *installation.Installation, sessions []registry.Session) (all Refused, err error) {
	for _, s := range sessions {
		reader := reader{session: s.ID, group: s.Group, shown: map[string]bool{}}
		for _, chain := range s.Chains {
			reader.begin(chain)
			if err := audit.Read(inst.AuditRoot(), chain, reader.add); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return Refused{}, fmt.Errorf("session %s: %w", s.ID, err)
			}
		}
		all.Hosts, all.Calls = append(all.Hosts, reader.refusals...), append(all.Calls, reader.calls...)
		all.Folders = append(all.Folders, slices.DeleteFunc(reader.folders, func(f Folder) bool { return reader.shown[f.Folder] })...)
	}
	return all, nil
}

// reader turns the records of a session into its refusals.
type reader struct {
	session  nacre.SessionID
	group    nacre.Group
	chain    string
	heard    receipt.Hearing
	received bool // from a host, in any opening
	// flowing are the requests and tunnels that were allowed and have not ended: their
	// records say at the end alone what came back, and an agent reads it before.
	flowing  map[nacre.Correlation]bool
	refusals []Refusal
	calls    []Call
	folders  []Folder
	shown    map[string]bool // folders that it was shown
}

// begin turns to the next opening. What had not ended in the one before never says what came back.
func (r *reader) begin(chain string) {
	r.received = r.received || len(r.flowing) > 0
	r.chain, r.heard, r.flowing = chain, receipt.Hearing{}, make(map[nacre.Correlation]bool)
}

func (r *reader) add(e audit.Entry) error {
	if err := r.heard.Add(e); err != nil {
		return err
	}
	if call, is, err := callOf(r.seen(e), e); err != nil {
		return err
	} else if is && len(r.calls) < maxRefusals {
		r.calls = append(r.calls, call)
	}
	if e.Kind != nacre.KindEgress {
		return r.addFolder(e)
	}
	var d struct {
		Host, Method, Path, Rule string
		Port                     uint16
		Received                 int64 `json:"bytes_received"`
		Opened                   bool
	}
	if err := json.Unmarshal(e.Detail, &d); err != nil {
		return fmt.Errorf("record %d: %w", e.Seq, err)
	}
	switch e.Outcome {
	case nacre.OutcomeDenied:
	case nacre.OutcomeAllowed:
		// Of a tunnel that is opened each request has records of its own.
		if !d.Opened || d.Path != "" {
			r.flowing[e.Correlation] = true
		}
		return nil
	default:
		delete(r.flowing, e.Correlation)
		r.received = r.received || d.Received > 0 || e.Outcome == egress.OutcomeAnswered
		return nil
	}
	if len(r.refusals) < maxRefusals {
		r.refusals = append(r.refusals, Refusal{
			Seen: r.seen(e), Host: d.Host, Port: d.Port, Method: d.Method, Path: d.Path, Rule: d.Rule, Reason: egress.Reason(e.Reason),
		})
	}
	return nil
}

// seen is the record, and what the session had heard by then.
func (r *reader) seen(e audit.Entry) Seen {
	return Seen{
		Session: r.session, Group: r.group, Chain: r.chain, Seq: e.Seq, Digest: hex.EncodeToString(e.RecordHash[:]),
		Untrusted: r.received || len(r.flowing) > 0 || r.heard.Least() == nacre.Untrusted,
	}
}

// Choice is what a person approves of a proposal.
type Choice struct {
	// Proposal is the ID of what the person saw.
	Proposal string
	// All approves each line that does not stand apart. Lines are further ones, and Wider are lines
	// that are approved with their wider path.
	All          bool
	Lines, Wider []int
	// For is how long it stands.
	For time.Duration
	By  string
}

// take makes an approval of what was chosen.
func (p Proposal) take(c Choice, now time.Time) (learned.Approval, error) {
	if c.Proposal != p.ID {
		return learned.Approval{}, fmt.Errorf("this is proposal %s now, and not %q: look at it again, and approve what you see", p.ID, c.Proposal)
	}
	approved := learned.Approval{ID: p.ID, By: c.By, At: now.UTC(), Until: now.Add(c.For).UTC(), Evidence: p.Evidence}
	for _, s := range p.Sessions {
		approved.Sessions = append(approved.Sessions, string(s))
	}
	for _, n := range slices.Concat(c.Lines, c.Wider) {
		if n < 1 || n > len(p.Lines) {
			return learned.Approval{}, fmt.Errorf("proposal %s has no line %d", p.ID, n)
		}
	}
	for _, l := range p.Lines {
		wider := slices.Contains(c.Wider, l.Number)
		if wider && l.Wider == "" {
			return learned.Approval{}, fmt.Errorf("line %d has no wider path", l.Number)
		}
		if !wider && !slices.Contains(c.Lines, l.Number) && (!c.All || len(l.Apart) > 0) {
			continue
		}
		l.approve(&approved, wider)
	}
	if approved.Lines() == 0 {
		return learned.Approval{}, errors.New("nothing is approved by that: lines that stand apart are approved by their numbers")
	}
	return approved, nil
}

// Text is what the line allows, for a person to read.
func (l Line) Text() string {
	var alone learned.Approval
	l.approve(&alone, false)
	return strings.Join(alone.Texts(), "")
}

// approve adds the line to what is approved, in its wider form where a person chose that.
func (l Line) approve(a *learned.Approval, wider bool) {
	if wider {
		l.Arguments, l.Paths = nil, []string{l.Wider}
	}
	switch {
	case l.Folder != "":
		a.Folders = append(a.Folders, learned.Folder{Group: l.Group, Folder: l.Folder})
	case l.Tool != "":
		a.Tools = append(a.Tools, learned.Tool{Group: l.Group, Tool: l.Tool, Arguments: l.Arguments, Any: len(l.Arguments) == 0})
	case l.Credential != "":
		a.Uses = append(a.Uses, learned.Use{Group: l.Group, Credential: l.Credential, Host: l.Host, Methods: l.Methods, Paths: l.Paths})
	default:
		a.Hosts = append(a.Hosts, learned.Host{Host: l.Host, Methods: l.Methods, Paths: l.Paths})
	}
}

// Approve writes what a person chose to the operator's config. The operator's chain says so
// before anything may be reached.
func Approve(ctx context.Context, inst *installation.Installation, p Proposal, c Choice) (learned.Approval, error) {
	if c.For <= 0 || c.For > learned.MaxTime {
		return learned.Approval{}, &config.Error{Err: fmt.Errorf("an approval stands for at most %d days", int(learned.MaxTime/(24*time.Hour)))}
	}
	approved, err := p.take(c, inst.Options.Now())
	if err != nil {
		return learned.Approval{}, &config.Error{Err: err}
	}
	return approved, change(ctx, inst, "approved", approved, func(have learned.Approvals) (learned.Approvals, error) {
		same := func(l learned.Approval) bool { return l.ID == approved.ID }
		if at := slices.IndexFunc(have, same); at >= 0 && have[at].Until.After(approved.At) {
			return nil, fmt.Errorf("proposal %s was approved already: nacre learn --undo %s takes that back", approved.ID, approved.ID)
		}
		return append(slices.DeleteFunc(have, same), approved), nil // one that ended makes room for the new one
	})
}

// All are the approvals, the latest last.
func All(inst *installation.Installation) (learned.Approvals, error) {
	all, err := learned.Load(inst.Registry.Paths().Config)
	if err != nil {
		return nil, &config.Error{Err: err}
	}
	return all, nil
}

// Undo takes back what was approved: the approval with the id, or the latest.
func Undo(ctx context.Context, inst *installation.Installation, id string) (learned.Approval, error) {
	have, err := All(inst)
	if err != nil {
		return learned.Approval{}, err
	}
	i := len(have) - 1
	if id != "" {
		i = slices.IndexFunc(have, func(l learned.Approval) bool { return l.ID == id })
	}
	if i < 0 && id == "" {
		return learned.Approval{}, config.Errorf("nothing that sessions learned is approved, so there is nothing to take back; nacre learn shows what could be approved")
	}
	if i < 0 {
		return learned.Approval{}, config.Errorf("no approval has the name %q; nacre learn --list shows those there are", id)
	}
	undone := have[i]
	return undone, change(ctx, inst, "undone", undone, func(have learned.Approvals) (learned.Approvals, error) {
		return slices.DeleteFunc(have, func(l learned.Approval) bool { return l.ID == undone.ID }), nil
	})
}

// change records what is done with an approval, does it, and records where it failed.
func change(ctx context.Context, inst *installation.Installation, what string, l learned.Approval, do func(learned.Approvals) (learned.Approvals, error)) (err error) {
	chain, closed, err := operator.Chain(ctx, inst, learnChain)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closed()) }()
	record := func(outcome, reason string) error {
		detail, err := json.Marshal(map[string]any{"id": l.ID, "by": l.By, "until": l.Until, "evidence": l.Evidence, "sessions": l.Sessions, "hosts": hosts(l), "tools": tools(l), "folders": l.Folders})
		if err != nil {
			return err
		}
		return chain.Commit(context.WithoutCancel(ctx), nacre.Record{
			Time: inst.Options.Now(), Kind: Kind, Source: "operator", Outcome: outcome, Reason: reason, Detail: detail,
		})
	}
	if err := record(what, ""); err != nil {
		return err
	}
	if err := learned.Change(ctx, inst.Registry.Paths().Config, do); err != nil {
		return errors.Join(err, record(what+" failed", err.Error()))
	}
	return nil
}

// hosts are the hosts of an approval, each once: a record has no room for all paths.
func hosts(l learned.Approval) (names []string) {
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, h := range l.Hosts {
		add(h.Host)
	}
	for _, u := range l.Uses {
		add(u.Host + " with " + u.Credential)
	}
	return names
}

// tools are the tools of an approval.
func tools(l learned.Approval) (names []string) {
	for _, t := range l.Tools {
		names = append(names, string(t.Tool))
	}
	return names
}
