// Package assembly is the composition root: it reads the operator's config,
// makes the parts and puts them together into sealed sessions. "What can this
// installation do?" is answered here, in straight code, without registration.
//
// An embedder who wants the whole of nacre starts with [Open]; one who wants the
// kernel alone imports package kernel.
package assembly

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/acceptance"
	"github.com/nacre-dev/nacre/internal/access"
	"github.com/nacre-dev/nacre/internal/account"
	"github.com/nacre-dev/nacre/internal/agent"
	"github.com/nacre-dev/nacre/internal/cockpit"
	"github.com/nacre-dev/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/conversation"
	"github.com/nacre-dev/nacre/internal/converse"
	"github.com/nacre-dev/nacre/internal/doctor"
	"github.com/nacre-dev/nacre/internal/endpoints"
	"github.com/nacre-dev/nacre/internal/erasure"
	"github.com/nacre-dev/nacre/internal/eventlog"
	"github.com/nacre-dev/nacre/internal/explain"
	"github.com/nacre-dev/nacre/internal/graduation"
	"github.com/nacre-dev/nacre/internal/hosting"
	"github.com/nacre-dev/nacre/internal/idle"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/learn"
	"github.com/nacre-dev/nacre/internal/leasing"
	"github.com/nacre-dev/nacre/internal/leftover"
	"github.com/nacre-dev/nacre/internal/machines"
	"github.com/nacre-dev/nacre/internal/operator"
	"github.com/nacre-dev/nacre/internal/overview"
	"github.com/nacre-dev/nacre/internal/person"
	"github.com/nacre-dev/nacre/internal/pluginadmin"
	"github.com/nacre-dev/nacre/internal/prove"
	"github.com/nacre-dev/nacre/internal/rates"
	"github.com/nacre-dev/nacre/internal/receipt"
	"github.com/nacre-dev/nacre/internal/review"
	"github.com/nacre-dev/nacre/internal/revocation/shared"
	"github.com/nacre-dev/nacre/internal/scheduling"
	"github.com/nacre-dev/nacre/internal/serve"
	"github.com/nacre-dev/nacre/internal/store"
	"github.com/nacre-dev/nacre/internal/survey"
	"github.com/nacre-dev/nacre/internal/upstream"
	"github.com/nacre-dev/nacre/internal/work"
	"github.com/nacre-dev/nacre/plugin"
	"github.com/nacre-dev/nacre/policy"
)

// Runtime is an installation, and what it can do for the person who uses it.
type Runtime struct {
	Timetable
	PluginAdmin
	inst *installation.Installation
	by   person.Identity
}

func newRuntime(inst *installation.Installation, by person.Identity) *Runtime {
	return &Runtime{Timetable: Timetable{inst}, PluginAdmin: PluginAdmin{inst}, inst: inst, by: by}
}

// Open reads the config and the keys, making them on first start. It starts nothing.
func Open(ctx context.Context, o Options) (*Runtime, error) {
	inst, err := installation.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	inst.Revoked.Share(shared.On(inst.Registry.Store(), inst.Revoked.Keep))
	inst.Calls.Together = rates.On(inst.Registry.Store())
	inst.Elsewhere = machines.Of(inst.Registry, inst.Keys).Elsewhere
	inst.Attend = machines.SessionsOf(inst.Registry, inst.Keys).Attend
	machines.Sign(inst.Registry, inst.Keys)
	return newRuntime(inst, person.OfUser(os.Geteuid())), nil
}

// As is the same installation, used by the person behind an identity at a face, whose rights
// count. Without it a Runtime is used by the user of this process, at a terminal.
func As(r *Runtime, identity string) *Runtime { return newRuntime(r.inst, person.Identity(identity)) }

// UseBackend has sandboxes started by another backend than the config's: native, docker, podman
// or k8s, as far as [sandbox] sets it up. Empty leaves it.
func UseBackend(r *Runtime, backend string) error {
	if backend == "" {
		return nil
	}
	chosen := r.inst.Config.Sandbox
	chosen.Backend = backend
	if err := chosen.Check(); err != nil {
		return &ConfigError{Err: err}
	}
	r.inst.Config.Sandbox = chosen
	return nil
}

