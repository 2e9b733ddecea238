package sandbox

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/nacre-dev/nacre"
)

// maxLiveSockets that are hidden below one bind.
const maxLiveSockets = 64

// HideSockets adds to a posture's mounts what hides the sockets below its binds that something on
// the host has open. Through one an agent would speak to the host, whatever its network (M-12). A
// socket that the host makes later, and one that was named relative to another folder than the
// bind's own, are not seen.
func HideSockets(mounts []nacre.Mount) ([]nacre.Mount, error) {
	var live []string
	all, known := mounts, folders{}
	for _, m := range mounts {
		if m.Kind != nacre.BindReadOnly && m.Kind != nacre.BindReadWrite && m.Kind != nacre.Overlay {
			continue
		}
		if live == nil {
			var err error
			if live, err = liveSockets(known); err != nil {
				return nil, err
			}
		}
		below := socketsBelow(known.resolve(m.Source), live)
		if len(below) > maxLiveSockets {
			return nil, fmt.Errorf("mount %s at %s: more than %d open sockets are below it: bind what is needed without them", m.Source, m.Target, maxLiveSockets)
		}
		for _, rel := range below {
			all = append(all[:len(all):len(all)], nacre.Mount{Kind: nacre.Mask, Target: path.Join(m.Target, rel)})
		}
	}
	return all, nil
}

// folders remembers folders without links, for as long as one question takes.
type folders map[string]string

// folder is a folder without links, "" where there is none.
func (f folders) folder(dir string) string {
	resolved, known := f[dir]
	if !known {
		resolved = f.resolve(dir)
		f[dir] = resolved
	}
	return resolved
}

// resolve is a path without links, "" where there is nothing. It looks at each folder on the way once.
func (f folders) resolve(name string) string {
	if name != path.Clean(name) || !path.IsAbs(name) || name == "/" { // ".." after a link is not what it looks like
		return followed(name)
	}
	dir := f.folder(path.Dir(name))
	if dir == "" {
		return ""
	}
	whole := path.Join(dir, path.Base(name))
	info, err := os.Lstat(whole)
	switch {
	case err != nil:
		return ""
	case info.Mode()&os.ModeSymlink != 0:
		return followed(whole)
	}
	return whole
}

// followed is where a path leads, "" where that is nowhere.
func followed(name string) string {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return ""
	}
	return real
}

// named is the path without links of what may be there or not; "" where nothing is named.
func (f folders) named(name string) string {
	if name == "" {
		return ""
	}
	return cmp.Or(f.resolve(name), path.Clean(name))
}

// socketsBelow are those below a folder without links, relative to it.
func socketsBelow(resolved string, live []string) []string {
	if resolved == "" {
		return nil // whoever opens it says so
	}
	var below []string
	for _, name := range live {
		if !path.IsAbs(name) { // perhaps of a process that runs there
			folder, err := filepath.EvalSymlinks(filepath.Join(resolved, path.Dir(name)))
			if err != nil {
				continue
			}
			name = path.Join(folder, path.Base(name))
		}
		rel, within := strings.CutPrefix(name, resolved+"/")
		if !within || !filepath.IsLocal(rel) {
			continue
		}
		if info, err := os.Lstat(filepath.Join(resolved, rel)); err == nil && info.Mode().Type() == os.ModeSocket {
			below = append(below, rel)
		}
	}
	return below
}
