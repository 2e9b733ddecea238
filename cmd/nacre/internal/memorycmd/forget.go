package memorycmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/sqlitefile"
	"github.com/nacre-dev/nacre/internal/terminal"
)

func (cmd memoryCommand) forgetCommand() *cobra.Command {
	var f assembly.Forget
	var session string
	var dry, yes bool
	c := &cobra.Command{
		Use: "forget [ID]", Short: "erase entries and all that derives from them, for good",
		Long: `Erases an entry with its earlier and later versions, all that a session wrote, or
every entry that holds a text, and with them all that was derived from them. What a
session replaced is current again. Nothing of it stays in the file; the audit keeps
ids and digests. What else is kept of the sessions goes as well, or is looked for and
named with what removes it. Entries that you trust are asked about. Exit 1: all of it
is erased, and another process keeps traces in a file that is named.`,
		Example: "  nacre memory forget mem-…\n  nacre memory forget --session k3f9ab --dry-run     what a poisoned session left\n  nacre memory forget --match 0664 --yes",
		RunE: func(c *cobra.Command, args []string) error {
			f.Session = nacre.SessionID(session)
			if len(args) == 1 {
				f.ID = args[0]
			}
			given := 0
			for _, text := range []string{f.ID, session, f.Match} {
				if text != "" {
					given++
				}
			}
			if len(args) > 1 || given != 1 {
				return command.Usage("name one of: an entry's id, --session or --match")
			}
			return cmd.withGroup(c, func(ctx context.Context, rt *assembly.Runtime, group nacre.Group) error {
				f.Group, f.Who = group, command.Operator()
				return cmd.forget(ctx, rt, f, dry, yes)
			})
		},
	}
	c.Flags().StringVar(&session, "session", "", "all that this session wrote")
	c.Flags().StringVar(&f.Match, "match", "", "every entry that holds this text, in any case")
	c.Flags().BoolVar(&f.Recalled, "recalled", false, "also what sessions wrote after they were shown one of these")
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would go")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask about entries that you trust")
	return c
}

func (cmd memoryCommand) forget(ctx context.Context, rt *assembly.Runtime, f assembly.Forget, dry, yes bool) error {
	if f.Session != "" {
		if s, err := rt.Session(f.Session); err == nil && s.Live() {
			return command.Usage("session %s is at work: end it first, with nacre sessions stop %s", f.Session, f.Session)
		}
	}
	all, err := assembly.LookForgetting(ctx, rt, f)
	if err != nil {
		return err
	}
	if !cmd.JSON {
		cmd.showErasure(all)
	}
	done := !dry && !all.Empty()
	if done {
		err = cmd.erase(ctx, rt, f, all, yes)
	} else {
		err = assembly.FinishForgetting(ctx, rt, f.Group)
	}
	if err != nil && !errors.Is(err, sqlitefile.ErrLingers) {
		return err
	}
	var lookErr error
	all.Remains, lookErr = assembly.MemoryRemains(ctx, rt, f, all, done || all.Empty())
	return errors.Join(cmd.forgotten(all, done), lookErr, err)
}

// erase asks, and erases.
func (cmd memoryCommand) erase(ctx context.Context, rt *assembly.Runtime, f assembly.Forget, all assembly.Forgetting, yes bool) error {
	trusted := len(all.Memories().Trusted())
	if trusted > 0 && !yes && !cmd.sure(fmt.Sprintf("you trust %d of these: erase them?", trusted)) {
		return command.Usage("you trust %d of %d entries that would go: nothing was erased; add --yes to erase them", trusted, len(all.Memories().Entries))
	}
	return assembly.ForgetMemory(ctx, rt, f, all)
}

func (cmd memoryCommand) showErasure(e assembly.Forgetting) {
	memories := e.Memories()
	rows := make([][]string, 0, len(memories.Entries))
	for _, d := range memories.Entries {
		rows = append(rows, []string{d.ID, d.Trust.String(), string(d.Provenance.Session), d.Why, terminal.Summary(d.Content)})
	}
	p := cmd.Printer(cmd.Stdout)
	if len(rows) > 0 {
		p.Table([]string{"id", "trust", "session", "why", "content"}, rows)
	}
	for _, id := range memories.Restored {
		p.Field("restores", "%s", id)
	}
	if memories.Recalled > 0 {
		p.Field("besides", "%d entries were written by sessions that had been shown or told of these: --recalled takes them too", memories.Recalled)
	}
	for _, c := range e.Traces.Conversations {
		p.Field("conversation", "%s: the turns of %s, and the brain's own transcript; %d turns stay", c.Key, sessionList(c.Gone), c.Left)
	}
	if len(e.Traces.Checkpoints) > 0 {
		p.Field("work", "what was kept of %s", sessionList(e.Traces.Checkpoints))
	}
	for _, row := range e.Traces.Rows {
		p.Field("ledger", "the texts of %s, in session %s", row.Agent, row.Session)
	}
}

// showRemains names what an erasure does not reach: what holds the words first.
func (cmd memoryCommand) showRemains(list []assembly.MemoryRemain) {
	p := cmd.Printer(cmd.Stdout)
	for _, holds := range []bool{true, false} {
		for _, m := range list {
			if m.Holds != holds {
				continue
			}
			what := m.What
			if m.Session != "" {
				what += " of session " + string(m.Session)
			}
			if holds {
				what += ", which holds it"
			}
			p.Field("remains", "%s: %s: %s", m.Where, what, m.Next)
		}
	}
}

// sessionsShown is how many sessions one line names.
const sessionsShown = 10

func sessionList(ids []nacre.SessionID) string {
	var names []string
	for _, id := range ids[:min(len(ids), sessionsShown)] {
		names = append(names, string(id))
	}
	text := strings.Join(names, ", ")
	if more := len(ids) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func (cmd memoryCommand) forgotten(e assembly.Forgetting, done bool) error {
	if cmd.JSON {
		return cmd.PrintJSON(struct {
			Erased bool `json:"erased"`
			memory.Erasure
			Traces  assembly.MemoryTraces   `json:"traces"`
			Remains []assembly.MemoryRemain `json:"remains"`
		}{done, e.Memories(), e.Traces, e.Remains})
	}
	p := cmd.Printer(cmd.Stdout)
	switch {
	case e.Empty():
		p.Field("nothing", "matches")
	case done:
		p.Field("forgotten", "%d entries", len(e.Memories().Entries))
	default:
		p.Field("would go", "%d entries", len(e.Memories().Entries))
	}
	cmd.showRemains(e.Remains)
	return nil
}

// sure asks the person at the terminal; where there is none, nobody is sure.
func (cmd memoryCommand) sure(question string) bool {
	if !terminal.Is(cmd.Stdin) || cmd.JSON {
		return false
	}
	cmd.Printer(cmd.Stderr).Line("%s y or n", question)
	answer, _ := bufio.NewReader(cmd.Typed()).ReadString('\n') // no answer is no
	return strings.EqualFold(strings.TrimSpace(answer), "y")
}
