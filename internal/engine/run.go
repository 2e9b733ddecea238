package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
)

// cancelPoll is how often a running workflow looks whether it was cancelled.
const cancelPoll = 500 * time.Millisecond

// errCancelSeen ends a workflow's context once its cancellation was seen.
var errCancelSeen = errors.New("workflow was cancelled")

// Run is one execution of a workflow: its identity and its steps. It is for
// the goroutine that runs the workflow only.
type Run struct {
	ctx   dbos.Context
	id    string
	guard func(func() (json.RawMessage, error)) (json.RawMessage, error)
	// watchStore begins to wait for a step's result to be kept.
	watchStore func() (kept func())
	steps      map[string]bool
	// ended is set once the execution was interrupted; nothing runs after it.
	ended error
}

// StepError is a step's failure as it is recorded: the same on the first run
// and on every replay, so that a workflow decides alike. A panic is one too.
type StepError struct{ Step, Message string }

func (e *StepError) Error() string { return fmt.Sprintf("step %s: %s", e.Step, e.Message) }

// errInterrupted tells a workflow that Close or Cancel is stopping it: it must
// return, and what it returns is not kept.
var errInterrupted = errors.New("interrupted")

// bound is a workflow under its name, as the library wants it.
type bound struct {
	name   string
	fn     Workflow
	client *Client
}

// ConfigName tells the library one workflow from another.
func (b *bound) ConfigName() string { return b.name }

func (b *bound) run(lib dbos.Context, input string) (string, error) {
	id, err := dbos.GetWorkflowID(lib)
	if err != nil {
		return "", fmt.Errorf("workflow %s: %w", b.name, err)
	}
	ctx, stop := b.client.watchCancel(lib, id)
	defer stop()
	defer b.client.hasReturned(id)
	w := &Run{ctx: ctx, id: id, guard: b.client.guard, watchStore: b.client.watchStore, steps: make(map[string]bool)}
	output, err := b.client.guard(func() (json.RawMessage, error) { return b.fn(w, json.RawMessage(input)) })
	if w.ended != nil {
		return "", w.ended
	}
	if err != nil {
		return "", err
	}
	if len(output) == 0 {
		output = json.RawMessage("null")
	}
	return string(output), checkPayload("result of "+b.name, output)
}

// watchCancel returns lib with a context that ends when another process
// cancels the workflow, which the library itself notices between steps only.
func (c *Client) watchCancel(lib dbos.Context, id string) (ctx dbos.Context, stop func()) {
	ctx, cancel := dbos.WithCancelCause(lib)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(cancelPoll)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if c.cancelled(id) {
				cancel(errCancelSeen)
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}

func (c *Client) cancelled(id string) bool {
	ctx, cancel := context.WithTimeout(c.lib, closeTimeout)
	defer cancel()
	status, err := c.Get(ctx, id)
	return err == nil && status.State == Cancelled
}

// Context ends when Close or Cancel stops the workflow. It is for what a
// workflow waits for between its steps, and must not decide which come next.
func (w *Run) Context() context.Context { return w.ctx }

// ID is the workflow's id.
func (w *Run) ID() string { return w.id }

// Key names a step of this workflow for ever: what a side effect is keyed by,
// so that a step which runs again finds what it did before.
func (w *Run) Key(step string) string { return w.id + "/" + step }

// Step runs fn once and keeps what it returned; after a crash the kept result is returned without
// running fn. Interrupted before its result was kept, it runs again. Each step of a workflow needs
// a name of its own. fn's error, and a panic, come back as *StepError with the text only. Any other
// error means that the workflow was interrupted and must return. fn must honour its ctx.
func (w *Run) Step(name string, fn func(ctx context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	if err := w.begin(name); err != nil {
		return nil, err
	}
	kept := func() {}
	text, err := dbos.RunAsStep(w.ctx, func(ctx context.Context) (string, error) {
		output, err := w.guard(func() (json.RawMessage, error) { return fn(ctx) })
		kept = w.watchStore()
		if err != nil {
			return "", err
		}
		if len(output) == 0 {
			output = json.RawMessage("null")
		}
		return string(output), checkPayload("result", output)
	}, dbos.WithStepName(name))
	kept()
	if err := w.interruption(err); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, &StepError{Step: name, Message: err.Error()}
	}
	return json.RawMessage(text), nil
}

// Receive waits for a signal on a topic. The deadline is kept over restarts.
// Every error means that there is no answer: deny.
func (w *Run) Receive(topic string, within time.Duration) (json.RawMessage, error) {
	if within <= 0 || within > MaxWait {
		return nil, fmt.Errorf("wait for %s of %s: use up to %s", topic, within, MaxWait)
	}
	if err := w.live(); err != nil {
		return nil, err
	}
	text, err := dbos.Recv[string](w.ctx, topic, within)
	if err := w.interruption(err); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, &StepError{Step: topic, Message: err.Error()}
	}
	if err := checkPayload("signal "+topic, json.RawMessage(text)); err != nil {
		return nil, &StepError{Step: topic, Message: err.Error()}
	}
	return json.RawMessage(text), nil
}

func (w *Run) begin(name string) error {
	if err := w.live(); err != nil {
		return err
	}
	if !nameForm().MatchString(name) || w.steps[name] || len(w.steps) >= MaxSteps {
		return fmt.Errorf("step %.80q: use a new name of lower-case letters, digits, _, . and -, at most %d", name, MaxSteps)
	}
	w.steps[name] = true
	return nil
}

func (w *Run) live() error {
	if w.ended == nil && w.ctx.Err() != nil {
		w.ended = fmt.Errorf("workflow %s: %w: %w", w.id, errInterrupted, context.Cause(w.ctx))
	}
	return w.ended
}

// interruption tells an interrupted execution from a failed step. The library
// reports its own trouble, such as a workflow that changed its steps, as
// errors of its own type.
func (w *Run) interruption(err error) error {
	var own *dbos.Error
	if errors.As(err, &own) && own.Code != dbos.ErrorCodeTimeout {
		w.ended = fmt.Errorf("workflow %s: %w", w.id, err)
	}
	return w.live()
}

// guard turns a panic into an error: the library would let it end the process,
// again at every recovery. The stack goes to the log only.
func (c *Client) guard(fn func() (json.RawMessage, error)) (output json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("panic in durable work", "panic", p, "stack", string(debug.Stack()))
			output, err = nil, fmt.Errorf("panic: %v", p)
		}
	}()
	return fn()
}