// MaxMCPServers is the longest file of MCP servers that is read, in bytes.
const MaxMCPServers = pluginadmin.MaxServers

// CheckMCPServers refuses a file of mcpServers with one that is not a plugin whose tools the group
// may use. It starts nothing.
func CheckMCPServers(r *Runtime, group nacre.Group, data []byte) error {
	return pluginadmin.CheckServers(r.inst, cmp.Or(group, DefaultGroup), data)
}

// AuditRoot is the folder of the audit chains.
func (r *Runtime) AuditRoot() string {
	return r.inst.AuditRoot()
}

// PublicKey verifies the installation's heads and receipts.
func (r *Runtime) PublicKey() []byte {
	return r.inst.PublicKey()
}

// Audit hands the verified work of a session to an auditor, and keeps what it
// decided (S-08). verified is the session's report as Run left it at
// nacre.StageVerified; run says which brain audits, and how that is shown.
func (r *Runtime) Audit(ctx context.Context, verified Report, run Run) (Audit, Report, error) {
	return work.AuditWork(ctx, r.inst, verified, run)
}

// CheckAuditor refuses, before anything of a session's work goes on, an auditor that could not begin. The
// session may wait for none, the brain be unknown or not ready, or the recording not be one that can be played.
func (r *Runtime) CheckAuditor(ctx context.Context, id nacre.SessionID, run Run) error {
	return work.CheckAuditor(ctx, r.inst, id, run)
}

// Doctor tries each part of the installation (M-60). Without turns no brain is
// started, and no plugin.
func (r *Runtime) Doctor(ctx context.Context, turns bool) []Finding {
	others := doctor.Others{Egress: prove.CheckEgress, Upstreams: upstream.Check, Plugins: pluginadmin.CheckPlugins, Try: pluginadmin.TryPlugins, Credentials: leasing.Check, Erase: erasure.FinishErasures}
	return slices.Concat(doctor.Examine(ctx, r.inst, others, turns), checkLogins(r), []Finding{leftover.CheckRoom(ctx, r.inst, doctor.IsShort(r.inst))}, store.Check(ctx, r.inst), scheduling.Check(ctx, r.inst))
}

// Prove plays escapes, egress bypasses, planted files and broken installations against
// this machine, this configuration and a project, with decoys. progress is told of
// each stage that begins.
func Prove(ctx context.Context, r *Runtime, project string, progress func(stage string)) ([]ProofRow, error) {
	return prove.Installation(ctx, r.inst, project, progress)
}

// Policies are what `nacre policy` asks an installation for.
type Policies struct{ runtime *Runtime }

// PoliciesOf are an installation's.
func PoliciesOf(r *Runtime) Policies { return Policies{r} }

// PolicyInForce is the policy that decides in sessions that begin now.
func (p Policies) PolicyInForce() *policy.Policy { return p.runtime.inst.Policy }

// AcceptedPolicy is the policy that a person accepted last; the shipped one where
// nobody did.
func (p Policies) AcceptedPolicy() (*policy.Policy, error) {
	return acceptance.Policy(p.runtime.inst)
}

// AcceptPolicy keeps the policy in force as the accepted one, and records who did so.
// version is the one that they saw; another one than is in force is refused.
func (p Policies) AcceptPolicy(ctx context.Context, version, by string) error {
	if err := cockpit.Configures(p.runtime.inst, p.runtime.by); err != nil {
		return err
	}
	return acceptance.Accept(ctx, p.runtime.inst, version, by)
}

// PolicyText is the policy that decides in sessions that begin now, as it is written: its
// file, which is empty for the shipped one, its text and its version.
func (p Policies) PolicyText() (file, text, version string, err error) {
	return acceptance.InForce(p.runtime.inst)
}

// AuditRoot is the folder of the audit chains.
func (p Policies) AuditRoot() string { return p.runtime.inst.AuditRoot() }

// VerifyAudit verifies one session's chains, or all that the index knows. An
// installation that had no session yet has nothing to verify.
func (r *Runtime) VerifyAudit(session nacre.SessionID) ([]audit.Report, error) {
	return doctor.VerifyAudit(r.inst, session)
}

