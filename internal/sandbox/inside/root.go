//go:build linux

package inside

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Sizes of what is always there, in bytes, and files per tmpfs.
const (
	rootSize    = 4 << 20
	defaultSize = 64 << 20
	maxInodes   = 200_000
)

// scaffold is where masks and generated files are bound from; it is removed
// before the agent starts.
const scaffold = "/.scaffold"

// lastWrite is the longest wait for the end of a write.
const lastWrite = time.Second

// errLink refuses a target that a project could lead elsewhere.
var errLink = errors.New("it passes through a symbolic link: refused")

// root is the file system under construction.
type root struct {
	fd    int             // the new root's mount
	proc  int             // the new /proc, or -1
	where string          // where it is attached until pivot_root
	ours  map[uint64]bool // devices of the tmpfs in which targets may be made
	owner int             // the agent's user in this namespace
}

// openRoot makes a fresh tmpfs with what every sandbox has, whatever its plan.
func openRoot() (*root, error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("private mounts: %w", err)
	}
	devices, err := openDevices()
	if err != nil {
		return nil, err
	}
	r, err := newRoot()
	if err != nil {
		return nil, err
	}
	for _, step := range []func() error{
		r.makeScaffold,
		r.makeEtc,
		func() error { return r.makeDev(devices) },
		r.makeProc,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// build attaches every mount of the plan.
func (r *root) build(plan Plan) error {
	r.owner = plan.InnerUID
	trees, err := openTrees(plan.Mounts)
	if err != nil {
		return err
	}
	if plan.Devices {
		if err := r.makeTerminals(); err != nil {
			return err
		}
	}
	for i, m := range plan.Mounts {
		if err := r.mount(m, trees[i]); err != nil {
			return fmt.Errorf("mount %s: %w", m.Target, err)
		}
	}
	return nil
}

// newRoot attaches the root where nothing is that a plan could name as a source.
func newRoot() (*root, error) {
	fd, err := newTmpfs(rootSize, 0o755, 0, 0)
	if err != nil {
		return nil, fmt.Errorf("root: %w", err)
	}
	r := &root{fd: fd, proc: -1, ours: map[uint64]bool{}}
	for _, dir := range []string{"/sys", "/dev"} {
		err = unix.MoveMount(fd, "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH)
		if err == nil {
			r.where = dir
			return r, r.own(fd)
		}
	}
	return nil, fmt.Errorf("attach root: %w", err)
}

// own notes that targets may be made in the file system of fd.
func (r *root) own(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	r.ours[uint64(st.Dev)] = true
	return nil
}

// mount makes one mount of the plan.
func (r *root) mount(m Mount, tree int) error {
	switch m.Kind {
	case Tree:
		if m.Overlay {
			return r.attachOverlay(m, tree)
		}
		return r.attachTree(m, tree)
	case Tmpfs:
		return r.attachTmpfs(m)
	case Mask:
		return r.mask(m)
	case Symlink:
		return r.symlink(m)
	}
	return fmt.Errorf("kind %d is unknown", m.Kind)
}

func (r *root) attachTree(m Mount, tree int) error {
	if tree < 0 {
		return nil // optional, and absent
	}
	defer func() { _ = unix.Close(tree) }()
	if m.ReadOnly {
		if err := r.pin(m.Target); err != nil {
			return err
		}
	}
	target, err := r.target(m.Target, m.Dir)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(target) }()
	return moveTo(tree, target)
}

// pin makes each directory between a writable bind and a protected target a mount point of its own,
// which cannot be renamed. Otherwise an agent could move the target's parent away and put one of
// its own in its place.
func (r *root) pin(target string) error {
	for dir := range ancestors(target) {
		fd, err := r.lookup(dir)
		if errors.Is(err, unix.ENOENT) {
			return nil // it will be made on a tmpfs, or refused
		}
		if errors.Is(err, unix.ELOOP) {
			return errLink
		}
		if err != nil {
			return err
		}
		err = r.pinDir(fd)
		_ = unix.Close(fd)
		if err != nil {
			return fmt.Errorf("pin %s: %w", dir, err)
		}
	}
	return nil
}

func (r *root) pinDir(fd int) error {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &st); err != nil {
		return err
	}
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 || r.ours[unix.Mkdev(st.Dev_major, st.Dev_minor)] {
		return nil
	}
	const flags = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE | unix.AT_EMPTY_PATH
	tree, err := unix.OpenTree(fd, "", flags)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(tree) }()
	return moveTo(tree, fd)
}

// ancestors yields the directories above a path, the highest first, without the root.
func ancestors(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := 1; i < len(name); i++ {
			if name[i] == '/' && !yield(name[:i]) {
				return
			}
		}
	}
}

