package terminal_test

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nacre-dev/nacre/internal/terminal"
)

// U-10: a terminal that nobody reads is waited for once, and not long. What was printed meanwhile is
// shown when it goes on, as far as there was room, and in order.
func TestATerminalThatIsStoppedHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shown, out := io.Pipe()
		printer := terminal.New(terminal.NewUnheld(out), terminal.Style{})
		began := time.Now()
		for range 3 {
			printer.Line("a line")
		}
		if waited := time.Since(began); waited <= 0 || waited > 10*time.Second {
			t.Errorf("%v were waited", waited)
		}
		for range 100 {
			printer.Line("%s", strings.Repeat("x", 64<<10))
		}
		text := make(chan string)
		go func() {
			all, _ := io.ReadAll(shown)
			text <- string(all)
		}()
		synctest.Wait()
		printer.Line("the last")
		_ = out.Close()
		have := <-text
		if !strings.HasPrefix(have, "a line\na line\na line\nxxx") || !strings.Contains(have, "bytes were left out") || !strings.HasSuffix(have, "the last\n") || len(have) > 2<<20 {
			t.Errorf("%d bytes, %.60q", len(have), have)
		}
	})
}

// A terminal that is gone is told to whoever writes, and one that is read takes all at once.
func TestATerminalThatIsReadIsWaitedFor(t *testing.T) {
	t.Parallel()
	var shown lockedText
	unheld := terminal.NewUnheld(&shown)
	for range 100 {
		before := len(shown.String())
		if n, err := unheld.Write([]byte("line\n")); n != 5 || err != nil || len(shown.String()) != before+5 {
			t.Fatalf("%d %v %q", n, err, shown.String())
		}
	}
	gone, out := io.Pipe()
	_ = gone.Close()
	if _, err := terminal.NewUnheld(out).Write([]byte("line\n")); err == nil {
		t.Error("nobody was told that the terminal is gone")
	}
}
