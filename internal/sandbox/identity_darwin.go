package sandbox

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/disk"
)

// zombie is the kernel's state of a process that has ended and was not waited for.
const zombie = 5

// Identify returns the identity of a living process.
func Identify(pid int) (Identity, error) {
	boot, err := disk.Boot()
	if err != nil {
		return Identity{}, err
	}
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(p.Proc.P_pid) != pid || p.Proc.P_stat == zombie {
		return Identity{}, fmt.Errorf("process %d: %w", pid, os.ErrNotExist)
	}
	return Identity{boot, pid, fmt.Sprintf("%d.%06d", p.Proc.P_starttime.Sec, p.Proc.P_starttime.Usec)}, nil
}
