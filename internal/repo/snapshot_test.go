package repo_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/repo"
)

// S-11: what must not land is left out and listed; the rest lands.
func TestWhatASnapshotLeavesOut(t *testing.T) {
	u := withFiles(t, project)
	r := open(t, u)
	r.agent(map[string]string{
		"nested/.git/config": "[core]\n\tfsmonitor = evil\n", "nested/file": "kept\n", "nested/.git/hooks/x": "#!",
		"a/.GIT/config": "x", "b/.Git": "gitdir: /etc\n", "c/git~1/x": "x", "d/.g\u200cit/x": "x", "e/.git. ./x": "x", "f/.git::$INDEX_ALLOCATION/x": "x",
		"g/a\\.git\\hooks": "x", ".gitmodules": "-> evil", "h/.gitMODULES": "-> evil", "x.log": "ignored", "out/x": "ignored",
		".gitignore": "*.log\nout/\nhidden\n", "hidden": "the agent's own rule hides nothing\n", "git~12": "an ordinary name", ".gitty": "too",
	})
	mkfifo(t, filepath.Join(r.work, "pipe"))
	t.Chdir(r.work) // a socket's path is short
	socket, err := net.Listen("unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	tree, changes := r.snapshot()

	var skipped []string
	for _, s := range changes.Skipped {
		if s.Reason == "" {
			t.Errorf("%s has no reason", s.Path)
		}
		skipped = append(skipped, s.Path)
	}
	slices.Sort(skipped)
	want := []string{
		".gitmodules", "a/.GIT", "b/.Git", "c/git~1", "d/.g\u200cit", "e/.git. .", "f/.git::$INDEX_ALLOCATION", "g/a\\.git\\hooks",
		"h/.gitMODULES", "nested/.git", "out/", "pipe", "socket", "x.log",
	}
	if !slices.Equal(skipped, want) {
		t.Errorf("skipped %q\nwant    %q", skipped, want)
	}
	var landed []string
	for _, c := range changes.Files {
		landed = append(landed, c.Path)
	}
	if want := []string{".gitignore", ".gitty", "git~12", "hidden", "nested/file"}; !slices.Equal(landed, want) {
		t.Errorf("changes %q, want %q", landed, want)
	}
	if err := r.project.Checkout(context.Background(), tree, filepath.Join(r.state, "verify")); err != nil {
		t.Error(err)
	}
}

// An ignored directory that has a tracked file in it is looked into.
func TestTrackedFilesInIgnoredDirectoriesLand(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.write(map[string]string{".gitignore": "out/\n*.gen\n!keep.gen\n", "out/tracked": "1", "tracked.gen": "1"})
	u.git("add", "-f", ".")
	u.commit("base")
	r := open(t, u)
	r.agent(map[string]string{"out/tracked": "2", "out/other": "x", "tracked.gen": "2", "new.gen": "x", "keep.gen": "y"})
	_, changes := r.snapshot()
	var landed []string
	for _, c := range changes.Files {
		landed = append(landed, c.Path)
	}
	if want := []string{"keep.gen", "out/tracked", "tracked.gen"}; !slices.Equal(landed, want) || len(changes.Skipped) != 2 {
		t.Errorf("changes %q, skipped %v", landed, changes.Skipped)
	}
}

// A directory that the agent swaps for a link is not followed.
func TestALinkWhereADirectoryWasIsALink(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	writeFiles(t, outside, map[string]string{"a": "secret\n", "deep/b": "secret\n"})
	u := withFiles(t, project)
	r := open(t, u)
	r.agentRemoves("old")
	r.agent(map[string]string{"old": "-> " + outside, "up": "-> ../../..", "self": "-> self", "git": "-> .git/config"})
	tree, changes := r.snapshot()
	if err := r.project.Checkout(context.Background(), tree, filepath.Join(r.state, "verify")); err != nil {
		t.Fatal(err)
	}
	have := files(t, filepath.Join(r.state, "verify"))
	if have["old"] != "-> "+outside || have["self"] != "-> self" || len(have) != len(project)-2+4 {
		t.Errorf("have %v", have)
	}
	for _, c := range changes.Files {
		if leaves := c.Path != "self" && c.Kind == repo.Added; (c.Sensitive != "") != leaves {
			t.Errorf("%+v", c)
		}
	}
	m := r.merge(tree, r.project.Base)
	if _, err := r.land(m.Commit, r.project.Base); err != nil {
		t.Fatal(err)
	}
	if have := files(t, outside); have["a"] != "secret\n" || len(have) != 2 {
		t.Errorf("outside: %v", have)
	}
}

func TestChangesSayWhatHappened(t *testing.T) {
	t.Parallel()
	u := withFiles(t, project)
	r := open(t, u)
	r.agent(map[string]string{"README.md": "hello\nmore\n", "bin": "\x00\x05", "new": "1\n2\n3\n", "link": "-> src"})
	chmod755(t, filepath.Join(r.work, "src/main.go"))
	r.agentRemoves("old/b")
	_, changes := r.snapshot()
	want := []repo.Change{
		{Path: "README.md", Kind: repo.Modified, OldMode: "100644", NewMode: "100644", AddedLines: 1},
		{Path: "bin", Kind: repo.Modified, OldMode: "100644", NewMode: "100644", Binary: true},
		{Path: "link", Kind: repo.Modified, OldMode: "120000", NewMode: "120000", AddedLines: 1, RemovedLines: 1},
		{Path: "new", Kind: repo.Added, NewMode: "100644", AddedLines: 3},
		{Path: "old/b", Kind: repo.Deleted, OldMode: "100644", RemovedLines: 1},
		{Path: "src/main.go", Kind: repo.Modified, OldMode: "100644", NewMode: "100755", Sensitive: "a program, which people and tools start by its name"},
	}
	if !slices.Equal(changes.Files, want) {
		t.Errorf("have %+v\nwant %+v", changes.Files, want)
	}
	if added, removed := changes.Lines(); added != 5 || removed != 2 {
		t.Errorf("lines +%d -%d", added, removed)
	}
}

func TestNothingChangedIsTheBaseTree(t *testing.T) {
	t.Parallel()
	u := withFiles(t, project)
	r := open(t, u)
	tree, changes := r.snapshot()
	if string(tree) != u.git("rev-parse", "HEAD^{tree}") || len(changes.Files) != 0 {
		t.Errorf("%s, %+v", tree, changes)
	}
	m := r.merge(tree, r.project.Base)
	if landed, err := r.land(m.Commit, r.project.Base); err != nil || !landed.Files {
		t.Errorf("%+v, %v", landed, err)
	}
}

// M-13: what makes the host run something later is pointed out.
func TestSensitiveChangesArePointedOut(t *testing.T) {
	t.Parallel()
	sensitive := []string{
		".gitattributes", ".gitmodules", "sub/.gitignore", ".github/workflows/ci.yml", ".vscode/tasks.json", ".idea/x.xml", ".claude/settings.json",
		"CLAUDE.md", "AGENTS.md", ".mcp.json", ".envrc", "sub/.env", ".env.local", "Makefile", "makefile", "rules.mk", "package.json", ".npmrc",
		"setup.py", "pyproject.toml", "conftest.py", "x.pth", "build.rs", "Cargo.toml", ".cargo/config.toml", "go.mod", "build.gradle.kts",
		"gradlew", "pom.xml", "CMakeLists.txt", "Dockerfile", ".husky/pre-commit", ".pre-commit-config.yaml", ".gitlab-ci.yml", "x.code-workspace",
		"readme.MD", "SRC/x", "new\nline", "esc\x1b[31m", "rtl\u202etxt", "not\xffutf8", ".CLAUDE/x", "Sub/.Vscode/x",
		"-rf", "sub/--checkpoint=1", "lib/node_modules/x/index.js", ".venv/bin/activate", "bare/HEAD", "bare/config", "bare/objects/x", "bare/refs/x",
	}
	// Of each kind of tool some that read a file of their own unasked, wherever it lies.
	sensitive = append(sensitive,
		".lefthook.yml", "lefthook-local.yml", ".huskyrc.json", ".hg/hgrc", ".jj/repo/config.toml",
		".helix/languages.toml", "sub/.dir-locals-2.el", "App.xcodeproj/project.pbxproj", ".run/all.run.xml", "x.launch", "x.iml", "hie.yaml",
		".clinerules/rule.md", ".junie/guidelines.md", ".goosehints", "WARP.md", "AGENTS.override.md", ".agent/rules/x.md", ".nonesuch/settings.json",
		".rvmrc", "default.nix", ".ssh/config", "docker-compose.override.yml", "Dockerfile.dev", "ansible.cfg", "main.tf", "Taskfile.dist.yml", ".justfile",
		"gradle/wrapper/gradle-wrapper.properties", "tools/bazel", "project/plugins.sbt", "binding.gyp", "composer.json", "Package.swift", ".Rprofile", ".irbrc",
		".ghci", ".gdbinit", ".pylintrc", ".eslintrc.js", "eslint.config.mjs", "vite.config.ts", "Gulpfile.js", "Guardfile", "Pipfile", "Makefile.am",
		"package-lock.json", "poetry.lock", "requirements-dev.txt", "pkg/__pycache__/x.pyc", "old.pyc", "x.egg-info/entry_points.txt", "zero\u200bwidth",
		"tsconfig.json", "sub/tsconfig.base.json", "rust-analyzer.toml", "omnisharp.json", "Properties/launchSettings.json", "x.desktop", "x.run.xml", "Session.vim",
		"pnpmfile.cjs", "gems.rb", "lib/tasks/x.rake", "buildSrc/src/x.kt", "docs/conf.py", "gunicorn.conf.py", "mkdocs.yml", "lakefile.lean", "latexmkrc", "cdk.json",
		"wrangler.toml", "x.hcl", "guix.scm", "PKGBUILD", "x-gdb.py", "mise.production.toml", "mise/config.toml", "bacon.toml", "unheard-of.toml", "docker-compose-dev.yml",
		"jest.config.json", "hooks/hooks.json", "SOUL.md", "install-sh", "rebar3", "x.pro", "treefmt.toml", "azure-pipelines-pr.yml", "App.csproj.user", "Gemfile.local",
		"lib/json.so", "libs/x.jar", "init.elc", "Makefile.", "packa\u017fes/\u017fetup.py", "hangul\u3164", "a`b`", "a;b", "x>y", "lib/*", "$(x)/y",
		"json.py", "http.py", "pip.py", "Typing.py", "unittest/__init__.py", "pytest/__main__.py", "profile.py", "tasks.py",
		"json.so", "json.abi3.so", "json.cpython-311-x86_64-linux-gnu.so", "json.pyc", "json/__init__.so", "json/__init__.pyc", "PIP.pyd",
		"action_plugins/ping.py", "deploy/filter_plugins/x.py", "environment.py", "features/environment.py", "PRESUBMIT.py", "lib/BUILD.plz", "TARGETS",
		"WORKSPACE.bzlmod", "Eldev", "Cask", "testem.js", "local.properties", "vcpkg-configuration.json", "supervisord.conf", "process-compose.yaml",
		"mprocs.yaml", "phpunit.dist.xml", "wp-cli.yml", "app.json", "test/test_helper.exs", "gradle/verification-metadata.xml", "Dockerfile-dev",
		"webpack.mix.js", "vitest.workspace.ts", "x.agent.md", "rules/x.mdc", "x.url", "IDENTITY.md", "TOOLS.md", "project/Dependencies.scala", "env/bin/activate", "py3/bin/python3",
		"hooks/pre-commit", "tools/git/post-checkout", "githooks/x", "CVS/Root", "_FOSSIL_", "mise-tasks/x", "build.sh", "install.ps1", "make.bat", "x.command",
		"subprojects/x.wrap", "prisma/schema.prisma", "script/rails", "rescript.json", "_plugins/x.rb", "config.make", "go.prompt.md", "test/mocha.opts")
	plain := []string{"config.go", "half/settings.toml", "so.go", "class.java", "a.b-c.go", "spec.rb", "x_spec.rb", "users/index.ts", "(group)/[id].tsx", "compose.go", "app/profile.py", "app/json.py", "json.x.py", "lib/json.so.txt", "app/project.scala.md", "app/Main.scala", "docs/tools.md", "e2e.ts", "pkg/__init__.py", "a/json/__init__.py", "app/hooks/use.ts", "wheel/x.txt", ".editorconfig", ".prettierignore", "lock.go", "config.js", "scripts/tool.sh", "docs/dotfile.md", "main.go", "half/HEAD", "half/config", "half/refs/x", "a-b", "docs/x.md", "lib/package.jsonx", "gitignore", "environment", "naïve.txt", "日本"}
	u := withFiles(t, project)
	r := open(t, u)
	for _, name := range append(slices.Clone(sensitive), plain...) {
		r.agent(map[string]string{name: "x\n"})
	}
	// Repositories without a .git: git enters a link, or a file that may be run, as it does a folder. A folder that
	// ignores case shows it names in any case.
	for _, dir := range []string{"linked", "runs"} {
		r.agent(map[string]string{dir + "/HEAD": "x\n", dir + "/config": "x\n", "runs/objects": "x\n", "runs/refs": "x\n"})
		sensitive = append(sensitive, dir+"/HEAD", dir+"/config", dir+"/objects", dir+"/refs")
	}
	for _, part := range []string{"objects", "refs"} {
		if err := errors.Join(os.Symlink("../sub", filepath.Join(r.work, "linked", part)), os.Chmod(filepath.Join(r.work, "runs", part), 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	r.agent(map[string]string{"Cases/head": "x\n", "Cases/Config": "x\n", "Cases/Objects/x": "x\n", "Cases/REFS/x": "x\n"})
	sensitive = append(sensitive, "Cases/head", "Cases/Config", "Cases/Objects/x", "Cases/REFS/x")
	_, changes := r.snapshot()
	have := map[string]string{}
	for _, c := range changes.Files {
		have[c.Path] = c.Sensitive
	}
	for _, name := range sensitive {
		if have[name] == "" {
			t.Errorf("%q is not pointed out", name)
		}
	}
	for _, name := range plain {
		if reason, ok := have[name]; !ok || reason != "" {
			t.Errorf("%q: there %t, %q", name, ok, reason)
		}
	}
	if n := len(changes.Sensitive()); n != len(sensitive) {
		t.Errorf("%d are sensitive, want %d", n, len(sensitive))
	}
}

// F-04: so is what may be run, whatever its name; it lands all the same, for nothing runs it
// by itself. What waits for a person for another reason goes on doing so.
func TestProgramsArePointedOut(t *testing.T) {
	t.Parallel()
	r := open(t, withFiles(t, project))
	r.agent(map[string]string{"text": "x\n", "tools/run": "#!/bin/sh\n", "README.MD": "x\n", "readme.md": "y\n"})
	for _, name := range []string{"tools/run", "README.MD"} {
		if err := os.Chmod(filepath.Join(r.work, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	_, changes := r.snapshot()
	have := map[string]string{}
	for _, c := range changes.Files {
		if have[c.Path] = c.Sensitive; c.Held != strings.HasPrefix(strings.ToLower(c.Path), "readme") {
			t.Errorf("%q waits for a person: %t", c.Path, c.Held)
		}
	}
	if have["tools/run"] != "a program, which people and tools start by its name" || have["text"] != "" || !strings.Contains(have["README.MD"], "in case") {
		t.Errorf("have %q", have)
	}
}

func TestTooMuchIsAnError(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(t *testing.T, r *run){
		"a file too big": func(t *testing.T, r *run) { sparse(t, r, "big", repo.MaxFile+1) },
		"too much in all": func(t *testing.T, r *run) {
			sparse(t, r, "big", repo.MaxFile)
			for i := range repo.MaxChanged / repo.MaxFile { // links to it, which the machine's memory holds once
				if err := os.Link(filepath.Join(r.work, "big"), filepath.Join(r.work, fmt.Sprintf("big%d", i))); err != nil {
					t.Fatal(err)
				}
			}
		},
		"too deep": func(t *testing.T, r *run) {
			dir := r.work
			for range repo.MaxDepth + 2 {
				dir += "/d"
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := open(t, withFiles(t, project))
			make(t, r)
			if _, _, err := r.clone.Snapshot(t.Context()); !errors.Is(err, repo.ErrTooBig) {
				t.Errorf("have %v, want ErrTooBig", err)
			}
		})
	}
}

func sparse(t *testing.T, r *run, name string, size int64) {
	t.Helper()
	path := filepath.Join(r.work, name)
	if err := errors.Join(os.WriteFile(path, nil, 0o644), os.Truncate(path, size)); err != nil {
		t.Fatal(err)
	}
}

// What an agent left unreadable cannot be taken, and is no failure of the host.
func TestWhatNobodyMayReadIsRefused(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	if overBases(t) {
		t.Skip("who mounts a layer reads everything: it is tried on a copy")
	}
	for name, path := range map[string]string{"a file": "new/file.txt", "a folder": "new"} {
		for _, mode := range []os.FileMode{0o000, 0o400} {
			t.Run(fmt.Sprintf("%s of mode %o", name, mode), func(t *testing.T) {
				r := open(t, withFiles(t, project))
				writeFiles(t, r.work, map[string]string{"new/file.txt": "x"})
				path := filepath.Join(r.work, path)
				if err := os.Chmod(path, mode); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = os.Chmod(path, 0o700) }) // so that it can be removed
				_, _, err := r.clone.Snapshot(t.Context())
				if readable := name == "a file" && mode != 0; readable != (err == nil) || !readable && !errors.Is(err, repo.ErrUnsafe) {
					t.Errorf("have %v", err)
				}
			})
		}
	}
}

func TestAFileAtTheLimitIsTaken(t *testing.T) {
	t.Parallel()
	r := open(t, withFiles(t, project))
	sparse(t, r, "big", repo.MaxFile)
	if _, changes := r.snapshot(); len(changes.Files) != 1 {
		t.Errorf("changes %+v", changes)
	}
}

func TestMatchesFindsEveryDifference(t *testing.T) {
	t.Parallel()
	r := withFiles(t, project).session("")
	tree, err := r.project.TreeOf(t.Context(), r.project.Base)
	if err != nil {
		t.Fatal(err)
	}
	whole := filepath.Join(r.state, "whole")
	if err := r.project.Checkout(t.Context(), tree, whole); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(t *testing.T, dir string){
		"a byte":          func(t *testing.T, dir string) { writeFiles(t, dir, map[string]string{"README.md": "hellO\n"}) },
		"a mode":          func(t *testing.T, dir string) { chmod755(t, dir+"/README.md") },
		"a file too many": func(t *testing.T, dir string) { writeFiles(t, dir, map[string]string{"src/x": ""}) },
		"a file too few":  func(t *testing.T, dir string) { remove(t, dir+"/old/a") },
		"a link's target": func(t *testing.T, dir string) { writeFiles(t, dir, map[string]string{"link": "-> README.mD"}) },
		"a file for a link": func(t *testing.T, dir string) {
			writeFiles(t, dir, map[string]string{"link": "README.md"})
		},
		"a pipe":       func(t *testing.T, dir string) { mkfifo(t, dir+"/p") },
		"a nested git": func(t *testing.T, dir string) { writeFiles(t, dir, map[string]string{"src/.git/x": ""}) },
		"a line's end": func(t *testing.T, dir string) { writeFiles(t, dir, map[string]string{"crlf.txt": "one\ntwo\n"}) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(r.state, name)
			copyFolder(t, whole, dir)
			if err := r.project.Matches(t.Context(), tree, dir); err != nil {
				t.Fatal(err)
			}
			change(t, dir)
			if err := r.project.Matches(t.Context(), tree, dir); err == nil || !strings.Contains(err.Error(), "not tree") {
				t.Errorf("have %v", err)
			}
		})
	}
}

func TestCheckoutWantsAnEmptyDirectory(t *testing.T) {
	t.Parallel()
	r := open(t, withFiles(t, project))
	tree, _ := r.snapshot()
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"x": ""})
	for _, dir := range []string{dir, filepath.Join(dir, "x"), filepath.Join(dir, "no", "parent")} {
		if err := r.project.Checkout(t.Context(), tree, dir); err == nil {
			t.Errorf("checked out into %s", dir)
		}
	}
}

// M-13: a link shows what it leads to under its own name, new or not.
func TestWhatALinkShowsUnderASensitiveNameIsPointedOut(t *testing.T) {
	t.Parallel()
	u := withFiles(t, map[string]string{
		"docs/guide.md": "x\n", "docs/other.md": "x\n", "CLAUDE.md": "-> docs/alias", "docs/alias": "-> guide.md", "conf/tasks.json": "x\n", "README": "x\n",
		"AGENTS.md": "-> notes/now/agents.md", "notes/now": "-> v2", "notes/v2/agents.md": "x\n", "GEMINI.md": "-> gem/now/x.md", "gem/now": "-> v2", "gem/v2/x.md": "x\n",
	})
	r := open(t, u)
	r.agent(map[string]string{"docs/guide.md": "obey\n", "docs/other.md": "y\n", "sub/.vscode": "-> ../conf", "conf/deep/x": "y\n", "README": "y\n"})
	// By way of a linked folder, and by way of another one; and a folder that Python takes for its own by a link's name.
	r.agentRemoves("gem/now")
	r.agent(map[string]string{"notes/v2/agents.md": "obey\n", "gem/v3/x.md": "obey\n", "gem/now": "-> v3", "lib/__init__.py": "y\n", "json": "-> lib", "app/json": "-> ../lib2", "lib2/x.py": "y\n"})
	_, changes := r.snapshot()
	have := map[string]bool{}
	for _, c := range changes.Sensitive() {
		have[c.Path] = true
	}
	want := map[string]bool{"docs/guide.md": true, "sub/.vscode": true, "conf/deep/x": true, "notes/v2/agents.md": true, "gem/now": true, "gem/v3/x.md": true, "json": true, "lib/__init__.py": true}
	if !maps.Equal(have, want) {
		t.Errorf("have %v, want %v", have, want)
	}
}

// F-13, M-67: what a hook, direnv's file or make calls by its path runs on the user's machine, and waits for them. What
// an editor's tasks call when a person starts them does not wait, nor what a list names that nobody runs.
func TestWhatSomethingTrustedCallsIsHeld(t *testing.T) {
	t.Parallel()
	u := withFiles(t, map[string]string{
		".envrc": "source scripts/env\n", "Makefile": "include vars.inc\nall:\n\tcat notes.txt\n", ".husky/pre-push": "sh \"$(dirname \"$0\")/../tools/push\"\n",
		"GNUmakefile":             "include rules.inc\n" + strings.Repeat("# more than is read\n", 1<<14),
		".pre-commit-config.yaml": "entry: tools/lint\nexclude: NEWS.md\n", ".vscode/tasks.json": `{"command": "${workspaceFolder}/app.py"}`,
		"scripts/real": "x\n", "app.py": "x\n", "NEWS.md": "x\n", "notes.txt": "x\n", "tools/deep": "x\n",
	})
	u.write(map[string]string{".git/hooks/pre-commit": "exec ./tools/check\n"})
	if err := os.Symlink("../../tools/deep", filepath.Join(u.dir, ".git/hooks/post-merge")); err != nil {
		t.Fatal(err)
	}
	r := open(t, u)
	r.agent(map[string]string{
		"scripts/env": "-> real", "scripts/real": "y\n", "vars.inc": "y\n", "rules.inc": "y\n", "tools/push": "y\n", "tools/lint": "y\n", "tools/check": "y\n",
		"tools/deep": "y\n", "app.py": "y\n", "NEWS.md": "y\n", "notes.txt": "y\n",
	})
	_, changes := r.snapshot()
	have := map[string]bool{}
	for _, c := range changes.Held() {
		have[c.Path] = true
	}
	want := map[string]bool{"scripts/env": true, "scripts/real": true, "vars.inc": true, "rules.inc": true, "tools/push": true, "tools/lint": true, "tools/check": true, "tools/deep": true}
	if !maps.Equal(have, want) {
		t.Errorf("have %v, want %v", have, want)
	}
}

// M-67: what takes the place of a file that is held is held with it, for without the one the other cannot be. It would
// be missing from what landed, and nobody told.
func TestWhatTakesThePlaceOfWhatIsHeldIsHeld(t *testing.T) {
	t.Parallel()
	u := withFiles(t, map[string]string{"Makefile": "x\n", "deps/.envrc": "x\n", "lib": "x\n"})
	r := open(t, u)
	r.agentRemoves("Makefile", "deps/.envrc", "deps", "lib")
	r.agent(map[string]string{"Makefile/a": "y\n", "deps": "y\n", "lib/a": "y\n"})
	_, changes := r.snapshot()
	have := map[string]bool{}
	for _, c := range changes.Held() {
		have[c.Path] = true
	}
	if want := map[string]bool{"Makefile": true, "Makefile/a": true, "deps/.envrc": true, "deps": true}; !maps.Equal(have, want) {
		t.Errorf("have %v, want %v", have, want)
	}
}

// M-13: what the user's git configuration names runs on the user's machine,
// whatever it is called.
func TestWhatGitsConfigurationNamesIsPointedOut(t *testing.T) {
	t.Parallel()
	u := withFiles(t, map[string]string{"tools/clean.sh": "x\n", "tools/other.sh": "x\n", "README": "x\n"})
	u.git("config", "core.hooksPath", "tools/hooks")
	u.git("config", "filter.x.clean", "sh ./tools/clean.sh %f")
	r := open(t, u)
	u.git("config", "init.defaultBranch", "src")
	r.agent(map[string]string{"src/x.go": "y\n", "tools/clean.sh": "y\n", "tools/other.sh": "y\n", "tools/hooks/pre-commit": "y\n", "README": "y\n"})
	_, changes := r.snapshot()
	have := map[string]bool{}
	for _, c := range changes.Sensitive() {
		have[c.Path] = true
	}
	if want := map[string]bool{"tools/clean.sh": true, "tools/hooks/pre-commit": true}; !maps.Equal(have, want) {
		t.Errorf("have %v, want %v", have, want)
	}
}
