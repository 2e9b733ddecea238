package sessioncmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/terminal"
)

type sessionsCommand Commands

func (cmd sessionsCommand) command() *cobra.Command {
	list := &cobra.Command{Use: "list", Short: "list sessions, the newest first", Args: command.NoArguments, Example: "  nacre sessions list",
		RunE: func(c *cobra.Command, _ []string) error { return cmd.listSessions(c.Context()) }}
	show := &cobra.Command{Use: "show SESSION", Short: "show one session; one of another machine as MACHINE/SESSION", Args: command.OneArgument("a session"), Example: "  nacre sessions show k3f9ab",
		RunE: func(c *cobra.Command, args []string) error { return cmd.showSession(c.Context(), args[0]) }}
	stop := &cobra.Command{Use: "stop SESSION", Short: "end everything that runs in a session, at once", Args: command.OneArgument("a session"),
		Example: "  nacre sessions stop k3f9ab",
		RunE:    func(c *cobra.Command, args []string) error { return cmd.stopSession(c.Context(), args[0]) }}
	command.Completes(show, Commands(cmd).sessionIDs)
	command.Completes(stop, Commands(cmd).sessionIDs)
	giveUp := &cobra.Command{Use: "give-up SESSION", Short: "end the unfinished work of a session for good", Args: command.OneArgument("a session"),
		Long: `Ends work that was interrupted: nobody goes on with it, its run is failed in the ledger,
and its agent's id is free. Its files stay where they are. A session that runs is stopped first.`,
		Example: "  nacre sessions give-up k3f9ab",
		RunE:    func(c *cobra.Command, args []string) error { return cmd.giveUp(c.Context(), args[0]) }}
	command.Completes(giveUp, Commands(cmd).sessionIDs)
	return command.Group("sessions", "list and stop sessions; take or throw away what did not land", list, show, stop, giveUp,
		cmd.diffCommand(), cmd.applyCommand(), cmd.branchCommand(), cmd.signCommand(), cmd.discardCommand(), cmd.removeCommand(), cmd.pruneCommand())
}

// sessionIDs are the sessions that there are, for completion.
func (c Commands) sessionIDs(ctx context.Context) ([]command.Offered, error) {
	rt, err := c.Open(ctx)
	if err != nil {
		return nil, err
	}
	list, err := rt.Sessions()
	offered := make([]command.Offered, 0, len(list))
	for _, s := range list {
		offered = append(offered, command.Offered{Word: string(s.ID), About: s.Kind + ", " + string(s.State)})
	}
	return offered, err
}

func (cmd sessionsCommand) listSessions(ctx context.Context) error {
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	Commands(cmd).settleRuns(ctx, rt)
	list, err := assembly.ListSessions(ctx, rt) // with an error, those that can be read
	for _, s := range Commands(cmd).others(ctx, rt, false) {
		list = append(list, assembly.ListedSession{SessionStatus: statusOf(s), Machine: s.Machine})
	}
	if cmd.JSON {
		return errors.Join(cmd.PrintJSON(list), err)
	}
	rows := make([][]string, 0, len(list))
	for _, b := range asTree(list, func(s assembly.ListedSession) nacre.SessionStatus { return s.SessionStatus }) {
		s, work := b.session, ""
		if s.Unlanded {
			work = "not landed"
		}
		rows = append(rows, []string{
			b.name(s.ID), s.Kind, string(s.State), ago(s.Started), string(s.Group), work, diskText(s), terminal.Summary(s.Title),
		})
	}
	cmd.Printer(cmd.Stdout).Table([]string{"SESSION", "KIND", "STATE", "STARTED", "GROUP", "WORK", "DISK", "TITLE"}, rows)
	return err
}

func (cmd sessionsCommand) showSession(ctx context.Context, name string) error {
	machine, id, err := elsewhere(name)
	if err != nil {
		return command.UsageOf(err)
	}
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	if machine != "" {
		return cmd.showOther(ctx, rt, machine, id)
	}
	s, err := rt.Session(id)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return cmd.PrintJSON(s)
	}
	p := cmd.Printer(cmd.Stdout)
	p.Field("session", "%s · %s · %s · group %s", s.ID, s.Kind, s.State, s.Group)
	p.Field("title", "%s", s.Title)
	if s.Parent != "" {
		p.Field("parent", "%s", s.Parent)
	}
	p.Field("project", "%s", s.Project)
	p.Field("started", "%s", s.Started.Format(time.RFC3339))
	p.Field("outcome", "%s", s.Outcome)
	if c := s.FailedCheck; c != nil {
		p.Prose("failed", fmt.Sprintf("the check %q ended with %d; the last that it printed:", c.Command, c.ExitCode))
		p.Output(c.Tail, len(c.Tail)) // all that was kept
	}
	if s.Resumable {
		p.Field("go on", "nacre run --session %s", s.ID)
	}
	return nil
}

func (cmd sessionsCommand) stopSession(ctx context.Context, name string) error {
	id, rt, err := Commands(cmd).session(ctx, name)
	if err != nil {
		return err
	}
	before, err := rt.Session(id)
	if err != nil {
		return err
	}
	started := time.Now()
	s, err := rt.Stop(ctx, id, cmd.tellKilled)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return cmd.PrintJSON(s)
	}
	p := cmd.Printer(cmd.Stdout)
	if before.Live() {
		p.Field("stopped", "%s in %s", s.ID, terminal.Seconds(time.Since(started)))
	} else {
		p.Field("stopped", "%s was not running: it is %s", s.ID, s.State)
	}
	if s.Resumable {
		p.Field("go on", "nacre run --session %s", s.ID)
	}
	return nil
}

// tellKilled says what a session left whose process was killed.
func (cmd sessionsCommand) tellKilled(k assembly.Killed) {
	for _, line := range k.Lines() {
		cmd.Printer(cmd.Stderr).Mark("warn", "look", line)
	}
}

func (cmd sessionsCommand) giveUp(ctx context.Context, name string) error {
	id, rt, err := Commands(cmd).session(ctx, name)
	if err != nil {
		return err
	}
	if err := assembly.GiveUp(ctx, rt, id, command.Operator(), cmd.tellKilled); err != nil {
		return err
	}
	cmd.Printer(cmd.Stdout).Field("given up", "%s", id)
	return nil
}

// settleRuns completes what killed runs left, before anybody looks at it, and names
// what cannot be completed (F-105).
func (c Commands) settleRuns(ctx context.Context, rt *assembly.Runtime) {
	if err := assembly.SettleRuns(ctx, rt); err != nil {
		for _, line := range command.Said(err) {
			c.Printer(c.Stderr).Mark("warn", "look", line)
		}
	}
}
