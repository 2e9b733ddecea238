package tree

import "time"

// born is never said: here the owner of a file can set when it was made.
func born(int, string, time.Time) bool { return false }
