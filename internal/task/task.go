// Package task is one run from its task to its receipt: compose, open,
// converse, verify, merge, record. Run is that walk, top to bottom. Each stage
// is a step of a durable workflow, so a run that was killed goes on where it
// was, and what was verified is what lands (S-12).
//
// It knows no provider, opens no socket and starts no process itself: it is
// handed a session, a brain and the functions that launch and check.
package task

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/engine"
	"github.com/nacre-dev/nacre/internal/redact"
	"github.com/nacre-dev/nacre/internal/verify"
)

// maxOpenings is how often a run's work is gone on with. Each time is a person's
// own command, and each stage that a task is left at is one: it bounds nothing
// but a loop that nobody watches.
const maxOpenings = 1000

// TimedOut is what nacre.RunResult.Brain says where the time limit ended the agent.
const TimedOut = "its time limit ended it"

// workflowName is kept in the engine's database: it must not change.
const workflowName = "run"

// Spec is what a run was asked to do. It is kept with the session, so that a
// run which goes on does the same work.
type Spec struct {
	Task    string `json:"task"`
	Project string `json:"project"`
	Brain   string `json:"brain"`
	Model   string `json:"model,omitempty"`
	// Checks decide whether the work counts; they come from the operator.
	Checks []string `json:"checks"`
	Reach
	// Recording is what the replay brain plays: the file's path on the host.
	Recording string `json:"recording,omitempty"`
	MaxTurns  int    `json:"max_turns,omitempty"`
	// Tries is how often the agent may work until its checks hold; 0 means once.
	Tries int `json:"tries,omitempty"`
	// Order is the task of the substrate that the run carries out; nil for a
	// run that has only its text.
	Order *Order `json:"order,omitempty"`
	// Audited is the work that the run reads and judges; nil for other runs. It
	// lands nothing.
	Audited *Audited `json:"audited,omitempty"`
	// Held is what becomes of changes that programs of the host obey.
	Held Held `json:"held,omitempty"`
	// Budget is what the work may cost, in millionths of a dollar; 0 leaves it to the config.
	Budget int64 `json:"budget_microusd,omitempty"`
	Origin
	Files
}

// Origin is where a run comes from, where that is not a person at this machine.
type Origin struct {
	// Parent is the session whose agent asked for the work; empty where a person did. Nobody
	// goes on with it when that has ended (M-69).
	Parent nacre.SessionID `json:"parent,omitempty"`
	// Carried is how far the work had come on another machine, which is lost; nil where it began here.
	Carried *Carried `json:"carried,omitempty"`
}

// Reach is what a person lets a run reach, beyond the config.
type Reach struct {
	Egress []string `json:"egress,omitempty"`
	// Powers are those that a person gives this run alone, and PowerHosts what they reach (M-51).
	Powers     []string `json:"powers,omitempty"`
	PowerHosts []string `json:"power_hosts,omitempty"`
}

// Files are those of a project that a run treats in a way of their own.
type Files struct {
	// Own are paths below the project that no change may touch: nacre's own.
	Own []string `json:"own,omitempty"`
	// Dirty lets the agent work on the user's uncommitted edits as well.
	Dirty bool `json:"dirty,omitempty"`
}

// Words are what was asked for, as the operator wrote it.
func (s Spec) Words() string {
	if s.Order != nil {
		return s.Order.Body
	}
	return s.Task
}

// WithoutSecrets is an operator's own text as it is shown and recorded: personal data in it
// stays.
func WithoutSecrets(text string) string {
	clean, _ := redact.Naming{Name: func(_, value string) (string, bool) { return value, true }}.String(text)
	return clean
}

// NothingChanged says why the result of a run does not land that left the files as they were.
const NothingChanged = "nothing was changed"

// NoCheck says why the result of an [Spec.Unverified] run does not land.
const NoCheck = "no check was named, so nothing is verified: add --check COMMAND"

// Unverified tells whether neither a check nor an atom of the order verifies what
// comes back: then nothing of it lands.
func (s Spec) Unverified() bool {
	return len(s.Checks) == 0 && (s.Order == nil || !slices.ContainsFunc(s.Order.Atoms, func(a atom.Atom) bool { return a.Verify.Handler != "" }))
}

