// Package tree promises that a folder which somebody else filled is looked at whole, by several
// threads at once, and once. Every entry is reached from the folder that it is in, no link is
// followed, and limits hold. Which entries are new goes by the inode's own time of change, which
// the kernel alone sets.
//
// It does not know what an entry means, and opens nothing but folders.
package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ErrTooBig is a tree with more entries or levels than are looked at.
var ErrTooBig = errors.New("the tree is too big to be looked at")

const (
	// maxWorkers is how many threads look at most.
	maxWorkers = 8
	// direntBytes is how much of a folder's list is read at once.
	direntBytes = 32 << 10
)

// Options of Walk.
type Options struct {
	// Since is from when on an entry is new. The zero time makes all of them new.
	Since time.Time
	// Entries and Depth are the most that is looked at; each must be given.
	Entries, Depth int
	// Workers are the threads that look; zero takes one for each processor.
	Workers int
	// Births asks of each new entry whether it was made since.
	Births bool
	// OneDevice leaves out what another file system is mounted at.
	OneDevice bool
	// Skip, where it is set, says of a folder that it is not looked into. It is asked
	// by several threads at once, with the path from the top.
	Skip func(name string) bool
}

// Folder is one that was looked at. It belongs to Walk again once visit returns.
type Folder struct {
	// Path is slash-separated from the top, which is ".".
	Path string
	// Self is the folder's own entry; of the top, its name is ".".
	Self Entry
	// Entries are all that are in it, in no order. Dot and dot-dot are left out.
	Entries []Entry
	// Err says why the folder was not looked into, or not to its end; nil otherwise.
	Err error
}

// Entry is a file, folder, link or special file, never what a link leads to.
type Entry struct {
	Name string
	// Mode has the kind and the permissions.
	Mode fs.FileMode
	// Changed is when the inode was changed last, by the kernel's clock; Modified is
	// when its content was, which its owner can set.
	Changed, Modified time.Time
	// New says that the entry was made, changed, or moved to this place since. What is in a folder
	// that was moved is new there, too. An entry that could not be asked about is new.
	New bool
	// Born says that a new entry was made since, and is not an older one that was
	// changed. It is asked for by Births, and false where the file system does not say.
	Born bool
	// Bytes is what it takes on disk, Length how long it says that it is.
	Bytes, Length int64
	// Links is the number of its names; Device and Inode are what they share.
	Links         uint64
	Device, Inode uint64
}

// PathOf is that of an entry of the folder, from the top.
func (f Folder) PathOf(e Entry) string { return path.Join(f.Path, e.Name) }

// Walk calls visit once for each folder at and below dir, from several threads at once. A folder
// that cannot be looked into is visited with its error, and one that is gone is not. The error is
// that of dir itself, the context's, or wraps [ErrTooBig]. Of a tree too deep, everything else is
// visited all the same.
func Walk(ctx context.Context, dir string, o Options, visit func(Folder)) error {
	fd, err := open(unix.AT_FDCWD, dir, 0)
	if err != nil {
		return fmt.Errorf("look at %s: %w", dir, err)
	}
	top := &node{fd: fd, path: ".", pending: 1}
	top.self, err = entryOf(fd, ".", time.Time{})
	if err != nil {
		top.release()
		return fmt.Errorf("look at %s: %w", dir, err)
	}
	top.self.New = !top.self.Changed.Before(o.Since)
	w := &walk{ctx: ctx, options: o, visit: visit}
	w.awake.L = &w.mu
	w.todo = []task{{name: "."}}
	w.top = top
	workers := o.Workers
	if workers == 0 {
		workers = min(runtime.GOMAXPROCS(0), maxWorkers)
	}
	var group sync.WaitGroup
	for range workers {
		group.Go(w.work)
	}
	group.Wait()
	return errors.Join(w.err, w.deep)
}

// walk is one that is under way.
type walk struct {
	ctx     context.Context //nolint:containedctx // a walk ends before the call that it serves
	options Options
	visit   func(Folder)
	top     *node

	mu      sync.Mutex
	awake   sync.Cond
	todo    []task // the last is next, so that few folders are open at once
	busy    int
	visited int
	err     error
	deep    error
}

// task is a folder to look into: an entry of one that is open, nil for the top.
type task struct {
	parent *node
	name   string
	self   Entry
	moved  bool
}

// node is an open folder, closed once all folders in it have been opened.
type node struct {
	fd      int
	path    string
	self    Entry
	depth   int
	moved   bool // it, or a folder around it, got its name or place since
	mu      sync.Mutex
	pending int
}

func (n *node) release() {
	n.mu.Lock()
	n.pending--
	last := n.pending == 0
	n.mu.Unlock()
	if last {
		_ = unix.Close(n.fd) // read-only
	}
}

// work looks into folders until none is left.
func (w *walk) work() {
	buffers := &buffers{dirents: make([]byte, direntBytes)}
	for {
		next, ok := w.take()
		if !ok {
			return
		}
		w.look(next, buffers)
		w.done()
	}
}

func (w *walk) take() (task, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.todo) == 0 && w.busy > 0 {
		w.awake.Wait()
	}
	if len(w.todo) == 0 {
		return task{}, false
	}
	next := w.todo[len(w.todo)-1]
	w.todo = w.todo[:len(w.todo)-1]
	w.busy++
	return next, true
}

func (w *walk) done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy--; w.busy == 0 && len(w.todo) == 0 {
		w.awake.Broadcast()
	}
}

