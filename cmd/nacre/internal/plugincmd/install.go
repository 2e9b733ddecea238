package plugincmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/install"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/terminal"
)

type installCommand Commands

// errDeclined ends an order that a person said no to.
var errDeclined = errors.New("not confirmed: nothing was changed")

func (cmd installCommand) install() *cobra.Command {
	var o install.Order
	var name string
	var yes bool
	c := &cobra.Command{
		Use: "install SOURCE", Short: "install a plugin from a git repository or a folder",
		Long: `Fetches a plugin without running anything of it, pins it to a commit and to the
content of every file, and shows what it wants. Only a yes puts it in place. SOURCE is
an https, ssh or file URL, git@host:path, or a folder.`,
		Example: "  nacre plugin install https://git.example.com/ada/notes.git --ref v1.2.0\n  nacre plugin install ./notes", Args: command.OneArgument("a git URL or a folder"),
		RunE: func(c *cobra.Command, args []string) error {
			o.Source, o.Name = args[0], nacre.PluginName(name)
			return cmd.withStore(c.Context(), yes, func(s *install.Store, agree func(install.Plan) error) (install.Done, error) {
				o.Agree = agree
				return s.Install(c.Context(), o)
			})
		},
	}
	c.Flags().StringVar(&name, "name", "", "the plugin's name (default: the source's)")
	c.Flags().StringVar(&o.Ref, "ref", "", "a branch, a tag or a full commit")
	yesFlag(c, &yes)
	return c
}

func (cmd installCommand) update() *cobra.Command {
	var o install.Order
	var yes bool
	c := &cobra.Command{
		Use: "update NAME", Short: "fetch an installed plugin again",
		Long: `Fetches the plugin's source again, and asks where it wants more than was confirmed. The
version that it takes the place of is kept for nacre plugin rollback.`,
		Example: "  nacre plugin update notes --ref v1.3.0", Args: command.OneArgument("a plugin's name"),
		RunE: func(c *cobra.Command, args []string) error {
			o.Name = nacre.PluginName(args[0])
			return cmd.withStore(c.Context(), yes, func(s *install.Store, agree func(install.Plan) error) (install.Done, error) {
				o.Agree = agree
				return s.Update(c.Context(), o)
			})
		},
	}
	c.Flags().StringVar(&o.Ref, "ref", "", "a branch, a tag or a full commit (default: the one it was installed with)")
	yesFlag(c, &yes)
	return c
}

func (cmd installCommand) rollback() *cobra.Command {
	return &cobra.Command{
		Use: "rollback NAME", Short: "put a plugin's previous version in place again", Args: command.OneArgument("a plugin's name"),
		Example: "  nacre plugin rollback notes",
		RunE: func(c *cobra.Command, args []string) error {
			return cmd.withStore(c.Context(), true, func(s *install.Store, agree func(install.Plan) error) (install.Done, error) {
				return s.Rollback(nacre.PluginName(args[0]), agree)
			})
		},
	}
}

func (cmd installCommand) remove() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "remove an installed plugin; its data stays", Args: command.OneArgument("a plugin's name"),
		Long: `Removes what was installed, and forgets what was confirmed. Of a folder that was put
among the plugins by hand only the confirmation goes. The plugin's data stays.`,
		Example: "  nacre plugin remove notes",
		RunE: func(c *cobra.Command, args []string) error {
			return cmd.withStore(c.Context(), true, func(s *install.Store, _ func(install.Plan) error) (install.Done, error) {
				return s.Remove(nacre.PluginName(args[0]))
			})
		},
	}
}

func (cmd installCommand) confirm() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use: "confirm NAME", Short: "confirm what a plugin wants, as its folder is now", Args: command.OneArgument("a plugin's name"),
		Long: `For a folder that was put among the plugins by hand, and for an installed one that you
changed: shows what it wants, and pins its files as they are once you say yes.`,
		Example: "  nacre plugin confirm notes",
		RunE: func(c *cobra.Command, args []string) error {
			return cmd.withStore(c.Context(), yes, func(s *install.Store, agree func(install.Plan) error) (install.Done, error) {
				return s.Confirm(nacre.PluginName(args[0]), agree)
			})
		},
	}
	yesFlag(c, &yes)
	return c
}

