package main

import (
	"context"
	"errors"
	"io"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/approval"
	"github.com/nacre-dev/nacre/internal/display"
)

func (a *app) sessionsCommand() *cobra.Command {
	list := &cobra.Command{Use: "list", Short: "list sessions, the newest first", Args: noArguments, Example: "  nacre sessions list",
		RunE: func(c *cobra.Command, _ []string) error { return a.listSessions(c.Context()) }}
	show := &cobra.Command{Use: "show SESSION", Short: "show one session", Args: oneArgument("a session"), Example: "  nacre sessions show k3f9ab",
		RunE: func(c *cobra.Command, args []string) error { return a.showSession(c.Context(), args[0]) }}
	stop := &cobra.Command{Use: "stop SESSION", Short: "end everything that runs in a session, at once", Args: oneArgument("a session"),
		Example: "  nacre sessions stop k3f9ab",
		RunE:    func(c *cobra.Command, args []string) error { return a.stopSession(c.Context(), args[0]) }}
	return group("sessions", "list, show and stop sessions", list, show, stop)
}

func (a *app) listSessions(ctx context.Context) error {
	rt, err := a.open(ctx)
	if err != nil {
		return err
	}
	list, err := rt.Sessions() // with an error, those that can be read
	if a.json {
		return errors.Join(printJSON(a.stdout, list), err)
	}
	rows := make([][]string, 0, len(list))
	for _, s := range list {
		rows = append(rows, []string{string(s.ID), s.Kind, string(s.State), display.Seconds(time.Since(s.Started)) + " ago", string(s.Group), firstLine(s.Title)})
	}
	a.printer(a.stdout).Table([]string{"SESSION", "KIND", "STATE", "STARTED", "GROUP", "TITLE"}, rows)
	return err
}

func (a *app) showSession(ctx context.Context, name string) error {
	id, err := nacre.ParseSessionID(name)
	if err != nil {
		return &usageError{err}
	}
	rt, err := a.open(ctx)
	if err != nil {
		return err
	}
	s, err := rt.Session(id)
	if err != nil {
		return err
	}
	if a.json {
		return printJSON(a.stdout, s)
	}
	p := a.printer(a.stdout)
	p.Field("session", "%s · %s · %s · group %s", s.ID, s.Kind, s.State, s.Group)
	p.Field("title", "%s", s.Title)
	p.Field("project", "%s", s.Project)
	p.Field("started", "%s", s.Started.Format(time.RFC3339))
	p.Field("outcome", "%s", s.Outcome)
	if s.Resumable {
		p.Field("go on", "nacre run --session %s", s.ID)
	}
	return nil
}

func (a *app) stopSession(ctx context.Context, name string) error {
	id, err := nacre.ParseSessionID(name)
	if err != nil {
		return &usageError{err}
	}
	rt, err := a.open(ctx)
	if err != nil {
		return err
	}
	before, err := rt.Session(id)
	if err != nil {
		return err
	}
	started := time.Now()
	s, err := rt.Stop(ctx, id)
	if err != nil {
		return err
	}
	if a.json {
		return printJSON(a.stdout, s)
	}
	p := a.printer(a.stdout)
	if before.Live() {
		p.Field("stopped", "%s in %s", s.ID, display.Seconds(time.Since(started)))
	} else {
		p.Field("stopped", "%s was not running: it is %s", s.ID, s.State)
	}
	if s.Resumable {
		p.Field("go on", "nacre run --session %s", s.ID)
	}
	return nil
}

func (a *app) approvalsCommand() *cobra.Command {
	list := &cobra.Command{Use: "list", Short: "list the questions that wait for a person", Args: noArguments, Example: "  nacre approvals list",
		RunE: func(c *cobra.Command, _ []string) error { return a.listApprovals(c.Context()) }}
	approve := a.rulingCommand("approve", "let a waiting call run, once or for a time", nacre.Allow)
	approve.Example = "  nacre approvals approve 7d2q\n  nacre approvals approve 7d2q --for 15m               the same values again, for 15 minutes\n" +
		"  nacre approvals approve 7d2q --for 15m --scope tool  the tool with any arguments"
	deny := a.rulingCommand("deny", "refuse a waiting call, once or for a time", nacre.Deny)
	deny.Example = "  nacre approvals deny 7d2q\n  nacre approvals deny 7d2q --for 8h --scope tool  never this tool in this session"
	return group("approvals", "answer what agents ask for", list, approve, deny)
}

// rulingCommand answers a question. What stands for a time stands in the
// question's own session only.
func (a *app) rulingCommand(verb, short string, v nacre.Verdict) *cobra.Command {
	var scope string
	ruling := nacre.Ruling{Verdict: v}
	c := &cobra.Command{Use: verb + " ID", Short: short, Args: oneArgument("a question's id")}
	c.Flags().DurationVar(&ruling.For, "for", 0, "let the answer stand so long, up to 8h or the session's end")
	c.Flags().StringVar(&scope, "scope", "same", "what it stands for: same (the same risky values) or tool (any arguments)")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := ruling.Scope.UnmarshalText([]byte(scope)); err != nil {
			return &usageError{err}
		}
		if c.Flags().Changed("scope") && ruling.For == 0 {
			return &usageError{errors.New("--scope goes with --for, such as --for 15m")}
		}
		if ruling.For == 0 {
			ruling.Scope = nacre.ScopeOnce
		}
		return a.answer(c.Context(), args[0], ruling)
	}
	return c
}

func (a *app) listApprovals(ctx context.Context) error {
	rt, err := a.open(ctx)
	if err != nil {
		return err
	}
	questions, unread := rt.Approvals(ctx)
	if a.json {
		return errors.Join(printJSON(a.stdout, append([]nacre.Question{}, questions...)), unread)
	}
	p := a.printer(a.stdout)
	if len(questions) == 0 && unread == nil {
		p.Line("nothing is waiting")
	}
	for _, q := range questions {
		if _, err := io.WriteString(a.stdout, approval.Render(q)); err != nil {
			return err
		}
		p.Line("    nacre approvals approve %s [--for 15m]   or   nacre approvals deny %s", q.ID, q.ID)
	}
	return unread
}

func (a *app) answer(ctx context.Context, id string, ruling nacre.Ruling) error {
	rt, err := a.open(ctx)
	if err != nil {
		return err
	}
	ruling.By = operator() + " in another terminal"
	if err := rt.Answer(ctx, id, ruling); err != nil {
		return err
	}
	if a.json {
		return printJSON(a.stdout, map[string]any{"id": id, "verdict": ruling.Verdict, "for_seconds": int(ruling.For / time.Second), "scope": ruling.Scope})
	}
	a.printer(a.stdout).Field("answered", "%s: %s", id, approval.Describe(ruling))
	return nil
}

// operator is who answers: the operating system's word, not the environment's.
func operator() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "operator"
}
