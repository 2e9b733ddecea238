package task

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/guard"
)

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

// dialogue is one turn of a brain, with the refusals that are heard in it.
type dialogue struct {
	*opening
	// calls are those that have no result yet.
	calls map[string]brain.Event
	// launched holds the agent from when it runs: a call may be refused before Launch returns.
	launched chan Agent
	// end ends the turn.
	end     context.CancelCauseFunc
	hearing hearing
	denial  denial
}

// talk gives a brain its turn, sealed over its files.
func (o *opening) talk(ctx context.Context, turn brain.Turn, files Workspace) (conversation, error) {
	launch, err := o.Brain.Launch(turn)
	if err != nil {
		return conversation{}, err
	}
	o.Progress(nacre.Step{Kind: nacre.StepStage, Name: "converse", Text: o.Brain.Name()})
	talking, end := context.WithCancelCause(ctx)
	defer end(nil)
	d := &dialogue{opening: o, calls: map[string]brain.Event{}, launched: make(chan Agent, 1), end: end}
	defer d.hearing.close()
	if o.spec.Order != nil {
		launch.Refused = func(f guard.Refusal) { d.gated(talking, f) }
	}
	stopHeeding := d.heed(talking) // from before the agent can call anybody
	defer stopHeeding()
	process, err := o.Launch(ctx, launch, files)
	if err != nil {
		end(nil) // who hears of a refusal waits for an agent that does not come
		return conversation{}, err
	}
	d.launched <- process
	var talk conversation
	err = o.Brain.Converse(talking, process, turn, func(e brain.Event) {
		d.note(ctx, e)
		if e.Kind == brain.Raw && e.Name == brain.Refused && launch.Refused != nil {
			var f guard.Refusal
			if json.Unmarshal(e.Input, &f) == nil { // what is something else is a claim of the brain's
				launch.Refused(f)
			}
		}
		if e.Kind == brain.Done {
			talk.Report, talk.Resume = o.clean(e.Text, maxReport), e.Session
		}
	})
	end(nil)
	stopHeeding()
	d.hearing.close()
	select {
	case <-o.Session.Interrupted: // its calls were refused for that: what it says now is not how its turn ended
		<-ctx.Done()
		return conversation{}, context.Cause(ctx)
	default:
	}
	if talk.Ended = d.ended(err); talk.Ended == "" {
		return conversation{}, err
	}
	talk.Denied = d.denial.why
	return talk, nil
}

// ended says how the turn ended; "" where that is no matter of the brain's.
func (d *dialogue) ended(err error) string {
	var failure *brain.Failure
	switch {
	case err == nil:
		return endedWell
	case errors.As(err, &failure) && d.TimedOut():
		return TimedOut
	case errors.As(err, &failure):
		return string(failure.Class) + ": " + d.clean(failure.Message, excerptSize)
	}
	return ""
}

// agent waits for the agent; nil where the turn ended without one.
func (d *dialogue) agent(ctx context.Context) Agent {
	select {
	case p := <-d.launched:
		d.launched <- p
		return p
	case <-ctx.Done():
		return nil
	}
}

