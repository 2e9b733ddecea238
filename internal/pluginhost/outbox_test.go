package pluginhost_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// P-05: a line is written by who sends it where the pipe takes it at once. What the pipe does not
// take waits, whole and in order, though many send at once.
func TestLinesThatAPipeDoesNotTakeAtOnceWait(t *testing.T) {
	h := mode(t, "sdk", options(t), "echo")
	var calls sync.WaitGroup
	for i := range 32 {
		calls.Go(func() {
			for j := range 4 {
				// One line is more than half of what a pipe holds.
				text := fmt.Sprintf("%d.%d.%s", i, j, strings.Repeat("x", 40<<10))
				have, err := h.call(t.Context(), "echo", fmt.Sprintf(`{"text":%q}`, text))
				if err != nil || !strings.Contains(have, text) {
					t.Errorf("call %d.%d: %d bytes, %v", i, j, len(have), err)
				}
			}
		})
	}
	calls.Wait()
}
