package probe_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/sandbox/probe"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// decoyName is argv[0] of a host process that the probes may harm.
const decoyName = "nacre-decoy"

const marker = "nacre-probe-secret-f3a9"

func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case sandbox.Init:
		os.Exit(sandbox.Main(os.Args))
	case probe.Name:
		os.Exit(probe.Main(os.Args))
	case decoyName:
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// decoys sets up everything on the host that a probe may reach for.
func decoys(t *testing.T, binary string) probe.Target {
	t.Helper()
	t.Setenv("NACRE_PROBE_SECRET", marker)
	dir := t.TempDir()
	secret := filepath.Join(dir, "private", "secret")
	target := probe.Target{
		Secret: secret, Outside: dir, Project: repository(t), Scratch: t.TempDir(), Shm: "/dev/shm", Tmp: "/tmp",
		Marker: marker, HostPid: decoy(t, binary), Init: decoy(t, binary), Abstract: fmt.Sprintf("nacre-probe-%d", os.Getpid()),
		Socket: filepath.Join(dir, "host.sock"), Processes: 64, OpenFiles: 512, Memory: 128 << 20, FileSize: 1 << 30, Space: 256 << 20,
	}
	must(t, os.Mkdir(filepath.Dir(secret), 0o700))
	must(t, os.WriteFile(secret, []byte(marker), 0o600))
	inheritable(t, secret)
	target.TCP = listen(t, "tcp", "127.0.0.1:0")
	listen(t, "unix", "@"+target.Abstract)
	listen(t, "unix", target.Socket)
	target.UDP = echo(t)
	target.ShmKey = segment(t)
	var err error
	target.HostName, err = os.Hostname()
	must(t, err)
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	must(t, err)
	target.Boot = strings.TrimSpace(string(boot))
	return target
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"hooks", "info"} {
		must(t, os.MkdirAll(filepath.Join(dir, ".git", d), 0o755))
	}
	for _, f := range []string{".git/HEAD", ".git/config", ".git/hooks/pre-commit"} {
		must(t, os.WriteFile(filepath.Join(dir, f), nil, 0o644))
	}
	must(t, os.WriteFile(filepath.Join(dir, ".env"), []byte(marker), 0o600))
	return dir
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

// control runs the probes without a sandbox.
func control(t *testing.T, binary string, target probe.Target) map[string]probe.Finding {
	t.Helper()
	input, err := json.Marshal(target)
	must(t, err)
	cmd := &exec.Cmd{Path: binary, Args: append([]string{probe.Name}, names("")...), Stdin: bytes.NewReader(input), Stderr: os.Stderr, Dir: target.Scratch}
	out, err := cmd.Output()
	must(t, err)
	return findings(t, bytes.NewReader(out))
}

// helper is the binary that probes, decoys and PID 1 run as: this one, or
// the same without C, which cannot be PID 1 and takes a second to start under the
// race detector.
func helper(t *testing.T) string {
	t.Helper()
	if !linkedWithC {
		self, err := os.Executable()
		must(t, err)
		return self
	}
	path := filepath.Join(t.TempDir(), "helper")
	cmd := exec.Command(testpeer.Need(t, "go"), "test", "-c", "-o", path, ".")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the helper: %v: %s", err, out)
	}
	return path
}

// names lists the probes of a class, or all but those of "resources".
func names(class string) []string {
	var list []string
	for _, p := range probe.All() {
		if class == "" || p.Class == class || class == "others" && p.Class != "resources" {
			list = append(list, p.Name)
		}
	}
	return list
}

// sealed runs them in the native sandbox; those that use resources up each in
// one of their own, which may not survive it.
func sealed(t *testing.T, binary string, target probe.Target) (map[string]probe.Finding, []string) {
	t.Helper()
	n, err := sandbox.Open(sandbox.Options{Init: binary, StateDir: t.TempDir()})
	must(t, err)
	defer func() { _ = n.Close() }()
	box := sandboxed{n, binary}
	found, exit := box.run(t, target, names("others"))
	if exit.Code != 0 {
		t.Errorf("the probes ended with %+v", exit)
	}
	for _, name := range names("resources") {
		one, exit := box.run(t, target, []string{name})
		if one[name].Verdict == "" && exit.OOM {
			one[name] = probe.Finding{Verdict: probe.Blocked, Reason: "the sandbox was ended for its memory"}
		}
		found[name] = one[name]
	}
	return found, n.NotEnforced()
}

// sandboxed runs probes inside.
type sandboxed struct {
	native *sandbox.Native
	binary string
}

