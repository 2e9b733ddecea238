package sessioncmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/sentence"
	"github.com/nacre-dev/nacre/internal/terminal"
)

// Show is nacre show.
func (c Commands) Show() *cobra.Command {
	show := &cobra.Command{
		Use: "show SESSION", Short: "one page about a session: asked, read, changed, denied, reached, spent", Args: command.OneArgument("a session"),
		Long: `Shows on one page what a session was asked, what it read from whom, changed, called, asked a
person, was denied, reached and spent, and what came of it. All of it is read from the session's
records: nacre audit show SESSION has them one by one, nacre sessions diff SESSION what did not land.`,
		Example: "  nacre show k3f9ab\n  nacre show k3f9ab --json",
		RunE:    func(cc *cobra.Command, args []string) error { return c.show(cc.Context(), args[0]) },
	}
	command.Completes(show, c.sessionIDs)
	return show
}

func (c Commands) show(ctx context.Context, name string) error {
	id, rt, err := c.session(ctx, name)
	if err != nil {
		return err
	}
	c.settleRuns(ctx, rt)
	page, err := assembly.Overview(rt, id)
	if page.ID == "" {
		return err
	}
	if c.JSON {
		if err != nil {
			return err
		}
		return c.PrintJSON(page)
	}
	printPage(c.Printer(c.Stdout), page, time.Now())
	return err
}

// maxShown is how many entries of each part a page shows; --json has more.
const maxShown = 12

// part prints one part of a page, which is left out where it is empty.
func part(p *terminal.Printer, heading string, lines []string) {
	for i, line := range lines[:min(len(lines), maxShown)] {
		if i > 0 {
			heading = ""
		}
		p.Field(heading, "%s", line)
	}
	if more := len(lines) - maxShown; more > 0 {
		p.Field("", "and %d more; --json names them", more)
	}
}

func printPage(p *terminal.Printer, page assembly.Page, now time.Time) {
	p.Field("session", "%s · %s · %s · group %s", page.ID, page.Kind, page.State, page.Group)
	if page.State == nacre.SessionRemoved {
		page.Task = "its words went with its files"
	}
	p.Prose("task", taskText(page.Task))
	if page.Brain != "" {
		p.Field("agent", "%s", page.Brain)
	}
	if page.Project != "" {
		p.Field("project", "%s", page.Project)
	}
	end, took := page.Finished, "took"
	if end.IsZero() || page.Live() {
		end, took = now, "for"
	}
	p.Field("began", "%s · %s %s", page.Started.Local().Format("2006-01-02 15:04:05"), took, terminal.Seconds(end.Sub(page.Started)))
	part(p, "read", sources(page))
	part(p, "changed", changed(page))
	part(p, "called", countsOf(page.Calls))
	part(p, "asked", asked(page))
	part(p, "denied", countsOf(page.Denied))
	part(p, "leased", countsOf(page.Leases))
	part(p, "alarms", countsOf(page.Alarms))
	part(p, "reached", reached(page))
	p.Field("spent", "%s · %d calls to the model · %d tokens in, %d out", terminal.Dollars(page.Spent.MicroUSD), page.Spent.ModelCalls, page.Spent.InputTokens, page.Spent.OutputTokens)
	printVerdict(p, page)
	if page.Receipt != "" {
		p.Field("receipt", "nacre audit verify --receipt %s", page.Receipt)
	}
	p.Field("records", "%d · nacre audit show %s", page.Records, page.ID)
}

// maxTask is how much of a task a page shows, in characters.
const maxTask = 1000

// taskText is a task in one paragraph.
func taskText(task string) string {
	runes := []rune(strings.Join(strings.Fields(task), " "))
	if len(runes) > maxTask {
		return string(runes[:maxTask]) + "…; --json has all of it"
	}
	return string(runes)
}

func sources(page assembly.Page) []string {
	var lines []string
	for _, s := range page.Read {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s · %s · %s in %s", s.From, s.Label, terminal.Bytes(s.Bytes), sentence.Many(int64(s.Times), "answer"))))
	}
	return lines
}

func changed(page assembly.Page) []string {
	var lines []string
	for _, b := range page.Branches {
		line := sentence.Many(int64(b.Commits), "commit") + " on " + b.Name
		if b.On != b.Name {
			line += ", kept as " + b.On
		}
		lines = append(lines, line)
	}
	if page.Result == nil {
		return lines
	}
	for _, c := range page.Result.Changes {
		line := fmt.Sprintf("%-8s %s", c.Kind, c.Path)
		if c.Warning != "" {
			line += "   ← look: " + c.Warning
		}
		lines = append(lines, line)
	}
	for _, left := range page.Result.Left {
		lines = append(lines, "left out "+left)
	}
	return lines
}

// countsOf says each thing, how often, and why.
func countsOf(list []assembly.PageCount) []string {
	var lines []string
	for _, c := range list {
		times := ""
		if c.Times > 1 {
			times = fmt.Sprintf(" · %d times", c.Times)
		}
		lines = append(lines, c.What+times+sentence.And(" · ", c.Why))
	}
	return lines
}

func asked(page assembly.Page) []string {
	var lines []string
	for _, q := range page.Asked {
		line := q.What + sentence.And(" · ", q.Why)
		switch {
		case q.Answer == "":
			line += " · waits"
		case q.By != "":
			line += " · " + q.Answer + " by " + q.By
		default:
			line += " · " + q.Answer
		}
		lines = append(lines, line)
	}
	return lines
}

func reached(page assembly.Page) []string {
	var lines []string
	for _, c := range page.Reached {
		lines = append(lines, fmt.Sprintf("%s · %s · %s sent, %s received", c.Host, sentence.Many(int64(c.Times), "connection"), terminal.Bytes(c.Sent), terminal.Bytes(c.Received)))
	}
	return lines
}

func printVerdict(p *terminal.Printer, page assembly.Page) {
	r := page.Result
	if r != nil {
		for _, a := range r.Atoms {
			p.Mark(markOf(a.Passed), "verify", a.Capability+sentence.And(" · ", a.Strength)+sentence.And(" · ", a.Reason))
		}
		for _, c := range r.Checks {
			p.Mark(markOf(c.Passed()), "check", fmt.Sprintf("%s · exit %d · %s", terminal.Summary(c.Command), c.ExitCode, c.Strength))
		}
	}
	if c := page.FailedCheck; c != nil {
		p.Output(c.Tail, maxShown)
	}
	switch {
	case r != nil && r.Landed:
		p.Field("verdict", "landed on %s as %.7s", r.Branch, r.Commit)
	case r != nil && r.Reason != "":
		p.Prose("verdict", page.Outcome+": "+r.Reason)
	case page.Outcome != "":
		p.Field("verdict", "%s", page.Outcome)
	}
	if page.Resumable {
		p.Field("go on", "nacre run --session %s", page.ID)
	}
}

func markOf(ok bool) string {
	if ok {
		return "ok"
	}
	return "denied"
}
