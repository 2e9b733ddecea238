package workcmd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/terminal"
)

// defaultJobs is how many tasks run side by side.
const defaultJobs = 4

func (cmd taskCommand) runCommand() *cobra.Command {
	var run assembly.Run
	var jobs int
	away := detaching{Env: cmd.Env}
	c := &cobra.Command{
		Use: "run FILE... | --session NAME", Short: "carry tasks out sealed; what was verified lands",
		Long: `Composes each task, lets an agent work on it sealed and confined by its role's atoms,
verifies what came back outside of the sandbox, alone and on top of the branch as it is
by then, and lands exactly what was verified. Several tasks run side by side, each in a
clone of its own, and land one after the other: whole, or not at all.`,
		Example: "  nacre task run tasks/fix-dates/task.toml\n  nacre task run tasks/*/task.toml --jobs 8\n  nacre task run --session fix-dates     # go on with what was left or interrupted",
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case jobs < 1:
				return command.Usage("--jobs %d: write a number above 0", jobs)
			case len(args) == 0 && run.Session == "":
				return command.Usage("name a task's file, or a session that goes on; see %s --help", c.CommandPath())
			case len(args) > 1 && run.Session != "":
				return command.Usage("one session is for one task: leave --session out")
			case len(args) > 1 && away.detach:
				return command.Usage("--detach is for one task: name one file")
			case away.detach:
				return away.begin(c, args, "")
			case len(args) > 1:
				return cmd.runTasks(c.Context(), run, args, jobs)
			case len(args) == 1:
				run.TaskFile = args[0]
			}
			return runCommand(cmd).run(c.Context(), run, runOptions{yes: true, detached: away.detached})
		},
	}
	cmd.taskFlags(c, &run)
	away.flags(c.Flags())
	c.Flags().IntVar(&jobs, "jobs", defaultJobs, "how many tasks run side by side")
	return c
}

func (cmd taskCommand) spawnCommand() *cobra.Command {
	run := assembly.Run{Ending: assembly.Ending{Until: nacre.StageReturned}}
	c := &cobra.Command{
		Use: "spawn FILE", Short: "let an agent work on a task, and leave what it returns for verify and run",
		Long: `Pins the task: later edits of its files change nothing. The agent works sealed until it
returns; nothing is verified and nothing lands. nacre task verify SESSION judges what came
back, nacre task run --session SESSION lands it.`,
		Example: "  nacre task spawn tasks/fix-dates/task.toml",
		Args:    command.OneArgument("a task's file"),
		RunE: func(c *cobra.Command, args []string) error {
			run.TaskFile = args[0]
			return runCommand(cmd).run(c.Context(), run, runOptions{yes: true})
		},
	}
	cmd.taskFlags(c, &run)
	return c
}

func (cmd taskCommand) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "verify SESSION", Short: "judge what came back, on its base and on top of the branch; land nothing",
		Long: `Holds the work of a spawned task against its atoms and checks, outside of the sandbox, in
both passes. Exit 0: all held, and nacre task run --session SESSION lands it. Exit 1: the
report says which atom did not hold, and why.`,
		Example: "  nacre task verify fix-dates",
		Args:    command.OneArgument("a session"),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := nacre.ParseSessionID(args[0])
			if err != nil {
				return command.UsageOf(err)
			}
			return runCommand(cmd).run(c.Context(), assembly.Run{Session: id, Ending: assembly.Ending{Until: nacre.StageVerified}}, runOptions{yes: true})
		},
	}
}

