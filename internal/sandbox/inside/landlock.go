//go:build linux

package inside

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rights by what they can be applied to.
const (
	landlockRead      = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	landlockWriteFile = unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	landlockWriteDir  = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	landlockDevices = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
)

// The versions of the interface that added something used here.
const (
	landlockRefer    = 2
	landlockTruncate = 3
	landlockIoctl    = 5
	landlockScopes   = 6
)

// LandlockVersion returns the version of the kernel's Landlock, zero for none.
func LandlockVersion() int {
	v, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return 0
	}
	return int(v)
}

// newRuleset lets a thread that restricts itself with it read and run what the mounts show, and
// write below the writable paths only. It signals and reaches over abstract sockets only what is in
// the sandbox. Version zero has none: -1.
func newRuleset(version int, writable []string) (int, error) {
	if version == 0 {
		return -1, nil
	}
	fileRights, dirRights := landlockRights(version)
	ruleset := unix.LandlockRulesetAttr{Handled_access_fs: landlockRead | fileRights | dirRights | landlockDevices}
	size := unsafe.Offsetof(ruleset.Handled_access_net)
	if version >= landlockScopes {
		ruleset.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		size = unsafe.Offsetof(ruleset.Scoped) + unsafe.Sizeof(ruleset.Scoped)
	}
	fd, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&ruleset)), size, 0)
	if e != 0 {
		return -1, fmt.Errorf("ruleset: %w", e)
	}
	if err := allowBelow(int(fd), "/", landlockRead); err != nil {
		return -1, err
	}
	for _, name := range writable {
		rights, err := rightsOf(name, fileRights, dirRights)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return -1, err
		}
		if err := allowBelow(int(fd), name, rights); err != nil {
			return -1, err
		}
	}
	return int(fd), nil
}

func landlockRights(version int) (file, dir uint64) {
	file, dir = landlockWriteFile, landlockWriteDir
	if version >= landlockRefer {
		dir |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= landlockTruncate {
		file |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= landlockIoctl {
		file |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return file, dir
}

func rightsOf(name string, file, dir uint64) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return file | dir, nil
	}
	return file, nil
}

func allowBelow(ruleset int, name string, rights uint64) error {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer func() { _ = unix.Close(fd) }()
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if e != 0 {
		return fmt.Errorf("%s: %w", name, e)
	}
	return nil
}
