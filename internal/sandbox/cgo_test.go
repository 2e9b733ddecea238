//go:build cgo

package sandbox_test

import (
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/sandbox"
)

// linkedWithC says that this binary cannot be PID 1: a program with C threads
// cannot give up its powers in all of them. The race detector needs C.
const linkedWithC = true

// F-08: a program with C threads that would have to be PID 1 says that first, and what helps.
func TestAProgramWithCThreadsSaysWhyItSealsNothing(t *testing.T) {
	b, err := sandbox.Open(sandbox.Options{StateDir: t.TempDir()})
	if err == nil {
		_, err = b.Start(t.Context(), command("true"))
		t.Cleanup(func() { _ = b.Close() })
	}
	if err == nil || !strings.HasPrefix(err.Error(), "sandbox: this nacre was built with cgo") || !strings.Contains(err.Error(), "CGO_ENABLED=0") {
		t.Errorf("have %v", err)
	}
}
