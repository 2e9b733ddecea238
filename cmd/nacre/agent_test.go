package main_test

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
)

// ownAgent gives the installation an agent of the operator's own: a shell script.
func ownAgent(t *testing.T, script string) (*installation, *scriptedmodel.Server) {
	t.Helper()
	server, url := upstreamOf(t, scriptedmodel.Script{Turns: []scriptedmodel.Turn{{Text: "An answer."}}})
	i := install(t)
	i.project()
	i.env = append(i.env, "LOCAL_KEY=local-key-of-the-test")
	program := i.write("tools/mine", "#!/bin/sh\n"+script)
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	i.write("home/.config/nacre/config.toml", fmt.Sprintf(
		"[agents.mine]\ncommand = [%q, \"first\"]\nenv = { MINE = \"1\" }\n[model]\nname = \"local-1\"\n[[model.upstream]]\nurl = %q\nkey_env = \"LOCAL_KEY\"\ndialects = [\"anthropic\"]\nprices = \"local.toml\"\n", program, url))
	i.write("home/.config/nacre/local.toml", "[models.\"local-1\"]\nfree = true\n")
	return i, server
}

// U-01, F-113: an agent of the operator's own works on the folder that it is started in, with the door,
// the gateway and no key. It ends with its own exit code.
func TestAnAgentOfOnesOwnIsOpenedSealed(t *testing.T) {
	t.Parallel()
	i, server := ownAgent(t, `echo "words: $*"; echo edited > greeting.txt; echo "mine $MINE at $(pwd)"; env; ls $NACRE_SKILLS
ipc get_session_info '{}' | head -c 40
curl -sS "$ANTHROPIC_BASE_URL/v1/messages" -H "x-api-key: $ANTHROPIC_API_KEY" -H "anthropic-version: 2023-06-01" -H "content-type: application/json" -d '{"model":"local-1","max_tokens":20,"messages":[{"role":"user","content":"hello"}]}'
exit 7`)
	have := i.nacre("agent", "--project", "p", "--session", "work", "mine", "--", "-x", "--help", "two words")
	have.want(t, 7, "words: first -x --help two words", "mine 1 at /workspace", `"result"`, "An answer.", "memory", "session work · mine")
	if strings.Contains(have.stdout+have.stderr, "local-key-of-the-test") || len(server.Requests()) != 1 {
		t.Errorf("the key is inside, or the model was not asked: %d requests\n%s", len(server.Requests()), have.stdout)
	}
	if data, err := os.ReadFile(i.work + "/p/greeting.txt"); err != nil || string(data) != "edited\n" {
		t.Errorf("the project has %q, %v", data, err)
	}
	i.nacre("sessions", "list", "--json").want(t, 0, `"kind":"agent"`)
	i.nacre("agent", "--land", "sideways", "mine").want(t, 125, "--land is branch, ff or ask")
	i.nacre("agent", "--project", "p", "none").want(t, 125, "unknown agent", "[agents.NAME]", "mine")
	i.nacre("agent").want(t, 125, "name an agent")
	i.nacre("agent", "--time").want(t, 125, "flag needs an argument: --time")
	i.nacre("agent", "--project", i.work+"/home", "mine").want(t, 125, "holds your home", "--project")
	i.nacre("claude", "--help").want(t, 0, "own terminal interface", "--prompts")
}

// U-01, U-04: an agent commits in a git directory of its own, and the user's branch moves
// when --land says so.
func TestAnAgentCommits(t *testing.T) {
	t.Parallel()
	i, _ := ownAgent(t, `echo again >> greeting.txt; git commit -q -a -m "of the agent"`)
	i.gitUser()
	i.nacre("agent", "--project", "p", "--session", "one", "mine").want(t, 0, "1 commit on main, kept as nacre/one")
	i.git("reset", "-q", "nacre/one")
	i.nacre("agent", "--project", "p", "--session", "two", "--land", "ff", "mine").want(t, 0, "the branch was moved there")
	if have := strings.Count(i.git("log", "--format=%s", "main"), "of the agent"); have != 2 {
		t.Errorf("main has %d commits of the agent, want 2", have)
	}
}

// U-04: --land ask shows what would land once the agent has given the terminal back, and moves the branch
// on a person's yes alone. Keys typed before the question answer nothing.
func TestAnAgentAsksBeforeItsCommitsLand(t *testing.T) {
	t.Parallel()
	i, _ := ownAgent(t, `printf "ready-$((1+1))"; until [ -e typed ]; do read -r line; touch typed; done
mkdir -p .github/workflows; date +%N >.github/workflows/x.yml; git add .github; git commit -q -m "of the agent"; rm typed`)
	i.gitUser()
	i.nacre("agent", "--land", "ask", "--project", "p", "mine").want(t, 125, "there is none: write branch or ff")
	head := i.git("rev-parse", "HEAD")
	ask := func(session, answer string) {
		t.Helper()
		screen, wait := i.terminal("agent", "--project", "p", "--session", session, "--land", "ask", "mine")
		screen.until("ready-2")
		screen.typeIn("y\r\ny\r\n")
		screen.until(`x.yml": GitHub runs what it says`)
		screen.until("move your branch there? [y/N]")
		screen.typeIn(answer + "\r")
		have := wait()
		if have.code != 0 {
			t.Fatalf("it ended with %d\n%s", have.code, screen.text.String())
		}
	}
	ask("one", "n")
	if have := i.git("rev-parse", "HEAD"); have != head || i.git("rev-parse", "nacre/one^") != head {
		t.Errorf("after a no HEAD is %s, want %s", have, head)
	}
	ask("two", "y")
	if have := i.git("log", "-1", "--format=%s"); have != "of the agent" || i.git("rev-parse", "HEAD^") != head {
		t.Errorf("after a yes the last commit is %q", have)
	}
	i.nothingLeft(t)
}

