package workcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/kernel"
	"github.com/nacre-dev/nacre/telemetry"
)

type runCommand Commands

// maxPrompt is the longest task text, in bytes.
const maxPrompt = 1 << 20

func (cmd runCommand) command() *cobra.Command {
	var run assembly.Run
	var promptFile, group, name, metrics, sandbox, servers string
	var yes, verbose bool
	var wall time.Duration
	away := detaching{Env: cmd.Env, started: func(info assembly.SessionInfo) { newFace(cmd.Env).started(info) }}
	c := &cobra.Command{
		Use: "run TASK | --prompt-file FILE | -", Short: "let an agent work sealed; what was verified lands",
		Long: `An agent works on a private clone of the project, sealed. What it made is checked
outside, in a fresh sandbox, first alone and then on top of the branch as it is by
then. Exactly the tree that passed lands. Without a check nothing lands.`,
		Example: "  nacre run \"fix the failing date test\" --check \"go test ./...\"\n  nacre run --session work        # go on with what was interrupted",
		RunE: func(c *cobra.Command, args []string) error {
			if err := errors.Join(checkNames(group, name), checkTime(wall)); err != nil {
				return err
			}
			if run.MaxTurns < 0 {
				return command.Usage("--max-turns %d: write a number above 0", run.MaxTurns)
			}
			if err := checkTries(run.Tries); err != nil {
				return err
			}
			text, err := cmd.taskText(args, promptFile, name != "" || run.Recording != "")
			if err != nil {
				return err
			}
			run.Task, run.Group, run.Session, run.Limits.Wall = text, nacre.Group(group), nacre.SessionID(name), wall
			if away.detach {
				return away.begin(c, words(run.Task), run.Task)
			}
			return cmd.run(c.Context(), run, runOptions{metrics: metrics, sandbox: sandbox, servers: servers, yes: yes, detached: away.detached, verbose: verbose})
		},
	}
	flags := c.Flags()
	flags.StringVar(&promptFile, "prompt-file", "", "read the task from FILE")
	flags.StringVar(&run.Project, "project", ".", "git repository to work on")
	flags.StringVar(&run.Role, "role", "", "role that holds the agent, for a task that needs no file; see nacre role list")
	flags.StringVar(&run.Brain, "brain", "", "claude, codex, acp, anthropic, openai or replay (default: the first that is ready)")
	flags.StringVar(&run.Model, "model", "", "model for the brain (default: the brain's own)")
	flags.StringVar(&run.Recording, "recording", "", "recorded session for the replay brain")
	flags.StringVar(&run.Record, "record", "", "write what the brain chooses to a new FILE, without secrets, for the replay brain")
	flags.StringArrayVar(&run.Checks, "check", nil, "command that must succeed on the result; may be repeated")
	reachFlags(flags, &run.Egress)
	flags.StringArrayVar(&run.Powers, "power", nil, "power that this run has though it is locked; may be repeated; see nacre power list")
	flags.StringVar(&sandbox, "sandbox", "", "backend of the sandboxes, such as k8s (default: that of config.toml)")
	flags.StringVar(&servers, "mcp-config", "", "file of mcpServers; each has to be a plugin, which is what runs (docs/plugins.md)")
	flags.StringVar(&group, "group", "", "whose memory, tools and policy apply (default main)")
	flags.StringVar(&name, "session", "", "name of the session; one that was interrupted goes on")
	flags.IntVar(&run.MaxTurns, "max-turns", 0, "limit of the model's turns (default: the brain's own)")
	flags.BoolVar(&yes, "yes", false, "begin where something will keep the work from landing, without being asked")
	flags.IntVar(&run.Tries, "tries", 1, "how often the agent may work until its checks hold; each further time it is told what failed")
	flags.StringVar(&run.Budget, "budget", "", budgetHelp)
	flags.BoolVar(&run.Dirty, "dirty", false, "let the agent work on your uncommitted edits as well; what lands is its own changes alone")
	flags.StringVar(&run.Held, "held", "", heldHelp)
	flags.DurationVar(&wall, "time", 0, "time limit of the agent (default 1h)")
	flags.BoolVarP(&verbose, "verbose", "v", false, "show what tools are called with and what they give, in full lines")
	flags.StringVar(&metrics, "metrics", "", "write the kernel's counters to FILE at the end, in Prometheus' text format")
	away.flags(flags)
	command.CompletesFlag(c, "session", Commands(cmd).resumable)
	return c
}

// resumable are the sessions that go on where they are named, for completion.
func (c Commands) resumable(ctx context.Context) ([]command.Offered, error) {
	rt, err := c.Open(ctx)
	if err != nil {
		return nil, err
	}
	list, err := rt.Sessions()
	var offered []command.Offered
	for _, s := range list {
		if s.Resumable {
			offered = append(offered, command.Offered{Word: string(s.ID), About: s.Kind + ", " + string(s.State)})
		}
	}
	return offered, err
}

