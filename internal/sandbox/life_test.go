package sandbox_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/sandbox/container"
	"github.com/nacre-dev/nacre/internal/testpeer"
	"github.com/nacre-dev/nacre/internal/testwait"
)

// keeperState makes the test binary a nacre that starts one sandbox and waits.
const keeperState = "NACRE_TEST_KEEPER_STATE"

// keeperInit is the keeper's init binary.
const keeperInit = "NACRE_TEST_KEEPER_INIT"

// keep runs in the child: it prints PID 1's number and never ends by itself.
func keep(stateDir string) error {
	n, err := openKept(stateDir)
	if err != nil {
		return err
	}
	defer func() { _ = n.Close() }()
	c := sealed(n, "trap '' TERM HUP INT; (setsid sleep 1000 &) ; sleep 1000 & echo up; wait")
	c.Stdout = os.Stdout
	p, err := n.Start(context.Background(), c)
	if err != nil {
		return err
	}
	fmt.Println(p.Pid())
	_, err = p.Wait()
	return err
}

// keeperOptions makes the keeper's backend an engine.
const keeperOptions = "NACRE_TEST_KEEPER_OPTIONS"

func openKept(stateDir string) (sandbox.Backend, error) {
	text := os.Getenv(keeperOptions)
	if text == "" {
		return sandbox.Open(sandbox.Options{Init: os.Getenv(keeperInit), StateDir: stateDir})
	}
	var o container.Options
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return nil, err
	}
	return container.Open(context.Background(), o)
}

func startKeeper(t *testing.T, stateDir string, env ...string) (cmd *exec.Cmd, pid int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(self)
	cmd.Env = append(os.Environ(), keeperState+"="+stateDir, keeperInit+"="+initBinary(t))
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if n, err := strconv.Atoi(lines.Text()); err == nil {
			return cmd, n
		}
	}
	t.Fatal("the keeper started nothing")
	return nil, 0
}

// waitGone returns when the process has ended, by its descriptor.
func waitGone(t *testing.T, fd int, within time.Duration) {
	t.Helper()
	var n int
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(within.Milliseconds()))
	}
	if err != nil || n != 1 {
		t.Fatalf("the sandbox outlived its keeper: %v", err)
	}
}

