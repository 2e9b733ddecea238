package sandbox_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

func TestExitCodesAndSignalsAreTheCommandsOwn(t *testing.T) { // M-06
	n := open(t)
	for _, c := range []struct {
		name, script string
		code         int
		signal       syscall.Signal
	}{
		{"success", "exit 0", 0, 0},
		{"a code", "exit 125", 125, 0},
		{"a signal", "kill -TERM $$", 128 + 15, syscall.SIGTERM},
		{"a fault", "kill -SEGV $$", 128 + 11, syscall.SIGSEGV},
		{"what is left behind does not hold it up", "sleep 1000 & exit 3", 3, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			have := run(t, n, shell(c.script))
			if have.Code != c.code || have.Signal != c.signal || have.TimedOut || have.Killed {
				t.Errorf("have %+v, want code %d signal %d; stderr %q", have.Exit, c.code, c.signal, have.stderr)
			}
		})
	}
}

func TestACommandThatCannotRunIsAnExecError(t *testing.T) {
	n := open(t)
	for name, c := range map[string]struct {
		argv []string
		want syscall.Errno
	}{
		"not in PATH":    {[]string{"no-such-program"}, syscall.ENOENT},
		"no such file":   {[]string{"/usr/bin/no-such-program"}, syscall.ENOENT},
		"a directory":    {[]string{"/usr/bin"}, syscall.EACCES},
		"not executable": {[]string{"/etc/passwd"}, syscall.EACCES},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := n.Start(t.Context(), command(c.argv...))
			var execErr *sandbox.ExecError
			if !errors.As(err, &execErr) || !errors.Is(err, c.want) {
				t.Errorf("have %v, want an ExecError with %v", err, c.want)
			}
		})
	}
}

func TestStandardInputReachesTheCommand(t *testing.T) {
	n := open(t)
	r, w := pipe(t)
	go func() {
		_, _ = io.WriteString(w, "through and through")
		_ = w.Close()
	}()
	c := command("cat")
	c.Stdin = r
	if have := run(t, n, c); have.stdout != "through and through" {
		t.Errorf("have %q", have.stdout)
	}
}

func TestTheProjectIsWritableAndKeepsItsOwner(t *testing.T) { // M-06
	n := open(t)
	dir := filepath.Join(t.TempDir(), "mein Projekt ☃", "ünï code")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "old"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	have := run(t, n, project(shell("cat old && echo new > new && mkdir sub && mv new sub/new && stat -c '%u %g' . old sub/new"), dir))
	if want := "old1000 1000\n1000 1000\n1000 1000\n"; have.Code != 0 || have.stdout != want {
		t.Fatalf("have %+v", have)
	}
	info, err := os.Stat(filepath.Join(dir, "sub", "new"))
	if err != nil {
		t.Fatal(err)
	}
	if uid := int(info.Sys().(*syscall.Stat_t).Uid); uid != os.Geteuid() {
		t.Errorf("on the host the new file belongs to %d, want %d", uid, os.Geteuid())
	}
}

