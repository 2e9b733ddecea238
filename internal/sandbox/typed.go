package sandbox

import (
	"os"

	"golang.org/x/sys/unix"
)

// Typed reads what a person types, or what else a file brings. Where that is a terminal which a
// shell shares, it is read only while nacre is the job in the foreground. The kernel stops one that
// reads in the background, and with it the end that nacre was told to come to there.
type Typed struct{ In *os.File }

// Read implements [io.Reader].
func (t Typed) Read(p []byte) (int, error) {
	fd := int(t.In.Fd())
	for {
		ready(-1, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
		if inForeground(fd) {
			return t.In.Read(p)
		}
		ready(int(lookTime.Milliseconds()))
	}
}
