package disk

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// LookOnly are the flags of [Open] for what is looked at and not read. This kernel opens
// only what can be read.
const LookOnly = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY

// noFollowAny is the kernel's O_NOFOLLOW_ANY: no part of a path may be a symbolic link.
const noFollowAny = 0x20000000

// Open opens a path below a folder, or [unix.AT_FDCWD], that passes through no symbolic
// link. With beneath it does not leave the folder.
func Open(dir int, name string, flags int, beneath bool) (int, error) {
	if beneath && !filepath.IsLocal(name) {
		return -1, unix.EXDEV
	}
	return unix.Openat(dir, name, flags&^unix.O_NOFOLLOW|unix.O_CLOEXEC|noFollowAny, 0)
}

// PathOf is the path of what is open, without symbolic links.
func PathOf(fd int) (string, error) {
	var name [unix.PathMax]byte
	if _, _, e := unix.Syscall(unix.SYS_FCNTL, uintptr(fd), unix.F_GETPATH, uintptr(unsafe.Pointer(&name[0]))); e != 0 { //nolint:gosec // the kernel writes a path of at most this size
		return "", e
	}
	text, _, _ := bytes.Cut(name[:], []byte{0})
	return string(text), nil
}

// ChangeTime is when an inode was changed last, which the kernel alone sets.
func ChangeTime(stat *syscall.Stat_t) time.Time { return time.Unix(stat.Ctimespec.Unix()) }

// Boot names this run of the machine: it is another one after each start.
func Boot() (string, error) { return unix.Sysctl("kern.bootsessionuuid") }

// Unnamed is a file that no folder has. It is gone once it is closed.
func Unnamed(purpose string) (*os.File, error) {
	f, err := os.CreateTemp("", "nacre-*")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", purpose, err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// SyncFileSystem makes all that was written to a folder's file system durable.
func SyncFileSystem(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	if err := unix.Sync(); err != nil {
		return errors.Join(err, d.Close())
	}
	return errors.Join(d.Sync(), d.Close()) // which is F_FULLFSYNC: what the disk itself still holds
}

// Whiteout makes what hides a name of the base in a layer of an overlay, which is Linux's.
func Whiteout(int, string) error { return errors.ErrUnsupported }
