package main_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// playedClaude is what this test's binary is where it is called claude: a program that
// says that it is Claude Code, and then does what the project's play.sh says.
func playedClaude() int {
	if slices.Contains(os.Args, "--version") {
		fmt.Println("2.1.329 (Claude Code)")
		return 0
	}
	command := exec.Command("/bin/sh", "/workspace/play.sh")
	command.Args = append(command.Args, os.Args[1:]...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := command.Run(); err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return exit.ExitCode()
		}
		return 99
	}
	return 0
}

// played gives the installation a claude that does what scripts say.
func played(t *testing.T) *installation {
	t.Helper()
	_, url := upstreamOf(t, scriptedmodel.Script{Turns: []scriptedmodel.Turn{{Text: "An answer."}}})
	i := install(t)
	i.project()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(i.work, "tools", "claude")
	if err := errors.Join(os.MkdirAll(filepath.Dir(program), 0o755), testpeer.WriteProgram(program, string(self))); err != nil {
		t.Fatal(err)
	}
	i.env = append(i.env, "LOCAL_KEY=local-key-of-the-test", "NACRE_CLAUDE="+program)
	i.write("home/.config/nacre/config.toml", fmt.Sprintf("[[model.upstream]]\nurl = %q\nkey_env = \"LOCAL_KEY\"\ndialects = [\"anthropic\"]\n", url))
	return i
}

// opens runs a session of the agent that does what a script says.
func (i *installation) opens(script string, args ...string) result {
	i.t.Helper()
	i.write("p/play.sh", script)
	return i.nacre(append([]string{"claude", "--project", "p"}, args...)...)
}

// U-03: what an agent leaves in its home that a program obeys does not act on the next session,
// whichever way it was put there. What was said is still there.
func TestWhatAnAgentLeavesInItsHomeDoesNotActOnTheNextSession(t *testing.T) {
	t.Parallel()
	const seen = `cd "$HOME" && find . -type f -o -type l -o -type p | sort; echo "--"; cat .claude/.claude.json .claude/settings.json 2>/dev/null; cat /etc/claude-code/managed-settings.json; ls -ld "$HOME"`
	i := played(t)
	first := i.opens(seen)
	first.want(t, 0, `"hasCompletedOnboarding": true`, `"allowManagedHooksOnly": true`, ".claude/.claude.json")
	attack := i.opens(`cd "$HOME"
for f in .bashrc .bash_profile .profile .zshrc .zshenv .gitconfig .npmrc .config/git/config .config/fish/config.fish .local/bin/ipc .ssh/rc .vimrc \
  .claude/settings.json .claude/settings.local.json .claude/CLAUDE.md .claude/hooks/x.sh .claude/plugins/p/plugin.json .claude/commands/c.md .claude/agents/a.md \
  .claude/skills/s/SKILL.md .claude/shell-snapshots/snapshot-bash.sh .mcp.json .claude/.mcp.json .claude/history.jsonl.d/x .codex/config.toml .npm/_npx/x/run; do
  mkdir -p "$(dirname "$f")" && echo planted-by-an-agent > "$f" && echo "wrote $f"; done
printf '{"mcpServers":{"x":{"command":"planted-by-an-agent"}},"apiKeyHelper":"planted-by-an-agent","theme":"$(planted-by-an-agent)"}' > .claude/new && mv .claude/new .claude/.claude.json && echo replaced
ln -s /workspace/play.sh .claude/link; mkfifo .claude/pipe
rm -f .claude/history.jsonl; ln -s /etc/passwd .claude/history.jsonl
mv .claude/projects .claude/other 2>&1 || echo projects-stay
mv .claude .gone 2>&1 || echo folder-stays
echo x > /etc/claude-code/managed-settings.json 2>&1 || echo managed-stays
mv /etc/claude-code/managed-settings.json /tmp/x 2>&1 || echo managed-cannot-move
mkdir -p .claude/projects/-workspace; echo '{"said":1}' > .claude/projects/-workspace/talk.jsonl`)
	attack.want(t, 0, "wrote .bashrc", "wrote .claude/settings.json", "replaced", "projects-stay", "folder-stays", "managed-stays", "managed-cannot-move")
	second := i.opens(seen)
	second.want(t, 0, "talk.jsonl", `"hasCompletedOnboarding": true`, `"allowManagedHooksOnly": true`)
	if strings.Contains(second.stdout, "planted-by-an-agent") || strings.Contains(second.stdout, "root:x:0") {
		t.Errorf("the agent's files act on the next session:\n%s", second.stdout)
	}
	talk := "./.claude/projects/-workspace/talk.jsonl\n"
	if have, _, _ := strings.Cut(second.stdout, "--"); have != strings.Replace(firstOf(first.stdout), "./.claude/.claude.json\n", "./.claude/.claude.json\n"+talk, 1) {
		t.Errorf("the second home holds\n%s\nthe first held\n%s", have, first.stdout)
	}
	i.nacre("exec", "-q", "--project", "p", "--", "sh", "-c", "ls -A $HOME; cat $HOME/.bashrc $HOME/.claude/settings.json; true").want(t, 0, "No such file")
}

