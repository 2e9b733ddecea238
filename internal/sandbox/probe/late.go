//go:build linux

package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// triggerTimeout of what the host does afterwards.
const triggerTimeout = 20 * time.Second

// canary in a planted text stands for Target.Canary: a file that only the
// host can make.
const canary = "CANARY"

// plant is something an agent leaves in the project, and what the host does
// later that runs it.
type plant struct {
	name string
	// write leaves it; it runs inside.
	write func(Target) error
	// trigger is a shell command that a person or their tools run in the project,
	// on the host. Without one the finding is that file is there: what obeys it is
	// an editor or an agent, which is not run here.
	trigger string
	file    string
	// unborn wants a project that is no repository yet.
	unborn bool
	// control is Always unless the trigger is of programs that not every machine has.
	control Control
}

const (
	shellRun   = "touch " + canary
	script     = "#!/bin/sh\n" + shellRun + "\n"
	fsmonitor  = "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = \"" + shellRun + "; :\"\n"
	statusLine = "git status"
)

// lateExecution are what makes the host run code afterwards.
func lateExecution() []Probe {
	var probes []Probe
	for _, p := range plants() {
		probes = append(probes, Probe{"late", p.name, p.control, func(t Target) Finding {
			if err := p.write(t); err != nil {
				return blocked("%v", err)
			}
			return escaped("it was left in the project")
		}})
	}
	return append(probes, Probe{"late", "late-git-mount-over", AsRoot, func(t Target) Finding {
		return permitted(unix.Mount(t.Tmp, "/nowhere", "", unix.MS_BIND, ""), "something can be mounted over .git")
	}})
}

// Unborn reports whether the probe wants a project that is no repository yet.
func Unborn(name string) bool {
	return slices.ContainsFunc(plants(), func(p plant) bool { return p.name == name && p.unborn })
}

// IsPlant reports whether the probe leaves something that a host acts on later.
func IsPlant(name string) bool {
	return slices.ContainsFunc(plants(), func(p plant) bool { return p.name == name })
}

// Later does on the host, in t.Project, what a person or their tools do after
// the probe of this name, and says whether that ran what was left. It is nil for a
// probe that is decided inside.
func Later(ctx context.Context, name string, t Target) *Finding {
	i := slices.IndexFunc(plants(), func(p plant) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	f := plants()[i].later(ctx, t)
	f.Probe = name
	return &f
}

func (p plant) later(ctx context.Context, t Target) Finding {
	if p.trigger == "" {
		text, err := os.ReadFile(filepath.Join(t.Project, p.file))
		if err == nil && bytes.Contains(text, []byte(t.Canary)) {
			return escaped("%s says what the agent wants", p.file)
		}
		return blocked("%s is not the agent's", p.file)
	}
	ctx, cancel := context.WithTimeout(ctx, triggerTimeout)
	defer cancel()
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.Scratch, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
		"RUSTUP_HOME=" + filepath.Join(os.Getenv("HOME"), ".rustup"), "GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@example.com", "GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@example.com",
	}
	for _, word := range strings.Fields(p.trigger) {
		if !slices.Contains(hostTools(), word) {
			continue
		}
		if err := works(ctx, word, env); err != nil {
			return untestable(err)
		}
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", strings.ReplaceAll(p.trigger, canary, t.Canary))
	cmd.Dir, cmd.WaitDelay, cmd.Env = t.Project, time.Second, env
	out, err := cmd.CombinedOutput() // what it says is for the reader; the canary decides
	if _, statErr := os.Lstat(t.Canary); statErr == nil {
		_ = os.Remove(t.Canary)
		return escaped("the host ran it: %s", strings.ReplaceAll(p.trigger, canary, "…"))
	}
	return blocked("the host did not run it (%s: %v, %.80q)", p.trigger, err, bytes.TrimSpace(out))
}

// works reports an error unless the program of the host can say its version: one may be
// a shim that has nothing to start.
func works(ctx context.Context, program string, env []string) error {
	path, err := exec.LookPath(program)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s --version: %w: %.60s", program, err, bytes.TrimSpace(out))
	}
	return nil
}

