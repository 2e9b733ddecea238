package sandbox_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/sandbox/container"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// variant is a backend that the suite runs against (M-11).
type variant struct {
	name    string
	engine  string // container.Docker, container.Podman or empty
	socket  string // the variable that names the engine's socket
	runtime string
	apart   bool // as where the engine's containers run on another machine
}

// variants are all backends that there are.
func variants() []variant {
	return []variant{
		{name: "native"},
		{name: "docker", engine: container.Docker, socket: "NACRE_DOCKER"},
		{name: "docker apart", engine: container.Docker, socket: "NACRE_DOCKER", apart: true},
		{name: "docker with gVisor", engine: container.Docker, socket: "NACRE_DOCKER", runtime: "runsc"},
		{name: "podman", engine: container.Podman, socket: "NACRE_PODMAN"},
	}
}

// onEach runs a test against each backend that is here; the others are skipped by name.
func onEach(t *testing.T, test func(t *testing.T, b sandbox.Backend)) {
	t.Helper()
	for _, v := range variants() {
		t.Run(v.name, func(t *testing.T) {
			b, err := v.open(t, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			})
			test(t, b)
		})
	}
}

// open opens the backend, or skips the test.
func (v variant) open(t testing.TB, stateDir string) (sandbox.Backend, error) {
	t.Helper()
	if v.engine == "" {
		return sandbox.Open(sandbox.Options{Init: initBinary(t), StateDir: stateDir})
	}
	return container.Open(t.Context(), v.options(t, stateDir))
}

func (v variant) options(t testing.TB, stateDir string) container.Options {
	t.Helper()
	return container.Options{
		Engine: v.engine, Socket: v.address(t), Runtime: v.runtime, Image: testImage(t, v.address(t)), Init: initBinary(t), StateDir: stateDir, Apart: v.apart,
	}
}

func (v variant) address(t testing.TB) string {
	t.Helper()
	if v.runtime != "" {
		testpeer.Engine(t, "NACRE_RUNSC")
	}
	return testpeer.Engine(t, v.socket)
}

// testImage makes an image of busybox, and returns its id. changes are what
// the image says of itself.
func testImage(t testing.TB, socket string, changes ...string) string {
	t.Helper()
	engine, err := client.New(client.WithHost(socket))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = engine.Close() }()
	name := "nacre-test"
	if len(changes) > 0 {
		name = "nacre-lies"
	} else if found, err := engine.ImageInspect(t.Context(), name); err == nil {
		return "sha256:" + strings.TrimPrefix(found.ID, "sha256:")
	}
	imported, err := engine.ImageImport(t.Context(), client.ImageImportSource{Source: busyboxRoot(t), SourceName: "-"}, name, client.ImageImportOptions{Changes: changes})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, imported); err != nil {
		t.Fatal(err)
	}
	found, err := engine.ImageInspect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return "sha256:" + strings.TrimPrefix(found.ID, "sha256:")
}

// busyboxRoot is a root file system with busybox as every tool.
func busyboxRoot(t testing.TB) io.Reader {
	t.Helper()
	busybox := testpeer.Need(t, "busybox")
	program, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatal(err)
	}
	tools, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	var root bytes.Buffer
	w := tar.NewWriter(&root)
	headers := []*tar.Header{
		{Name: "bin/busybox", Mode: 0o755, Size: int64(len(program)), Typeflag: tar.TypeReg},
		{Name: "suid/id", Mode: 0o4755, Size: int64(len(program)), Typeflag: tar.TypeReg},
	}
	for tool := range strings.FieldsSeq(string(tools)) {
		if tool != "busybox" {
			headers = append(headers, &tar.Header{Name: "bin/" + tool, Linkname: "busybox", Typeflag: tar.TypeSymlink})
		}
	}
	for _, h := range headers {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write(program); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &root
}

// hasOwnKernel says that /proc and /dev are not of this machine.
func hasOwnKernel(b sandbox.Backend) bool { return strings.Contains(b.Name(), "runsc") }

// isApart says that no socket of this machine leads into a sandbox.
func isApart(b sandbox.Backend) bool { return strings.HasSuffix(b.Name(), "its own machine") }

// sealed runs a script with the tools of the backend.
func sealed(b sandbox.Backend, script string) sandbox.Command {
	c := shell(script)
	if !b.HostTools() {
		c.Posture.Mounts = nil
	}
	return c
}

