package workcmd

import (
	"context"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
)

const (
	// maxHeldShown is how many lines of what is held a terminal shows at the end of a run.
	maxHeldShown = 200
	// diffHead begins the part of a difference that is of one file.
	diffHead = "diff --git "
)

// showHeld shows, where a person is asked to look at what programs of the host obey, how those
// files differ (M-67). A script asks for it itself.
func (f *face) showHeld(ctx context.Context, rt *assembly.Runtime, r assembly.Report) error {
	if f.env.JSON || r.Landed || r.Paused != "" || passed(r.Checks) != len(r.Checks) || !slices.ContainsFunc(r.Changes, func(c nacre.Change) bool { return c.Held }) {
		return nil
	}
	left, err := assembly.LeftoverOf(ctx, rt, r.Session, func(assembly.Killed) {})
	if err != nil {
		return err
	}
	lines := heldLines(left.Diff, r.Changes)
	for _, line := range lines[:min(len(lines), maxHeldShown)] {
		f.printer.Line("         %s", strings.ReplaceAll(line, "\t", "        "))
	}
	if left.Cut || len(lines) > maxHeldShown {
		f.printer.Line("         there is more: nacre sessions diff %s", r.Session)
	}
	return nil
}

// heldLines are those of a difference that are not of a file which is known to be nobody's to hold.
func heldLines(diff string, changes []nacre.Change) (lines []string) {
	plain := false
	for line := range strings.Lines(diff) {
		line = strings.TrimRight(line, "\r\n")
		if of, is := strings.CutPrefix(line, diffHead); is {
			plain = slices.ContainsFunc(changes, func(c nacre.Change) bool { return !c.Held && of == "a/"+c.Path+" b/"+c.Path })
		}
		if !plain {
			lines = append(lines, line)
		}
	}
	return lines
}