// U-01: what cannot be started is a sentence that says what to do.
func TestAnAgentThatCannotBeOpenedSaysWhy(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	i.env = append(i.env, "PATH=/usr/bin:/bin", "NACRE_CLAUDE=", "NACRE_CODEX=")
	i.nacre("claude", "--project", "p").want(t, 125, "claude is not installed", "npm install -g @anthropic-ai/claude-code")
	i.nacre("codex", "--project", "p").want(t, 125, "codex is not installed", "npm install -g @openai/codex")
	i.write("home/.config/nacre/config.toml", "[agents.mine]\ncommand = []\n")
	i.nacre("agent", "mine").want(t, 125, "[agents.mine]: write command")
	other := map[string]string{"amd64": "\xb7\x00", "arm64": "\x3e\x00"}[runtime.GOARCH]
	for name, text := range map[string]string{"empty": "", "other": "\x7fELF" + strings.Repeat("\x00", 14) + other, "plain": "no program\n", "folder/file": "x"} {
		check(t, os.Chmod(i.write("tools/"+name, text), map[bool]os.FileMode{true: 0o644, false: 0o755}[name == "plain"]))
	}
	check(t, os.Symlink("circle", i.work+"/tools/circle"))
	i.env = append(i.env, "ANTHROPIC_API_KEY=key-of-the-test", "OPENAI_API_KEY=key-of-the-test")
	for name, want := range map[string]string{
		"empty": "is empty", "other": "and this machine is " + runtime.GOARCH, "plain": "", "folder": "is a folder, not a program",
		"circle": "is a link that leads back to itself", "gone": "is not there",
	} {
		program := i.work + "/tools/" + name
		i.write("home/.config/nacre/config.toml", fmt.Sprintf("[agents.mine]\ncommand = [%q]\n", program))
		i.nacre("agent", "--project", "p", "mine").want(t, 125, cmp.Or(want, "is not an executable file"), name, "under [agents.mine] in config.toml")
		i.env = append(i.env, "NACRE_CLAUDE="+program, "NACRE_CODEX="+program)
		for _, agent := range []string{"claude", "codex"} {
			i.nacre(agent, "--project", "p").want(t, 125, cmp.Or(want, "is a script or a shim"), name, "npm install -g")
		}
	}
}

// U-01: on a terminal the agent has the screen: its size, its keys and its code, and
// nothing of nacre's is written over it. U-14: it may ask the terminal where the cursor is,
// and cannot write the clipboard.
func TestAnAgentHasTheTerminal(t *testing.T) {
	t.Parallel()
	// A shell may miss a signal that comes just before it waits for a line, so it waits again each second.
	// A read that ends for its time forgets a trap that starts programs, so that one has a shell of its own.
	i, _ := ownAgent(t, `exec bash -c 'trap "echo interrupted-\$((40+2))" INT
curl -s -m 20 https://refused.example/ || echo refused-$?; printf "\033]52;c;eHh4\007\033]2;x\033]52;c;eHh4\007\033[6n"
(trap "stty size <&2" WINCH; echo ready-$((1+1)); while :; do sleep 0.1 & wait; done) &
while :; do read -r -t 1 line && { echo "got [$line]"; [ "$line" = end ] && exit 5; }; done'`)
	screen, wait := i.terminal("agent", "--project", "p", "mine")
	screen.until("session k")
	screen.until("ready-2")
	if shown := screen.text.String(); strings.Contains(shown, "refused.example") || !strings.Contains(shown, "a question waits") {
		t.Errorf("a question is on the agent's screen, or no bell told of it:\n%q", shown)
	}
	if shown := screen.text.String(); strings.Contains(shown, "eHh4") || !strings.Contains(shown, "\x1b[6n") {
		t.Errorf("the agent writes the clipboard, or cannot ask for the cursor:\n%q", shown)
	}
	if err := unix.IoctlSetWinsize(int(screen.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 55, Col: 144}); err != nil {
		t.Fatal(err)
	}
	screen.until("55 144")
	screen.typeIn("one\r")
	screen.until("got [one]")
	screen.typeIn("\x03")
	screen.until("interrupted-42")
	screen.typeIn("\x1b[200~pasted\x1b[201~\r")
	screen.until("pasted")
	screen.typeIn("end\r")
	wait().want(t, 5, "refused.example")
}
