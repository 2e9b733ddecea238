package registry_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/registry"
)

func newRegistry(t *testing.T) *registry.Registry {
	t.Helper()
	home := t.TempDir()
	env := map[string]string{"HOME": home, "XDG_RUNTIME_DIR": t.TempDir()}
	paths, err := registry.ResolvePaths(func(k string) string { return env[k] })
	if err != nil {
		t.Fatal(err)
	}
	return registry.New(paths)
}

func TestOneProcessHoldsASession(t *testing.T) {
	r := newRegistry(t)
	held, existed, err := r.Take(registry.Session{SessionStatus: nacre.SessionStatus{ID: "work", State: nacre.SessionRunning, Started: time.Now()}})
	if err != nil || existed {
		t.Fatalf("existed %v, err %v", existed, err)
	}
	if _, _, err := r.Take(registry.Session{SessionStatus: nacre.SessionStatus{ID: "work"}}); !errors.Is(err, registry.ErrHeld) {
		t.Fatalf("have %v, want ErrHeld", err)
	}
	if s, err := r.Show("work"); err != nil || s.State != nacre.SessionRunning {
		t.Fatalf("have %v %v, want it running", s.State, err)
	}
	if err := held.Release(); err != nil {
		t.Fatal(err)
	}
	// M-43: the holder is gone, and the state says so.
	if s, err := r.Show("work"); err != nil || s.State != nacre.SessionInterrupted {
		t.Fatalf("have %v %v, want it interrupted", s.State, err)
	}
	again, existed, err := r.Take(registry.Session{SessionStatus: nacre.SessionStatus{ID: "work", State: nacre.SessionOpen}})
	if err != nil || !existed {
		t.Fatalf("existed %v, err %v", existed, err)
	}
	if err := again.Release(); err != nil {
		t.Fatal(err)
	}
}

// What runs is said to run until its holder says otherwise, or is gone; the next
// holder begins anew.
func TestASessionRunsUntilItsHolderIsGone(t *testing.T) {
	r := newRegistry(t)
	work := registry.Session{SessionStatus: nacre.SessionStatus{ID: "work", State: nacre.SessionOpen}}
	want := func(state nacre.SessionState) {
		t.Helper()
		if s, err := r.Show("work"); err != nil || s.State != state {
			t.Errorf("have %v %v, want %v", s.State, err, state)
		}
	}
	held, _, err := r.Take(work)
	if err != nil {
		t.Fatal(err)
	}
	want(nacre.SessionOpen)
	if err := held.Running(); err != nil {
		t.Fatal(err)
	}
	want(nacre.SessionRunning)
	if err := held.Release(); err != nil { // as the kernel does for the dead
		t.Fatal(err)
	}
	want(nacre.SessionInterrupted)
	if held, _, err = r.Take(work); err != nil {
		t.Fatal(err)
	}
	want(nacre.SessionOpen)
	err = errors.Join(held.Running(), held.Update(func(s *registry.Session) { s.State = nacre.SessionDone }), held.Release())
	if err != nil {
		t.Fatal(err)
	}
	want(nacre.SessionDone)
}

// A program that is being started holds all that is open for a moment: it does not
// hold the session.
func TestAReleasedSessionIsFreeAtOnce(t *testing.T) {
	r := newRegistry(t)
	work := registry.Session{SessionStatus: nacre.SessionStatus{ID: "work", State: nacre.SessionOpen}}
	held, _, err := r.Take(work)
	if err != nil {
		t.Fatal(err)
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	inherited := 0
	for _, e := range open {
		name, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil || filepath.Dir(name) != r.Paths().Session("work") {
			continue
		}
		fd, _ := strconv.Atoi(e.Name()) // digits
		copied, err := unix.Dup(fd)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Close(copied) }() // nothing was written
		inherited++
	}
	if inherited == 0 {
		t.Fatal("nothing of the session is open")
	}
	if err := held.Release(); err != nil {
		t.Fatal(err)
	}
	again, _, err := r.Take(work)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Release(); err != nil {
		t.Error(err)
	}
}

