package rolecmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/confine"
	"github.com/nacre-dev/nacre/internal/gate"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/role"
	"github.com/nacre-dev/nacre/internal/terminal"
	"github.com/nacre-dev/nacre/internal/verify"
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
	// Enforced says of each layer where it is, for the task that was given.
	Enforced map[string]string `json:"enforced"`
	// Mounts are those of the sandbox over this project, Widened what only the
	// verifier holds. Both need a task.
	Mounts  []string      `json:"mounts,omitempty"`
	Widened []string      `json:"widened,omitempty"`
	Lineage *atom.Lineage `json:"lineage,omitempty"`
}

func shownOf(one atom.Atom) shownAtom {
	s := shownAtom{
		Name: one.ID, Version: one.Version, Description: one.Description, From: originOf(one),
		Layers: layersOf(one), Text: one.Text, Enforced: enforcement(one, nil),
	}
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

// enforcement says where each layer that an atom declares is enforced, for a
// task where there is one.
func enforcement(one atom.Atom, task *atom.Parameters) map[string]string {
	where := map[string]string{"text": "in the prompt of every task whose role requires it"}
	if one.HasGate() {
		where["gate"] = "before each tool call, by the agent's hooks"
		for _, list := range one.Needs() {
			if task != nil && !task.Has(list) {
				where["gate"] = "refuses every call: this task has no " + list + " in [scope]"
			}
		}
	}
	if !one.OS.IsZero() {
		where["os"] = "in the agent's sandbox, by mounts and masks"
		if lifted(one, task) {
			where["os"] = "lifted by this task's " + one.OS.Unless + " = true"
		}
	}
	switch {
	case one.Verify.Handler == "":
	case len(verify.Due([]atom.Atom{one}, false)) > 0:
		where["verify"] = "on return, on the agent's tree and again on the merged one"
	default:
		where["verify"] = "on return, on the merged tree"
	}
	return where
}

func lifted(one atom.Atom, task *atom.Parameters) bool {
	return task != nil && one.OS.Unless == "allow-dep-bump" && task.AllowDepBump
}

// checkLayers refuses an atom with a layer that this version does not have: it
// would be shown as if it held.
func checkLayers(one atom.Atom) error {
	if one.Gate.Handler != "" && gate.KindOf(one.Gate.Handler) == gate.Unknown {
		return fmt.Errorf("%s declares the gate %q, which is not there", one.ID, one.Gate.Handler)
	}
	if one.Verify.Handler != "" && !verify.Exists(one.Verify.Handler) {
		return fmt.Errorf("%s declares the verifier %q, which is not there", one.ID, one.Verify.Handler)
	}
	return nil
}

func (cmd capabilityCommand) showCommand() *cobra.Command {
	var project, task string
	c := &cobra.Command{
		Use: "show NAME", Short: "show an atom at all four layers, and where each is enforced",
		Long: `Shows what the agent is told, what its gate holds calls against, what the sandbox
enforces, and what is verified on return. With --task, or $NACRE_TASK, the lists that the
task gives are filled in, and the mounts are those over this project. An atom that declares
a layer which is not there is refused.`,
		Example: "  nacre capability show scope::files-whitelist --task tasks/fix/task.toml", Args: command.OneArgument("an atom's name"),
		RunE: func(_ *cobra.Command, args []string) error {
			folder, err := cmd.ProjectFolder(project)
			if err != nil {
				return command.UsageOf(err)
			}
			if task == "" {
				task = cmd.Getenv("NACRE_TASK")
			}
			if err := cmd.showCapability(folder, args[0], task); err != nil {
				return command.UsageOf(err)
			}
			return nil
		},
	}
	c.Flags().StringVar(&task, "task", "", "a task file whose lists are shown (default: $NACRE_TASK)")
	command.ProjectFlag(c, &project)
	return c
}

func (cmd capabilityCommand) showCapability(project, name, task string) error {
	atoms, done, err := library(project)
	if err != nil {
		return err
	}
	defer done()
	one, err := atoms.Find(name)
	if err != nil {
		return err
	}
	if err := checkLayers(one); err != nil {
		return err
	}
	shown := shownOf(one)
	var given *atom.Parameters
	if task != "" {
		p, err := command.ReadTask(task)
		if err != nil {
			return err
		}
		given = &p
		if err := shown.fill(one, p, project); err != nil {
			return err
		}
		if err := shown.checkRole(one, p.Role, role.Library{Project: atoms.Project}); err != nil {
			return fmt.Errorf("%s: %w", task, err)
		}
	}
	if cmd.JSON {
		return cmd.PrintJSON(shown)
	}
	cmd.showAtom(one, given, shown)
	return nil
}

// fill adds what a task makes of an atom's layers over a project.
func (s *shownAtom) fill(one atom.Atom, task atom.Parameters, project string) error {
	s.Enforced = enforcement(one, &task)
	layer, err := confine.Of([]atom.Atom{one}, task, project, posture.Workspace, nil)
	if err != nil {
		return err
	}
	if layer.ReadOnly {
		s.Mounts = append(s.Mounts, "read-only "+posture.Workspace)
	}
	for _, m := range layer.Mounts {
		s.Mounts = append(s.Mounts, m.Kind.String()+" "+m.Target)
	}
	s.Widened = layer.Widened
	return nil
}

// checkRole says of an atom that the task's role does not require that nothing of it
// holds.
func (s *shownAtom) checkRole(one atom.Atom, name string, roles role.Library) error {
	if name == "" {
		return nil
	}
	resolved, err := roles.Resolve(name)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(resolved.Atoms, func(a atom.Atom) bool { return a.ID == one.ID }) {
		return nil
	}
	for layer := range s.Enforced {
		s.Enforced[layer] = "not for this task: its role " + name + " does not require " + string(one.ID)
	}
	s.Mounts, s.Widened = nil, nil
	return nil
}

func (cmd capabilityCommand) showAtom(one atom.Atom, task *atom.Parameters, s shownAtom) {
	p := cmd.Printer(cmd.Stdout)
	p.Line("%s  %s  (%s)", one.ID, one.Version, originOf(one))
	p.Line("%s", one.Description)
	if one.Rationale != "" {
		p.Line("%s", one.Rationale)
	}
	p.Line("")
	p.Line("text      %s", s.Enforced["text"])
	for line := range strings.Lines(one.Text) {
		p.Line("          %s", strings.TrimRight(line, "\r\n"))
	}
	for _, layer := range [][]string{gateLines(one, task), osLines(one, task, s), verifyLines(one)} {
		p.Line("")
		p.Line("%s", layer[0])
		for _, line := range layer[1:] {
			p.Line("          %s", line)
		}
	}
	p.Line("")
	for _, layer := range []string{"gate", "os", "verify"} {
		if where := s.Enforced[layer]; where != "" {
			p.Line("%-9s %s", layer, where)
		}
	}
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
			lines = append(lines, what+": "+strings.Join(list, ", "))
		}
	}
	add("forbids commands", one.Forbidden)
	add("allows commands", one.Commands)
	add("denies tools", one.Denied)
	add("allows tools", one.Tools)
	if one.Gate.BypassEnv != "" {
		lines = append(lines, "lifted for hooks on this machine by "+one.Gate.BypassEnv+"=1 in the orchestrator's own environment; nacre run, exec and task run ignore it")
	}
	for _, list := range one.Needs() {
		switch {
		case task == nil:
			lines = append(lines, "needs "+list+" of a task")
		case list == "files-whitelist":
			lines = append(lines, list+" of this task: "+terminal.List(task.Whitelist, "none"))
		default:
			lines = append(lines, list+" of this task: "+terminal.List(task.Denylist, "none"))
		}
	}
	return lines
}

func osLines(one atom.Atom, task *atom.Parameters, s shownAtom) []string {
	if one.OS.IsZero() {
		return []string{"os        none"}
	}
	lines := []string{"os        what the sandbox makes so, whatever program tries"}
	if one.OS.Confined {
		lines = append(lines, "writable: "+terminal.List(filled(one.OS.Writable, task), "none")+", and nothing else")
	}
	if len(one.OS.ReadOnly) > 0 {
		lines = append(lines, "read-only: "+strings.Join(filled(one.OS.ReadOnly, task), ", "))
	}
	if len(one.OS.HidePrograms) > 0 {
		lines = append(lines, "not there: "+strings.Join(one.OS.HidePrograms, ", "))
	}
	if one.OS.Unless != "" {
		lines = append(lines, "lifted by the task's "+one.OS.Unless+" = true")
	}
	for _, mount := range s.Mounts {
		lines = append(lines, "mount: "+mount)
	}
	for _, wide := range s.Widened {
		lines = append(lines, "left to the verifier: "+wide)
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
	return []string{fmt.Sprintf("verifier  %s, run mode %s, %s", one.Verify.Handler, one.Verify.RunMode, one.Verify.When)}
}
