package ledger_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/sqlitefile"
)

// writerEnv names the ledger that this test's own binary writes to, until it
// is killed.
const writerEnv = "LEDGER_TEST_WRITE"

func TestMain(m *testing.M) {
	if path := os.Getenv(writerEnv); path != "" {
		writeForever(path)
	}
	os.Exit(m.Run())
}

func writeForever(path string) {
	l, err := ledger.Open(context.Background(), path, time.Now)
	for i := 0; err == nil; i++ {
		s := start(fmt.Sprintf("p%d-%d", os.Getpid(), i), "", 0)
		s.DNA = fmt.Sprintf("edit-local::NG::%08X::%08X-00000000", os.Getpid(), i)
		if err = l.Begin(context.Background(), s); err == nil {
			err = l.Finish(context.Background(), s.ID, end(ledger.Done))
		}
		fmt.Println(i)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// raw runs statements on a file past this package.
func raw(t *testing.T, path, statements string) error {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }() // the statement's error counts
	_, err = db.ExecContext(t.Context(), statements)
	return err
}

// S-15: a file that is not a ledger of ours is refused with what to do, and is
// left as it was.
func TestUnusable(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, path string)
		want  error
	}{
		"newer": {func(t *testing.T, path string) {
			if err := raw(t, path, `PRAGMA user_version=99`); err != nil {
				t.Fatal(err)
			}
		}, sqlitefile.ErrNewer},
		"truncated": {func(t *testing.T, path string) {
			if err := os.Truncate(path, 5000); err != nil {
				t.Fatal(err)
			}
		}, sqlitefile.ErrDamaged},
		"overwritten": {func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, sqlitefile.ErrDamaged},
		"another program's": {func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := raw(t, path, `CREATE TABLE runs(x)`); err != nil {
				t.Fatal(err)
			}
		}, sqlitefile.ErrForeign},
		"a folder": {func(t *testing.T, path string) {
			if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
				t.Fatal(err)
			}
		}, nil},
		"not to be written": {func(t *testing.T, path string) {
			if os.Geteuid() == 0 {
				t.Skip("root may write everything")
			}
			if err := os.Chmod(path, 0o400); err != nil {
				t.Fatal(err)
			}
		}, sqlitefile.ErrReadOnly},
	} {
		t.Run(name, func(t *testing.T) {
			path := file(t)
			l, err := ledger.Open(t.Context(), path, clock)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(l.Begin(t.Context(), start("a1", "", 1)), l.Close()); err != nil {
				t.Fatal(err)
			}
			c.spoil(t, path)
			before, _ := os.ReadFile(path) // a folder has no bytes
			l, err = ledger.Open(t.Context(), path, clock)
			var unusable *sqlitefile.UnusableError
			if !errors.As(err, &unusable) || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("have %v, want %v", err, c.want)
			}
			if l != nil {
				t.Error("opened")
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the file was changed")
			}
		})
	}
}

// S-15: nobody else reads the ledger.
func TestMode(t *testing.T) {
	path := file(t)
	l := open(t, path)
	if err := l.Begin(t.Context(), start("a1", "", 1)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "-wal", "-shm"} {
		if info, err := os.Stat(path + name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// S-15: the rules hold in the file as well, past this package.
func TestRulesAreInTheFile(t *testing.T) {
	path := file(t)
	l := open(t, path)
	if err := errors.Join(l.Begin(t.Context(), start("a1", "", 1)), l.Finish(t.Context(), "a1", end(ledger.Failed))); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		`UPDATE runs SET status = 'merged'`, `UPDATE runs SET status = 'running'`, `UPDATE runs SET status = 'fine'`, `DELETE FROM runs`, `UPDATE runs SET dna = 'x'`,
		`UPDATE runs SET verdict = 'held'`, `UPDATE runs SET verdict = 'held', verdict_by = 'agent'`, `UPDATE runs SET role = 'x'`, `UPDATE runs SET cost = -1`,
	} {
		if err := rawAt(t, path, statement); err == nil {
			t.Errorf("%s is carried out", statement)
		}
	}
}

// S-15: many at once, from several openings of one file, lose nothing.
func TestSideBySide(t *testing.T) {
	const openings, each = 4, 8
	path := file(t)
	var wait sync.WaitGroup
	for o := range openings {
		wait.Go(func() {
			l, err := openAt(t, path)
			if err != nil {
				t.Error(err)
				return
			}
			for i := range each {
				id := fmt.Sprintf("a%d-%d", o, i)
				if err := errors.Join(l.Begin(t.Context(), start(id, "", byte(o*each+i))), l.Finish(t.Context(), id, end(ledger.Done))); err != nil {
					t.Error(err)
				}
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if list, err := open(t, path).List(t.Context(), ledger.Filter{Status: ledger.Done}); err != nil || len(list) != openings*each {
		t.Errorf("%d rows, %v", len(list), err)
	}
}

// S-15: two processes are killed in the midst; every row is whole, and the
// ledger goes on.
func TestKilled(t *testing.T) {
	path := file(t)
	open(t, path)
	var children []*exec.Cmd
	for range 2 {
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), writerEnv+"="+path)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		children = append(children, child)
		lines := bufio.NewScanner(out)
		for n := 0; n < 10 && lines.Scan(); n++ {
			continue // it is in the midst of writing now
		}
	}
	for _, child := range children {
		if err := child.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = child.Wait() // it was killed
	}
	l := open(t, path)
	list, err := l.List(t.Context(), ledger.Filter{})
	if err != nil || len(list) < 20 {
		t.Fatalf("%d rows, %v", len(list), err)
	}
	for _, r := range list {
		e, err := l.Show(t.Context(), r.DNA)
		if err != nil || e.Task == "" || len(e.Changes) != map[ledger.Status]int{ledger.Running: 1, ledger.Done: 2}[e.Status] {
			t.Errorf("half a row: %+v, %v", e, err)
		}
	}
	if err := l.Begin(t.Context(), start("a1", "", 1)); err != nil {
		t.Errorf("it does not go on: %v", err)
	}
}

// BenchmarkRun is a run from begin to end: two transactions that are durable.
// The floor is two writes to a file that are.
func BenchmarkRun(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		f, err := os.Create(filepath.Join(b.TempDir(), "floor"))
		if err != nil {
			b.Fatal(err)
		}
		page := make([]byte, 4096)
		for b.Loop() {
			for range 2 {
				if _, err := f.WriteAt(page, 0); err != nil {
					b.Fatal(err)
				}
				if err := f.Sync(); err != nil {
					b.Fatal(err)
				}
			}
		}
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
	})
	b.Run("ours", func(b *testing.B) {
		l, err := ledger.Open(b.Context(), filepath.Join(b.TempDir(), "ledger"), clock)
		if err != nil {
			b.Fatal(err)
		}
		s := start("a1", "", 1)
		for i := 0; b.Loop(); i++ {
			s.DNA = fmt.Sprintf("edit-local::NG::00000000::%08X-00000000", i)
			if err := errors.Join(l.Begin(b.Context(), s), l.Finish(b.Context(), "a1", end(ledger.Done))); err != nil {
				b.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	})
}
