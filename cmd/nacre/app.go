package main

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/internal/display"
)

// app is what every command works with.
type app struct {
	stdin          *os.File
	stdout, stderr *os.File
	getenv         func(string) string
	// interrupted tells whether somebody asked this process to end.
	interrupted func() bool
	json        bool
}

const longHelp = `nacre is the shell between an AI agent and everything it can touch.

  nacre exec -- npm test              run any command sealed
  nacre run "fix the failing test"    let an agent work sealed; what was verified lands
  nacre task run fix.toml             the same in a role, held at four layers
  nacre serve                         messages and schedules wake agents; nacre chat talks to them
  nacre demo                          see an attacked agent, and which layer stopped what

Exit codes: 0 ok · 1 the work failed, was refused or does not verify · 2 usage or
config · 3 not ready · 4 doctor found a failing check · 124 time-out, or a limit of
output or disk · 130 interrupted by Ctrl-C or nacre sessions stop.
exec gives the command's own code, and 125 when nacre fails before it starts.`

// command is nacre, with what it takes to act on these arguments.
func (a *app) command(args []string) *cobra.Command {
	root := &cobra.Command{
		Use: "nacre", Short: "run AI agents sealed, verified and recorded", Long: longHelp,
		SilenceErrors: true, SilenceUsage: true,
		Args: noArguments,
	}
	tell := root.Flags().Bool("version", false, "print the version")
	root.RunE = func(c *cobra.Command, _ []string) error {
		if *tell {
			return a.printVersion()
		}
		return c.Help()
	}
	root.SetHelpCommand(helpCommand())
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage("%w; see %s --help", err, c.CommandPath())
	})
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON for scripts")
	root.AddCommand(a.asked(args)...)
	root.CompletionOptions.HiddenDefaultCmd = true
	return root
}

// asked makes the one command that arguments begin with. All of them together
// would take a tenth of what every start takes, and only help, a completion and
// a mistake need them.
func (a *app) asked(args []string) []*cobra.Command {
	all := a.commands()
	if at := slices.IndexFunc(all, func(c named) bool { return len(args) > 0 && c.name == args[0] }); at >= 0 {
		all = all[at : at+1]
	}
	made := make([]*cobra.Command, len(all))
	for i, c := range all {
		made[i] = c.make()
	}
	return made
}

// named is a command that is not made yet.
type named struct {
	name string
	make func() *cobra.Command
}

// commands are what nacre can do.
func (a *app) commands() []named {
	return []named{
		{"exec", a.execCommand}, {"run", a.runCommand}, {"demo", a.demoCommand}, {"sessions", a.sessionsCommand}, {"audit", a.auditCommand},
		{"approvals", a.approvalsCommand}, {"policy", a.policyCommand}, {"doctor", a.doctorCommand}, {"version", a.versionCommand},
		{"redact", a.redactCommand}, {"grants", a.grantsCommand}, {"explain", a.explainCommand},
		{"capability", a.capabilityCommand}, {"role", a.roleCommand}, {"task", a.taskCommand}, {"ledger", a.ledgerCommand},
		{"hooks", a.hooksCommand}, {"hook", a.hookCommand},
		{"serve", a.serveCommand},
		{"chat", a.chatCommand},
		{"plugin", a.pluginCommand}, {"setup", a.setupCommand},
		{"schedule", a.scheduleCommand},
		{"events", a.eventsCommand},
		{"memory", a.memoryCommand},
	}
}

// open assembles an installation's parts. It starts nothing.
func (a *app) open(ctx context.Context) (*assembly.Runtime, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return assembly.Open(ctx, assembly.Options{Getenv: a.getenv, Executable: executable, Now: time.Now, Version: version})
}

// printer writes for people, to stream.
func (a *app) printer(stream *os.File) *display.Printer {
	return display.New(stream, display.Detect(isTerminal(stream), a.getenv))
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// printJSON writes one object or array on a line of its own.
func printJSON(w io.Writer, v any) error {
	return display.JSON(w, v)
}

func noArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("unknown argument %.80q; see %s --help", args[0], c.CommandPath())
	}
	return nil
}

func oneArgument(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usage("%s takes %s; see %s --help", c.CommandPath(), what, c.CommandPath())
		}
		return nil
	}
}

// group is a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: noArguments, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(commands...)
	return c
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version", Args: noArguments, Example: "  nacre version",
		RunE: func(*cobra.Command, []string) error { return a.printVersion() },
	}
}

func (a *app) printVersion() error {
	if a.json {
		return printJSON(a.stdout, map[string]string{"version": version})
	}
	a.printer(a.stdout).Line("nacre %s", version)
	return nil
}

// helpCommand tells of the command that is named. Cobra's own answers a name that
// is none with the help of the whole, as if that had been asked for.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "say how a command is used", Example: "  nacre help run",
		RunE: func(c *cobra.Command, args []string) error {
			meant, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usage("unknown command %.80q; see %s --help", strings.Join(args, " "), c.Root().CommandPath())
			}
			meant.InitDefaultHelpFlag()
			return meant.Help()
		},
	}
}
