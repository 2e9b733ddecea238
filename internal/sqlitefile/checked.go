package sqlitefile

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// checkedAttribute is where a file says when all of it was read, and how it looked.
	checkedAttribute = "user.nacre.checked"
	// maxStamp is the longest value of it, in bytes.
	maxStamp = 256
	// checkedFor is how long a file that looks the same is not read again: damage that
	// comes without a write is found then.
	checkedFor = 24 * time.Hour
	// bootFile changes with each start of the machine, after which all is read again.
	bootFile = "/proc/sys/kernel/random/boot_id"
)

// Recheck has the next Open read all of a file, however it looks. A file that is not
// there has nothing to be read.
func Recheck(path string) { _ = unix.Lremovexattr(path, checkedAttribute) }

// look says how a file looks from outside: what writes to it changes that. It does not
// open the file, see lookAt.
func look(path string) (string, bool) {
	boot, err := os.ReadFile(bootFile)
	if err != nil {
		return "", false
	}
	info, err := os.Lstat(path)
	if err != nil {
		return "", false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", false
	}
	return fmt.Sprintf("%s %d %d %d %d", strings.TrimSpace(string(boot)), stat.Dev, stat.Ino, stat.Size, info.ModTime().UnixNano()), true
}

// inodeOf is which file is at a path; 0 where that is not known.
func inodeOf(path string) uint64 {
	info, err := os.Lstat(path)
	if err != nil {
		return 0
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return stat.Ino
}

// checked gives when all of a file was read last, where it looks as it did since.
func checked(path string) (at time.Time, ok bool) {
	when, looked, _ := strings.Cut(noted(path), " ")
	now, known := look(path)
	seconds, err := strconv.ParseInt(when, 10, 64)
	at = time.Unix(seconds, 0)
	age := time.Since(at)
	return at, err == nil && known && looked == now && age >= 0 && age < checkedFor
}

// keepChecked notes that a file as it looks now is what was read, or what SQLite has made of it
// since. Where the file system keeps no such notes, it is read each time. A note that is there
// already is left alone. Some file systems, tmpfs among them, would hold the file for changed, and
// whoever looks at it from outside would think that something was done to it.
func keepChecked(path string, at time.Time) {
	looks, ok := look(path)
	if !ok {
		return
	}
	note := strconv.FormatInt(at.Unix(), 10) + " " + looks
	if noted(path) != note {
		_ = unix.Lsetxattr(path, checkedAttribute, []byte(note), 0)
	}
}

// noted is what a file says of when it was read; empty where it says nothing.
func noted(path string) string {
	value := make([]byte, maxStamp)
	n, err := unix.Lgetxattr(path, checkedAttribute, value)
	if err != nil {
		return ""
	}
	return string(value[:n])
}
