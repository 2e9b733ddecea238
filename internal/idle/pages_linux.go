package idle

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// part is a stretch of memory that shows a part of a file.
type part struct {
	from, to uintptr
	// same says that nothing in it differs from the file.
	same bool
}

// GiveBack gives back the pages of the program's own file that can be read from it again.
func GiveBack() error {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	parts, err := partsOf(self)
	for _, p := range parts {
		if !p.same {
			continue
		}
		if _, _, failed := unix.Syscall(unix.SYS_MADVISE, p.from, p.to-p.from, unix.MADV_DONTNEED); failed != 0 {
			err = errors.Join(err, fmt.Errorf("madvise: %w", failed))
		}
	}
	return err
}

// partsOf are the stretches of a file that are shown and that nobody can write to.
func partsOf(file string) (parts []part, err error) {
	list, err := os.Open("/proc/self/smaps")
	if err != nil {
		return nil, err
	}
	defer func() { _ = list.Close() }() // it was only read
	var of *part
	lines := bufio.NewScanner(list)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) == 0:
		case !strings.HasSuffix(fields[0], ":"):
			of = nil
			var p part
			if _, err := fmt.Sscanf(fields[0], "%x-%x", &p.from, &p.to); err == nil && strings.HasPrefix(fields[1], "r-") && strings.HasSuffix(lines.Text(), " "+file) {
				parts = append(parts, p)
				of = &parts[len(parts)-1]
			}
		case of != nil && fields[0] == "Anonymous:":
			of.same = fields[1] == "0"
		}
	}
	return parts, lines.Err()
}
