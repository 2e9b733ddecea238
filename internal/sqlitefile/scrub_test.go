package sqlitefile_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/sqlitefile"
)

// written is a file with rows of a word, of which all were deleted.
func written(t *testing.T, path string, mark bool) *sqlitefile.File {
	t.Helper()
	f, err := sqlitefile.Open(t.Context(), path, sqlitefile.Format{Name: "test", Application: 7, Tables: []string{"words"}, Migrations: []string{`CREATE TABLE words (word TEXT)`}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	err = f.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), `INSERT INTO words VALUES (?)`, strings.Repeat("quokka ", 2000))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = f.Write(t.Context(), func(tx *sql.Tx) error {
		if mark {
			if err := sqlitefile.MarkScrub(t.Context(), tx); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(t.Context(), `DELETE FROM words`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func inBytes(t *testing.T, path string) bool {
	t.Helper()
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(path + suffix)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte("quokka")) {
			return true
		}
	}
	return false
}

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// M-57: what was deleted is gone from a file's bytes and its log, if that was marked.
func TestScrub(t *testing.T) {
	for _, mark := range []bool{true, false} {
		path := filepath.Join(t.TempDir(), "test.sqlite")
		f := written(t, path, mark)
		if !inBytes(t, path) {
			t.Fatal("proves nothing")
		}
		if have, err := sqlitefile.Marked(t.Context(), f.DB()); err != nil || have != mark {
			t.Errorf("have %v, %v", have, err)
		}
		if err := sqlitefile.Scrub(t.Context(), f.DB(), 0); err != nil {
			t.Error(err)
		}
		if inBytes(t, path) == mark {
			t.Errorf("marked %v: have %v", mark, inBytes(t, path))
		}
		if have, err := sqlitefile.Marked(t.Context(), f.DB()); err != nil || have {
			t.Errorf("have %v, %v", have, err)
		}
	}
}

// M-57: whoever reads or writes keeps traces, which is told in time, and they stay marked.
func TestScrubBesideOthers(t *testing.T) {
	for _, begin := range []string{`BEGIN`, `BEGIN IMMEDIATE`} {
		path := filepath.Join(t.TempDir(), "test.sqlite")
		f := written(t, path, true)
		other, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		other.SetMaxOpenConns(1)
		if _, err := other.ExecContext(t.Context(), begin+`; SELECT * FROM words`); err != nil {
			t.Fatal(err)
		}
		log := sizeOf(t, path+"-wal")
		for range 5 {
			if err := sqlitefile.Scrub(t.Context(), f.DB(), 0); !errors.Is(err, sqlitefile.ErrLingers) {
				t.Errorf("%s: have %v", begin, err)
			}
		}
		if have := sizeOf(t, path+"-wal"); have != log {
			t.Errorf("%s: the log had %d bytes and has %d: it was written in vain", begin, log, have)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := sqlitefile.Scrub(ctx, f.DB(), time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: have %v", begin, err)
		}
		if have, err := sqlitefile.Marked(t.Context(), f.DB()); err != nil || !have {
			t.Errorf("%s: have %v, %v", begin, have, err)
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
		if err := sqlitefile.Scrub(t.Context(), f.DB(), time.Minute); err != nil || inBytes(t, path) {
			t.Errorf("%s: have %v", begin, err)
		}
	}
}

// M-57: what is marked after a scrub is to be scrubbed again.
func TestMarksAreCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.sqlite")
	f := written(t, path, true)
	for range 3 {
		if err := sqlitefile.MarkScrub(t.Context(), f.DB()); err != nil {
			t.Fatal(err)
		}
	}
	if err := sqlitefile.Scrub(t.Context(), f.DB(), 0); err != nil {
		t.Fatal(err)
	}
	if err := sqlitefile.MarkScrub(t.Context(), f.DB()); err != nil {
		t.Fatal(err)
	}
	if have, err := sqlitefile.Marked(t.Context(), f.DB()); err != nil || !have {
		t.Errorf("have %v, %v", have, err)
	}
}
