package engine_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nacre-dev/nacre/internal/engine"
)

// oldStore is what the engine on DBOS 1.4.0 left when it was killed: one work
// finished, one interrupted in its step verify, one waiting for a signal.
func oldStore(t *testing.T) (dir string) {
	t.Helper()
	packed, err := os.Open("testdata/dbos-1.4.sqlite.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = packed.Close() }() // it was only read
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "engine.sqlite"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// M-16: what an older nacre left is opened, kept and carried on: a finished step
// does not run again, and who waited is answered.
func TestWhatAnOlderEngineLeftGoesOn(t *testing.T) {
	dir := oldStore(t)
	work := func(stopIn string) engine.Workflow {
		return func(w *engine.Run, input json.RawMessage) (json.RawMessage, error) {
			return crashWork(w, input, dir, stopIn)
		}
	}
	c := client(t, filepath.Join(dir, "engine.sqlite"))
	if err := c.Signal(t.Context(), "waiting", "approve", json.RawMessage(ok)); err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(t.Context(), engine.Options{Path: filepath.Join(dir, "engine.sqlite"), Executor: "crash", Attempts: 3},
		map[string]engine.Workflow{"finished": work(""), "interrupted": work(""), "waiting": work("wait")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, id := range []string{"finished", "interrupted", "waiting"} {
		have, err := e.Wait(t.Context(), id)
		if want := `"start launch run verify merge record"`; err != nil || string(have) != want {
			t.Errorf("%s: have %s, %v, want %s", id, have, err, want)
		}
	}
	ran := logged(t, dir)
	slices.Sort(ran)
	want := []string{"begin merge", "begin merge", "begin record", "begin record", "begin verify", "end merge", "end merge", "end record", "end record", "end verify"}
	if !slices.Equal(ran, want) {
		t.Errorf("have %q, want %q", ran, want)
	}
	if works, err := e.Works(t.Context(), "crash"); err != nil || len(works) != 3 {
		t.Errorf("have %+v, %v", works, err)
	}
}
