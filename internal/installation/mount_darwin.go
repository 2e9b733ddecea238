package installation

import "golang.org/x/sys/unix"

// readOnlyMount is the flag of a file system that nobody can write to.
const readOnlyMount = unix.MNT_RDONLY
