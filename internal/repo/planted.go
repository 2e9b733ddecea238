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

	"golang.org/x/sys/unix"
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
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, 0, fmt.Errorf("look for what was planted: %w", err)
	}
	s := &searcher{root: root, start: start}
	if err = s.walk(".", 0); err == nil {
		err = s.follow(dir)
	}
	if closeErr := root.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		err = fmt.Errorf("look for what was planted: %w", err)
	}
	return s.found, s.more, err
}

// searcher walks a work tree after its agent is gone.
type searcher struct {
	root    *os.Root
	start   time.Time
	visited int
	found   []Planted
	more    int
	// compiled says that a folder of compiled code is noted, which stands for all.
	compiled bool
	// links are those of sensitive names, at most MaxListed.
	links []string
}

func (s *searcher) walk(name string, depth int) error {
	if depth > MaxDepth {
		return fmt.Errorf("directory %.80q is too deep: %w", name, ErrTooBig)
	}
	entries, err := s.entries(name)
	if err != nil {
		return err
	}
	switch {
	case name == "." || !looksBare(entries):
	case s.changed(name) || s.changed(path.Join(name, "config")):
		s.note(name, reasonNested)
	default:
		if err := s.gitDir(name, depth); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if err := s.visit(path.Join(name, e.Name()), e, depth); err != nil {
			return err
		}
	}
	return nil
}

func (s *searcher) entries(name string) ([]fs.DirEntry, error) {
	f, err := s.folderAt(name)
	if f == nil {
		return nil, err
	}
	entries, err := s.list(f)
	return entries, errors.Join(err, f.Close())
}

// folderAt opens a folder. It is nil where there is none that can be listed.
func (s *searcher) folderAt(name string) (*os.File, error) {
	f, err := s.root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
	switch {
	case errors.Is(err, fs.ErrPermission):
		s.noteChanged(name, reasonUnlisted)
		return nil, nil //nolint:nilnil // as the comment says
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil //nolint:nilnil // it has gone since
	}
	return f, err
}

func (s *searcher) list(f *os.File) ([]fs.DirEntry, error) {
	entries, err := f.ReadDir(MaxEntries)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if s.visited += len(entries); err == nil && s.visited >= MaxEntries {
		err = fmt.Errorf("more than %d files: %w", MaxEntries, ErrTooBig)
	}
	return entries, err
}

func (s *searcher) visit(name string, e fs.DirEntry, depth int) error {
	base := e.Name()
	switch {
	case name == ".git":
		return nil
	case base == ".git":
		s.noteChanged(name, reasonNested)
		if !e.IsDir() {
			return nil
		}
		return s.gitDir(name, depth)
	case e.IsDir():
		return s.folder(name, depth)
	}
	reason := reasonOf(name, e.Type())
	if e.Type()&fs.ModeSymlink != 0 {
		reason = s.link(name, reason)
	}
	if reason != "" {
		s.noteChanged(name, reason)
	}
	return nil
}

// folder names some folders as a whole, and looks into the others. One whose
// name is what makes its files sensitive may have got that name just now.
func (s *searcher) folder(name string, depth int) error {
	base := strings.ToLower(path.Base(name))
	reason := wholeDirs[base]
	if reason == "" && sensitiveDir(base) == "" && isHidden(base) {
		reason = reasonHidden
	}
	if reason != "" {
		return s.whole(name, reason)
	}
	before := len(s.found)
	if err := s.walk(name, depth+1); err != nil {
		return err
	}
	if reason := sensitiveDir(base); reason != "" && len(s.found) == before {
		s.noteChanged(name, reason)
	}
	return nil
}

// link gives the reason to look at a link, and keeps those that show what they
// lead to under a sensitive name.
func (s *searcher) link(name, reason string) string {
	target, err := s.root.Readlink(name)
	switch {
	case err != nil:
		return reason
	case leavesProject(name, target):
		return reasonLink
	case sensitiveName(name) != "" && len(s.links) < MaxListed:
		s.links = append(s.links, name)
	}
	return reason
}

// follow names what changed where links of sensitive names lead, and what git's
// configuration names.
func (s *searcher) follow(dir string) error {
	read := func(name string) (string, bool) {
		target, err := s.root.Readlink(name)
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
		info, err := s.root.Lstat(at)
		switch {
		case err != nil:
			continue // it leads nowhere
		case info.IsDir():
			err = s.whole(at, reason)
		case info.Mode()&fs.ModeSymlink == 0:
			s.noteChanged(at, reason)
		}
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
func (s *searcher) gitDir(name string, depth int) error {
	if depth > MaxDepth {
		return fmt.Errorf("directory %.80q is too deep: %w", name, ErrTooBig)
	}
	entries, err := s.entries(name)
	for _, e := range entries {
		child := path.Join(name, e.Name())
		if gitObeys[e.Name()] || path.Base(name) == "hooks" {
			s.noteChanged(child, reasonNested)
		}
		// A submodule may be called what it likes.
		skip := gitKeeps[e.Name()] && path.Base(name) != "modules"
		if e.IsDir() && err == nil && !skip {
			err = s.gitDir(child, depth+1)
		}
	}
	return err
}

// whole names a folder when anything in it changed.
func (s *searcher) whole(name, reason string) error {
	changed, err := s.changed(name), error(nil)
	if !changed {
		changed, err = s.anyChanged(name, 0)
	}
	switch {
	case !changed:
	case reason == reasonCompiled && s.compiled: // whoever tests leaves one in each folder
		s.more++
	default:
		s.compiled = s.compiled || reason == reasonCompiled
		s.note(name+"/", reason)
	}
	return err
}

// anyChanged looks at every file below a folder, of which there are many: each
// from the folder that it is in, and not from the project's.
func (s *searcher) anyChanged(name string, depth int) (bool, error) {
	if depth > MaxDepth {
		return false, fmt.Errorf("directory %.80q is too deep: %w", name, ErrTooBig)
	}
	f, err := s.folderAt(name)
	if f == nil {
		return s.changed(name), err
	}
	defer func() { _ = f.Close() }() // only read from
	entries, err := s.list(f)
	if err != nil {
		return false, err
	}
	in := int(f.Fd())
	for _, e := range entries {
		if s.changedIn(in, e.Name()) {
			return true, nil
		}
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if changed, err := s.anyChanged(path.Join(name, e.Name()), depth+1); changed || err != nil {
			return changed, err
		}
	}
	return false, nil
}

func (s *searcher) noteChanged(name, reason string) {
	if s.changed(name) {
		s.note(name, reason)
	}
}

func (s *searcher) note(name, reason string) {
	if len(s.found) == MaxListed {
		s.more++
		return
	}
	s.found = append(s.found, Planted{name, reason})
}

// changed compares the inode's own time, which the kernel alone sets.
func (s *searcher) changed(name string) bool {
	info, err := s.root.Lstat(name)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return !ok || !time.Unix(stat.Ctim.Unix()).Before(s.start)
}

// changedIn is changed for what is in an open folder.
func (s *searcher) changedIn(folder int, name string) bool {
	var stat unix.Stat_t
	if err := unix.Fstatat(folder, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return false // it has gone since
	}
	return !time.Unix(stat.Ctim.Unix()).Before(s.start)
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
