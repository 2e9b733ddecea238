package revocation_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/revocation"
	"github.com/nacre-dev/nacre/internal/token"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const list = "revocations.jsonl"

func folder(t testing.TB) string { return filepath.Join(t.TempDir(), "state") }

func open(t testing.TB, dir string) *revocation.List {
	t.Helper()
	l, err := openOn(dir, storeOf(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func revoke(t testing.TB, l *revocation.List, id, principal string, until time.Time) {
	t.Helper()
	if err := l.Revoke(id, principal, until); err != nil {
		t.Fatal(err)
	}
}

func revoked(t testing.TB, l token.Revocations, id, principal string, at time.Time) bool {
	t.Helper()
	is, err := l.Revoked(id, principal, at)
	if err != nil {
		t.Fatal(err)
	}
	return is
}

// K-12
func TestARevocationSurvivesARestart(t *testing.T) {
	dir := folder(t)
	l := open(t, dir)
	revoke(t, l, "t-1", "", now.Add(time.Hour))
	revoke(t, l, "", "a/\u2028<b>&\"\\\n", time.Time{})
	revoke(t, l, "far", "", time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Revoked("other", "", now); !errors.Is(err, revocation.ErrUnreadable) {
		t.Errorf("a closed list: have %v, want %v", err, revocation.ErrUnreadable)
	}
	l = open(t, dir)
	if !revoked(t, l, "t-1", "", now) || !revoked(t, l, "", "a/\u2028<b>&\"\\\n/child", now) || !revoked(t, l, "far", "", now) {
		t.Error("a revocation was lost")
	}
	if revoked(t, l, "t-2", "a", now) {
		t.Error("something else is revoked")
	}
}

// K-12: many processes, each with its own list, see every entry at once.
func TestEveryReaderSeesARevocationAtItsNextQuestion(t *testing.T) {
	dir := folder(t)
	one, two := open(t, dir), open(t, dir)
	for i := range 20 {
		id := fmt.Sprintf("t-%d", i)
		writer, reader := one, two
		if i%2 == 0 {
			writer, reader = two, one
		}
		if revoked(t, reader, id, "", now) {
			t.Fatalf("%s is revoked before it was", id)
		}
		revoke(t, writer, id, "", time.Time{})
		if !revoked(t, reader, id, "", now) || !revoked(t, writer, id, "", now) {
			t.Fatalf("%s is not revoked", id)
		}
	}
}

// K-12: no writer's entry is lost to another's.
func TestWritersAtOnceLoseNothing(t *testing.T) {
	dir := folder(t)
	var wait sync.WaitGroup
	for i := range 4 {
		l := open(t, dir)
		wait.Go(func() {
			for j := range 10 {
				if err := l.Revoke(fmt.Sprintf("%d-%d", i, j), "", time.Time{}); err != nil {
					t.Error(err)
				}
				_, _ = l.Revoked("0-0", "", now)
			}
		})
	}
	wait.Wait()
	l := open(t, dir)
	for i := range 40 {
		if id := fmt.Sprintf("%d-%d", i/10, i%10); !revoked(t, l, id, "", now) {
			t.Errorf("%s was lost", id)
		}
	}
}

// K-12
func TestASweepOnDiskNeverUnrevokes(t *testing.T) {
	dir := folder(t)
	l := open(t, dir)
	end := now.Add(time.Hour)
	revoke(t, l, "short", "", end)
	revoke(t, l, "ever", "", time.Time{})
	revoke(t, l, "ever", "", now) // shortens nothing
	revoke(t, l, "", "a", end)
	sweep := func(at time.Time) {
		t.Helper()
		if err := open(t, dir).Sweep(at); err != nil { // each in a process of its own
			t.Fatal(err)
		}
	}
	sweep(now)
	sweep(end.Add(1000 * time.Hour)) // for once, the clock is far ahead
	sweep(now)
	if !revoked(t, l, "short", "", now) || !revoked(t, l, "ever", "", now) || !revoked(t, l, "", "a/b", now) {
		t.Error("a sweep un-revoked")
	}
	sweep(end)
	sweep(end)
	if revoked(t, l, "short", "", end) || !revoked(t, l, "ever", "", end) || revoked(t, l, "", "a", end) {
		t.Error("what is over is forgotten after two sweeps, and nothing else is")
	}
}

// K-12: a list that is not whole revokes everything, and takes nothing.
func TestADamagedListFailsClosed(t *testing.T) {
	for name, damage := range map[string]func(path string, data []byte) error{
		"cut off in a line": func(p string, d []byte) error { return os.WriteFile(p, d[:len(d)-5], 0o600) },
		"cut off at a line": func(p string, d []byte) error {
			return os.WriteFile(p, d[:bytes.LastIndexByte(d[:len(d)-1], '\n')+1], 0o600)
		},
		"only a header": func(p string, d []byte) error { return os.WriteFile(p, d[:bytes.IndexByte(d, '\n')+1], 0o600) },
		"empty":         func(p string, _ []byte) error { return os.Truncate(p, 0) },
		"one bit":       func(p string, d []byte) error { d[len(d)-9] ^= 1; return os.WriteFile(p, d, 0o600) },
		"a line added":  func(p string, d []byte) error { return os.WriteFile(p, append(d, "{\"id\":\"x\"}\n"...), 0o600) },
		"another format": func(p string, d []byte) error {
			return os.WriteFile(p, bytes.Replace(d, []byte("s.1"), []byte("s.2"), 1), 0o600)
		},
		"removed":  func(p string, _ []byte) error { return os.Remove(p) },
		"a folder": func(p string, _ []byte) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o700)) },
		"a pipe":   func(p string, _ []byte) error { return errors.Join(os.Remove(p), syscall.Mkfifo(p, 0o600)) },
		"for others": func(p string, d []byte) error {
			return errors.Join(os.Remove(p), os.WriteFile(p, d, 0o600), os.Chmod(p, 0o644))
		},
		"moved away": func(p string, _ []byte) error { return os.Rename(p, p+".old") },
		"a link": func(p string, _ []byte) error {
			return errors.Join(os.Rename(p, p+".real"), os.Symlink(p+".real", p))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t)
			l := open(t, dir)
			revoke(t, l, "t-1", "", time.Time{})
			revoke(t, l, "t-2", "", time.Time{})
			path := filepath.Join(dir, list)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if revoked(t, l, "other", "", now) {
				t.Fatal("all is revoked from the start")
			}
			if err := damage(path, bytes.Clone(data)); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if is, err := l.Revoked("other", "", now); !is || !errors.Is(err, revocation.ErrUnreadable) {
					t.Errorf("have %v, %v, want %v", is, err, revocation.ErrUnreadable)
				}
			}
			if err := l.Revoke("t-3", "", time.Time{}); !errors.Is(err, revocation.ErrUnreadable) {
				t.Errorf("revoke: have %v, want %v", err, revocation.ErrUnreadable)
			}
			if _, err := revocation.Open(dir); !errors.Is(err, revocation.ErrUnreadable) {
				t.Errorf("open: have %v, want %v", err, revocation.ErrUnreadable)
			}
			restore(t, path, data)
			if !revoked(t, l, "t-1", "", now) || revoked(t, l, "other", "", now) {
				t.Error("the restored list is not believed")
			}
		})
	}
}