func TestUnknownAndDamagedSessionsAreErrors(t *testing.T) {
	r := newRegistry(t)
	if _, err := r.Show("nothing"); !errors.Is(err, registry.ErrUnknown) {
		t.Fatalf("have %v, want ErrUnknown", err)
	}
	dir := r.Paths().Session("torn")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "session.json"), []byte(`{"id":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Show("torn"); err == nil {
		t.Fatal("a damaged session was read")
	}
	if _, _, err := r.Take(registry.Session{SessionStatus: nacre.SessionStatus{ID: "torn"}}); err == nil {
		t.Fatal("a damaged session was taken")
	}
}

// What waits in one session is answered, and a group is revoked, whatever became
// of another session's file.
func TestOneDamagedSessionHidesNoOther(t *testing.T) {
	r := newRegistry(t)
	held, _, err := r.Take(registry.Session{SessionStatus: nacre.SessionStatus{ID: "whole", State: nacre.SessionDone}})
	if err := errors.Join(err, held.Release()); err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func(file string) error{
		"torn":   func(file string) error { return os.WriteFile(file, []byte(`{"id":`), 0o600) },
		"folder": func(file string) error { return os.Mkdir(file, 0o700) },
	} {
		dir := r.Paths().Session(nacre.SessionID(name))
		if err := errors.Join(os.MkdirAll(dir, 0o700), damage(filepath.Join(dir, "session.json"))); err != nil {
			t.Fatal(err)
		}
	}
	list, err := r.List()
	if len(list) != 1 || list[0].ID != "whole" {
		t.Errorf("have %v, want the whole one", list)
	}
	for _, want := range []string{r.Paths().Session("torn"), r.Paths().Session("folder"), "move the folder away"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("have %v, want it to say %q", err, want)
		}
	}
}

func TestListShowsTheNewestFirst(t *testing.T) {
	r := newRegistry(t)
	for i, id := range []nacre.SessionID{"a", "b", "c"} {
		held, _, err := r.Take(registry.Session{SessionStatus: nacre.SessionStatus{ID: id, State: nacre.SessionDone, Started: time.Unix(int64(i), 0)}})
		if err != nil {
			t.Fatal(err)
		}
		if err := held.Release(); err != nil {
			t.Fatal(err)
		}
	}
	list, err := r.List()
	if err != nil || len(list) != 3 || list[0].ID != "c" {
		t.Fatalf("have %v %v", list, err)
	}
}

func TestAForeignOrTooLongRuntimeFolderIsRefused(t *testing.T) {
	long := filepath.Join(t.TempDir(), "a-name-that-is-far-too-long-for-a-unix-socket-to-be-made-below-it-because-of-the-limit")
	env := map[string]string{"HOME": t.TempDir(), "XDG_RUNTIME_DIR": long}
	paths, err := registry.ResolvePaths(func(k string) string { return env[k] })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := paths.SocketRoom(); err == nil {
		t.Fatal("a path too long for a socket was given out")
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/", link); err != nil {
		t.Fatal(err)
	}
	env["XDG_RUNTIME_DIR"] = t.TempDir()
	if err := os.Symlink("/tmp", filepath.Join(env["XDG_RUNTIME_DIR"], "nacre")); err != nil {
		t.Fatal(err)
	}
	if _, err := registry.ResolvePaths(func(k string) string { return env[k] }); err == nil {
		t.Fatal("a symbolic link was taken for the runtime folder")
	}
	for _, name := range []string{"HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"} { // M-61
		env := map[string]string{"HOME": t.TempDir(), "XDG_RUNTIME_DIR": t.TempDir()}
		env[name] = "here"
		if _, err := registry.ResolvePaths(func(k string) string { return env[k] }); err == nil || !strings.Contains(err.Error(), name+` is "here": set it to an absolute path`) {
			t.Errorf("%s is relative: have %v", name, err)
		}
	}
}

// M-16: what a dead process left is found, and ended by one at a time.
func TestWhatIsLeftIsFoundAndHeldByOne(t *testing.T) {
	r := newRegistry(t)
	held, _, err := r.Take(registry.Session{SessionStatus: nacre.SessionStatus{ID: "work", State: nacre.SessionRunning}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Adopt("work"); !errors.Is(err, registry.ErrHeld) {
		t.Fatalf("a live session was adopted: %v", err)
	}
	if ids, err := r.Unsettled(); err != nil || len(ids) != 1 || ids[0] != "work" {
		t.Fatalf("have %v %v", ids, err)
	}
	if err := held.Release(); err != nil { // as the kernel does for the dead
		t.Fatal(err)
	}
	adopted, err := r.Adopt("work")
	if err != nil || adopted.State != nacre.SessionRunning {
		t.Fatalf("have %+v %v", adopted, err)
	}
	if _, err := r.Adopt("work"); !errors.Is(err, registry.ErrHeld) {
		t.Fatalf("have %v", err)
	}
	if err := errors.Join(adopted.Settled(), adopted.Settled(), adopted.Release()); err != nil {
		t.Fatal(err)
	}
	if ids, err := r.Unsettled(); err != nil || len(ids) != 0 {
		t.Fatalf("have %v %v", ids, err)
	}
}

// M-16: a program that a process was starting when it died has the lock for a moment: who
// looks at the session or adopts it waits for that.
func TestWhatHoldsASessionForAMomentIsWaitedFor(t *testing.T) {
	r := newRegistry(t)
	held, _, err := r.Take(registry.Session{SessionStatus: nacre.SessionStatus{ID: "work", State: nacre.SessionRunning}})
	if err != nil {
		t.Fatal(err)
	}
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	if err := held.Update(func(s *registry.Session) { s.PID = dead.Process.Pid }); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { _ = held.Release() })
	if have, err := r.Show("work"); err != nil || have.Live() {
		t.Errorf("have %+v, %v", have, err)
	}
	again, _, err := r.Take(held.Session)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Update(func(s *registry.Session) { s.PID = dead.Process.Pid }); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { _ = again.Release() })
	adopted, err := r.Adopt("work")
	if err != nil {
		t.Fatal(err)
	}
	if err := adopted.Release(); err != nil {
		t.Fatal(err)
	}
}
