package search

import "golang.org/x/sys/unix"

// noDump is the kernel's UF_NODUMP.
const noDump = 1

// isUndumped reports whether backups leave a file out.
func isUndumped(name string) bool {
	var s unix.Stat_t
	return unix.Lstat(name, &s) == nil && s.Flags&noDump != 0
}