func TestALaterMountCoversAnEarlierOne(t *testing.T) {
	n := open(t)
	dir := t.TempDir()
	for _, d := range []string{".git/hooks", "secret"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{".git/config", "secret/key", ".env"} {
		if err := os.WriteFile(filepath.Join(dir, f), []byte("host"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := project(shell(`
		echo x > .git/hooks/pre-commit && echo wrote-hook; mv .git elsewhere && echo moved-git; rmdir .git/hooks && echo removed
		echo x > .git/config && echo wrote-config; cat .git/config; ls secret; cat .env; echo x > .env && echo wrote-env
		rm .env && echo removed-env; exit 0`), dir)
	c.Posture.Mounts = append(c.Posture.Mounts,
		nacre.Mount{Source: filepath.Join(dir, ".git"), Target: "/workspace/.git"},
		nacre.Mount{Kind: nacre.Mask, Target: "/workspace/secret"},
		nacre.Mount{Kind: nacre.Mask, Target: "/workspace/.env"},
		nacre.Mount{Kind: nacre.Mask, Target: "/workspace/absent"},
	)
	if have := run(t, n, c); have.stdout != "host" {
		t.Errorf("have %q, want only the config's text; stderr %s", have.stdout, have.stderr)
	}
}

func TestWhatIsDeepInAProjectCannotBeMovedAway(t *testing.T) { // M-12
	n := open(t)
	dir := t.TempDir()
	for _, d := range []string{"a/b/.git/hooks", "a/free", "c/d"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "c", "d", "key"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := project(shell(`
		mv a x && echo moved-a; mv a/b x && echo moved-b; mv c x && echo moved-c; mv c/d x && echo moved-d; cat c/d/key
		echo x > a/b/.git/hooks/h && echo wrote; echo y > a/b/file && cat a/b/file; mv a/free a/freed && echo freed; exit 0`), dir)
	c.Posture.Mounts = append(c.Posture.Mounts,
		nacre.Mount{Source: filepath.Join(dir, "a/b/.git"), Target: "/workspace/a/b/.git"},
		nacre.Mount{Kind: nacre.Mask, Target: "/workspace/c/d/key"})
	if have := run(t, n, c); have.stdout != "y\nfreed\n" {
		t.Errorf("have %+v", have)
	}
	if _, err := os.Stat(filepath.Join(dir, "a/b/file")); err != nil {
		t.Error(err)
	}
}

func TestAnOverlayKeepsWhatItCoversAsItWas(t *testing.T) {
	n := open(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "warm"), []byte("host"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := shell("cat /cache/warm; echo in > /cache/warm; echo new > /cache/new; cat /cache/warm; mkdir /cache/d && mv /cache/new /cache/d/new && " +
		"rm /cache/warm && head -c 9000000 /dev/zero > /cache/big")
	c.Posture.Mounts = append(c.Posture.Mounts, nacre.Mount{Kind: nacre.Overlay, Source: dir, Target: "/cache", Size: 8 << 20})
	have := run(t, n, c)
	if have.stdout != "hostin\n" || !strings.Contains(have.stderr, "space") {
		t.Errorf("have %+v", have)
	}
	text, err := os.ReadFile(filepath.Join(dir, "warm"))
	if err != nil || string(text) != "host" {
		t.Errorf("on the host: %q, %v", text, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("on the host: %v, %v", entries, err)
	}
}

func TestTheWallLimitEndsASandbox(t *testing.T) { // M-12
	n := open(t)
	c := shell("trap '' TERM INT HUP; sleep 1000 & sleep 1000")
	c.Posture.Limits.Wall = 50 * time.Millisecond
	have := run(t, n, c)
	if !have.TimedOut || have.Signal != syscall.SIGKILL || have.Code != 137 {
		t.Errorf("have %+v", have.Exit)
	}
}

func TestKillAndTheContextEndEverything(t *testing.T) { // M-16
	n := open(t)
	for name, end := range map[string]func(sandbox.Process, context.CancelFunc){
		"kill":    func(p sandbox.Process, _ context.CancelFunc) { _ = p.Kill() },
		"context": func(_ sandbox.Process, cancel context.CancelFunc) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r, w := pipe(t)
			c := shell("(setsid sh -c 'echo up; exec sleep 1000' &); exec sleep 1000")
			c.Stdout = w
			p, err := n.Start(ctx, c)
			_ = w.Close()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Read(make([]byte, 3)); err != nil {
				t.Fatal(err)
			}
			end(p, cancel)
			exit, err := p.Wait()
			if err != nil || !exit.Killed {
				t.Errorf("have %+v, %v", exit, err)
			}
			if _, err := io.ReadAll(r); err != nil { // ends only when no process holds the pipe
				t.Error(err)
			}
		})
	}
}

func TestALotOfOutputPassesWithoutBeingHeld(t *testing.T) {
	n := open(t)
	r, w := pipe(t)
	c := shell("head -c 314572800 /dev/zero")
	c.Stdout = w
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p, err := n.Start(t.Context(), c)
	_ = w.Close()
	if err != nil {
		t.Fatal(err)
	}
	size, err := io.Copy(io.Discard, r)
	if err != nil || size != 314572800 {
		t.Errorf("have %d bytes, %v", size, err)
	}
	if exit, err := p.Wait(); err != nil || exit.Code != 0 {
		t.Errorf("have %+v, %v", exit, err)
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 16<<20 {
		t.Errorf("%d bytes allocated", grown)
	}
}

func TestManySandboxesRunAtOnce(t *testing.T) {
	n := open(t)
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			if have := run(t, n, shell("echo $$; ls /proc | grep -c '^[0-9]'")); have.Code != 0 {
				t.Errorf("have %+v", have)
			}
		})
	}
	wait.Wait()
}

func TestNothingIsLeftOpenOnTheHost(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	n := open(t)
	dir := t.TempDir()
	run(t, n, project(shell("true"), dir)) // warms what Native keeps
	before := descriptors(t)
	for range 5 {
		run(t, n, project(shell("true"), dir))
	}
	_, err := n.Start(t.Context(), command("/no/such/program"))
	if err == nil {
		t.Fatal("started")
	}
	c := shell("true")
	c.Posture.Mounts = append(c.Posture.Mounts, nacre.Mount{Source: "/no/such", Target: "/x"})
	if _, err = n.Start(t.Context(), c); err == nil {
		t.Fatal("started")
	}
	runtime.GC() // closes the read ends that run left to the test's cleanup, if unreferenced
	if after := descriptors(t); after > before+2*6 {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestPrivateHomesAreReachedOnlyWhereBound(t *testing.T) { // M-12
	n := open(t)
	home := filepath.Join(t.TempDir(), "home")
	work := filepath.Join(home, "work")
	if err := os.MkdirAll(work, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	if err := os.WriteFile(filepath.Join(home, ".netrc"), []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	have := run(t, n, project(shell("echo in > file; cat file; cat '"+home+"/.netrc' ../.netrc"), work))
	if have.stdout != "in\n" || have.Code == 0 {
		t.Errorf("have %+v", have)
	}
}

func TestGitWorksOnAProject(t *testing.T) {
	git := testpeer.Need(t, "git")
	dir := t.TempDir()
	for _, args := range [][]string{{"init", "-q"}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first"}} {
		cmd := exec.Command(git, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	c := project(shell("echo x > new && git status --porcelain && git log --format=%s"), dir)
	c.Posture.Mounts = append(c.Posture.Mounts, nacre.Mount{Source: filepath.Join(dir, ".git"), Target: "/workspace/.git"})
	if have := run(t, open(t), c); have.stdout != "?? new\nfirst\n" {
		t.Errorf("have %+v", have)
	}
}

func TestGoBuildsAndTestsWithTheHostsToolchain(t *testing.T) {
	goroot := goEnv(t, "GOROOT")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module example.com/m\n\ngo 1.24\n",
		"m.go":      "package m\n\nimport \"net\"\n\nfunc Listen() (net.Listener, error) { return net.Listen(\"tcp\", \"127.0.0.1:0\") }\n",
		"m_test.go": "package m\n\nimport \"testing\"\n\nfunc TestListen(t *testing.T) {\n\tl, err := Listen()\n\tif err != nil {\n\t\tt.Fatal(err)\n\t}\n\tl.Close()\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := project(shell("/opt/goroot/bin/go build ./... && /opt/goroot/bin/go test ./..."), dir)
	c.Posture.Limits.Wall = 10 * time.Minute // it compiles the standard library where the host has not
	c.Posture.Mounts = append(c.Posture.Mounts,
		nacre.Mount{Source: goroot, Target: "/opt/goroot"},
		nacre.Mount{Source: goEnv(t, "GOMODCACHE"), Target: "/opt/modcache", Optional: true},
		// The standard library that the host has compiled: go builds with a cache that it
		// cannot write, once it keeps no index of the packages there.
		nacre.Mount{Source: goEnv(t, "GOCACHE"), Target: "/opt/gocache"})
	c.Posture.Env = append(c.Posture.Env, "GOCACHE=/opt/gocache", "GODEBUG=goindex=0", "GOMODCACHE=/opt/modcache", "GOFLAGS=-mod=mod", "GOPROXY=off",
		"GOTOOLCHAIN=local", "GOWORK=off", "CGO_ENABLED=0")
	if have := run(t, open(t), c); have.Code != 0 || !strings.Contains(have.stdout, "ok  \texample.com/m") {
		t.Errorf("have %+v", have)
	}
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command(testpeer.Need(t, "go"), "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func TestNodeAndPythonRun(t *testing.T) {
	n := open(t)
	for _, c := range []struct {
		program string
		argv    []string
		want    string
	}{
		{"node", []string{"node", "-e", `
			const os=require('os'),http=require('http'),fs=require('fs'),cp=require('child_process');
			if (os.cpus().length < 1 || os.freemem() < 1) throw 'no cpus or memory';
			fs.writeFileSync('/tmp/x','1'); fs.watch('/tmp',()=>{}).close();
			const s=http.createServer((q,r)=>r.end('served')).listen(0,'127.0.0.1',()=>
			http.get({port:s.address().port,host:'127.0.0.1'},r=>r.on('data',d=>{console.log(d.toString(),cp.execSync('echo child').toString().trim());process.exit()})))`},
			"served child\n"},
		{"python3", []string{"/usr/bin/python3", "-c",
			"import os,subprocess,multiprocessing,tempfile,socket\ntempfile.TemporaryFile()\nprint(os.getuid(),multiprocessing.cpu_count()>0," +
				"subprocess.check_output(['echo','child']).decode().strip())"}, "1000 True child\n"},
	} {
		t.Run(c.program, func(t *testing.T) {
			path, err := exec.LookPath(c.argv[0])
			if err != nil || !strings.HasPrefix(path, "/usr/") {
				testpeer.Missing(t, c.program, c.program+" is not installed in the system's directories")
			}
			if have := run(t, n, command(c.argv...)); have.stdout != c.want {
				t.Errorf("have %+v, want %q", have, c.want)
			}
		})
	}
}
