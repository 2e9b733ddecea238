package sqlitefile_test

import (
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

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/sqlitefile"
)

// format is that of a small file of notes, in so many versions.
func format(versions int) sqlitefile.Format {
	all := []string{`CREATE TABLE notes(text TEXT NOT NULL);`, `ALTER TABLE notes ADD COLUMN at INTEGER NOT NULL DEFAULT 7;`}
	return sqlitefile.Format{Name: "notes", Application: 0x6e6f7465, Tables: []string{"notes"}, Migrations: all[:versions]}
}

func path(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "state", "notes.sqlite")
}

func open(t *testing.T, path string, f sqlitefile.Format) *sqlitefile.File {
	t.Helper()
	file, err := sqlitefile.Open(t.Context(), path, f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() }) // a test may have closed it
	return file
}

func write(ctx context.Context, f *sqlitefile.File, text string) error {
	return f.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO notes(text) VALUES (?)`, text)
		return err
	})
}

func count(t *testing.T, f *sqlitefile.File) (n int) {
	t.Helper()
	if err := f.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM notes`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// raw runs statements on a file past this package.
func raw(t *testing.T, path, statements string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), statements)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// D-40: a file that is not ours is refused with what to do, and is left as it was.
func TestUnusable(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, path string)
		want  error
	}{
		"newer":                     {func(t *testing.T, path string) { raw(t, path, `PRAGMA user_version=3`) }, sqlitefile.ErrNewer},
		"version 0 of ours":         {func(t *testing.T, path string) { raw(t, path, `PRAGMA user_version=0`) }, sqlitefile.ErrForeign},
		"a version below 0":         {func(t *testing.T, path string) { raw(t, path, `PRAGMA user_version=-1`) }, sqlitefile.ErrForeign},
		"another application's":     {func(t *testing.T, path string) { raw(t, path, `PRAGMA application_id=1`) }, sqlitefile.ErrForeign},
		"without one of its tables": {func(t *testing.T, path string) { raw(t, path, `DROP TABLE notes`) }, sqlitefile.ErrForeign},
		"with a view in a table's stead": {func(t *testing.T, path string) {
			raw(t, path, `DROP TABLE notes; CREATE VIEW notes AS SELECT 1 AS text`)
		}, sqlitefile.ErrForeign},
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
		"empty": {func(t *testing.T, path string) {
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
		}, sqlitefile.ErrDamaged},
		"one byte long": {func(t *testing.T, path string) {
			if err := os.Truncate(path, 1); err != nil {
				t.Fatal(err)
			}
		}, sqlitefile.ErrDamaged},
		"gone, with its log left": {func(t *testing.T, path string) {
			if err := os.Rename(path, path+"-wal"); err != nil {
				t.Fatal(err)
			}
		}, sqlitefile.ErrDamaged},
		"one that others may write to": {func(t *testing.T, path string) {
			if err := os.Chmod(path, 0o662); err != nil {
				t.Fatal(err)
			}
		}, sqlitefile.ErrExposed},
		"a link to another place": {func(t *testing.T, path string) {
			if err := errors.Join(os.Rename(path, path+".real"), os.Symlink(path+".real", path)); err != nil {
				t.Fatal(err)
			}
		}, nil},
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
			path := path(t)
			f := open(t, path, format(2))
			if err := errors.Join(write(t.Context(), f, strings.Repeat("x", 8000)), f.Close()); err != nil {
				t.Fatal(err)
			}
			c.spoil(t, path)
			before, _ := os.ReadFile(path) // a folder has no bytes
			f, err := sqlitefile.Open(t.Context(), path, format(2))
			var unusable *sqlitefile.UnusableError
			if !errors.As(err, &unusable) || c.want != nil && !errors.Is(err, c.want) || !strings.HasPrefix(fmt.Sprint(err), "notes "+path+": ") {
				t.Errorf("have %v, want %v", err, c.want)
			}
			if f != nil {
				t.Error("opened")
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the file was changed")
			}
		})
	}
}

