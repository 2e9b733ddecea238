package rolecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/verify"
)

func (cmd capabilityCommand) verifyCommand() *cobra.Command {
	var base, report string
	c := &cobra.Command{
		Use: "verify NAME...", Short: "hold an agent's work tree against atoms, and land nothing",
		Long: `Judges the files in $WORKTREE_PATH, as they are on the HEAD of $MAIN_REPO and as they
would be merged, by the verifiers of the named atoms. $TASK_TOML gives the lists and
limits, $AGENT_ID says whose work it is, $RUN_MODE is worktree, simulated-merge or both;
all five are needed. Nothing of the work tree's own git is believed or run, atoms are those
of nacre and of $MAIN_REPO, and commands of the code run sealed and offline. Exit 0: all
held. Exit 1: the report on standard output says what did not. Exit 2: something is missing
or cannot be read, and nothing was judged.`,
		Example: "  AGENT_ID=fix-dates TASK_TOML=$PWD/tasks/fix/task.toml WORKTREE_PATH=$PWD/../work MAIN_REPO=$PWD RUN_MODE=both \\\n    nacre capability verify policy::no-git-ops scope::files-whitelist",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.Usage("%s takes one or more atoms; see %s --help", c.CommandPath(), c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			v, err := cmd.worktreeToJudge(args, report)
			if err != nil {
				return command.UsageOf(err)
			}
			v.Base = base
			return cmd.judgeWorktree(c.Context(), v)
		},
	}
	c.Flags().StringVar(&base, "base", "", "the commit that the work began from (default: the HEAD of $MAIN_REPO)")
	c.Flags().StringVar(&report, "report", "", "file with what the agent said last, or - for standard input")
	return c
}

// worktreeToJudge reads the five variables. One that is missing or wrong refuses.
func (cmd capabilityCommand) worktreeToJudge(names []string, report string) (assembly.Verification, error) {
	v := assembly.Verification{Agent: cmd.Getenv("AGENT_ID")}
	if err := atom.CheckAgentID(v.Agent); err != nil {
		return v, fmt.Errorf("AGENT_ID: %w", err)
	}
	switch mode := cmd.Getenv("RUN_MODE"); mode {
	case "worktree":
		v.Separate = true
	case "simulated-merge":
		v.Merged = true
	case "both":
		v.Separate, v.Merged = true, true
	default:
		return v, fmt.Errorf("RUN_MODE is %q: write worktree, simulated-merge or both", mode)
	}
	var err error
	if v.Project, err = cmd.folderIn("MAIN_REPO"); err != nil {
		return v, err
	}
	if v.Worktree, err = cmd.folderIn("WORKTREE_PATH"); err != nil {
		return v, err
	}
	if v.Project != v.Worktree && below(v.Project, v.Worktree) {
		return v, errors.New("MAIN_REPO lies in WORKTREE_PATH, where the agent could have changed it")
	}
	if v.Task, err = cmd.taskOf(v); err != nil {
		return v, fmt.Errorf("TASK_TOML: %w", err)
	}
	if v.Report, err = cmd.saidIn(report); err != nil {
		return v, fmt.Errorf("--report: %w", err)
	}
	v.Atoms = names
	return v, nil
}

// folderIn is the folder that a variable names, with its links resolved.
func (cmd capabilityCommand) folderIn(variable string) (string, error) {
	dir := cmd.Getenv(variable)
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("%s is %q: name a folder by its full path", variable, dir)
	}
	full, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("%s: %w", variable, err)
	}
	if info, err := os.Stat(full); err != nil || !info.IsDir() {
		return "", fmt.Errorf("%s: %s is not a folder", variable, dir)
	}
	return full, nil
}

// below tells a path in a folder, or the folder itself. Both are resolved.
func below(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}

// taskOf reads the task, which must not be the agent's to change.
func (cmd capabilityCommand) taskOf(v assembly.Verification) ([]byte, error) {
	name := cmd.Getenv("TASK_TOML")
	if !filepath.IsAbs(name) {
		return nil, fmt.Errorf("%q: name the task's file by its full path", name)
	}
	full, err := filepath.EvalSymlinks(name)
	if err != nil {
		return nil, err
	}
	if v.Worktree != v.Project && below(full, v.Worktree) {
		return nil, errors.New("it lies in WORKTREE_PATH, where the agent could have changed it")
	}
	text, err := command.ReadInput(full)
	if err != nil {
		return nil, err
	}
	task, err := atom.ParseParameters(text)
	if err == nil && task.AgentID != "" && task.AgentID != v.Agent {
		err = fmt.Errorf("it is %s's, and AGENT_ID is %s", task.AgentID, v.Agent)
	}
	return text, err
}

// saidIn is what the agent said last; nothing where no file is named.
func (cmd capabilityCommand) saidIn(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	from := cmd.Stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }() // it was only read
		from = f
	}
	return io.ReadAll(io.LimitReader(from, verify.MaxReport+1)) // one more: then it is too long
}

// hasRow reports whether the agent's latest run has its row in the ledger.
func (cmd capabilityCommand) hasRow(ctx context.Context, agent string) (found bool, err error) {
	err = cmd.WithLedger(ctx, func(l *ledger.Ledger) error {
		_, err := l.Show(ctx, agent)
		if found = err == nil; errors.Is(err, ledger.ErrNotFound) {
			return nil
		}
		return err
	})
	return found, err
}

func (cmd capabilityCommand) judgeWorktree(ctx context.Context, v assembly.Verification) error {
	var err error
	if v.Ledger, err = cmd.hasRow(ctx, v.Agent); err != nil {
		return err
	}
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	verdict, err := rt.Verify(ctx, v)
	if err != nil {
		return err
	}
	if cmd.JSON {
		err = cmd.PrintJSON(verdict)
	} else {
		cmd.showVerdict(verdict)
	}
	if err == nil && !verdict.Passed {
		return command.Exit(command.ExitFailed)
	}
	return err
}

func (cmd capabilityCommand) showVerdict(v assembly.Verdict) {
	p := cmd.Printer(cmd.Stdout)
	for _, one := range v.Verdicts {
		switch {
		case one.Passed:
			p.Line("held    %s  (%s)", one.Capability, one.Strength)
		case one.NotRun:
			p.Line("not run %s: %s", one.Capability, one.Reason)
		default:
			p.Line("FAILED  %s: %s", one.Capability, one.Reason)
			for line := range strings.Lines(one.Detail) {
				p.Line("        %s", strings.TrimRight(line, "\r\n"))
			}
		}
	}
	if v.Passed {
		p.Line("all held, last judged as %s", v.Pass)
		return
	}
	p.Line("%d of %d did not hold, judged as %s", len(v.Failed), len(v.Verdicts), v.Pass)
}
