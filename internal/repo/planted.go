package repo

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Reasons that only a work tree has: git does not carry such files.
const (
	reasonNested  = "a git repository inside the project: git obeys its configuration"
	reasonSpecial = "a pipe, socket or device, which whatever reads the folder may open"
	reasonOption  = "its name begins with -: a shell's * hands it to a program as an option"
	reasonDeps    = "dependencies were installed or changed: their code runs when the project's does"
	// Python runs it in place of the text beside it, by that text's size and time.
	reasonCompiled = "compiled code, which runs in place of the text that it is of"
	// Whoever knows a name in it opens that, without listing the folder.
	reasonUnlisted = "a folder that cannot be listed: what is in it was not looked at"
)

// wholeDirs hold what package tools install and compilers write: named as a whole.
var wholeDirs = map[string]string{
	"node_modules": reasonDeps, ".venv": reasonDeps, "venv": reasonDeps, "vendor": reasonDeps, ".tox": reasonDeps, ".nox": reasonDeps,
	"bower_components": reasonDeps, "site-packages": reasonDeps, "__pycache__": reasonCompiled,
}

// gitObeys are the files of a git directory by which it runs or reads something
// else; its hooks count besides.
var gitObeys = map[string]bool{
	"config": true, "config.worktree": true, "commondir": true, "gitdir": true, "HEAD": true, "attributes": true, "alternates": true,
	"git-rebase-todo": true, "hooks": true, "modules": true, "worktrees": true,
}

// gitKeeps are the folders of a git directory that hold nothing but its objects and names.
var gitKeeps = map[string]bool{"refs": true, "logs": true, "lfs": true}

// Planted is a file that appeared or changed while an agent had the folder
// itself, and that makes a tool of the host run or trust something (M-13).
type Planted struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// Since lists what was planted below dir at or after a time, at most MaxListed;
// more counts the rest. It goes by the time of change, which no agent
// can set, and follows no link. The top's own .git is left out: it was
// read-only, or the caller names it. A tree too big to be looked at whole is
// an error that wraps ErrTooBig, beside what was found.
func Since(dir string, start time.Time) (found []Planted, more int, err error) {
	top, err := os.OpenRoot(dir)
	if err != nil {
		return nil, 0, fmt.Errorf("look for what was planted: %w", err)
	}
	s := &searcher{start: start}
	at := folder{".", top}
	if err = s.walk(at, 0); err == nil {
		err = errors.Join(s.follow(at, dir), s.deep)
	}
	if closeErr := top.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		err = fmt.Errorf("look for what was planted: %w", err)
	}
	return s.found, s.more, err
}

// folder is one that is open: what is in it is reached from it, and not from the
// top, which would take long in a deep tree.
type folder struct {
	name string
	*os.Root
}

// path is that of what is in the folder, from the top.
func (d folder) path(base string) string { return path.Join(d.name, base) }

// searcher walks a work tree after its agent is gone.
type searcher struct {
	start   time.Time
	visited int
	found   []Planted
	more    int
	// compiled says that some compiled code is noted, which stands for all.
	compiled bool
	// links are those of sensitive names, at most MaxListed.
	links []string
	// moved counts the folders around here that have another name or place than before.
	moved int
	// deep is the first folder that was too deep to be looked at.
	deep error
}

func (s *searcher) walk(d folder, depth int) error {
	entries, err := s.list(d)
	if err != nil {
		return err
	}
	if looksBare(entries) {
		if err := s.bare(d, entries, depth); err != nil {
			return err
		}
	}
	s.shadowed(d, entries)
	for _, e := range entries {
		if err := s.visit(d, e, depth); err != nil {
			return err
		}
	}
	return nil
}

// bare looks at a folder that git takes for a repository without a .git. The top is
// one, too, where its .git is none.
func (s *searcher) bare(d folder, entries []fs.DirEntry, depth int) error {
	name, made := d.name, d.name != "." && s.changed(d, ".")
	if name == "." {
		name = "HEAD"
	}
	for _, e := range entries {
		switch e.Name() {
		case "HEAD", "config", "commondir":
			made = made || s.changed(d, e.Name())
		case "objects", "refs":
			made = made || d.name == "." && s.changed(d, e.Name())
		}
	}
	if made {
		s.note(name, reasonNested)
		return nil
	}
	return s.gitDir(d, depth)
}