// look opens a folder, lists it, has it visited and leaves the folders in it to
// whoever has time.
func (w *walk) look(t task, b *buffers) {
	n, err := w.enter(t)
	switch {
	case errors.Is(err, unix.ENOENT):
		return // it has gone since
	case err != nil:
		w.visit(Folder{Path: path.Join(t.parent.path, t.name), Self: t.self, Err: &fs.PathError{Op: "open", Path: t.name, Err: err}})
		return
	case n == nil:
		return
	}
	defer n.release()
	entries, err := w.list(n, b)
	if err != nil && w.stopped() {
		return
	}
	w.visit(Folder{Path: n.path, Self: n.self, Entries: entries, Err: err})
	w.leave(n, entries)
}

// enter opens the folder of a task. It is nil where the walk is over.
func (w *walk) enter(t task) (*node, error) {
	if t.parent == nil {
		return w.top, nil
	}
	defer t.parent.release()
	if w.stopped() {
		return nil, nil
	}
	fd, err := open(t.parent.fd, t.name, unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	return &node{
		fd: fd, path: path.Join(t.parent.path, t.name), self: t.self, depth: t.parent.depth + 1, moved: t.moved, pending: 1,
	}, nil
}

func open(parent int, name string, flags int) (fd int, err error) {
	for {
		fd, err = unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|flags, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// stopped notes why the walk is over, if it is.
func (w *walk) stopped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil && w.ctx.Err() != nil {
		w.err = context.Cause(w.ctx)
	}
	return w.err != nil
}

// leave keeps the folders in a folder for later, and the folder open until then.
func (w *walk) leave(n *node, entries []Entry) {
	var below []task
	for _, e := range entries {
		if e.Mode.IsDir() && !w.skips(n, e) {
			moved := n.moved || w.isMoved(n, e)
			below = append(below, task{parent: n, name: e.Name, self: e, moved: moved})
		}
	}
	if len(below) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n.depth >= w.options.Depth {
		if w.deep == nil {
			w.deep = fmt.Errorf("directory %.80q is too deep: %w", path.Join(n.path, below[0].name), ErrTooBig)
		}
		return
	}
	n.mu.Lock()
	n.pending += len(below)
	n.mu.Unlock()
	w.todo = append(w.todo, below...)
	w.awake.Broadcast()
}

func (w *walk) skips(n *node, e Entry) bool {
	return w.options.Skip != nil && w.options.Skip(path.Join(n.path, e.Name))
}

// isMoved tells a folder that got its name or place since: that alone is told by
// its own time, and not by that of what is in it. Whoever gives a name changes the
// folder that the name is in, too; who changes a mode alone does not.
func (w *walk) isMoved(n *node, e Entry) bool {
	return e.New && e.Modified.Before(w.options.Since) && n.self.New
}

// buffers are one worker's.
type buffers struct {
	dirents []byte
	names   []string
	entries []Entry
}

// list asks about each entry of a folder.
func (w *walk) list(n *node, b *buffers) (entries []Entry, err error) {
	b.entries = b.entries[:0]
	for {
		size, err := unix.ReadDirent(n.fd, b.dirents)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || size == 0 {
			return b.entries, err
		}
		_, _, b.names = unix.ParseDirent(b.dirents[:size], -1, b.names[:0])
		if err := w.count(len(b.names)); err != nil {
			return b.entries, err
		}
		for _, name := range b.names {
			if e, ok := w.ask(n, name); ok {
				b.entries = append(b.entries, e)
			}
		}
	}
}

// count ends the walk where there is more than is looked at.
func (w *walk) count(names int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil && w.ctx.Err() != nil {
		w.err = context.Cause(w.ctx)
	}
	if w.visited += names; w.visited > w.options.Entries && w.err == nil {
		w.err = fmt.Errorf("more than %d files: %w", w.options.Entries, ErrTooBig)
	}
	return w.err
}

// ask says what an entry is, and that it is new where that is not known.
func (w *walk) ask(n *node, name string) (Entry, bool) {
	e, err := entryOf(n.fd, name, w.options.Since)
	switch {
	case errors.Is(err, unix.ENOENT):
		return e, false
	case err != nil:
		return Entry{Name: name, Mode: fs.ModeIrregular, New: true}, true
	case w.options.OneDevice && e.Device != n.self.Device:
		return e, false
	}
	if e.New && w.options.Births {
		e.Born = born(n.fd, name, w.options.Since)
	}
	e.New = e.New || n.moved
	return e, true
}

// Ask says what is at a path, such as a file that is looked at by itself.
func Ask(file string, since time.Time) (Entry, error) {
	return entryOf(unix.AT_FDCWD, file, since)
}

func entryOf(dir int, name string, since time.Time) (Entry, error) {
	var s unix.Stat_t
	for {
		err := unix.Fstatat(dir, name, &s, unix.AT_SYMLINK_NOFOLLOW)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return Entry{}, err
		}
		break
	}
	changed := time.Unix(s.Ctim.Unix())
	return Entry{
		Name: name, Mode: modeOf(uint32(s.Mode)), Changed: changed, Modified: time.Unix(s.Mtim.Unix()), New: !changed.Before(since), Bytes: s.Blocks * 512, Length: s.Size,
		Links: uint64(s.Nlink), Device: uint64(s.Dev), Inode: s.Ino,
	}, nil
}

func modeOf(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	if mode&unix.S_ISUID != 0 {
		m |= fs.ModeSetuid
	}
	if mode&unix.S_ISGID != 0 {
		m |= fs.ModeSetgid
	}
	if mode&unix.S_ISVTX != 0 {
		m |= fs.ModeSticky
	}
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		m |= fs.ModeDir
	case unix.S_IFLNK:
		m |= fs.ModeSymlink
	case unix.S_IFIFO:
		m |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		m |= fs.ModeSocket
	case unix.S_IFBLK:
		m |= fs.ModeDevice
	case unix.S_IFCHR:
		m |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFREG:
	default:
		m |= fs.ModeIrregular
	}
	return m
}
