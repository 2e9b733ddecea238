package gitdir

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/repo/git"
	"github.com/nacre-dev/nacre/internal/repo/gitconfig"
)

// maxSettings is the largest configuration of a git directory that is shown, in bytes.
const maxSettings = 1 << 20

// seen is a git directory that is shown inside: where it lies here, and where it is there. Of one that a submodule
// leads to, it is known where its files are there.
type seen struct{ source, target, tree string }

// Masks lay what [configText] shows over the configuration of each git directory of the project that is the host's own
// inside. That is the one of a project whose git can only be read, and those of submodules. One that says no more than
// that is shown as it is. Where a submodule and its repository would not find each other inside, they are told. The
// masks come after the project, and folder is where they are written. d may be nil.
func (d *Dir) Masks(ctx context.Context, project, folder string) ([]nacre.Mount, error) {
	switch {
	case project == "":
		return nil, nil
	case d == nil:
		return masks(ctx, asHosts(project, posture.Workspace), folder)
	}
	own := seen{source: d.place.GitDir, target: d.inside()}
	return masks(ctx, view{project: project, top: path.Join(posture.Workspace, d.below), own: own}, folder)
}

// MasksAt are [Dir.Masks] for whom the project is shown at top as the host has it, such as a plugin's handler.
func MasksAt(ctx context.Context, project, top, folder string) ([]nacre.Mount, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	return masks(ctx, asHosts(project, top), folder)
}

// view is how a project is shown inside: where, and with which git directory, which has those of its submodules.
type view struct {
	project, top string
	own          seen
	// hosts says that this is the host's own git directory.
	hosts bool
}

func asHosts(project, top string) view {
	return view{project, top, seen{source: filepath.Join(project, ".git"), target: top + "/.git"}, true}
}

func masks(ctx context.Context, v view, folder string) ([]nacre.Mount, error) {
	var mounts []nacre.Mount
	lay := func(kind, text, target string) error {
		mask := filepath.Join(folder, fmt.Sprintf("git-%s-%d", kind, len(mounts)))
		mounts = append(mounts, nacre.Mount{Source: mask, Target: target})
		return disk.Write(mask, []byte(text), 0o600)
	}
	trees, lost := v.checkedOut()
	for _, one := range lost {
		if err := lay("file", "gitdir: "+one.target+"\n", one.tree+"/.git"); err != nil {
			return nil, err
		}
	}
	for _, dir := range v.seen() {
		dir.tree = trees[dir.source]
		for _, name := range []string{"config", "config.worktree"} {
			file := filepath.Join(dir.source, name)
			if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() {
				continue // what a link leads to is not there, or is the project's
			}
			if text, err := disk.Read(file, maxSettings); err == nil && isPlainConfig(string(text)) && dir.leadsBack(string(text)) {
				continue
			}
			if err := lay("config", masked(ctx, dir, name), path.Join(dir.target, name)); err != nil {
				return nil, err
			}
		}
	}
	return mounts, nil
}

// leadsBack tells whether a configuration names the work tree that is known, if it names one.
func (s seen) leadsBack(text string) bool {
	tree := gitconfig.WorkTree(text, s.target)
	return s.tree == "" || tree == "" || tree == s.tree
}

// checkedOut finds where the files of submodules are inside, by where their repositories lie here. Those whose .git
// leads elsewhere inside than to their repository are lost. What is kept elsewhere than git keeps it stays out.
func (v view) checkedOut() (trees map[string]string, lost []seen) {
	trees = map[string]string{}
	for _, name := range Submodules(v.project) {
		file := filepath.Join(v.project, name)
		says := pointer(file)
		source, err := filepath.EvalSymlinks(against(filepath.Dir(file), says))
		if says == "" || err != nil {
			continue
		}
		below, err := filepath.Rel(filepath.Join(v.own.source, "modules"), source)
		if err != nil || !filepath.IsLocal(below) || trees[source] != "" { // the first that leads there has its files
			continue
		}
		one := seen{source, path.Join(v.own.target, "modules", below), path.Join(v.top, path.Dir(name))}
		if trees[source] = one.tree; against(one.tree, says) != one.target {
			lost = append(lost, one)
		}
	}
	return trees, lost
}

// against is where a path leads that is relative to a folder, unless it is a whole one.
func against(folder, name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(folder, name)
}

// seen are the git directories of a project that are the host's own inside.
func (v view) seen() []seen {
	var direct, all []seen
	if v.hosts {
		direct = append(direct, v.own)
	} else {
		all = modulesOf(v.own)
	}
	if folder := GitFolder(v.project); folder != "" {
		direct = append(direct, seen{source: filepath.Join(v.project, folder), target: path.Join(v.top, folder)})
	}
	for _, name := range Submodules(v.project) {
		direct = append(direct, seen{source: filepath.Join(v.project, name), target: path.Join(v.top, name)})
	}
	for _, one := range direct {
		if isFolder(one.source) {
			all = append(append(all, one), modulesOf(one)...)
		}
	}
	return all
}

// modulesOf are the git directories of submodules that are kept in another one, at whatever depth.
func modulesOf(around seen) []seen {
	var all []seen
	folder := filepath.Join(around.source, "modules")
	_ = filepath.WalkDir(folder, func(at string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return nil //nolint:nilerr // what cannot be read here is not read inside either
		}
		if _, err := os.Lstat(filepath.Join(at, "HEAD")); err != nil {
			return nil //nolint:nilerr // a part of a name
		}
		rel, err := filepath.Rel(around.source, at)
		if err != nil {
			return err
		}
		one := seen{source: at, target: path.Join(around.target, rel)}
		all = append(append(all, one), modulesOf(one)...)
		return fs.SkipDir
	})
	return all
}

// isPlainConfig tells a configuration that says nothing but what may be read, in the way that git writes it.
func isPlainConfig(text string) bool {
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.ContainsAny(line, "#;\\") {
			return false
		}
		if rest, ok := strings.CutPrefix(line, "["); ok {
			name, ok := strings.CutSuffix(rest, "]")
			if !ok || strings.Contains(name, "]") {
				return false
			}
			of, _, named := strings.Cut(name, " ")
			if section = strings.ToLower(of) + "."; named {
				section += "x."
			}
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		key, value = section+strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
		if line != "" && (!isReadable(key) || withoutCredentials(key, value) != value) {
			return false
		}
	}
	return true
}

// masked is the text of what is shown of a configuration; of one that git cannot read nothing is.
func masked(ctx context.Context, dir seen, name string) string {
	out, err := git.Once(ctx, git.Command{GitDir: dir.source, Args: []string{"config", "--file", filepath.Join(dir.source, name), "--no-includes", "--list", "-z"}})
	if err != nil {
		return ""
	}
	var b strings.Builder
	for _, field := range git.Zeros(out) {
		key, value, _ := strings.Cut(field, "\n")
		if key == "core.worktree" && dir.tree != "" {
			value = dir.tree
		}
		if isReadable(key) {
			putSetting(&b, key, withoutCredentials(key, value))
		}
	}
	return b.String()
}