func (r *root) attachTmpfs(m Mount) error {
	target, err := r.target(m.Target, true)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(target) }()
	size := m.Size
	if size == 0 {
		size = defaultSize
	}
	attributes := 0
	if m.NoExec {
		attributes |= unix.MOUNT_ATTR_NOEXEC
	}
	fd, err := newTmpfs(size, m.Mode, r.owner, attributes)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := moveTo(fd, target); err != nil {
		return err
	}
	return r.own(fd)
}

// mask covers what is at the target; where there is nothing, nothing needs hiding.
func (r *root) mask(m Mount) error {
	if err := r.pin(m.Target); err != nil {
		return err
	}
	target, err := r.lookup(m.Target)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if errors.Is(err, unix.ELOOP) {
		return errLink
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(target) }()
	return r.cover(target)
}

// cover hides what target is behind an empty file or directory.
func (r *root) cover(target int) error {
	var st unix.Stat_t
	if err := unix.Fstat(target, &st); err != nil {
		return err
	}
	empty := scaffold + "/file"
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		empty = scaffold + "/dir"
	}
	return r.bindOwn(empty, target)
}

// bindOwn binds a path of the root itself, read-only, on target.
func (r *root) bindOwn(source string, target int) error {
	tree, err := unix.OpenTree(r.fd, source[1:], unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(tree) }()
	if err := setAttributes(tree, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOEXEC); err != nil {
		return err
	}
	return moveTo(tree, target)
}

func (r *root) symlink(m Mount) error {
	parent, err := r.target(path.Dir(m.Target), true)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(parent) }()
	if err := r.mayMakeIn(parent, m.Target); err != nil {
		return err
	}
	return unix.Symlinkat(m.Source, parent, path.Base(m.Target))
}

// lookup opens a path of the new root. No component may be a symbolic link:
// a project could have planted it to lead a mount elsewhere.
func (r *root) lookup(name string) (int, error) {
	return openBelow(r.fd, name)
}

func openBelow(fd int, name string) (int, error) {
	name = strings.TrimPrefix(path.Clean(name), "/")
	if name == "" {
		name = "."
	}
	return unix.Openat2(fd, name, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// target opens the place of a mount, and makes it where the place is on a
// tmpfs of the sandbox's own.
func (r *root) target(name string, dir bool) (int, error) {
	fd, err := r.lookup(name)
	switch {
	case err == nil:
		return fd, nil
	case errors.Is(err, unix.ELOOP):
		return -1, errLink
	case !errors.Is(err, unix.ENOENT):
		return -1, err
	}
	parent, err := r.target(path.Dir(name), true)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(parent) }()
	if err := r.mayMakeIn(parent, name); err != nil {
		return -1, err
	}
	if err := makeIn(parent, path.Base(name), dir); err != nil {
		return -1, err
	}
	return r.lookup(name)
}

func (r *root) mayMakeIn(parent int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstat(parent, &st); err != nil {
		return err
	}
	if !r.ours[uint64(st.Dev)] {
		return fmt.Errorf("%s does not exist in what is bound above it: create it on the host first", name)
	}
	return nil
}

// makeIn makes an empty directory or file with the owner of its parent.
func makeIn(parent int, base string, dir bool) error {
	var st unix.Stat_t
	if err := unix.Fstat(parent, &st); err != nil {
		return err
	}
	if dir {
		if err := unix.Mkdirat(parent, base, 0o755); err != nil {
			return err
		}
	} else if err := unix.Mknodat(parent, base, unix.S_IFREG|0o444, 0); err != nil {
		return err
	}
	return unix.Fchownat(parent, base, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW)
}

// enter makes the new root the root, and forgets the old one.
func (r *root) enter() error {
	if err := unix.Fchdir(r.fd); err != nil {
		return fmt.Errorf("enter root: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the old root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	return os.RemoveAll(scaffold)
}

// seal makes the root and /proc read-only; only PID 1 had to write there.
func (r *root) seal() error {
	for _, fd := range []int{r.fd, r.proc} {
		if err := readOnly(fd); err != nil {
			return fmt.Errorf("read-only root: %w", err)
		}
		_ = unix.Close(fd)
	}
	return nil
}

// readOnly makes a mount read-only. On a busy machine what PID 1 wrote last may count as
// being written still, for a moment, which is waited for.
func readOnly(mount int) error {
	for until := time.Now().Add(lastWrite); ; time.Sleep(time.Millisecond) {
		err := setAttributes(mount, unix.MOUNT_ATTR_RDONLY)
		if !errors.Is(err, unix.EBUSY) || time.Now().After(until) {
			return err
		}
	}
}