func (s sandboxed) run(t *testing.T, target probe.Target, names []string) (map[string]probe.Finding, sandbox.Exit) {
	t.Helper()
	host := target.Project
	target.Project, target.Scratch, target.Init = "/workspace", "/home/agent", 1
	input, err := json.Marshal(target)
	must(t, err)
	c := sandbox.Command{
		Label: "probe", Argv: append([]string{"/opt/probe/" + probe.Name}, names...), Stderr: os.Stderr,
		Posture: nacre.Posture{
			Dir: "/workspace", Env: []string{"PATH=/usr/bin:/bin"},
			Mounts: append(sandbox.SystemMounts(),
				nacre.Mount{Source: s.binary, Target: "/opt/probe/" + probe.Name},
				nacre.Mount{Kind: nacre.BindReadWrite, Source: host, Target: "/workspace"},
				nacre.Mount{Source: host + "/.git", Target: "/workspace/.git"},
				nacre.Mount{Kind: nacre.Mask, Target: "/workspace/.env"}),
			Limits: nacre.Limits{
				Wall: 3 * time.Minute, Processes: target.Processes, OpenFiles: target.OpenFiles,
				Memory: target.Memory, FileSize: target.FileSize,
			},
		},
	}
	stdin, feed, err := os.Pipe()
	must(t, err)
	results, stdout, err := os.Pipe()
	must(t, err)
	defer func() { _ = results.Close() }()
	c.Stdin, c.Stdout = stdin, stdout
	p, err := s.native.Start(t.Context(), c)
	_ = stdin.Close()
	_ = stdout.Close()
	must(t, err)
	_, err = feed.Write(input)
	must(t, err)
	must(t, feed.Close())
	found := findings(t, results)
	exit, err := p.Wait()
	must(t, err)
	return found, exit
}

func findings(t *testing.T, r io.Reader) map[string]probe.Finding {
	t.Helper()
	found := map[string]probe.Finding{}
	for lines := bufio.NewScanner(r); lines.Scan(); {
		var f probe.Finding
		must(t, json.Unmarshal(lines.Bytes(), &f))
		found[f.Probe] = f
	}
	return found
}

// open are the probes that escape, and why that is known.
func knownOpen(notEnforced []string) map[string]string {
	known := map[string]string{"res-project-disk": "disk: a writable bind has no quota"}
	for _, missing := range notEnforced {
		if strings.HasPrefix(missing, "memory:") {
			known["res-shared-memory"] = missing
			known["res-memfd"] = missing
		}
	}
	return known
}

func TestMatrixEveryProbeIsBlockedInsideAndEscapesOutside(t *testing.T) { // M-12, M-13
	binary := helper(t)
	target := decoys(t, binary)
	inside, notEnforced := sealed(t, binary, target) // first: the control run kills a decoy
	outside := control(t, binary, target)
	known := knownOpen(notEnforced)
	var matrix bytes.Buffer
	table := tabwriter.NewWriter(&matrix, 0, 0, 2, ' ', 0)
	counts := map[string]int{}
	for _, p := range probe.All() {
		in, out := inside[p.Name], outside[p.Name]
		cell, problem := judge(p, in, out, known)
		if problem != "" {
			t.Errorf("%s: %s", p.Name, problem)
		}
		counts[cell]++
		_, _ = fmt.Fprintf(table, "%s\t%s\t%.70s\tcontrol: %s %.60s\n", p.Name, cell, in.Reason, out.Verdict, out.Reason)
	}
	must(t, table.Flush())
	t.Logf("uid %d: %d probes: %v\n%s", os.Geteuid(), len(probe.All()), counts, matrix.String())
}

// judge fills one cell of the matrix; no cell goes without an explanation.
func judge(p probe.Probe, in, out probe.Finding, known map[string]string) (cell, problem string) {
	proven := out.Verdict == probe.Escaped
	switch {
	case in.Verdict == "":
		return "NO ANSWER", "no finding from inside"
	case in.Verdict == probe.Escaped && known[p.Name] != "":
		return "not enforced", ""
	case in.Verdict == probe.Escaped:
		return "ESCAPED", "escaped: " + in.Reason
	case !proven && p.Control == probe.Always:
		return "UNPROVEN", fmt.Sprintf("the control run says %s: %s", out.Verdict, out.Reason)
	case !proven && p.Control == probe.AsRoot && os.Geteuid() == 0:
		return "UNPROVEN", fmt.Sprintf("the control run as root says %s: %s", out.Verdict, out.Reason)
	case in.Verdict == probe.Untestable:
		return "UNTESTABLE", "inside: " + in.Reason
	case !proven:
		return "blocked, here in any case", ""
	}
	return "blocked", ""
}