func firstOf(text string) string {
	files, _, _ := strings.Cut(text, "--")
	return files
}

// U-03: what was typed and the theme last. With --fresh a session begins with nothing and leaves
// nothing. Another project and another group have homes of their own.
func TestAHomeLastsByGroupAndProject(t *testing.T) {
	t.Parallel()
	i := played(t)
	i.write("home/.config/nacre/config.toml", i.read("home/.config/nacre/config.toml")+"[groups.main]\n[groups.family]\n")
	const see = `cat .claude/history.jsonl .claude/projects/talk 2>/dev/null; grep theme .claude/.claude.json`
	i.opens(`cd; echo '{"display":"typed-one"}' >> .claude/history.jsonl; echo said-one > .claude/projects/talk; sed -i 's/^{/{"theme":"dark-daltonized",/' .claude/.claude.json`).want(t, 0)
	i.opens("cd;"+see).want(t, 0, "typed-one", "said-one", "dark-daltonized")
	for name, args := range map[string][]string{"fresh": {"--fresh"}, "another group": {"--group", "family"}} {
		have := i.opens("cd;"+see+"; echo left > .claude/projects/talk; true", args...)
		if have.code != 0 || strings.Contains(have.stdout, "one") || strings.Contains(have.stdout, "theme") {
			t.Errorf("%s: exit %d, sees %s", name, have.code, have.stdout)
		}
	}
	i.opens("cd;"+see).want(t, 0, "typed-one", "said-one")
	i.write("other/play.sh", "cd;"+see)
	other := i.nacre("claude", "--project", "other")
	if other.want(t, 0, "dark-daltonized"); strings.Contains(other.stdout, "one") {
		t.Errorf("another project sees %s", other.stdout)
	}
	i.nacre("home", "list").want(t, 0, "main", "family", i.work+"/p", i.work+"/other", "MiB")
	i.nacre("home", "remove").want(t, 2, "--project", "--all")
	i.nacre("home", "remove", "--group", "main", "--project", "p").want(t, 0, "removed 1")
	if have := i.opens("cd;" + see + "; true"); strings.Contains(have.stdout, "one") {
		t.Errorf("after its removal the home has %s", have.stdout)
	}
	i.nacre("home", "remove", "--all").want(t, 0, "removed 3")
	i.nacre("home", "list").want(t, 0, "no agent left anything")
}

// U-03: of the home of an agent of the operator's own lasts what the operator names as data,
// and nothing else. What would be more than data is refused.
func TestAHomeOfAnAgentOfOnesOwnLasts(t *testing.T) {
	t.Parallel()
	i := played(t)
	settings := i.read("home/.config/nacre/config.toml") + fmt.Sprintf("[agents.mine]\ncommand = [%q]\n", filepath.Join(i.work, "tools", "claude"))
	keeps := func(paths string) { i.write("home/.config/nacre/config.toml", settings+"keep = ["+paths+"]\n") }
	opens := func(script string) result {
		i.write("p/play.sh", "cd; "+script)
		return i.nacre("agent", "--project", "p", "mine")
	}
	keeps(`".mine/sessions", ".mine/history.jsonl"`)
	opens(`echo said > .mine/sessions/talk; echo '{"typed":"this"}' >> .mine/history.jsonl; echo 'touch /tmp/ran' > .mine/settings; echo x > .bashrc`).want(t, 0)
	opens("cat .mine/sessions/talk .mine/history.jsonl; ls -A .mine; test ! -e .bashrc").want(t, 0, "said\n", `{"typed":"this"}`, "history.jsonl\nsessions\n")
	for _, path := range []string{".mine", "/etc/x", "../x/y", ".config/mine", ".ssh/keys", ".mine/../.bashrc", ".mine//x", "."} {
		keeps(fmt.Sprintf("%q", path))
		opens("true").want(t, 125, "[agents.mine]: keep", "name a folder of data")
	}
}

