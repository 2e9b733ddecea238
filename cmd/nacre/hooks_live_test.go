package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// held is an agent's program, unsealed in a home and a project of its own, that
// a role with hooks holds.
type held struct {
	agent, program     string
	home, project, dir string
	nacre              string
	flags              []string
	// wrap comes before each command line.
	wrap []string
}

const heldTask = "[task]\nrole = \"edit-local\"\n[scope]\nfiles-whitelist = [\"pkg/x/**\"]\nfiles-denylist = []\n"

func hold(t *testing.T, agent string, install ...string) *held {
	t.Helper()
	t.Parallel()
	h := homeFor(t, agent)
	if install == nil {
		install = []string{"--user", "--trust"}
	}
	h.install(t, install...)
	return h
}

// homeFor is an agent's home and project without hooks.
func homeFor(t *testing.T, agent string) *held {
	t.Helper()
	h := &held{agent: agent, program: os.Getenv("NACRE_" + strings.ToUpper(agent))}
	if h.program == "" {
		h.program = agent
	}
	h.program = testpeer.Need(t, h.program)
	h.dir = t.TempDir()
	h.home, h.project, h.nacre = filepath.Join(h.dir, "home"), filepath.Join(h.dir, "project"), filepath.Join(h.dir, "bin", "nacre")
	data, err := os.ReadFile(filepath.Join(bin, "nacre"))
	if err != nil {
		t.Fatal(err)
	}
	h.put(t, h.nacre, string(data), 0o755)
	h.put(t, filepath.Join(h.dir, "task.toml"), heldTask, 0o600)
	h.put(t, filepath.Join(h.project, "pkg/x/a.txt"), "one\n", 0o600)
	h.put(t, filepath.Join(h.home, ".codex/x"), "", 0o600)
	h.sh(t, "git", "init", "-q", h.project)
	h.sh(t, "git", "-C", h.project, "-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit", "-q", "--allow-empty", "-m", "first")
	return h
}

func (h *held) install(t *testing.T, install ...string) {
	t.Helper()
	h.sh(t, h.nacre, append([]string{"hooks", "install", "--role", "edit-local", "--task", filepath.Join(h.dir, "task.toml"), "--" + h.agent}, install...)...)
}

