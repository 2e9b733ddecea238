package verify

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/gate"
)

// project is what the gates are told is the project's folder: links of a tree
// are followed in what was listed, never on this host.
const project = "/tree"

// filesWhitelist is the verifier of scope::files-whitelist. The denylist, where
// there is one, beats the whitelist, as in the gate (S-06).
func filesWhitelist(ctx context.Context, s Subject, _ atom.Atom, _ Runner) (Verdict, error) {
	if !s.Task.Has("files-whitelist") {
		return failed("the task has no files-whitelist in [scope]", "write it, if need be as an empty list"), nil
	}
	rule := gate.Rule{Kind: gate.FilesWhitelist, Whitelist: s.Task.Whitelist, Denylist: s.Task.Denylist}
	findings, err := s.delta.against(ctx, rule)
	return verdict("files outside the task changed", findings), err
}

// filesDenylist is the verifier of scope::files-denylist.
func filesDenylist(ctx context.Context, s Subject, _ atom.Atom, _ Runner) (Verdict, error) {
	if !s.Task.Has("files-denylist") {
		return failed("the task has no files-denylist in [scope]", "write it, if need be as an empty list"), nil
	}
	rule := gate.Rule{Kind: gate.FilesDenylist, Denylist: s.Task.Denylist}
	findings, err := s.delta.against(ctx, rule)
	return verdict("files of the denylist changed", findings), err
}

// noRuleEdits is the verifier of scope::no-rule-edits.
func noRuleEdits(ctx context.Context, s Subject, _ atom.Atom, _ Runner) (Verdict, error) {
	findings, err := s.delta.against(ctx, gate.Rule{Kind: gate.NoRuleEdits})
	return verdict("files that instruct or restrain agents changed", findings), err
}

// unchanged is the verifier of tools::deny-tools: a role that only reads leaves
// the tree as it was.
func unchanged(_ context.Context, s Subject, _ atom.Atom, _ Runner) (Verdict, error) {
	var findings []string
	for _, c := range s.delta.changes {
		findings = append(findings, fmt.Sprintf("%q was %s", c.path, c.kind))
	}
	return verdict("this role only reads, and files changed", findings), nil
}

// noDepBump is the verifier of safety::no-dep-bump.
func noDepBump(ctx context.Context, s Subject, _ atom.Atom, _ Runner) (Verdict, error) {
	if s.Task.AllowDepBump {
		return passed(), nil
	}
	findings, err := s.delta.against(ctx, gate.Rule{Kind: gate.NoDepBump})
	names := s.delta.spellings()
	for _, c := range s.delta.changes {
		if slices.ContainsFunc(names.of(c.path), declares) {
			findings = append(findings, fmt.Sprintf("%q was %s: %s declares or locks dependencies", c.path, c.kind, path.Base(c.path)))
		}
	}
	return verdict("manifests or lock files changed", findings), err
}

// declares tells the files of dependencies that the gate, which is about what
// agents commonly write, leaves to the verifier.
func declares(name string) bool {
	base := path.Base(name)
	switch base {
	case "pom.xml", "build.gradle", "build.gradle.kts", "libs.versions.toml", "buildscript-gradle.lockfile", "verification-metadata.xml",
		"build.sbt", "setup.py", "setup.cfg", "environment.yml", "environment.yaml", "conda-lock.yml", "pylock.toml", "hatch.lock",
		"mix.exs", "rebar.config", "rebar.lock", "gleam.toml", "manifest.toml", "Cartfile", "Cartfile.resolved", "packages.config", "paket.dependencies", "paket.lock",
		"Directory.Build.props", "stack.yaml", "stack.yaml.lock", "cabal.project", "cabal.project.freeze", "elm.json", "deps.edn", "project.clj",
		"cpanfile", "cpanfile.snapshot", "conanfile.txt", "conanfile.py", "conan.lock", "vcpkg.json", "MODULE.bazel", "MODULE.bazel.lock", "WORKSPACE", "Chart.lock", "Chart.yaml",
		".terraform.lock.hcl", "renv.lock", "Manifest.toml", "Project.toml", "shard.yml", "shard.lock", "rockspec.lock", "dub.json", "dub.selections.json",
		"build.zig.zon", "flake.nix", "pixi.toml", "jsr.json", "bower.json", "lerna.json", "gradle-wrapper.properties", "Brewfile", "Brewfile.lock.json",
		"dependency-reduced-pom.xml", "ivy.xml", "Berksfile", "Berksfile.lock", "Puppetfile", "requirements.in", "constraints.in":
		return true
	}
	for _, suffix := range []string{".csproj", ".fsproj", ".vbproj", ".gemspec", ".cabal", ".rockspec", ".podspec", ".opam", ".nimble"} {
		if strings.HasSuffix(base, suffix) {
			return true
		}
	}
	return path.Base(path.Dir(name)) == "requirements" && (strings.HasSuffix(base, ".txt") || strings.HasSuffix(base, ".in")) ||
		strings.HasSuffix(name, "vendor/modules.txt")
}

// against are the changes that a rule refuses.
func (d delta) against(ctx context.Context, rule gate.Rule) ([]string, error) {
	names := d.spellings()
	there := gate.World{Project: project, Readlink: d.readlink}
	gone := gate.World{Project: project} // what was deleted leads nowhere
	var findings []string
	for _, c := range d.changes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		world := there
		if c.kind == deleted {
			world = gone
		}
		for _, name := range names.of(c.path) {
			if rule.Kind == gate.FilesWhitelist || rule.Kind == gate.FilesDenylist {
				name = project + "/" + name
			}
			if decision := rule.Place(name, world); !decision.Allowed {
				findings = append(findings, fmt.Sprintf("%q was %s%s: %s", c.path, c.kind, c.leads(), decision.Reason))
				break
			}
		}
	}
	return findings, nil
}

// leads says where a new link leads, for a reason.
func (c change) leads() string {
	if !c.is.link {
		return ""
	}
	return fmt.Sprintf(", a link to %.200q", c.is.target)
}

var errAbsolute = errors.New("an absolute link leads out of the tree")

// readlink is where a link of the tree leads.
func (d delta) readlink(name string) (string, bool, error) {
	name, ok := strings.CutPrefix(name, project+"/")
	if !ok {
		return "", false, nil
	}
	f := d.tree[name]
	if f.link && path.IsAbs(f.target) {
		return "", true, errAbsolute
	}
	return f.target, f.link, nil
}
