package policycmd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/learned"
	"github.com/nacre-dev/nacre/internal/registry"
)

// Config is nacre config, with the commands below it.
func (c Commands) Config() *cobra.Command {
	return command.Group("config", "check the operator's config.toml, and print its schema",
		&cobra.Command{
			Use: "check [FILE]", Short: "read a config and say what is wrong with it", Args: cobra.MaximumNArgs(1),
			Long: `Reads FILE, or the config.toml that nacre uses and learned.toml beside it, as each
start of nacre does. A key that means nothing is named with its line, the nearest key
and those there are. Exit 0: it can be used. Exit 2: it cannot.`,
			Example: "  nacre config check\n  nacre config check new.toml",
			RunE:    func(_ *cobra.Command, args []string) error { return c.checkConfig(args) },
		},
		&cobra.Command{
			Use: "schema", Short: "print the JSON Schema of config.toml, for editors", Args: command.NoArguments,
			Example: "  nacre config schema > config.schema.json",
			RunE:    func(*cobra.Command, []string) error { return c.PrintJSON(configSchema()) },
		})
}

// checkedConfig is what config check says.
type checkedConfig struct {
	OK    bool   `json:"ok"`
	File  string `json:"file"`
	Error string `json:"error,omitempty"`
	// Missing says that there is no file, so that the defaults hold.
	Missing bool `json:"missing,omitempty"`
	// Learned is how many approvals of nacre learn are kept beside it.
	Learned int `json:"learned"`
	// Unread are files that look like a config of nacre's, and are none.
	Unread []string `json:"unread,omitempty"`
}

func (c Commands) checkConfig(args []string) error {
	said, err := c.readConfig(args)
	said.OK = err == nil
	if err != nil {
		said.Error = err.Error()
	}
	if c.JSON {
		if err := c.PrintJSON(said); err != nil {
			return err
		}
	}
	switch {
	case err != nil && c.JSON:
		return command.Exit(command.ExitUsage)
	case err != nil:
		return command.ExitWith(command.ExitUsage, err)
	case c.JSON:
		return nil
	}
	p := c.Printer(c.Stdout)
	if said.Missing {
		p.Field("config", "there is no %s: the defaults hold", said.File)
	} else {
		p.Field("config", "%s can be used", said.File)
	}
	for _, path := range said.Unread {
		p.Field("not read", "%s: nothing that it says holds", path)
	}
	return nil
}

func (c Commands) readConfig(args []string) (checkedConfig, error) {
	if len(args) == 1 {
		_, err := config.Read(args[0])
		return checkedConfig{File: args[0]}, err
	}
	paths, err := registry.ResolvePaths(c.Getenv)
	if err != nil {
		return checkedConfig{}, err
	}
	said := checkedConfig{File: filepath.Join(paths.Config, config.FileName), Unread: installation.UnreadConfigs(paths.Config, c.Getenv)}
	if _, err = config.Load(paths.Config); err == nil {
		err = installation.CheckRights(paths.Config)
	}
	_, absent := os.Stat(said.File)
	said.Missing = errors.Is(absent, fs.ErrNotExist)
	approvals, unlearned := learned.Load(paths.Config)
	said.Learned = len(approvals)
	return said, errors.Join(err, unlearned)
}
