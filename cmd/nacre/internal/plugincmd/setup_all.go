package plugincmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/terminal"
)

// maxSetupLines is how many lines nacre setup --stdin reads.
const maxSetupLines = 1000

// setupCommand gives all plugins what they lack (D-29).
func (cmd setupCommand) all() *cobra.Command {
	var lines bool
	var machine machineSetup
	c := &cobra.Command{
		Use: "setup [PLUGIN…]", Short: "find what is here, write a first config, give plugins their credentials",
		Long: `Says which agents can be driven and how this folder's project is verified, shows a
short config.toml that says so, and writes it after a yes, or with --yes. Where there
is one, only what it lacks is proposed; all else of it stays as it is.

Then it goes through the plugins that are in use, or those named alone, and asks for each
credential that is missing or cannot be read, without showing what is typed; an empty
line leaves it for later. The values are kept in files of their own in the config
folder, mode 0600, and config.toml is told where they are. Where standard input is no
terminal it only lists them, unless --stdin gives them, one line each:
PLUGIN.KEY=VALUE. Exit 3 where a required one is still missing.`,
		Example: "  nacre setup\n  nacre setup --yes --allow go,npm\n  nacre setup --json\n  printf 'bug_report.token=%s\\n' \"$(pass forge)\" | nacre setup --stdin",
		RunE: func(c *cobra.Command, args []string) error {
			names := make([]nacre.PluginName, 0, len(args))
			for _, arg := range args {
				name, err := nacre.ParsePluginName(arg)
				if err != nil {
					return command.UsageOf(err)
				}
				names = append(names, name)
			}
			if machine.beyond(names, lines, cmd.JSON) {
				return command.Usage("--yes, --check and --allow are of the config: they go with no plugin, and neither with --stdin nor with --json")
			}
			if len(names) > 0 || lines || cmd.JSON {
				return cmd.setUp(c.Context(), names, lines)
			}
			found, err := cmd.setUpMachine(c.Context(), machine)
			if err != nil {
				return err
			}
			err = cmd.setUp(c.Context(), nil, false)
			cmd.next(found)
			return err
		},
	}
	machine.flags(c)
	c.Flags().BoolVar(&lines, "stdin", false, "read lines PLUGIN.KEY=VALUE from standard input")
	return c
}

// lacking is a credential that a plugin lacks, for programs.
type lacking struct {
	Plugin      nacre.PluginName `json:"plugin"`
	Key         string           `json:"key"`
	Description string           `json:"description,omitempty"`
	Required    bool             `json:"required"`
	ObtainURL   string           `json:"obtain_url,omitempty"`
	FormatHint  string           `json:"format_hint,omitempty"`
	Problem     string           `json:"problem"`
}

func (cmd setupCommand) setUp(ctx context.Context, names []nacre.PluginName, lines bool) error {
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := rt.PluginCredentials(name); err != nil {
			return err
		}
	}
	switch {
	case lines:
		err = cmd.setUpFromLines(ctx, rt, names)
	case terminal.Is(cmd.Stdin) && !cmd.JSON:
		err = cmd.setUpAsking(ctx, rt, names)
	}
	if err != nil {
		return err
	}
	return cmd.stillLacking(ctx, names)
}

// setUpAsking asks for what each plugin lacks, one after the other.
func (cmd setupCommand) setUpAsking(ctx context.Context, rt *assembly.Runtime, names []nacre.PluginName) error {
	wants, err := rt.CredentialWants(ctx, names)
	if err != nil {
		return err
	}
	var refused error
	for len(wants) > 0 {
		name := wants[0].Plugin
		var ofOne []assembly.PluginCredential
		for len(wants) > 0 && wants[0].Plugin == name {
			ofOne, wants = append(ofOne, wants[0].PluginCredential), wants[1:]
		}
		cmd.Printer(cmd.Stderr).Line("plugin %s", name)
		done, err := storeCredentials(ctx, rt, name, ofOne, func(c assembly.PluginCredential) (nacre.Secret, error) { return cmd.askCredential(nil, c) })
		if err != nil {
			return err
		}
		cmd.printSetup(done, ofOne)
		_, failed := cmd.try(ctx, done)
		refused = errors.Join(refused, failed)
	}
	return refused
}

