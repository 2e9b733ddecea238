package idle

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// inode is where a line of the list has the number of a file, or 0.
const inode = 4

// part is a stretch of memory.
type part struct{ from, to uintptr }

// GiveBack gives back the pages of the program's own file that can be read from it again, and the
// memory that is free. Huge pages are for who works: one that rests would keep what is free in them.
func GiveBack() error {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	shown, own, err := partsOf(self)
	if err != nil {
		return err
	}
	_ = advise(own, unix.MADV_NOHUGEPAGE) // a kernel without huge pages refuses to do without them
	debug.FreeOSMemory()
	return advise(shown, unix.MADV_DONTNEED) // last, for the collector reads the file too
}

func advise(parts []part, advice uintptr) (err error) {
	for _, p := range parts {
		if _, _, failed := unix.Syscall(unix.SYS_MADVISE, p.from, p.to-p.from, advice); failed != 0 {
			err = errors.Join(err, fmt.Errorf("madvise: %w", failed))
		}
	}
	return err
}

// partsOf are the stretches of a file that are shown, that nobody can write to and nobody has changed.
// Beside them it returns the memory of the process that is of no file.
func partsOf(file string) (shown, own []part, err error) {
	list, err := os.Open("/proc/self/smaps")
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = list.Close() }() // it was only read
	var p part
	of := false
	lines := bufio.NewScanner(list)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) == 0:
		case !strings.HasSuffix(fields[0], ":"):
			_, err := fmt.Sscanf(fields[0], "%x-%x", &p.from, &p.to)
			of = err == nil && strings.HasPrefix(fields[1], "r-") && strings.HasSuffix(lines.Text(), " "+file)
			if err == nil && fields[1] == "rw-p" && fields[inode] == "0" {
				own = append(own, p)
			}
		case of && fields[0] == "Anonymous:" && fields[1] == "0":
			shown = append(shown, p)
		}
	}
	return shown, own, lines.Err()
}
