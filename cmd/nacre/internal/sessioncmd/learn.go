package sessioncmd

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/terminal"
)

// maxReply is how much of a line a person types, in bytes.
const maxReply = 1024

// learnCommand is nacre learn, with what its flags say.
type learnCommand struct {
	Commands
	approve, wider, proposal, lifetime string
	undo, list, again                  bool
}

func (c learnCommand) command() *cobra.Command {
	cc := &cobra.Command{
		Use: "learn [SESSION…]", Short: "approve what sessions asked for and were refused",
		Long: `Proposes what sealed sessions asked for and were refused: hosts by their names, and where
nacre saw the request, methods and paths; further requests that a credential is used for; and
tools, with the arguments that were seen. Without SESSION the sessions that began last count.
Nothing was opened to learn that, and everything stays refused until you approve it: all, some
by their numbers, or nothing. What was asked only after a session had read text that nobody
vouches for, and what sends something, is approved by its number alone. An approval is
written beside config.toml, for sessions that begin from then on, and ends by itself. With
--again the task of the one SESSION is given once more then, on a fresh clone.`,
		Example: "  nacre learn k3f9ab\n  nacre learn k3f9ab --proposal 3fa9c1d2e4b5 --approve all --for 7d\n  nacre learn k3f9ab --proposal 3fa9c1d2e4b5 --approve all --again\n  nacre learn --undo",
		RunE:    func(cc *cobra.Command, args []string) error { return c.run(cc.Context(), args) },
	}
	f := cc.Flags()
	f.StringVar(&c.approve, "approve", "", "all, none, or the numbers of lines, such as all,4 or 1,3")
	f.StringVar(&c.wider, "wider", "", "numbers of lines that are approved with their wider path")
	f.StringVar(&c.proposal, "proposal", "", "the proposal that you saw, for --approve and --wider")
	f.StringVar(&c.lifetime, "for", "", "how long the approval stands, such as 7d (default 30d)")
	f.BoolVar(&c.again, "again", false, "once it is approved, give the task of SESSION once more, in a new session on a fresh clone")
	f.BoolVar(&c.undo, "undo", false, "take the latest approval back, or that of the proposal whose name follows")
	f.BoolVar(&c.list, "list", false, "list the approvals")
	command.Completes(cc, c.sessionIDs)
	return cc
}

func (c learnCommand) run(ctx context.Context, args []string) error {
	choice, err := c.choice()
	switch {
	case err != nil:
		return err
	case c.again && (len(args) != 1 || !choice.chosen()):
		return command.Usage("--again wants one SESSION, and what you approve of it with --approve; see nacre learn --help")
	case c.undo && len(args) > 1, c.list && len(args) > 0, (c.undo || c.list) && (c.proposal != "" || choice.chosen()):
		return command.Usage("--undo takes one proposal at most, --list nothing, and neither goes with --approve; see nacre learn --help")
	}
	rt, err := c.Open(ctx)
	switch {
	case err != nil:
		return err
	case c.undo:
		return c.takeBack(ctx, rt, strings.Join(args, ""))
	case c.list:
		return c.showAll(rt)
	}
	var sessions []nacre.SessionID
	for _, name := range args {
		id, err := nacre.ParseSessionID(name)
		if err != nil {
			return command.UsageOf(err)
		}
		sessions = append(sessions, id)
	}
	if c.again {
		return c.approveAndGoOn(ctx, rt, sessions, choice)
	}
	p, err := assembly.Learn(rt, sessions)
	if err != nil {
		return err
	}
	switch {
	case choice.nothing && !c.JSON:
		c.Printer(c.Stdout).Line("nothing is approved")
		return nil
	case choice.chosen():
		return c.approved(ctx, rt, p, choice)
	case c.JSON:
		return c.PrintJSON(p)
	}
	c.show(p, args)
	if len(p.Lines) == 0 || !terminal.Is(c.Stdin) || !terminal.Is(c.Stdout) {
		return nil
	}
	return c.ask(ctx, rt, p, choice)
}

// approveAndGoOn approves, and gives the task of the session once more. Where it could not be
// given, nothing is approved.
func (c learnCommand) approveAndGoOn(ctx context.Context, rt *assembly.Runtime, sessions []nacre.SessionID, choice choosing) error {
	run, err := assembly.TaskAgain(rt, sessions[0])
	if err != nil {
		return err
	}
	p, err := assembly.Learn(rt, sessions)
	if err == nil {
		err = c.approved(ctx, rt, p, choice)
	}
	if err != nil {
		return err
	}
	return c.Work(ctx, run)
}

// choosing is what a person approves, before it is known of which proposal.
type choosing struct {
	assembly.LearnChoice
	// nothing is what a person said in a word.
	nothing bool
}

func (c choosing) chosen() bool { return !c.nothing && (c.All || len(c.Lines)+len(c.Wider) > 0) }

// choice reads the flags.
func (c learnCommand) choice() (choosing, error) {
	chosen := choosing{LearnChoice: assembly.LearnChoice{Proposal: c.proposal, For: assembly.LearnTime, By: command.Operator()}}
	if c.lifetime != "" {
		span, err := assembly.ParseAge(c.lifetime)
		if err != nil {
			return choosing{}, command.UsageOf(fmt.Errorf("--for: %w", err))
		}
		chosen.For = span
	}
	err := chosen.read(c.approve)
	if err == nil {
		_, chosen.Wider, err = numbers(c.wider, false)
	}
	if err != nil {
		return choosing{}, command.UsageOf(err)
	}
	if chosen.chosen() && c.proposal == "" {
		return choosing{}, command.Usage("name the proposal that you saw with --proposal: nacre learn shows it")
	}
	return chosen, nil
}

