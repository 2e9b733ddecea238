package config

import "cmp"

// OrDot is the folder, or the current one where none was given.
func OrDot(dir string) string { return cmp.Or(dir, ".") }
