package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/assembly"
)

// S-12: that a run was interrupted is said where somebody asked for it, by a
// signal or by nacre sessions stop, and never of what broke off by itself.
func TestOnlyWhatWasInterruptedSaysSo(t *testing.T) {
	t.Parallel()
	broke := fmt.Errorf("start plugin: %w", context.Canceled)
	for name, c := range map[string]struct {
		err         error
		interrupted bool
		code        int
		says        string
	}{
		"a signal":                              {context.Canceled, true, exitInterrupted, "interrupted before anything was begun"},
		"stopped from outside":                  {assembly.ErrStopped, false, exitInterrupted, "interrupted before anything was begun"},
		"a part that was cancelled":             {broke, false, exitFailed, "start plugin: context canceled"},
		"beside what went wrong":                {errors.Join(errors.New("disk full"), context.Canceled), false, exitFailed, "disk full"},
		"a usage error, while a signal arrives": {usage("no task"), true, exitUsage, "no task"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told strings.Builder
			a := &app{interrupted: func() bool { return c.interrupted }}
			if code := a.report(&told, c.err); code != c.code || !strings.Contains(told.String(), c.says) {
				t.Errorf("have %d %q, want %d %q", code, told.String(), c.code, c.says)
			}
		})
	}
}
