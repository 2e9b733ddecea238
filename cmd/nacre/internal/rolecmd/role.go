package rolecmd

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/role"
	"github.com/nacre-dev/nacre/internal/terminal"
)

type roleCommand Commands

func (cmd roleCommand) command() *cobra.Command {
	return command.Group("role", "what agents are held by: list, show and begin roles", cmd.listCommand(), cmd.showCommand(), cmd.newCommand())
}

// roleLibrary opens the roles of a project. close ends it.
func roleLibrary(project string) (l role.Library, done func(), err error) {
	atoms, done, err := library(project)
	return role.Library{Project: atoms.Project}, done, err
}

// shownRole is a role for programs, with all that it inherits.
type shownRole struct {
	Name         string     `json:"name"`
	DisplayName  string     `json:"display_name,omitempty"`
	Description  string     `json:"description,omitempty"`
	From         string     `json:"from"`
	Extends      []string   `json:"extends"`
	Capabilities []string   `json:"capabilities"`
	Tools        []string   `json:"tools"` // null: no such limit
	Denied       []string   `json:"tools_denied"`
	Commands     [][]string `json:"bash_patterns_allowed"`
	Escalation   string     `json:"escalation"`
	SubagentType string     `json:"claude_subagent_type"`
	Isolation    string     `json:"isolation"`
	Spawnable    bool       `json:"spawnable"`
	Warnings     []string   `json:"warnings"`
}

func shownRoleOf(r role.Resolved) shownRole {
	s := shownRole{
		Name: r.Name, DisplayName: r.DisplayName, Description: r.Description, From: "project",
		Extends: some(r.Extends), Capabilities: []string{}, Tools: r.Tools, Denied: some(r.Denied), Commands: r.Commands,
		Escalation: r.Escalation, SubagentType: r.SubagentType, Isolation: r.Isolation, Spawnable: r.Spawnable, Warnings: some(r.Warnings),
	}
	if r.BuiltIn {
		s.From = "nacre"
	}
	if s.Commands == nil {
		s.Commands = [][]string{}
	}
	for _, one := range r.Atoms {
		s.Capabilities = append(s.Capabilities, string(one.ID))
	}
	return s
}

// some is a list that programs see as one, be it empty.
func some(list []string) []string {
	return append([]string{}, list...)
}

func (cmd roleCommand) listCommand() *cobra.Command {
	var project string
	c := &cobra.Command{
		Use: "list", Short: "list the roles", Args: command.NoArguments,
		Long:    `Lists the roles that ship with nacre and those that the project's .nacre/roles adds.`,
		Example: "  nacre role list",
		RunE: func(*cobra.Command, []string) error {
			return cmd.withRoles(project, func(roles role.Library) error {
				list, err := roles.All()
				if err != nil {
					return command.UsageOf(err)
				}
				return cmd.printRoles(list)
			})
		},
	}
	command.ProjectFlag(c, &project)
	return c
}

func (cmd roleCommand) withRoles(project string, use func(role.Library) error) error {
	folder, err := cmd.ProjectFolder(project)
	if err != nil {
		return command.UsageOf(err)
	}
	roles, done, err := roleLibrary(folder)
	if err != nil {
		return command.UsageOf(err)
	}
	defer done()
	return use(roles)
}

func (cmd roleCommand) printRoles(list []role.Resolved) error {
	shown := make([]shownRole, 0, len(list))
	rows := make([][]string, 0, len(list))
	for _, r := range list {
		s := shownRoleOf(r)
		shown = append(shown, s)
		spawnable := "yes"
		if !s.Spawnable {
			spawnable = "no"
		}
		rows = append(rows, []string{s.Name, spawnable, strings.Join(s.Extends, " ← "), s.From, s.Description})
	}
	if cmd.JSON {
		return cmd.PrintJSON(shown)
	}
	cmd.Printer(cmd.Stdout).Table([]string{"role", "spawnable", "extends", "from", "what it is for"}, rows)
	return nil
}

func (cmd roleCommand) showCommand() *cobra.Command {
	var project string
	c := &cobra.Command{
		Use: "show ROLE", Short: "show a role with all that it inherits: atoms, tools, patterns",
		Long: `Shows what holds an agent in a role: its atoms in the order of their texts, the tools
and the shell commands it may use, and what a refusal does to its run.`,
		Example: "  nacre role show edit-local", Args: command.OneArgument("a role's name"),
		RunE: func(_ *cobra.Command, args []string) error {
			return cmd.withRoles(project, func(roles role.Library) error {
				r, err := roles.Resolve(args[0])
				if err != nil {
					return command.UsageOf(err)
				}
				if cmd.JSON {
					return cmd.PrintJSON(shownRoleOf(r))
				}
				cmd.showRole(r)
				return nil
			})
		},
	}
	command.ProjectFlag(c, &project)
	return c
}

func (cmd roleCommand) showRole(r role.Resolved) {
	p, s := cmd.Printer(cmd.Stdout), shownRoleOf(r)
	p.Line("%s  (%s)", s.Name, s.From)
	for _, line := range []string{s.DisplayName, s.Description} {
		if line != "" {
			p.Line("%s", line)
		}
	}
	p.Line("")
	if len(s.Extends) > 0 {
		p.Line("extends      %s", strings.Join(s.Extends, " ← "))
	}
	p.Line("spawnable    %v", s.Spawnable)
	p.Line("atoms        %s", terminal.List(s.Capabilities, "none"))
	if s.Tools == nil {
		p.Line("tools        any that the atoms do not deny")
	} else {
		p.Line("tools        %s, and no others", strings.Join(s.Tools, ", "))
	}
	if len(s.Denied) > 0 {
		p.Line("denied       %s", strings.Join(s.Denied, ", "))
	}
	for i, patterns := range s.Commands {
		if i > 0 {
			p.Line("and also")
		}
		p.Line("commands     %s", terminal.List(patterns, "none"))
	}
	p.Line("escalation   %s", s.Escalation)
	p.Line("subagent     %s, isolation %s", s.SubagentType, s.Isolation)
	for _, warning := range s.Warnings {
		p.Line("warning      %s", warning)
	}
}
