package task

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/guard"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/report"
	"github.com/nacre-dev/nacre/internal/verify"
)

// Order is a task of the substrate as it was pinned when it was spawned: later
// edits of its files change nothing (S-09).
type Order struct {
	// Agent and Parent are the task's own names; Role is what it may do.
	Agent  string `json:"agent"`
	Parent string `json:"parent,omitempty"`
	Role   string `json:"role"`
	// Body is what was asked for, in the words of whoever wrote the task.
	Body string `json:"body"`
	// Task is the task in its canonical form, SpecSHA its digest, and DNA the
	// name of this run of it.
	Task    string `json:"task"`
	SpecSHA string `json:"spec_sha"`
	DNA     string `json:"dna"`
	// Parameters and Atoms are what gates, sandbox and verifiers hold it against.
	Parameters atom.Parameters `json:"parameters"`
	Atoms      []atom.Atom     `json:"atoms"`
	Gates      guard.Set       `json:"gates"`
	Escalation Escalation      `json:"escalation"`
}

// Escalation says what a refused call does to its run (S-18). The zero value
// lets the agent go on with what it may do.
type Escalation string

// The escalations.
const (
	// FailFast ends the run at the first refusal.
	FailFast Escalation = "fail-fast"
	// AskViaReturn lets the agent return a question instead of work.
	AskViaReturn Escalation = "ask-via-return"
	// Notify tells a person at once, and the run waits for the answer.
	Notify Escalation = "orchestrator-notify"
)

// ErrPaused is why a session's work stops at the stage that was asked for.
var ErrPaused = errors.New("the task was carried as far as it was asked to be")

// pause leaves the work at a stage, where this opening shall get no further.
// name is the step's own.
func (r *run) pause(name string, at nacre.Stage, result nacre.RunResult) error {
	_, err := step(r, name, func(context.Context) (struct{}, error) {
		if r.Until == at {
			r.Paused(result)
			r.Session.Stop(ErrPaused)
		}
		return struct{}{}, nil
	})
	return err
}

// hold stops the session where what was verified must not land: not yet, or not
// in this opening. The step that asks runs again when the session goes on.
func (r *run) hold(verified nacre.RunResult) bool {
	if r.Until == "" {
		verified.Reason = r.MayLand(verified.Tree)
	}
	if r.Until == "" && verified.Reason == "" {
		return false
	}
	r.Paused(verified)
	r.Session.Stop(ErrPaused)
	return true
}

// endedWell is how a conversation ends in which nothing failed.
const endedWell = "done"

// conversation is how the brain's turn ended.
type conversation struct {
	// Ended is "done", or the class of its failure.
	Ended string `json:"ended"`
	// Report is what the agent said last: a claim.
	Report string `json:"report,omitempty"`
	// Resume is what the brain's next turn goes on from.
	Resume string `json:"resume,omitempty"`
	// Denied says who or what ended the turn after a refusal, and which it was.
	Denied string `json:"denied,omitempty"`
	// Delegated says that sub-agents have landed a part of the work.
	Delegated bool `json:"delegated,omitempty"`
}

// maxReport is how much of what an agent says last is kept, in bytes.
const maxReport = 256 << 10

// errDenied ends a conversation whose role fails fast.
var errDenied = errors.New("a refused call ended the run")

// refused is told of a call that a gate refused, and returns when the agent may be told
// (M-65): the host knows of it, and has recorded it, whatever the brain says of it
// later. A role that notifies has the agent stopped while a person is asked.
func (r *run) refused(ctx context.Context, f guard.Refusal, p Agent, end context.CancelCauseFunc) {
	reason := r.clean(strings.TrimPrefix(f.Reason, guard.Prefix), excerptSize)
	record := nacre.Record{Kind: nacre.KindGateRefuse, Topic: r.clean(f.Tool, maxTool), Outcome: nacre.OutcomeDenied, Reason: reason}
	if f.Allowed != atom.Block {
		record.Kind, record.Outcome = nacre.KindGateWarn, nacre.OutcomeAllowed
	}
	// The recorder stops the session when the chain cannot be written.
	_ = r.append(ctx, record, nil)
	switch f.Allowed {
	case atom.Block:
		escalate(ctx, r, reason, p, end)
	case atom.Warn:
		r.Progress(nacre.Step{Kind: nacre.StepStage, Name: "escalation", Text: "a warning: " + reason})
	default: // what only advises is recorded
	}
}

