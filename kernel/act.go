package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/nacre-dev/nacre"
)

// The messages that agents see of failures that are not theirs, from the seed.
const (
	messageCrash   = "Internal plugin error"
	messageTooLong = "Response exceeded maximum size"
)

// maxMessage is how much of a handler's message an agent sees, in bytes.
const maxMessage = 2000

// errPanicked is what becomes of a panic in a driver or an approver.
var errPanicked = errors.New("panicked")

var errDeadline = errors.New("deadline exceeded")

// failure is why a driver gave no result: what the agent sees, and what the host keeps.
type failure struct {
	refusal *nacre.Refusal
	// cause is for the host alone; nil where a handler refused in order.
	cause error
	// handler is set where the handler itself refused.
	handler bool
	// gone is set where the caller left: there is nobody to tell.
	gone bool
}

func (f *failure) err() error {
	switch {
	case f == nil:
		return nil
	case f.gone:
		return f.cause
	case f.cause != nil:
		return fmt.Errorf("%w: %w", f.refusal, f.cause)
	default:
		return f.refusal
	}
}

func crashed(cause error) *failure {
	return &failure{refusal: &nacre.Refusal{Code: nacre.CodePluginError, Message: messageCrash}, cause: cause}
}

// act tries the capability's drivers in order, all within one deadline, until
// one has answered. A driver that does not heed the deadline is left behind,
// and what it answers later is dropped.
func (k *acts) act(ctx context.Context, r *run) (json.RawMessage, *failure) {
	within, cancel := context.WithTimeoutCause(context.WithValue(ctx, carriedOut{}, true), r.tool.deadline, errDeadline)
	defer cancel()
	k.log.counters.count(func(s *Stats) { s.Invocations++ })
	for i, route := range r.tool.routes {
		r.driver = route.id
		answered, err := k.try(within, r, route.driver)
		if err == nil {
			r.label = r.tool.capability.Returns.And(answered.label)
			return k.afterResult(within, r, answered.raw)
		}
		last := i == len(r.tool.routes)-1
		if last || !mayFallBack(within, r, err) {
			return nil, failed(ctx, r, err)
		}
		r.attempts = append(r.attempts, Attempt{Driver: route.id, Cause: causeOf(err)})
		k.log.counters.count(func(s *Stats) { s.Fallbacks++ })
	}
	return nil, crashed(errors.New("no driver"))
}

// result is what a driver answered.
type result struct {
	raw   json.RawMessage
	label nacre.Label
}

func (k *acts) try(ctx context.Context, r *run, driver nacre.Driver) (result, error) {
	in, err := k.given(r)
	if err != nil {
		return result{}, err
	}
	do := func() (result, error) {
		labelled, ok := driver.(nacre.LabelledDriver)
		if !ok {
			raw, err := driver.Do(ctx, in)
			return result{raw, nacre.Trusted}, err
		}
		raw, label, err := labelled.DoLabelled(ctx, in)
		return result{raw, label}, err
	}
	if prompt, ok := driver.(nacre.PromptDriver); ok && prompt.Prompt() {
		k.left.add()
		defer k.left.done()
		answered, err := caught(do)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return answered, err
	}
	return guarded(ctx, k.left, do, func() { k.log.recordLate(r) })
}

func (r *run) invocation() nacre.Invocation {
	return nacre.Invocation{
		ID: r.call.ID, Principal: r.call.Principal, Capability: r.tool.capability.ID, Tool: r.tool.capability.Tool,
		Arguments: slices.Clone(r.arguments), Files: slices.Clone(r.files), Correlation: r.call.Correlation, Time: r.now,
		Label: r.told, Origins: slices.Clone(r.origins),
	}
}

// mayFallBack reports whether another driver may be tried after err. An answer
// in order is no failure, and what writes is tried again only where nothing
// was sent (K-13).
func mayFallBack(ctx context.Context, r *run, err error) bool {
	var refusal *nacre.Refusal
	if ctx.Err() != nil || errors.As(err, &refusal) {
		return false
	}
	return r.tool.capability.Safety == nacre.Read || nacre.IsNotSent(err)
}