// FollowEvents calls each, one call at a time, with the events of every nacre serve that runs now, as they
// happen. Prefixes of topics say which (D-32). It returns nil when the last of them has ended, and the error of
// each where it returns one. Without a nacre serve it is [NotReady].
func (r *Runtime) FollowEvents(ctx context.Context, prefixes []string, each func(plugin.Envelope) error) error {
	return endpoints.Follow(ctx, r.inst, prefixes, each)
}

// Exec runs the command and returns when it and everything it started is gone.
func (r *Runtime) Exec(ctx context.Context, e Exec) (ExecResult, error) {
	return command.Run(ctx, r.inst, e, command.Program{Kind: command.KindExec, Caches: caches, Skills: skills})
}

// Explain says what a run of a group on a project would be able to do.
func (r *Runtime) Explain(ctx context.Context, run Run) (Explanation, error) {
	return explain.Run(ctx, r.inst, explain.Asked{Project: run.Project, Group: run.Group, Task: run.Task, Egress: run.Egress, Limits: run.Limits})
}

// Revoke refuses, from now on and in every process, what is named: a grant by
// its id, all calls of a session as "group/session", or all of a group (K-12).
// span is after how long a group or a session is let in again; zero is never.
// A session by its id alone, or under another group than its own, is an error:
// nothing of it would be refused.
func (r *Runtime) Revoke(what string, span time.Duration) (Revoked, error) {
	return operator.Revoke(r.inst, what, span)
}

// RotateGrantKey makes a new key sign grants, and returns its id. What the last
// one signed stays good until its own end.
func (r *Runtime) RotateGrantKey() (string, error) {
	return operator.RotateGrantKey(r.inst)
}

// Verify judges a work tree and lands nothing. Commands run sealed, in a session
// that is opened where there is one to run.
func (r *Runtime) Verify(ctx context.Context, v Verification) (Verdict, error) {
	return work.VerifyWork(ctx, r.inst, v)
}

// Decide keeps what a person decided of a run that has ended, with a record in
// a chain of its own (M-50). ref is an agent's id, for its latest run, or a DNA.
func (r *Runtime) Decide(ctx context.Context, ref string, held bool, who string, reason string) error {
	return work.DecideWork(ctx, r.inst, ref, held, who, reason)
}

// MemorySettings reads [plugins.memory]. Every error is a [*ConfigError].
func (r *Runtime) MemorySettings() (MemorySettings, error) {
	return r.inst.MemorySettings()
}

// MarkMemory names an entry's content by a digest under the installation's keys.
func (r *Runtime) MarkMemory(id string, content string, why string) MemoryMark {
	return operator.MarkMemory(r.inst, id, content, why)
}

// ChangeMemory does what an operator does to a group's memory: what it is and
// which entries it concerns is durably recorded first, and then that it was done. Whoever
// has no right to that is refused (M-41).
func (r *Runtime) ChangeMemory(ctx context.Context, group nacre.Group, what string, who string, marks []MemoryMark, do func() error) error {
	if err := cockpit.Decides(r.inst, r.by, "memory", group); err != nil {
		return err
	}
	return operator.ChangeMemory(ctx, r.inst, operator.MemoryChange{Group: group, What: what, Who: who, Marks: marks}, do)
}

// Memories are entries of a group's memory, the latest first, of those that wait for a review
// or of all; none where the group has no memory yet.
func Memories(ctx context.Context, r *Runtime, group nacre.Group, waiting bool, most int) ([]MemoryEntry, error) {
	return review.List(ctx, r.inst, group, waiting, most)
}

// OpenMemory opens a group's memory, which is made where there is none. warn is told what the
// operator should know. Whoever opens it closes it.
func OpenMemory(ctx context.Context, r *Runtime, group nacre.Group, warn func(string)) (*GroupMemory, error) {
	return r.inst.OpenMemory(ctx, group, warn)
}

