package probe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/sandbox/probe"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// decoyName is argv[0] of a host process that the probes may harm.
const decoyName = "nacre-decoy"

const (
	marker = "nacre-probe-secret-f3a9"
	token  = "nacre-probe-token-71d0"
)

// The hosts that the proxy lets through.
const (
	allowedHost = "allowed.example"
	plainHost   = "plain.example"
	privateHost = "private.example"
)

// decoys sets up everything on the host that a probe may reach for.
func decoys(t *testing.T, binary string) probe.Target {
	t.Helper()
	t.Setenv("NACRE_PROBE_SECRET", marker)
	templates(t)
	dir := t.TempDir()
	secret := filepath.Join(dir, "private", "secret")
	target := probe.Target{
		Secret: secret, Outside: dir, Project: repository(t, false), Scratch: t.TempDir(), Shm: "/dev/shm", Tmp: "/tmp",
		Marker: marker, Token: token, HostPid: decoy(t, binary), Init: decoy(t, binary), Abstract: fmt.Sprintf("nacre-probe-%d", os.Getpid()),
		Canary: filepath.Join(dir, "canary"), Allowed: allowedHost, Plain: plainHost, Private: privateHost,
		Socket: filepath.Join(dir, "host.sock"), Processes: 64, OpenFiles: 512, Memory: 128 << 20, FileSize: 1 << 30, Space: 256 << 20,
	}
	must(t, os.Mkdir(filepath.Dir(secret), 0o700))
	must(t, os.WriteFile(secret, []byte(marker), 0o600))
	inheritable(t, secret)
	target.TCP = listen(t, "tcp4", "127.0.0.1:0")
	target.TCP6 = listenWhere(t, "tcp6", "[::1]:0")
	listen(t, "unix", "@"+target.Abstract)
	listen(t, "unix", target.Socket)
	target.UDP = echo(t)
	target.ShmKey = segment(t)
	queues(t, target)
	locked(t, binary)
	sending(t, target.InFlight())
	var err error
	target.HostName, err = os.Hostname()
	must(t, err)
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	must(t, err)
	target.Boot = strings.TrimSpace(string(boot))
	instances, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances")
	must(t, err)
	target.Watches, err = strconv.Atoi(strings.TrimSpace(string(instances)))
	must(t, err)
	line, err := os.ReadFile("/proc/cmdline")
	must(t, err)
	target.CommandLine = string(line)
	return target
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// repository is a project as a person has it: some files that make the host
// run code are there already, others are not.
func repository(t *testing.T, unborn bool) string {
	t.Helper()
	dir := t.TempDir()
	template := filepath.Join(os.Getenv(templateVariable), "born")
	if unborn {
		template = filepath.Join(os.Getenv(templateVariable), "unborn")
	}
	must(t, os.CopyFS(dir, os.DirFS(template)))
	return dir
}

// templateVariable names the folder with the projects that repository copies.
const templateVariable = "NACRE_PROBE_TEMPLATES"

// templates makes the projects that repository copies.
func templates(t *testing.T) {
	t.Helper()
	top := t.TempDir()
	t.Setenv(templateVariable, top)
	for _, kind := range []string{"born", "unborn"} {
		for name, text := range map[string]string{
			"a.txt": "text\n", "Makefile": "all:\n\ttrue\n", "package.json": "{}\n", ".env": marker, "gradlew": "#!/bin/sh\n",
			".envrc": "", ".npmrc": "", ".gitattributes": "", ".vscode/settings.json": "{}\n", ".husky/pre-commit": "#!/bin/sh\n",
		} {
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(top, kind, name)), 0o755))
			must(t, os.WriteFile(filepath.Join(top, kind, name), []byte(text), 0o644))
		}
	}
	dir := filepath.Join(top, "born")
	git(t, dir, "init", "-q", "-b", "main")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "base")
	for _, f := range []string{"hooks/pre-commit.sample", "info/exclude"} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, ".git", f)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, ".git", f), nil, 0o644))
	}
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command(testpeer.Need(t, "git"), append([]string{"-c", "user.name=u", "-c", "user.email=u@example.com", "-c", "commit.gpgsign=false"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v: %s", args, err, out)
	}
}

// decoy starts a process with the marker in its arguments and environment.
func decoy(t *testing.T, binary string) int {
	t.Helper()
	cmd := &exec.Cmd{Path: binary, Args: []string{decoyName, marker}, Env: append(os.Environ(), "SECRET="+marker)}
	in, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

// inheritable leaves the secret open in this process, without close-on-exec.
func inheritable(t *testing.T, name string) {
	t.Helper()
	fd, err := unix.Open(name, unix.O_RDONLY, 0)
	must(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
}

func listen(t *testing.T, network, address string) string {
	t.Helper()
	l, err := net.Listen(network, address)
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// listenWhere gives an address where nothing listens when the machine has none.
func listenWhere(t *testing.T, network, address string) string {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		return "[::1]:1"
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

func echo(t *testing.T) string {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 16)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = c.WriteTo(buf[:n], from)
		}
	}()
	t.Cleanup(func() {
		_ = c.Close()
		<-done
	})
	return c.LocalAddr().String()
}

func segment(t *testing.T) int {
	t.Helper()
	key := 0x6e610000 | os.Getpid()&0xffff
	id, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|0o600)
	must(t, err)
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	return key
}

// locked holds a shared lock on the program that the probes are.
func locked(t *testing.T, binary string) {
	t.Helper()
	f, err := os.Open(binary)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	must(t, unix.Flock(int(f.Fd()), unix.LOCK_SH))
}

// sending keeps descriptors on their way to nobody.
func sending(t *testing.T, n int) {
	t.Helper()
	const most = 250 // in one message
	for ; n > 0; n -= most {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		t.Cleanup(func() { _, _ = unix.Close(pair[0]), unix.Close(pair[1]) })
		rights := make([]int, min(n, most))
		for i := range rights {
			rights[i] = pair[1]
		}
		must(t, unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(rights...), nil, 0))
	}
}