// words are the arguments of a run that reads its task from standard input.
func words(task string) []string {
	if task == "" {
		return nil
	}
	return []string{"-"}
}

// taskText takes the task from exactly one source (M-01).
func (cmd runCommand) taskText(args []string, file string, optional bool) (string, error) {
	if len(args) > 1 {
		return "", command.Usage("one task, please: put it in quotes")
	}
	if len(args) == 1 && file != "" {
		return "", command.Usage("two tasks: one on the command line and one in --prompt-file; name one")
	}
	var text string
	switch {
	case len(args) == 1 && args[0] == "-":
		data, err := io.ReadAll(io.LimitReader(cmd.Stdin, maxPrompt+1))
		if err != nil {
			return "", err
		}
		text = string(data)
	case len(args) == 1:
		text = args[0]
	case file != "":
		data, err := os.ReadFile(file)
		if err != nil {
			return "", command.Usage("--prompt-file: %w", err)
		}
		text = string(data)
	case optional:
		return "", nil
	default:
		return "", command.Usage("no task: nacre run \"what to do\", or --prompt-file FILE, or - for standard input")
	}
	if len(text) > maxPrompt {
		return "", command.Usage("the task is over %d bytes: shorten it", maxPrompt)
	}
	if strings.TrimSpace(text) == "" {
		return "", command.Usage("the task is empty")
	}
	return text, nil
}

// runOptions are what a run is told beside its task.
type runOptions struct {
	metrics string
	// sandbox is the backend; empty means that of the config.
	sandbox string
	// servers is a file of MCP servers that the run wants; empty means none.
	servers string
	yes     bool
	// detached says that the run has no terminal, and nobody before one.
	detached bool
	// verbose shows what tools were called with and gave.
	verbose bool
}

// run lets an agent work, and keeps how that ended for other terminals (U-23).
func (cmd runCommand) run(ctx context.Context, run assembly.Run, o runOptions) error {
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(assembly.UseBackend(rt, o.sandbox), wantServers(rt, run.Group, o.servers)); err != nil {
		return err
	}
	face := newFace(cmd.Env)
	face.verbose = o.verbose
	err = cmd.work(ctx, rt, run, o, face)
	face.end(err)
	return err
}

// wantServers refuses a file with an MCP server that is no plugin of the run's.
func wantServers(rt *assembly.Runtime, group nacre.Group, path string) error {
	if path == "" {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return command.Usage("--mcp-config: %w", err)
	}
	defer func() { _ = file.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(file, assembly.MaxMCPServers+1))
	if err != nil {
		return command.Usage("--mcp-config: %w", err)
	}
	return assembly.CheckMCPServers(rt, group, data)
}

func (cmd runCommand) work(ctx context.Context, rt *assembly.Runtime, run assembly.Run, o runOptions, face *face) error {
	if !cmd.JSON || o.detached {
		before := face.terminal
		if o.detached {
			before = nil
		}
		face.notice = notice(cmd.Env, rt, before)
		defer face.notice.Close()
	}
	run.Progress, run.Asking = face.progress, face.asking()
	run.Started = func(info assembly.SessionInfo) {
		face.keep(rt, info.Session)
		face.started(info)
		if o.detached {
			face.leave()
		}
	}
	run.Child = childOf(cmd.Env, rt)
	if o.detached {
		run.Asking.Patience = detachedPatience
	}
	if !o.yes {
		run.Asking.Confirm = face.confirm
	}
	report, err := rt.Run(ctx, run)
	retain(ctx, cmd.Env, rt)
	if err != nil {
		return face.broken(report, err)
	}
	if err := errors.Join(face.report(report), face.showHeld(ctx, rt, report), writeMetrics(o.metrics, report.Kernel)); err != nil {
		return err
	}
	return exitOf(report)
}

// exitOf is the exit code of what a run came to.
func exitOf(report assembly.Report) error {
	switch {
	case report.Paused != "" && report.Brain == "done" && report.Reason == "":
		return nil
	case report.TimedOut || report.Limit != "":
		return command.Exit(command.ExitTimeout)
	case !report.Landed && !report.Delivered:
		return command.Exit(command.ExitFailed)
	}
	return nil
}

// writeMetrics writes the kernel's counters where a collector of text files
// finds them: whole or not at all.
func writeMetrics(path string, stats kernel.Stats) error {
	if path == "" {
		return nil
	}
	var text bytes.Buffer
	if err := telemetry.Write(&text, stats); err != nil {
		return err
	}
	if err := os.WriteFile(path+".tmp", text.Bytes(), 0o600); err != nil {
		return fmt.Errorf("--metrics: %w", err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return fmt.Errorf("--metrics: %w", err)
	}
	return nil
}
