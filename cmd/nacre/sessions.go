package main

import (
	"context"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
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
	list, err := rt.Sessions()
	if err != nil {
		return err
	}
	if a.json {
		return printJSON(a.stdout, list)
	}
	rows := make([][]string, 0, len(list))
	for _, s := range list {
		rows = append(rows, []string{string(s.ID), s.Kind, string(s.State), display.Seconds(time.Since(s.Started)) + " ago", string(s.Group), s.Title})
	}
	a.printer(a.stdout).Table([]string{"SESSION", "KIND", "STATE", "STARTED", "GROUP", "TITLE"}, rows)
	return nil
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
	approve := &cobra.Command{Use: "approve ID", Short: "let a waiting call run, once", Args: oneArgument("a question's id"), Example: "  nacre approvals approve 7d2q",
		RunE: func(c *cobra.Command, args []string) error { return a.answer(c.Context(), args[0], nacre.Allow) }}
	deny := &cobra.Command{Use: "deny ID", Short: "refuse a waiting call", Args: oneArgument("a question's id"), Example: "  nacre approvals deny 7d2q",
		RunE: func(c *cobra.Command, args []string) error { return a.answer(c.Context(), args[0], nacre.Deny) }}
	return group("approvals", "answer what agents ask for", list, approve, deny)
}

func (a *app) listApprovals(ctx context.Context) error {
	rt, err := a.open(ctx)
	if err != nil {
		return err
	}
	questions, err := rt.Approvals(ctx)
	if err != nil {
		return err
	}
	if a.json {
		return printJSON(a.stdout, append([]nacre.Question{}, questions...))
	}
	p := a.printer(a.stdout)
	if len(questions) == 0 {
		p.Line("nothing is waiting")
	}
	for _, q := range questions {
		p.Question(q, time.Now())
	}
	return nil
}

func (a *app) answer(ctx context.Context, id string, v nacre.Verdict) error {
	rt, err := a.open(ctx)
	if err != nil {
		return err
	}
	if err := rt.Answer(ctx, id, v, operator()+" in another terminal"); err != nil {
		return err
	}
	if a.json {
		return printJSON(a.stdout, map[string]any{"id": id, "verdict": v})
	}
	a.printer(a.stdout).Field("answered", "%s: %s", id, v)
	return nil
}

// operator is who answers: the operating system's word, not the environment's.
func operator() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "operator"
}
