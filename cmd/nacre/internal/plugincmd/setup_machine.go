package plugincmd

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/internal/terminal"
)

// machineSetup is what nacre setup is told of the config that it writes.
type machineSetup struct {
	yes           bool
	checks, allow []string
}

func (m *machineSetup) flags(c *cobra.Command) {
	c.Flags().BoolVar(&m.yes, "yes", false, "write the config that is shown, without asking")
	c.Flags().StringArrayVar(&m.checks, "check", nil, "what verifies a run, in the place of what this folder's project says; may be repeated")
	c.Flags().StringSliceVar(&m.allow, "allow", nil, "bundles of hosts that sessions may reach, such as go,npm (nacre egress bundles)")
}

// beyond tells whether it is told anything that what is asked for has no use for.
func (m *machineSetup) beyond(names []nacre.PluginName, lines, json bool) bool {
	return (m.yes || len(m.checks)+len(m.allow) > 0) && (len(names) > 0 || lines || json)
}

// setUpMachine says what is here, and writes the config that says so.
func (cmd setupCommand) setUpMachine(ctx context.Context, m machineSetup) (assembly.SurveyFound, error) {
	rt, err := cmd.Open(ctx)
	if err != nil {
		return assembly.SurveyFound{}, err
	}
	project, err := os.Getwd()
	if err != nil {
		return assembly.SurveyFound{}, err
	}
	found, err := assembly.Survey(ctx, rt, project, m.checks, m.allow)
	if err != nil {
		return found, err
	}
	p, proposal := cmd.Printer(cmd.Stdout), found.Proposal
	printFound(p, found)
	if proposal.Lines == "" {
		printKept(p, found)
		return found, nil
	}
	p.Line("%s would begin with:", proposal.Path())
	for line := range strings.Lines(proposal.Lines) {
		p.Line("  %s", strings.TrimRight(line, "\n"))
	}
	if !m.yes {
		if agreed, err := cmd.Agrees(ctx, cmd.Stdout, "write it? [y/N] "); err != nil || !agreed {
			p.Mark("warn", "config", "nothing is written: nacre setup --yes writes it")
			return found, err
		}
	}
	if err := proposal.Write(); err != nil {
		return found, err
	}
	p.Mark("ok", "config", proposal.Path()+" is written")
	return found, nil
}

func printFound(p *terminal.Printer, found assembly.SurveyFound) {
	for _, a := range found.Agents {
		if a.Ready {
			p.Mark("ok", "agent", a.Name+" "+a.Text)
			continue
		}
		p.Mark("warn", "agent", a.Name+": "+a.Text+" · "+a.Next)
	}
	for _, l := range found.Languages {
		p.Mark("ok", "project", l.Name+", by "+l.File)
	}
	switch {
	case len(found.Checks) > 0:
		p.Mark("ok", "checks", strings.Join(found.Checks, " · "))
	case len(found.Languages) > 0:
		p.Mark("warn", "checks", "this project names none that is known: give nacre setup --check COMMAND; without a check nothing that an agent makes lands")
	default:
		p.Mark("warn", "project", "none that is known in this folder: nacre setup in a project's folder finds its checks")
	}
}

// printKept says of a config that stays as it is whether it verifies this project.
func printKept(p *terminal.Printer, found assembly.SurveyFound) {
	path, verifies := found.Proposal.Path(), found.Proposal.Verifies()
	if len(found.Checks) == 0 || len(verifies) == 0 || slices.Equal(found.Checks, verifies) {
		p.Mark("ok", "config", path+" lacks nothing of that")
		return
	}
	p.Mark("warn", "config", fmt.Sprintf("%s verifies the runs of every project with %q, and stays so: name this project's own for a run, such as --check %q",
		path, strings.Join(verifies, " && "), found.Checks[0]))
}

// next says what to type now.
func (cmd setupCommand) next(found assembly.SurveyFound) {
	next := "nacre exec --project . -- sh"
	for _, a := range found.Agents {
		if a.Ready {
			next = `nacre run "what is to be done"`
			if a.Name == "claude" || a.Name == "codex" {
				next = "nacre " + a.Name
			}
			break
		}
	}
	cmd.Printer(cmd.Stdout).Field("next", "%s · nacre doctor tries each part", next)
}