// D-45: a new file is whole when it appears: an empty one in its place was never ours.
func TestANewFileAppearsWhole(t *testing.T) {
	path := path(t)
	var wait sync.WaitGroup
	for range 6 {
		wait.Go(func() {
			f, err := sqlitefile.Open(t.Context(), path, format(2))
			if err == nil {
				err = errors.Join(write(t.Context(), f, "one"), f.Close())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if n := count(t, open(t, path, format(2))); n != 6 {
		t.Errorf("%d notes, want 6", n)
	}
	list, err := filepath.Glob(path + ".new-*")
	if err != nil || len(list) != 0 {
		t.Errorf("left behind: %v, %v", list, err)
	}
}

// A file that could not be made leaves nothing.
func TestAFileThatCannotBeMade(t *testing.T) {
	path := path(t)
	bad := format(1)
	bad.Migrations = append(bad.Migrations, `CREATE TABLE notes(x)`)
	if _, err := sqlitefile.Open(t.Context(), path, bad); err == nil {
		t.Error("opened")
	}
	list, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(list) != 0 {
		t.Errorf("left behind: %v, %v", list, err)
	}
}

// D-40: an older file is brought forward, by one of many that open it at once.
func TestMigrations(t *testing.T) {
	path := path(t)
	f := open(t, path, format(1))
	if err := errors.Join(write(t.Context(), f, "old"), f.Close()); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			f, err := sqlitefile.Open(t.Context(), path, format(2))
			if err == nil {
				err = errors.Join(write(t.Context(), f, "new"), f.Close())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if n := count(t, open(t, path, format(2))); n != 5 {
		t.Errorf("%d notes", n)
	}
	if _, err := sqlitefile.Open(t.Context(), path, format(1)); !errors.Is(err, sqlitefile.ErrNewer) {
		t.Errorf("opened as the version before: %v", err)
	}
}

// D-40: a migration that fails leaves the file in the version before.
func TestMigrationIsWholeOrNot(t *testing.T) {
	path := path(t)
	f := open(t, path, format(1))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	bad := format(1)
	bad.Migrations = append(bad.Migrations, `CREATE TABLE half(x); CREATE TABLE notes(x);`)
	if _, err := sqlitefile.Open(t.Context(), path, bad); err == nil {
		t.Error("opened")
	}
	if n := count(t, open(t, path, format(1))); n != 0 {
		t.Errorf("%d notes", n)
	}
}

// D-40: on a full disk a write is refused as that, whole, and the file goes on.
func TestFullDisk(t *testing.T) {
	f := open(t, path(t), format(2))
	if err := write(t.Context(), f, "first"); err != nil {
		t.Fatal(err)
	}
	f.DB().SetMaxOpenConns(1)
	if _, err := f.DB().ExecContext(t.Context(), `PRAGMA max_page_count=10`); err != nil { // SQLite then says the same
		t.Fatal(err)
	}
	err := f.Write(t.Context(), func(tx *sql.Tx) error {
		for range 100 {
			if _, err := tx.ExecContext(t.Context(), `INSERT INTO notes(text) VALUES (?)`, strings.Repeat("x", 4000)); err != nil {
				return err
			}
		}
		return nil
	})
	if !errors.Is(err, sqlitefile.ErrFull) {
		t.Errorf("have %v, want %v", err, sqlitefile.ErrFull)
	}
	if n := count(t, f); n != 1 {
		t.Errorf("%d notes", n)
	}
	if err := write(t.Context(), f, "small"); err != nil {
		t.Error(err)
	}
}

// Nobody else reads the file, also where it was readable before.
func TestMode(t *testing.T) {
	path := path(t)
	f := open(t, path, format(2))
	if err := errors.Join(f.Close(), os.Chmod(path, 0o644)); err != nil {
		t.Fatal(err)
	}
	f = open(t, path, format(2))
	if err := write(t.Context(), f, "secret"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "-wal", "-shm"} {
		if info, err := os.Stat(path + name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// A context that is over is said as that, and is no fault of the file.
func TestContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sqlitefile.Open(ctx, path(t), format(2)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := sqlitefile.Classified(nil); err != nil {
		t.Error(err)
	}
}

// A file that is open is looked at again without harm. To open and close it past SQLite would drop
// this process's locks, and then another process that closes the file takes it for its own.
func TestASecondOpeningKeepsTheLocksOfTheFirst(t *testing.T) {
	const elsewhere = "NACRE_TEST_LOCKED"
	if at := os.Getenv(elsewhere); at != "" {
		f, err := os.Open(at)
		if err != nil {
			t.Fatal(err)
		}
		lock := unix.Flock_t{Type: unix.F_WRLCK, Start: 1<<30 + 2, Len: 510} // SQLite's shared range
		if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lock); err != nil || lock.Type == unix.F_UNLCK {
			t.Errorf("nobody holds it: %v", err)
		}
		return
	}
	at := path(t)
	first := open(t, at, format(2))
	if err := write(t.Context(), first, "a note"); err != nil {
		t.Fatal(err)
	}
	if err := open(t, at, format(2)).Close(); err != nil {
		t.Fatal(err)
	}
	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	other.Env = append(os.Environ(), elsewhere+"="+at)
	if out, err := other.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if have := count(t, first); have != 1 {
		t.Errorf("have %d notes", have)
	}
}

// P-09: a file that nothing has written to is not read again; one that was, is, whatever
// it claims. Damage without a write is found by who asks for all of it to be read.
func TestAFileIsReadWholeOnlyAfterItChanged(t *testing.T) {
	path := path(t)
	f := open(t, path, format(2))
	if err := errors.Join(write(t.Context(), f, strings.Repeat("x", 80000)), f.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Lgetxattr(path, "user.nacre.checked", nil); err != nil {
		t.Skip("this file system keeps no attributes: each file is read each time")
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	spoil := func(keep bool) {
		t.Helper()
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = file.WriteAt([]byte{0xff, 0xff, 0xff, 0xff}, 4096*8) // the chain of a long text's pages
		if err = errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
		if keep {
			if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
				t.Fatal(err)
			}
		}
	}
	unread := func() error {
		f, err := sqlitefile.Open(t.Context(), path, format(2))
		if err == nil {
			err = f.Close()
		}
		return err
	}
	spoil(true)
	if err := unread(); err != nil {
		t.Errorf("it looks as it did, and was read: %v", err)
	}
	sqlitefile.Recheck(path)
	if err := unread(); !errors.Is(err, sqlitefile.ErrDamaged) {
		t.Errorf("read again: have %v", err)
	}
	if err := unread(); !errors.Is(err, sqlitefile.ErrDamaged) {
		t.Errorf("what was damaged once is read until it is whole: have %v", err)
	}
	spoil(false)
	if err := unread(); !errors.Is(err, sqlitefile.ErrDamaged) {
		t.Errorf("written to: have %v", err)
	}
}

// P-09: whoever opens a file and changes nothing leaves it as it looks from outside, also where each
// attribute that is set counts as a change, as on a tmpfs. That a memory rests is known as long as
// the file looks the same.
func TestAFileThatNothingWasWrittenToLooksTheSame(t *testing.T) {
	t.Parallel()
	inMemory, err := os.MkdirTemp("/dev/shm", "notes") //nolint:usetesting // on a tmpfs, as a test's own folder seldom is
	if err != nil {
		t.Skip("there is no tmpfs to write to: " + err.Error())
	}
	t.Cleanup(func() { _ = os.RemoveAll(inMemory) }) // it goes with the machine
	for name, dir := range map[string]string{"a disk": t.TempDir(), "a tmpfs": inMemory} {
		at := filepath.Join(dir, "notes.sqlite")
		use := func() unix.Timespec {
			var looks unix.Stat_t
			if err := errors.Join(open(t, at, format(2)).Close(), unix.Stat(at, &looks)); err != nil {
				t.Fatal(err)
			}
			return looks.Ctim
		}
		if first, again := use(), use(); first != again {
			t.Errorf("%s: changed at %v, and again at %v", name, first, again)
		}
	}
}
