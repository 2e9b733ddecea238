// Package braintest promises the contract of a brain as a suite that every
// adapter runs: the stream is well-formed and ends once, whatever the program
// behind it does.
//
// It does not seal anything: programs run as plain processes of the test.
package braintest

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/nacre-dev/nacre/internal/brain"
)

// Subject is an adapter under test.
type Subject struct {
	Brain brain.Brain
	// Turn returns a turn in which the model makes these choices, and the
	// launch's own environment for it, such as where a scripted model answers.
	Turn func(t *testing.T, choices []brain.Choice) (brain.Turn, []string)
	// Start starts a launch for real in dir.
	Start func(t *testing.T, l brain.Launch, env []string, dir string) brain.Process
	// Shell is the choice to run a command.
	Shell func(id, command string) brain.Choice
	// Malformed is a tool call whose input its tool does not take.
	Malformed brain.Choice
	// Silent says that the program tells nothing of a call it does not make.
	Silent bool
	// Codeless says that the program does not tell the exit codes of commands.
	Codeless bool
	// Wire says how the adapter's program writes, for programs that are acted.
	Wire Wire
}

// Wire is how a brain's program writes its events, as whole lines.
type Wire struct {
	Text   func(text string) string
	Call   func(id string) string
	Result func(id string) string
	End    func(text string) string
}

// Heard is the stream that a turn gave.
type Heard struct {
	Events []brain.Event
	Err    error
}

// Listen has the brain carry out the turn and checks what every stream must be.
func Listen(ctx context.Context, t *testing.T, b brain.Brain, p brain.Process, turn brain.Turn) Heard {
	t.Helper()
	var h Heard
	h.Err = b.Converse(ctx, p, turn, func(e brain.Event) { h.Events = append(h.Events, e) })
	h.check(t)
	return h
}

func (h Heard) check(t *testing.T) {
	t.Helper()
	open := map[string]bool{}
	for i, e := range h.Events {
		if e.Terminal() != (i == len(h.Events)-1) {
			t.Errorf("event %d of %d is %s: one terminal event comes last", i+1, len(h.Events), e.Kind)
		}
		switch e.Kind {
		case brain.ToolCall:
			if open[e.ID] || e.ID == "" {
				t.Errorf("call %q: its id is empty or in use", e.ID)
			}
			open[e.ID] = true
		case brain.ToolResult:
			if !open[e.ID] {
				t.Errorf("result %q has no call", e.ID)
			}
			delete(open, e.ID)
		}
		if _, err := json.Marshal(e); err != nil {
			t.Errorf("event %d is not JSON: %v", i+1, err)
		}
	}
	if len(open) > 0 {
		t.Errorf("calls without a result: %v", open)
	}
	if len(h.Events) == 0 {
		t.Fatal("the stream is empty")
	}
	if (h.Last().Kind == brain.Done) != (h.Err == nil) {
		t.Errorf("terminal event %s with error %v", h.Last().Kind, h.Err)
	}
}

// Last is the terminal event.
func (h Heard) Last() brain.Event { return h.Events[len(h.Events)-1] }

// Of returns the events of a kind.
func (h Heard) Of(kind brain.EventKind) []brain.Event {
	return slices.DeleteFunc(slices.Clone(h.Events), func(e brain.Event) bool { return e.Kind != kind })
}

// Ends checks how the stream ended.
func (h Heard) Ends(t *testing.T, kind brain.EventKind, class brain.Class) {
	t.Helper()
	if last := h.Last(); last.Kind != kind || last.Class != class {
		t.Errorf("the stream ends with %s %q (%.300q), want %s %q", last.Kind, last.Class, last.Text, kind, class)
	}
}

// Run runs the whole suite.
func Run(t *testing.T, s Subject) {
	t.Run("a real program", func(t *testing.T) { Real(t, s) })
	t.Run("an acted program", func(t *testing.T) { Acted(t, s) })
}