func TestEveryBackendRunsACommandAsAnAgentWithoutPower(t *testing.T) { // M-11, M-12
	onEach(t, func(t *testing.T, b sandbox.Backend) {
		have := run(t, b, sealed(b, `
			[ "$(id -u)" != 0 ] && [ "$(id -g)" != 0 ] && echo somebody; [ "$(/suid/id -u 2>/dev/null)" = 0 ] && echo root; id -un; hostname; pwd; echo oops >&2
			grep -e ^Cap -e ^NoNewPrivs /proc/self/status; exit 7`))
		if have.Code != 7 || strings.TrimSpace(have.stderr) != "oops" {
			t.Errorf("have exit %+v, stderr %q", have.Exit, have.stderr)
		}
		if want := "somebody\nagent\nnacre\n/home/agent\n"; !strings.HasPrefix(have.stdout, want) {
			t.Errorf("have %q, want %q", have.stdout, want)
		}
		for _, line := range []string{"CapInh:", "CapPrm:", "CapEff:", "CapBnd:"} {
			if !strings.Contains(have.stdout, line+"\t0000000000000000") {
				t.Errorf("have %q, want no capability in %s", have.stdout, line)
			}
		}
		if strings.Contains(have.stdout, "NoNewPrivs:") && !strings.Contains(have.stdout, "NoNewPrivs:\t1") {
			t.Errorf("have %q", have.stdout)
		}
	})
}

func TestEveryBackendBuildsTheEnvironmentFromNothing(t *testing.T) { // M-12
	t.Setenv("SECRET_OF_THE_HOST", "s3cret")
	onEach(t, func(t *testing.T, b sandbox.Backend) {
		c := sealed(b, "env -i env; env; cat /proc/1/environ 2>/dev/null; exit 0")
		c.Posture.Env = append(c.Posture.Env, "ONLY=this")
		have := run(t, b, c)
		for line := range strings.Lines(have.stdout) {
			name, _, _ := strings.Cut(line, "=")
			if !slices.Contains([]string{"PATH", "HOME", "LANG", "ONLY", "PWD", "SHLVL", "OLDPWD", "_"}, name) {
				t.Errorf("have %q", line)
			}
		}
		if !strings.Contains(have.stdout, "ONLY=this\n") {
			t.Errorf("have %q", have.stdout)
		}
	})
}

func TestEveryBackendReportsHowTheCommandEnded(t *testing.T) { // M-06
	onEach(t, func(t *testing.T, b sandbox.Backend) {
		for _, c := range []struct {
			name, script string
			code         int
			signal       syscall.Signal
		}{
			{"success", "exit 0", 0, 0},
			{"a code", "exit 125", 125, 0},
			{"a signal", "kill -TERM $$", 128 + 15, syscall.SIGTERM},
			{"what is left behind does not hold it up", "sleep 1000 & exit 3", 3, 0},
			{"pipes that it closes itself", "exec >&- 2>&- <&-; exit 4", 4, 0},
			{"signals to the first process", "kill -9 1; kill -TERM 1; kill -STOP 1; exit 5", 5, 0},
		} {
			t.Run(c.name, func(t *testing.T) {
				if strings.Contains(c.script, "kill -9 1") && hasOwnKernel(b) {
					t.Skip("gVisor lets an agent end its own sandbox, which is the agent's loss")
				}
				have := run(t, b, sealed(b, c.script))
				if have.Code != c.code || have.Signal != c.signal || have.TimedOut || have.Killed {
					t.Errorf("have %+v, want code %d signal %d; stderr %q", have.Exit, c.code, c.signal, have.stderr)
				}
			})
		}
		c := sealed(b, "")
		c.Argv = []string{"no-such-program"}
		_, err := b.Start(t.Context(), c)
		var execErr *sandbox.ExecError
		if !errors.As(err, &execErr) || !errors.Is(err, syscall.ENOENT) {
			t.Errorf("have %v, want an ExecError", err)
		}
	})
}

func TestEveryBackendPassesStreamsOn(t *testing.T) {
	onEach(t, func(t *testing.T, b sandbox.Backend) {
		r, w := pipe(t)
		go func() {
			_, _ = io.WriteString(w, "through and through")
			_ = w.Close()
		}()
		c := sealed(b, "cat; head -c 20000000 /dev/zero; head -c 3000000 /dev/zero >&2")
		c.Stdin = r
		have := run(t, b, c)
		if !strings.HasPrefix(have.stdout, "through and through") || len(have.stdout) != 20000019 || len(have.stderr) != 3000000 {
			t.Errorf("have %.30q, %d and %d bytes, %+v", have.stdout, len(have.stdout), len(have.stderr), have.Exit)
		}
	})
}