// afterResult hands a result to the hooks, before anything is redacted or
// shown. A hook that fails refuses the result (K-22).
func (k *acts) afterResult(ctx context.Context, r *run, raw json.RawMessage) (json.RawMessage, *failure) {
	var err error
	for n := 0; len(raw) <= MaxResult; n++ {
		if raw = slices.Clone(raw); n == len(k.hooks) { // who made it may still hold its own
			return raw, nil
		}
		raw, err = guarded(ctx, k.left, func() (json.RawMessage, error) { return k.hooks[n](ctx, r.invocation(), raw) }, nil)
		if err != nil {
			return nil, crashed(fmt.Errorf("result hook: %w", err))
		}
	}
	return nil, &failure{
		refusal: &nacre.Refusal{Code: nacre.CodeHandlerError, Message: messageTooLong},
		cause:   fmt.Errorf("result of %d bytes, the limit is %d", len(raw), MaxResult),
	}
}

// failed turns what a driver returned into what an agent may see.
func failed(ctx context.Context, r *run, err error) *failure {
	if ctx.Err() != nil {
		return &failure{
			refusal: &nacre.Refusal{Code: nacre.CodePluginUnavailable, Stage: stageRoute, Message: "the call was ended before its answer came"},
			cause:   fmt.Errorf("call %s: %w (%w)", r.call.Tool, context.Cause(ctx), ctx.Err()), gone: true,
		}
	}
	if errors.Is(err, errDeadline) || errors.Is(err, context.DeadlineExceeded) {
		return &failure{refusal: &nacre.Refusal{
			Code: nacre.CodePluginTimeout, Stage: stageRoute, Retriable: true,
			Message: fmt.Sprintf("%s did not respond within %v", r.tool.source, r.tool.deadline),
		}, cause: err}
	}
	var refusal *nacre.Refusal
	if errors.As(err, &refusal) && refusal != nil {
		if r.tool.capability.Intrinsic && refusal.Stage > 0 {
			return &failure{refusal: refusal} // the kernel's own word, on what a core tool asked of it
		}
		original := refusal.Original
		if original == "" {
			original = string(refusal.Code)
		}
		return &failure{handler: true, refusal: &nacre.Refusal{
			Code: nacre.CodeHandlerError, Message: refusal.Message, Retriable: refusal.Retriable, Original: original,
		}}
	}
	var unavailable interface{ Unavailable() bool }
	if errors.As(err, &unavailable) && unavailable.Unavailable() {
		return &failure{refusal: &nacre.Refusal{
			Code: nacre.CodePluginUnavailable, Stage: stageRoute, Retriable: true, Message: fmt.Sprintf("%s is not running", r.tool.source),
		}, cause: err}
	}
	return crashed(err)
}

// caught runs f; a panic becomes an error.
func caught[T any](f func() (T, error)) (value T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", errPanicked, p, debug.Stack())
		}
	}()
	return f()
}

// guarded runs f until it returns, panics, or ctx ends; then late is told when f
// answers after all. f runs on, counted in left, for nothing can stop it.
func guarded[T any](ctx context.Context, left *leftovers, f func() (T, error), late func()) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer) // without room: an answer is taken, or it is late
	left.add()
	go func() {
		defer left.done()
		var a answer
		a.value, a.err = caught(f)
		select {
		case answers <- a:
		case <-ctx.Done():
			if late != nil && a.err == nil {
				late()
			}
		}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// leftovers counts what runs on in goroutines of its own.
type leftovers struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when n comes to zero; nil while nobody waits
}

func (l *leftovers) add() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
}

func (l *leftovers) done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n--; l.n == 0 && l.none != nil {
		close(l.none)
		l.none = nil
	}
}

func (l *leftovers) wait() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	none := l.none
	if none == nil {
		none = make(chan struct{})
	}
	if l.n == 0 {
		close(none)
		return none
	}
	l.none = none
	return none
}

// Wait returns when no driver and no approver is running any more, those that
// were left behind included, or ctx ends.
func (k *acts) Wait(ctx context.Context) error {
	select {
	case <-k.left.wait():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("drivers still running: %w", context.Cause(ctx))
	}
}
