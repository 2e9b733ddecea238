package spawn_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/sandbox/spawn"
)

// kinds of children: one that shares the memory, and one that has a copy.
func kinds() map[string]uintptr { return map[string]uintptr{"shared": spawn.Shared, "copied": 0} }

// start lets a program go that ends in a shell script, and returns what it printed.
func runScript(t *testing.T, flags uintptr, p *spawn.Program, script string) string {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = read.Close() }()
	p.Files([]uintptr{0, write.Fd(), write.Fd()})
	p.Signals()
	p.Exec("exec", "/bin/sh", []string{"sh", "-c", script}, []string{"WORD=here"})
	c, err := p.Start(flags)
	if err != nil {
		t.Fatal(err)
	}
	defer c.End()
	if err := errors.Join(c.Go(), write.Close(), c.Executed()); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(read)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAChildBecomesItsProgram(t *testing.T) {
	for name, flags := range kinds() {
		t.Run(name, func(t *testing.T) {
			var p spawn.Program
			p.Do("folder", unix.SYS_CHDIR, p.Text("/usr"))
			p.Try(unix.SYS_CHDIR, p.Text("/no/such/folder"))
			want := "/usr here\n"
			if have := runScript(t, flags, &p, "echo $PWD $WORD"); have != want {
				t.Errorf("have %q, want %q", have, want)
			}
		})
	}
}

func TestAChildHasNeitherHandlersNorBlockedSignals(t *testing.T) {
	for name, flags := range kinds() {
		t.Run(name, func(t *testing.T) {
			for line := range strings.Lines(runScript(t, flags, new(spawn.Program), "exec cat /proc/self/status")) {
				kind, set, _ := strings.Cut(line, ":")
				if (kind == "SigBlk" || kind == "SigCgt") && strings.Trim(set, "0\t\n") != "" {
					t.Errorf("%s: have %s", kind, set)
				}
			}
		})
	}
}

func TestAFailedCallIsNamed(t *testing.T) {
	for name, flags := range kinds() {
		t.Run(name, func(t *testing.T) {
			var p spawn.Program
			p.Do("the first", unix.SYS_GETPID)
			p.Do("the second", unix.SYS_CHDIR, p.Text("/no/such/folder"))
			p.Do("the third", unix.SYS_GETPID)
			c, err := p.Start(flags)
			if err != nil {
				t.Fatal(err)
			}
			defer c.End()
			if err := c.Go(); err != nil {
				t.Fatal(err)
			}
			var failed *spawn.CallError
			if err := c.Executed(); !errors.As(err, &failed) || failed.What != "the second" || !errors.Is(err, unix.ENOENT) {
				t.Errorf("have %v", err)
			}
		})
	}
}

func TestAChildWaitsToBeLetGoAndEndsWithItsPipe(t *testing.T) {
	for name, flags := range kinds() {
		t.Run(name, func(t *testing.T) {
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			var p spawn.Program
			p.Do("pipe", unix.SYS_CLOSE, write.Fd())
			p.Await("pipe", read.Fd())
			c, err := p.Start(flags)
			if err != nil {
				t.Fatal(err)
			}
			defer c.End()
			if err := errors.Join(c.Go(), write.Close(), read.Close()); err != nil {
				t.Fatal(err)
			}
			var failed *spawn.CallError
			if err := c.Executed(); !errors.As(err, &failed) || failed.What != "pipe" || !errors.Is(err, unix.EPROTO) {
				t.Errorf("have %v, want a pipe at its end", err)
			}
		})
	}
}