func TestEveryBackendEndsACommandWhoseOutputNobodyReads(t *testing.T) {
	onEach(t, func(t *testing.T, b sandbox.Backend) {
		r, w := pipe(t)
		c := sealed(b, "while :; do echo y; done")
		c.Stdout = w
		p, err := b.Start(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		_ = w.Close()
		if _, err := r.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		_ = r.Close()
		if exit, err := p.Wait(); err != nil || exit.Signal != syscall.SIGPIPE && exit.Code == 0 {
			t.Errorf("have %+v, %v", exit, err)
		}
	})
}

func TestEveryBackendEndsWhatIgnoresSignals(t *testing.T) { // M-12, M-16
	onEach(t, func(t *testing.T, b sandbox.Backend) {
		c := sealed(b, "trap '' TERM INT HUP; sleep 1000 & sleep 1000")
		c.Posture.Limits.Wall = 50 * time.Millisecond
		if have := run(t, b, c); !have.TimedOut || have.Signal != syscall.SIGKILL || have.Code != 137 {
			t.Errorf("wall: have %+v", have.Exit)
		}
		for name, end := range map[string]func(sandbox.Process, context.CancelFunc){
			"kill":    func(p sandbox.Process, _ context.CancelFunc) { _ = p.Kill() },
			"context": func(_ sandbox.Process, cancel context.CancelFunc) { cancel() },
		} {
			t.Run(name, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r, w := pipe(t)
				c := sealed(b, "trap '' TERM INT HUP; (sleep 1000 &); echo up; while :; do sleep 1000; done")
				c.Stdout = w
				p, err := b.Start(ctx, c)
				_ = w.Close()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := r.Read(make([]byte, 3)); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				end(p, cancel)
				exit, err := p.Wait()
				if err != nil || !exit.Killed {
					t.Errorf("have %+v, %v", exit, err)
				}
				t.Logf("ended in %s", time.Since(began).Round(time.Millisecond))
				if _, err := io.ReadAll(r); err != nil { // ends only when nobody holds the pipe
					t.Error(err)
				}
			})
		}
	})
}

// M-16: PID 1 sees that its host is gone, so that no agent may stop it.
func TestEveryBackendKeepsPID1FromTheAgentsSignals(t *testing.T) {
	onEach(t, func(t *testing.T, b sandbox.Backend) {
		c := sealed(b, "for s in STOP TSTP TTIN TTOU TERM HUP INT QUIT USR1 USR2 ALRM PIPE ABRT CONT IO 34 64; do kill -$s 1 2>/dev/null; done; echo it went on; exit 7")
		c.Posture.Limits.Wall = 30 * time.Second
		if have := run(t, b, c); have.TimedOut || have.Code != 7 || have.stdout != "it went on\n" {
			t.Errorf("have %+v", have)
		}
	})
}

func TestEveryBackendHoldsItsLimits(t *testing.T) { // M-12
	onEach(t, func(t *testing.T, b sandbox.Backend) {
		enforced := func(limit string) bool {
			return !slices.ContainsFunc(b.NotEnforced(), func(s string) bool { return strings.HasPrefix(s, limit+":") })
		}
		if enforced("processes") {
			c := sealed(b, "i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i+1)); done; echo all")
			c.Posture.Limits.Processes = 40
			if have := run(t, b, c); strings.Contains(have.stdout, "all") && have.stderr == "" {
				t.Errorf("processes: have %+v, want a failed fork", have)
			}
			c = sealed(b, "f() { f | f & }; f; sleep 2; exit 0")
			c.Posture.Limits.Processes = 40
			run(t, b, c) // returns
		}
		c := sealed(b, "head -c 300000000 /dev/zero | tail -n 1 | wc -c")
		c.Posture.Limits.Memory = 64 << 20
		if have := run(t, b, c); strings.TrimSpace(have.stdout) == "300000000" && enforced("memory") {
			t.Errorf("300 MB were held with a limit of 64 MiB: %+v", have)
		}
		c = sealed(b, "head -c 2000000 /dev/zero > /tmp/big; wc -c < /tmp/big; ulimit -n")
		c.Posture.Limits.FileSize, c.Posture.Limits.OpenFiles = 1<<20, 64
		if have := run(t, b, c); have.stdout != "1048576\n64\n" {
			t.Errorf("files: have %q, %q", have.stdout, have.stderr)
		}
		c = sealed(b, "head -c 3000000 /dev/zero > /scratch/big; wc -c < /scratch/big")
		c.Posture.Mounts = append(c.Posture.Mounts, nacre.Mount{Kind: nacre.Tmpfs, Target: "/scratch", Size: 1 << 20})
		if have := run(t, b, c); have.stdout != "1048576\n" {
			t.Errorf("scratch: have %q, %q", have.stdout, have.stderr)
		}
	})
}