// A folder that is put in place of the list's, such as a backup, is noticed.
func TestAFolderThatIsReplacedIsNoticed(t *testing.T) {
	dir := folder(t)
	l := open(t, dir)
	revoke(t, l, "t-1", "", time.Time{})
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	revoke(t, open(t, dir), "t-2", "", time.Time{})
	for range 64 {
		if is, err := l.Revoked("t-2", "", now); is && err == nil {
			return
		}
	}
	t.Error("the new folder's list is not believed")
}

func restore(t *testing.T, path string, data []byte) {
	t.Helper()
	_ = os.Remove(path)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAFolderForOthersIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := revocation.Open(dir); err == nil {
		t.Error("a list for all to read was opened")
	}
	if _, err := revocation.LoadKeys(dir); err == nil {
		t.Error("keys for all to read were made")
	}
	if _, err := revocation.Open(""); err == nil {
		t.Error("a list without a folder was opened")
	}
}

func TestABadRevocationChangesNothing(t *testing.T) {
	l := open(t, folder(t))
	for _, names := range [][2]string{{"", ""}, {"a", "b"}, {"a b", ""}, {"", "\xff"}, {"", strings.Repeat("x", 2000)}} {
		if err := l.Revoke(names[0], names[1], time.Time{}); err == nil {
			t.Errorf("%q was revoked", names)
		}
	}
	if revoked(t, l, "a", "b", now) {
		t.Error("it is revoked")
	}
}

