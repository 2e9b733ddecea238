package registry

import (
	"os"

	"golang.org/x/sys/unix"
)

// takeLock takes an open-file-description lock, or fails where somebody has it: it ends with the
// last descriptor, which is when the process ends, however it ends.
func takeLock(file *os.File) error {
	return unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
}

// freeLock lets go at once, whoever has inherited the descriptor.
func freeLock(file *os.File) error {
	return unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK})
}

// askLock is the kernel's question for whoever has the lock.
const askLock = unix.F_OFD_GETLK
