package install

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// limit bounds what git and its helpers may write and hold.
func limit(pid int) error {
	for resource, most := range map[int]uint64{unix.RLIMIT_FSIZE: gitPack, unix.RLIMIT_AS: gitMemory, unix.RLIMIT_CORE: 0} {
		err := unix.Prlimit(pid, resource, &unix.Rlimit{Cur: most, Max: most}, nil)
		if err != nil && !errors.Is(err, unix.ESRCH) { // it may have ended already
			return fmt.Errorf("limit git: %w", err)
		}
	}
	return nil
}