// HasMemory tells whether a group has a memory.
func HasMemory(ctx context.Context, r *Runtime, group nacre.Group) (bool, error) {
	return installation.HasMemory(ctx, r.inst, group)
}

// MemoryGroups are the groups that have a memory, sorted.
func MemoryGroups(ctx context.Context, r *Runtime) ([]nacre.Group, error) {
	return installation.MemoryGroups(ctx, r.inst)
}

// TrustMemory vouches for an entry of a group's memory, or declines it, where the person has
// the right to.
func TrustMemory(ctx context.Context, r *Runtime, group nacre.Group, id string, trusted bool) error {
	if err := cockpit.Decides(r.inst, r.by, string(person.Memory), group); err != nil {
		return err
	}
	return review.Decide(ctx, r.inst, review.Decision{Group: group, ID: id, Trusted: trusted, Who: string(r.by)})
}

// OpenEgress is what sessions that begin now may reach by the config and by what was learned.
func OpenEgress(r *Runtime) ([]string, error) {
	now, err := access.EgressAt(r.inst, r.inst.Options.Now())
	if err != nil {
		return nil, err
	}
	rules, err := now.Rules(nil)
	open := make([]string, 0, len(rules))
	for _, rule := range rules {
		open = append(open, rule.String())
	}
	return open, err
}

// VerifyPlugin asks one plugin whether it can work with what it was given. It finds nothing where the plugin
// does not verify itself, or still lacks something.
func VerifyPlugin(ctx context.Context, r *Runtime, name nacre.PluginName) ([]Finding, error) {
	return pluginadmin.VerifyPlugin(ctx, r.inst, name)
}

// ReadAudit gives each record of a session's latest work to fn, in order.
func (r *Runtime) ReadAudit(session nacre.SessionID, fn func(audit.Entry) error) error {
	return receipt.ReadAudit(r.inst, session, fn)
}

// Run lets an agent work on a project, sealed, and lands what was verified.
func (r *Runtime) Run(ctx context.Context, run Run) (Report, error) {
	return work.Do(ctx, r.inst, run)
}

// Serve runs channels, schedules and the event bus until ctx ends, and starts
// agents for what comes in (D-32 to D-36). At the end no new work is taken, what
// runs is told to end, and plugins are drained (D-24).
func (r *Runtime) Serve(ctx context.Context, o Serve) error {
	attend := func(ctx context.Context, v conversation.Request, shared *hosting.Shared) (conversation.Result, error) {
		return converse.Attend(ctx, r.inst, v, shared, Asking{}) // its questions wait until somebody decides
	}
	o.Cards = cockpit.NewChats(r.inst, func(ctx context.Context) ([]Waiting, error) { return Everything(ctx, r) })
	carry := func(ctx context.Context, lost operator.KeptRun) (nacre.SessionID, string, error) {
		report, err := work.Carry(ctx, r.inst, lost, work.Telling{Progress: func(nacre.Step) {}}) // its chain has the records
		return report.Session, report.Outcome(), err
	}
	return serve.Run(ctx, r.inst, attend, serve.Lost{Carry: carry, TakeBack: leasing.OthersOf(r.inst).TakenBack}, o)
}

// Rest keeps what a program that waits has in memory to what waiting takes, until end is called.
func Rest(ctx context.Context) (end func()) { return idle.Rest(ctx) }

// AccountOf accounts for the work that a name means: a session's latest, or that of a row of
// the ledger.
func AccountOf(ctx context.Context, r *Runtime, name string) (*Account, error) {
	return account.Of(ctx, r.inst, name)
}

// Say tells an agent what a person typed at their terminal, and waits for its answer.
func Say(ctx context.Context, r *Runtime, s Saying) (Said, error) {
	return converse.Say(ctx, r.inst, s)
}

// Sessions are all sessions, the newest first: with an error, those that can be read.
func (r *Runtime) Sessions() ([]nacre.SessionStatus, error) {
	return operator.Sessions(r.inst)
}

// LiveSessions are the sessions at work, the newest first: with an error, those that can be
// read. It reads no others.
func LiveSessions(r *Runtime) ([]nacre.SessionStatus, error) { return operator.Live(r.inst) }

