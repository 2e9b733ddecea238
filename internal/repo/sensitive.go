package repo

import (
	"context"
	"fmt"
	"io"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The reasons to look at a change before it lands (M-13).
const (
	reasonGit     = "git reads it"
	reasonEditor  = "an editor runs what it says"
	reasonAgent   = "a coding agent obeys it"
	reasonShell   = "a shell runs it on entering the directory"
	reasonBuild   = "a build or package tool runs what it says"
	reasonCI      = "continuous integration runs what it says"
	reasonLink    = "a symbolic link out of the project"
	reasonControl = "its name has control characters or is not UTF-8"
	reasonCase    = "its name differs from another file's in case only"
	reasonModule  = "a submodule"
)

// sensitiveDirs are components, lower-case: everything below is sensitive.
var sensitiveDirs = map[string]string{
	".git": reasonGit, ".githooks": reasonGit, ".husky": reasonGit,
	".vscode": reasonEditor, ".idea": reasonEditor, ".vs": reasonEditor, ".zed": reasonEditor, ".fleet": reasonEditor,
	".devcontainer": reasonEditor, ".vim": reasonEditor, ".nvim": reasonEditor,
	".claude": reasonAgent, ".codex": reasonAgent, ".cursor": reasonAgent, ".gemini": reasonAgent, ".continue": reasonAgent,
	".windsurf": reasonAgent, ".roo": reasonAgent, ".kiro": reasonAgent, ".opencode": reasonAgent, ".agents": reasonAgent,
	".direnv": reasonShell, ".mise": reasonShell,
	".cargo": reasonBuild, ".mvn": reasonBuild, ".yarn": reasonBuild, ".bazel": reasonBuild, ".bundle": reasonBuild,
	".circleci": reasonCI, ".buildkite": reasonCI, ".gitlab": reasonCI, ".ci": reasonCI, ".forgejo": reasonCI, ".gitea": reasonCI,
	".github": reasonCI, ".woodpecker": reasonCI,
	"node_modules": reasonDeps, "bower_components": reasonDeps, ".venv": reasonDeps, "venv": reasonDeps, ".tox": reasonDeps,
	"site-packages": reasonDeps,
}

// sensitiveNames are base names, lower-case.
var sensitiveNames = map[string]string{
	".exrc": reasonEditor, ".vimrc": reasonEditor, ".nvimrc": reasonEditor, ".nvim.lua": reasonEditor,
	".dir-locals.el": reasonEditor, ".project": reasonEditor, ".lvimrc": reasonEditor,
	"claude.md": reasonAgent, "claude.local.md": reasonAgent, "agents.md": reasonAgent, "agent.md": reasonAgent,
	"gemini.md": reasonAgent, ".mcp.json": reasonAgent, ".cursorrules": reasonAgent, ".windsurfrules": reasonAgent,
	".clinerules": reasonAgent, ".aider.conf.yml": reasonAgent, "opencode.json": reasonAgent,
	".envrc": reasonShell, ".env": reasonShell, ".autoenv.zsh": reasonShell, "mise.toml": reasonShell, ".mise.toml": reasonShell,
	".tool-versions": reasonShell, "shell.nix": reasonShell, "flake.nix": reasonShell, "devbox.json": reasonShell,
	"makefile": reasonBuild, "gnumakefile": reasonBuild, "justfile": reasonBuild, "taskfile.yml": reasonBuild, "taskfile.yaml": reasonBuild,
	"package.json": reasonBuild, ".npmrc": reasonBuild, ".yarnrc": reasonBuild, ".yarnrc.yml": reasonBuild, ".pnpmfile.cjs": reasonBuild,
	"bunfig.toml": reasonBuild, "deno.json": reasonBuild, "setup.py": reasonBuild, "setup.cfg": reasonBuild, "pyproject.toml": reasonBuild,
	"conftest.py": reasonBuild, "tox.ini": reasonBuild, "noxfile.py": reasonBuild, "sitecustomize.py": reasonBuild,
	"usercustomize.py": reasonBuild, "pip.conf": reasonBuild, "build.rs": reasonBuild, "cargo.toml": reasonBuild, "rust-toolchain": reasonBuild,
	"rust-toolchain.toml": reasonBuild, "go.mod": reasonBuild, "go.work": reasonBuild, "gradlew": reasonBuild, "gradlew.bat": reasonBuild,
	"mvnw": reasonBuild, "mvnw.cmd": reasonBuild, "pom.xml": reasonBuild, "build.xml": reasonBuild, "cmakelists.txt": reasonBuild,
	"configure": reasonBuild, "meson.build": reasonBuild, "build.zig": reasonBuild, "build.sbt": reasonBuild, "mix.exs": reasonBuild,
	"rakefile": reasonBuild, "gemfile": reasonBuild, "vagrantfile": reasonBuild, "dockerfile": reasonBuild, "containerfile": reasonBuild,
	"docker-compose.yml": reasonBuild, "docker-compose.yaml": reasonBuild, "compose.yaml": reasonBuild, "compose.yml": reasonBuild,
	"build": reasonBuild, "build.bazel": reasonBuild, "workspace": reasonBuild, "module.bazel": reasonBuild, ".bazelrc": reasonBuild,
	"tiltfile": reasonBuild, "procfile": reasonBuild, "lefthook.yml": reasonGit, ".pre-commit-config.yaml": reasonGit,
	".gitlab-ci.yml": reasonCI, "jenkinsfile": reasonCI, ".travis.yml": reasonCI, "azure-pipelines.yml": reasonCI, ".drone.yml": reasonCI,
	"appveyor.yml": reasonCI, ".woodpecker.yml": reasonCI, "bitbucket-pipelines.yml": reasonCI,
}

// sensitiveEnds are the ends of base names, lower-case.
var sensitiveEnds = map[string]string{
	".code-workspace": reasonEditor, ".sublime-project": reasonEditor, ".mk": reasonBuild, ".cmake": reasonBuild, ".pth": reasonBuild,
	".gradle": reasonBuild, ".gradle.kts": reasonBuild, ".gemspec": reasonBuild, ".bzl": reasonBuild, ".csproj": reasonBuild,
	".props": reasonBuild, ".targets": reasonBuild, ".sln": reasonBuild, ".xcodeproj": reasonBuild,
}

// sensitiveName says why a path is sensitive by its name alone, or "".
func sensitiveName(name string) string {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unsafeRune) {
		return reasonControl
	}
	parts := strings.Split(strings.ToLower(name), "/")
	for _, part := range parts[:len(parts)-1] {
		if reason := sensitiveDirs[part]; reason != "" {
			return reason
		}
	}
	last := parts[len(parts)-1]
	if reason := sensitiveNames[last]; reason != "" {
		return reason
	}
	if strings.HasPrefix(last, ".git") {
		return reasonGit
	}
	if strings.HasPrefix(last, ".env.") {
		return reasonShell
	}
	for end, reason := range sensitiveEnds {
		if strings.HasSuffix(last, end) {
			return reason
		}
	}
	for _, part := range parts {
		if strings.HasPrefix(part, "-") {
			return reasonOption
		}
	}
	return ""
}

