package atom_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/atom"
)

func TestTheNameThatWasMeant(t *testing.T) {
	known := []string{"sessions", "session", "exec", "audit"}
	for written, meant := range map[string]string{
		"sesions": "sessions", "sesion": "session", "exce": "exec", "adit": "audit",
		"sessionss": "sessions", "kubernetes": "", "e": "", strings.Repeat("a", 1<<20): "",
	} {
		if got := atom.Nearest(written, slices.Values(known)); got != meant {
			t.Errorf("%.20q is taken for %q, not %q", written, got, meant)
		}
	}
}
