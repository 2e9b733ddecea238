package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// engineImage is what .ci/engines makes in each engine: busybox, and nothing of nacre's.
const engineImage = "nacre-test"

// TestEnginesSealWhatTheyRun drives nacre itself with each engine that is here:
// a command, a run that lands, and what is said about both (M-11).
func TestEnginesSealWhatTheyRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, backend, socket, runtime string }{
		{"docker", "docker", "NACRE_DOCKER", ""}, {"docker with gVisor", "docker", "NACRE_DOCKER", "runsc"}, {"podman", "podman", "NACRE_PODMAN", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.runtime != "" {
				testpeer.Engine(t, "NACRE_RUNSC")
			}
			socket := testpeer.Engine(t, c.socket)
			e := newEngineHouse(t, fmt.Sprintf("[sandbox]\nbackend = %q\nruntime = %q\nimage = %q\nsocket = %q\n", c.backend, c.runtime, engineImage, socket)+
				"[[credential]]\nname = \"hub\"\ngroups = [\"main\"]\nstanding_secret = true\nvalue_env = \"HUB_OF_THE_HOST\"\ndelivery = \"inside\"\nas_env = \"HUB_TOKEN\"\n")
			e.env = append(e.env, "HUB_OF_THE_HOST="+engineSecret)
			e.sealsACommand(t)
			e.showsNoFolder(t)
			e.inspectsNoSecret(t, socket)
			e.landsARun(t)
			e.publishesAPort(t, c.runtime != "")
			out := e.nacre(t, 0, "explain", "--project", e.project)
			if !strings.Contains(out, "runtime") || !strings.Contains(out, "is not pinned by a digest") {
				t.Errorf("explain: %s", out)
			}
			if out := e.nacre(t, 0, "audit", "show", "landed", "--json"); !strings.Contains(out, `"backend":"`+c.backend) {
				t.Errorf("audit: %s", out)
			}
		})
	}
}

// engineSecret is a credential that the operator wants inside.
const engineSecret = "a-value-that-is-delivered-inside"

// inspectsNoSecret: what is delivered inside is in its program's environment, and not in what the engine
// tells of any container (M-33).
func (e engineHouse) inspectsNoSecret(t *testing.T, socket string) {
	t.Helper()
	command := exec.Command(filepath.Join(bin, "nacre"), "exec", "--session", "looked-into", "--project", e.project, "--", "sh", "-c", "echo ${#HUB_TOKEN} bytes; read -r end; true")
	command.Env, command.Dir = e.env, filepath.Dir(e.project)
	input, err := command.StdinPipe()
	check(t, err)
	var shown bytes.Buffer
	open := &awaited{&shown, fmt.Sprint(len(engineSecret), " bytes"), make(chan struct{})}
	command.Stdout, command.Stderr = open, open
	check(t, command.Start())
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	select {
	case <-open.said:
	case err := <-ended:
		t.Fatalf("%v before anybody looked: %s", err, shown.String())
	}
	engine := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(socket, "unix://"))
	}}}
	told := func(path string) (text []byte) {
		response, err := engine.Get("http://engine/v1.41/containers/" + path)
		check(t, err)
		defer func() { _ = response.Body.Close() }() // it was read
		text, err = io.ReadAll(response.Body)
		check(t, err)
		return text
	}
	var running []struct{ ID string }
	check(t, json.Unmarshal(told("json"), &running))
	looked := false
	for _, container := range running {
		text := told(container.ID + "/json") // one of another test may be gone
		if how := holdsSecret(text, engineSecret); how != "" {
			t.Errorf("what is told of a container holds the credential %s: %.200s", how, text)
		}
		looked = looked || bytes.Contains(text, []byte("looked-into")) && bytes.Contains(text, []byte("Entrypoint"))
	}
	if !looked {
		t.Error("the session's container is not among those that run, so that nothing was looked at")
	}
	check(t, input.Close())
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v: %s", err, shown.String())
	}
}

type engineHouse struct {
	env     []string
	project string
}