// note records an event of the brain and shows it. What a brain says of itself
// is a claim; the records of door, egress and gateway are the facts.
func (d *dialogue) note(ctx context.Context, e brain.Event) {
	if d.Observe != nil {
		d.Observe(e.Text)
	}
	event, detail := nacre.Step{ExitCode: e.ExitCode, IsError: e.IsError}, map[string]any{}
	switch e.Kind {
	case brain.Text:
		event.Kind, event.Text = nacre.StepSay, d.clean(e.Text, 4*excerptSize)
	case brain.ToolCall:
		d.calls[e.ID] = e
		event.Kind, event.Name, event.Text = nacre.StepTool, e.Name, d.clean(summarise(e.Input), summarySize)
		digest := sha256.Sum256(e.Input)
		detail["input_digest"], detail["summary"] = hex.EncodeToString(digest[:]), event.Text
	case brain.ToolResult:
		call := d.calls[e.ID]
		event.Kind, event.Name, event.Text = nacre.StepResult, call.Name, d.clean(e.Text, excerptSize)
		detail["summary"] = d.clean(summarise(call.Input), summarySize)
		detail["is_error"], detail["excerpt"] = e.IsError, event.Text
		if e.Denied && !heard(d.spec.Order, e) {
			detail["denied"] = true
		}
		if e.ExitCode != nil {
			detail["exit_code"] = *e.ExitCode
		}
		delete(d.calls, e.ID)
	case brain.Retry:
		event.Kind, event.Name, event.Text = nacre.StepRetry, string(e.Class), d.clean(e.Text, excerptSize)
	case brain.Done, brain.Error:
		detail["class"], detail["text"] = string(e.Class), d.clean(e.Text, excerptSize)
	default:
		return
	}
	// The recorder stops the session when the chain cannot be written.
	_ = d.append(ctx, nacre.Record{Kind: nacre.KindBrainEvent, Topic: event.Name, Outcome: string(e.Kind)}, detail)
	if event.Kind != "" {
		d.Progress(event)
	}
}

// heard reports whether the host heard of a refused call already, from the gates.
func heard(o *Order, e brain.Event) bool {
	return o != nil && strings.Contains(e.Text, guard.Prefix)
}

// gated is told of a call that a gate refused, and returns when the agent may be told (M-65). The
// host then knows of it, and has recorded it, whatever the brain says of it later. A role that
// notifies has the agent stopped while a person is asked.
func (d *dialogue) gated(ctx context.Context, f guard.Refusal) {
	if !d.hearing.enter() {
		return
	}
	defer d.hearing.leave()
	p := d.agent(ctx)
	if p == nil {
		return
	}
	reason := d.clean(strings.TrimPrefix(f.Reason, guard.Prefix), excerptSize)
	record := nacre.Record{Kind: nacre.KindGateRefuse, Topic: d.clean(f.Tool, maxTool), Outcome: nacre.OutcomeDenied, Reason: reason}
	if f.Allowed != atom.Block {
		record.Kind, record.Outcome = nacre.KindGateWarn, nacre.OutcomeAllowed
	}
	// The recorder stops the session when the chain cannot be written.
	_ = d.append(ctx, record, nil)
	switch f.Allowed {
	case atom.Block:
		d.escalate(ctx, p, reason)
	case atom.Warn:
		d.Progress(nacre.Step{Kind: nacre.StepStage, Name: "escalation", Text: "a warning: " + reason})
	default: // what only advises is recorded
	}
}

// heed is told of the calls that the kernel refuses, before the agent is, whatever the
// brain says of them. Until a role that ends or asks for it has done so, nothing else
// leaves the session.
func (d *dialogue) heed(ctx context.Context) (leave func()) {
	if d.spec.Order == nil || d.spec.Order.Escalation != FailFast && d.spec.Order.Escalation != Notify {
		return func() {}
	}
	return d.Session.Heed(func(reason string, thaw func()) {
		if !d.hearing.enter() {
			thaw()
			return
		}
		go func() {
			defer d.hearing.leave()
			defer thaw()
			if p := d.agent(ctx); p != nil {
				d.escalate(ctx, p, d.clean(reason, excerptSize))
			}
		}()
	})
}

// escalate does what the role wants of a refused call.
func (d *dialogue) escalate(ctx context.Context, p Agent, reason string) {
	why := ""
	switch d.spec.Order.Escalation {
	case FailFast:
		why = "the role fails fast"
	case Notify:
		err := d.denial.hold(ctx, p, func() error {
			d.Progress(nacre.Step{Kind: nacre.StepStage, Name: "escalation", Text: reason})
			return d.Notify(ctx, reason)
		})
		if err != nil {
			why = err.Error()
		}
	case AskViaReturn:
	}
	if why != "" {
		d.denial.set(why + ": " + reason)
		d.end(errDenied)
		_ = p.Kill() // Converse says what became of it
	}
}

// errDenied ends a conversation whose role fails fast.
var errDenied = errors.New("a refused call ended the run")

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
