//go:build linux

package probe

// machineCalls are those of this architecture.
func machineCalls() []Probe { return nil }
