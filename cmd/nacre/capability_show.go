package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/internal/atom"
)

// shownAtom is an atom for programs.
type shownAtom struct {
	Name        atom.ID           `json:"name"`
	Version     string            `json:"version"`
	Description string            `json:"description"`
	From        string            `json:"from"`
	Layers      []string          `json:"layers"`
	Text        string            `json:"text"`
	Gate        map[string]any    `json:"gate,omitempty"`
	OS          map[string]any    `json:"os,omitempty"`
	Verify      map[string]string `json:"verify,omitempty"`
	EnforcedBy  []string          `json:"enforced_by"`
	DeclaredFor []string          `json:"declared_for"`
	Lineage     *atom.Lineage     `json:"lineage,omitempty"`
}

func shownOf(one atom.Atom) shownAtom {
	s := shownAtom{
		Name: one.ID, Version: one.Version, Description: one.Description, From: originOf(one),
		Layers: layersOf(one), Text: one.Text,
	}
	s.EnforcedBy, s.DeclaredFor = enforcement(one)
	if one.HasGate() {
		s.Gate = map[string]any{"handler": one.Gate.Handler, "event": one.Gate.Event, "severity": one.Gate.Severity.String(), "bypass_env": one.Gate.BypassEnv,
			"forbids": one.Forbidden, "denied_tools": one.Denied, "tools": one.Tools, "commands": one.Commands}
	}
	if !one.OS.IsZero() {
		s.OS = map[string]any{"confined": one.OS.Confined, "writable": one.OS.Writable, "read_only": one.OS.ReadOnly, "hidden_programs": one.OS.HidePrograms, "unless": one.OS.Unless}
	}
	if one.Verify.Handler != "" {
		s.Verify = map[string]string{"handler": one.Verify.Handler, "run_mode": one.Verify.RunMode, "when": one.Verify.When}
	}
	if one.Lineage.ForkFrom != "" {
		s.Lineage = &one.Lineage
	}
	return s
}

// enforcement says which layers hold today, and which are only declared.
func enforcement(one atom.Atom) (by, declared []string) {
	by, declared = []string{}, []string{}
	if one.HasGate() {
		by = append(by, "gate")
	}
	if !one.OS.IsZero() {
		declared = append(declared, "sandbox")
	}
	if one.Verify.Handler != "" {
		declared = append(declared, "verifier")
	}
	return by, declared
}

func (a *app) capabilityShowCommand() *cobra.Command {
	var project, task string
	c := &cobra.Command{
		Use: "show NAME", Short: "show an atom at all four layers, and where each is enforced",
		Long: `Shows what the agent is told, what its gate holds calls against, what the sandbox is
to enforce, and what is verified on return; and which of these are enforced by this
version. With --task, or $NACRE_TASK, the lists that the task gives are shown as well.`,
		Example: "  nacre capability show policy::no-git-ops", Args: oneArgument("an atom's name"),
		RunE: func(_ *cobra.Command, args []string) error {
			folder, err := a.projectOf(project)
			if err != nil {
				return &usageError{err}
			}
			atoms, done, err := library(folder)
			if err != nil {
				return &usageError{err}
			}
			defer done()
			one, err := atoms.Find(args[0])
			if err != nil {
				return &usageError{err}
			}
			if task == "" {
				task = a.getenv("NACRE_TASK")
			}
			if a.json {
				return printJSON(a.stdout, shownOf(one))
			}
			var given *atom.Parameters
			if task != "" {
				p, err := readTask(task)
				if err != nil {
					return &usageError{err}
				}
				given = &p
			}
			a.showAtom(one, given)
			return nil
		},
	}
	c.Flags().StringVar(&task, "task", "", "a task file whose lists are shown (default: $NACRE_TASK)")
	projectFlag(c, &project)
	return c
}

func readTask(name string) (atom.Parameters, error) {
	data, err := readInput(name)
	if err != nil {
		return atom.Parameters{}, err
	}
	p, err := atom.ParseParameters(data)
	if err != nil {
		return atom.Parameters{}, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

func (a *app) showAtom(one atom.Atom, task *atom.Parameters) {
	p := a.printer(a.stdout)
	p.Line("%s  %s  (%s)", one.ID, one.Version, originOf(one))
	p.Line("%s", one.Description)
	if one.Rationale != "" {
		p.Line("%s", one.Rationale)
	}
	p.Line("")
	p.Line("text")
	for line := range strings.Lines(one.Text) {
		p.Line("  %s", strings.TrimRight(line, "\r\n"))
	}
	p.Line("")
	for _, layer := range [][]string{gateLines(one, task), osLines(one, task), verifyLines(one)} {
		for _, line := range layer {
			p.Line("%s", line)
		}
	}
	by, declared := enforcement(one)
	p.Line("")
	p.Line("enforced by: %s; declared for: %s", orNone(by), orNone(declared))
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

func gateLines(one atom.Atom, task *atom.Parameters) []string {
	if !one.HasGate() {
		return []string{"gate      none"}
	}
	handler := one.Gate.Handler
	if handler == "" {
		handler = "patterns"
	}
	lines := []string{fmt.Sprintf("gate      %s, severity %s, asked on %s", handler, one.Gate.Severity, one.Gate.Event)}
	add := func(what string, list []string) {
		if len(list) > 0 {
			lines = append(lines, "          "+what+": "+strings.Join(list, ", "))
		}
	}
	add("forbids commands", one.Forbidden)
	add("allows commands", one.Commands)
	add("denies tools", one.Denied)
	add("allows tools", one.Tools)
	if one.Gate.BypassEnv != "" {
		lines = append(lines, "          lifted where the orchestrator's own environment has "+one.Gate.BypassEnv+"=1")
	}
	for _, list := range one.Needs() {
		switch {
		case task == nil:
			lines = append(lines, "          needs "+list+" of a task")
		case list == "files-whitelist":
			lines = append(lines, "          "+list+" of this task: "+orNone(task.Whitelist))
		default:
			lines = append(lines, "          "+list+" of this task: "+orNone(task.Denylist))
		}
	}
	return lines
}

func osLines(one atom.Atom, task *atom.Parameters) []string {
	if one.OS.IsZero() {
		return []string{"os        none"}
	}
	lines := []string{"os        (declared; not enforced by this version)"}
	if one.OS.Confined {
		lines = append(lines, "          writable: "+orNone(filled(one.OS.Writable, task))+", and nothing else")
	}
	if len(one.OS.ReadOnly) > 0 {
		lines = append(lines, "          read-only: "+strings.Join(filled(one.OS.ReadOnly, task), ", "))
	}
	if len(one.OS.HidePrograms) > 0 {
		lines = append(lines, "          not there: "+strings.Join(one.OS.HidePrograms, ", "))
	}
	if one.OS.Unless != "" {
		lines = append(lines, "          lifted by the task's "+one.OS.Unless+" = true")
	}
	return lines
}

// filled puts a task's lists where an atom names them.
func filled(list []string, task *atom.Parameters) []string {
	var out []string
	for _, entry := range list {
		switch {
		case task != nil && entry == "$files-whitelist":
			out = append(out, task.Whitelist...)
		case task != nil && entry == "$files-denylist":
			out = append(out, task.Denylist...)
		default:
			out = append(out, entry)
		}
	}
	return out
}

func verifyLines(one atom.Atom) []string {
	if one.Verify.Handler == "" {
		return []string{"verifier  none"}
	}
	return []string{fmt.Sprintf("verifier  %s, on %s, %s (declared; not run by this version)", one.Verify.Handler, one.Verify.RunMode, one.Verify.When)}
}