func newEngineHouse(t *testing.T, config string) engineHouse {
	t.Helper()
	work := t.TempDir()
	e := engineHouse{project: filepath.Join(work, "p"), env: os.Environ()}
	err := prepare(work, func(k, v string) { e.env = append(e.env, k+"="+v) }, t.Cleanup)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"home/.config/nacre/config.toml": config, "p/a.txt": "a\n",
		"rec.jsonl": `{"v":1,"name":"greet"}` + "\n" + `{"tool":"shell","input":{"command":"echo hello > greeting.txt"}}` + "\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(work, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-q", "-m", "first"}} {
		command := exec.Command("git", append([]string{"-C", e.project}, step...)...)
		command.Env = e.env
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", step, err, out)
		}
	}
	return e
}

func (e engineHouse) nacre(t *testing.T, code int, args ...string) string {
	t.Helper()
	command := exec.Command(filepath.Join(bin, "nacre"), args...)
	command.Env, command.Dir = e.env, filepath.Dir(e.project)
	out, err := command.CombinedOutput()
	if have := exitCode(err); have != code {
		t.Fatalf("nacre %s: exit %d, want %d: %s", strings.Join(args, " "), have, code, out)
	}
	return string(out)
}

// sealsACommand: the door and the proxy answer, and nothing else is there.
func (e engineHouse) sealsACommand(t *testing.T) {
	t.Helper()
	out := e.nacre(t, 7, "exec", "--project", e.project, "--", "sh", "-c",
		`id -un; ipc list_tools {}; wget -q -O - http://example.com/; echo x > made; mkdir -p .git/hooks && echo x > .git/hooks/h && echo its own git; ls /root; exit 7`)
	for _, want := range []string{"agent\n", "list_tools", "403 Denied by nacre", "its own git"} {
		if !strings.Contains(out, want) {
			t.Errorf("have %s, want %q", out, want)
		}
	}
	if _, err := os.Stat(filepath.Join(e.project, ".git/hooks/h")); err == nil {
		t.Error("LET THROUGH: a hook of the host's")
	}
	if _, err := os.Stat(filepath.Join(e.project, "made")); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(e.project, "made")); err != nil {
		t.Error(err)
	}
}

// showsNoFolder (M-42): an engine brings no folder into a container that runs, and the agent is told so.
func (e engineHouse) showsNoFolder(t *testing.T) {
	t.Helper()
	out := e.nacre(t, 0, "exec", "--project", e.project, "--", "sh", "-c", `ipc request_folder '{"path":"../home","reason":"its types"}'; ls /folders; true`)
	for _, want := range []string{"by the native backend alone", "No such file"} {
		if !strings.Contains(out, want) {
			t.Errorf("have %s, want %q", out, want)
		}
	}
}

func (e engineHouse) landsARun(t *testing.T) {
	t.Helper()
	out := e.nacre(t, 0, "run", "greet", "--recording", "rec.jsonl", "--project", e.project, "--check", "grep -q hello greeting.txt", "--session", "landed")
	if !strings.Contains(out, "1 of 1 held") {
		t.Errorf("have %s", out)
	}
	if text, err := os.ReadFile(filepath.Join(e.project, "greeting.txt")); err != nil || string(text) != "hello\n" {
		t.Errorf("have %q, %v", text, err)
	}
}

// publishesAPort (U-06): a port inside is reached, and nothing is started where that cannot
// be, as with a kernel that is not this machine's.
func (e engineHouse) publishesAPort(t *testing.T, isolated bool) {
	t.Helper()
	port := freePort(t)
	arguments := []string{"exec", "--project", e.project, "--publish", fmt.Sprintf("%d:8080", port), "--session", "serves", "--time", "5m", "--"}
	if isolated {
		if out := e.nacre(t, 125, append(arguments, "true")...); !strings.Contains(out, "cannot be reached") {
			t.Errorf("have %s", out)
		}
		return
	}
	served := exec.Command(filepath.Join(bin, "nacre"), append(arguments, "httpd", "-f", "-p", "127.0.0.1:8080", "-h", "/workspace")...)
	served.Env, served.Dir = e.env, filepath.Dir(e.project)
	if err := served.Start(); err != nil {
		t.Fatal(err)
	}
	url := fmt.Sprintf("http://127.0.0.1:%d/a.txt", port)
	eventually(t, url, func() bool { return got(url) == "a\n" })
	e.nacre(t, 0, "sessions", "stop", "serves")
	_ = served.Wait() // it was stopped
	if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err != nil {
		t.Errorf("the port outlives its session: %v", err)
	} else {
		_ = l.Close()
	}
}