func pidfd(t *testing.T, pid int) int {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func TestKillingNacreLeavesNothingRunning(t *testing.T) { // M-16
	state := t.TempDir()
	cmd, pid := startKeeper(t, state)
	fd := pidfd(t, pid)
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid_for_children", pid))
	if err != nil {
		t.Fatal(err)
	}
	if have := inNamespace(t, namespace); have < 2 {
		t.Fatalf("%d processes in %s before, want the sandbox's", have, namespace)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	waitGone(t, fd, 10*time.Second)
	if have := inNamespace(t, namespace); have != 0 {
		t.Errorf("%d processes left in %s", have, namespace)
	}
	_ = cmd.Wait() // killed
	if ended, err := sandbox.EndOrphans(state); err != nil || len(ended) != 0 {
		t.Errorf("have %q, %v: nothing was left to end, only records and groups", ended, err)
	}
	if left, err := filepath.Glob(filepath.Join(state, "sandboxes", "*")); err != nil || len(left) != 0 {
		t.Errorf("left %q, %v", left, err)
	}
}

// inNamespace counts the living processes of a pid namespace.
func inNamespace(t *testing.T, namespace string) int {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, l := range links {
		have, err := os.Readlink(l)
		stat, statErr := os.ReadFile(strings.TrimSuffix(l, "/ns/pid") + "/stat")
		if err == nil && statErr == nil && have == namespace && !strings.Contains(string(stat), ") Z ") {
			count++
		}
	}
	return count
}

// waitStopped returns once all threads of a process stand still: a signal is
// sent long before it has its effect.
func waitStopped(t *testing.T, pid int) {
	t.Helper()
	testwait.Until(t, fmt.Sprintf("process %d to stop", pid), func() bool {
		stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		running := len(stats) == 0
		for _, path := range stats {
			stat, err := os.ReadFile(path)
			running = running || err != nil || !strings.Contains(string(stat), ") T ")
		}
		return !running
	})
}

func TestOrphansAreFoundAndEnded(t *testing.T) { // M-16
	state := t.TempDir()
	cmd, pid := startKeeper(t, state)
	fd := pidfd(t, pid)
	if ended, err := sandbox.EndOrphans(state); err != nil || len(ended) != 0 {
		t.Fatalf("have %q, %v while nacre lives", ended, err)
	}
	// Stopped, PID 1 cannot see that its nacre goes.
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	waitStopped(t, pid)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	ended, err := sandbox.EndOrphans(state)
	if err != nil || len(ended) != 1 || ended[0] != "test" {
		t.Fatalf("have %q, %v", ended, err)
	}
	waitGone(t, fd, time.Second)
	if files, _ := filepath.Glob(filepath.Join(state, "sandboxes", "*")); len(files) != 0 {
		t.Errorf("left %q", files)
	}
	if ended, err := sandbox.EndOrphans(state); err != nil || len(ended) != 0 {
		t.Errorf("have %q, %v the second time", ended, err)
	}
}

func TestRecordsThatLieKillNobody(t *testing.T) {
	state := t.TempDir()
	dir := filepath.Join(state, "sandboxes")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	bystander := exec.Command("sleep", "1000")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bystander.Process.Kill(); _ = bystander.Wait() }()
	dead := `{"boot":"x","pid":1,"start":"1"}`
	for name, text := range map[string]string{
		"reused": fmt.Sprintf(`{"label":"a","process":{"boot":"x","pid":%d,"start":"1"},"keeper":%s}`, bystander.Process.Pid, dead),
		"init":   `{"label":"a","process":` + dead + `,"keeper":` + dead + `}`,
		"empty":  ``,
		"broken": `{`,
		"all":    `{"label":"a","process":{"pid":-1},"keeper":` + dead + `}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name+".json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ended, err := sandbox.EndOrphans(state)
	if len(ended) != 0 || err == nil {
		t.Errorf("have %q, %v", ended, err)
	}
	if err := bystander.Process.Signal(unix.Signal(0)); err != nil {
		t.Errorf("the bystander: %v", err)
	}
}

// begun returns the process that waits in a state directory for a command.
func begun(t *testing.T, state string) int {
	t.Helper()
	var pid int
	testwait.Until(t, "a sandbox that was begun ahead", func() bool {
		names, err := filepath.Glob(filepath.Join(state, "sandboxes", "-*.json"))
		if err != nil {
			t.Fatal(err)
		}
		if len(names) == 0 {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(names[0]), "-"), ".json"))
		if err != nil {
			t.Fatal(err)
		}
		return true
	})
	return pid
}

// openAhead returns a launcher that begins with its first sandbox at once.
func openAhead(t *testing.T) (n *sandbox.Native, state string) {
	t.Helper()
	state = t.TempDir()
	n, err := sandbox.Open(sandbox.Options{Init: initBinary(t), StateDir: state, Ahead: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if left, err := filepath.Glob(filepath.Join(state, "sandboxes", "*")); err != nil || len(left) != 0 {
			t.Errorf("left %q, %v", left, err)
		}
	})
	return n, state
}

func TestWhatWasBegunAheadServesOneCommand(t *testing.T) {
	n, state := openAhead(t)
	first := begun(t, state)
	for i := range 2 {
		p, err := n.Start(t.Context(), shell("exit 3"))
		if err != nil {
			t.Fatal(err)
		}
		if (p.Pid() == first) != (i == 0) {
			t.Errorf("sandbox %d is %d, and %d was begun ahead", i, p.Pid(), first)
		}
		if exit, err := p.Wait(); err != nil || exit.Code != 3 {
			t.Errorf("have %+v, %v", exit, err)
		}
	}
}

func TestWhatWasBegunAheadEndsUnused(t *testing.T) { // M-16
	state := t.TempDir()
	n, err := sandbox.Open(sandbox.Options{Init: initBinary(t), StateDir: state, Ahead: true})
	if err != nil {
		t.Fatal(err)
	}
	fd := pidfd(t, begun(t, state))
	if ended, err := sandbox.EndOrphans(state); err != nil || len(ended) != 0 {
		t.Errorf("have %q, %v while it is being kept", ended, err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	waitGone(t, fd, time.Second)
	if left, err := filepath.Glob(filepath.Join(state, "sandboxes", "*")); err != nil || len(left) != 0 {
		t.Errorf("left %q, %v", left, err)
	}
}

func TestWhatWasBegunAheadAndDiedIsReplaced(t *testing.T) {
	n, state := openAhead(t)
	first := begun(t, state)
	fd := pidfd(t, first)
	if err := unix.Kill(first, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitGone(t, fd, 10*time.Second)
	if have := run(t, n, shell("exit 3")); have.Code != 3 {
		t.Errorf("have %+v", have)
	}
}

func TestAForkFloodMeetsTheLimit(t *testing.T) { // M-12
	n := open(t)
	c := shell("i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i+1)); done; echo all")
	c.Posture.Limits.Processes = 40
	have := run(t, n, c)
	if strings.Contains(have.stdout, "all") && have.stderr == "" {
		t.Errorf("have %+v, want a failed fork", have)
	}
	if after := run(t, n, shell("true")); after.Code != 0 {
		t.Errorf("the next sandbox: %+v", after)
	}
}

func TestMemoryMeetsTheLimitWhereItCanBeEnforced(t *testing.T) { // M-12
	n := open(t)
	c := shell("head -c 300000000 /dev/zero | tail -n 1 | wc -c")
	c.Posture.Limits.Memory = 64 << 20
	have := run(t, n, c)
	if strings.TrimSpace(have.stdout) == "300000000" {
		t.Errorf("300 MB were held with a limit of 64 MiB: %+v", have)
	}
	limited := true
	for _, missing := range n.NotEnforced() {
		limited = limited && !strings.HasPrefix(missing, "memory")
	}
	if have.OOM != limited {
		t.Errorf("OOM %v, but enforced for the whole sandbox is %v", have.OOM, limited)
	}
}

func TestLoopbackPortsLeadToTheSocketsAndNowhereElse(t *testing.T) { // M-20
	n := open(t)
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, nacre.EgressSocket))
	if err != nil {
		t.Fatal(err)
	}
	peers := make(chan int, 8)
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "through the door") }),
		ConnState: func(c net.Conn, s http.ConnState) {
			if s == http.StateNew {
				peers <- peerUID(t, c)
			}
		},
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() {
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	c := shell(`
		curl -sS --max-time 5 http://127.0.0.1:3128/; echo
		curl -sS --max-time 5 --unix-socket /run/nacre/egress.sock http://x/; echo
		rm /run/nacre/egress.sock; mv /run/nacre /run/x; touch /run/nacre/x; mount
		ip route 2>/dev/null; cat /proc/net/route /proc/net/dev | grep -v -e lo: -e face -e Inter -e Iface; exit 0`)
	c.SocketDir = dir
	c.Posture.Forwards = []nacre.Forward{{Port: nacre.EgressPort, Socket: nacre.EgressSocket}}
	testpeer.Need(t, "curl")
	have := run(t, n, c)
	if !strings.HasPrefix(have.stdout, "through the door\nthrough the door\n") {
		t.Errorf("have %q, %q", have.stdout, have.stderr)
	}
	for range 2 {
		if uid := <-peers; !slices.Contains(n.PeerUIDs(), uid) {
			t.Errorf("peer %d, want one of %v", uid, n.PeerUIDs())
		}
	}
	if _, err := os.Stat(filepath.Join(dir, nacre.EgressSocket)); err != nil {
		t.Errorf("the socket on the host: %v", err)
	}
}

func peerUID(t *testing.T, c net.Conn) int {
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		t.Error(err)
		return -1
	}
	uid := -1
	if err := raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			uid = int(cred.Uid)
		}
	}); err != nil {
		t.Error(err)
	}
	return uid
}

func TestATerminalIsTheAgentsOwn(t *testing.T) { // M-06
	n := open(t)
	master, slave, err := sandbox.OpenPty()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = master.Close() }()
	c := shell("test -t 0 && echo is-a-terminal; test -e /dev/ptmx && echo can-make; read line; echo got $line; echo x > /dev/tty && echo controls")
	c.Stdin, c.Stdout, c.Stderr, c.Terminal = slave, slave, slave, true
	p, err := n.Start(t.Context(), c)
	_ = slave.Close()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(master, "hello\n"); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(master)
	if err != nil && !errors.Is(err, unix.EIO) {
		t.Fatal(err)
	}
	for _, want := range []string{"is-a-terminal", "can-make", "got hello", "controls"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("have %q, want %q", text, want)
		}
	}
	if exit, err := p.Wait(); err != nil || exit.Code != 0 {
		t.Errorf("have %+v, %v", exit, err)
	}
}

// M-65: a frozen sandbox does nothing until it is thawed, whoever is in it: a process
// that forks, one of another session, and one that ignores what it can.
func TestAFrozenSandboxDoesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, b sandbox.Backend) {
		out, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = out.Close() }()
		c := sealed(b, "trap '' TSTP CONT TERM; setsid sh -c 'while :; do (:); done' & while :; do (echo x); done")
		c.Stdout = write
		p, err := b.Start(t.Context(), c)
		if err := errors.Join(err, write.Close()); err != nil {
			t.Fatal(err)
		}
		line := make([]byte, 2)
		if _, err := io.ReadFull(out, line); err != nil {
			t.Fatal(err)
		}
		if err := p.Freeze(); err != nil {
			t.Fatal(err)
		}
		testwait.Until(t, "the pipe to stay empty", func() bool { return drained(t, out) })
		if err := p.Thaw(); err != nil {
			t.Fatal(err)
		}
		if err := out.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, line); err != nil {
			t.Errorf("it did not go on: %v", err)
		}
		if err := p.Freeze(); err != nil {
			t.Fatal(err)
		}
		if err := p.Kill(); err != nil { // which a frozen sandbox does not outlive
			t.Error(err)
		}
		if exit, err := p.Wait(); err != nil || !exit.Killed {
			t.Errorf("have %+v, %v", exit, err)
		}
	})
}

// drained empties a pipe and reports whether nothing more came for a while.
func drained(t *testing.T, r *os.File) bool {
	t.Helper()
	if err := r.SetReadDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	n, err := r.Read(make([]byte, 64<<10))
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}