// setUpFromLines reads all lines before it stores anything.
func (cmd setupCommand) setUpFromLines(ctx context.Context, rt *assembly.Runtime, names []nacre.PluginName) error {
	given, err := cmd.readLines(rt, names)
	if err != nil {
		return err
	}
	var refused error
	var plugins []nacre.PluginName
	for name := range given {
		plugins = append(plugins, name)
	}
	slices.Sort(plugins)
	for _, name := range plugins {
		var ofOne []assembly.PluginCredential
		all, err := rt.PluginCredentials(name)
		if err != nil {
			return err
		}
		for _, c := range all {
			if _, ok := given[name][c.Key]; ok {
				ofOne = append(ofOne, c)
			}
		}
		done, err := storeCredentials(ctx, rt, name, ofOne, func(c assembly.PluginCredential) (nacre.Secret, error) { return given[name][c.Key], nil })
		if err != nil {
			return err
		}
		if !cmd.JSON {
			cmd.Printer(cmd.Stdout).Line("plugin %s", name)
			cmd.printSetup(done, ofOne)
		}
		_, failed := cmd.try(ctx, done)
		refused = errors.Join(refused, failed)
	}
	return refused
}

// readLines reads PLUGIN.KEY=VALUE. What is refused is named by its line, never by its words.
func (cmd setupCommand) readLines(rt *assembly.Runtime, names []nacre.PluginName) (map[nacre.PluginName]map[string]nacre.Secret, error) {
	given := map[nacre.PluginName]map[string]nacre.Secret{}
	in := bufio.NewReaderSize(cmd.Typed(), command.MaxSecretLine)
	for n := 1; ; n++ {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) || n > maxSetupLines {
			return nil, command.Usage("line %d: at most %d lines of at most %d bytes", n, maxSetupLines, command.MaxSecretLine)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if text := strings.TrimSpace(string(line)); text != "" {
			if lineErr := readLine(rt, names, text, given); lineErr != nil {
				return nil, command.Usage("line %d: %w", n, lineErr)
			}
		}
		if err != nil {
			return given, nil //nolint:nilerr // the end of the input
		}
	}
}

func readLine(rt *assembly.Runtime, names []nacre.PluginName, text string, given map[nacre.PluginName]map[string]nacre.Secret) error {
	target, value, found := strings.Cut(text, "=")
	plugin, key, dotted := strings.Cut(strings.TrimSpace(target), ".")
	name, err := nacre.ParsePluginName(plugin)
	if !found || !dotted || err != nil {
		return errors.New("write PLUGIN.KEY=VALUE")
	}
	if len(names) > 0 && !slices.Contains(names, name) {
		return errors.New("the plugin is not among those named")
	}
	all, err := rt.PluginCredentials(name)
	if err != nil {
		return errors.New("there is no such plugin, or it cannot be read: nacre plugin list")
	}
	if !slices.ContainsFunc(all, func(c assembly.PluginCredential) bool { return c.Key == key }) {
		return errors.New("the plugin has no such credential: nacre plugin show lists them")
	}
	if _, twice := given[name][key]; twice {
		return fmt.Errorf("credential %s of plugin %s comes twice", key, name)
	}
	if given[name] == nil {
		given[name] = map[string]nacre.Secret{}
	}
	given[name][key] = nacre.NewSecret(strings.TrimSpace(value))
	return nil
}

// stillLacking says what is missing now, and fails where that keeps a plugin from work.
func (cmd setupCommand) stillLacking(ctx context.Context, names []nacre.PluginName) error {
	rt, err := cmd.Open(ctx) // config.toml may say more than it did
	if err != nil {
		return err
	}
	wants, err := rt.CredentialWants(ctx, names)
	if err != nil {
		return err
	}
	list := []lacking{}
	required := false
	for _, w := range wants {
		required = required || w.Required
		list = append(list, lacking{w.Plugin, w.Key, w.Description, w.Required, w.ObtainURL, w.FormatHint, w.Problem})
	}
	if cmd.JSON {
		err = cmd.PrintJSON(list)
	} else {
		cmd.printLacking(wants)
	}
	if err == nil && required {
		err = command.Exit(command.ExitNotReady)
	}
	return err
}

func (cmd setupCommand) printLacking(wants []assembly.CredentialWant) {
	p := cmd.Printer(cmd.Stdout)
	if len(wants) == 0 {
		p.Mark("ok", "credentials", "no plugin in use lacks one: nacre doctor --live tries them")
	}
	for _, w := range wants {
		mark := "warn"
		if w.Required {
			mark = "denied"
		}
		p.Mark(mark, string(w.Plugin), w.Key+": "+w.Problem)
		describeCredential(p, w.PluginCredential)
		p.Field("give it", "nacre plugin setup %s %s", w.Plugin, w.Key)
	}
}