// read takes what --approve says, or what a person typed.
func (c *choosing) read(text string) (err error) {
	if c.nothing = text == "none" || text == "nothing"; c.nothing {
		return nil
	}
	c.All, c.Lines, err = numbers(text, true)
	return err
}

// numbers reads numbers of lines with commas between them, and the word all where it may stand.
func numbers(text string, mayAll bool) (all bool, lines []int, err error) {
	if text == "" {
		return false, nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		n, err := strconv.Atoi(part)
		switch {
		case mayAll && part == "all":
			all = true
		case err != nil || n < 1:
			return false, nil, fmt.Errorf("%q is no number of a line: write all, or numbers such as 1,3", part)
		default:
			lines = append(lines, n)
		}
	}
	return all, lines, nil
}

// ask lets a person at a terminal approve what was shown.
func (c learnCommand) ask(ctx context.Context, rt *assembly.Runtime, p assembly.Proposal, choice choosing) error {
	_, _ = io.WriteString(c.Stdout, "approve all, some by their numbers (1,3), or nothing? [nothing] ") // the answer says whether it was seen
	line, _ := bufio.NewReader(io.LimitReader(c.Typed(), maxReply)).ReadString('\n')                    // no answer approves nothing
	if err := choice.read(strings.TrimSpace(line)); err != nil {
		return command.UsageOf(err)
	}
	if !choice.chosen() {
		c.Printer(c.Stdout).Line("nothing is approved")
		return nil
	}
	choice.Proposal = p.ID
	return c.approved(ctx, rt, p, choice)
}

func (c learnCommand) approved(ctx context.Context, rt *assembly.Runtime, p assembly.Proposal, choice choosing) error {
	l, err := assembly.ApproveLearned(ctx, rt, p, choice.LearnChoice)
	if err != nil {
		return err
	}
	if c.JSON {
		return c.PrintJSON(l)
	}
	out := c.Printer(c.Stdout)
	out.Field("approved", "%s until %s", l.ID, l.Until.Local().Format("2006-01-02 15:04"))
	for _, text := range l.Texts() {
		out.Field("", "%s", text)
	}
	out.Field("take back", "nacre learn --undo %s", l.ID)
	return nil
}

func (c learnCommand) takeBack(ctx context.Context, rt *assembly.Runtime, id string) error {
	l, err := assembly.UndoLearned(ctx, rt, id)
	if err != nil {
		return err
	}
	if c.JSON {
		return c.PrintJSON(l)
	}
	c.Printer(c.Stdout).Field("taken back", "%s, which %s approved: sessions that begin now are refused it", l.ID, l.By)
	return nil
}

func (c learnCommand) showAll(rt *assembly.Runtime) error {
	all, err := assembly.AllLearned(rt)
	if err != nil {
		return err
	}
	if c.JSON {
		return c.PrintJSON(slices.Concat([]assembly.Learned{}, all))
	}
	var rows [][]string
	for _, l := range all {
		state := "until " + l.Until.Local().Format("2006-01-02 15:04")
		if !time.Now().Before(l.Until) {
			state = "ended"
		}
		for _, text := range l.Texts() {
			rows = append(rows, []string{l.ID, l.By, state, text})
		}
	}
	c.Printer(c.Stdout).Table([]string{"PROPOSAL", "BY", "STANDS", "ALLOWS"}, rows)
	return nil
}

func (c learnCommand) show(p assembly.Proposal, args []string) {
	out := c.Printer(c.Stdout)
	names := make([]string, len(p.Sessions))
	for i, id := range p.Sessions {
		names[i] = string(id)
	}
	if len(p.Lines)+len(p.Left) == 0 {
		out.Line("these sessions were refused nothing that could be approved")
		return
	}
	out.Field("proposal", "%s from %s", p.ID, strings.Join(names, ", "))
	apart := func(l assembly.ProposalLine) bool { return len(l.Apart) > 0 }
	for i, part := range []string{"", "not in all: approve these by their numbers, where you know why they were asked"} {
		lines := slices.DeleteFunc(slices.Clone(p.Lines), func(l assembly.ProposalLine) bool { return apart(l) != (i == 1) })
		if len(lines) == 0 {
			continue
		}
		if part != "" {
			out.Line("%s", part)
		}
		rows := make([][]string, 0, len(lines))
		for _, l := range lines {
			rows = append(rows, []string{
				strconv.Itoa(l.Number), l.Text(), strconv.Itoa(l.Times), fmt.Sprintf("%d", l.Others),
				strings.Join(l.Evidence, " "), strings.Join(l.Apart, "; "),
			})
		}
		out.Table([]string{"", "ALLOWS", "TIMES", "ELSEWHERE", "EVIDENCE", "APART"}, rows)
		for _, l := range lines {
			switch {
			case l.Wider != "" && l.Tool != "":
				out.Line("  line %d with --wider %d: %s, which is more than was seen; the policy still decides on each call", l.Number, l.Number, l.Wider)
			case l.Wider != "":
				out.Line("  line %d with --wider %d: everything below %s, which is more than was seen", l.Number, l.Number, l.Wider)
			}
		}
	}
	if len(p.Lines) > 0 {
		out.Line("ELSEWHERE counts what a line would have let through of what %d other sessions were refused", p.Looked)
	}
	for _, l := range p.Left {
		out.Field("stays", "%s: %s (%d times)", l.What, l.Why, l.Times)
	}
	if len(p.Lines) > 0 {
		what := "all"
		if !slices.ContainsFunc(p.Lines, func(l assembly.ProposalLine) bool { return !apart(l) }) {
			what = strconv.Itoa(p.Lines[0].Number) // all would be none
		}
		out.Field("next", "nacre learn %s", strings.Join(append(slices.Clone(args), "--proposal", p.ID, "--approve", what), " "))
	}
}