// shadowed names libraries beside Python's text, which imports them first.
func (s *searcher) shadowed(d folder, entries []fs.DirEntry) {
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.HasSuffix(e.Name(), ".py") }) {
		return
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".so") {
			s.noteChanged(d, e.Name(), reasonCompiled)
		}
	}
}

// into does something in a folder. It does not where there is none, where it
// cannot be listed, or where it is too deep, of which the first tells.
func (s *searcher) into(d folder, base string, depth int, do func(folder) error) error {
	if depth > MaxDepth {
		if s.deep == nil {
			s.deep = fmt.Errorf("directory %.80q is too deep: %w", d.path(base), ErrTooBig)
		}
		return nil
	}
	root, err := d.OpenRoot(base)
	switch {
	case errors.Is(err, fs.ErrPermission):
		s.noteChanged(d, base, reasonUnlisted)
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return nil // it has gone since
	case err != nil:
		return err
	}
	return errors.Join(do(folder{d.path(base), root}), root.Close())
}

func (s *searcher) list(d folder) ([]fs.DirEntry, error) {
	f, err := d.OpenFile(".", os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	entries, err := f.ReadDir(MaxEntries)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if s.visited += len(entries); err == nil && s.visited >= MaxEntries {
		err = fmt.Errorf("more than %d files: %w", MaxEntries, ErrTooBig)
	}
	return entries, errors.Join(err, f.Close())
}

func (s *searcher) visit(d folder, e fs.DirEntry, depth int) error {
	base := e.Name()
	switch name := d.path(base); {
	case name == ".git":
		return nil
	case base == ".git":
		s.noteChanged(d, base, reasonNested)
		if !e.IsDir() {
			return nil
		}
		return s.into(d, base, depth+1, func(git folder) error { return s.gitDir(git, depth+1) })
	case e.IsDir():
		return s.folder(d, base, depth)
	case e.Type()&fs.ModeSymlink != 0:
		s.link(d, base)
	default:
		if reason := reasonOf(name, e.Type()); reason != "" {
			s.noteChanged(d, base, reason)
		}
	}
	return nil
}

// folder names some folders as a whole, and looks into the others. One whose
// name is what makes its files sensitive may have got that name just now.
func (s *searcher) folder(d folder, base string, depth int) error {
	if s.isMoved(d, base) {
		s.moved++
		defer func() { s.moved-- }()
	}
	plain := folded(base)
	reason := wholeDirs[plain]
	if reason == "" && sensitiveDir(plain) == "" && isHidden(plain) {
		reason = reasonHidden
	}
	if reason != "" {
		return s.whole(d, base, reason)
	}
	if reason := oddName(plain); reason != "" {
		s.noteChanged(d, base, reason)
	}
	before := len(s.found)
	if err := s.into(d, base, depth+1, func(in folder) error { return s.walk(in, depth+1) }); err != nil {
		return err
	}
	if reason := sensitiveDir(plain); reason != "" && len(s.found) == before {
		s.noteChanged(d, base, reason)
	}
	return nil
}

// link names a link where that is one to look at, and keeps those that show what
// they lead to under a sensitive name.
func (s *searcher) link(d folder, base string) {
	name := d.path(base)
	reason := sensitiveName(name)
	target, err := d.Readlink(base)
	switch {
	case err != nil:
	case leavesProject(name, target):
		reason = reasonLink
	case reason == "":
		reason = wholeDirs[folded(base)]
	case len(s.links) < MaxListed:
		s.links = append(s.links, name)
	}
	if reason != "" {
		s.noteChanged(d, base, reason)
	}
}

// follow names what changed where links of sensitive names lead, and what git's
// configuration names.
func (s *searcher) follow(top folder, dir string) error {
	read := func(name string) (string, bool) {
		target, err := top.Readlink(name)
		return target, err == nil
	}
	shown := shownAs(slices.Values(s.links), read)
	if p, err := discover(dir); err == nil {
		for _, name := range p.obeyed() {
			if rel, err := filepath.Rel(dir, filepath.Join(p.top, name)); err == nil && filepath.IsLocal(rel) {
				shown[filepath.ToSlash(rel)] = reasonConfigured
			}
		}
	}
	for at, reason := range shown {
		info, err := top.Lstat(at)
		if err != nil {
			continue // it leads nowhere
		}
		err = s.into(top, path.Dir(at), 0, func(in folder) error {
			switch base := path.Base(at); {
			case info.IsDir():
				return s.whole(in, base, reason)
			case info.Mode()&fs.ModeSymlink == 0:
				s.noteChanged(in, base, reason)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// reasonOf says why a file matters by its name and kind alone.
func reasonOf(name string, kind fs.FileMode) string {
	if reason := sensitiveName(name); reason != "" {
		return reason
	}
	if kind&(fs.ModeNamedPipe|fs.ModeSocket|fs.ModeDevice|fs.ModeCharDevice|fs.ModeIrregular) != 0 {
		return reasonSpecial
	}
	return ""
}

// gitDir looks at what git obeys in a nested repository, and in those of its
// submodules and worktrees.
func (s *searcher) gitDir(d folder, depth int) error {
	entries, err := s.list(d)
	in := path.Base(d.name)
	for _, e := range entries {
		if gitObeys[e.Name()] || in == "hooks" {
			s.noteChanged(d, e.Name(), reasonNested)
		}
		// A submodule may be called what it likes.
		skip := gitKeeps[e.Name()] && in != "modules"
		if e.IsDir() && err == nil && !skip {
			err = s.into(d, e.Name(), depth+1, func(sub folder) error { return s.gitDir(sub, depth+1) })
		}
	}
	return err
}

// whole names a folder when anything in it changed.
func (s *searcher) whole(d folder, base, reason string) error {
	changed, err := s.changed(d, base), error(nil)
	if !changed {
		changed, err = s.anyChanged(d, base, 0)
	}
	if changed {
		s.note(d.path(base)+"/", reason)
	}
	return err
}

// anyChanged looks at every file below a folder, of which there are many.
func (s *searcher) anyChanged(d folder, base string, depth int) (changed bool, err error) {
	err = s.into(d, base, depth, func(in folder) error {
		entries, err := s.list(in)
		changed = slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return s.changed(in, e.Name()) })
		for _, e := range entries {
			if changed || err != nil {
				break
			}
			if e.IsDir() {
				changed, err = s.anyChanged(in, e.Name(), depth+1)
			}
		}
		return err
	})
	return changed, err
}

func (s *searcher) noteChanged(d folder, base, reason string) {
	if s.changed(d, base) {
		s.note(d.path(base), reason)
	}
}

// note keeps a finding. Of compiled code it is the first: whoever tests leaves
// some in each folder.
func (s *searcher) note(name, reason string) {
	if len(s.found) == MaxListed || reason == reasonCompiled && s.compiled {
		s.more++
		return
	}
	s.compiled = s.compiled || reason == reasonCompiled
	s.found = append(s.found, Planted{name, reason})
}

// changed compares the inode's own time, which the kernel alone sets. What is in
// a folder that was moved is new where it is, and what cannot be looked at may be.
func (s *searcher) changed(d folder, base string) bool {
	info, err := d.Lstat(base)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return s.moved > 0 || s.touched(info)
}

// isMoved tells a folder that got its name or place since: that alone is told by
// its own time, and not by that of what is in it. Whoever gives a name changes the
// folder that the name is in, too; who changes a mode alone does not.
func (s *searcher) isMoved(d folder, base string) bool {
	info, err := d.Lstat(base)
	if err != nil || !info.ModTime().Before(s.start) || !s.touched(info) {
		return false
	}
	in, err := d.Lstat(".")
	return err != nil || s.touched(in)
}

func (s *searcher) touched(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return !ok || !time.Unix(stat.Ctim.Unix()).Before(s.start)
}

// looksBare reports whether git takes the folder for a repository without a .git.
func looksBare(entries []fs.DirEntry) bool {
	seen := 0
	for _, e := range entries {
		switch e.Name() {
		case "HEAD", "objects", "refs":
			seen++
		case "commondir":
			seen += 3
		}
	}
	return seen >= 3
}