// unsafeRune finds what a terminal obeys or shows out of order.
func unsafeRune(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// markSensitive fills in why each change is sensitive.
func (p *Project) markSensitive(ctx context.Context, tree string, files []Change) error {
	var links []string
	arrived := false
	for i := range files {
		f := &files[i]
		f.Sensitive = sensitiveName(f.Path)
		if f.OldMode == modeGitlink || f.NewMode == modeGitlink {
			f.Sensitive = reasonModule
		}
		if f.NewMode == modeLink {
			links = append(links, f.Path)
		}
		arrived = arrived || f.Kind == Added || path.Base(f.Path) == "config" // of a folder that git may take for a repository
	}
	if !arrived && len(links) == 0 {
		return nil
	}
	entries, err := p.listTree(ctx, tree)
	if err != nil {
		return err
	}
	markCase(files, entries)
	markBare(files, entries)
	return p.markLinks(ctx, files, links, entries)
}

// markCase finds new names that collide on a file system that ignores case.
func markCase(files []Change, entries map[string]entry) {
	count := make(map[string]int, len(entries))
	seen := make(map[string]bool)
	for name := range entries {
		for _, part := range append(parents(name), name) {
			if !seen[part] {
				seen[part] = true
				count[strings.ToLower(part)]++
			}
		}
	}
	for i, f := range files {
		if f.Kind != Added || f.Sensitive != "" {
			continue
		}
		for _, part := range append(parents(f.Path), f.Path) {
			if count[strings.ToLower(part)] > 1 {
				files[i].Sensitive = reasonCase
			}
		}
	}
}

// markBare finds folders that git takes for a repository, without any .git: it
// obeys their configuration as soon as somebody enters them.
func markBare(files []Change, entries map[string]entry) {
	const head, objects, refs = 1, 2, 4
	has := make(map[string]int)
	for name := range entries {
		dirs := parents(name)
		for _, dir := range dirs {
			switch path.Base(dir) {
			case "objects":
				has[path.Dir(dir)] |= objects
			case "refs":
				has[path.Dir(dir)] |= refs
			}
		}
		switch path.Base(name) {
		case "HEAD":
			has[path.Dir(name)] |= head
		case "commondir": // it names where objects and refs are
			has[path.Dir(name)] |= objects | refs
		}
	}
	for i, f := range files {
		for _, dir := range parents(f.Path) {
			if has[dir] == head|objects|refs && f.Kind != Deleted && f.Sensitive == "" {
				files[i].Sensitive = reasonNested
			}
		}
	}
}

// markLinks finds links that lead out of the project.
func (p *Project) markLinks(ctx context.Context, files []Change, links []string, entries map[string]entry) error {
	out := make(map[string]bool)
	err := p.withBlobs(ctx, links, entries, func(name string, _ entry, size int64, content io.Reader) error {
		if size > MaxPath {
			return fmt.Errorf("link target of %d bytes: %w", size, ErrTooBig)
		}
		target, err := io.ReadAll(content)
		out[name] = leavesProject(name, string(target))
		return err
	})
	if err != nil {
		return err
	}
	for i, f := range files {
		if out[f.Path] {
			files[i].Sensitive = reasonLink
		}
	}
	return nil
}

func leavesProject(link, target string) bool {
	resolved := path.Join(path.Dir(link), target)
	return path.IsAbs(target) || resolved == ".." || strings.HasPrefix(resolved, "../") ||
		strings.HasPrefix(resolved, ".git/") || resolved == ".git"
}
