package sandbox_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/sandbox/container"
)

// onEachEngine runs a test against each engine that is here.
func onEachEngine(t *testing.T, test func(t *testing.T, o container.Options)) {
	t.Helper()
	for _, v := range variants() {
		if v.engine != "" {
			t.Run(v.name, func(t *testing.T) { test(t, v.options(t, t.TempDir())) })
		}
	}
}

func openEngine(t *testing.T, o container.Options) *container.Backend {
	t.Helper()
	b, err := container.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// left are the containers that a state directory still has.
func left(t *testing.T, o container.Options) []string {
	t.Helper()
	engine, err := client.New(client.WithHost(o.Socket))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = engine.Close() }()
	list, err := engine.ContainerList(t.Context(), client.ContainerListOptions{
		All: true, Filters: make(client.Filters).Add("label", "nacre.state="+o.StateDir),
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range list.Items {
		names = append(names, strings.TrimPrefix(c.Names[0], "/"))
	}
	return names
}

func keptBy(t *testing.T, o container.Options) string {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return keeperOptions + "=" + string(text)
}

func TestKillingNacreEndsItsContainers(t *testing.T) { // M-16
	onEachEngine(t, func(t *testing.T, o container.Options) {
		cmd, pid := startKeeper(t, o.StateDir, keptBy(t, o))
		fd := pidfd(t, pid)
		if ended, err := container.EndOrphans(o.StateDir); err != nil || len(ended) != 0 || len(left(t, o)) != 1 {
			t.Fatalf("have %q, %v while nacre lives", ended, err)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		waitGone(t, fd, 10*time.Second)
		_ = cmd.Wait() // killed
		if _, err := container.EndOrphans(o.StateDir); err != nil {
			t.Error(err)
		}
		checkNothingLeft(t, o)
	})
}

func TestFrozenContainersOfADeadNacreAreEnded(t *testing.T) { // M-16
	onEachEngine(t, func(t *testing.T, o container.Options) {
		cmd, pid := startKeeper(t, o.StateDir, keptBy(t, o))
		engine, err := client.New(client.WithHost(o.Socket))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = engine.Close() }()
		if _, err := engine.ContainerPause(t.Context(), left(t, o)[0], client.ContainerPauseOptions{}); err != nil {
			t.Skip("this runtime cannot freeze a container: ", err)
		}
		fd := pidfd(t, pid)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		ended, err := container.EndOrphans(o.StateDir)
		if err != nil || len(ended) != 1 || ended[0] != "test" {
			t.Fatalf("have %q, %v", ended, err)
		}
		waitGone(t, fd, time.Second)
		checkNothingLeft(t, o)
		if ended, err := container.EndOrphans(o.StateDir); err != nil || len(ended) != 0 {
			t.Errorf("have %q, %v the second time", ended, err)
		}
	})
}

func checkNothingLeft(t *testing.T, o container.Options) {
	t.Helper()
	if names := left(t, o); len(names) != 0 {
		t.Errorf("containers left: %q", names)
	}
	if files, _ := filepath.Glob(filepath.Join(o.StateDir, "containers", "*")); len(files) != 0 {
		t.Errorf("left %q", files)
	}
	if binds, _ := filepath.Glob("/run/nacre-binds/nacre-test-*"); len(binds) != 0 {
		t.Errorf("left %q", binds)
	}
}

func TestRecordsThatLieRemoveNothing(t *testing.T) { // M-16
	state := t.TempDir()
	for name, text := range map[string]string{
		"somebody-elses": `{}`, "nacre-x-0123456789abcdef": `{"keeper":{"pid":-1}}`, "nacre-y-0123456789abcdef": `{"socket":"/etc/passwd","keeper":{"pid":1}}`,
	} {
		dir := filepath.Join(state, "containers", name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "record.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if ended, err := container.EndOrphans(state); err == nil || len(ended) != 0 {
		t.Errorf("have %q, %v", ended, err)
	}
	if files, _ := filepath.Glob(filepath.Join(state, "containers", "*")); len(files) != 3 {
		t.Errorf("have %q", files)
	}
}

func TestAnImageThatLiesChangesNothing(t *testing.T) { // M-15
	onEachEngine(t, func(t *testing.T, o container.Options) {
		o.Image = testImage(t, o.Socket, `ENTRYPOINT ["/bin/false"]`, "ENV EVIL=1 LD_PRELOAD=/evil.so GODEBUG=x=1 PATH=/evil", "USER 0:0",
			"VOLUME /data /scratch", "WORKDIR /bin", "CMD evil", "LABEL nacre.state=/ nacre.container=evil")
		b := openEngine(t, o)
		c := sealed(b, `env | grep -e EVIL -e LD_ -e GODEBUG; id -u; pwd; (echo x > /data/x) 2>/dev/null && echo kept; echo ok > /scratch/x && cat /scratch/x`)
		c.Posture.Mounts = append(c.Posture.Mounts, nacre.Mount{Kind: nacre.Tmpfs, Target: "/scratch"})
		have := run(t, b, c)
		near := o
		near.Apart = false
		if want := fmt.Sprintf("%d\n/home/agent\nok\n", openEngine(t, near).PeerUIDs()[0]); have.stdout != want || have.Code != 0 {
			t.Errorf("have %+v, want %q", have, want)
		}
		o.Image = testImage(t, o.Socket, "VOLUME /home/agent/x /run")
		b = openEngine(t, o)
		if have := run(t, b, sealed(b, "true")); have.Code != 0 {
			t.Errorf("have %+v", have)
		}
		o.Image = testImage(t, o.Socket, "VOLUME /workspace/new")
		b = openEngine(t, o)
		dir := t.TempDir()
		if _, err := b.Start(t.Context(), project(sealed(b, "true"), dir)); err == nil || !strings.Contains(err.Error(), "declares a volume") {
			t.Errorf("have %v", err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
			t.Errorf("on the host: %v, %v", entries, err)
		}
	})
}

func TestAnImageIsWhatWasNamed(t *testing.T) { // M-15
	onEachEngine(t, func(t *testing.T, o container.Options) {
		for name, image := range map[string]string{
			"no image":         "",
			"an absent image":  "no-such-image",
			"another's digest": "nacre-test@sha256:" + strings.Repeat("0", 64),
			"no id":            "sha256:" + strings.Repeat("0", 64),
		} {
			t.Run(name, func(t *testing.T) {
				other := o
				other.Image = image
				if b, err := container.Open(t.Context(), other); err == nil {
					_ = b.Close()
					t.Error("opened")
				}
			})
		}
		unpinned := func(o container.Options) bool {
			return strings.Contains(strings.Join(openEngine(t, o).NotEnforced(), "\n"), "not pinned")
		}
		if unpinned(o) {
			t.Error("an id is not pinned")
		}
		o.Image = "nacre-test"
		if !unpinned(o) {
			t.Error("a name is pinned")
		}
	})
}

func TestTheEnginesSocketIsNeverInside(t *testing.T) { // M-12
	onEachEngine(t, func(t *testing.T, o container.Options) {
		b := openEngine(t, o)
		c := project(sealed(b, "true"), filepath.Dir(strings.TrimPrefix(o.Socket, "unix://")))
		if _, err := b.Start(t.Context(), c); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("have %v", err)
		}
	})
}

func TestAnEngineThatIsNotThereIsAnError(t *testing.T) { // M-11
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]container.Options{
		"no engine":        {},
		"another engine":   {Engine: "lxc", Image: "x"},
		"no socket":        {Engine: container.Docker, Image: "x", Socket: filepath.Join(dir, "none")},
		"a file":           {Engine: container.Docker, Image: "x", Socket: file},
		"another machine":  {Engine: container.Docker, Image: "x", Socket: "tcp://127.0.0.1:2375"},
		"a relative path":  {Engine: container.Podman, Image: "x", Socket: "podman.sock"},
		"podman apart":     {Engine: container.Podman, Image: "x", Socket: file, Apart: true},
		"no image's name":  {Engine: container.Podman, Socket: file},
		"a folder instead": {Engine: container.Podman, Image: "x", Socket: dir},
	} {
		t.Run(name, func(t *testing.T) {
			if b, err := container.Open(t.Context(), o); err == nil {
				_ = b.Close()
				t.Error("opened")
			}
		})
	}
}

func TestARuntimeThatTheEngineHasNotIsNamed(t *testing.T) { // M-11, M-14
	onEachEngine(t, func(t *testing.T, o container.Options) {
		o.Runtime = "runsc-of-nobody"
		if b, err := container.Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "has no runtime") {
			if err == nil {
				_ = b.Close()
			}
			t.Errorf("have %v", err)
		}
	})
}

func TestOnlyKernelsOfTheirOwnAreIsolated(t *testing.T) { // M-14
	for runtime, want := range map[string]bool{
		"": false, "runc": false, "crun": false, "runscx": false, "myrunsc": false, "runsc": true, "runsc-ptrace": true, "kata": true,
		"kata-qemu": true, "io.containerd.runsc.v1": true, "io.containerd.kata.v2": true, "io.containerd.runc.v2": false,
	} {
		if have := posture.Isolated(runtime); have != want {
			t.Errorf("%q: have %v", runtime, have)
		}
	}
}

func TestContainersLeaveNothingOpenOnTheHost(t *testing.T) {
	onEachEngine(t, func(t *testing.T, o container.Options) {
		b := openEngine(t, o)
		run(t, b, sealed(b, "true"))
		goroutines := goleak.IgnoreCurrent()
		dir := t.TempDir()
		for range 2 {
			run(t, b, project(sealed(b, "true"), dir))
		}
		c := sealed(b, "")
		c.Argv = []string{"/no/such/program"}
		var execErr *sandbox.ExecError
		if _, err := b.Start(t.Context(), c); !errors.As(err, &execErr) {
			t.Fatal(err)
		}
		c = sealed(b, "true")
		c.Posture.Mounts = append(c.Posture.Mounts, nacre.Mount{Source: "/no/such", Target: "/x"}, nacre.Mount{Kind: nacre.Overlay, Source: dir, Target: "/y"})
		if _, err := b.Start(t.Context(), c); err == nil {
			t.Fatal("started")
		}
		checkNothingLeft(t, o)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		goleak.VerifyNone(t, goroutines, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
	})
}
