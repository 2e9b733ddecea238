//go:build linux

package inside

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/sandbox/seccomp"
)

// runCheck tries, in the namespaces of a sandbox, the steps that kernels and
// their administrators are known to forbid.
func runCheck() error {
	if _, _, e := syscall.AllThreadsSyscall(unix.SYS_GETPID, 0, 0, 0); e != 0 {
		return fmt.Errorf(LinkedWithC+": %w", e)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mounts in a user namespace: %w", err)
	}
	fd, err := newTmpfs(rootSize, 0o755, 0, 0)
	if err != nil {
		return fmt.Errorf("tmpfs in a user namespace: %w", err)
	}
	_ = unix.Close(fd)
	fd, err = newMount("proc", baseAttributes|unix.MOUNT_ATTR_NOEXEC, [][2]string{{"hidepid", "ptraceable"}})
	if err != nil {
		return fmt.Errorf("proc in a user namespace: %w", err)
	}
	_ = unix.Close(fd)
	if err := raiseLoopback(); err != nil {
		return err
	}
	if _, err := seccomp.Program(seccomp.Options{}); err != nil {
		return err
	}
	return nil
}

// LinkedWithC is why a binary cannot be PID 1 whose threads are C's.
const LinkedWithC = "this binary is linked with C and cannot be PID 1"
