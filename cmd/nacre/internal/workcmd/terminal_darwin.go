package workcmd

import "golang.org/x/sys/unix"

// forget drops what was typed at a terminal and not read.
func forget(terminal int) error {
	const input = 1 // FREAD
	return unix.IoctlSetPointerInt(terminal, unix.TIOCFLUSH, input)
}

// replace makes one descriptor what another one is.
func replace(from, to int) error { return unix.Dup2(from, to) }
