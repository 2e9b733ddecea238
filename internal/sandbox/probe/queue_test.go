package probe_test

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// openQueue makes a POSIX message queue.
func openQueue(name *byte) (int, unix.Errno) {
	fd, _, e := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_CREAT|unix.O_RDWR, 0o600, 0, 0, 0)
	return int(fd), e
}

func removeQueue(name *byte) {
	_, _, _ = unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(name)), 0, 0)
}