// queues makes a semaphore and message queues, where the kernel has them.
func queues(t *testing.T, target probe.Target) {
	t.Helper()
	key := uintptr(target.ShmKey)
	if id, _, e := unix.Syscall(unix.SYS_SEMGET, key, 1, unix.IPC_CREAT|0o600); e == 0 {
		t.Cleanup(func() { _, _, _ = unix.Syscall(unix.SYS_SEMCTL, id, 0, unix.IPC_RMID) })
	}
	if id, _, e := unix.Syscall(unix.SYS_MSGGET, key, unix.IPC_CREAT|0o600, 0); e == 0 {
		t.Cleanup(func() { _, _, _ = unix.Syscall(unix.SYS_MSGCTL, id, unix.IPC_RMID, 0) })
	}
	name, err := unix.BytePtrFromString(target.QueueName())
	must(t, err)
	if fd, e := openQueue(name); e == 0 {
		t.Cleanup(func() { _ = unix.Close(fd); removeQueue(name) })
	}
}

// ledger is a recorder that keeps nothing.
type ledger struct{}

func (ledger) Append(context.Context, nacre.Record) error { return nil }
func (ledger) Commit(context.Context, nacre.Record) error { return nil }

// repeat answers whatever comes with the marker and what came.
func repeat(c net.Conn) {
	defer func() { _ = c.Close() }()
	buf := make([]byte, 32<<10)
	n, err := c.Read(buf)
	if err != nil {
		return
	}
	body := append([]byte(marker+"\n"), buf[:n]...)
	_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
	_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	_, _ = io.Copy(io.Discard, c)
}

// toDecoy connects to the decoy, whatever the address.
func toDecoy(context.Context, netip.AddrPort) (net.Conn, error) {
	here, there := net.Pipe()
	go repeat(there)
	return here, nil
}

// proxy serves the egress proxy on a socket in a directory for a sandbox.
func proxy(t *testing.T) string {
	t.Helper()
	p, err := egress.New(egress.Options{
		Rules: []nacre.EgressRule{
			{Host: allowedHost, Port: 443}, {Host: privateHost, Port: 443}, {Host: plainHost, Port: 80, Protocol: nacre.ProtocolHTTP},
		},
		Record: ledger{}, Session: "probe", Group: "main", Now: time.Now, Dial: toDecoy,
		Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
			if host == privateHost {
				return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
			}
			return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
		},
	})
	must(t, err)
	dir, err := os.MkdirTemp("", "probe") //nolint:usetesting // the path of a socket has at most 107 bytes, and t.TempDir names the test
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, nacre.EgressSocket))
	must(t, err)
	serve(t, func(ctx context.Context) { _ = p.Serve(ctx, l) })
	return dir
}

// permissive serves a proxy that lets everything through, as it stands.
func permissive(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	serve(t, func(ctx context.Context) {
		stop := context.AfterFunc(ctx, func() { _ = l.Close() })
		defer stop()
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go passOn(c)
		}
	})
	return l.Addr().String()
}

func passOn(c net.Conn) {
	head := make([]byte, 7)
	if _, err := io.ReadFull(c, head); err != nil {
		_ = c.Close()
		return
	}
	if string(head) != "CONNECT" {
		repeat(&replay{Conn: c, head: head})
		return
	}
	rest := make([]byte, 1)
	for tail := []byte(nil); !bytes.HasSuffix(tail, []byte("\r\n\r\n")); tail = append(tail, rest[0]) {
		if _, err := c.Read(rest); err != nil {
			return
		}
	}
	_, _ = io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
	repeat(c)
}

// replay gives back what was read already.
type replay struct {
	net.Conn
	head []byte
}

func (r *replay) Read(b []byte) (int, error) {
	n := copy(b, r.head)
	r.head = r.head[n:]
	if n == len(b) {
		return n, nil
	}
	more, err := r.Conn.Read(b[n:])
	return n + more, err
}

func serve(t *testing.T, run func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// control runs probes without a sandbox: as this user, or as the root of a
// user namespace, which is a sandbox that holds nothing.
func control(t *testing.T, binary string, target probe.Target, weak bool, names ...string) map[string]probe.Finding {
	t.Helper()
	input, err := json.Marshal(target)
	must(t, err)
	cmd := &exec.Cmd{Path: binary, Args: append([]string{probe.Name}, names...), Stdin: bytes.NewReader(input), Stderr: os.Stderr, Dir: target.Scratch}
	cmd.Env = append(os.Environ(), probe.TokenVariable+"="+token)
	if weak {
		id := func(host int) []syscall.SysProcIDMap { return []syscall.SysProcIDMap{{HostID: host, Size: 1}} }
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWCGROUP,
			UidMappings: id(os.Geteuid()), GidMappings: id(os.Getegid()),
		}
	}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if weak && err != nil && !errors.As(err, &exit) {
		return nil // this machine makes no namespaces
	}
	must(t, err)
	return findings(t, bytes.NewReader(out))
}
