package search

import (
	"errors"

	"golang.org/x/sys/unix"
)

// isUndumped reports whether backups leave a file out.
func isUndumped(name string) bool {
	var s unix.Statx_t
	for {
		err := unix.Statx(unix.AT_FDCWD, name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS, &s)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && s.Attributes&unix.STATX_ATTR_NODUMP != 0
		}
	}
}