// U-03: what an agent left for the next session instructs its agent, and is untrusted text there.
// The calls of that session are those of one that has heard an outsider.
func TestWhatAnAgentLeftTaintsTheNextSession(t *testing.T) {
	t.Parallel()
	i := played(t)
	const call = `ipc get_diagnostics '{}' >/dev/null; `
	for _, step := range []struct {
		session, play string
		flags         []string
		tainted       bool
	}{
		{"first", call + "echo said > $HOME/.claude/projects/talk", nil, false},
		{"second", call, nil, true},
		{"fresh", call, []string{"--fresh"}, false},
	} {
		i.opens(step.play, append(step.flags, "--session", step.session)...).want(t, 0)
		records := i.records(step.session)
		if !strings.Contains(records, `"kind":"call.begin"`) {
			t.Fatalf("%s: no call is recorded", step.session)
		}
		if have := strings.Contains(records, `"tainted":true`); have != step.tainted {
			t.Errorf("%s: tainted %t", step.session, have)
		}
	}
}

// playedWithin2MiB is [played] with a quota for homes.
func playedWithin2MiB(t *testing.T) *installation {
	t.Helper()
	i := played(t)
	i.write("home/.config/nacre/config.toml", i.read("home/.config/nacre/config.toml")+"[home]\nquota = \"2MiB\"\n")
	return i
}

// U-03: a home that holds more than its quota opens no session, files with holes and
// several names included, and the operator is told what to do.
func TestAHomeBeyondItsQuotaIsRefused(t *testing.T) {
	t.Parallel()
	for name, fill := range map[string]string{
		"bytes":         "head -c 3145728 /dev/zero > a",
		"holes":         "truncate -s 3M a",
		"several names": "head -c 1048576 /dev/zero > a; ln a b; ln a c",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := playedWithin2MiB(t)
			i.opens("cd $HOME/.claude/projects; "+fill).want(t, 0)
			i.opens("true").want(t, 125, "its quota is 2 MiB", "nacre home remove --project .")
			i.opens("ls $HOME/.claude/projects", "--fresh").want(t, 0)
			i.nacre("home", "remove", "--project", "p").want(t, 0)
			i.opens("true").want(t, 0)
		})
	}
}

// U-03: what an agent left so that it cannot be counted is beyond each quota. The home is still listed
// and removed, with those of other projects.
func TestAHomeThatCannotBeCountedIsRefused(t *testing.T) {
	t.Parallel()
	for name, fill := range map[string]string{
		"a closed folder":     "mkdir a; head -c 3145728 /dev/zero > a/b; chmod 000 a",
		"a home that is shut": "head -c 3145728 /dev/zero > a; chmod 000 .",
		"folders too deep":    "mkdir -p $(printf 'd/%.0s' $(seq 600))",
		"a path too long":     "p=$(printf '%0200d/' $(seq 15)); mkdir -p $p e/$p; head -c 3145728 /dev/zero > e/$p/a; mv e $p",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := playedWithin2MiB(t)
			i.opens("cd $HOME/.claude/projects; "+fill).want(t, 0)
			i.opens("true").want(t, 125, "what agents left for this project", "nacre home remove --project .")
			i.opens("true", "--fresh").want(t, 0)
			i.nacre("home", "list").want(t, 0, i.work+"/p ")
			i.nacre("home", "remove", "--project", "p").want(t, 0, "removed 1")
			i.opens("true").want(t, 0)
		})
	}
}

