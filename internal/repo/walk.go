package repo

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"github.com/nacre-dev/nacre/internal/overlay"
	"github.com/nacre-dev/nacre/internal/planted"
	"github.com/nacre-dev/nacre/internal/repo/beneath"
)

// Skipped is a file that is not landed, and why.
type Skipped struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// found is one file of a work tree, read once.
type found struct {
	entry
	size int64
}

// walker reads a work tree without following any link out of it or in it.
type walker struct {
	objects *objects
	root    *os.Root
	// skipFile and skipDir say why a path is left out, or "".
	skipFile, skipDir func(name string) (reason string, err error)
	// admit refuses a file for its size, before it is read.
	admit func(name string, size int64) error
	files map[string]found
	// layer, where it is not nil, gets what the layer that is walked does to its base.
	layer   overlay.Shape
	skipped []Skipped
	visited int
	// near is the directory that is walked: what is in it is reached from there, and
	// not from the top, which would take long in a deep tree.
	near    *os.Root
	nearDir string
}

// from is where a file is reached from, and what it is called there.
func (w *walker) from(name string) (*os.Root, string) {
	if w.near != nil && path.Dir(name) == w.nearDir {
		return w.near, path.Base(name)
	}
	return w.root, name
}

// enter makes a directory the one that its files are reached from. whole is false where it is not
// there, or something on the way is none; missing, unless nil, makes what is not there.
func (w *walker) enter(dir string, missing func(in *os.Root, name string) error) (whole bool, err error) {
	if err := w.leave(); err != nil {
		return false, err
	}
	w.near, err = beneath.Open(w.root, dir, missing)
	if w.nearDir = dir; errors.Is(err, beneath.ErrNone) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("directory %.80q: %w", dir, shut(err))
	}
	return true, nil
}

func (w *walker) leave() error {
	if w.near == nil {
		return nil
	}
	near := w.near
	w.near, w.nearDir = nil, ""
	return near.Close()
}

// walk reads every directory below name, which is "." for the top.
func (w *walker) walk(ctx context.Context, name string, depth int) error {
	if depth > MaxDepth {
		return fmt.Errorf("directory %.80q is too deep: %w", name, ErrTooBig)
	}
	in, base := w.from(name)
	here, err := in.OpenRoot(base)
	if err != nil {
		return fmt.Errorf("directory %.80q: %w", name, shut(err))
	}
	near, nearDir := w.near, w.nearDir
	w.near, w.nearDir = here, name
	err = w.walkHere(ctx, name, depth)
	w.near, w.nearDir = near, nearDir
	return errors.Join(err, here.Close())
}

func (w *walker) walkHere(ctx context.Context, name string, depth int) error {
	if err := w.shapeFolder(name); err != nil {
		return err
	}
	entries, err := w.list(w.near, ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		child := path.Join(name, e.Name())
		if name == "." && e.Name() == ".git" {
			continue // the clone's own, which is never read
		}
		if err := w.visit(ctx, child, depth); err != nil {
			return err
		}
	}
	return nil
}

// marksOf reads what the kernel has noted of a file or folder of a layer.
func marksOf(f *os.File) (opaque bool, err error) {
	if opaque, err = overlay.Marks(f); errors.Is(err, overlay.ErrForeign) {
		err = fmt.Errorf("%w: %w", ErrUnsafe, err)
	}
	return opaque, err
}

// shapeFolder notes what a folder of a layer does to the base.
func (w *walker) shapeFolder(name string) error {
	if w.layer == nil {
		return nil
	}
	f, err := w.near.OpenFile(".", os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
	if err != nil {
		return fmt.Errorf("read directory: %w", shut(err))
	}
	opaque, err := marksOf(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("directory %.80q: %w", name, err)
	}
	w.layer[name] = overlay.Folder
	if opaque {
		w.layer[name] = overlay.Opaque
	}
	return nil
}

func (w *walker) readDir(name string) ([]os.DirEntry, error) { return w.list(w.root, name) }

func (w *walker) list(in *os.Root, name string) ([]os.DirEntry, error) {
	f, err := in.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("read directory: %w", shut(err))
	}
	entries, err := f.ReadDir(MaxEntries)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read directory: %w", shut(err))
	}
	if w.visited += len(entries); w.visited >= MaxEntries {
		return nil, fmt.Errorf("more than %d files: %w", MaxEntries, ErrTooBig)
	}
	return entries, nil
}

