package sessioncmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/approval"
	"github.com/nacre-dev/nacre/internal/terminal"
)

type approvalsCommand Commands

func (cmd approvalsCommand) command() *cobra.Command {
	list := &cobra.Command{Use: "list", Short: "list the questions that wait for a person", Args: command.NoArguments, Example: "  nacre approvals list",
		RunE: func(c *cobra.Command, _ []string) error { return cmd.listApprovals(c.Context()) }}
	approve := cmd.rulingCommand("approve", "let a waiting call run, once or for a time", nacre.Allow)
	approve.Example = "  nacre approvals approve 7d2q\n  nacre approvals approve 7d2q --for 15m               the same values again, for 15 minutes\n" +
		"  nacre approvals approve 7d2q --times 3               this call and two more with the same values\n" +
		"  nacre approvals approve 7d2q --for 15m --scope tool  the tool with any arguments"
	deny := cmd.rulingCommand("deny", "refuse a waiting call, once or for a time", nacre.Deny)
	deny.Example = "  nacre approvals deny 7d2q\n  nacre approvals deny 7d2q --for 8h --scope tool  never this tool in this session"
	return command.Group("approvals", "answer what agents ask for", list, cmd.waitingCommand(), cmd.showCommand(), approve, deny)
}

// waitingCommand lists all that waits, of whatever kind.
func (cmd approvalsCommand) waitingCommand() *cobra.Command {
	return &cobra.Command{
		Use: "waiting", Short: "list all that waits for a person: questions, landings, pairings, sign-ins, powers, memories, proposals", Args: command.NoArguments,
		Example: "  nacre approvals waiting",
		RunE:    func(c *cobra.Command, _ []string) error { return cmd.waiting(c.Context()) },
	}
}

func (cmd approvalsCommand) waiting(ctx context.Context) error {
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	all, unread := assembly.Everything(ctx, rt)
	if cmd.JSON {
		return errors.Join(cmd.PrintJSON(append([]assembly.Waiting{}, all...)), unread)
	}
	p := cmd.Printer(cmd.Stdout)
	if len(all) == 0 && unread == nil {
		p.Line("nothing is waiting")
		return nil
	}
	rows := make([][]string, 0, len(all))
	for _, w := range all {
		since, expires := "", "never"
		if !w.Since.IsZero() {
			since = w.Since.Local().Format(time.DateTime)
		}
		if !w.Expires.IsZero() {
			expires = w.Expires.Local().Format(time.DateTime)
		}
		rows = append(rows, []string{w.Kind, w.ID, since, expires, w.What, w.Next})
	}
	p.Table([]string{"KIND", "ID", "SINCE", "EXPIRES", "WHAT", "NEXT"}, rows)
	return unread
}

// showCommand shows one question whole (U-12).
func (cmd approvalsCommand) showCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "show ID", Short: "show all that a question asks: each argument whole, and where its values come from", Args: command.OneArgument("a question's id"),
		Long: `Shows one waiting question whole, where lists and terminals cut long arguments. What the agent
wrote is shown, and can do nothing to your terminal. --json has the arguments as they would run.`,
		Example: "  nacre approvals show 7d2q",
		RunE:    func(c *cobra.Command, args []string) error { return cmd.showQuestion(c.Context(), args[0]) },
	}
	command.Completes(c, cmd.pending)
	return c
}

func (cmd approvalsCommand) showQuestion(ctx context.Context, id string) error {
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	questions, unread := rt.Approvals(ctx)
	at := slices.IndexFunc(questions, func(q nacre.Question) bool { return q.ID == id })
	switch {
	case at < 0 && unread != nil:
		return fmt.Errorf("no pending question %.80q in any session that could be reached: %w", id, unread)
	case at < 0:
		return fmt.Errorf("no question %.80q is waiting: it was answered, it expired, or its session ended; nacre approvals list", id)
	case cmd.JSON:
		return cmd.PrintJSON(questions[at])
	}
	p := cmd.Printer(cmd.Stdout)
	for line := range strings.Lines(approval.Folded(p.Shown(approval.RenderWhole(questions[at])), terminal.Columns(cmd.Stdout))) {
		p.Line("%s", strings.TrimSuffix(line, "\n"))
	}
	p.Line("    session    %s", questions[at].Session)
	whole := ""
	if approval.IsCut(questions[at]) {
		whole = " --whole"
	}
	p.Line("    nacre approvals approve %s%s [--times 3] [--for 15m] [--scope exact]   or   nacre approvals deny %s", id, whole, id)
	if questions[at].Text != nil {
		p.Line("    nacre approvals approve %s%s --scope text   to trust all that the text says, until the session ends", id, whole)
	}
	if errors.Is(unread, approval.ErrUnsigned) {
		return unread // it may be this one
	}
	return nil
}