func (h *held) put(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.RemoveAll(path)
	}
	switch {
	case err != nil:
	case mode == 0o755:
		err = testpeer.WriteProgram(path, text)
	default:
		err = os.WriteFile(path, []byte(text), mode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (h *held) env() []string {
	return []string{
		"HOME=" + h.home, "PATH=" + os.Getenv("PATH"), "CODEX_HOME=" + filepath.Join(h.home, ".codex"), "NACRE_CODEX=" + h.program, "TMPDIR=" + h.dir,
		"ANTHROPIC_API_KEY=sk-decoy", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "IS_SANDBOX=1", "MODEL_KEY=decoy",
		"GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C.UTF-8",
	}
}

func (h *held) sh(t *testing.T, program string, args ...string) {
	t.Helper()
	words := append(append(h.wrap[:len(h.wrap):len(h.wrap)], program), args...)
	c := exec.Command(words[0], words[1:]...)
	c.Dir, c.Env = h.project, h.env()
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
}

// call has the model make one call of a tool, and gives what the model was told
// of it and what the program said.
func (h *held) call(t *testing.T, tool string, input any, raw ...string) (told, said string) {
	t.Helper()
	one := scriptedmodel.Tool{Name: tool, Raw: strings.Join(raw, "")}
	if raw == nil {
		one.Input, _ = json.Marshal(input)
	}
	server := scriptedmodel.New(scriptedmodel.Script{Turns: []scriptedmodel.Turn{{Tools: []scriptedmodel.Tool{one}}, {Text: "done"}, {Text: "done"}}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, l) }()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	said = h.run(t, "http://"+l.Addr().String())
	for _, r := range server.Requests() {
		told = string(r.Body)
	}
	return told, said
}

func (h *held) run(t *testing.T, url string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	args := append([]string{"-p", "do it", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions", "--strict-mcp-config"}, h.flags...)
	if h.agent == "codex" {
		args = append([]string{
			"exec", "--json", "--skip-git-repo-check", "-s", "danger-full-access", "-c", `model="gpt-5.5"`, "-c", `model_provider="m"`,
			"-c", fmt.Sprintf(`model_providers.m={name="m",base_url="%s/v1",wire_api="responses",env_key="MODEL_KEY"}`, url),
			"-c", "check_for_update_on_startup=false",
		}, append(h.flags, "do it")...)
	}
	words := append(append(h.wrap[:len(h.wrap):len(h.wrap)], h.program), args...)
	c := exec.CommandContext(ctx, words[0], words[1:]...)
	c.Dir, c.Env, c.WaitDelay = h.project, append(h.env(), "ANTHROPIC_BASE_URL="+url), time.Second
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// shell makes a call of the agent's shell.
func (h *held) shell(t *testing.T, command string) (told, said string) {
	t.Helper()
	if h.agent == "codex" {
		return h.call(t, "exec_command", map[string]string{"cmd": command})
	}
	return h.call(t, "Bash", map[string]string{"command": command, "description": "d"})
}

func (h *held) there(name string) bool {
	_, err := os.Lstat(filepath.Join(h.project, name))
	return err == nil
}

// pin is the file that the hook names, and file the settings that name it.
func (h *held) pin(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(h.home, ".local/state/nacre/hooks/*.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("pins %v %v", found, err)
	}
	return found[0]
}

func (h *held) file() string {
	if h.agent == "codex" {
		return filepath.Join(h.home, ".codex/hooks.json")
	}
	return filepath.Join(h.home, ".claude/settings.json")
}

var heldAgents = []string{"claude", "codex"}

// S-17: with the real programs, what the role allows runs, and what it does not
// is refused with a reason that the model is told.
func TestTheRealAgentsAreHeldByTheirHooks(t *testing.T) {
	for _, agent := range heldAgents {
		t.Run(agent+" runs what is allowed", func(t *testing.T) {
			h := hold(t, agent)
			if told, said := h.shell(t, "mkdir pkg/x/ran"); !h.there("pkg/x/ran") {
				t.Errorf("an allowed call did not run:\n%s\n%s", tail(told), said)
			}
		})
		t.Run(agent+" is refused git, and told why", func(t *testing.T) {
			h := hold(t, agent)
			told, said := h.shell(t, "git tag refused && git push")
			if h.there(".git/refs/tags/refused") || !strings.Contains(told, "policy::no-git-ops") {
				t.Errorf("the model was told:\n%s\n%s", tail(told), said)
			}
			log, _ := os.ReadFile(filepath.Join(h.home, ".local/state/nacre/hooks/refused.jsonl"))
			if !strings.Contains(string(log), "policy::no-git-ops") {
				t.Errorf("the log holds %q", log)
			}
		})
		t.Run(agent+" writes in the task's files only", func(t *testing.T) {
			h := hold(t, agent)
			write := func(name string) (string, string) {
				if agent == "codex" {
					return h.call(t, "apply_patch", nil, "*** Begin Patch\n*** Add File: "+name+"\n+hello\n*** End Patch\n")
				}
				return h.call(t, "Write", map[string]string{"file_path": filepath.Join(h.project, name), "content": "hello"})
			}
			if told, said := write("pkg/x/new.txt"); !h.there("pkg/x/new.txt") {
				t.Errorf("an allowed file was not written:\n%s\n%s", tail(told), said)
			}
			told, said := write("pkg/y.txt")
			if h.there("pkg/y.txt") || !strings.Contains(told, "scope::files-whitelist") {
				t.Errorf("the model was told:\n%s\n%s", tail(told), said)
			}
		})
	}
}

func tail(s string) string { return s[max(0, len(s)-1500):] }

// S-17: every way of failing that a hook can do something about blocks, and
// those it cannot are what docs/hooks.md and status say they are.
func TestHowTheRealAgentsTakeAFailingHook(t *testing.T) {
	script := func(text string) func(*testing.T, *held) {
		return func(t *testing.T, h *held) { h.put(t, h.nacre, "#!/bin/sh\n"+text+"\n", 0o755) }
	}
	edit := func(from, to string) func(*testing.T, *held) {
		return func(t *testing.T, h *held) {
			data, err := os.ReadFile(h.file())
			if err != nil || !strings.Contains(string(data), from) {
				t.Fatalf("%q is not in %s: %v", from, data, err)
			}
			h.put(t, h.file(), strings.Replace(string(data), from, to, 1), 0o600)
		}
	}
	for _, way := range []struct {
		name   string
		only   string
		break_ func(*testing.T, *held)
		runs   bool
	}{
		{name: "nacre is gone", break_: func(t *testing.T, h *held) { _ = os.Remove(h.nacre) }},
		{name: "nacre is killed", break_: script("kill -9 $$")},
		{name: "nacre crashes", break_: script("exit 1")},
		{name: "the set is gone", break_: func(t *testing.T, h *held) { _ = os.Remove(h.pin(t)) }},
		{name: "the set was changed", break_: func(t *testing.T, h *held) { h.put(t, h.pin(t), `{"role":"edit-local"}`, 0o600) }},
		{name: "nacre hangs, until its own deadline", break_: func(t *testing.T, h *held) {
			pin := h.pin(t)
			_ = os.Remove(pin)
			h.sh(t, "mkfifo", pin)
		}},
		// what follows is open
		{name: "the agent's limit is under a hook that hangs", runs: true, break_: func(t *testing.T, h *held) {
			edit(`"timeout": 60`, `"timeout": 1`)(t, h)
			script("exec sleep 5")(t, h)
			h.flags = h.trusting()
		}},
		{name: "the hook's shell is killed", runs: true, break_: script("kill -9 $PPID")},
		{name: "another program in nacre's place answers what is not JSON", runs: true, break_: script("echo yes")},
		{name: "hooks are switched off", only: "claude", runs: true, break_: edit("{\n", "{ \"disableAllHooks\": true,\n")},
		{name: "claude --bare", only: "claude", runs: true, break_: func(_ *testing.T, h *held) { h.flags = []string{"--bare"} }},
		{name: "claude --safe-mode", only: "claude", runs: true, break_: func(_ *testing.T, h *held) { h.flags = []string{"--safe-mode"} }},
		{name: "claude --setting-sources without the file", only: "claude", runs: true, break_: func(_ *testing.T, h *held) { h.flags = []string{"--setting-sources", "project"} }},
		{name: "an error elsewhere in the file", only: "claude", runs: true, break_: edit("{\n", "{ \"permissions\": 7,\n")},
		{name: "the hook was changed since it was trusted", only: "codex", runs: true, break_: edit(`"timeout": 60`, `"timeout": 59`)},
		{name: "codex --disable hooks", only: "codex", runs: true, break_: func(_ *testing.T, h *held) { h.flags = []string{"--disable", "hooks"} }},
	} {
		for _, agent := range heldAgents {
			if way.only != "" && way.only != agent {
				continue
			}
			t.Run(agent+": "+way.name, func(t *testing.T) {
				h := hold(t, agent)
				way.break_(t, h)
				told, said := h.shell(t, "mkdir pkg/x/ran")
				if h.there("pkg/x/ran") != way.runs {
					t.Errorf("the call ran: %v, want %v\n%s\n%s", !way.runs, way.runs, tail(told), said)
				}
			})
		}
	}
}

// trusting are the flags by which a changed hook is run all the same.
func (h *held) trusting() []string {
	if h.agent == "codex" {
		return []string{"--dangerously-bypass-hook-trust"}
	}
	return nil
}

// Codex passes over a hook that nobody trusted; status says so.
func TestAHookThatCodexDoesNotTrustIsNotRun(t *testing.T) {
	h := hold(t, "codex", "--user")
	if h.shell(t, "mkdir pkg/x/ran; git tag ran"); !h.there(".git/refs/tags/ran") {
		t.Error("Codex ran a hook that was not trusted: say so in docs/hooks.md")
	}
	c := exec.Command(h.nacre, "hooks", "status")
	c.Dir, c.Env = h.project, h.env()
	out, err := c.CombinedOutput()
	if exitCode(err) != 1 || !strings.Contains(string(out), "untrusted") {
		t.Errorf("status: %v\n%s", err, out)
	}
}

// S-17: what root installs for the machine is run whatever the user's settings,
// the command line and the agent's trust say. /etc is a copy of the test's own.
func TestManagedHooksHoldWhateverTheUserSays(t *testing.T) {
	unshare := testpeer.Need(t, "unshare")
	for _, way := range []struct {
		name, agent, settings, file string
		flags                       []string
	}{
		{name: "claude", agent: "claude"},
		{name: "claude --bare", agent: "claude", flags: []string{"--bare"}},
		{name: "claude --safe-mode", agent: "claude", flags: []string{"--safe-mode"}},
		{name: "claude with hooks switched off", agent: "claude", file: ".claude/settings.json", settings: `{"disableAllHooks": true}`},
		{name: "codex, trusted by nobody", agent: "codex"},
		{name: "codex --disable hooks", agent: "codex", flags: []string{"--disable", "hooks"}},
		{name: "codex with hooks switched off", agent: "codex", file: ".codex/config.toml", settings: "[features]\nhooks = false\n"},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			h := homeFor(t, way.agent)
			if err := os.Chmod(filepath.Dir(h.dir), 0o755); err != nil { // a managed hook is every user's
				t.Fatal(err)
			}
			etc := filepath.Join(h.dir, "etc")
			h.wrap = []string{unshare, "-m", "sh", "-c", `mount --bind "$0" /etc && exec "$@"`, etc}
			h.put(t, filepath.Join(etc, "passwd"), "root:x:0:0:root:/root:/bin/sh\n", 0o644)
			if out, err := exec.Command(unshare, "-m", "sh", "-c", `mount --bind "$0" /etc`, etc).CombinedOutput(); err != nil {
				t.Skipf("no mounts here: %v %s", err, out)
			}
			h.install(t, "--managed")
			if way.file != "" {
				h.put(t, filepath.Join(h.home, way.file), way.settings, 0o600)
			}
			h.flags = way.flags
			told, said := h.shell(t, "git tag refused")
			if h.there(".git/refs/tags/refused") || !strings.Contains(told, "policy::no-git-ops") {
				t.Errorf("the model was told:\n%s\n%s", tail(told), said)
			}
			if told, said = h.shell(t, "mkdir pkg/x/ran"); !h.there("pkg/x/ran") {
				t.Errorf("an allowed call did not run:\n%s\n%s", tail(told), said)
			}
		})
	}
}