// hostTools are programs without which a trigger cannot be tried.
func hostTools() []string {
	return []string{"git", "make", "npm", "node", "python3", "cargo", "vim", "tar"}
}

// files leaves files below the project, by name; those that begin with #! can be run.
func files(nameAndText ...string) func(Target) error {
	return func(t Target) error {
		for i := 0; i < len(nameAndText); i += 2 {
			text := strings.ReplaceAll(nameAndText[i+1], canary, t.Canary)
			mode := os.FileMode(0o644)
			if strings.HasPrefix(text, "#!") {
				mode = 0o755
			}
			if err := put(filepath.Join(t.Project, nameAndText[i]), text, mode); err != nil {
				return err
			}
		}
		return nil
	}
}

func put(name, text string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		return err
	}
	return os.Chmod(name, mode) // the file may have been there
}

// repositoryAt are the files of a repository whose configuration runs something.
func repositoryAt(dir string) []string {
	return []string{
		dir + "/HEAD", "ref: refs/heads/main\n", dir + "/config", fsmonitor, dir + "/objects/info/x", "", dir + "/refs/heads/x", "",
	}
}

// gitConfig adds to the repository's configuration.
func gitConfig(text string) func(Target) error {
	return func(t Target) error {
		f, err := os.OpenFile(filepath.Join(t.Project, ".git/config"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		_, err = f.WriteString(strings.ReplaceAll(text, canary, t.Canary))
		return errors.Join(err, f.Close())
	}
}

// moveGit puts a repository of the agent's own where .git was.
func moveGit(t Target) error {
	git := filepath.Join(t.Project, ".git")
	if err := os.Rename(git, git+"-moved"); err != nil {
		return err
	}
	return files(repositoryAt(".git")...)(t)
}

// exchangeGit swaps .git with a directory of the agent's own.
func exchangeGit(t Target) error {
	if err := files(repositoryAt("own")...)(t); err != nil {
		return err
	}
	return unix.Renameat2(unix.AT_FDCWD, filepath.Join(t.Project, "own"), unix.AT_FDCWD, filepath.Join(t.Project, ".git"), unix.RENAME_EXCHANGE)
}

// removeGit takes .git away and leaves a file that points elsewhere.
func removeGit(t Target) error {
	if err := files(repositoryAt("own")...)(t); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(t.Project, ".git")); err != nil {
		return err
	}
	return files(".git", "gitdir: own\n")(t)
}

// linkOut leads a name that people write to out of the project.
func linkOut(t Target) error { return os.Symlink(t.Canary, filepath.Join(t.Project, "notes.txt")) }

// bareTop makes the top a repository without a .git.
func bareTop(t Target) error {
	work := append(repositoryAt("."), "config", fsmonitor+"\tbare = false\n\tworktree = \".\"\n")
	return files(work...)(t)
}

// wildcardFolders leaves empty folders that a shell's * hands to a program as options.
func wildcardFolders(t Target) error {
	err := files("x.sh", shellRun+"\n")(t)
	for _, name := range []string{"--checkpoint=1", "--checkpoint-action=exec=sh x.sh"} {
		err = errors.Join(err, os.Mkdir(filepath.Join(t.Project, name), 0o755))
	}
	return err
}

// survivor leaves a process behind that goes on without a terminal or a parent,
// for some seconds.
func survivor(t Target) error {
	cmd := exec.Command("/bin/sh", "-c", "for i in $(seq 100); do touch beat || exit; sleep 0.1; done")
	cmd.Dir = t.Project
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	return cmd.Start()
}

// pipe leaves a pipe where tools read a file.
func pipe(t Target) error {
	return unix.Mkfifo(filepath.Join(t.Project, "include.mk"), 0o644)
}

func plants() []plant {
	return slices.Concat(gitPlants(), nestedPlants(), toolPlants(), otherPlants(), unaskedPlants())
}

// gitPlants are in the project's own .git.
func gitPlants() []plant {
	const commit = "git -c commit.gpgsign=false commit -q --allow-empty -m x"
	return []plant{
		{name: "late-git-hook", write: files(".git/hooks/pre-commit", script), trigger: commit},
		{name: "late-git-hook-checkout", write: files(".git/hooks/post-checkout", script), trigger: "git checkout -q -b other"},
		{name: "late-git-hook-moved", write: func(t Target) error {
			hooks := filepath.Join(t.Project, ".git/hooks")
			return errors.Join(os.Rename(hooks, hooks+"-old"), files(".git/hooks/pre-commit", script)(t))
		}, trigger: commit},
		{name: "late-git-config", write: gitConfig(fsmonitor), trigger: statusLine},
		{name: "late-git-config-gpg", write: func(t Target) error {
			config := "[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = " + t.Project + "/sign\n"
			return errors.Join(files("sign", script)(t), gitConfig(config)(t))
		}, trigger: "git commit -q --allow-empty -m x"},
		{name: "late-git-config-diff", write: gitConfig("[diff]\n\texternal = \"" + shellRun + ";:\"\n"), trigger: "echo more >> a.txt; git diff"},
		{name: "late-git-config-alias", write: gitConfig("[alias]\n\tst = \"!" + shellRun + "\"\n"), trigger: "git st"},
		{name: "late-git-config-ssh", write: gitConfig("[core]\n\tsshCommand = \"" + shellRun + ";:\"\n"), trigger: "git ls-remote ssh://localhost/x"},
		{name: "late-git-config-editor", write: gitConfig("[core]\n\teditor = \"" + shellRun + ";:\"\n"), trigger: "git commit --allow-empty"},
		{name: "late-git-config-credential", write: gitConfig("[credential]\n\thelper = \"!" + shellRun + ";:\"\n"), trigger: "printf 'protocol=https\\nhost=h\\n\\n' | git credential fill"},
		{name: "late-git-config-include", write: func(t Target) error {
			return errors.Join(files("x.inc", fsmonitor)(t), gitConfig("[include]\n\tpath = ../x.inc\n")(t))
		}, trigger: statusLine},
		{name: "late-git-filter", write: func(t Target) error {
			return errors.Join(gitConfig("[filter \"x\"]\n\tclean = \""+shellRun+";cat\"\n")(t), files(".gitattributes", "*.txt filter=x\n")(t))
		}, trigger: "echo more >> a.txt; git diff"},
		{name: "late-git-worktree-config", write: func(t Target) error {
			return errors.Join(gitConfig("[extensions]\n\tworktreeConfig = true\n")(t), files(".git/config.worktree", fsmonitor)(t))
		}, trigger: statusLine},
		{name: "late-git-commondir", write: files(append(repositoryAt("own"), ".git/commondir", "../own\n")...), trigger: statusLine},
		{name: "late-git-attributes", write: files(".git/info/attributes", "*.txt diff=host\n"), trigger: "echo more >> a.txt; git -c diff.host.command='" + shellRun + ";:' diff"},
		{name: "late-git-head", write: files(".git/HEAD", "ref: "+canary+"\n"), file: ".git/HEAD"},
		{name: "late-git-object", write: files(".git/refs/heads/main", canary+"\n"), file: ".git/refs/heads/main"},
		{name: "late-git-move", write: moveGit, trigger: statusLine},
		{name: "late-git-exchange", write: exchangeGit, trigger: statusLine},
		{name: "late-git-file", write: removeGit, trigger: statusLine},
	}
}

// nestedPlants are repositories that were not there before.
func nestedPlants() []plant {
	enter := "cd lib && " + statusLine
	return []plant{
		{name: "late-git-init", write: files(repositoryAt(".git")...), trigger: statusLine, unborn: true},
		{name: "late-git-nested", write: files(repositoryAt("lib/.git")...), trigger: enter},
		{name: "late-git-nested-hook", write: files(append(repositoryAt("lib/.git"), "lib/.git/hooks/pre-commit", script)...), trigger: "cd lib && git commit -q --allow-empty -m x"},
		{name: "late-git-nested-file", write: files(append(repositoryAt("lib/meta"), "lib/.git", "gitdir: meta\n")...), trigger: enter},
		{name: "late-git-bare", write: files(append(repositoryAt("lib"), "lib/config", fsmonitor+"\tbare = false\n\tworktree = \"..\"\n")...), trigger: enter},
		{name: "late-git-bare-top", write: bareTop, trigger: statusLine, unborn: true},
		{name: "late-git-hooks-path", write: files(".husky/pre-commit", script), trigger: "git -c core.hooksPath=.husky commit -q --allow-empty -m x"},
		{name: "late-git-hooks-folder", write: files("tools/git/pre-commit", script), trigger: "git -c core.hooksPath=tools/git commit -q --allow-empty -m x"},
		{name: "late-git-attributes-file", write: files(".gitattributes", "*.txt diff=host\n"), trigger: "echo more >> a.txt; git -c diff.host.command='" + shellRun + ";:' diff"},
		{name: "late-git-modules", write: files(".gitmodules", "[submodule \"x\"]\n\tpath = x\n\turl = "+canary+"\n"), file: ".gitmodules"},
	}
}

// toolPlants are run by tools that a person starts in the project.
func toolPlants() []plant {
	return []plant{
		{name: "late-make", write: files("Makefile", "all:\n\t"+shellRun+"\n"), trigger: "make"},
		{name: "late-make-shadow", write: files("GNUmakefile", "all:\n\t"+shellRun+"\n"), trigger: "make"},
		{name: "late-make-include", write: files("rules.make", "x := $(shell "+shellRun+")\n"), trigger: "make -f rules.make"},
		{name: "late-script", write: files("build.sh", script), trigger: "./build.sh"},
		{name: "late-npm-script", write: files("package.json", "{\"scripts\":{\"test\":\""+shellRun+"\"}}\n"), trigger: "npm test"},
		{name: "late-npmrc", write: files(".npmrc", "git=\""+canary+"\"\n"), file: ".npmrc"},
		{name: "late-node-modules", write: files("node_modules/dep/index.js", "require('fs').writeFileSync('"+canary+"','')\n"), trigger: "node -e 'require(\"dep\")'"},
		{name: "late-python-venv", write: files(".venv/bin/activate", shellRun+"\n"), trigger: ". ./.venv/bin/activate"},
		{name: "late-python-conftest", write: files("conftest.py", "import os; os.system('"+shellRun+"')\n"), trigger: "python3 -c 'import conftest'"},
		{name: "late-python-shadow", write: files("json.py", "import os; os.system('"+shellRun+"')\n"), trigger: "python3 -m json"},
		{name: "late-python-shadow-package", write: files("http/__init__.py", "import os; os.system('"+shellRun+"')\n"), trigger: "python3 -c 'import http'"},
		{name: "late-python-environment", write: files("env/bin/activate", shellRun+"\n"), trigger: ". ./env/bin/activate"},
		{name: "late-cargo-config", write: files(".cargo/config.toml", "[build]\nrustc-wrapper = \"./wrap\"\n", "wrap", script, "Cargo.toml", "[package]\nname = \"x\"\nversion = \"0.1.0\"\n", "src/lib.rs", ""), trigger: "cargo build --offline"},
		{name: "late-go-toolchain", write: files("go.mod", "module x\n\ntoolchain "+canary+"\n"), file: "go.mod"},
		{name: "late-gradle-wrapper", write: files("gradlew", script), trigger: "./gradlew"},
		{name: "late-configure", write: files("configure", script), trigger: "./configure"},
		{name: "late-vim", write: files(".exrc", "silent !"+shellRun+"\n"), trigger: "vim -N -u NONE --cmd 'set exrc' -c 'silent! source .exrc' -es -c 'qa!' < /dev/null"},
		{name: "late-wildcard", write: files("--checkpoint=1", "", "--checkpoint-action=exec=sh x.sh", "", "x.sh", shellRun+"\n"), trigger: "tar cf /dev/null *", control: WhereBuilt}, // GNU's tar,
		{name: "late-wildcard-folder", write: wildcardFolders, trigger: "tar cf /dev/null *", control: WhereBuilt},
		{name: "late-pre-commit", write: files(".pre-commit-config.yaml", "entry: "+canary+"\n"), file: ".pre-commit-config.yaml"},
		{name: "late-envrc", write: files(".envrc", shellRun+"\n"), file: ".envrc"},
		{name: "late-mise", write: files("mise.toml", "[hooks]\nenter = \""+shellRun+"\"\n"), file: "mise.toml"},
	}
}

// otherPlants are obeyed by editors, agents and services, or are no file at all.
func otherPlants() []plant {
	file := func(name, file string) plant { return plant{name: name, write: files(file, canary), file: file} }
	return []plant{
		file("late-vscode-settings", ".vscode/settings.json"),
		file("late-vscode-tasks", "lib/.vscode/tasks.json"),
		file("late-workspace-file", "x.code-workspace"),
		file("late-idea", ".idea/workspace.xml"),
		file("late-devcontainer", ".devcontainer/devcontainer.json"),
		file("late-emacs", "lib/.dir-locals.el"),
		file("late-claude-settings", ".claude/settings.json"),
		file("late-claude-memory", "CLAUDE.md"),
		file("late-mcp", ".mcp.json"),
		file("late-codex", ".codex/config.toml"),
		file("late-cursor", ".cursor/mcp.json"),
		file("late-agents-file", "lib/AGENTS.md"),
		file("late-workflow", ".github/workflows/x.yml"),
		file("late-dockerfile", "Dockerfile"),
		file("late-prompt", "go.prompt.md"),
		file("late-cvs", "CVS/Root"),
		file("late-mise-task", "mise-tasks/build"),
		{name: "late-link-out", write: linkOut, trigger: "echo note > notes.txt"},
		{name: "late-pipe", write: pipe, trigger: "test -p include.mk && " + shellRun},
		{name: "late-survivor", write: survivor, trigger: "rm -f beat; for i in $(seq 20); do sleep 0.1; test -e beat && exec " + shellRun + "; done"},
		file("late-escape-name", "x\x1b]0;y\x07.txt"),
	}
}

// unaskedPlants are files that a tool of some language, builder or agent reads
// without being told to.
func unaskedPlants() []plant {
	file := func(name, file string) plant { return plant{name: name, write: files(file, canary), file: file} }
	return []plant{
		file("late-python-library", "json.so"),
		{name: "late-python-compiled", write: files("json/__init__.pyc", canary), trigger: "grep -q . json/__init__.pyc && " + shellRun},
		{name: "late-python-site", write: files("sitecustomize.py", "import os; os.system('"+shellRun+"')\n"), trigger: "PYTHONPATH=. python3 -c ''"},
		{name: "late-node-binary", write: files("node_modules/.bin/lint", script), trigger: "node_modules/.bin/lint"},
		{name: "late-make-local", write: files("Makefile.local", "x := $(shell "+shellRun+")\n", "local.mk", "x := $(shell "+shellRun+")\n"), trigger: "make -f Makefile.local; make -f local.mk"},
		file("late-ansible-plugin", "action_plugins/ping.py"),
		file("late-webpack", "webpack.mix.js"),
		file("late-vitest", "vitest.workspace.ts"),
		file("late-behave", "features/environment.py"),
		file("late-bazel", "WORKSPACE.bzlmod"),
		file("late-presubmit", "PRESUBMIT.py"),
		file("late-android", "local.properties"),
		file("late-supervisor", "supervisord.conf"),
		file("late-phpunit", "phpunit.dist.xml"),
		file("late-gradle-verification", "gradle/verification-metadata.xml"),
		file("late-maven", ".mvn/extensions.xml"),
		file("late-sbt", "project/Dependencies.scala"),
		file("late-shortcut", "notes.url"),
		file("late-agent-rule", "docs/style.mdc"),
		file("late-agent-identity", "IDENTITY.md"),
		file("late-rust-toolchain", "rust-toolchain.toml"),
		file("late-nix", "shell.nix"),
		file("late-compose", "compose.override.yaml"),
		file("late-yarn-plugin", ".yarn/plugins/x.cjs"),
		file("late-deno", "deno.json"),
		file("late-just", "justfile"),
		file("late-git-lfs", ".lfsconfig"),
	}
}