// Parts are what a run works with. All are required but those that say so.
type Parts struct {
	Session Session
	Kept    Kept
	Starting
	Judging
	// Spent is what the model gateway has metered so far, in millionths of a dollar.
	Spent    func() int64
	Progress func(nacre.Step)
	// Notify asks a person whether a run with an order goes on whose call was refused.
	Notify func(ctx context.Context, refusal string) error
	Merging
	// Account keeps what became of the run, and of each try before that did not hold. It may be called
	// again after a crash.
	Account func(ctx context.Context, result nacre.RunResult, before []nacre.RunResult) error
	// MayLand says why a verified tree must not land yet; empty means that it may.
	MayLand func(tree string) (why string)
	// Until is how far this opening goes, and Paused is told where it stands
	// when it goes no further.
	Until  nacre.Stage
	Paused func(nacre.RunResult)
	// Observe, where set, is given the brain's texts as they came, unredacted.
	Observe func(text string)
	Redact  *redact.Engine
	Now     func() time.Time
}

// Starting is the brain, and how it is started.
type Starting struct {
	Brain brain.Brain
	Turn  brain.Turn
	// Launch starts the brain sealed, with project as its work tree.
	Launch func(ctx context.Context, l brain.Launch, project Workspace) (Agent, error)
	// TimedOut reports whether the time limit ended the brain that Launch gave last.
	TimedOut func() bool
}

// Judging is how the work is judged.
type Judging struct {
	// Check runs a command sealed, without egress or sockets, in a fresh sandbox over
	// the code, in which modules are shown.
	Check func(ctx context.Context, code Workspace, command string, modules []verify.Module) (nacre.CheckResult, error)
	// Fetch fetches dependencies for checks; nil fetches none.
	Fetch verify.Fetcher
	// Judge holds the work of a run with an order against atoms.
	Judge func(ctx context.Context, s verify.Subject, atoms []atom.Atom) (verify.Report, error)
}

// Session is the sealed session that a run works in.
type Session struct {
	Opened
	// Recorder writes to its chain.
	Recorder nacre.Recorder
	// Interrupted is closed when what the session does is told to end.
	Interrupted <-chan struct{}
	// Heed tells of calls that policy refused, and holds back what leaves the session until
	// thaw was called, or leave.
	Heed func(refused func(reason string, thaw func())) (leave func())
}

// Opened is a session that somebody holds open.
type Opened interface {
	ID() nacre.SessionID
	// Work names the durable workflow, and Dir is a folder of the session's alone.
	Work() string
	Dir() string
	// Context ends when the session is stopped, which Stop does.
	Context() context.Context
	Stop(why error)
}

// Merging is how a run's work meets that of others.
type Merging struct {
	// Queue waits until no other run merges into the project; leave ends that.
	Queue func(ctx context.Context) (leave func(), err error)
	// Delegated, where it is set, tells whether sub-agents have landed a part of the work
	// (M-69). What the agent returns is then verified on top of theirs.
	Delegated func() bool
}

// Kept are the places of what outlives a run.
type Kept struct {
	// Engine is the database of durable work.
	Engine string
	// Bases is where the bases of commits are that stages are layers over; empty makes
	// a whole copy for each.
	Bases string
	// Aside keeps how far the work came where other machines find it, with the snapshot of the agent's
	// files. Nil keeps it on this machine alone.
	Aside func(ctx context.Context, at Reached, pack []byte) error
}

// Workspace is the files that a stage works on.
type Workspace struct {
	// Dir has them; where Base is set it keeps what is written over those of Base.
	Dir  string
	Base string
}

// run is one execution of a run's workflow.
type run struct {
	*opening
	// skipped are paths of the agent's work that cannot land.
	skipped []string
	// ground is what this opening's stages are layers over.
	ground ground
	// talked says that a conversation of this opening has come to its end, so that its
	// files are as it left them.
	talked bool
	// untouched says that this opening has made the agent's clone, and that nobody
	// has worked on it.
	untouched bool
	// before are the tries whose work did not hold, and which another followed.
	before []nacre.RunResult
}

// Run carries the session's work out, or on where it was interrupted.
func Run(ctx context.Context, parts Parts, spec Spec) (nacre.RunResult, error) {
	workflows := map[string]engine.Workflow{
		workflowName: func(w *engine.Run, _ json.RawMessage) (json.RawMessage, error) {
			r := &run{opening: &opening{Parts: parts, spec: spec, w: w}, ground: ground{dir: parts.Kept.Bases}}
			result, err := r.walk()
			if err = errors.Join(err, r.ground.release()); err != nil {
				return nil, err
			}
			return json.Marshal(result)
		},
	}
	e, err := engine.Open(ctx, engine.Options{Path: parts.Kept.Engine, Executor: string(parts.Session.ID()), Attempts: maxOpenings}, workflows)
	if err != nil {
		return nacre.RunResult{}, err
	}
	if err := begunBefore(ctx, e, parts.Session); err != nil {
		return nacre.RunResult{}, errors.Join(err, e.Close())
	}
	result, err := await[nacre.RunResult](ctx, e, parts.Session, workflowName)
	return result, errors.Join(err, e.Close())
}

