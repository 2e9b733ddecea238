//go:build !linux

package program

import "os"

// sealed knows none: what runs in sandboxes is built for Linux, and lies beside nacre.
func sealed([]string, *os.File, *os.File, *os.File) (code int, known bool) { return 0, false }