func (w *walker) visit(ctx context.Context, name string, depth int) error {
	if err := checkPath(name); errors.Is(err, ErrTooBig) {
		return err
	} else if err != nil {
		w.skip(name, err.Error())
		return nil
	}
	in, base := w.from(name)
	info, err := in.Lstat(base)
	if err != nil {
		return fmt.Errorf("read file %.80q: %w", name, shut(err))
	}
	if w.layer != nil && overlay.IsGone(info) {
		w.layer[name] = overlay.Gone
		return nil
	}
	if w.layer != nil {
		w.layer[name] = overlay.File
	}
	if info.IsDir() {
		reason, err := w.skipDir(name)
		if err != nil {
			return err
		}
		if reason != "" {
			w.skip(name+"/", reason)
			return nil
		}
		return w.walk(ctx, name, depth+1)
	}
	reason, err := w.skipFile(name)
	if err != nil {
		return err
	}
	if reason == "" {
		reason = refusedKind(name, info.Mode())
	}
	if reason != "" {
		w.skip(name, reason)
		return nil
	}
	if err := w.admit(name, info.Size()); err != nil {
		return err
	}
	f, err := w.read(name, info, io.Discard)
	if err != nil {
		return err
	}
	w.files[name] = f
	return nil
}

func (w *walker) skip(name, reason string) {
	w.skipped = append(w.skipped, Skipped{Path: name, Reason: reason})
}

func refusedKind(name string, mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return ""
	case mode&fs.ModeSymlink != 0 && planted.IsGitFile(name):
		return "a symbolic link of a name that git reads"
	case mode&fs.ModeSymlink != 0:
		return ""
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	default:
		return "a device"
	}
}

// read returns a file's mode and id, and copies its content.
func (w *walker) read(name string, info fs.FileInfo, to io.Writer) (found, error) {
	in, base := w.from(name)
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := in.Readlink(base)
		if err != nil {
			return found{}, fmt.Errorf("read link %.80q: %w", name, err)
		}
		if _, err := io.WriteString(to, target); err != nil {
			return found{}, err
		}
		return found{entry{modeLink, w.objects.hashBytes([]byte(target))}, int64(len(target))}, nil
	}
	// A file that became a pipe since must not block, and one that became a link not lead away.
	f, err := in.OpenFile(base, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return found{}, fmt.Errorf("read file %.80q: %w", name, shut(err))
	}
	out, err := w.readFile(name, info, f, to)
	return out, errors.Join(err, f.Close())
}

// shut tells what an agent left unreadable from a failure of the host.
func shut(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: %w", err, ErrUnsafe)
	}
	return err
}

func (w *walker) readFile(name string, seen fs.FileInfo, f *os.File, to io.Writer) (found, error) {
	info, err := f.Stat()
	if err != nil {
		return found{}, fmt.Errorf("read file: %w", err)
	}
	if !info.Mode().IsRegular() || !os.SameFile(seen, info) {
		return found{}, fmt.Errorf("%q changed while it was read: %w", name, ErrUnsafe)
	}
	if w.layer != nil {
		if _, err := marksOf(f); err != nil {
			return found{}, fmt.Errorf("file %.80q: %w", name, err)
		}
	}
	mode := modeFile
	if info.Mode()&0o100 != 0 {
		mode = modeExec
	}
	h := w.objects.hasher(info.Size())
	n, err := io.Copy(io.MultiWriter(h, to), io.LimitReader(f, info.Size()+1))
	if err != nil {
		return found{}, fmt.Errorf("read file %q: %w", name, err)
	}
	if n != info.Size() {
		return found{}, fmt.Errorf("%q changed while it was read: %w", name, ErrUnsafe)
	}
	return found{entry{mode, hex.EncodeToString(h.Sum(nil))}, n}, nil
}

// Matches proves that a directory holds exactly a tree: every file with its
// bytes and mode, and nothing else. A .git at its top is not looked at, and
// submodules must be empty or missing. The error names what differs.
func (p *Project) Matches(ctx context.Context, tree Tree, dir string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := ParseTree(string(tree)); err != nil {
		return err
	}
	want, err := p.listTree(ctx, string(tree))
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	keep := func(string) (string, error) { return "", nil }
	admit := func(string, int64) error { return nil }
	w := &walker{objects: p.objects, root: root, skipFile: keep, skipDir: keep, admit: admit, files: make(map[string]found)}
	if err := errors.Join(w.walk(ctx, ".", 0), root.Close()); err != nil {
		return err
	}
	return w.differs(want, tree)
}

func (w *walker) differs(want map[string]entry, tree Tree) error {
	var different []string
	for name, e := range want {
		if e.mode != modeGitlink && w.files[name].entry != e {
			different = append(different, name)
		}
	}
	for name := range w.files {
		if _, ok := want[name]; !ok {
			different = append(different, name)
		}
	}
	for _, s := range w.skipped {
		different = append(different, s.Path)
	}
	if len(different) > 0 {
		return fmt.Errorf("the files are not tree %.12s: %s", tree, listed(different))
	}
	return nil
}
