package task

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/engine"
)

// opening is one execution of a durable workflow, of a run or of a visit: its steps,
// and what it tells the chain.
type opening struct {
	Parts
	spec Spec
	w    *engine.Run
}

// step runs one durable step; its result is kept as JSON. A failure of the host,
// such as a full disk, is no result: it stops the session. What a step says
// after the session was stopped is not kept: the step waits for the engine to
// interrupt it, and runs again when the session goes on.
func step[T any](o *opening, name string, do func(context.Context) (T, error)) (T, error) {
	var out T
	raw, err := o.w.Step(name, func(engine context.Context) (json.RawMessage, error) {
		ctx, cancel := context.WithCancelCause(engine)
		defer cancel(nil)
		stopped := o.Session.Context()
		stop := context.AfterFunc(stopped, func() { cancel(context.Cause(stopped)) })
		defer stop()
		value, err := do(ctx)
		if err != nil && engine.Err() == nil {
			o.Session.Stop(fmt.Errorf("%s: %w", name, err))
		}
		if stopped.Err() != nil {
			<-engine.Done()
			return nil, context.Cause(stopped)
		}
		if err != nil {
			return nil, err
		}
		return json.Marshal(value)
	})
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(raw, &out)
}

// pause leaves the work at a stage, where this opening shall get no further.
// name is the step's own.
func (o *opening) pause(name string, at nacre.Stage, result nacre.RunResult) error {
	_, err := step(o, name, func(context.Context) (struct{}, error) {
		if o.Until == at {
			o.Paused(result)
			o.Session.Stop(ErrPaused)
		}
		return struct{}{}, nil
	})
	return err
}

func (o *opening) record(ctx context.Context, rec nacre.Record, detail map[string]any) error {
	raw, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	rec.Source, rec.Detail = "core", raw
	return o.Session.Recorder.Commit(ctx, rec)
}

func (o *opening) append(ctx context.Context, rec nacre.Record, detail map[string]any) error {
	raw, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	rec.Source, rec.Detail = "brain", raw
	return o.Session.Recorder.Append(context.WithoutCancel(ctx), rec)
}

// clean redacts a text from the sandbox and cuts it at a character.
func (o *opening) clean(text string, size int) string {
	if len(text) > 16*size {
		text = text[:16*size]
	}
	text, _ = o.Redact.String(strings.ToValidUTF8(text, "\uFFFD"))
	if len(text) <= size {
		return text
	}
	cut := size
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
