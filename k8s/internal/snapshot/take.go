package snapshot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/nacre-dev/nacre/internal/sandbox/inside"
)

// partial is what a file is called until it is whole.
const partial = ".nacre-returning"

// Returned is what came back, not yet put in place.
type Returned struct {
	sent  *Sent
	stage string
	items []item
	came  []map[string]kind // of each entry
}

// Take receives what comes back of what was sent into a folder of its own, whole or not
// at all: no more than growth bytes beyond what went there. Close removes the folder.
func (s *Sent) Take(r io.Reader, growth int64) (*Returned, error) {
	stage, err := os.MkdirTemp("", "nacre-return-")
	if err != nil {
		return nil, err
	}
	t := &Returned{sent: s, stage: stage, came: make([]map[string]kind, len(s.entries))}
	for i := range t.came {
		t.came[i] = map[string]kind{}
	}
	if err := t.take(r, s.size+growth); err != nil {
		return nil, errors.Join(fmt.Errorf("what came back is refused: %w", err), t.Close())
	}
	return t, nil
}

// Close removes what was not put in place.
func (t *Returned) Close() error { return os.RemoveAll(t.stage) }

func (t *Returned) take(r io.Reader, room int64) error {
	for {
		var it item
		if err := inside.Receive(r, &it); err != nil {
			return err
		}
		if it.Kind == end {
			return nil
		}
		if len(t.items) == maxItems {
			return fmt.Errorf("more than %d files and folders", maxItems)
		}
		if err := t.check(it); err != nil {
			return fmt.Errorf("%.200q: %w", it.Path, err)
		}
		if it.Kind == file {
			if room -= it.Size; room < 0 {
				return errors.New("it is larger than the limit of the disk allows ([limits] disk_mib)")
			}
			if err := t.stageFile(r, len(t.items), it.Size); err != nil {
				return err
			}
		}
		t.came[it.Entry][string(it.Path)] = it.Kind
		t.items = append(t.items, it)
	}
}

// check refuses what could not have been there.
func (t *Returned) check(it item) error {
	name := string(it.Path)
	switch {
	case it.Entry < 0 || it.Entry >= len(t.sent.entries) || !t.sent.entries[it.Entry].Returns:
		return errors.New("nothing returns there")
	case len(name) > maxPath || strings.ContainsRune(name, 0):
		return errors.New("no path")
	case name != "" && (name != path.Clean(name) || !filepath.IsLocal(name)):
		return errors.New("a path out of its folder")
	case t.came[it.Entry][name] != "":
		return errors.New("it comes twice")
	case it.Size < 0 || len(it.Text) > maxPath || strings.ContainsRune(string(it.Text), 0):
		return errors.New("no size, or no text")
	case it.Kind == same && !t.sent.paths[it.Entry][name]:
		return errors.New("it is said to be what it was, and was not there")
	case name == "" && t.sent.entries[it.Entry].Dir != (it.Kind == folder) && it.Kind != same:
		return errors.New("a folder is no folder any more")
	case name != "" && !t.sent.entries[it.Entry].Dir:
		return errors.New("something below a file")
	case !slices.Contains([]kind{folder, file, link, same}, it.Kind):
		return fmt.Errorf("kind %q is unknown", it.Kind)
	}
	if parent := path.Dir(name); name != "" && parent != "." && t.came[it.Entry][parent] != folder {
		return errors.New("it comes before its folder")
	}
	return nil
}

func (t *Returned) staged(n int) string { return filepath.Join(t.stage, strconv.Itoa(n)) }

func (t *Returned) stageFile(r io.Reader, n int, size int64) error {
	f, err := os.OpenFile(t.staged(n), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, r, size)
	return errors.Join(err, f.Close())
}

// Apply puts what came back in its place, and removes what was sent and is gone. What
// later entries cover is not touched, and no link is followed.
func (t *Returned) Apply() error {
	for i, e := range t.sent.entries {
		if !e.Returns {
			continue
		}
		apply := t.applyFolder
		if !e.Dir {
			apply = t.applyFile
		}
		if err := apply(i); err != nil {
			return fmt.Errorf("%s: %w", e.Source, err)
		}
	}
	return nil
}