// U-03: the home of a session that is open stays, with those that were to be removed with it.
func TestAHomeInUseIsNotRemoved(t *testing.T) {
	t.Parallel()
	i := played(t)
	i.write("other/play.sh", "true")
	i.nacre("claude", "--project", "other").want(t, 0)
	i.write("p/play.sh", `touch here; until [ -e go ]; do sleep 0.1; done; echo said > $HOME/.claude/projects/talk; echo '{"typed":1}' >> $HOME/.claude/history.jsonl`)
	held := i.begin("claude", "--project", "p", "--session", "open")
	eventually(t, "the session", func() bool { return isThere(i.work + "/p/here") })
	i.nacre("home", "remove", "--project", "p").want(t, 2, "session open works in", "nacre sessions stop open")
	i.nacre("home", "remove", "--all").want(t, 2, "session open works in")
	i.write("p/go", "")
	finish(t, held).want(t, 0)
	i.opens("cat $HOME/.claude/projects/talk $HOME/.claude/history.jsonl").want(t, 0, "said", "typed")
	i.nacre("home", "remove", "--all").want(t, 0, "removed 2")
}

// U-03: neither the home nor anything in it is seen by what verifies a run.
func TestVerificationSeesNoHome(t *testing.T) {
	t.Parallel()
	i := played(t)
	i.opens("echo kept-by-the-agent > $HOME/.claude/projects/talk").want(t, 0)
	rec := i.recording("echo x > new.txt")
	have := i.nacre("run", "do", "--project", "p", "--recording", rec, "--check", "! grep -rq kept-by-the-agent $HOME && test ! -e $HOME/.claude")
	have.want(t, 0, "merged")
}

func (i *installation) read(name string) string {
	i.t.Helper()
	data, err := os.ReadFile(filepath.Join(i.work, name))
	if err != nil {
		i.t.Fatal(err)
	}
	return string(data)
}

// U-03, F-124: package caches last for the next command of the same group and project, and
// for nobody else: no other group, no verification, no session that runs beside.
func TestPackageCachesLast(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	i.write("home/.config/nacre/config.toml", "[groups.main]\n[groups.family]\n")
	i.write("builds/README", "the host's own\n") // a build cache of the host's, where Go is there
	i.env = append(i.env, "GOCACHE="+filepath.Join(i.work, "builds"))
	const caches = `pip=$HOME/.cache/pip/x npm=$HOME/.npm/_cacache/x build=${GOCACHE:-$HOME/.cache/go-build}/x; `
	exec := func(script string, args ...string) result {
		return i.nacre(append(append([]string{"exec", "-q", "--project", "p"}, args...), "--", "sh", "-c", caches+script)...)
	}
	exec("for f in $pip $npm $build; do echo kept > $f || exit 1; done; echo lost > $HOME/.npm/lost").want(t, 0)
	exec(`cat $pip $npm $build; test ! -e $HOME/.npm/lost`).want(t, 0, "kept\nkept\nkept\n")
	exec("test ! -e $pip && test ! -e $build", "--group", "family").want(t, 0)
	i.write("p/sub/file", "")
	i.nacre("exec", "-q", "--project", "p/sub", "--", "sh", "-c", caches+"test ! -e $pip && test ! -e $build").want(t, 0)
	held := i.begin("exec", "-q", "--project", "p", "--", "sh", "-c", caches+"cat $pip; touch has; while test ! -e go; do sleep 0.1; done; cat $build")
	eventually(t, "the first session runs", func() bool { return isThere(filepath.Join(i.work, "p/has")) })
	exec("test ! -e $pip && test ! -e $build; touch go").want(t, 0)
	finish(t, held).want(t, 0, "kept\nkept\n")
	rec := i.recording("echo x > new.txt")
	i.nacre("run", "do", "--project", "p", "--yes", "--recording", rec, "--check", caches+"test ! -e $pip && test ! -e $build").want(t, 0, "merged")
	if have, err := os.ReadDir(filepath.Join(i.work, "builds")); err != nil || len(have) != 1 {
		t.Errorf("the host's own cache holds %v, %v", have, err)
	}
	i.nacre("home", "list").want(t, 0, i.work+"/p ")
	i.nacre("home", "remove", "--project", "p").want(t, 0, "removed 1")
	exec("test ! -e $pip && test ! -e $build").want(t, 0)
}
