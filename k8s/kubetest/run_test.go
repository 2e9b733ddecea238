package kubetest_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// house is a person's machine: nacre, its config, and a project.
type house struct {
	bin, work string
	project   string
	env       []string
	config    string
}

// newHouse has a config that names the cluster for whoever has the token.
func newHouse(c *cluster, token string, holes []int) *house {
	c.t.Helper()
	bin := os.Getenv("NACRE_BUILT")
	if bin == "" {
		c.t.Skip("NACRE_BUILT names no folder of nacre and nacre-k8s: make k8s builds them")
	}
	h := &house{bin: bin, work: c.t.TempDir()}
	h.project = filepath.Join(h.work, "p")
	h.config = fmt.Sprintf("[sandbox]\nbackend = \"k8s\"\n[sandbox.k8s]\nkubeconfig = %q\nnamespace = \"nacre\"\npool = \"nacre\"\nlisten = \"127.0.0.1:%d-%d\"\n",
		c.kubeconfig("nacre", token), holes[0], holes[len(holes)-1])
	h.env = append(os.Environ(), "HOME="+filepath.Join(h.work, "home"), "XDG_CONFIG_HOME=", "XDG_STATE_HOME=", "XDG_DATA_HOME=", "XDG_RUNTIME_DIR=",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	write(c.t, filepath.Join(h.work, "home/.config/nacre/config.toml"), h.config)
	write(c.t, filepath.Join(h.project, "a.txt"), "a\n")
	write(c.t, filepath.Join(h.work, "rec.jsonl"), `{"v":1,"name":"greet"}`+"\n"+
		`{"tool":"shell","input":{"command":"id -u; ipc list_tools {} && echo hello > greeting.txt; rm a.txt"}}`+"\n")
	for _, step := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-q", "-m", "first"}} {
		command := exec.Command("git", append([]string{"-C", h.project}, step...)...)
		command.Env = h.env
		if out, err := command.CombinedOutput(); err != nil {
			c.t.Fatalf("git %v: %v: %s", step, err, out)
		}
	}
	return h
}

// nacre runs it, and wants this exit code.
func (h *house) nacre(t *testing.T, code int, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(h.bin, "nacre"), args...)
	command.Env, command.Dir, command.Stdin = h.env, h.work, strings.NewReader("typed\n")
	out, err := command.CombinedOutput()
	var exit *exec.ExitError
	have := 0
	if errors.As(err, &exit) {
		have = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if have != code {
		t.Fatalf("nacre %s: exit %d, want %d: %s", strings.Join(args, " "), have, code, out)
	}
	return string(out)
}

// someHoles are ports for pods to dial, of this machine's.
func someHoles(t *testing.T) []int {
	t.Helper()
	first := freePort(t)
	return []int{first, first + 1, first + 2, first + 3}
}

// TestSandboxesInPods is the whole path: nacre, nacre-k8s, a real API server, the
// real controller, and a warm pool of the shipped manifests.
func TestSandboxesInPods(t *testing.T) {
	c := newCluster(t)
	holes := someHoles(t)
	h := newHouse(c, nacreToken, holes)
	k := startKubelet(c, filepath.Join(h.bin, "pod", "sandbox-init"), holes)
	for _, step := range []struct {
		name string
		do   func(*testing.T)
	}{
		{"a run lands", h.landsARun},
		{"a command sees what it may, and no more", h.sealsACommand},
		{"who may not claim is told so", func(t *testing.T) { refusals(t, c, holes) }},
		{"a pod that is evicted in the middle ends its session", func(t *testing.T) { h.losesItsPod(t, k) }},
		{"what was written until a limit ends it comes back", h.runsOutOfTime},
		{"a nacre that is killed leaves no claim", func(t *testing.T) { h.isKilled(t, c) }},
		{"no claim is left", func(t *testing.T) { c.noClaims(t) }},
		{"a pod that reaches the API server starts nothing", func(t *testing.T) { h.leaks(t, k) }},
		{"a claim that never becomes ready says so", func(t *testing.T) { h.waits(t, k) }},
	} {
		t.Run(step.name, step.do)
	}
}

