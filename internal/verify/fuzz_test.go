package verify_test

import (
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/verify"
)

// FuzzFunctions: whatever the source, each function lies within it.
func FuzzFunctions(f *testing.F) {
	for _, c := range sized {
		f.Add(c.source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		spans, err := verify.Functions([]byte(source))
		if err != nil {
			return
		}
		lines := 1 + strings.Count(source, "\n")
		for _, s := range spans {
			if s[0] < 1 || s[1] < s[0] || s[1] > lines {
				t.Fatalf("lines %d to %d of %d", s[0], s[1], lines)
			}
		}
	})
}
