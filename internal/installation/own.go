package installation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
)

const (
	// maxOwn is how many files of the config folder are looked at.
	maxOwn = 1000
	// maxLinksFollowed ends a ring of links.
	maxLinksFollowed = 40
)

// own is a path that no agent may write: what nacre obeys or runs.
type own struct {
	path, what string
	// link says that it is a symbolic link on the way to such a path.
	link bool
}

// OwnBelow are the paths below a project that an agent may never write: nacre's
// configuration, its plugins and its programs, whatever links, mounts or other names
// lead there. The error says that the project is such a place itself, or holds what
// cannot be kept from an agent by showing it read-only.
func OwnBelow(inst *Installation, project string) ([]string, error) {
	if project == "" {
		return nil, nil
	}
	table := mountTable()
	at := table.at(project)
	var below []string
	for _, o := range ownPaths(inst, project) {
		rel, part := at.holds(table.placeOf(o.path))
		switch {
		case part && (o.what == stateOwn || o.what == programsOwn && rel != "."):
		case part:
			return nil, fmt.Errorf("project %s is, or is part of, %s, which holds %s: an agent may not write there; work on a copy elsewhere", project, o.path, o.what)
		case rel == "", o.path == filepath.Dir(inst.Options.Executable): // of that folder, what nacre starts
		case o.what == stateOwn:
			return nil, fmt.Errorf("project %s holds nacre's own state (%s): refused", project, rel)
		case o.link:
			return nil, fmt.Errorf("project %s holds %s, a link by which nacre finds %s: an agent could replace it; work on a copy elsewhere", project, rel, o.what)
		default:
			below = append(below, rel)
		}
	}
	linked, err := otherNames(inst, project)
	if err != nil {
		return nil, err
	}
	below = append(below, linked...)
	slices.Sort(below)
	return slices.Compact(below), nil
}

// Tops are the first components of paths. Where all of one is read-only, nothing
// above what it holds can be moved away.
func Tops(paths []string) []string {
	var tops []string
	for _, name := range paths {
		top, _, _ := strings.Cut(name, "/")
		tops = append(tops, top)
	}
	slices.Sort(tops)
	return slices.Compact(tops)
}

const (
	configOwn   = "nacre's configuration"
	pluginsOwn  = "nacre's plugins"
	programsOwn = "nacre's programs"
	stateOwn    = "nacre's own state"
)

// programNames are what nacre starts of what lies beside it.
func programNames() []string {
	return []string{"nacre", "nacre-hook", "nacre-web", "nacre-probe", "ipc", "ipc-mcp", "brain", "sandbox-init", "plugins"}
}

// ownPaths are nacre's own, with the links that lead there. The folders are made
// where they would be below the project: what is missing could be made by an agent.
func ownPaths(inst *Installation, project string) []own {
	paths := inst.Registry.Paths()
	var all []own
	add := func(path, what string) {
		links, final := followed(path)
		for _, link := range links {
			all = append(all, own{link, what, true})
		}
		if strings.HasPrefix(final, project+"/") && (path == paths.Config || path == paths.Data) {
			_ = os.MkdirAll(final, 0o700) // the mount of what is not there fails
		}
		all = append(all, own{final, what, false})
	}
	add(paths.Config, configOwn)
	add(paths.Data, pluginsOwn)
	add(paths.State, stateOwn)
	for _, file := range filesBelow(paths.Config) {
		if info, err := os.Lstat(file); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			add(file, configOwn)
		}
	}
	folder := filepath.Dir(inst.Options.Executable)
	add(folder, programsOwn)
	add(inst.Options.Executable, programsOwn)
	for _, name := range programNames() {
		what := programsOwn // be they there or not: what is missing could be made by an agent
		if name == "plugins" {
			what = pluginsOwn
		}
		add(filepath.Join(folder, name), what)
	}
	_, folderOfConfig := followed(paths.Config)
	return slices.DeleteFunc(all, func(o own) bool { // inside, a link of the config folder's own is held with it
		return o.link && strings.HasPrefix(o.path, folderOfConfig+"/")
	})
}

// filesBelow are the files of a folder and of those in it.
func filesBelow(dir string) []string {
	_, dir = followed(dir) // people keep it elsewhere, and a walk enters no link
	var files []string
	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error { // what cannot be read obeys nobody
		if err != nil || len(files) > maxOwn {
			return fs.SkipDir
		}
		files = append(files, path)
		return nil
	})
	return files
}

// followed gives the links on the way of a path, each without links above it, and
// where they lead. What is not there leads to itself.
func followed(path string) (links []string, final string) {
	parts := strings.Split(filepath.Clean(path), "/")
	at := "/"
	for hops := 0; len(parts) > 0; {
		part := parts[0]
		parts = parts[1:]
		if part == "" || part == "." {
			continue
		}
		next := filepath.Join(at, part) // at has no links, so .. is what is above it
		target, err := os.Readlink(next)
		if err != nil || hops == maxLinksFollowed {
			at = next
			continue
		}
		hops++
		links = append(links, next)
		if filepath.IsAbs(target) {
			at = "/"
		}
		parts = append(strings.Split(target, "/"), parts...)
	}
	return links, at
}

