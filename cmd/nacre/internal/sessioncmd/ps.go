package sessioncmd

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/terminal"
)

const (
	// refreshEvery is how often nacre ps -f looks.
	refreshEvery = time.Second
	// clearScreen moves to the upper left corner and empties what is there.
	clearScreen = "\x1b[H\x1b[2J"
)

// workingSession is a session that works now.
type workingSession struct {
	nacre.SessionStatus
	// Questions is how many wait for a person.
	Questions int `json:"questions"`
	// Last is the last thing it told, without secrets.
	Last string `json:"last,omitempty"`
	// Machine is that of a session of another one, whose id is MACHINE/SESSION then.
	Machine string `json:"machine,omitempty"`
}

// PS is nacre ps.
func (c Commands) PS() *cobra.Command {
	var follow bool
	ps := &cobra.Command{
		Use: "ps", Short: "list the sessions that work now, with what they do and ask", Args: command.NoArguments,
		Long: `Lists the sessions that work now: for how long, how many questions wait for you, and what
they did last. Sub-agents stand under the session whose agent asked for them. -f goes on and shows each change, until Ctrl-C. nacre sessions list has those
that are over, too. Where machines share a [store], those of the others are listed as
MACHINE/SESSION; what they were asked and did stays on their machine.`,
		Example: "  nacre ps\n  nacre ps -f",
		RunE: func(cc *cobra.Command, _ []string) error {
			rt, err := c.Open(cc.Context())
			if err != nil {
				return err
			}
			if follow {
				return c.Follow(cc.Context(), func(ctx context.Context) error { return c.watchSessions(ctx, rt) })
			}
			list, err := c.working(cc.Context(), rt)
			if err != nil {
				return err
			}
			return c.printWorking(list)
		},
	}
	ps.Flags().BoolVarP(&follow, "follow", "f", false, "go on, and show each change")
	return ps
}

// working are the sessions that work now, the newest first; those of other machines come last.
func (c Commands) working(ctx context.Context, rt *assembly.Runtime) ([]workingSession, error) {
	all, err := rt.Sessions()
	if err != nil {
		return nil, err
	}
	questions, _ := rt.Approvals(ctx) // of those that can be asked
	list := []workingSession{}
	for _, s := range all {
		if !s.Live() {
			continue
		}
		one := workingSession{SessionStatus: s, Last: lastOf(rt, s.ID)}
		for _, q := range questions {
			if q.Session == s.ID {
				one.Questions++
			}
		}
		list = append(list, one)
	}
	for _, s := range c.others(ctx, rt, true) {
		list = append(list, workingSession{SessionStatus: statusOf(s), Machine: s.Machine})
	}
	return list, nil
}

// lastOf is the last step that a session told.
func lastOf(rt *assembly.Runtime, id nacre.SessionID) string {
	event, found := assembly.NewestEvent(rt, id, "progress", "notice")
	var step nacre.Step
	if !found || json.Unmarshal(event.Data, &step) != nil {
		return ""
	}
	if step.Text == "" {
		return step.Name
	}
	if step.Name == "" {
		return step.Text
	}
	return step.Name + " " + step.Text
}

func (c Commands) printWorking(list []workingSession) error {
	if c.JSON {
		return c.PrintJSON(list)
	}
	p := c.Printer(c.Stdout)
	if len(list) == 0 {
		p.Line("nothing works now")
		return nil
	}
	rows := make([][]string, 0, len(list))
	for _, b := range asTree(list, func(s workingSession) nacre.SessionStatus { return s.SessionStatus }) {
		s, waits := b.session, ""
		if s.Questions > 0 {
			waits = strconv.Itoa(s.Questions) + " waiting"
		}
		rows = append(rows, []string{
			b.name(s.ID), s.Kind, terminal.Seconds(time.Since(s.Started)), string(s.Group), waits, terminal.Summary(s.Last), terminal.Summary(s.Title),
		})
	}
	p.Table([]string{"SESSION", "KIND", "FOR", "GROUP", "QUESTIONS", "LAST", "TITLE"}, rows)
	return nil
}

// watchSessions shows the sessions that work each time something changed.
func (c Commands) watchSessions(ctx context.Context, rt *assembly.Runtime) error {
	var shown []byte
	for {
		list, err := c.working(ctx, rt)
		if err != nil {
			return err
		}
		state, err := json.Marshal(list)
		if err != nil {
			return err
		}
		screen := terminal.Is(c.Stdout) && !c.JSON
		if screen || !bytes.Equal(state, shown) { // on a screen, times pass
			if screen {
				if _, err := c.Stdout.WriteString(clearScreen); err != nil {
					return err
				}
			}
			if err := c.printWorking(list); err != nil {
				return err
			}
			shown = state
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(refreshEvery):
		}
	}
}
