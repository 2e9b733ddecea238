package sessioncmd

import (
	"context"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/terminal"
)

// elsewhere takes the name of another machine's session apart; machine is empty where the name is one of
// this machine's.
func elsewhere(name string) (machine string, id nacre.SessionID, err error) {
	before, after, found := strings.Cut(name, "/")
	if !found {
		before, after = "", name
	}
	id, err = nacre.ParseSessionID(after)
	return before, id, err
}

// others are the sessions of the other machines that share a store. What hides some of them is said, and
// keeps nobody from seeing this machine's own.
func (c Commands) others(ctx context.Context, rt *assembly.Runtime, working bool) []assembly.StoreSession {
	list, err := assembly.OtherSessions(ctx, rt, working)
	if err != nil {
		for _, line := range command.Said(err) {
			c.Printer(c.Stderr).Mark("warn", "look", line)
		}
	}
	return list
}

// showOther shows a session of another machine.
func (cmd sessionsCommand) showOther(ctx context.Context, rt *assembly.Runtime, machine string, id nacre.SessionID) error {
	s, err := assembly.OtherSession(ctx, rt, machine, id)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return cmd.PrintJSON(s)
	}
	p := cmd.Printer(cmd.Stdout)
	p.Field("session", "%s · %s · %s · group %s", s.ID, s.Kind, s.State, s.Group)
	p.Field("machine", "%s", s.Machine)
	p.Field("started", "%s", s.Started.Format(time.RFC3339))
	p.Field("outcome", "%s", s.Outcome)
	p.Field("records", "nacre audit show %s", s.Name())
	return nil
}

// statusOf is a session of another machine as it is listed here.
func statusOf(s assembly.StoreSession) nacre.SessionStatus {
	return nacre.SessionStatus{ID: nacre.SessionID(s.Name()), Kind: s.Kind, Group: s.Group, State: s.State, Started: s.Started, Finished: s.Ended, Outcome: s.Outcome}
}

// ago is how long it is since t: t may be to come, where this machine's clock was ahead.
func ago(t time.Time) string {
	if since := time.Since(t); since >= 0 {
		return terminal.Seconds(since) + " ago"
	}
	return "in " + terminal.Seconds(time.Until(t))
}
