package search

import (
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/planted"
	"github.com/nacre-dev/nacre/internal/tree"
)

const (
	accessList  = "system.posix_acl_access"
	defaultList = "system.posix_acl_default"
)

// Top says what stands at the top of a folder that an agent is about to have.
func Top(dir string) planted.Top {
	var before planted.Top
	var s unix.Stat_t
	if unix.Lstat(filepath.Join(dir, ".git"), &s) == nil {
		before.Git = true
	}
	if unix.Lstat(dir, &s) == nil {
		before.Open = s.Mode&0o002 != 0
	}
	before.Throughout = before.Open && openThroughout(dir)
	before.Listed = has(dir, accessList) || has(dir, defaultList)
	before.Undumped = isUndumped(dir)
	return before
}

// openThroughout reports whether every user may write to each of the files and folders
// that lie in a folder. Where there are none, or they cannot be known, it is not so.
func openThroughout(dir string) bool {
	list, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	seen := 0
	for _, e := range list {
		info, err := e.Info()
		if err != nil || info.Mode().Type()&^fs.ModeDir == 0 && info.Mode().Perm()&0o002 == 0 {
			return false
		}
		if info.Mode().Type()&^fs.ModeDir == 0 {
			seen++
		}
	}
	return seen > 0
}

// rights names what others than its owner may write since, and what backups leave out. What was so
// of the top before is no news of the top. What lies in it is named all the same, for the owner may
// have closed the top by then, or close it when it is named.
func (s *searcher) rights(name string, e tree.Entry) {
	full, before := filepath.Join(s.dir, filepath.FromSlash(name)), s.options.Before
	if !before.Undumped && (e.Mode.IsDir()) && isUndumped(full) {
		s.note(name, planted.Class{Kind: planted.Open, Program: "backups leave it out (nodump)"})
	}
	switch {
	case e.Mode.Perm()&0o002 != 0 && e.Mode&fs.ModeSticky == 0:
		if known := before.Throughout || before.Open && name == "."; !known {
			s.mu.Lock()
			s.open = append(s.open, name)
			s.mu.Unlock()
		}
	case before.Listed:
	case e.Mode.IsDir() && has(full, defaultList), e.Mode.Perm()&0o020 != 0 && has(full, accessList):
		s.note(name, planted.Class{Kind: planted.Open, Program: "an access list lets others write to it"})
	}
}

// closeOpen takes back what every user may do since, if it was told to, and names it.
func closeOpen(s *searcher) {
	for _, name := range s.open {
		class := planted.Class{Kind: planted.Open, Program: "every user of this machine may write to it"}
		if s.options.Close && closeToOthers(s.top, filepath.FromSlash(name)) == nil {
			class.Program = "every user of this machine could write to it; that right is taken back"
		}
		s.keep(name, class)
	}
}

// closeToOthers takes the right to write from every user. A link is not followed.
func closeToOthers(top *os.Root, name string) error {
	info, err := top.Lstat(name)
	if err != nil {
		return err
	}
	if info.Mode().Type()&^fs.ModeDir != 0 {
		return fs.ErrInvalid
	}
	return top.Chmod(name, info.Mode()&^0o002)
}

// has reports whether a file has an access list. Where that cannot be known there is none.
func has(name, list string) bool {
	size, err := unix.Lgetxattr(name, list, nil)
	return err == nil && size > 0
}
