package posture

import "strings"

// Isolated reports whether a runtime of this name puts a kernel of its own
// between the agent and the machine's: gVisor or a virtual machine (M-14).
func Isolated(runtime string) bool {
	for _, class := range []string{"runsc", "kata", "io.containerd.runsc", "io.containerd.kata"} {
		if rest, ok := strings.CutPrefix(runtime, class); ok && (rest == "" || strings.ContainsRune("-._", rune(rest[0]))) {
			return true
		}
	}
	return false
}
