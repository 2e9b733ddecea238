//go:build linux

package inside

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// baseAttributes hold for every mount.
const baseAttributes = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

// setAttributes adds attributes to one mount, never removing any.
func setAttributes(fd int, attributes uint64) error {
	return unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: attributes})
}

func moveTo(tree, target int) error {
	return unix.MoveMount(tree, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// newTmpfs makes a detached tmpfs of size bytes.
func newTmpfs(size int64, mode uint32, owner, attributes int) (int, error) {
	if mode == 0 {
		mode = 0o755
	}
	return newMount("tmpfs", baseAttributes|attributes, [][2]string{
		{"size", strconv.FormatInt(size, 10)},
		{"nr_inodes", strconv.Itoa(maxInodes)},
		{"mode", strconv.FormatUint(uint64(mode), 8)},
		{"uid", strconv.Itoa(owner)},
		{"gid", strconv.Itoa(owner)},
	})
}

func newMount(kind string, attributes int, options [][2]string) (int, error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("%s: %w", kind, err)
	}
	defer func() { _ = unix.Close(fs) }()
	for _, o := range options {
		if err := unix.FsconfigSetString(fs, o[0], o[1]); err != nil {
			return -1, fmt.Errorf("%s option %s=%s: %w", kind, o[0], o[1], err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("%s: %w", kind, err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attributes)
	if err != nil {
		return -1, fmt.Errorf("%s: %w", kind, err)
	}
	return fd, nil
}

// openTrees returns a mount tree for each bind, -1 for everything else.
func openTrees(mounts []Mount) ([]int, error) {
	trees := make([]int, len(mounts))
	for i, m := range mounts {
		trees[i] = -1
		if m.Kind != Tree {
			continue
		}
		tree, err := openTreeOf(m)
		if m.Optional && errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", m.Source, err)
		}
		trees[i] = tree
	}
	return trees, nil
}

// openTreeOf is the tree that the host prepared, or that of the source it named.
func openTreeOf(m Mount) (int, error) {
	if m.FD != 0 {
		return m.FD, nil
	}
	return openTree(m)
}

// openTree opens the source that the host checked, and nothing that has taken its place.
func openTree(m Mount) (int, error) {
	source, err := unix.Openat2(unix.AT_FDCWD, m.Source, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(source) }()
	var st unix.Stat_t
	if err := unix.Fstat(source, &st); err != nil {
		return -1, err
	}
	if uint64(st.Dev) != m.Dev || st.Ino != m.Ino {
		return -1, errors.New("it was replaced after it was checked: refused")
	}
	return CloneTree(source, TreeAttributes(m.ReadOnly, m.NoExec))
}

// TreeAttributes are the attributes of a bind.
func TreeAttributes(readOnly, noExec bool) *unix.MountAttr {
	set := uint64(baseAttributes)
	if readOnly {
		set |= unix.MOUNT_ATTR_RDONLY
	}
	if noExec {
		set |= unix.MOUNT_ATTR_NOEXEC
	}
	return &unix.MountAttr{Attr_set: set, Propagation: unix.MS_PRIVATE}
}

// CloneTree makes a detached bind of what source is, submounts included, with
// the attributes on each of its mounts.
func CloneTree(source int, attributes *unix.MountAttr) (int, error) {
	return clone(source, unix.AT_RECURSIVE, attributes)
}

// CloneOne is CloneTree without what is mounted below the source.
func CloneOne(source int, attributes *unix.MountAttr) (int, error) {
	return clone(source, 0, attributes)
}

func clone(source int, deep uint, attributes *unix.MountAttr) (int, error) {
	tree, err := unix.OpenTree(source, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|deep)
	if err != nil {
		return -1, fmt.Errorf("bind: %w", err)
	}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|deep, attributes); err != nil {
		_ = unix.Close(tree)
		return -1, fmt.Errorf("bind attributes: %w", err)
	}
	return tree, nil
}
