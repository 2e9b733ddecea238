package sandbox_test

import (
	"context"
	"testing"

	"github.com/nacre-dev/nacre/internal/sandbox"
)

// M-16: a start waits until what is left to the user is known, so whoever watches
// says so each time, whether or not there is anything to watch.
func TestWhoWatchesAUserSaysWhenASandboxMayStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	looked := 0
	if why := sandbox.WatchUser(ctx, func() { looked++ }); why != "" || looked != 1 {
		t.Errorf("have %q, and said so %d times", why, looked)
	}
}
