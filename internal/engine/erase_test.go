package engine_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/nacre-dev/nacre/internal/engine"
)

// fileHolds tells whether a word is in the bytes of a store, or of its log.
func fileHolds(t *testing.T, path, word string) bool {
	t.Helper()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		data, err := os.ReadFile(path + suffix)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for at := range 3 { // it is kept in base64, which has three forms of a text
			form := base64.RawStdEncoding.EncodeToString([]byte("  "[:at] + word))
			if bytes.Contains(data, []byte(form[(8*at+5)/6:len(form)-1])) {
				return true
			}
		}
	}
	return false
}

// worked is a store in which two executors have finished work that says a word each.
func worked(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "engine.sqlite")
	for executor, word := range map[string]string{"s1": "quokka", "s2": "wombat"} {
		e, err := engine.Open(t.Context(), engine.Options{Path: path, Executor: executor}, one(func(w *engine.Run, in json.RawMessage) (json.RawMessage, error) {
			return in, step(w, "say", string(in))
		}))
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Start(t.Context(), executor+"-work", "work", text(word)); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Wait(t.Context(), executor+"-work"); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// reading holds a store's file as another process does that reads it, until it is told to end.
func reading(t *testing.T, path string) (end func()) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := tx.QueryRowContext(t.Context(), `SELECT count(*) FROM workflow_status`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return func() { _, _ = tx.Rollback(), db.Close() } // it only read
}

// M-57: what an executor's work was told and returned is gone from the file's bytes; others' is not.
func TestWorkIsErased(t *testing.T) {
	t.Parallel()
	path := worked(t)
	c := client(t, path)
	if err := c.Erase(t.Context(), []string{"s1", "none"}); err != nil {
		t.Fatal(err)
	}
	if fileHolds(t, path, "quokka") || !fileHolds(t, path, "wombat") {
		t.Error("the wrong words are left")
	}
	if left, err := c.Traces(t.Context()); err != nil || left {
		t.Errorf("have %v, %v", left, err)
	}
}

// M-57: an erasure that another reader keeps traces of says so, also when it is asked again. Whoever
// opens the store once the reader is gone finishes it.
func TestTracesOfWorkAreRemovedLater(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for as long as an erasure does")
	}
	path := worked(t)
	c := client(t, path)
	end := reading(t, path)
	if err := c.Erase(t.Context(), []string{"s1"}); !errors.Is(err, engine.ErrTraces) {
		t.Errorf("have %v", err)
	}
	again, err := engine.OpenClient(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := again.Traces(t.Context()); err != nil || !left || !fileHolds(t, path, "quokka") {
		t.Errorf("have %v, %v: proves nothing", left, err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	end()
	later := client(t, path)
	if left, err := later.Traces(t.Context()); err != nil || left || fileHolds(t, path, "quokka") {
		t.Errorf("traces are left: %v, %v", left, err)
	}
}

// M-57: an erasure that was killed between what it removes and the file's bytes is
// finished by whoever opens the store next.
func TestAnErasureOfWorkThatWasKilledIsFinished(t *testing.T) {
	t.Parallel()
	path := worked(t)
	db, err := sql.Open("sqlite", "file:"+path+"")
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		`CREATE TABLE nacre_scrub (id INTEGER PRIMARY KEY AUTOINCREMENT)`, `INSERT INTO nacre_scrub DEFAULT VALUES`,
		`DELETE FROM operation_outputs WHERE workflow_uuid = 's1-work'`,
		`DELETE FROM workflow_input WHERE workflow_uuid = 's1-work'`, `DELETE FROM workflow_output WHERE workflow_uuid = 's1-work'`, `DELETE FROM workflow_status WHERE executor_id = 's1'`,
	} {
		if _, err := db.ExecContext(context.Background(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if !fileHolds(t, path, "quokka") {
		t.Skip("SQLite leaves nothing here")
	}
	open(t, path, "s3", one(echo))
	if fileHolds(t, path, "quokka") {
		t.Error("traces are left")
	}
}

func echo(_ *engine.Run, in json.RawMessage) (json.RawMessage, error) { return in, nil }