// rulingCommand answers a question. What stands for a time stands in the
// question's own session only.
func (cmd approvalsCommand) rulingCommand(verb, short string, v nacre.Verdict) *cobra.Command {
	var scope string
	whole := v == nacre.Deny
	ruling := nacre.Ruling{Verdict: v}
	c := &cobra.Command{Use: verb + " ID", Short: short, Args: command.OneArgument("a question's id")}
	c.Flags().DurationVar(&ruling.For, "for", 0, "let the answer stand so long, up to 8h or the session's end")
	c.Flags().IntVar(&ruling.Times, "times", 0, "let the answer stand for so many calls, this one among them")
	c.Flags().StringVar(&scope, "scope", "same", "what it stands for: exact (the same arguments), same (the same risky values) or tool (any arguments). With text, what the text says that all the values are from is trusted until the session ends")
	if v == nacre.Allow {
		c.Flags().BoolVar(&whole, "whole", false, "you have read all of a question that lists and terminals cut (nacre approvals show ID)")
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := ruling.Scope.UnmarshalText([]byte(scope)); err != nil {
			return command.UsageOf(err)
		}
		if c.Flags().Changed("times") && (ruling.Times < 1 || ruling.Times > approval.MaxTimes) {
			return command.Usage("--times %d: write 1 to %d", ruling.Times, approval.MaxTimes)
		}
		if ruling.Times > 0 && ruling.For == 0 {
			ruling.For = approval.MaxStanding
		}
		if ruling.Scope == nacre.ScopeText {
			if v != nacre.Allow || ruling.For != 0 || ruling.Times != 0 {
				return command.UsageOf(errors.New("--scope text is for approve, and goes without --for and --times: it holds until the session ends"))
			}
			return cmd.answer(c.Context(), args[0], ruling, whole)
		}
		if c.Flags().Changed("scope") && ruling.For == 0 {
			return command.UsageOf(errors.New("--scope goes with --for or --times, such as --for 15m"))
		}
		if ruling.For == 0 {
			ruling.Scope = nacre.ScopeOnce
		}
		return cmd.answer(c.Context(), args[0], ruling, whole)
	}
	command.Completes(c, cmd.pending)
	return c
}

// pending are the questions that wait, for completion. Only what nacre itself says of
// a question is shown, nothing that an agent wrote.
func (cmd approvalsCommand) pending(ctx context.Context) ([]command.Offered, error) {
	rt, err := cmd.Open(ctx)
	if err != nil {
		return nil, err
	}
	questions, err := rt.Approvals(ctx)
	offered := make([]command.Offered, 0, len(questions))
	for _, q := range questions {
		offered = append(offered, command.Offered{Word: q.ID, About: string(q.Capability) + ", session " + string(q.Session)})
	}
	return offered, err
}

func (cmd approvalsCommand) listApprovals(ctx context.Context) error {
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	questions, unread := rt.Approvals(ctx)
	if cmd.JSON {
		return errors.Join(cmd.PrintJSON(append([]nacre.Question{}, questions...)), unread)
	}
	p := cmd.Printer(cmd.Stdout)
	if len(questions) == 0 && unread == nil {
		p.Line("nothing is waiting")
	}
	for _, q := range questions {
		if _, err := io.WriteString(cmd.Words(cmd.Stdout), approval.Folded(p.Shown(approval.Render(q)), terminal.Columns(cmd.Stdout))); err != nil {
			return err
		}
		if approval.IsCut(q) {
			p.Line("    nacre approvals show %s has all of it, to approve it then   or   nacre approvals deny %s", q.ID, q.ID)
			continue
		}
		p.Line("    nacre approvals approve %s [--for 15m]   or   nacre approvals deny %s", q.ID, q.ID)
	}
	return unread
}

// answer presses on a question. What lists and terminals cut is approved by nobody who does not
// say that they have read the whole.
func (cmd approvalsCommand) answer(ctx context.Context, id string, ruling nacre.Ruling, whole bool) error {
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	ruling.By = command.Operator() + " in another terminal"
	questions, _ := rt.Approvals(ctx) // a question of a session that cannot be read is not found below
	q := nacre.Question{ID: id}
	if at := slices.IndexFunc(questions, func(q nacre.Question) bool { return q.ID == id }); at >= 0 {
		q = questions[at]
	}
	if !whole && approval.IsCut(q) {
		return command.Usage("nothing was approved: question %s is longer than what lists and terminals show of it. Read it with nacre approvals show %s, and approve it with --whole", q.ID, q.ID)
	}
	outcome, err := rt.Answer(ctx, approval.Here(q, ruling))
	if err != nil {
		return err
	}
	if cmd.JSON {
		return cmd.PrintJSON(map[string]any{"id": id, "verdict": ruling.Verdict, "for_seconds": int(ruling.For / time.Second), "scope": ruling.Scope, "times": ruling.Times, "by": outcome.By, "open": outcome.Open})
	}
	cmd.Printer(cmd.Stdout).Field("answered", "%s: %s", id, approval.Told(q, outcome, ruling))
	return nil
}