// EndedError says that the durable engine has ended the work without a result:
// whoever goes on with it is told the same again.
type EndedError struct{ Reason string }

func (e *EndedError) Error() string { return e.Reason }

// await starts the work, or attaches to it, and waits. When the session is stopped, which work that
// was carried on may do before Start returns, it returns why at once. Closing the engine then
// interrupts the work without ending it, so that it can go on later.
func await[T any](ctx context.Context, e *engine.Engine, s Session, workflow string) (T, error) {
	var result T
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(s.Context(), func() { cancel(context.Cause(s.Context())) })
	defer stop()
	err := e.Start(ctx, s.Work(), workflow, json.RawMessage("{}"))
	var raw json.RawMessage
	if err == nil {
		raw, err = e.Wait(ctx, s.Work())
	}
	var failure *engine.Failure
	switch {
	case ctx.Err() != nil:
		return result, context.Cause(ctx)
	case errors.As(err, &failure):
		return result, &EndedError{failure.Message}
	case errors.Is(err, engine.ErrAttempts), errors.Is(err, engine.ErrCancelled):
		return result, &EndedError{err.Error()}
	case err != nil:
		return result, err
	}
	return result, json.Unmarshal(raw, &result)
}

// walk is the whole of a run.
func (r *run) walk() (nacre.RunResult, error) {
	base, err := step(r.opening, "clone", r.clone)
	if err != nil {
		return nacre.RunResult{}, err
	}
	result := nacre.RunResult{RunWork: nacre.RunWork{Base: base.Commit, Branch: base.Branch}}
	if over, err := r.work(base, &result); err != nil || over {
		if err != nil {
			return nacre.RunResult{}, err
		}
		return r.finish(result)
	}
	if len(result.Changes) == 0 {
		result.Delivered = true
		return r.finish(result)
	}
	if err := (&merger{run: r, base: base, result: &result}).merge(); err != nil {
		return nacre.RunResult{}, err
	}
	return r.finish(result)
}

// refuse says why there is nothing to verify or land.
func (r *run) refuse(result *nacre.RunResult, talk conversation, work worktree) string {
	if r.spec.Order != nil && r.spec.Order.Escalation == AskViaReturn {
		result.Question = question(talk.Report)
	}
	switch {
	case talk.Denied != "":
		return "a call was refused, and " + talk.Denied
	case result.Brain != endedWell:
		return "the agent did not finish: " + result.Brain
	case result.Question != "":
		return "the agent asks: " + result.Question
	case r.spec.Audited != nil && len(result.Changes) > 0:
		return "the auditor changed files"
	case work.Refused != "":
		return work.Refused
	case len(result.Changes) == 0 && !r.readsOnly() && !talk.Delegated:
		return NothingChanged
	case r.spec.Unverified():
		return NoCheck
	}
	return ""
}

// readsOnly tells whether the order's atoms let nothing be written.
func (r *run) readsOnly() bool {
	return r.spec.Order != nil && slices.ContainsFunc(r.spec.Order.Atoms, func(a atom.Atom) bool { return a.OS.Confined && len(a.OS.Writable) == 0 })
}

// finish records the outcome.
func (r *run) finish(result nacre.RunResult) (nacre.RunResult, error) {
	result.Cost = r.Spent()
	return step(r.opening, "record", func(ctx context.Context) (nacre.RunResult, error) {
		outcome := "not landed"
		switch {
		case result.Landed:
			outcome = "landed"
		case result.Delivered:
			outcome = "delivered"
		}
		detail := map[string]any{"base": result.Base, "tree": result.Tree, "commit": result.Commit, "files": len(result.Changes), "cost_microusd": result.Cost}
		if err := r.record(ctx, nacre.Record{Kind: nacre.KindOutcome, Outcome: outcome, Reason: result.Reason}, detail); err != nil {
			return nacre.RunResult{}, err
		}
		return result, r.Account(ctx, result, r.before)
	})
}

func short(commit string) string { return commit[:min(7, len(commit))] }