func (h *house) landsARun(t *testing.T) {
	out := h.nacre(t, 0, "run", "greet", "--sandbox", "k8s", "--recording", "rec.jsonl", "--project", h.project, "--check", "grep -q hello greeting.txt", "--session", "landed")
	if !strings.Contains(out, "1 of 1 held") {
		t.Errorf("have %s", out)
	}
	if text, err := os.ReadFile(filepath.Join(h.project, "greeting.txt")); err != nil || string(text) != "hello\n" {
		t.Errorf("have %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(h.project, "a.txt")); err == nil {
		t.Error("what the agent removed is still there")
	}
	if out := h.nacre(t, 0, "audit", "show", "landed", "--json"); !strings.Contains(out, `"backend":"k8s (runsc)"`) {
		t.Errorf("audit: %s", out)
	}
}

// sealsACommand: the door and the proxy answer through the stream, the exit code is the
// command's, and neither a secret nor a token is there.
func (h *house) sealsACommand(t *testing.T) {
	out := h.nacre(t, 7, "exec", "--project", h.project, "--", "sh", "-c",
		`id -u; ipc list_tools {}; echo x > made; ls -A /run/nacre-key /var/run/secrets /run/nacre-secret; grep -c . /proc/net/dev; cat; exit 7`)
	for _, want := range []string{"1000\n", "list_tools", "/run/nacre-key:\n", "typed\n", "'/var/run/secrets': No such file", "'/run/nacre-secret': No such file"} {
		if !strings.Contains(out, want) {
			t.Errorf("have %s, want %q", out, want)
		}
	}
	if strings.Contains(out, "\nkey\n") {
		t.Errorf("LET THROUGH: %s", out)
	}
	if _, err := os.Stat(filepath.Join(h.project, "made")); err != nil {
		t.Error(err)
	}
}

// refusals: what the operator reads, and that nothing is started (exit 3, or 2).
func refusals(t *testing.T, c *cluster, holes []int) {
	for _, r := range []struct{ name, old, new, want string }{
		{"a token of another namespace", c.kubeconfig("nacre", nacreToken), c.kubeconfig("stranger", strangerToken), "does not let this user"},
		{"a cluster that is away", c.kubeconfig("nacre", nacreToken), c.away(), "does not answer"},
		{"a pool that there is not", "pool = \"nacre\"", "pool = \"others\"", "could not find the warm pool others"},
		{"a runtime class that pods do not have", "[sandbox]\n", "[sandbox]\nruntime = \"kata\"\n", "config.toml wants \"kata\""},
	} {
		t.Run(r.name, func(t *testing.T) {
			h := newHouse(c, nacreToken, holes)
			changed := strings.Replace(h.config, r.old, r.new, 1)
			if changed == h.config {
				t.Fatalf("the config has no %s", r.old)
			}
			write(t, filepath.Join(h.work, "home/.config/nacre/config.toml"), changed)
			if out := h.nacre(t, 3, "run", "greet", "--recording", "rec.jsonl", "--project", h.project, "--session", "refused"); !strings.Contains(out, r.want) {
				t.Errorf("have %s, want %q", out, r.want)
			}
		})
	}
}

// begins starts a command that prints a line and waits, and returns when it has.
func (h *house) begins(t *testing.T, session string) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(h.bin, "nacre"), "exec", "--session", session, "--", "sh", "-c", "echo begun; sleep 600")
	command.Env, command.Dir = h.env, h.work
	var said strings.Builder
	command.Stderr = &said
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "begun\n" {
		_ = command.Wait()
		t.Fatalf("have %q, %v: %s", line, err, said.String())
	}
	return command, &said
}

func (h *house) losesItsPod(t *testing.T, k *kubelet) {
	command, said := h.begins(t, "evicted")
	k.evict()
	if err := command.Wait(); err == nil || !strings.Contains(said.String(), "Evicted: The node was low on resource: memory.") {
		t.Errorf("have %v: %s", err, said.String())
	}
}

func (h *house) runsOutOfTime(t *testing.T) {
	h.nacre(t, 124, "exec", "--time", "3s", "--project", h.project, "--", "sh", "-c", "echo half > half; sleep 600")
	if text, err := os.ReadFile(filepath.Join(h.project, "half")); err != nil || string(text) != "half\n" {
		t.Errorf("have %q, %v", text, err)
	}
}

func (h *house) isKilled(t *testing.T, c *cluster) {
	command, _ := h.begins(t, "killed")
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait()
	c.noClaims(t)
}

func (c *cluster) noClaims(t *testing.T) {
	t.Helper()
	c.eventually("no claim is left", func() error {
		left, err := c.of(claims(), "nacre").List(t.Context(), metav1.ListOptions{})
		if err == nil && len(left.Items) > 0 {
			err = fmt.Errorf("%s is", left.Items[0].GetName())
		}
		return err
	})
}

// leaks: where no network plugin holds the policy, a pod finds that out.
func (h *house) leaks(t *testing.T, k *kubelet) {
	k.leaky.Store(true)
	if err := k.of(core("pods"), "nacre").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	k.eventually("the pods are new", func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, p := range k.pods {
			if !p.leaky {
				return fmt.Errorf("%s is not", p.name)
			}
		}
		if len(k.pods) == 0 {
			return errors.New("there are none")
		}
		return nil
	})
	if out := h.nacre(t, 125, "exec", "--", "true"); !strings.Contains(out, "its network policy is not enforced here") {
		t.Errorf("have %s", out)
	}
}

// waits: a pool whose pods are on a node that is gone gives none.
func (h *house) waits(t *testing.T, k *kubelet) {
	if testpeer.Size(0, 1) == 0 {
		t.Skip("it takes two minutes: NACRE_SIZE=full runs it")
	}
	k.end()
	if err := k.of(core("pods"), "nacre").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if out := h.nacre(t, 125, "exec", "--", "true"); !strings.Contains(out, "did not become ready within") {
		t.Errorf("have %s", out)
	}
}
