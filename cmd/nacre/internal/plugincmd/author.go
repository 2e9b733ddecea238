package plugincmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/mcptool"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/pluginhost/mcp"
	"github.com/nacre-dev/nacre/internal/plugintest"
)

type authorCommand Commands

const (
	// listTimeout is for an MCP server to start and say which tools it has.
	listTimeout = time.Minute
	// maxConfig is the largest file for --config, in bytes.
	maxConfig = 1 << 20
)

func (cmd authorCommand) scaffold() *cobra.Command {
	var n newPlugin
	c := &cobra.Command{
		Use: "new NAME", Short: "make a plugin that works at once",
		Long: `Makes a folder with a manifest, a handler, a skill and tests, in go, python or
typescript; each needs its own language's library only. With --mcp the tools are
those of the MCP server that COMMAND starts here, outside of any sandbox, to be asked
which it has. A tool whose name another plugin has gets the plugin's before it.`,
		Example: "  nacre plugin new notes --lang python\n  nacre plugin new everything --mcp -- node server.js\n" +
			"  nacre plugin new forge --mcp --env FORGE_TOKEN=token -- ./forge-mcp",
		RunE: func(c *cobra.Command, args []string) error { return cmd.newPlugin(c.Context(), n, args) },
	}
	c.Flags().StringVar(&n.lang, "lang", "", strings.Join(plugintest.Languages(), ", "))
	c.Flags().StringVar(&n.parent, "dir", "", "the folder in which the new plugin's own folder, NAME, is made (default: the folder of the user's plugins)")
	c.Flags().BoolVar(&n.mcp, "mcp", false, "make the manifest of an MCP server; its command follows --")
	c.Flags().StringToStringVar(&n.env, "env", nil, "NAME=KEY: the MCP server finds the credential KEY in the variable NAME")
	return c
}

// newPlugin is what is to be made.
type newPlugin struct {
	parent, lang string
	mcp          bool
	env          map[string]string
}

