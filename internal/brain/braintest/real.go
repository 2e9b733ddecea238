package braintest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/brain"
)

// deadline is far beyond what any of these turns takes.
const deadline = 2 * time.Minute

// Real runs the part of the suite in which the program is the real one.
func Real(t *testing.T, s Subject) {
	t.Run("streams text, a tool call and its result, and is done", func(t *testing.T) {
		dir := t.TempDir()
		h := s.run(t, dir, []brain.Choice{{Say: "first words"}, s.Shell("one", "printf made > made.txt; echo seen"), {Say: "last words"}})
		h.Ends(t, brain.Done, "")
		h.said(t, "first words", "last words")
		if r := h.lastResult(t); !strings.Contains(r.Text, "seen") || r.IsError {
			t.Errorf("result %+v, want what the command said", r)
		}
		if made, err := os.ReadFile(filepath.Join(dir, "made.txt")); err != nil || string(made) != "made" {
			t.Errorf("the command did not run for real: %q, %v", made, err)
		}
		if !strings.Contains(h.Last().Text, "last words") {
			t.Errorf("done says %q", h.Last().Text)
		}
	})
	t.Run("goes on after a failing tool", func(t *testing.T) {
		h := s.run(t, t.TempDir(), []brain.Choice{s.Shell("one", "echo no; exit 7"), s.Shell("two", "echo yes"), {Say: "end"}})
		h.Ends(t, brain.Done, "")
		results := h.Of(brain.ToolResult)
		if len(results) != 2 || !results[0].IsError || results[1].IsError {
			t.Fatalf("results %+v, want one failed and one not", results)
		}
		if code := results[0].ExitCode; !s.Codeless && (code == nil || *code != 7) {
			t.Errorf("exit code %v, want 7", code)
		}
	})
	t.Run("goes on after malformed tool input", func(t *testing.T) {
		h := s.run(t, t.TempDir(), []brain.Choice{s.Malformed, {Say: "end"}})
		h.Ends(t, brain.Done, "")
		if results := h.Of(brain.ToolResult); !s.Silent && (len(results) != 1 || !results[0].IsError) {
			t.Errorf("results %+v, want one error", results)
		}
	})
	t.Run("is stopped with what it runs when its context ends", func(t *testing.T) {
		dir := t.TempDir()
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		p, turn := s.start(t, dir, []brain.Choice{s.Shell("one", sleeper), {Say: "never"}})
		h := listenAnd(ctx, t, s, p, turn, func() { awaitFile(ctx, t, filepath.Join(dir, "pid")); cancel() })
		h.Ends(t, brain.Error, brain.ClassKilled)
		if !errors.Is(h.Err, context.Canceled) {
			t.Errorf("error %v, want context.Canceled behind it", h.Err)
		}
	})
	t.Run("ends when its program is killed", func(t *testing.T) {
		dir := t.TempDir()
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		p, turn := s.start(t, dir, []brain.Choice{s.Shell("one", sleeper), {Say: "never"}})
		h := listenAnd(ctx, t, s, p, turn, func() { awaitFile(ctx, t, filepath.Join(dir, "pid")); _ = p.Kill() })
		h.Ends(t, brain.Error, brain.ClassKilled)
	})
}

// sleeper leaves its number behind and waits for its end.
const sleeper = "echo $$ > pid.new && mv pid.new pid && sleep 60"

func (s Subject) start(t *testing.T, dir string, choices []brain.Choice) (brain.Process, brain.Turn) {
	t.Helper()
	turn, env := s.Turn(t, choices)
	launch, err := s.Brain.Launch(turn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reap(dir) })
	return s.Start(t, launch, env, dir), turn
}

func (s Subject) run(t *testing.T, dir string, choices []brain.Choice) Heard {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	p, turn := s.start(t, dir, choices)
	return Listen(ctx, t, s.Brain, p, turn)
}

// listenAnd listens while act happens beside it.
func listenAnd(ctx context.Context, t *testing.T, s Subject, p brain.Process, turn brain.Turn, act func()) Heard {
	t.Helper()
	acted := make(chan struct{})
	go func() { defer close(acted); act() }()
	h := Listen(ctx, t, s.Brain, p, turn)
	<-acted
	return h
}

func (h Heard) said(t *testing.T, want ...string) {
	t.Helper()
	var have []string
	for _, e := range h.Of(brain.Text) {
		have = append(have, e.Text)
	}
	if strings.Join(have, "|") != strings.Join(want, "|") {
		t.Errorf("said %q, want %q", have, want)
	}
}

// lastResult is what came of the last call: a program names its calls itself.
func (h Heard) lastResult(t *testing.T) brain.Event {
	t.Helper()
	results := h.Of(brain.ToolResult)
	if len(results) == 0 {
		t.Fatal("no call has a result")
	}
	return results[len(results)-1]
}

func awaitFile(ctx context.Context, t *testing.T, name string) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(name); err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Errorf("%s was never made", name)
			return
		case <-tick.C:
		}
	}
}
