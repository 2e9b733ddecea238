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

type setupCommand Commands

func (cmd setupCommand) one() *cobra.Command {
	return &cobra.Command{
		Use: "setup NAME [KEY…]", Short: "give a plugin its credentials", Args: setupArguments,
		Long: `Asks for each credential that the plugin's manifest lists, or for those named,
without showing what is typed. Where standard input is not a terminal it has one
line for each, in that order. An empty line leaves a credential as it is. The
values are kept in files of their own in the config folder, mode 0600, and
config.toml is told where they are. A plugin that can then tries them, as nacre doctor
--live does; exit 3 where it does not work with them.`,
		Example: "  nacre plugin setup bug_report\n  pass show github | nacre plugin setup bug_report token",
		RunE:    func(c *cobra.Command, args []string) error { return cmd.setupPlugin(c.Context(), args[0], args[1:]) },
	}
}

func setupArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return command.Usage("%s takes a plugin, and keys if not all; see %s --help", c.CommandPath(), c.CommandPath())
	}
	return nil
}

// setup is what came of a plugin's credentials.
type setup struct {
	Plugin nacre.PluginName  `json:"plugin"`
	Stored map[string]string `json:"stored"` // files by key
	// Added says that config.toml names them now; otherwise Lines do when they are there.
	Added bool   `json:"added"`
	Lines string `json:"lines,omitempty"`
	// Tried is what the plugin said of them.
	Tried []assembly.Finding `json:"tried,omitempty"`
}

func (cmd setupCommand) setupPlugin(ctx context.Context, arg string, keys []string) error {
	rt, name, err := Commands(cmd).onePlugin(ctx, arg)
	if err != nil {
		return err
	}
	wanted, err := wantedCredentials(rt, name, keys)
	if err != nil {
		return err
	}
	in := bufio.NewReaderSize(io.LimitReader(cmd.Stdin, int64(len(wanted)+1)*command.MaxSecretLine), command.MaxSecretLine)
	done, err := storeCredentials(ctx, rt, name, wanted, func(c assembly.PluginCredential) (nacre.Secret, error) {
		return cmd.askCredential(in, c)
	})
	if err != nil {
		return err
	}
	if !cmd.JSON {
		cmd.printSetup(done, wanted)
	}
	var refused error
	if done.Tried, refused = cmd.try(ctx, done); cmd.JSON {
		return errors.Join(cmd.PrintJSON(done), refused)
	}
	return refused
}

// try lets a plugin say whether it works with what it was just given. What it says is kept all
// the same: the service may be down.
func (cmd setupCommand) try(ctx context.Context, done setup) (said []assembly.Finding, err error) {
	if len(done.Stored) == 0 || done.Lines != "" && !done.Added {
		return nil, nil // the config does not name them yet
	}
	rt, err := cmd.Open(ctx) // with the config as it is now
	if err != nil {
		return nil, err
	}
	if said, err = assembly.VerifyPlugin(ctx, rt, done.Plugin); err != nil {
		return nil, err
	}
	for _, f := range said {
		switch {
		case f.Status == "fail":
			err = errors.Join(err, command.ExitWith(command.ExitNotReady, fmt.Errorf("plugin %s does not work with them: %s; %s takes others, and nacre doctor --live tries again", done.Plugin, f.Text, f.Fix)))
		case !cmd.JSON:
			cmd.Printer(cmd.Stdout).Mark(f.Status, "tried", f.Text)
		}
	}
	return said, err
}

// storeCredentials keeps what value gives for each credential, and lets config.toml
// say where. An empty value leaves one as it is.
func storeCredentials(ctx context.Context, rt *assembly.Runtime, name nacre.PluginName, wanted []assembly.PluginCredential, value func(assembly.PluginCredential) (nacre.Secret, error)) (setup, error) {
	done := setup{Plugin: name, Stored: map[string]string{}}
	var order []string
	for _, c := range wanted {
		given, err := value(c)
		if err != nil {
			return done, err
		}
		if given.Reveal() == "" {
			continue
		}
		if done.Stored[c.Key], err = rt.StoreCredential(ctx, name, c.Key, given); err != nil {
			return done, err
		}
		order = append(order, c.Key)
	}
	keys := unnamed(wanted, order, done.Stored)
	if len(keys) == 0 {
		return done, nil
	}
	done.Lines = assembly.AccessLines(name, keys, done.Stored)
	var err error
	done.Added, err = rt.AddAccess(name, keys, done.Stored)
	return done, err
}

// wantedCredentials are those of the manifest, or those that were named.
func wantedCredentials(rt *assembly.Runtime, name nacre.PluginName, keys []string) ([]assembly.PluginCredential, error) {
	all, err := rt.PluginCredentials(name)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if !slices.ContainsFunc(all, func(c assembly.PluginCredential) bool { return c.Key == key }) {
			return nil, command.Usage("plugin %s has no credential %q", name, key)
		}
	}
	return slices.DeleteFunc(all, func(c assembly.PluginCredential) bool { return len(keys) > 0 && !slices.Contains(keys, c.Key) }), nil
}

// unnamed are the stored credentials whose files config.toml does not name yet.
func unnamed(wanted []assembly.PluginCredential, order []string, stored map[string]string) []string {
	var keys []string
	for _, c := range wanted {
		if slices.Contains(order, c.Key) && c.From != "the file "+stored[c.Key] {
			keys = append(keys, c.Key)
		}
	}
	return keys
}

// askCredential says what is wanted and reads it, unseen at a terminal.
func (cmd setupCommand) askCredential(in *bufio.Reader, c assembly.PluginCredential) (nacre.Secret, error) {
	describeCredential(cmd.Printer(cmd.Stderr), c)
	return cmd.Secret("credential "+c.Key, in)
}

// describeCredential says what is wanted, and where one gets it.
func describeCredential(p *terminal.Printer, c assembly.PluginCredential) {
	what := "optional"
	if c.Required {
		what = "required"
	}
	if c.From != "" {
		what += ", now from " + c.From
	}
	p.Field(c.Key, "%s (%s)", c.Description, what)
	if c.ObtainURL != "" {
		p.Field("get it at", "%s", c.ObtainURL)
	}
	if c.FormatHint != "" {
		p.Field("looks like", "%s", c.FormatHint)
	}
}

func (cmd setupCommand) printSetup(done setup, wanted []assembly.PluginCredential) {
	p := cmd.Printer(cmd.Stdout)
	if len(wanted) == 0 {
		p.Line("plugin %s wants no credentials", done.Plugin)
		return
	}
	for _, c := range wanted {
		if file, ok := done.Stored[c.Key]; ok {
			p.Field(c.Key, "kept in %s", file)
		} else if c.From == "" && c.Required {
			p.Field(c.Key, "still missing")
		}
	}
	switch {
	case done.Added:
		p.Field("config", "config.toml names the files now")
	case done.Lines != "":
		p.Line("add to config.toml:")
		for _, line := range strings.Split(strings.TrimSpace(done.Lines), "\n") {
			p.Line("  %s", line)
		}
	}
}