func TestEveryBackendShowsTheProjectAsTheAgentsAndKeepsItsOwner(t *testing.T) { // M-06
	onEach(t, func(t *testing.T, b sandbox.Backend) {
		dir := filepath.Join(t.TempDir(), "mein Projekt ☃", "a,b:c")
		if b.Name() == container.Podman && os.Geteuid() != 0 { // which takes a comma for the end of a path
			dir = strings.ReplaceAll(dir, ",", "")
		}
		if err := os.MkdirAll(filepath.Join(dir, ".git", "hooks"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "old"), []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		c := project(sealed(b, `cat old && echo new > new && mkdir sub && mv new sub/new && [ -O sub/new ] && [ -O old ] && echo; echo mine
			echo x > .git/hooks/h && echo wrote; mv .git g && echo moved; exit 0`), dir)
		c.Posture.Mounts = append(c.Posture.Mounts, nacre.Mount{Source: filepath.Join(dir, ".git"), Target: "/workspace/.git"})
		have := run(t, b, c)
		if want := "old\nmine\n"; have.Code != 0 || have.stdout != want {
			t.Fatalf("have %+v", have)
		}
		info, err := os.Stat(filepath.Join(dir, "sub", "new"))
		if err != nil {
			t.Fatal(err)
		}
		if uid := int(info.Sys().(*syscall.Stat_t).Uid); uid != os.Geteuid() {
			t.Errorf("on the host the new file belongs to %d, want %d", uid, os.Geteuid())
		}
	})
}

// M-11: what is mounted deep in the home takes nothing of it from the agent (U-03).
func TestEveryBackendLeavesTheAgentItsHomeBesideAMount(t *testing.T) {
	onEach(t, func(t *testing.T, b sandbox.Backend) {
		store, pip := t.TempDir(), t.TempDir()
		c := sealed(b, `cd /home/agent && touch .local/share/store/kept && mkdir -p .local/lib .local/share/own .cache/pip/x &&
			touch .local/lib/x .cache/y && mv .cache/y .cache/z && echo mine`)
		c.Posture.Mounts = append(c.Posture.Mounts,
			nacre.Mount{Kind: nacre.BindReadWrite, Source: store, Target: "/home/agent/.local/share/store"},
			nacre.Mount{Kind: nacre.BindReadWrite, Source: pip, Target: "/home/agent/.cache/pip"})
		if have := run(t, b, c); have.Code != 0 || have.stdout != "mine\n" {
			t.Errorf("have %+v", have)
		}
		if _, err := os.Stat(filepath.Join(store, "kept")); err != nil {
			t.Error(err)
		}
	})
}

// M-12: through a socket that the host has open in a project an agent would
// speak to the host.
func TestEveryBackendHidesTheHostsSocketsInAProject(t *testing.T) {
	onEach(t, func(t *testing.T, b sandbox.Backend) {
		dir, err := os.MkdirTemp("", "s") //nolint:usetesting // the path of a socket has at most 107 bytes
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		for _, name := range []string{"12 host.sock", "deep/in/it.sock", "dead.sock"} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
				t.Fatal(err)
			}
			l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(dir, name)})
			if err != nil {
				t.Fatal(err)
			}
			if name == "dead.sock" { // nothing answers there, and the file stays
				l.SetUnlinkOnClose(false)
				_ = l.Close()
				continue
			}
			t.Cleanup(func() { _ = l.Close() })
		}
		if hasOwnKernel(b) {
			if _, err := b.Start(t.Context(), project(sealed(b, "true"), dir)); err == nil || !strings.Contains(err.Error(), "cannot hide") {
				t.Errorf("have %v", err)
			}
			return
		}
		have := run(t, b, project(sealed(b, `for s in "12 host.sock" deep/in/it.sock; do [ -S "$s" ] && echo "open: $s"; [ -e "$s" ] || echo "gone: $s"; done
			mv deep/in/it.sock x 2>/dev/null && echo moved; mv deep y 2>/dev/null && echo moved; [ -S dead.sock ] && echo dead; exit 0`), dir))
		if have.Code != 0 || have.stdout != "dead\n" {
			t.Errorf("have %+v", have)
		}
	})
}