// otherNames are further names of nacre's own files below a project: hard links.
// The project is walked only where such a file has more names than one.
func otherNames(inst *Installation, project string) ([]string, error) {
	wanted := map[[2]uint64]bool{}
	folder := filepath.Dir(inst.Options.Executable)
	files := append(filesBelow(inst.Registry.Paths().Config), inst.Options.Executable)
	for _, name := range programNames() {
		files = append(files, filepath.Join(folder, name))
	}
	for _, file := range files {
		if id, links := identity(file); links > 1 {
			wanted[id] = true
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	var found []string
	err := filepath.WalkDir(project, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil //nolint:nilerr // what we cannot read an agent of ours cannot either
		}
		if id, links := identity(path); links > 1 && wanted[id] {
			rel, err := filepath.Rel(project, path)
			found = append(found, rel)
			return err
		}
		return nil
	})
	return found, err
}

// identity is a regular file's device and inode, and how many names it has.
func identity(path string) (id [2]uint64, links uint64) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return id, 0
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return id, 0
	}
	return [2]uint64{uint64(stat.Dev), stat.Ino}, uint64(stat.Nlink) //nolint:unconvert // other systems have smaller ones
}

// fsPlace is a path as its file system knows it, whatever it is mounted at.
type fsPlace struct{ device, path string }

// mount is one line of the mount table.
type mount struct {
	fsPlace
	point string
}

type mounts []mount

// mountTable is what is mounted here. Without one, paths are compared as they are.
func mountTable() mounts {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var table mounts
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			table = append(table, mount{fsPlace{fields[2], unescaped(fields[3])}, unescaped(fields[4])})
		}
	}
	return table
}

// unescaped reads the octal escapes of a mount table.
func unescaped(text string) string {
	var plain strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if c, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				plain.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		plain.WriteByte(text[i])
	}
	return plain.String()
}

// placeOf is where a path without links is: on the mount with the longest point, of
// equal ones the last.
func (t mounts) placeOf(path string) fsPlace {
	best := mount{fsPlace{"", "/"}, "/"}
	for _, m := range t {
		if isIn(m.point, path) && len(m.point) >= len(best.point) {
			best = m
		}
	}
	return fsPlace{best.device, filepath.Join(best.path, strings.TrimPrefix(path, best.point))}
}

// shownAt is a place and where it is below a project.
type shownAt struct {
	fsPlace
	rel string
}

// shown are the places that a project shows: its own, and what is mounted below it.
type shown []shownAt

func (t mounts) at(project string) shown {
	list := shown{{t.placeOf(project), "."}}
	for _, m := range t {
		if m.point != project && isIn(project, m.point) {
			list = append(list, shownAt{m.fsPlace, strings.TrimPrefix(m.point, project+"/")})
		}
	}
	return list
}

// holds gives the path of a place below the project, or "". part says that the
// project is that place or lies in it; of the place itself, rel is ".".
func (s shown) holds(p fsPlace) (rel string, part bool) {
	for _, at := range s {
		switch {
		case at.device != p.device:
		case at.path == p.path && at.rel != ".":
			return at.rel, false
		case at.path == p.path:
			return ".", true
		case isIn(at.path, p.path):
			return filepath.Join(at.rel, strings.TrimPrefix(strings.TrimPrefix(p.path, at.path), "/")), false
		case isIn(p.path, at.path):
			return at.rel + "/", true
		}
	}
	return "", false
}

// isIn reports whether path is dir or below it.
func isIn(dir, path string) bool {
	return dir == path || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// Writable says in words where mounts let a sandbox write: their places inside, and what
// another file system is mounted at below their folders, which is shown with them.
func Writable(all []nacre.Mount) []string {
	var places []string
	table := mountTable()
	for _, m := range all {
		if m.Kind != nacre.BindReadWrite {
			continue
		}
		here := writable(m.Source, m.Target)
		for _, at := range table.at(m.Source)[1:] {
			here = append(here, writable(filepath.Join(m.Source, at.rel), m.Target+"/"+at.rel+" (another file system)")...)
		}
		slices.Sort(here)
		places = append(places, slices.Compact(here)...)
	}
	return places
}

// writable is how a place is called that may be written to, nothing where it lies on a file system that
// nobody can write to. What the user alone may not write to may hold files that they may.
func writable(path, called string) []string {
	switch err := unix.Access(path, unix.W_OK); {
	case errors.Is(err, unix.EROFS):
		return nil
	case errors.Is(err, unix.EACCES):
		return []string{called + " (as far as file modes allow: not the folder itself)"}
	default:
		return []string{called}
	}
}
