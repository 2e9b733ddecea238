package registry

import "github.com/nacre-dev/nacre/internal/disk"

// Readable says why a person's folder cannot be read or entered, and what to do: see [disk.Readable].
func Readable(dir string) error { return disk.Readable(dir) }
