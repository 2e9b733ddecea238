package task

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/guard"
)

const (
	// summarySize is how much of a tool call a record and a progress line show.
	summarySize = 200
	// excerptSize is how much of a tool's result they show.
	excerptSize = 300
)

// converse lets the brain work on a project, sealed, and says how its turn ended. failed
// is what its try before came to; it is empty for the first.
func (r *run) converse(ctx context.Context, base baseline, failed verification) (conversation, error) {
	project, err := r.project(ctx, base.Commit)
	if err != nil {
		return conversation{}, err
	}
	// A conversation that was interrupted begins again, on a clone as it was:
	// what it left half-done is not what the next one would expect.
	turn := r.Turn
	turn.Task += again(failed, r.talked)
	if !r.untouched && !r.talked {
		if err := r.fresh(ctx, project); err != nil {
			return conversation{}, err
		}
	}
	r.untouched = false
	talk, err := r.talk(ctx, turn, r.ground.under(r.workDir()))
	r.talked = err == nil
	talk.Delegated = r.Delegated != nil && r.Delegated()
	return talk, err
}

// talk gives the brain its turn, sealed over its files.
func (r *run) talk(ctx context.Context, turn brain.Turn, files Workspace) (conversation, error) {
	launch, err := r.Brain.Launch(turn)
	if err != nil {
		return conversation{}, err
	}
	r.Progress(nacre.Step{Kind: nacre.StepStage, Name: "converse", Text: r.Brain.Name()})
	talking, end := context.WithCancelCause(ctx)
	defer end(nil)
	launched := make(chan Agent, 1) // a call may be refused before Launch returns
	var hearing hearing
	defer hearing.close()
	if r.spec.Order != nil {
		launch.Refused = func(f guard.Refusal) {
			if !hearing.enter() {
				return
			}
			defer hearing.leave()
			select {
			case p := <-launched:
				launched <- p
				r.refused(talking, f, p, end)
			case <-talking.Done():
			}
		}
	}
	stopHeeding := heed(r, &hearing, func(reason string) { // from before the agent can call anybody
		select {
		case p := <-launched:
			launched <- p
			escalate(talking, r, reason, p, end)
		case <-talking.Done():
		}
	})
	defer stopHeeding()
	process, err := r.Launch(ctx, launch, files)
	if err != nil {
		end(nil) // who hears of a refusal waits for an agent that does not come
		return conversation{}, err
	}
	launched <- process
	var talk conversation
	calls := map[string]brain.Event{}
	err = r.Brain.Converse(talking, process, turn, func(e brain.Event) {
		r.note(ctx, calls, e)
		if e.Kind == brain.Raw && e.Name == brain.Refused && launch.Refused != nil {
			var f guard.Refusal
			if json.Unmarshal(e.Input, &f) == nil { // what is something else is a claim of the brain's
				launch.Refused(f)
			}
		}
		if e.Kind == brain.Done {
			talk.Report, talk.Resume = r.clean(e.Text, maxReport), e.Session
		}
	})
	end(nil)
	stopHeeding()
	hearing.close()
	select {
	case <-r.Session.Interrupted: // its calls were refused for that: what it says now is not how its turn ended
		<-ctx.Done()
		return conversation{}, context.Cause(ctx)
	default:
	}
	var failure *brain.Failure
	switch {
	case err == nil:
		talk.Ended = endedWell
	case errors.As(err, &failure) && r.TimedOut():
		talk.Ended = TimedOut
	case errors.As(err, &failure):
		talk.Ended = string(failure.Class) + ": " + r.clean(failure.Message, excerptSize)
	default:
		return conversation{}, err
	}
	talk.Denied = r.denial.take()
	return talk, nil
}

// note records an event of the brain and shows it. What a brain says of itself
// is a claim; the records of door, egress and gateway are the facts.
func (r *run) note(ctx context.Context, calls map[string]brain.Event, e brain.Event) {
	if r.Observe != nil {
		r.Observe(e.Text)
	}
	event, detail := nacre.Step{ExitCode: e.ExitCode, IsError: e.IsError}, map[string]any{}
	switch e.Kind {
	case brain.Text:
		event.Kind, event.Text = nacre.StepSay, r.clean(e.Text, 4*excerptSize)
	case brain.ToolCall:
		calls[e.ID] = e
		event.Kind, event.Name, event.Text = nacre.StepTool, e.Name, r.clean(summarise(e.Input), summarySize)
		digest := sha256.Sum256(e.Input)
		detail["input_digest"], detail["summary"] = hex.EncodeToString(digest[:]), event.Text
	case brain.ToolResult:
		event.Kind, event.Name, event.Text = nacre.StepResult, calls[e.ID].Name, r.clean(e.Text, excerptSize)
		detail["summary"] = r.clean(summarise(calls[e.ID].Input), summarySize)
		detail["is_error"], detail["excerpt"] = e.IsError, event.Text
		if e.Denied && !heard(r.spec.Order, e) {
			detail["denied"] = true
		}
		if e.ExitCode != nil {
			detail["exit_code"] = *e.ExitCode
		}
		delete(calls, e.ID)
	case brain.Retry:
		event.Kind, event.Name, event.Text = nacre.StepRetry, string(e.Class), r.clean(e.Text, excerptSize)
	case brain.Done, brain.Error:
		detail["class"], detail["text"] = string(e.Class), r.clean(e.Text, excerptSize)
	default:
		return
	}
	// The recorder stops the session when the chain cannot be written.
	_ = r.append(ctx, nacre.Record{Kind: nacre.KindBrainEvent, Topic: event.Name, Outcome: string(e.Kind)}, detail)
	if event.Kind != "" {
		r.Progress(event)
	}
}

// heard reports whether the host heard of a refused call already, from the gates.
func heard(o *Order, e brain.Event) bool {
	return o != nil && strings.Contains(e.Text, guard.Prefix)
}

func (r *run) append(ctx context.Context, rec nacre.Record, detail map[string]any) error {
	raw, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	rec.Source, rec.Detail = "brain", raw
	return r.Session.Recorder.Append(context.WithoutCancel(ctx), rec)
}

// summarise shows a tool's input as a person would write it: the values of its
// keys, the most telling first.
func summarise(input json.RawMessage) string {
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(input))
	decoder.UseNumber()
	if decoder.Decode(&fields) != nil {
		return string(input)
	}
	var parts []string
	for _, key := range []string{"command", "method", "url", "file_path", "path", "pattern", "skill"} {
		if text, ok := fields[key].(string); ok {
			parts = append(parts, text)
		}
	}
	if len(parts) == 0 {
		return string(input)
	}
	return strings.Join(parts, " ")
}

// clean redacts a text from the sandbox and cuts it at a character.
func (r *run) clean(text string, size int) string {
	if len(text) > 16*size {
		text = text[:16*size]
	}
	text, _ = r.Redact.String(strings.ToValidUTF8(text, "\uFFFD"))
	if len(text) <= size {
		return text
	}
	cut := size
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
