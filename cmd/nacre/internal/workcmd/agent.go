package workcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/terminal"
)

// Claude is nacre claude.
func (c Commands) Claude() *cobra.Command { return agentCommand{execCommand(c), "claude"}.command() }

// Codex is nacre codex.
func (c Commands) Codex() *cobra.Command { return agentCommand{execCommand(c), "codex"}.command() }

// Agent is nacre agent.
func (c Commands) Agent() *cobra.Command { return agentCommand{execCommand(c), ""}.command() }

// agentCommand opens an agent's own terminal interface (U-01). Where it has no name,
// the command line names the agent.
type agentCommand struct {
	execCommand
	name string
}

const agentHelp = `It works on the folder that you are in, which it may write. Nothing else of your files
is there. Git works: its commits come as branches nacre/SESSION, and your branch stays where
it is unless --land says otherwise. The model's key stays outside; ipc and its skills are inside. The agent's own
questions and its own sandbox are off, since the walls are nacre's: --prompts keeps them.
What you wrote and said is there the next time, per project (nacre home list); settings,
hooks, servers and shell start files that the agent writes end with the session.
Flags of nacre come first; what follows is handed to the program, after -- in any case.
The exit code is the program's, and 125 when nacre fails before it starts.`

func (cmd agentCommand) command() *cobra.Command {
	c := &cobra.Command{
		Use: cmd.name + " [flags] [ARG…]", Short: "open " + cmd.name + "'s own terminal interface sealed",
		Long:               "Opens " + cmd.name + "'s own terminal interface in the sandbox.\n" + agentHelp,
		Example:            fmt.Sprintf("  nacre %[1]s\n  nacre %[1]s --egress proxy.example.com:443\n  nacre %[1]s -- --help", cmd.name),
		DisableFlagParsing: true,
	}
	if cmd.name == "" {
		c.Use, c.Short = "agent [flags] NAME [-- ARG…]", "open an agent's own terminal interface sealed"
		c.Long = "Opens the terminal interface of claude, codex, or a table [agents.NAME] of config.toml in the sandbox.\n" + agentHelp
		c.Example = "  nacre agent claude\n  nacre agent --fresh codex -- resume --last"
	}
	var o agentOptions
	o.bind(c.Flags())
	c.RunE = func(c *cobra.Command, words []string) error {
		status := cmd.status()
		rest, err := o.parse(c.Flags(), words)
		if errors.Is(err, pflag.ErrHelp) {
			return c.Help()
		}
		cmd.JSON = cmd.JSON || o.json
		if err == nil {
			err = errors.Join(checkNames(o.group, o.session), checkTime(o.exec.Limits.Wall))
		}
		if err == nil {
			o.exec.Land, err = cmd.landing(o.land)
		}
		if err == nil {
			o.exec.Screen, err = passing(o.terminal, terminal.Together(true))
		}
		if err != nil {
			return cmd.status().failed(command.FlagError(c, err))
		}
		if o.agent.Name, o.agent.Args, err = cmd.named(rest); err != nil {
			return status.failed(err)
		}
		return cmd.open(c.Context(), o)
	}
	return c
}

// named takes the agent's name off its arguments, where the command line names it.
func (cmd agentCommand) named(rest []string) (name string, args []string, err error) {
	if cmd.name != "" {
		return cmd.name, rest, nil
	}
	if len(rest) == 0 {
		return "", nil, command.Usage("name an agent: claude, codex, or a table [agents.NAME] of config.toml; see nacre agent --help")
	}
	args = rest[1:]
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	return rest[0], args, nil
}

// agentOptions are the flags of nacre before those of the program.
type agentOptions struct {
	agent          assembly.Agent
	exec           assembly.Exec
	group, session string
	terminal, land string
	quiet, json    bool
}

func (o *agentOptions) bind(flags *pflag.FlagSet) {
	flags.BoolVar(&o.agent.Prompts, "prompts", false, "keep the agent's own questions before it acts")
	flags.BoolVar(&o.agent.Fresh, "fresh", false, "begin with an empty home, and keep nothing of it")
	flags.StringVar(&o.exec.Project, "project", "", "folder to work on, bound at /workspace (default: the current one)")
	reachFlags(flags, &o.exec.Egress)
	flags.StringArrayVar(&o.exec.Services, "reach", nil, reachHelp)
	flags.StringArrayVar(&o.exec.Publish, "publish", nil, publishHelp)
	flags.StringVar(&o.land, "land", landBranch, landHelp)
	flags.StringVar(&o.group, "group", "", "whose memory, tools, home and policy apply (default main)")
	flags.StringVar(&o.session, "session", "", "name of the session (default: a new one)")
	flags.DurationVar(&o.exec.Limits.Wall, "time", 0, "time limit (default 24h)")
	flags.StringVar(&o.terminal, "terminal", terminalList, "control sequences that reach your terminal: those of a list, or raw")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "print nothing of nacre's own unless it fails")
}

// parse reads nacre's flags at the front of the words. The first word that is none
// of them, or what follows --, is the program's.
func (o *agentOptions) parse(flags *pflag.FlagSet, words []string) (rest []string, err error) {
	for len(words) > 0 {
		if words[0] == "-h" || words[0] == "--help" {
			return nil, pflag.ErrHelp
		}
		if words[0] == "--json" {
			o.json, words = true, words[1:]
			continue
		}
		flag, valued := known(flags, words[0])
		if flag == nil {
			break
		}
		taken := 1
		if !valued && flag.NoOptDefVal == "" {
			taken = 2
		}
		if taken > len(words) {
			return nil, fmt.Errorf("flag needs an argument: %s", words[0])
		}
		if err := flags.Parse(words[:taken]); err != nil {
			return nil, err
		}
		words = words[taken:]
	}
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	return slices.Clone(words), nil
}

// known is nacre's flag that a word is, if it is one, and whether its value is in it.
func known(flags *pflag.FlagSet, word string) (flag *pflag.Flag, valued bool) {
	if name, long := strings.CutPrefix(word, "--"); long {
		name, _, valued := strings.Cut(name, "=")
		return flags.Lookup(name), valued
	}
	if len(word) == 2 && word[0] == '-' {
		return flags.ShorthandLookup(word[1:]), false
	}
	return nil, false
}

// open opens the agent on our streams.
func (cmd agentCommand) open(ctx context.Context, o agentOptions) error {
	e := o.exec
	e.Group, e.Session = nacre.Group(o.group), nacre.SessionID(o.session)
	status := cmd.status()
	status.screen.agent = true
	return cmd.sealed(ctx, e, attending{status: status, quiet: o.quiet}, func(ctx context.Context, rt *assembly.Runtime, e assembly.Exec) (assembly.ExecResult, error) {
		return assembly.OpenAgent(ctx, rt, o.agent, e)
	})
}

// opened tells what the agent is sealed with, in a few short lines.
func (s status) opened(info assembly.SessionInfo) {
	p := s.printer()
	p.Field("nacre", "session %s · %s · sealed on this project", info.Session, info.Brain)
	p.Line("         model      %s, up to %s", info.Model, info.BudgetUSD)
	if len(info.Egress) > 0 {
		p.Line("         may reach  %s", terminal.List(info.Egress, "nothing"))
	}
	if len(info.Services) > 0 {
		p.Line("         services   %s", terminal.List(info.Services, "none"))
	}
	for _, link := range info.Published {
		p.Line("         port       %s", link)
	}
	if s.screen.word != "" {
		p.Line("         questions  show the word %s, which no agent knows; Ctrl-] answers", s.screen.word)
	}
	p.NotHeld(info.NotEnforced)
}
