package main

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// place is a name in a folder that was reached without following a link, so
// that a name which was checked is the place that is meant.
type place struct {
	dir  *os.Root
	base string
}

func (p place) close() error { return p.dir.Close() }

// locate finds the folder that holds name; with create, folders that are
// missing are made.
func locate(root *os.Root, name string, create bool) (place, error) {
	dir, err := descend(root, path.Dir(name), create)
	return place{dir, path.Base(name)}, err
}

// descend opens a folder one component at a time. What is opened is what was
// looked at: a link that is put in between is noticed.
func descend(root *os.Root, name string, create bool) (*os.Root, error) {
	dir, err := root.OpenRoot(".")
	if err != nil || name == "." {
		return dir, err
	}
	for _, part := range strings.Split(name, "/") {
		next, err := step(dir, part, create)
		if err = errors.Join(err, dir.Close()); err != nil {
			return nil, errors.Join(err, closed(next))
		}
		dir = next
	}
	return dir, nil
}

func closed(r *os.Root) error {
	if r == nil {
		return nil
	}
	return r.Close()
}

func step(dir *os.Root, part string, create bool) (*os.Root, error) {
	seen, err := dir.Lstat(part)
	if errors.Is(err, fs.ErrNotExist) && create {
		if err := dir.Mkdir(part, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		seen, err = dir.Lstat(part)
	}
	if err != nil {
		return nil, err
	}
	if err := checkKind(seen, part); err != nil {
		return nil, err
	}
	if !seen.IsDir() {
		return nil, refuse("NOT_A_FOLDER", "%s is a file, not a folder", part)
	}
	next, err := dir.OpenRoot(part)
	if err != nil {
		return nil, notOpened(err)
	}
	if opened, err := next.Stat("."); err != nil || !os.SameFile(seen, opened) {
		return nil, errors.Join(errMoved(), err, next.Close())
	}
	return next, nil
}

// notOpened is why something could not be opened that was there: it may not be,
// or something else was put in its place, such as a link that leads out.
func notOpened(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return err
	}
	return errMoved()
}

func errMoved() error {
	e := refuse("CHANGED", "The project changed meanwhile: try again")
	e.Retriable = true
	return e
}

// checkKind refuses what is neither a file nor a folder.
func checkKind(info fs.FileInfo, name string) error {
	switch kind := info.Mode().Type(); {
	case kind&fs.ModeSymlink != 0:
		return refuse("LINK", "%s is a symbolic link: links are not followed, so name what it leads to", name)
	case kind == 0 || kind == fs.ModeDir:
		return nil
	}
	return refuse("SPECIAL", "%s is a pipe, socket or device, not a file", name)
}

// look is what stands at a place, which is not a link.
func (p place) look() (fs.FileInfo, error) {
	info, err := p.dir.Lstat(p.base)
	if err != nil {
		return nil, err
	}
	return info, checkKind(info, p.base)
}

// open opens a file for reading; it never waits for a pipe.
func (p place) open() (*os.File, fs.FileInfo, error) {
	seen, err := p.look()
	if err != nil {
		return nil, nil, err
	}
	if seen.IsDir() {
		return nil, nil, refuse("FOLDER", "%s is a folder: files_list shows what is in it", p.base)
	}
	f, err := p.dir.OpenFile(p.base, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, notOpened(err)
	}
	opened, err := f.Stat()
	if err != nil || !opened.Mode().IsRegular() || !os.SameFile(seen, opened) {
		return nil, nil, errors.Join(errMoved(), err, f.Close())
	}
	return f, opened, nil
}

// openAt opens the file at a path.
func openAt(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	at, err := locate(root, name, false)
	if err != nil {
		return nil, nil, err
	}
	f, info, err := at.open()
	return f, info, errors.Join(err, at.close())
}
