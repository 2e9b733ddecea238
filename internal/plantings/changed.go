package plantings

import (
	"io/fs"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre/internal/disk"
)

// ChangedSince reports whether the kernel says so, and where it does not say.
func ChangedSince(info fs.FileInfo, since time.Time) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return !ok || !disk.ChangeTime(stat).Before(since)
}