func yesFlag(c *cobra.Command, yes *bool) {
	c.Flags().BoolVar(yes, "yes", false, "say yes to what it wants without being asked")
}

// withStore carries out one order and says what became of it.
func (cmd installCommand) withStore(ctx context.Context, yes bool, do func(*install.Store, func(install.Plan) error) (install.Done, error)) error {
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	places := rt.PluginPlaces()
	store := &install.Store{Plugins: places.Folders[0], LockFile: places.Lock, Now: time.Now, Getenv: cmd.Getenv}
	done, err := do(store, func(p install.Plan) error { return cmd.agree(ctx, rt, p, yes) })
	if err != nil {
		return err
	}
	if cmd.JSON {
		return cmd.PrintJSON(done)
	}
	cmd.printDone(done)
	return nil
}

func (cmd installCommand) printDone(done install.Done) {
	p := cmd.Printer(cmd.Stdout)
	if !done.Changed {
		p.Mark("ok", string(done.Name), "nothing to do")
		return
	}
	text := done.Version
	if done.Commit != "" {
		text += fmt.Sprintf(" · commit %.12s", done.Commit)
	}
	p.Mark("ok", string(done.Name), text+fmt.Sprintf(" · %.19s", done.Hash))
}

// agree shows a plan and asks. What nacre would not start is refused first.
func (cmd installCommand) agree(ctx context.Context, rt *assembly.Runtime, plan install.Plan, yes bool) error {
	if err := covers(rt, plan); err != nil {
		return err
	}
	findings, err := validated(rt, plan.Found.Dir, plan.Name)
	if err != nil {
		return err
	}
	var wrong []string
	for _, f := range findings {
		if !f.Warning {
			wrong = append(wrong, strings.TrimSpace(f.File+" "+f.Text))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("plugin %s would not start:\n%s", plan.Name, strings.Join(wrong, "\n"))
	}
	if plan.Update && len(plan.Beyond) == 0 && !plan.ByHand {
		return nil
	}
	cmd.printPlan(plan)
	if yes {
		return nil
	}
	if !terminal.Is(cmd.Stdin) {
		return command.Usage("confirm what it wants on a terminal, or with --yes")
	}
	agreed, err := cmd.Agrees(ctx, cmd.Stderr, fmt.Sprintf("Let %s have this? [y/N] ", plan.Name))
	if err == nil && !agreed {
		err = errDeclined
	}
	return err
}

// covers refuses to install what would silence a plugin that is there beside the
// user's own, such as one that nacre ships. Who puts a folder there by hand means that.
func covers(rt *assembly.Runtime, plan install.Plan) error {
	if plan.Update || plan.ByHand {
		return nil
	}
	shipped, err := pluginhost.DiscoverFor(func(pluginhost.Found) bool { return false }, rt.PluginPlaces().Folders[1:]...)
	if err != nil {
		return err
	}
	for _, f := range shipped {
		if f.Name == plan.Name {
			return fmt.Errorf("the name %s belongs to a plugin that comes with nacre (%s), which it would silence: choose another name with --name", f.Name, f.Dir)
		}
	}
	return nil
}

func (cmd installCommand) printPlan(plan install.Plan) {
	p := cmd.Printer(cmd.Stderr)
	m := plan.Found.Manifest
	p.Field("plugin", "%s %s · %s", plan.Name, m.Version, m.Description)
	if plan.Source != "" {
		p.Field("from", "%s", plan.Source)
	}
	if plan.Commit != "" {
		p.Field("commit", "%s", plan.Commit)
	}
	p.Table([]string{"WANTS", "NAME", ""}, plan.Wants.Rows())
	for _, more := range plan.Beyond {
		p.Mark("warn", "new", more)
	}
}