// SessionsOver is a part of the sessions that are over, the newest first: at most so many, from a place in the
// list on. next is the place behind them, or 0 at the end. It reads no others.
func SessionsOver(r *Runtime, from, most int) (page []nacre.SessionStatus, next int, err error) {
	return operator.Over(r.inst, from, most)
}

// Session is one session.
func (r *Runtime) Session(id nacre.SessionID) (nacre.SessionStatus, error) {
	return operator.SessionNamed(r.inst, id)
}

// Stop ends everything that runs in a session that another process holds, and
// returns when it is gone. Of a session whose process is gone it ends what that
// left; nothing of it runs then either.
// killed is told what a session left whose process was killed.
func (r *Runtime) Stop(ctx context.Context, id nacre.SessionID, killed func(Killed)) (nacre.SessionStatus, error) {
	return operator.Stop(ctx, r.inst, id, killed)
}

// SettleRuns completes what runs left whose process was killed: landings, rows of the ledger and chains. It
// gives runs and visits their rows, and says in the ledger which work a person has merged since. The errors name
// those that could not be completed.
func SettleRuns(ctx context.Context, r *Runtime) error {
	return errors.Join(operator.SettleRuns(ctx, r.inst), receipt.EnterRows(ctx, r.inst, serve.Unfinished), leftover.SettleMerged(ctx, r.inst))
}

// GiveUp ends the unfinished work of a session for good. who is recorded as the person
// who gave it up; killed is told what a session left whose process was killed.
func GiveUp(ctx context.Context, r *Runtime, id nacre.SessionID, who string, killed func(Killed)) error {
	return operator.GiveUp(ctx, r.inst, id, who, killed)
}

// ListSessions is all sessions, the newest first, with the room that they take: with an
// error, those that can be read.
func ListSessions(ctx context.Context, r *Runtime) ([]ListedSession, error) {
	return leftover.List(ctx, r.inst)
}

// Overview is one page about a session: with an error, what could be read.
func Overview(r *Runtime, id nacre.SessionID) (Page, error) { return overview.Of(r.inst, id) }

// ReceiptOf is the file of a session's receipt; empty where it has none.
func ReceiptOf(r *Runtime, id nacre.SessionID) string { return overview.Receipt(r.inst, id) }

// OverviewStamp is another one as soon as [Overview] or [Runtime.VerifyAudit] may say
// something else of a session. It is read in no time.
func OverviewStamp(r *Runtime, id nacre.SessionID) (string, error) { return overview.Stamp(r.inst, id) }

// CostOf is what the latest work of a session cost in millionths of a dollar, where it left
// a result.
func CostOf(r *Runtime, id nacre.SessionID) (micro int64, known bool) {
	return overview.Cost(r.inst, id)
}

// WebAddress is the port of the page of nacre web, 0 for any, and the names under which the
// operator's own TLS brings browsers to it.
func WebAddress(r *Runtime) (port uint16, hosts []string) {
	return r.inst.Config.Web.Port, r.inst.Config.Web.Hosts
}

// ClaimPort says, until ctx ends, that nacre listens on a port of this machine, which no
// session reaches then.
func ClaimPort(ctx context.Context, r *Runtime, port uint16) error {
	return r.inst.Registry.Paths().ClaimPort(ctx, port)
}

// StopFor tells a live session to end what runs in it, for the person behind an identity.
func StopFor(ctx context.Context, r *Runtime, id nacre.SessionID, identity string) error {
	return cockpit.Stop(ctx, r.inst, id, person.Identity(identity))
}

// TaskAgain is what a session's run was asked for, as a run of its own on a fresh clone.
func TaskAgain(r *Runtime, session nacre.SessionID) (Run, error) { return work.Again(r.inst, session) }

// Learn proposes what the sessions asked for and were refused; those that began last where
// none is named. It changes nothing.
func Learn(r *Runtime, sessions []nacre.SessionID) (Proposal, error) {
	return learn.Look(r.inst, sessions)
}

