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
)

// maxSettings is the largest configuration of a git directory that is shown, in bytes.
const maxSettings = 1 << 20

// seen is a git directory that is shown inside: where it lies here, and where it is there.
type seen struct{ source, target string }

// Masks lay what [configText] shows over the configuration of each git directory of the project that is the host's own
// inside. That is the one of a project whose git can only be read, and those of submodules. One that says no more than
// that is shown as it is. They come after the project, and folder is where they are written. d may be nil.
func (d *Dir) Masks(ctx context.Context, project, folder string) ([]nacre.Mount, error) {
	if project == "" {
		return nil, nil
	}
	var mounts []nacre.Mount
	for _, dir := range d.seen(project) {
		for _, name := range []string{"config", "config.worktree"} {
			file := filepath.Join(dir.source, name)
			if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() {
				continue // what a link leads to is not there, or is the project's
			}
			if text, err := disk.Read(file, maxSettings); err == nil && isPlainConfig(string(text)) {
				continue
			}
			mask := filepath.Join(folder, fmt.Sprintf("git-config-%d", len(mounts)))
			if err := disk.Write(mask, []byte(masked(ctx, dir.source, name)), 0o600); err != nil {
				return nil, err
			}
			mounts = append(mounts, nacre.Mount{Source: mask, Target: path.Join(dir.target, name)})
		}
	}
	return mounts, nil
}

// seen are the git directories of a project that are the host's own inside.
func (d *Dir) seen(project string) []seen {
	top := posture.Workspace
	if d != nil && d.below != "" {
		top += "/" + d.below
	}
	var direct, all []seen
	if d == nil {
		direct = append(direct, seen{filepath.Join(project, ".git"), top + "/.git"})
	} else {
		all = modulesOf(seen{d.place.CommonDir, d.inside()})
	}
	if folder := GitFolder(project); folder != "" {
		direct = append(direct, seen{filepath.Join(project, folder), path.Join(top, folder)})
	}
	for _, name := range Submodules(project) {
		direct = append(direct, seen{filepath.Join(project, name), path.Join(top, name)})
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
		one := seen{at, path.Join(around.target, rel)}
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
func masked(ctx context.Context, dir, name string) string {
	out, err := git.Once(ctx, git.Command{GitDir: dir, Args: []string{"config", "--file", filepath.Join(dir, name), "--no-includes", "--list", "-z"}})
	if err != nil {
		return ""
	}
	var b strings.Builder
	for _, field := range git.Zeros(out) {
		if key, value, _ := strings.Cut(field, "\n"); isReadable(key) {
			putSetting(&b, key, withoutCredentials(key, value))
		}
	}
	return b.String()
}