// applyFile writes into the file itself: it is what was checked.
func (t *Returned) applyFile(i int) error {
	e := t.sent.entries[i]
	for n, it := range t.items {
		if it.Entry != i || it.Kind != file {
			continue
		}
		f, err := os.OpenFile(e.Source, os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err == nil {
			err = isEntry(e, info)
		}
		if err == nil {
			err = f.Truncate(0)
		}
		if err == nil {
			err = copyFrom(t.staged(n), f)
		}
		return errors.Join(err, f.Close())
	}
	return nil
}

func copyFrom(name string, to io.Writer) error {
	from, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // only read
	_, err = io.Copy(to, from)
	return err
}

func (t *Returned) applyFolder(i int) error {
	root, err := openFolder(t.sent.entries[i])
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // what was written is written
	owner, err := ownerOf(root)
	if err != nil {
		return err
	}
	if err := t.removeGone(root, i); err != nil {
		return err
	}
	for n, it := range t.items {
		name := string(it.Path)
		if it.Entry != i || it.Kind == same || name == "" || t.sent.covered(i, name) {
			continue
		}
		if err := t.apply(root, owner, n); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
	}
	return nil
}

// removeGone removes what was there when the snapshot was taken, and did not come back.
// What has appeared here since is nobody's in the pod.
func (t *Returned) removeGone(root *os.Root, i int) error {
	var gone []string
	for name := range t.sent.paths[i] {
		if name != "" && t.came[i][name] == "" {
			gone = append(gone, name)
		}
	}
	slices.Sort(gone)
	slices.Reverse(gone) // what is in a folder goes before it
	for _, name := range gone {
		err := root.Remove(name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTEMPTY) {
			continue // a folder in which something has appeared stays
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// owner is whose the files are; nil where nobody else's can be made.
type owner struct{ uid, gid int }

// ownerOf is the folder's, for what root puts into it.
func ownerOf(root *os.Root) (*owner, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // they are this user's
	}
	info, err := root.Stat(".")
	if err != nil {
		return nil, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, errors.New("no owner")
	}
	return &owner{int(st.Uid), int(st.Gid)}, nil
}

func (o *owner) give(root *os.Root, name string) error {
	if o == nil {
		return nil
	}
	return root.Lchown(name, o.uid, o.gid)
}

func (t *Returned) apply(root *os.Root, o *owner, n int) error {
	it := t.items[n]
	name := string(it.Path)
	was, err := root.Lstat(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if it.Kind == folder {
		return applyDir(root, o, it, was)
	}
	if was != nil && was.IsDir() { // what was sent of it has been removed
		if err := root.Remove(name); err != nil {
			return fmt.Errorf("a folder stands in its place, in which something has appeared: %w", err)
		}
	}
	aside := name + partial
	if err := t.put(root, aside, n); err != nil {
		return errors.Join(err, root.RemoveAll(aside))
	}
	if err := o.give(root, aside); err != nil {
		return errors.Join(err, root.Remove(aside))
	}
	return root.Rename(aside, name)
}

func (t *Returned) put(root *os.Root, name string, n int) error {
	it := t.items[n]
	if it.Kind == link {
		return root.Symlink(string(it.Text), name)
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(copyFrom(t.staged(n), f), f.Chmod(fs.FileMode(it.Mode).Perm()), f.Close())
}

func applyDir(root *os.Root, o *owner, it item, was fs.FileInfo) error {
	name := string(it.Path)
	if was != nil && !was.IsDir() {
		if err := root.Remove(name); err != nil {
			return err
		}
		was = nil
	}
	if was == nil {
		if err := root.Mkdir(name, 0o700); err != nil {
			return err
		}
		if err := o.give(root, name); err != nil {
			return err
		}
	}
	mode := fs.FileMode(it.Mode).Perm() | 0o700
	if was != nil && was.Mode().Perm() == mode {
		return nil
	}
	return root.Chmod(name, mode)
}