// ApproveLearned writes what a person chose of a proposal to the operator's config.
// Sessions that begin from then on are let through by it.
func ApproveLearned(ctx context.Context, r *Runtime, p Proposal, c LearnChoice) (Learned, error) {
	if err := cockpit.Decides(r.inst, r.by, "learn", ""); err != nil {
		return Learned{}, err
	}
	return learn.Approve(ctx, r.inst, p, c)
}

// UndoLearned takes an approval back, the latest where id is empty.
func UndoLearned(ctx context.Context, r *Runtime, id string) (Learned, error) {
	if err := cockpit.Known(r.inst, r.by); err != nil {
		return Learned{}, err
	}
	return learn.Undo(ctx, r.inst, id)
}

// Powers are what runs may be let reach under a name, and where each stands (M-51).
func Powers(ctx context.Context, r *Runtime) ([]PowerStanding, error) {
	return graduation.Standings(ctx, r.inst)
}

// UnlockPower lets runs have a power that is proposed, for a time, where the person has the
// right to decide that.
func UnlockPower(ctx context.Context, r *Runtime, name, who string, long time.Duration) (Learned, error) {
	if err := cockpit.Decides(r.inst, r.by, string(person.Graduation), ""); err != nil {
		return Learned{}, err
	}
	return graduation.Unlock(ctx, r.inst, name, who, long)
}

// LockPower takes a power back, and what spoke for it.
func LockPower(ctx context.Context, r *Runtime, name, who string) error {
	if err := cockpit.Known(r.inst, r.by); err != nil {
		return err
	}
	return graduation.Lock(ctx, r.inst, name, who)
}

// AllLearned are the approvals, the latest last.
func AllLearned(r *Runtime) ([]Learned, error) { return learn.All(r.inst) }

// FollowAudit gives each record of a session's latest work to fn, in order and as it is
// written, until the session is over or ctx ends.
func FollowAudit(ctx context.Context, r *Runtime, session nacre.SessionID, fn func(audit.Entry) error) error {
	return receipt.FollowAudit(ctx, r.inst, session, fn)
}

// OpenEventLog opens what a session keeps of what it tells the person before it: without
// secrets, for the terminals that come later (U-10, U-23).
func OpenEventLog(r *Runtime, id nacre.SessionID) (*EventLog, error) {
	return eventlog.Open(r.inst.Registry.Paths().Events(id), eventlog.Options{
		Now: r.inst.Options.Now,
		Clean: func(document []byte) []byte {
			clean, _ := installation.RedactJSON(r.inst, document)
			return clean
		},
	})
}

// ReadEventLog gives what a session told to each, in order. With follow it goes on until
// the session's process is gone or ctx ends.
func ReadEventLog(ctx context.Context, r *Runtime, id nacre.SessionID, follow bool, each func(LoggedEvent) error) error {
	return eventlog.Read(ctx, r.inst.Registry.Paths().Events(id), follow, each)
}

// NewestEvent is the newest event of these names that a session told, if there is one.
func NewestEvent(r *Runtime, id nacre.SessionID, names ...string) (LoggedEvent, bool) {
	return eventlog.Newest(r.inst.Registry.Paths().Events(id), names...)
}

// LastEvents are the newest events of these names that a session told, at most n, in their
// order.
func LastEvents(r *Runtime, id nacre.SessionID, n int, names ...string) []LoggedEvent {
	return eventlog.Last(r.inst.Registry.Paths().Events(id), n, names...)
}

// QuestionsOf are the questions that wait in a session.
func QuestionsOf(ctx context.Context, r *Runtime, id nacre.SessionID) ([]nacre.Question, error) {
	return cockpit.QuestionsOf(ctx, r.inst, id)
}

// LeftoverOf reads the work of a session that did not land. killed is told what a session
// left whose process was killed.
func LeftoverOf(ctx context.Context, r *Runtime, id nacre.SessionID, killed func(Killed)) (Leftover, error) {
	return leftover.Look(ctx, r.inst, id, killed)
}

// TakeLeftover puts work that did not land where a person wants it.
func TakeLeftover(ctx context.Context, r *Runtime, t Taking) (TakenLeftover, error) {
	if t.Held == leftover.HeldTake || r.by.Face() != person.Terminal {
		if err := mayLand(r, t); err != nil {
			return TakenLeftover{}, err
		}
	}
	return leftover.Take(ctx, r.inst, t)
}

