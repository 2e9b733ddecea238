package install

// limit bounds nothing: here only a process itself could. How long git runs is bounded, and
// what is kept of what it fetches.
func limit(int) error { return nil }