// K-12: a full disk is told, and the list stays as it was. The test runs itself
// as a process that may write no more than a few hundred bytes to a file.
func TestAFullDiskLeavesTheListWhole(t *testing.T) {
	if dir := os.Getenv("NACRE_TEST_FULL_DISK"); dir != "" {
		fillDisk(t, dir)
		return
	}
	dir := folder(t)
	revoke(t, open(t, dir), "t-1", "", time.Time{})
	cmd := exec.Command(os.Args[0], "-test.run", "^TestAFullDiskLeavesTheListWhole$") //nolint:gosec // itself
	cmd.Env = append(os.Environ(), "NACRE_TEST_FULL_DISK="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	l := open(t, dir)
	if !revoked(t, l, "t-1", "", now) || revoked(t, l, "t-2", "", now) {
		t.Error("the list is not as it was")
	}
	revoke(t, l, "t-3", "", time.Time{})
	left, err := filepath.Glob(filepath.Join(dir, ".new-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func fillDisk(t *testing.T, dir string) {
	l := open(t, dir)
	signal.Ignore(syscall.SIGXFSZ)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	small := syscall.Rlimit{Cur: 100, Max: old.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small); err != nil {
		t.Fatal(err)
	}
	err := l.Revoke("t-2", "", time.Time{})
	is, readErr := l.Revoked("t-2", "", now)
	_ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old)
	if err == nil || is || readErr != nil {
		t.Errorf("have %v, %v, %v, want an error and nothing revoked", err, is, readErr)
	}
}

// A lock that is held for ever is an error, not a wait for ever.
func TestALockThatIsHeldIsToldOf(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for seconds")
	}
	t.Parallel()
	dir := folder(t)
	l := open(t, dir)
	revoke(t, l, "t-1", "", time.Time{})
	held, err := os.OpenFile(filepath.Join(dir, "revocations.lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := l.Revoke("t-2", "", time.Time{}); !errors.Is(err, revocation.ErrLocked) {
		t.Errorf("have %v, want %v", err, revocation.ErrLocked)
	}
}

func BenchmarkRevoked(b *testing.B) {
	dir := folder(b)
	l, memory := open(b, dir), new(token.RevocationList)
	for i := range 100 {
		revoke(b, l, fmt.Sprint(i), "", time.Time{})
		_ = memory.Revoke(fmt.Sprint(i), "", time.Time{})
	}
	revoke(b, l, "", "a", time.Time{})
	run := func(l token.Revocations) func(b *testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if is, err := l.Revoked("t-1", "main/s1", now); is || err != nil {
					b.Fatal(is, err)
				}
			}
		}
	}
	b.Run("floor", run(memory))
	b.Run("ours", run(l))
}

func BenchmarkRevoke(b *testing.B) {
	l, i := open(b, folder(b)), 0
	for b.Loop() {
		i++
		revoke(b, l, fmt.Sprint(i%1000), "", now.Add(time.Duration(i)))
	}
}