// heed is told of the calls that the kernel refuses, before the agent is, whatever the
// brain says of them. Until a role that ends or asks for it has done so, nothing else
// leaves the session.
func heed(r *run, h *hearing, escalate func(reason string)) (leave func()) {
	if r.spec.Order == nil || r.spec.Order.Escalation != FailFast && r.spec.Order.Escalation != Notify {
		return func() {}
	}
	return r.Session.Heed(func(reason string, thaw func()) {
		if !h.enter() {
			thaw()
			return
		}
		go func() {
			defer h.leave()
			defer thaw()
			escalate(r.clean(reason, excerptSize))
		}()
	})
}

// escalate does what the role wants of a refused call.
func escalate(ctx context.Context, r *run, reason string, p Agent, end context.CancelCauseFunc) {
	why := ""
	switch r.spec.Order.Escalation {
	case FailFast:
		why = "the role fails fast"
	case Notify:
		err := r.denial.hold(ctx, p, func() error {
			r.Progress(nacre.Step{Kind: nacre.StepStage, Name: "escalation", Text: reason})
			return r.Notify(ctx, reason)
		})
		if err != nil {
			why = err.Error()
		}
	case AskViaReturn:
	}
	if why != "" {
		r.denial.set(why + ": " + reason)
		end(errDenied)
		_ = p.Kill() // Converse says what became of it
	}
}

// maxTool is how much of a tool's name is kept, in bytes.
const maxTool = 80

// hold stops an agent while a person is asked whether the run goes on, and says why it
// does not. Runs ask one question after the other.
func (d *denial) hold(ctx context.Context, p Agent, ask func() error) error {
	d.asking.Lock()
	defer d.asking.Unlock()
	if ctx.Err() != nil {
		return nil // it has ended
	}
	if err := p.Freeze(); err != nil {
		return err
	}
	switch err := ask(); {
	case errors.Is(err, context.Canceled): // nobody ended the run: it is interrupted, and asks again when it goes on
		return nil
	case err != nil:
		return err
	}
	return p.Thaw()
}

// Agent is a brain's program, which can be stopped for a while.
type Agent interface {
	brain.Process
	// Freeze stops every process of it until Thaw.
	Freeze() error
	Thaw() error
}

// hearing are the refusals that are heard while a conversation goes on.
type hearing struct {
	mu    sync.Mutex
	over  bool
	heard sync.WaitGroup
}

// enter reports whether the conversation still goes on; leave follows where it does.
func (h *hearing) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return false
	}
	h.heard.Add(1)
	return true
}

func (h *hearing) leave() { h.heard.Done() }

// close lets none in any more, and waits for those that are heard.
func (h *hearing) close() {
	h.mu.Lock()
	h.over = true
	h.mu.Unlock()
	h.heard.Wait()
}

// denial is the refusal that ended a conversation.
type denial struct {
	asking sync.Mutex // held while a person is asked
	mu     sync.Mutex
	why    string
}

// set keeps the first.
func (d *denial) set(why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.why = cmp.Or(d.why, why)
}

// take gives what was kept.
func (d *denial) take() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	why := d.why
	d.why = ""
	return why
}

