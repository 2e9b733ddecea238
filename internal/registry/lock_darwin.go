package registry

import (
	"os"

	"golang.org/x/sys/unix"
)

// takeLock takes a lock of the open file, or fails where somebody has it: it ends with the
// last descriptor, which is when the process ends, however it ends.
func takeLock(file *os.File) error {
	return unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
}

// freeLock lets go at once, whoever has inherited the descriptor.
func freeLock(file *os.File) error { return unix.Flock(int(file.Fd()), unix.LOCK_UN) }

// askLock is the kernel's question for whoever has the lock: here locks of both kinds are
// in one list, and each is seen by the other.
const askLock = unix.F_GETLK