// madePlugin is what was made, for programs.
type madePlugin struct {
	Dir string `json:"dir"`
	// Missing is what this machine lacks to run it.
	Missing  string   `json:"missing,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

func (cmd authorCommand) newPlugin(ctx context.Context, n newPlugin, args []string) error {
	switch {
	case len(args) == 0:
		return command.Usage("plugin new takes a name; see nacre plugin new --help")
	case n.mcp && (n.lang != "" || len(args) < 2):
		return command.Usage("plugin new --mcp takes a name and, after --, the command of an MCP server, and no --lang")
	case !n.mcp && len(n.env) > 0:
		return command.Usage("--env is for --mcp: a handler reads its credentials with readCredential")
	case !n.mcp && len(args) > 1:
		return command.Usage("unknown argument %q; see nacre plugin new --help", args[1])
	case !n.mcp && n.lang == "":
		return command.Usage("say --lang %s, or --mcp", strings.Join(plugintest.Languages(), ", --lang "))
	}
	name, err := nacre.ParsePluginName(args[0])
	if err != nil {
		return command.UsageOf(err)
	}
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	if n.parent == "" {
		n.parent = rt.PluginPlaces().Folders[0]
	}
	var made madePlugin
	if n.mcp {
		draft := mcp.Draft{
			Description: "Tools of the MCP server " + filepath.Base(args[1]), Version: "0.1.0", Command: args[1:], Env: n.env,
			Prefix: mcptool.Name(args[0]) + "_",
		}
		if draft.Taken, err = takenTools(rt, name); err != nil {
			return err
		}
		made, err = cmd.newFromServer(ctx, n.parent, name, draft)
	} else {
		made.Dir, made.Missing, err = plugintest.New(ctx, n.parent, name, n.lang)
	}
	if err != nil {
		return err
	}
	return cmd.printMade(made)
}

func (cmd authorCommand) printMade(made madePlugin) error {
	if cmd.JSON {
		return cmd.PrintJSON(made)
	}
	p := cmd.Printer(cmd.Stdout)
	p.Field("made", "%s", made.Dir)
	for _, warning := range made.Warnings {
		p.Mark("warn", "tool", warning)
	}
	if made.Missing != "" {
		p.Mark("warn", "here", made.Missing)
	}
	p.Field("next", "nacre plugin test %s", made.Dir)
	return nil
}

// takenTools are the names that the tools of a new plugin cannot have: two of one
// name would keep everything from starting.
func takenTools(rt *assembly.Runtime, name nacre.PluginName) (map[nacre.ToolName]bool, error) {
	own, ownErr := rt.OwnTools()
	installed, err := rt.Plugins()
	taken := map[nacre.ToolName]bool{}
	for _, tool := range own {
		taken[tool] = true
	}
	for _, p := range installed {
		for _, tool := range p.Tools {
			taken[tool] = taken[tool] || p.Name != name
		}
	}
	return taken, errors.Join(ownErr, err)
}

// newFromServer asks an MCP server for its tools and pins them.
func (cmd authorCommand) newFromServer(ctx context.Context, parent string, name nacre.PluginName, draft mcp.Draft) (madePlugin, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	stream, end, err := pipe(ctx, draft.Command, cmd.Stderr)
	if err != nil {
		return madePlugin{}, err
	}
	manifest, warnings, err := mcp.ManifestFor(ctx, mcp.Peer{Stream: stream}, draft)
	end()
	if err != nil {
		return madePlugin{}, fmt.Errorf("the MCP server %s: %w", draft.Command[0], err)
	}
	dir, err := plugintest.NewFrom(parent, name, map[string][]byte{"manifest.json": manifest})
	return madePlugin{Dir: dir, Warnings: warnings}, err
}

// duplex is a program's standard streams as one.
type duplex struct {
	io.Reader
	io.WriteCloser
	end func()
}

// Close ends the program, so that reads end.
func (d duplex) Close() error {
	err := d.WriteCloser.Close()
	d.end()
	return err
}

// pipe starts a program as it is. end ends it and returns when it has ended.
func pipe(ctx context.Context, argv []string, stderr *os.File) (stream duplex, end func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stderr = stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		cancel()
		return duplex{}, nil, err
	}
	end = func() {
		cancel()
		_ = cmd.Wait() // it was ended; a second wait only says so
	}
	return duplex{out, in, cancel}, end, nil
}

func (cmd authorCommand) validate() *cobra.Command {
	return &cobra.Command{
		Use: "validate DIR", Short: "find what is wrong with a plugin without running it",
		Long: `Lists everything at once: the manifest, its schemas, the handler, the skill, the
files, and names that installed plugins have. Exit 1 where nacre would not take it.`,
		Example: "  nacre plugin validate .", Args: command.OneArgument("a plugin's folder"),
		RunE: func(c *cobra.Command, args []string) error { return cmd.validatePlugin(c.Context(), args[0]) },
	}
}

func (cmd authorCommand) validatePlugin(ctx context.Context, dir string) error {
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	findings, err := validated(rt, dir, "")
	if err != nil {
		return err
	}
	wrong := 0
	for _, f := range findings {
		if !f.Warning {
			wrong++
		}
	}
	if cmd.JSON {
		if findings == nil {
			findings = []plugintest.Finding{}
		}
		err = cmd.PrintJSON(map[string]any{"valid": wrong == 0, "findings": findings})
	} else {
		cmd.printValidated(findings, wrong)
	}
	if err == nil && wrong > 0 {
		err = command.Exit(command.ExitFailed)
	}
	return err
}

// validated holds a folder against this installation, as a plugin of this name
// or, without one, of the folder's.
func validated(rt *assembly.Runtime, dir string, name nacre.PluginName) ([]plugintest.Finding, error) {
	places := rt.PluginPlaces()
	installed, err := pluginhost.Discover(places.Folders...)
	if err != nil {
		return nil, err
	}
	own, err := rt.OwnTools()
	return plugintest.Validate(dir, plugintest.Place{Version: places.Version, Name: name, Installed: installed, Own: own}), err
}

func (cmd authorCommand) printValidated(findings []plugintest.Finding, wrong int) {
	p := cmd.Printer(cmd.Stdout)
	for _, f := range findings {
		mark := "denied"
		if f.Warning {
			mark = "warn"
		}
		at := f.File
		if f.Key != "" && !strings.Contains(f.Text, f.Key) {
			at += " " + f.Key
		}
		text := f.Text
		if at = strings.TrimSpace(at); at != "" {
			text = at + ": " + text
		}
		if f.Fix != "" {
			text += " · " + f.Fix
		}
		p.Mark(mark, "", text)
	}
	switch {
	case wrong > 0:
		p.Line("%d to put right", wrong)
	default:
		p.Mark("ok", "valid", "nacre would take it")
	}
}

func (cmd authorCommand) test() *cobra.Command {
	var trial assembly.PluginTrial
	var config string
	c := &cobra.Command{
		Use: "test DIR", Short: "run a plugin in the real sandbox, and see whether it keeps the protocol",
		Long: `Starts the handler as a session does, sealed and without a network, on data of its
own, with made-up credentials. Its tools are called with arguments made from their
schemas ("examples" there come first); those that destroy or need a person's word are
not, unless --all is given. Exit 1 where a check failed.`,
		Example: "  nacre plugin test .\n  nacre plugin test ./notes --config notes.json --all", Args: command.OneArgument("a plugin's folder"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			trial.Dir = args[0]
			if trial.Config, err = readConfig(config); err != nil {
				return err
			}
			return cmd.testPlugin(c.Context(), trial)
		},
	}
	c.Flags().BoolVar(&trial.All, "all", false, "call the tools that destroy or ask a person, too")
	c.Flags().StringVar(&config, "config", "", "a JSON file with what [plugins.NAME] would hold")
	return c
}

func readConfig(path string) (json.RawMessage, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, command.UsageOf(err)
	}
	defer func() { _ = f.Close() }() // only read from
	data, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err == nil && (len(data) > maxConfig || !json.Valid(data)) {
		err = fmt.Errorf("%s is not JSON of at most %d bytes", path, maxConfig)
	}
	if err != nil {
		return nil, command.UsageOf(err)
	}
	return data, nil
}

func (cmd authorCommand) testPlugin(ctx context.Context, trial assembly.PluginTrial) error {
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	report, err := rt.TestPlugin(ctx, trial)
	if err != nil {
		return err
	}
	if cmd.JSON {
		err = cmd.PrintJSON(report)
	} else {
		cmd.printReport(report)
	}
	if err == nil && !report.Passed {
		err = command.Exit(command.ExitFailed)
	}
	return err
}

func (cmd authorCommand) printReport(report assembly.PluginReport) {
	p := cmd.Printer(cmd.Stdout)
	marks := map[string]string{plugintest.Passed: "ok", plugintest.Failed: "denied", plugintest.Skipped: "say"}
	counts := map[string]int{}
	for _, c := range report.Checks {
		counts[c.Status]++
		p.Mark(marks[c.Status], fmt.Sprintf("%-18s", c.Name), c.Text)
		if c.Fix != "" {
			p.Line("      %s", c.Fix)
		}
	}
	p.Line("%s %s: %d passed, %d failed, %d skipped", report.Plugin, report.Version, counts[plugintest.Passed], counts[plugintest.Failed], counts[plugintest.Skipped])
}
