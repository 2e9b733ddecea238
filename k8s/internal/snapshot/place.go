package snapshot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"github.com/nacre-dev/nacre/internal/sandbox/inside"
)

// Placed is what a pod was given, for what goes back.
type Placed struct {
	entries []inside.PodEntry
	stamps  []map[string]stamp // of each entry
}

// stamp tells whether a file was touched: nobody can set its time of change.
type stamp struct {
	ino, size    uint64
	changed, nsa int64
}

// Place puts a snapshot where the entries say. It is for the pod alone, before there is
// an agent.
func Place(r io.Reader, entries []inside.PodEntry) (*Placed, error) {
	p := &Placed{entries: entries, stamps: make([]map[string]stamp, len(entries))}
	for i := range entries {
		p.stamps[i] = map[string]stamp{}
	}
	for {
		var it item
		if err := inside.Receive(r, &it); err != nil {
			return nil, fmt.Errorf("snapshot: %w", err)
		}
		if it.Kind == end {
			return p, nil
		}
		if it.Entry < 0 || it.Entry >= len(entries) {
			return nil, fmt.Errorf("snapshot: entry %d of %d", it.Entry, len(entries))
		}
		if err := p.place(r, it); err != nil {
			return nil, fmt.Errorf("%w (a pod can be given files only below folders of its template that it may write to: add an emptyDir)", err)
		}
	}
}

func (p *Placed) place(r io.Reader, it item) error {
	name := filepath.Join(p.entries[it.Entry].Target, string(it.Path))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	switch it.Kind {
	case folder:
		return placeFolder(name, fs.FileMode(it.Mode))
	case link:
		if err := os.Symlink(string(it.Text), name); err != nil {
			return err
		}
	case file:
		if err := placeFile(r, name, it); err != nil {
			return err
		}
	default:
		return fmt.Errorf("snapshot: %s: kind %q is unknown", name, it.Kind)
	}
	if !p.entries[it.Entry].Returns {
		return nil
	}
	info, err := os.Lstat(name)
	if err != nil {
		return err
	}
	p.stamps[it.Entry][string(it.Path)] = stampOf(info)
	return nil
}

// placeFolder leaves a folder of the template as it is: a volume belongs to its cluster.
func placeFolder(name string, mode fs.FileMode) error {
	err := os.Mkdir(name, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Chmod(name, mode.Perm()|0o700)
}

func placeFile(r io.Reader, name string, it item) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, r, it.Size)
	return errors.Join(err, f.Chmod(fs.FileMode(it.Mode).Perm()|0o600), f.Close())
}

func stampOf(info fs.FileInfo) stamp {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return stamp{}
	}
	return stamp{st.Ino, uint64(max(st.Size, 0)), st.Ctim.Sec, st.Ctim.Nsec}
}

// Return writes what is now at the entries that return. It is for the pod, when nothing
// but PID 1 runs in it.
func (p *Placed) Return(w io.Writer) error {
	for i, e := range p.entries {
		if !e.Returns {
			continue
		}
		if err := p.giveBack(w, i, ""); err != nil {
			return fmt.Errorf("%s: %w", e.Target, err)
		}
	}
	return inside.Send(w, item{Kind: end})
}

// giveBack gives a folder before what is in it. The agent's own, which it may have closed,
// are this user's.
func (p *Placed) giveBack(w io.Writer, i int, rel string) error {
	name := filepath.Join(p.entries[i].Target, rel)
	info, err := os.Lstat(name)
	if err != nil {
		return err
	}
	if err := p.giveBackOne(w, item{Entry: i, Path: []byte(rel), Mode: uint32(info.Mode().Perm())}, name, info); err != nil || !info.IsDir() {
		return err
	}
	if info.Mode()&0o500 != 0o500 {
		if err := os.Chmod(name, 0o700); err != nil {
			return err
		}
	}
	list, err := os.ReadDir(name)
	if err != nil {
		return err
	}
	for _, entry := range list {
		if err := p.giveBack(w, i, path.Join(rel, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (p *Placed) giveBackOne(w io.Writer, it item, name string, info fs.FileInfo) error {
	if was, known := p.stamps[it.Entry][string(it.Path)]; known && !info.IsDir() && was == stampOf(info) {
		it.Kind = same
		return inside.Send(w, it)
	}
	switch {
	case info.IsDir():
		it.Kind = folder
	case info.Mode().IsRegular():
		return giveBackFile(w, name, it, info.Size())
	case info.Mode()&fs.ModeSymlink != 0:
		text, err := os.Readlink(name)
		if err != nil {
			return err
		}
		it.Kind, it.Text = link, []byte(text)
	default:
		return nil // pipes and sockets are of no use elsewhere
	}
	return inside.Send(w, it)
}

func giveBackFile(w io.Writer, name string, it item, size int64) error {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrPermission) {
		if err = os.Chmod(name, 0o600); err == nil {
			f, err = os.Open(name)
		}
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	it.Kind, it.Size = file, size
	return writeFile(w, f, it)
}
