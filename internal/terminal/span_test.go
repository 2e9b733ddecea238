package terminal_test

import (
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/terminal"
)

// U-12: a time is shown in the units that a person would take, and none is less than nothing.
func TestATimeIsShownAsAPersonReadsIt(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Hour: "0 ms", 340 * time.Millisecond: "340 ms", 59*time.Second + 940*time.Millisecond: "59.9 s", 61 * time.Second: "1:01",
		59*time.Minute + 59*time.Second: "59:59", 75*time.Minute + 3*time.Second: "1:15:03", 47 * time.Hour: "47:00:00", 90 * time.Hour: "3 days",
	} {
		if have := terminal.Seconds(d); have != want {
			t.Errorf("%s: have %q, want %q", d, have, want)
		}
	}
}
