package sessioncmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/sentence"
	"github.com/nacre-dev/nacre/internal/terminal"
)

// of makes a command about one session, which completion offers.
func (cmd sessionsCommand) of(use, short string, do func(ctx context.Context, rt *assembly.Runtime, id nacre.SessionID) error) *cobra.Command {
	c := &cobra.Command{
		Use: use + " SESSION", Short: short, Args: command.OneArgument("a session"), Example: "  nacre sessions " + use + " k3f9ab",
		RunE: func(c *cobra.Command, args []string) error {
			id, err := nacre.ParseSessionID(args[0])
			if err != nil {
				return command.UsageOf(err)
			}
			rt, err := cmd.Open(c.Context())
			if err != nil {
				return err
			}
			return do(c.Context(), rt, id)
		},
	}
	command.Completes(c, Commands(cmd).sessionIDs)
	return c
}

func (cmd sessionsCommand) diffCommand() *cobra.Command {
	c := cmd.of("diff", "show what a session's agent changed and did not land", func(ctx context.Context, rt *assembly.Runtime, id nacre.SessionID) error {
		left, err := assembly.LeftoverOf(ctx, rt, id, cmd.tellKilled)
		if err != nil {
			return err
		}
		if cmd.JSON {
			return cmd.PrintJSON(left)
		}
		cmd.printLeftover(left)
		return nil
	})
	c.Long = `Shows the files that the agent of a session changed, and how they differ from the commit
that it worked from. The text is what the agent wrote: whatever could act on a terminal is
shown and does nothing. --json has it as it is.`
	return c
}

// printLeftover shows what an agent wrote, escaped line by line.
func (cmd sessionsCommand) printLeftover(w assembly.Leftover) {
	p := cmd.Printer(cmd.Stdout)
	p.Field("session", "%s · %s", w.Session, w.Outcome)
	from := "from " + w.Branch
	if w.Branch == "" { // a release of before did not keep it
		from = "from a branch that is not known,"
	}
	p.Field("project", "%s · %s at %.7s", w.Project, from, w.Base)
	for _, c := range w.Changes {
		line := fmt.Sprintf("%-8s %s", c.Kind, c.Path)
		switch {
		case c.Held:
			line += "   ← held: " + c.Warning
		case c.Warning != "":
			line += "   ← look: " + c.Warning
		}
		p.Line("         %s", line)
	}
	for _, file := range w.Left {
		p.Line("         left out %s", file)
	}
	for line := range strings.Lines(w.Diff) {
		p.Line("%s", strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "        "))
	}
	if w.Cut {
		p.Line("the text is longer and was cut here")
	}
	next := "nacre sessions apply %[1]s · branch %[1]s · discard %[1]s"
	switch {
	case len(w.Changes) == 0 && len(w.Left) == 0:
		p.Line("         no file was changed")
		next = "nacre sessions discard %[1]s"
	case w.Branch == "":
		next = "nacre sessions branch %[1]s · discard %[1]s"
	}
	p.Field("next", next, w.Session)
	if w.Resumable {
		p.Field("go on", "nacre run --session %s", w.Session)
	}
}

func (cmd sessionsCommand) applyCommand() *cobra.Command {
	var held string
	c := cmd.of("apply", "land what a session's agent changed, unverified, as a commit on its branch", func(ctx context.Context, rt *assembly.Runtime, id nacre.SessionID) error {
		decided, err := assembly.ParseHeld(held)
		if err != nil {
			return err
		}
		return cmd.take(ctx, rt, assembly.Taking{Session: id, Held: decided})
	})
	c.Long = `Puts the work of a session that did not land on the branch that it was made from, merged
with what the branch has by now, as one commit: by the same code as a run that lands. No check
runs. Where the branch cannot take it, it is kept on nacre/SESSION, and the reason is said.
Files that programs of this machine obey, such as .envrc or git hooks, are held: nothing is
taken until --held says what becomes of them. The session's own copy of the files then goes.`
	c.Flags().StringVar(&held, "held", "", "files that programs of this machine obey: take, or leave-out")
	return c
}

