package sandbox_test

import (
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/sandbox"
)

// P-01: /usr is one mount, however many programs this machine has in it, and what
// nacre brings along is in no folder that is bound as it is.
func TestTheMachinesToolsAreOneMount(t *testing.T) {
	below := 0
	for _, m := range sandbox.SystemMounts() {
		if m.Target == "/usr" || strings.HasPrefix(m.Target, "/usr/") {
			below++
		}
		if strings.HasPrefix(posture.BinDir+"/", m.Target+"/") {
			t.Errorf("%s is bound from the host, and nothing can be added to it: %s", m.Target, posture.BinDir)
		}
	}
	if below != 1 {
		t.Errorf("have %d mounts for /usr, want 1", below)
	}
}
