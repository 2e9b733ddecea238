package repo

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"
)

// Reasons that only a work tree has: git does not carry such files.
const (
	reasonNested  = "a git repository inside the project: git obeys its configuration"
	reasonSpecial = "a pipe, socket or device, which whatever reads the folder may open"
	reasonOption  = "its name begins with -: a shell's * hands it to a program as an option"
	reasonDeps    = "dependencies were installed or changed: their code runs when the project's does"
)

// dependencyDirs hold what package tools install: named as a whole.
var dependencyDirs = map[string]bool{
	"node_modules": true, ".venv": true, "venv": true, "vendor": true, ".tox": true, "bower_components": true,
}

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
	err = s.walk(".", 0)
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
}

func (s *searcher) walk(name string, depth int) error {
	if depth > MaxDepth {
		return fmt.Errorf("directory %.80q is too deep: %w", name, ErrTooBig)
	}
	entries, err := s.entries(name)
	if err != nil {
		return err
	}
	if name != "." && looksBare(entries) && (s.changed(name) || s.changed(path.Join(name, "config"))) {
		s.note(name, reasonNested)
	}
	for _, e := range entries {
		if err := s.visit(path.Join(name, e.Name()), e, depth); err != nil {
			return err
		}
	}
	return nil
}

func (s *searcher) entries(name string) ([]fs.DirEntry, error) {
	f, err := s.root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the host's tools do not get in either, or it has gone since
	}
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

func (s *searcher) visit(name string, e fs.DirEntry, depth int) error {
	base := e.Name()
	switch {
	case name == ".git":
		return nil
	case base == ".git":
		s.noteChanged(name, reasonNested)
		return s.gitDir(name, e)
	case e.IsDir() && dependencyDirs[base]:
		return s.dependencies(name)
	case e.IsDir():
		return s.walk(name, depth+1)
	}
	reason := reasonOf(name, e.Type())
	if reason == "" && e.Type()&fs.ModeSymlink != 0 {
		target, err := s.root.Readlink(name)
		if err == nil && leavesProject(name, target) {
			reason = reasonLink
		}
	}
	if reason != "" {
		s.noteChanged(name, reason)
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

// gitDir looks at what git obeys in a nested repository.
func (s *searcher) gitDir(name string, e fs.DirEntry) error {
	if !e.IsDir() {
		return nil
	}
	for _, file := range []string{"config", "config.worktree", "commondir", "HEAD", "hooks", "info/attributes", "modules"} {
		s.noteChanged(path.Join(name, file), reasonNested)
	}
	hooks, err := s.entries(path.Join(name, "hooks"))
	if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) {
		return nil // noted above
	}
	for _, h := range hooks {
		s.noteChanged(path.Join(name, "hooks", h.Name()), reasonNested)
	}
	return err
}

// dependencies names the folder when anything at its top or one level below changed.
func (s *searcher) dependencies(name string) error {
	if s.changed(name) {
		s.note(name+"/", reasonDeps)
		return nil
	}
	entries, err := s.entries(name)
	for _, e := range entries {
		if s.changed(path.Join(name, e.Name())) {
			s.note(name+"/", reasonDeps)
			break
		}
	}
	return err
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
