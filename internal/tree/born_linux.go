package tree

import (
	"time"

	"golang.org/x/sys/unix"
)

// born says that an inode was made since: nobody can set when.
func born(dir int, name string, since time.Time) bool {
	var s unix.Statx_t
	err := unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_STATX_DONT_SYNC, unix.STATX_BTIME, &s)
	return err == nil && s.Mask&unix.STATX_BTIME != 0 && !time.Unix(s.Btime.Sec, int64(s.Btime.Nsec)).Before(since)
}
