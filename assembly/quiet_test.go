package assembly_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// still is an installation in which nothing is configured.
type still struct {
	dir     string
	options assembly.Options
	later   atomic.Int64 // how far its clock is ahead
	opened  int
}

// putPrograms lays out nacre and the init of its sandboxes in a folder.
func putPrograms(t *testing.T, bin string) {
	t.Helper()
	for _, name := range []string{"nacre", "sandbox-init"} {
		testpeer.Copy(t, testpeer.Program(t, name), filepath.Join(bin, name))
	}
}

func newStill(t *testing.T) *still {
	t.Helper()
	h := &still{dir: t.TempDir()}
	runtime, err := os.MkdirTemp("", "na") //nolint:usetesting // short enough for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(runtime) })
	putPrograms(t, h.dir+"/bin")
	env := map[string]string{
		"HOME": h.dir, "XDG_STATE_HOME": h.dir + "/state", "XDG_CONFIG_HOME": h.dir + "/config", "XDG_DATA_HOME": h.dir + "/data", "XDG_RUNTIME_DIR": runtime, "PATH": "/usr/bin:/bin",
	}
	h.options = assembly.Options{
		Getenv: func(k string) string { return env[k] }, Executable: h.dir + "/bin/nacre", Version: "test",
		Now: func() time.Time { return time.Now().Add(time.Duration(h.later.Load())) },
	}
	return h
}

// open opens a session as `nacre exec` does.
func (h *still) open(t *testing.T) (*assembly.Command, error) {
	t.Helper()
	rt, err := assembly.Open(t.Context(), h.options)
	if err != nil {
		t.Fatal(err)
	}
	rt.SettleAtOnce()
	h.opened++
	return rt.OpenCommand(t.Context(), nacre.SessionID(fmt.Sprintf("c%d", h.opened)), "main")
}

// once opens a session that nothing is called in, and tells whether it did without.
func (h *still) once(t *testing.T) (late bool) {
	t.Helper()
	c, err := h.open(t)
	if err != nil {
		t.Fatal(err)
	}
	late = c.Late()
	if err := c.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	return late
}

// settle opens sessions until one does without.
func (h *still) settle(t *testing.T) {
	t.Helper()
	for range 5 {
		if h.once(t) {
			return
		}
	}
	t.Fatal("it does not get quiet")
}

func (h *still) memory() string { return h.dir + "/state/nacre/memory/main.sqlite" }

// damage breaks the memory's file where only who reads all of it finds out.
func (h *still) damage(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile(h.memory(), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte(strings.Repeat("x", 4096)), 4096)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// M-01, D-45: a command does without memory and plugins until its agent calls, where
// they were found whole and quiet. Whatever changes, they are opened before it starts.
func TestACommandDoesWithoutWhatIsQuiet(t *testing.T) {
	h := newStill(t)
	if h.once(t) {
		t.Fatal("the first did without")
	}
	h.settle(t)
	c, err := h.open(t)
	if err != nil || !c.Late() || !c.Has("list_tools") || c.Late() || !c.Has("memory_search") || c.Has("nothing") {
		t.Fatalf("a call does not open it: %v", err)
	}
	if err := c.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	plugin := h.dir + "/data/nacre/plugins/odd"
	for _, change := range []struct {
		name string
		do   func() error
		undo func() error
	}{
		{"the memory was touched", func() error { return os.Chtimes(h.memory(), time.Now(), time.Now()) }, nil},
		{"somebody has the memory open", func() error { return os.WriteFile(h.memory()+"-wal", nil, 0o600) }, nil},
		{"a plugin came, which is broken", func() error {
			return errors.Join(os.MkdirAll(plugin, 0o755), os.WriteFile(plugin+"/manifest.json", []byte("{"), 0o600))
		}, func() error { return os.RemoveAll(h.dir + "/data") }},
		{"a config came", func() error {
			return errors.Join(os.MkdirAll(h.dir+"/config/nacre", 0o755), os.WriteFile(h.dir+"/config/nacre/config.toml", []byte("checks = [\"true\"]\n"), 0o600))
		}, nil},
		{"another nacre came", func() error { return os.Chtimes(h.options.Executable, time.Now(), time.Now()) }, nil},
		{"a day went by", func() error { h.later.Add(int64(25 * time.Hour)); return nil }, nil},
		{"the clock was set back", func() error { h.later.Add(-int64(time.Hour)); return nil }, nil},
		{"what was kept is damaged", func() error { return os.WriteFile(h.dir+"/state/nacre/quiet.json", []byte("{"), 0o600) }, nil},
	} {
		h.settle(t)
		if err := change.do(); err != nil {
			t.Fatal(err)
		}
		if h.once(t) {
			t.Errorf("%s, and the command did without", change.name)
		}
		if change.undo != nil {
			if err := change.undo(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// D-45: a memory that is damaged stops a command before it starts, and ends one that
// did without it with its agent's first call.
func TestADamagedMemoryStopsACommandThatWouldDoWithoutIt(t *testing.T) {
	h := newStill(t)
	h.settle(t)
	c, err := h.open(t)
	if err != nil || !c.Late() {
		t.Fatalf("have %v", err)
	}
	h.damage(t)
	var notReady *assembly.NotReady
	if c.Has("list_tools") || !errors.As(c.Failure(), &notReady) || !strings.Contains(c.Failure().Error(), "damaged") {
		t.Errorf("have %v", c.Failure())
	}
	if err := c.End(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := h.open(t); !errors.As(err, &notReady) || !strings.Contains(err.Error(), filepath.Base(h.memory())) {
		t.Errorf("have %v", err)
	}
}

// What is being opened for a call when the session ends is not left behind.
func TestAnEndedCommandOpensNothing(t *testing.T) {
	h := newStill(t)
	h.settle(t)
	c, err := h.open(t)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan bool)
	go func() { asked <- c.Has("list_tools") }()
	if err := c.End(t.Context()); err != nil {
		t.Error(err)
	}
	<-asked
	if c.Has("nothing") {
		t.Error("it has what is not there")
	}
	if _, err := os.Stat(h.memory() + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the memory stays open: %v", err)
	}
}
