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
	var f memory.Forget
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
			return cmd.withMemory(c, func(ctx context.Context, m memories) error { return cmd.forget(ctx, m, f, dry, yes) })
		},
	}
	c.Flags().StringVar(&session, "session", "", "all that this session wrote")
	c.Flags().StringVar(&f.Match, "match", "", "every entry that holds this text, in any case")
	c.Flags().BoolVar(&f.Recalled, "recalled", false, "also what sessions wrote after they were shown one of these")
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would go")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask about entries that you trust")
	return c
}

// forgetting is all that an erasure takes, and what it does not reach.
type forgetting struct {
	memory.Erasure
	Traces  assembly.MemoryTraces   `json:"traces"`
	Remains []assembly.MemoryRemain `json:"remains"`
}

func (f forgetting) empty() bool { return len(f.Entries) == 0 && f.Traces.Empty() }

func (cmd memoryCommand) forget(ctx context.Context, m memories, f memory.Forget, dry, yes bool) error {
	if f.Session != "" {
		if s, err := m.runtime.Session(f.Session); err == nil && s.Live() {
			return command.Usage("session %s is at work: end it first, with nacre sessions stop %s", f.Session, f.Session)
		}
	}
	e, err := m.Doom(ctx, f)
	if err != nil {
		return err
	}
	traces, err := m.runtime.MemoryTraces(ctx, m.group, e.Sessions)
	if err != nil {
		return err
	}
	all := forgetting{Erasure: e, Traces: traces}
	if !cmd.JSON {
		cmd.showErasure(all)
	}
	done := !dry && !all.empty()
	if done {
		err = cmd.erase(ctx, m, f, all, yes)
	} else {
		err = m.lingers(ctx)
	}
	if err != nil && !errors.Is(err, sqlitefile.ErrLingers) {
		return err
	}
	var lookErr error
	all.Remains, lookErr = m.runtime.MemoryRemains(ctx, traces, lookFor(m.group, f, e, done || all.empty()))
	return errors.Join(cmd.forgotten(all, done), lookErr, err)
}

// erase asks, records and erases. Its error is a sqlitefile.ErrLingers where all of it
// is gone, and traces are left that go later.
func (cmd memoryCommand) erase(ctx context.Context, m memories, f memory.Forget, all forgetting, yes bool) error {
	trusted := len(all.Trusted())
	if trusted > 0 && !yes && !cmd.sure(fmt.Sprintf("you trust %d of these: erase them?", trusted)) {
		return command.Usage("you trust %d of %d entries that would go: nothing was erased; add --yes to erase them", trusted, len(all.Entries))
	}
	marks := make([]assembly.MemoryMark, 0, len(all.Entries))
	for _, d := range all.Entries {
		marks = append(marks, m.runtime.MarkMemory(d.ID, d.Content, d.Why))
	}
	return m.runtime.ChangeMemory(ctx, m.group, "forget", command.Operator(), marks, func() error {
		// The entries last: they lead to the rest, where this is interrupted.
		if err := m.runtime.EraseMemoryTraces(ctx, all.Traces); err != nil {
			return err
		}
		if err := m.Forget(ctx, f, all.Erasure); err != nil && !errors.Is(err, memory.ErrLingers) {
			return err
		}
		return m.lingers(ctx)
	})
}

// lingers names the files that hold traces of this or an earlier erasure, though each
// opening has tried to remove them. It is a sqlitefile.ErrLingers, or nil.
func (m memories) lingers(ctx context.Context) error {
	files, err := m.runtime.FinishErasures(ctx)
	if err != nil {
		return err
	}
	left, err := m.Traces(ctx)
	if err != nil {
		return err
	}
	if left {
		files = append(files, "the memory of group "+string(m.group))
	}
	if len(files) == 0 {
		return nil
	}
	return fmt.Errorf("what was erased is still in the bytes of %s: %w", strings.Join(files, " and "), sqlitefile.ErrLingers)
}

// lookFor says what is looked for after an erasure, and how it is asked for again.
func lookFor(group nacre.Group, f memory.Forget, e memory.Erasure, erased bool) assembly.MemoryLook {
	again := "nacre memory forget --group " + string(group) + " "
	switch {
	case f.Session != "":
		again += "--session " + string(f.Session)
	case f.ID != "":
		again += f.ID
	case len(e.Entries) > 0: // by what is gone, text finds nothing
		again += e.Entries[0].ID
	default:
		again += "--match TEXT"
	}
	if f.Recalled {
		again += " --recalled"
	}
	look := assembly.MemoryLook{Again: again, Erased: erased, Words: []string{f.Match}}
	for _, d := range e.Entries {
		look.Words = append(look.Words, d.Content)
	}
	return look
}

func (cmd memoryCommand) showErasure(e forgetting) {
	rows := make([][]string, 0, len(e.Entries))
	for _, d := range e.Entries {
		rows = append(rows, []string{d.ID, d.Trust.String(), string(d.Provenance.Session), d.Why, terminal.Summary(d.Content)})
	}
	p := cmd.Printer(cmd.Stdout)
	if len(rows) > 0 {
		p.Table([]string{"id", "trust", "session", "why", "content"}, rows)
	}
	for _, id := range e.Restored {
		p.Field("restores", "%s", id)
	}
	if e.Recalled > 0 {
		p.Field("besides", "%d entries were written by sessions that had been shown or told of these: --recalled takes them too", e.Recalled)
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

func (cmd memoryCommand) forgotten(e forgetting, done bool) error {
	if cmd.JSON {
		return cmd.PrintJSON(struct {
			Erased bool `json:"erased"`
			forgetting
		}{done, e})
	}
	p := cmd.Printer(cmd.Stdout)
	switch {
	case e.empty():
		p.Field("nothing", "matches")
	case done:
		p.Field("forgotten", "%d entries", len(e.Entries))
	default:
		p.Field("would go", "%d entries", len(e.Entries))
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
	answer, _ := bufio.NewReader(cmd.Stdin).ReadString('\n') // no answer is no
	return strings.EqualFold(strings.TrimSpace(answer), "y")
}