// question is what an agent asks instead of returning work: a field of that
// name in its report. What its strict reader refuses may ask all the same.
func question(said string) string {
	if asked := report.Question([]byte(said)); asked != "" {
		return asked
	}
	text := strings.TrimSpace(said)
	var fields struct {
		Question string `json:"question"`
	}
	if json.Unmarshal([]byte(text), &fields) == nil {
		return strings.TrimSpace(fields.Question)
	}
	front, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return ""
	}
	front, _, ok = strings.Cut(front, "\n---")
	if !ok {
		return ""
	}
	for line := range strings.SplitSeq(front, "\n") {
		if value, ok := strings.CutPrefix(line, "question:"); ok {
			return strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return ""
}

// verification is what was found of one tree.
type verification struct {
	Checks []nacre.CheckResult `json:"checks"`
	Atoms  []nacre.AtomResult  `json:"atoms,omitempty"`
	// Conflict is why there was no tree to hold against anything.
	Conflict string `json:"conflict,omitempty"`
}

// failed says what did not hold, in a line.
func (v verification) failed() string {
	if v.Conflict != "" {
		return v.Conflict
	}
	if failed := failedCheck(v.Checks); failed != "" {
		return failed
	}
	var all []string
	for _, a := range v.Atoms {
		if !a.Passed {
			all = append(all, a.Capability+": "+a.Reason)
		}
	}
	return strings.Join(all, "; ")
}

// strength is that of the weakest verdict on what the work does; empty where
// nothing judged that (M-50).
func (v verification) strength() string {
	found := ""
	weaken := func(s string) {
		if s != verify.Strong {
			s = verify.Weak
		}
		if found != verify.Weak {
			found = s
		}
	}
	for _, c := range v.Checks {
		weaken(c.Strength)
	}
	for _, a := range v.Atoms {
		if strings.HasPrefix(a.Capability, "quality::") && a.Strength != "" {
			weaken(a.Strength)
		}
	}
	return found
}

// judge holds a tree against the order's atoms, from two clean checkouts: the
// commit it builds on, and the tree itself (S-14).
func (r *run) judge(ctx context.Context, project *repo.Project, on repo.Commit, s verify.Subject, tree string) ([]nacre.AtomResult, error) {
	order := r.spec.Order
	if order == nil {
		return nil, nil
	}
	base, err := project.TreeOf(ctx, on)
	if err != nil {
		return nil, err
	}
	changes, err := project.Changes(ctx, base, repo.Tree(tree))
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(r.Session.Dir(), JudgeDir)
	if err := errors.Join(registry.Discard(dir), os.Mkdir(dir, 0o700)); err != nil {
		return nil, err
	}
	s.Base, s.Tree, s.Scratch = filepath.Join(dir, "base"), filepath.Join(dir, "tree"), dir
	for path, what := range map[string]repo.Tree{s.Base: base, s.Tree: repo.Tree(tree)} {
		if err := project.Checkout(ctx, what, path); err != nil {
			return nil, err
		}
	}
	s.Changes, s.Task = changes.Listed(), order.Parameters
	r.Progress(nacre.Step{Kind: nacre.StepStage, Name: "verify", Text: fmt.Sprintf("%d atoms of the role %s", len(verify.Due(order.Atoms, s.Merged)), order.Role)})
	report, err := r.Judge(ctx, s, order.Atoms)
	if err != nil {
		return nil, err
	}
	if err := project.Matches(ctx, repo.Tree(tree), s.Tree); err != nil {
		return nil, fmt.Errorf("the tree changed while it was judged: %w", err)
	}
	results, err := r.tellVerdicts(ctx, tree, report)
	return results, errors.Join(err, registry.Discard(dir))
}

// tellVerdicts records and shows what each atom's verifier said.
func (r *run) tellVerdicts(ctx context.Context, tree string, report verify.Report) ([]nacre.AtomResult, error) {
	results := make([]nacre.AtomResult, 0, len(report.Verdicts))
	for _, v := range report.Verdicts {
		a := nacre.AtomResult{
			Capability: string(v.Capability), Passed: v.Passed, NotRun: v.NotRun, Strength: v.Strength,
			Reason: r.clean(v.Reason, excerptSize), Detail: r.clean(v.Detail, maxDetail),
		}
		outcome := "failed"
		if a.Passed {
			outcome = "passed"
		}
		detail := map[string]any{"tree": tree, "atom": a.Capability, "strength": a.Strength}
		err := r.record(ctx, nacre.Record{Kind: nacre.KindVerify, Outcome: outcome, Reason: a.Reason}, detail)
		if err != nil {
			return nil, err
		}
		r.Progress(nacre.Step{Kind: nacre.StepVerdict, Verdict: &a})
		results = append(results, a)
	}
	return results, nil
}

// maxDetail is how much of a verdict's detail is kept, in bytes.
const maxDetail = 4 << 10