// taskFlags are those that every command has that lets an agent work.
func (cmd taskCommand) taskFlags(c *cobra.Command, run *assembly.Run) {
	flags := c.Flags()
	flags.StringVar(&run.Project, "project", ".", "git repository to work on")
	flags.StringVar(&run.Brain, "brain", "", "which brain works (default: the first that is ready)")
	flags.StringVar(&run.Model, "model", "", "model for the brain (default: the brain's own)")
	flags.StringVar(&run.Recording, "recording", "", "recorded session for the replay brain")
	flags.StringArrayVar(&run.Checks, "check", nil, "command that must succeed on the result besides the atoms; may be repeated")
	reachFlags(flags, &run.Egress)
	flags.StringVar((*string)(&run.Group), "group", "", "whose memory, tools and policy apply (default main)")
	flags.StringVar((*string)(&run.Session), "session", "", "name of the session (default: the task's agent-id)")
	flags.IntVar(&run.MaxTurns, "max-turns", 0, "limit of the model's turns (default: the brain's own)")
	flags.IntVar(&run.Tries, "tries", 1, "how often the agent may work until its checks hold; each further time it is told what failed")
	flags.StringVar(&run.Budget, "budget", "", budgetHelp)
	flags.StringVar(&run.Held, "held", "", heldHelp)
	flags.DurationVar(&run.Limits.Wall, "time", 0, "time limit of the agent (default 1h)")
	c.PreRunE = func(*cobra.Command, []string) error {
		if run.MaxTurns < 0 {
			return command.Usage("--max-turns %d: write a number above 0", run.MaxTurns)
		}
		return errors.Join(checkNames(string(run.Group), string(run.Session)), checkTime(run.Limits.Wall), checkTries(run.Tries))
	}
}

// ended is what became of one of several tasks.
type ended struct {
	File   string          `json:"file"`
	Report assembly.Report `json:"report"`
	Error  string          `json:"error,omitempty"`
	err    error
}

// runTasks carries several tasks out side by side (S-19). Each of them ends by
// itself: one that fails stops no other.
func (cmd taskCommand) runTasks(ctx context.Context, run assembly.Run, files []string, jobs int) error {
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	results, places := make([]ended, len(files)), make(chan struct{}, jobs)
	var working sync.WaitGroup
	face := &tasksFace{env: cmd.Env, printer: cmd.Printer(cmd.Stdout)}
	for i, file := range files {
		working.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			one := run
			one.TaskFile = file
			one.Started = func(info assembly.SessionInfo) { face.say("started", file, string(info.Session)) }
			report, err := rt.Run(ctx, one)
			results[i] = ended{File: file, Report: report, err: err}
			if err != nil {
				results[i].Error = err.Error()
			}
			face.say("ended", file, outcome(results[i]))
		})
	}
	working.Wait()
	retain(ctx, cmd.Env, rt)
	return cmd.tellTasks(ctx, results)
}

// tasksFace tells of several runs on one stream.
type tasksFace struct {
	env     *command.Env
	printer *terminal.Printer
	mu      sync.Mutex
}

func (f *tasksFace) say(what, file, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.env.JSON {
		_ = f.env.PrintJSON(map[string]any{"event": what, "file": file, "text": text}) // the reader may be gone
		return
	}
	f.printer.Field(what, "%s · %s", file, text)
}

func outcome(e ended) string {
	switch {
	case e.err != nil:
		return e.Error
	case e.Report.Delivered:
		return "delivered its report"
	case e.Report.Landed:
		return fmt.Sprintf("landed %.7s", e.Report.Commit)
	}
	return "not landed: " + e.Report.Reason
}

// tellTasks shows all outcomes; the worst is the exit code.
func (cmd taskCommand) tellTasks(ctx context.Context, results []ended) error {
	rows := make([][]string, 0, len(results))
	worst := 0
	for _, e := range results {
		rows = append(rows, []string{e.File, string(e.Report.Session), outcome(e), terminal.Dollars(e.Report.Cost), terminal.Seconds(e.Report.Duration.Round(time.Second))})
		switch {
		case e.err != nil:
			worst = max(worst, cmd.CodeOf(e.err))
		case !e.Report.Landed && !e.Report.Delivered:
			worst = max(worst, command.ExitFailed)
		}
	}
	if ctx.Err() != nil {
		worst = command.ExitInterrupted
	}
	if cmd.JSON {
		if err := cmd.PrintJSON(map[string]any{"event": "report", "data": results}); err != nil {
			return err
		}
	} else {
		cmd.Printer(cmd.Stdout).Table([]string{"TASK", "SESSION", "OUTCOME", "COST", "TIME"}, rows)
	}
	if worst != 0 {
		return command.Exit(worst)
	}
	return nil
}