func TestEveryBackendKeepsWhatIsDeepInAProjectInItsPlace(t *testing.T) { // M-12
	onEach(t, func(t *testing.T, b sandbox.Backend) {
		dir := t.TempDir()
		for _, d := range []string{"a/b/.git/hooks", "a/free", "c/d", "secret"} {
			if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, f := range []string{"c/d/key", "secret/key"} {
			if err := os.WriteFile(filepath.Join(dir, f), []byte("secret"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c := project(sealed(b, `
			mv a x && echo moved-a; mv a/b x && echo moved-b; mv c x && echo moved-c; mv c/d x && echo moved-d; cat c/d/key; ls secret
			echo x > a/b/.git/hooks/h && echo wrote; echo y > a/b/file && cat a/b/file; mv a/free a/freed && echo freed; exit 0`), dir)
		c.Posture.Mounts = append(c.Posture.Mounts,
			nacre.Mount{Source: filepath.Join(dir, "a/b/.git"), Target: "/workspace/a/b/.git"},
			nacre.Mount{Kind: nacre.Mask, Target: "/workspace/secret"},
			nacre.Mount{Kind: nacre.Mask, Target: "/workspace/absent"},
			nacre.Mount{Kind: nacre.Mask, Target: "/workspace/c/d/key"})
		if have := run(t, b, c); have.stdout != "y\nfreed\n" {
			t.Errorf("have %+v", have)
		}
		if _, err := os.Stat(filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("on the host: %v", err)
		}
	})
}

func TestEveryBackendShowsNothingOfTheHost(t *testing.T) { // M-12
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("s3cret"), 0o644); err != nil {
		t.Fatal(err)
	}
	onEach(t, func(t *testing.T, b sandbox.Backend) {
		own := "/proc/1/fd"
		devices := ""
		if hasOwnKernel(b) {
			own, devices = "/root", "-e fuse -e net -e char"
		}
		have := run(t, b, sealed(b, `
			cat '`+secret+`' /proc/1/root'`+secret+`' /etc/shadow 2>/dev/null
			for d in /root /sys/class /sys/fs/cgroup `+own+`; do ls -A $d 2>/dev/null; done
			for f in /bin/x /etc/x /usr/x /x /sys/x /proc/sys/kernel/core_pattern; do (echo x > $f) 2>/dev/null && echo wrote $f; done
			mount -t tmpfs none /tmp 2>/dev/null && echo mounted; unshare -U true 2>/dev/null && echo unshared
			mknod /tmp/sda b 8 0 2>/dev/null && echo made-a-device; chmod u+s /tmp 2>/dev/null && ls -ld /tmp | grep ^drws
			ls /dev | grep -v -x -e null -e zero -e full -e random -e urandom -e tty -e fd -e stdin -e stdout -e stderr -e shm -e pts -e ptmx -e core -e mqueue -e console `+devices+`
			cat /etc/resolv.conf /proc/net/route | grep -v Iface; cat /proc/net/dev | grep : | grep -v lo:; exit 0`))
		if have.stdout != "" {
			t.Errorf("have %s", have.stdout)
		}
	})
}

func TestEveryBackendLeadsToTheSocketsAndNowhereElse(t *testing.T) { // M-20
	onEach(t, func(t *testing.T, b sandbox.Backend) {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		peers := serve(t, filepath.Join(dir, nacre.EgressSocket))
		c := sealed(b, `
			wget -q -O - http://127.0.0.1:3128/; echo
			(wget -q -T 2 -O - http://192.0.2.1/ || wget -q -T 2 -O - http://localhost:1/) 2>/dev/null && echo reached
			rm /run/nacre/egress.sock 2>/dev/null && echo removed; touch /run/nacre/x 2>/dev/null && echo made; exit 0`)
		c.SocketDir = dir
		c.Posture.Forwards = []nacre.Forward{{Port: nacre.EgressPort, Socket: nacre.EgressSocket}}
		if b.HostTools() {
			testpeer.Need(t, "wget")
		}
		have := run(t, b, c)
		if have.stdout != "through the door\n" {
			t.Fatalf("have %q, %q", have.stdout, have.stderr)
		}
		if uid := <-peers; !slices.Contains(b.PeerUIDs(), uid) {
			t.Errorf("peer %d, want one of %v", uid, b.PeerUIDs())
		}
	})
}

// serve answers on a socket and tells who connects.
func serve(t *testing.T, path string) <-chan int {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
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
	var wait sync.WaitGroup
	wait.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() {
		_ = server.Close()
		wait.Wait()
	})
	return peers
}

func TestEveryBackendRefusesHostileMounts(t *testing.T) { // M-12
	onEach(t, func(t *testing.T, b sandbox.Backend) {
		dir := t.TempDir()
		for _, d := range []string{"project", "home"} {
			if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("HOME", filepath.Join(dir, "home"))
		serve(t, filepath.Join(dir, "engine.sock"))
		for link, to := range map[string]string{"to-root": "/", "to-home": filepath.Join(dir, "home"), "to-socket": filepath.Join(dir, "engine.sock"), "project/.git": "/etc"} {
			if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct{ name, source, target, want string }{
			{"an engine's socket", filepath.Join(dir, "engine.sock"), "/x", "socket, device, pipe"},
			{"a socket behind a link", filepath.Join(dir, "to-socket"), "/x", "socket, device, pipe"},
			{"a device", "/dev/null", "/x", "socket, device, pipe"},
			{"the root behind a link", filepath.Join(dir, "to-root"), "/x", "refused"},
			{"the home behind a link", filepath.Join(dir, "to-home"), "/x", "home directory"},
			{"what holds the home", dir, "/x", "home directory"},
			{"/proc", "/proc/self", "/x", "refused"},
			{"/run", "/run", "/x", "refused"},
			{"a target in /proc", filepath.Join(dir, "project"), "/proc/x", "sandbox's own"},
			{"a target that leaves", filepath.Join(dir, "project"), "/../sys/x", "sandbox's own"},
			{"a link planted at a target", "/usr", "/workspace/.git", "symbolic link"},
			{"a link planted in the project", filepath.Join(dir, "project", ".git"), "/workspace/.git", "symbolic link"},
			{"a target that the project does not have", "/usr", "/workspace/none", "create it on the host first"},
		} {
			t.Run(c.name, func(t *testing.T) {
				m := project(sealed(b, "true"), filepath.Join(dir, "project"))
				m.Posture.Mounts = append(m.Posture.Mounts, nacre.Mount{Source: c.source, Target: c.target})
				p, err := b.Start(t.Context(), m)
				if err == nil {
					_ = p.Kill()
				}
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("have %v, want %q", err, c.want)
				}
			})
		}
		if entries, err := os.ReadDir(filepath.Join(dir, "project")); err != nil || len(entries) != 1 {
			t.Errorf("on the host: %v, %v", entries, err)
		}
	})
}

func TestEveryBackendGivesATerminal(t *testing.T) { // M-06
	onEach(t, func(t *testing.T, b sandbox.Backend) {
		master, slave, err := sandbox.OpenPty()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = master.Close() }()
		c := sealed(b, "test -t 0 && echo is-a-terminal; read line; echo got $line; echo x > /dev/tty && echo controls")
		c.Stdin, c.Stdout, c.Stderr, c.Terminal = slave, slave, slave, true
		p, err := b.Start(t.Context(), c)
		_ = slave.Close()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(master, "hello\n"); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(master)
		if err != nil && !errors.Is(err, syscall.EIO) {
			t.Fatal(err)
		}
		for _, want := range []string{"is-a-terminal", "got hello", "controls"} {
			if !strings.Contains(string(text), want) {
				t.Errorf("have %q, want %q", text, want)
			}
		}
		if exit, err := p.Wait(); err != nil || exit.Code != 0 {
			t.Errorf("have %+v, %v", exit, err)
		}
	})
}

func TestEveryBackendRunsManyAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, b sandbox.Backend) {
		var wait sync.WaitGroup
		for i := range 4 {
			wait.Go(func() {
				if have := run(t, b, sealed(b, fmt.Sprintf("echo %d", i))); have.stdout != fmt.Sprintf("%d\n", i) {
					t.Errorf("have %+v", have)
				}
			})
		}
		wait.Wait()
	})
}
