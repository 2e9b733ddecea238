package sandbox

import ()

// Identity is a process that no later one can be mistaken for.
type Identity struct {
	Boot  string `json:"boot"`
	Pid   int    `json:"pid"`
	Start string `json:"start"` // clock ticks after boot
}

// Lives reports whether the process is there and is the same one.
func (i Identity) Lives() bool {
	now, err := Identify(i.Pid)
	return err == nil && now == i
}
