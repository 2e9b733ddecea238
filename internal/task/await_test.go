package task_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/engine"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/session"
	"github.com/nacre-dev/nacre/internal/task"
)

// Work that is carried on may stop its session before Start returns. Why it
// stopped is told then too, and not that something was cancelled.
func TestWorkThatStopsItsSessionAtOnceSaysWhy(t *testing.T) {
	home := t.TempDir()
	runtime, err := os.MkdirTemp("", "ns") //nolint:usetesting // a unix socket's path holds 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(runtime) }() // the system's temporary folder is emptied anyway
	env := map[string]string{"HOME": home, "XDG_RUNTIME_DIR": runtime}
	paths, err := registry.ResolvePaths(func(k string) string { return env[k] })
	if err != nil {
		t.Fatal(err)
	}
	keys, err := audit.LoadKeys(paths.Keys())
	if err != nil {
		t.Fatal(err)
	}
	s, err := session.Open(t.Context(), session.Options{
		Registry: registry.New(paths), Keys: keys, Now: time.Now,
		EndOrphans: func(string) ([]string, error) { return nil, nil },
		Sandbox:    func(string) (sandbox.Backend, error) { return nil, nil },
		Session:    registry.Session{SessionStatus: nacre.SessionStatus{ID: "s1", Group: "g1", Kind: "run", Started: time.Now()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context(), "ended", true) }()
	e, err := engine.Open(t.Context(), engine.Options{Path: filepath.Join(home, "engine.sqlite"), Executor: "s1"},
		map[string]engine.Workflow{"x": func(w *engine.Run, _ json.RawMessage) (json.RawMessage, error) {
			_, err := w.Receive("never", time.Hour)
			return nil, err
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	s.Stop(task.ErrPaused)
	if _, err := task.Await(t.Context(), e, task.Session{Opened: s}, "x"); !errors.Is(err, task.ErrPaused) {
		t.Errorf("have %v, want %v", err, task.ErrPaused)
	}
}
