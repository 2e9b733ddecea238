package workcmd

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
)

// Home is nacre home, with the commands below it (U-03).
func (c Commands) Home() *cobra.Command {
	return command.Group("home", "list and remove what agents leave for their next session", c.homeList(), c.homeRemove())
}

func (c Commands) homeList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "list what agents left, by group and project", Args: command.NoArguments, Example: "  nacre home list",
		RunE: func(cmd *cobra.Command, _ []string) error {
			rt, err := c.Open(cmd.Context())
			if err != nil {
				return err
			}
			homes, err := assembly.Homes(cmd.Context(), rt)
			if err != nil {
				return err
			}
			if c.JSON {
				return c.PrintJSON(slices.Concat([]assembly.KeptHome{}, homes))
			}
			p := c.Printer(c.Stdout)
			for _, h := range homes {
				more := ""
				if h.More {
					more = ", and what cannot be counted"
				}
				p.Line("%s  %s  %s in %d files%s", h.Group, cmp.Or(h.Project, "(no project)"), sizeText(h.Bytes), h.Files, more)
			}
			if len(homes) == 0 {
				p.Line("no agent left anything")
			}
			return nil
		},
	}
}

func sizeText(bytes int64) string {
	const mebibyte = 1 << 20
	return fmt.Sprintf("%.1f MiB", float64(bytes)/mebibyte)
}

func (c Commands) homeRemove() *cobra.Command {
	var group, project string
	var all bool
	r := &cobra.Command{
		Use: "remove", Short: "remove what agents left in a project, or in all", Args: command.NoArguments,
		Example: "  nacre home remove --project .\n  nacre home remove --group family --all",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if all == (project != "") {
				return command.Usage("name the project with --project, or all of them with --all")
			}
			if err := checkNames(group, ""); err != nil {
				return err
			}
			rt, err := c.Open(cmd.Context())
			if err != nil {
				return err
			}
			homes, err := assembly.Homes(cmd.Context(), rt)
			if err != nil {
				return err
			}
			wanted := chosen(homes, nacre.Group(group), project)
			if len(wanted) == 0 {
				return command.Usage("no agent left anything there; see nacre home list")
			}
			if err := assembly.RemoveHomes(rt, wanted); err != nil {
				return err
			}
			c.Printer(c.Stdout).Line("removed %d", len(wanted))
			return nil
		},
	}
	r.Flags().StringVar(&group, "group", "", "of this group alone (default: of all groups)")
	r.Flags().StringVar(&project, "project", "", "folder of the project")
	r.Flags().BoolVar(&all, "all", false, "of all projects")
	return r
}

// chosen are the homes of a group, where one is named, in a project, where one is. A
// project that is gone is still known by its name.
func chosen(homes []assembly.KeptHome, group nacre.Group, project string) []assembly.KeptHome {
	real := project
	if abs, err := filepath.Abs(project); err == nil && project != "" {
		real = abs
		if resolved, err := filepath.EvalSymlinks(abs); err == nil {
			real = resolved
		}
	}
	return slices.DeleteFunc(slices.Clone(homes), func(h assembly.KeptHome) bool {
		return group != "" && h.Group != group || project != "" && h.Project != real
	})
}
