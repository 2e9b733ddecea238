package terminal_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nacre-dev/nacre/internal/terminal"
)

// U-10: a terminal that takes no output is waited for, and holds up the end of a process for
// some seconds in all, however much is still written.
func TestATerminalHoldsUpNoEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan struct{})
		ending := terminal.NewEnding(told)
		shown, out := io.Pipe()
		stdout, stderr := ending.Writer(out), ending.Writer(out)
		began := time.Now()
		go func() {
			time.Sleep(time.Hour)
			text := make([]byte, 5)
			_, _ = io.ReadFull(shown, text)
			close(told)
		}()
		if n, err := io.WriteString(stdout, "first"); n != 5 || err != nil || time.Since(began) < time.Hour {
			t.Fatalf("before its end: %d, %v, after %v", n, err, time.Since(began))
		}
		synctest.Wait()
		for _, stream := range []io.Writer{stdout, stderr, stdout} {
			if _, err := io.WriteString(stream, "last"); !errors.Is(err, terminal.ErrHeld) {
				t.Errorf("at its end: %v", err)
			}
		}
		if waited := time.Since(began) - time.Hour; waited > 10*time.Second {
			t.Errorf("the end took %v", waited)
		}
		_ = shown.Close()
	})
}

// What a terminal takes is shown, also at the end of a process.
func TestATerminalShowsTheEnd(t *testing.T) {
	t.Parallel()
	told := make(chan struct{})
	close(told)
	var shown strings.Builder
	stream := terminal.NewEnding(told).Writer(&shown)
	for range 100 {
		if _, err := io.WriteString(stream, "x"); err != nil {
			t.Fatal(err)
		}
	}
	if shown.Len() != 100 {
		t.Errorf("shown: %q", shown.String())
	}
}
