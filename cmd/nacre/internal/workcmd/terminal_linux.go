package workcmd

import "golang.org/x/sys/unix"

// forget drops what was typed at a terminal and not read.
func forget(terminal int) error { return unix.IoctlSetInt(terminal, unix.TCFLSH, unix.TCIFLUSH) }

// replace makes one descriptor what another one is.
func replace(from, to int) error { return unix.Dup3(from, to, 0) }