func (cmd sessionsCommand) branchCommand() *cobra.Command {
	c := cmd.of("branch", "keep what a session's agent changed as a commit on nacre/SESSION", func(ctx context.Context, rt *assembly.Runtime, id nacre.SessionID) error {
		return cmd.take(ctx, rt, assembly.Taking{Session: id, Apart: true})
	})
	c.Long = `Puts the work of a session that did not land on a branch of its own, nacre/SESSION, as one
commit on top of the commit that it was made from. No other branch, and no file of the work
tree, changes. The session's own copy of the files then goes.`
	return c
}

func (cmd sessionsCommand) take(ctx context.Context, rt *assembly.Runtime, t assembly.Taking) error {
	t.Who, t.Killed = command.Operator(), cmd.tellKilled
	taken, err := assembly.TakeLeftover(ctx, rt, t)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return cmd.PrintJSON(taken)
	}
	p := cmd.Printer(cmd.Stdout)
	switch {
	case taken.Stayed != "":
		p.Prose("kept", taken.Stayed)
	case taken.Commit == "":
		p.Field("applied", "%s has all of it already", taken.Branch)
	case t.Apart:
		p.Field("kept", "%s · %.7s · git merge %s takes it", taken.Branch, taken.Commit, taken.Branch)
	default:
		p.Field("applied", "%s · %.7s · no check ran", taken.Branch, taken.Commit)
	}
	for _, c := range taken.HeldBack {
		p.Line("         left out %s: %s", c.Path, c.Warning)
	}
	return nil
}

func (cmd sessionsCommand) signCommand() *cobra.Command {
	var branch string
	var yes bool
	c := cmd.of("sign", "sign the commits that a session left on nacre/SESSION with your key", func(ctx context.Context, rt *assembly.Runtime, id nacre.SessionID) error {
		signed, err := assembly.SignCommits(ctx, rt, assembly.Signing{
			Session: id, Branch: branch, Who: command.Operator(), Killed: cmd.tellKilled,
			Ask: func(ctx context.Context, o assembly.SignOffer) (bool, error) { return cmd.agreesToSign(ctx, o, yes) },
		})
		if err != nil {
			return err
		}
		if cmd.JSON {
			return cmd.PrintJSON(signed)
		}
		cmd.Printer(cmd.Stdout).Field("signed", "%s · %.7s · %d commits", signed.Branch, signed.Commit, signed.Commits)
		return nil
	})
	c.Long = `Makes signed copies of the commits that only the branch nacre/SESSION has, and moves it to
them. Their authors, messages and files stay; you are who committed them. The key is the one that your git
signs with (user.signingkey, gpg.format). A program that the repository's own settings name is not
started. Look at the commits first: your name stands for them.`
	c.Flags().StringVar(&branch, "branch", "", "the agent's name of the branch, where the session left several")
	c.Flags().BoolVar(&yes, "yes", false, "sign without being asked")
	return c
}

// agreesToSign shows what would be signed, and asks.
func (cmd sessionsCommand) agreesToSign(ctx context.Context, o assembly.SignOffer, yes bool) (bool, error) {
	if yes {
		return true, nil
	}
	if cmd.JSON || !cmd.CanAsk() {
		return false, command.Usage("nobody is here to say that %d commits of %s are signed: add --yes", len(o.Commits), o.Branch)
	}
	p := cmd.Printer(cmd.Stdout)
	p.Field("sign", "%s, as %s", o.Branch, o.Key)
	for _, commit := range o.Commits {
		p.Line("         %s", commit)
	}
	return cmd.Agrees(ctx, cmd.Stdout, "         sign them? [y/N] ")
}

func (cmd sessionsCommand) discardCommand() *cobra.Command {
	c := cmd.of("discard", "throw away what a session's agent changed and did not land", func(ctx context.Context, rt *assembly.Runtime, id nacre.SessionID) error {
		err := assembly.DiscardLeftover(ctx, rt, assembly.Taking{Session: id, Who: command.Operator(), Killed: cmd.tellKilled})
		if err != nil {
			return err
		}
		return cmd.tellDone("discarded", id)
	})
	c.Long = `Removes the files of an agent that did not land, and ends unfinished work for good. The
session stays in the list, and its records stay in the audit.`
	return c
}

