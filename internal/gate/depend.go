package gate

import (
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/shell"
)

// isManifest tells the files in which dependencies are declared or locked, of
// every ecosystem that the atom names (S-04).
func isManifest(place string, fold bool) bool {
	name := place[strings.LastIndexAny(place, `/\`)+1:]
	if fold {
		name = foldedManifest(name)
	}
	switch name {
	case "Cargo.toml", "Cargo.lock",
		"go.mod", "go.sum", "go.work", "go.work.sum",
		"package.json", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "pnpm-workspace.yaml", "bun.lock", "bun.lockb", "deno.lock",
		"pyproject.toml", "poetry.lock", "uv.lock", "Pipfile", "Pipfile.lock", "pdm.lock", "requirements.txt", "constraints.txt", "pixi.lock",
		"Gemfile", "Gemfile.lock", "gems.rb", "gems.locked", "composer.json", "composer.lock", "mix.lock", "pubspec.lock", "pubspec.yaml",
		"Podfile", "Podfile.lock", "Package.swift", "Package.resolved", "packages.lock.json", "Directory.Packages.props", "gradle.lockfile", "flake.lock",
		"pom.xml", "build.gradle", "build.gradle.kts", "libs.versions.toml", "verification-metadata.xml", "mix.exs", "requirements.in", "constraints.in":
		return true
	}
	return strings.HasPrefix(name, "requirements") && strings.HasSuffix(name, ".txt")
}

// foldedManifest is the name as it is written where case does not count.
func foldedManifest(name string) string {
	for _, known := range []string{"Cargo.toml", "Cargo.lock", "Pipfile", "Pipfile.lock", "Gemfile", "Gemfile.lock", "Podfile", "Podfile.lock", "Package.swift", "Package.resolved"} {
		if strings.EqualFold(known, name) {
			return known
		}
	}
	return strings.ToLower(name)
}

const depAdvice = "dependencies stay as they are in this task: %s. Say in your report which one you need, and why"

// noDepBump is the gate of safety::no-dep-bump (S-04).
func (r Rule) noDepBump(c Call, w World) Decision {
	if r.AllowDepBump {
		return allow()
	}
	switch c.class {
	case classShell:
		s, d := c.read()
		if s == nil {
			return d
		}
		return r.bumps(s, w)
	case classWrite:
		for _, name := range c.paths {
			if d := manifest(name, w); !d.Allowed {
				return d
			}
		}
		return allow()
	case classRead, classNeutral:
		return allow()
	default:
		return deny("the tool %s is not known, and may change dependencies", c.Tool)
	}
}

func manifest(name string, w World) Decision {
	if isManifest(strings.TrimRight(name, "/."), w.FoldCase) || isManifest(name, w.FoldCase) {
		return deny(depAdvice, name+" declares or locks them")
	}
	places, err := w.locate(name)
	if err != nil {
		return deny("%v", err)
	}
	for _, place := range places {
		if isManifest(place, w.FoldCase) {
			return deny(depAdvice, place+" declares or locks them")
		}
	}
	return allow()
}

func (r Rule) bumps(s *shell.Script, w World) Decision {
	for _, to := range s.Changed() {
		if name := w.manifestAt(to); name != "" {
			return deny(depAdvice, name+" declares or locks them")
		}
	}
	for _, call := range s.Calls {
		if name := findsManifest(call, w); name != "" && changesFound(s, call) {
			return deny(depAdvice, call.Name()+" finds "+name+", and what it finds is changed")
		}
		if sub := bump(call); sub != "" {
			return deny(depAdvice, call.Name()+" "+sub+" changes them")
		}
		if code := codeOf(call.Name(), call); code != "" && writesManifest(code, w) {
			return deny(depAdvice, call.Name()+" is given code that names a manifest and writes")
		}
	}
	return allow()
}

// findsManifest is the manifest that a search is for, or "".
func findsManifest(c shell.Call, w World) string {
	if !slices.Contains([]string{"find", "gfind", "fd", "fdfind"}, c.Name()) {
		return ""
	}
	for _, arg := range c.Args[1:] {
		if isManifest(arg.Text, w.FoldCase) {
			return arg.Text
		}
	}
	return ""
}

// changesFound reports whether a script may change what a search in it finds: it
// changes something that it does not name. What it names is judged by its name.
func changesFound(s *shell.Script, search shell.Call) bool {
	runs := strings.HasPrefix(search.Name(), "fd") && shell.HasFlag(search.Args[1:], "-x", "-X", "--exec", "--exec-batch")
	if changes, _ := search.Changes(); changes || runs && len(s.Changed()) > 0 {
		return true
	}
	for _, call := range s.Calls {
		if changes, what := call.Changes(); changes && len(what) == 0 {
			return true
		}
	}
	return slices.ContainsFunc(s.Changed(), func(to shell.Word) bool { return !to.Literal || strings.Contains(to.Text, "{}") })
}

// manifestAt is the manifest of the project that a word names, or "".
func (w World) manifestAt(to shell.Word) string {
	places := []string{to.Text}
	if to.Literal && !to.Tilde && w.Project != "" {
		inside, outside := w.places(to.Text)
		if places = append(places, inside...); outside && len(inside) == 0 {
			return ""
		}
	}
	for _, place := range places {
		if isManifest(place, w.FoldCase) {
			return place
		}
	}
	return ""
}

// writesManifest tells code that names a manifest and seems to write.
func writesManifest(code string, w World) bool {
	writes := false
	for _, sign := range []string{"'w", `"w`, "'a'", `"a"`, "write", ".save", "dump(", "'r+", `"r+`, "rename", "replace(", "copy", "> ", "unlink", "remove("} {
		writes = writes || strings.Contains(code, sign)
	}
	if !writes {
		return false
	}
	for _, part := range strings.FieldsFunc(code, func(r rune) bool { return strings.ContainsRune(" \t\n'\"`()[]{},;=<>|&", r) }) {
		if isManifest(part, w.FoldCase) {
			return true
		}
	}
	return false
}

// bump is the subcommand by which a package manager changes what is declared
// or locked, or "".
func bump(c shell.Call) string {
	name := strings.TrimRight(c.Name(), "0123456789.")
	var subs []string
	switch name {
	case "cargo":
		sub, _ := cargoSub(c)
		subs = []string{"add", "remove", "rm", "update", "upgrade", "generate-lockfile", "edit", "autoinherit", "?"}
		if slices.Contains(subs, sub) {
			return sub
		}
		return ""
	case "cargo-add", "cargo-upgrade", "cargo-edit", "cargo-rm", "npm-check-updates", "ncu", "go-mod-upgrade", "gomajor":
		return "itself"
	case "npm":
		subs = []string{"install", "i", "in", "ins", "inst", "add", "uninstall", "un", "rm", "remove", "r", "update", "up", "upgrade", "dedupe", "ddp", "link", "ln", "shrinkwrap", "pkg", "version", "init", "install-test", "it"}
		if words, _ := shell.OperandsOf(c.Args[1:], "--prefix -C --workspace -w"); len(words) == 2 && words[0] == "audit" && words[1] == "fix" {
			return "audit fix"
		}
	case "yarn":
		subs = []string{"add", "remove", "up", "upgrade", "upgrade-interactive", "install", "dedupe", "link", "unlink", "set", "import", "version"}
		if frozen(c) {
			return ""
		}
	case "pnpm", "bun":
		subs = []string{"add", "install", "i", "remove", "rm", "uninstall", "un", "update", "up", "upgrade", "dedupe", "link", "unlink", "import", "patch-commit", "a"}
	case "deno":
		subs = []string{"add", "remove", "install", "update", "outdated"}
	case "go":
		return goBump(c)
	case "poetry":
		subs = []string{"add", "remove", "update", "lock", "self", "version"}
	case "uv":
		subs = []string{"add", "remove", "lock", "sync", "version"}
	case "pipenv":
		subs = []string{"install", "uninstall", "update", "upgrade", "lock"}
	case "pdm", "rye", "hatch", "pixi":
		subs = []string{"add", "remove", "update", "lock", "sync", "dep"}
	case "pip-compile", "pip-sync":
		return "itself"
	case "bundle", "bundler":
		subs = []string{"add", "remove", "update", "lock", "inject"}
	case "composer":
		subs = []string{"require", "remove", "update", "upgrade", "bump", "u", "r"}
	case "mix":
		subs = []string{"deps.update", "deps.get", "deps.unlock"}
	case "dart", "flutter", "swift", "dotnet", "pod", "nix", "gradle":
		words, _ := shell.OperandsOf(c.Args[1:], "")
		pair := strings.Join(words[:min(2, len(words))], " ")
		if slices.Contains([]string{"pub add", "pub remove", "pub upgrade", "pub downgrade", "package update", "package resolve", "add package", "remove package", "flake update", "flake lock", "package add", "package remove"}, pair) ||
			strings.HasPrefix(pair, "add ") && name == "dotnet" || name == "pod" && strings.HasPrefix(pair, "update") {
			return pair
		}
		return ""
	default:
		return ""
	}
	words, dynamic := shell.OperandsOf(c.Args[1:], "--prefix -C --cwd --directory --dir --project --filter -F --workspace -w")
	if dynamic && (len(words) < 2 || !c.Args[1].Literal) || c.More && len(words) == 0 {
		return "…"
	}
	first := ""
	if len(words) > 0 {
		first = words[0]
	}
	if name == "yarn" && first == "" && !shell.HasFlag(c.Args[1:], "--version", "-v", "--help", "-h") {
		return "install"
	}
	if slices.Contains(subs, first) && !frozen(c) {
		return first
	}
	return ""
}

// frozen tells an install that fails rather than change a lock file.
func frozen(c shell.Call) bool {
	return shell.HasFlag(c.Args[1:], "--frozen-lockfile", "--immutable", "--frozen", "--locked", "--check")
}

func goBump(c shell.Call) string {
	words, dynamic := shell.OperandsOf(c.Args[1:], "-C")
	switch {
	case len(words) == 0 || dynamic && len(words) < 2:
		if dynamic || c.More {
			return "…"
		}
	case words[0] == "get":
		return "get"
	case (words[0] == "mod" || words[0] == "work") && len(words) > 1 && slices.Contains([]string{"tidy", "edit", "init", "use", "sync"}, words[1]):
		return words[0] + " " + words[1]
	}
	for _, arg := range c.Args[1:] {
		if arg.Text == "-mod=mod" {
			return "-mod=mod"
		}
	}
	return ""
}
