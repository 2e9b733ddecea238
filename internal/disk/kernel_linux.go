package disk

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// LookOnly are the flags of [Open] for what is looked at and not read.
const LookOnly = unix.O_PATH

// Open opens a path below a folder, or [unix.AT_FDCWD], that passes through no symbolic
// link. With beneath it does not leave the folder.
func Open(dir int, name string, flags int, beneath bool) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags) | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS} //nolint:gosec // flags are not below zero
	if beneath {
		how.Resolve |= unix.RESOLVE_BENEATH
	}
	return unix.Openat2(dir, name, &how)
}

// PathOf is the path of what is open, without symbolic links.
func PathOf(fd int) (string, error) { return os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)) }

// ChangeTime is when an inode was changed last, which the kernel alone sets.
func ChangeTime(stat *syscall.Stat_t) time.Time { return time.Unix(stat.Ctim.Unix()) }

// Boot names this run of the machine: it is another one after each start.
func Boot() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
}

// Unnamed is a file that no folder has. It is gone once it is closed.
func Unnamed(purpose string) (*os.File, error) {
	fd, err := unix.MemfdCreate(purpose, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), purpose), nil
}

// SyncFileSystem makes all that was written to a folder's file system durable.
func SyncFileSystem(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
}

// Whiteout makes what hides a name of the base in a layer of an overlay.
func Whiteout(dir int, name string) error { return unix.Mknodat(dir, name, unix.S_IFCHR, 0) }
