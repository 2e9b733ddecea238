// Package snapshot promises that files get into a pod as they were, and that what comes back is
// taken as data. That is files, folders and links below the folder that they were taken from,
// bounded in number and size. All of it is received before any of it is put in place.
package snapshot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/nacre-dev/nacre/internal/sandbox/inside"
)

// The bounds of what is taken in, either way.
const (
	maxItems = 1 << 20
	maxPath  = 4096 // bytes
	// maxSent is how much one snapshot may hold, in bytes.
	maxSent = 16 << 30
)

// kind of an item.
type kind string

const (
	folder kind = "folder"
	file   kind = "file"
	link   kind = "link"
	same   kind = "same" // what was sent, and was not touched
	end    kind = "end"
)

// item is one path of the entry that it is counted to. The bytes of a file follow it.
type item struct {
	Kind  kind   `json:"kind"`
	Entry int    `json:"entry"`
	Path  []byte `json:"path,omitempty"` // relative to the entry; empty for itself
	Mode  uint32 `json:"mode,omitempty"`
	Size  int64  `json:"size,omitempty"`
	Text  []byte `json:"text,omitempty"` // of a link
}

// Sent is what a snapshot held, for what comes back.
type Sent struct {
	entries []inside.PodEntry
	paths   []map[string]bool // of each entry
	size    int64
}

// Send writes what the entries show. A file that changes meanwhile is an error.
func Send(w io.Writer, entries []inside.PodEntry) (*Sent, error) {
	s := &Sent{entries: entries, paths: make([]map[string]bool, len(entries))}
	for i, e := range entries {
		s.paths[i] = map[string]bool{}
		if err := s.send(w, i); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Target, err)
		}
	}
	return s, inside.Send(w, item{Kind: end})
}

func (s *Sent) send(w io.Writer, i int) error {
	switch e := s.entries[i]; e.Kind {
	case inside.PodFolder:
		return inside.Send(w, item{Kind: folder, Entry: i, Mode: 0o755})
	case inside.PodLink:
		return inside.Send(w, item{Kind: link, Entry: i, Text: []byte(e.Source)})
	case inside.PodHidden:
		return s.sendHidden(w, i)
	case inside.PodCopy:
		if e.Dir {
			return s.sendFolder(w, i)
		}
		return s.sendFile(w, i)
	default:
		return fmt.Errorf("kind %q is unknown", e.Kind)
	}
}

// sendHidden puts something empty in the place of what is hidden, if there is anything.
func (s *Sent) sendHidden(w io.Writer, i int) error {
	for above := i - 1; above >= 0; above-- {
		e := s.entries[above]
		rel, below := relative(e.Target, s.entries[i].Target)
		if e.Kind != inside.PodCopy || !e.Dir || !below {
			continue
		}
		info, err := os.Lstat(filepath.Join(e.Source, rel))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if info.IsDir() {
			return inside.Send(w, item{Kind: folder, Entry: i, Mode: 0o555})
		}
		return inside.Send(w, item{Kind: file, Entry: i, Mode: 0o444})
	}
	return nil
}

// covered reports whether a later entry stands at a path of this one, or above it.
func (s *Sent) covered(i int, rel string) bool {
	target := path.Join(s.entries[i].Target, rel)
	for _, later := range s.entries[i+1:] {
		if _, below := relative(later.Target, target); below || later.Target == target {
			return true
		}
	}
	return false
}

// relative is the way from one path to what is below it.
func relative(above, below string) (string, bool) {
	rest, ok := strings.CutPrefix(below, above+"/")
	return rest, ok
}

// openFolder opens what was checked, or nothing.
func openFolder(e inside.PodEntry) (*os.Root, error) {
	root, err := os.OpenRoot(e.Source)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(".")
	if err == nil {
		err = isEntry(e, info)
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

func isEntry(e inside.PodEntry, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || uint64(st.Dev) != e.Dev || st.Ino != e.Ino {
		return fmt.Errorf("%s is not what was checked: refused", e.Source)
	}
	return nil
}

func (s *Sent) sendFolder(w io.Writer, i int) error {
	root, err := openFolder(s.entries[i])
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // only read
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name != "." && s.covered(i, name) {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if name == "." {
			name = ""
		}
		return s.sendEntry(w, root, i, name, entry)
	})
}

func (s *Sent) sendEntry(w io.Writer, root *os.Root, i int, name string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	it := item{Entry: i, Path: []byte(name), Mode: uint32(info.Mode().Perm())}
	switch {
	case info.IsDir():
		it.Kind = folder
	case info.Mode().IsRegular():
		if err := s.sendRegular(w, root, it); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return s.note(i, name)
	case info.Mode()&fs.ModeSymlink != 0:
		text, err := root.Readlink(name)
		if err != nil {
			return err
		}
		it.Kind, it.Text = link, []byte(text)
	default:
		return nil // sockets, pipes and devices stay where they are
	}
	if err := inside.Send(w, it); err != nil {
		return err
	}
	return s.note(i, name)
}

// note keeps that a path was sent.
func (s *Sent) note(i int, name string) error {
	s.paths[i][name] = true
	if n := len(s.paths[i]); n > maxItems {
		return fmt.Errorf("more than %d files and folders: a pod gets no more", maxItems)
	}
	return nil
}

func (s *Sent) sendRegular(w io.Writer, root *os.Root, it item) error {
	f, err := root.OpenFile(string(it.Path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	return s.sendBytes(w, f, it)
}

func (s *Sent) sendFile(w io.Writer, i int) error {
	e := s.entries[i]
	f, err := os.OpenFile(e.Source, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := isEntry(e, info); err != nil {
		return err
	}
	if err := s.sendBytes(w, f, item{Entry: i, Mode: uint32(info.Mode().Perm())}); err != nil {
		return err
	}
	return s.note(i, "")
}

func (s *Sent) sendBytes(w io.Writer, f *os.File, it item) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is no regular file any more: try again")
	}
	it.Kind, it.Size = file, info.Size()
	if s.size += it.Size; s.size > maxSent {
		return fmt.Errorf("the snapshot is larger than %d GiB: a pod gets no more", maxSent>>30)
	}
	return writeFile(w, f, it)
}

// writeFile sends an item with exactly the bytes that it announces.
func writeFile(w io.Writer, f io.Reader, it item) error {
	if err := inside.Send(w, it); err != nil {
		return err
	}
	if _, err := io.CopyN(w, f, it.Size); err != nil {
		return fmt.Errorf("it changed while it was copied, or the pod is gone: %w", err)
	}
	return nil
}
