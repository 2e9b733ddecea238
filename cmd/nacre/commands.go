package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/hookcmd"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/memorycmd"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/plugincmd"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/policycmd"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/rolecmd"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/servecmd"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/sessioncmd"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/workcmd"
)

// nacre is the program: one start of it, and the table of what it can do.
type nacre struct{ env *command.Env }

const longHelp = `nacre is the shell between an AI agent and everything it can touch.

  nacre exec --project . -- npm test  run any command sealed
  nacre claude                        your own agent's terminal, sealed (nacre codex, nacre agent NAME)
  nacre run "fix the failing test"    let an agent work sealed; what was verified lands
  nacre task run fix.toml             the same in a role, held at four layers
  nacre serve                         messages and schedules wake agents; nacre chat talks to them
  nacre demo                          see an attacked agent, and which layer stopped what

Exit codes: 0 ok · 1 the work failed, was refused or does not verify · 2 usage or
config · 3 not ready · 4 doctor found a failing check · 124 time-out, or a limit of
output or disk · 130 interrupted by Ctrl-C or nacre sessions stop.
exec gives the command's own code, and 125 when nacre fails before it starts.`

// commands are what nacre can do.
func (n nacre) commands() []entry {
	work := workcmd.Commands{Env: n.env, Open: n.open}
	roles := rolecmd.Commands{Env: n.env, Open: n.open}
	hooks := hookcmd.Commands{Env: n.env}
	sessions := sessioncmd.Commands{Env: n.env, Open: n.open, Work: work.Again}
	policies := policycmd.Commands{Env: n.env, Open: n.installed}
	serving := servecmd.Commands{Env: n.env, Open: n.open}
	plugins := plugincmd.Commands{Env: n.env, Open: n.open}
	memories := memorycmd.Commands{Env: n.env, Open: n.open}
	return []entry{
		{"exec", work.Exec},
		{"claude", work.Claude},
		{"codex", work.Codex},
		{"agent", work.Agent},
		{"login", work.Login},
		{"logout", work.Logout},
		{"credentials", sessions.Credentials},
		{"home", work.Home},
		{"run", work.Run},
		{"repl", work.Repl},
		{"attach", work.Attach},
		{"logs", work.Logs},
		{"ps", sessions.PS},
		{"demo", n.demoCommand},
		{"sessions", sessions.Sessions},
		{"show", sessions.Show},
		{"audit", sessions.Audit},
		{"receipt", sessions.Receipt},
		{"approvals", sessions.Approvals},
		{"web", sessions.Web},
		{"operators", sessions.Operators},
		{"policy", policies.Policy},
		{"learn", sessions.Learn},
		{"power", sessions.Power},
		{"config", policies.Config},
		{"doctor", n.doctorCommand},
		{"version", n.versionCommand},
		{"completion", n.completionCommand},
		{"egress", policies.Egress},
		{"redact", policies.Redact},
		{"grants", sessions.Grants},
		{"explain", work.Explain},
		{"capability", roles.Capability},
		{"role", roles.Role},
		{"task", work.Task},
		{"ledger", sessions.Ledger},
		{"hooks", hooks.Hooks},
		{"hook", hooks.Hook},
		{"serve", serving.Serve},
		{"chat", serving.Chat},
		{"plugin", plugins.Plugin},
		{"setup", plugins.Setup},
		{"schedule", serving.Schedule},
		{"store", serving.Store},
		{"events", serving.Events},
		{"memory", memories.Memory},
	}
}

// entry is a command that is not made yet.
type entry struct {
	name string
	make func() *cobra.Command
}

// command is nacre, with what it takes to act on these arguments.
func (n nacre) command(args []string) *cobra.Command {
	root := &cobra.Command{
		Use: "nacre", Short: "run AI agents sealed, verified and recorded", Long: longHelp,
		SilenceErrors: true, SilenceUsage: true,
		Args: command.NoArguments,
	}
	tell := root.Flags().Bool("version", false, "print the version")
	root.RunE = func(c *cobra.Command, _ []string) error {
		if *tell {
			return n.printVersion()
		}
		return c.Help()
	}
	root.SetHelpCommand(helpCommand())
	root.SetFlagErrorFunc(command.FlagError)
	root.PersistentFlags().BoolVar(&n.env.JSON, "json", false, "print JSON for scripts")
	root.AddCommand(n.asked(args)...)
	command.Told(root)
	return root
}

// asked makes the one command that arguments begin with. All of them together
// would take a tenth of what every start takes, and only help, a completion and
// a mistake need them.
func (n nacre) asked(args []string) []*cobra.Command {
	all := n.commands()
	if at := slices.IndexFunc(all, func(e entry) bool { return len(args) > 0 && e.name == args[0] }); at >= 0 {
		all = all[at : at+1]
	}
	made := make([]*cobra.Command, len(all))
	for i, e := range all {
		made[i] = e.make()
	}
	return made
}

func (n nacre) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version", Args: command.NoArguments, Example: "  nacre version",
		RunE: func(*cobra.Command, []string) error { return n.printVersion() },
	}
}

func (n nacre) printVersion() error {
	if n.env.JSON {
		return n.env.PrintJSON(map[string]string{"version": n.env.Version})
	}
	n.env.Printer(n.env.Stdout).Line("nacre %s", n.env.Version)
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
				return command.Usage("unknown command %.80q; see %s --help", strings.Join(args, " "), c.Root().CommandPath())
			}
			meant.InitDefaultHelpFlag()
			return meant.Help()
		},
	}
}