func TestManyDescriptorsCrossOver(t *testing.T) {
	var files []uintptr
	for range 40 {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = read.Close(), write.Close() }()
		files = append([]uintptr{write.Fd()}, files...)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = read.Close() }()
	files[0], files[1], files[2] = 0, write.Fd(), write.Fd()
	want, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", files[39]))
	if err != nil {
		t.Fatal(err)
	}
	var p spawn.Program
	p.Files(files)
	p.Signals()
	p.Exec("exec", "/bin/sh", []string{"sh", "-c", "readlink /proc/$$/fd/39"}, []string{"PATH=/usr/bin:/bin"})
	c, err := p.Start(spawn.Shared)
	if err != nil {
		t.Fatal(err)
	}
	defer c.End()
	if err := errors.Join(c.Go(), write.Close(), c.Executed()); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(read)
	if err != nil || strings.TrimSpace(string(text)) != want {
		t.Errorf("have %q, %v, want %q", text, err, want)
	}
}

func TestAChildsNamespaceIsMapped(t *testing.T) {
	var p spawn.Program
	p.Do("group", unix.SYS_SETGID, 7)
	p.Do("user", unix.SYS_SETUID, 7)
	p.Signals()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = read.Close() }()
	p.Files([]uintptr{0, write.Fd(), write.Fd()})
	p.Exec("exec", "/usr/bin/id", []string{"id", "-u"}, nil)
	c, err := p.Start(spawn.Shared | unix.CLONE_NEWUSER)
	if err != nil {
		t.Skip(err) // not everybody may
	}
	defer c.End()
	user := []syscall.SysProcIDMap{{ContainerID: 7, HostID: os.Geteuid(), Size: 1}}
	group := []syscall.SysProcIDMap{{ContainerID: 7, HostID: os.Getegid(), Size: 1}}
	if err := errors.Join(c.Map(user, group, false), c.Go(), write.Close(), c.Executed()); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(read)
	if err != nil || string(text) != "7\n" {
		t.Errorf("have %q, %v", text, err)
	}
}

func TestTextWithAZeroStartsNothing(t *testing.T) {
	var p spawn.Program
	p.Exec("exec", "/bin/true", []string{"true", "a\x00b"}, nil)
	if c, err := p.Start(0); err == nil {
		c.End()
		t.Error("it was started")
	}
}

// killedRounds is how often the process with waiting children is killed: that they
// keep each other waiting depends on when each was made.
const killedRounds = 20

// starter is what the test's own program does where it is to be killed.
const starter = "NACRE_SPAWN_STARTER"

func TestMain(m *testing.M) {
	if os.Getenv(starter) != "" {
		startAndDie()
	}
	os.Exit(m.Run())
}

// startAndDie makes children at once, which nobody lets go.
func startAndDie() {
	var starting sync.WaitGroup
	for _, flags := range []uintptr{0, 0, spawn.Shared} {
		starting.Go(func() {
			if _, err := new(spawn.Program).Start(flags); err != nil {
				os.Exit(1)
			}
		})
	}
	starting.Wait()
	_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	select {}
}

// M-16: children that wait end with their parent, however it ends: none holds what
// another waits for.
func TestWaitingChildrenEndWithAParentThatIsKilled(t *testing.T) {
	for range killedRounds {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		command := exec.Command(os.Args[0])
		command.Env, command.ExtraFiles = append(os.Environ(), starter+"=1"), []*os.File{write}
		if err := errors.Join(command.Start(), write.Close()); err != nil {
			t.Fatal(err)
		}
		var exit *exec.ExitError
		if err := command.Wait(); !errors.As(err, &exit) || exit.Exited() {
			t.Fatalf("it was not killed: %v", err)
		}
		if err := read.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(read); err != nil { // each child has the other end
			t.Fatalf("children are left: %v", err)
		}
		_ = read.Close()
	}
}

// What a child that shares the memory does to itself is not done to its parent.
func TestAParentStaysAsDumpableAsItWas(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root's children can be other users")
	}
	for _, want := range []int{1, 0} {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, uintptr(want), 0, 0, 0); err != nil {
			t.Fatal(err)
		}
		var p spawn.Program
		p.Do("user", unix.SYS_SETUID, 1)
		runScript(t, spawn.Shared, &p, "true")
		if have, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || have != want {
			t.Errorf("have %d, %v, want %d", have, err, want)
		}
	}
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
}