// mayLand refuses whoever may not decide what lands. In a terminal that is asked for what the host
// obeys alone: git would do the rest for whoever sits there.
func mayLand(r *Runtime, t Taking) error {
	known, _ := r.inst.Registry.Show(t.Session) // a session that is not known is nobody's to take, which is said later
	return cockpit.Decides(r.inst, r.by, string(person.Landing), known.Group)
}

// SignCommits signs what a session left on a branch of its own, once a person said so.
func SignCommits(ctx context.Context, r *Runtime, s Signing) (SignedCommits, error) {
	return leftover.Sign(ctx, r.inst, s)
}

// DiscardLeftover throws work away that did not land, and ends it for good.
func DiscardLeftover(ctx context.Context, r *Runtime, t Taking) error {
	if r.by.Face() != person.Terminal {
		if err := mayLand(r, t); err != nil {
			return err
		}
	}
	return leftover.Discard(ctx, r.inst, t)
}

// RemoveSession removes a session with all that it left but its records, its receipt and
// its row in the ledger.
func RemoveSession(ctx context.Context, r *Runtime, id nacre.SessionID, killed func(Killed)) error {
	return leftover.Remove(ctx, r.inst, id, killed)
}

// PruneSessions removes old sessions, and none with work that did not land.
func PruneSessions(ctx context.Context, r *Runtime, rule PruneRule) (Pruned, error) {
	return leftover.Prune(ctx, r.inst, rule)
}

// RetainSessions removes old sessions as [retention] says, once a day.
func RetainSessions(ctx context.Context, r *Runtime) (Pruned, error) {
	return leftover.Retain(ctx, r.inst)
}

// Retention is what the config says of old sessions, as a rule. ok tells whether it says
// anything.
func Retention(r *Runtime) (rule PruneRule, ok bool) {
	kept := r.inst.Config.Retention
	age, err := kept.Age()
	return PruneRule{Older: age, Keep: kept.Keep}, err == nil && kept.IsSet()
}

// Interrupted lists the sessions whose process was killed, and whose chains the
// next start will seal.
func (r *Runtime) Interrupted() ([]nacre.SessionID, error) {
	return operator.Interrupted(r.inst)
}

// Approvals are the questions that wait for a person, in all live sessions: with an
// error, those of the sessions that can be read.
func (r *Runtime) Approvals(ctx context.Context) ([]nacre.Question, error) {
	return cockpit.Questions(ctx, r.inst)
}

// Operators are the persons who may decide now.
func Operators(r *Runtime) ([]Operator, error) { return cockpit.Operators(r.inst) }

// OpenPairing lets an identity of a service be paired with an operator until a moment.
func OpenPairing(ctx context.Context, r *Runtime, operator string) (time.Time, error) {
	return cockpit.OpenPairing(ctx, r.inst, operator)
}

// Pair makes the identity that was shown a code the operator's, and says which it is.
func Pair(ctx context.Context, r *Runtime, operator, code string) (identity string, err error) {
	return cockpit.Pair(ctx, r.inst, operator, code)
}

// Answer decides the one waiting question that a press names, within the rights of the
// person who pressed.
func (r *Runtime) Answer(ctx context.Context, p nacre.Press) (nacre.Pressed, error) {
	return cockpit.Press(ctx, r.inst, p)
}

// Survey is what this machine and a project bring along, and what config.toml would say of it (U-31). These
// checks verify a run, by default the project's own, and sessions may reach these bundles of hosts.
func Survey(ctx context.Context, r *Runtime, project string, checks, allow []string) (SurveyFound, error) {
	found := SurveyFound{Agents: survey.Agents(ctx, agent.Brains(r.inst, "")), Languages: survey.Languages(project)}
	found.Checks = survey.Checks(project, found.Languages)
	var err error
	found.Proposal, err = survey.Propose(r.inst.Registry.Paths().Config, r.inst.Config, checks, allow, found)
	return found, err
}
