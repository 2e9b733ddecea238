package workcmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
)

func (cmd taskCommand) auditCommand() *cobra.Command {
	var run assembly.Run
	c := &cobra.Command{
		Use: "audit SESSION", Short: "hand verified work to an auditor; land nothing",
		Long: `Verifies the work of a spawned task, in both passes, and hands it to an agent in the role
auditor: the files as they would land, what was asked, what the agent reports, the verdicts
and the differences. It reads them, sealed, and writes its own verdict. From then on only
the tree that an auditor passed lands. Exit 0: it passed, and nacre task merge SESSION
lands it. Exit 1: it did not pass, or something else did not hold.`,
		Example: "  nacre task audit fix-dates\n  nacre task audit fix-dates --brain codex     # an auditor of another make",
		Args:    command.OneArgument("a session"),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := nacre.ParseSessionID(args[0])
			if err != nil {
				return command.UsageOf(err)
			}
			return cmd.auditTask(c.Context(), id, run)
		},
	}
	flags := c.Flags()
	flags.StringVar(&run.Brain, "brain", "", "which brain audits (default: the first that is ready)")
	flags.StringVar(&run.Model, "model", "", "model for the brain (default: the brain's own)")
	flags.StringVar(&run.Recording, "recording", "", "recorded session for the replay brain")
	flags.DurationVar(&run.Limits.Wall, "time", 0, "time limit of the auditor (default 1h)")
	c.PreRunE = func(*cobra.Command, []string) error { return checkTime(run.Limits.Wall) }
	return c
}

// auditTask verifies a session's work and has it audited.
func (cmd taskCommand) auditTask(ctx context.Context, id nacre.SessionID, run assembly.Run) error {
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	if err := rt.CheckAuditor(ctx, id, run); err != nil {
		return err
	}
	face := newFace(cmd.Env)
	work := assembly.Run{Session: id, Ending: assembly.Ending{Until: nacre.StageVerified}, Telling: assembly.Telling{Started: face.started, Progress: face.progress}, Asking: face.asking()}
	verified, err := rt.Run(ctx, work)
	if err != nil {
		return face.broken(verified, err)
	}
	if verified.Paused == "" || verified.Commit == "" {
		return errors.Join(face.report(verified), command.Exit(command.ExitFailed))
	}
	run.Started, run.Progress, run.Asking = face.started, face.progress, face.asking()
	decided, report, err := rt.Audit(ctx, verified, run)
	if err != nil {
		return face.broken(report, err)
	}
	if err := errors.Join(face.report(report), face.audited(decided)); err != nil {
		return err
	}
	if !decided.Passed {
		return command.Exit(command.ExitFailed)
	}
	return nil
}

// audited shows what an auditor decided, and what to do next.
func (f *face) audited(d assembly.Audit) error {
	if f.env.JSON {
		return f.env.PrintJSON(map[string]any{"event": "audit", "data": d})
	}
	if !d.Passed {
		f.printer.Prose("not passed", d.Reason)
		f.printer.Field("look", "nacre ledger show %s", d.DNA)
		return nil
	}
	f.printer.Field("passed", "by %s · nothing has landed", d.Auditor)
	f.printer.Field("next", "nacre task merge %s", d.Session)
	return nil
}

func (cmd taskCommand) mergeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "merge SESSION", Short: "land what an auditor passed, and nothing else",
		Long: `Lands the work of a task, as nacre task run --session SESSION does, on one more condition:
an auditor has passed exactly the tree that would land. Where its branch has moved since,
the work is verified again and waits for another audit. It acts on the host in the role
merger, in which no agent is started.`,
		Example: "  nacre task merge fix-dates",
		Args:    command.OneArgument("a session"),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := nacre.ParseSessionID(args[0])
			if err != nil {
				return command.UsageOf(err)
			}
			return runCommand(cmd).run(c.Context(), assembly.Run{Session: id, Ending: assembly.Ending{Merger: true}}, runOptions{yes: true})
		},
	}
}