func (cmd sessionsCommand) removeCommand() *cobra.Command {
	c := cmd.of("rm", "remove a session whose work is not lost with it", func(ctx context.Context, rt *assembly.Runtime, id nacre.SessionID) error {
		if err := assembly.RemoveSession(ctx, rt, id, cmd.tellKilled); err != nil {
			return err
		}
		return cmd.tellDone("removed", id)
	})
	c.Long = `Removes a session from the list, with all files in its folder. A session with work that did
not land, or is not finished, is not removed: take or discard that work first. The audit's
records, the receipt and the row in the ledger stay.`
	return c
}

func (cmd sessionsCommand) tellDone(what string, id nacre.SessionID) error {
	if cmd.JSON {
		return cmd.PrintJSON(map[string]string{"session": string(id), "state": what})
	}
	cmd.Printer(cmd.Stdout).Field(what, "%s", id)
	return nil
}

func (cmd sessionsCommand) pruneCommand() *cobra.Command {
	var older string
	var rule assembly.PruneRule
	c := &cobra.Command{
		Use: "prune [--older AGE] [--keep N]", Short: "remove old sessions, and none with work that did not land", Args: command.NoArguments,
		Long: `Removes sessions that ended longer ago than --older, but for the newest --keep. Without
either, [retention] of config.toml says which. Sessions that run, and those with work that did
not land or is not finished, stay. The audit's records, receipts and the ledger stay.`,
		Example: "  nacre sessions prune --older 30d --keep 20\n  nacre sessions prune --older 12h --dry-run",
		RunE: func(c *cobra.Command, _ []string) error {
			if rule.Keep < 0 || rule.Keep == 0 && older == "" && c.Flags().Changed("keep") {
				return command.Usage("--keep %d: write 1 or more", rule.Keep)
			}
			if older != "" {
				var err error
				if rule.Older, err = assembly.ParseAge(older); err != nil {
					return command.Usage("--older: %w", err)
				}
			}
			return cmd.prune(c.Context(), rule)
		},
	}
	c.Flags().StringVar(&older, "older", "", "age from which sessions go, such as 30d or 12h")
	c.Flags().IntVar(&rule.Keep, "keep", 0, "how many of the newest stay, however old they are")
	c.Flags().BoolVar(&rule.Dry, "dry-run", false, "say what would go, and remove nothing")
	return c
}

func (cmd sessionsCommand) prune(ctx context.Context, rule assembly.PruneRule) error {
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	if rule.Older == 0 && rule.Keep == 0 {
		if said, ok := assembly.Retention(rt); ok {
			rule.Older, rule.Keep = said.Older, said.Keep
		}
	}
	pruned, err := assembly.PruneSessions(ctx, rt, rule)
	if cmd.JSON {
		if err != nil {
			return err
		}
		return cmd.PrintJSON(pruned)
	}
	p := cmd.Printer(cmd.Stdout)
	verb := "removed"
	if rule.Dry {
		verb = "would go"
	}
	if err == nil || len(pruned.Removed) > 0 {
		p.Field(verb, "%s%s", sentence.Many(int64(len(pruned.Removed)), "session"), namesOf(pruned.Removed))
	}
	if n := len(pruned.Unlanded); n > 0 {
		p.Field("kept", "%s with work that did not land%s", sentence.Many(int64(n), "old session"), namesOf(pruned.Unlanded))
	}
	return err
}

// maxNames is how many sessions a line names.
const maxNames = 8

func namesOf(ids []nacre.SessionID) string {
	if len(ids) == 0 {
		return ""
	}
	names := make([]string, 0, maxNames)
	for _, id := range ids[:min(len(ids), maxNames)] {
		names = append(names, string(id))
	}
	if len(ids) > maxNames {
		names = append(names, "…")
	}
	return ": " + strings.Join(names, ", ")
}

// diskText shows how much room a session's folder takes.
func diskText(s assembly.ListedSession) string {
	if s.Machine != "" {
		return "" // it is on another machine's
	}
	text := terminal.Bytes(s.DiskBytes)
	if !s.DiskWhole {
		return "> " + text
	}
	return text
}
