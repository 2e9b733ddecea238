package hookcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/hooks"
	"github.com/nacre-dev/nacre/internal/role"
)

type hooksCommand Commands

// refusalsShown is how many refusals status shows.
const refusalsShown = 10

func (cmd hooksCommand) command() *cobra.Command {
	return command.Group("hooks", "hold Claude Code and Codex by a role where they run without a sandbox",
		cmd.installCommand(), cmd.statusCommand(), cmd.removeCommand())
}

// hooksFlags say which agents' hooks are meant, and whom they hold.
type hooksFlags struct {
	claude, codex, all    bool
	project               string
	user, managed, dryRun bool
}

func (f *hooksFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.claude, "claude", false, "Claude Code only")
	c.Flags().BoolVar(&f.codex, "codex", false, "Codex only")
	c.Flags().BoolVar(&f.all, "all", false, "Claude Code and Codex (the default)")
	c.Flags().BoolVar(&f.user, "user", false, "hold this user in every project")
	c.Flags().BoolVar(&f.managed, "managed", false, "hold all users of this machine (root)")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "say what would be written, and write nothing")
	command.ProjectFlag(c, &f.project)
}

// target is the scope, its project and the places that the flags mean.
func (cmd hooksCommand) target(f hooksFlags) (scope, project string, places []hooks.Place, err error) {
	scope = hooks.Project
	switch {
	case f.user && f.managed, f.project != "" && (f.user || f.managed):
		return "", "", nil, command.Usage("give one of --project, --user and --managed")
	case f.user:
		scope = hooks.User
	case f.managed:
		scope = hooks.Managed
	default:
		if project, err = cmd.ProjectFolder(f.project); err == nil {
			project, err = filepath.EvalSymlinks(project)
		}
		if err != nil {
			return "", "", nil, command.UsageOf(err)
		}
	}
	home := hooks.HomeFor(cmd.Getenv)
	for _, agent := range []string{hooks.Claude, hooks.Codex} {
		if f.claude == f.codex || f.all || f.claude == (agent == hooks.Claude) {
			place := home.Place(agent, scope, project)
			if !filepath.IsAbs(place.File) || !filepath.IsAbs(home.State) {
				return "", "", nil, command.Usage("%s is not an absolute path: set HOME, and CLAUDE_CONFIG_DIR and CODEX_HOME only to absolute paths", place.File)
			}
			places = append(places, place)
		}
	}
	return scope, project, places, nil
}

func (cmd hooksCommand) installCommand() *cobra.Command {
	var f hooksFlags
	var name, task string
	var replace, trust bool
	c := &cobra.Command{
		Use: "install --role ROLE", Short: "write hooks that ask a role's gates before every tool call", Args: command.NoArguments,
		Long: `Pins the role as it is now, with the lists of a task, and writes hooks for all tools that
decide by what was pinned. Without --task nothing may be written. Without --user or
--managed the hooks hold work in this project. Codex runs hooks only that were trusted in
it: --trust has Codex trust these, and /hooks in Codex does too. All other settings stay as
they are; the file as it was is kept beside it.`,
		Example: "  nacre hooks install --role edit-local --task tasks/fix/task.toml\n  nacre hooks install --role read-only --user --claude",
		RunE: func(c *cobra.Command, _ []string) error {
			return cmd.installHooks(c.Context(), f, hooksWish{name, task, replace, trust})
		},
	}
	f.add(c)
	c.Flags().StringVar(&name, "role", "", "the role whose gates hold the agents")
	c.Flags().StringVar(&task, "task", "", "a task file whose lists are pinned (default: nothing may be written)")
	c.Flags().BoolVar(&replace, "replace", false, "put this role in the place of another one")
	c.Flags().BoolVar(&trust, "trust", false, "have Codex trust the hooks, as /hooks in Codex does")
	return c
}

// hooksWish is what is to be installed.
type hooksWish struct {
	role, task     string
	replace, trust bool
}

// hooksDone is what an installation or a removal did, for programs.
type hooksDone struct {
	Role    string         `json:"role,omitempty"`
	Scope   string         `json:"scope"`
	DryRun  bool           `json:"dry_run"`
	Changes []hooks.Change `json:"changes"`
	// Notes say what a person has to know or to do.
	Notes []string `json:"notes"`
}

func (cmd hooksCommand) installHooks(ctx context.Context, f hooksFlags, wish hooksWish) error {
	scope, project, places, err := cmd.target(f)
	if err != nil {
		return err
	}
	pin, err := pinOf(project, wish)
	if err != nil {
		return command.UsageOf(err)
	}
	executable, err := os.Executable()
	if err == nil {
		executable, err = filepath.EvalSymlinks(executable)
	}
	if err != nil {
		return err
	}
	home := hooks.HomeFor(cmd.Getenv)
	plan, err := home.PlanInstall(hooks.Order{Pin: pin, Program: hooks.ProgramFor(executable), Places: places, Replace: wish.replace})
	if err != nil {
		return err
	}
	done := hooksDone{Role: pin.Role, Scope: scope, DryRun: f.dryRun, Changes: plan.Changes, Notes: notesOf(pin)}
	if !f.dryRun {
		if err := errors.Join(plan.Apply(), plan.Orphans(cmd.usedPins(home, project))); err != nil {
			return err
		}
		done.Notes = append(done.Notes, cmd.trustNotes(ctx, plan.Changes, project, wish.trust)...)
	}
	return cmd.printHooks(done)
}

// pinOf pins a role: a project's own only where the hooks hold that project.
func pinOf(project string, wish hooksWish) (hooks.Pin, error) {
	var given *atom.Parameters
	name := wish.role
	if wish.task != "" {
		p, err := command.ReadTask(wish.task)
		if err != nil {
			return hooks.Pin{}, err
		}
		given = &p
		if name == "" {
			name = p.Role
		}
	}
	if name == "" {
		return hooks.Pin{}, errors.New("--role is missing: nacre role list shows the roles there are")
	}
	library, done := role.Library{}, func() {}
	if project != "" {
		rules, end, err := assembly.OpenRules(project)
		if err != nil {
			return hooks.Pin{}, err
		}
		library.Project, done = rules, end
	}
	defer done()
	resolved, err := library.Resolve(name)
	if err != nil {
		return hooks.Pin{}, err
	}
	pin, err := hooks.NewPin(project, resolved, given)
	if wish.task != "" && err == nil {
		pin.Task, err = filepath.Abs(wish.task)
	}
	return pin, err
}

func notesOf(pin hooks.Pin) []string {
	notes := []string{}
	if pin.Task == "" {
		notes = append(notes, "no --task: where the role has a list of files, none may be written")
	}
	if !pin.Guarded() {
		notes = append(notes, "this role may write the settings that hold it: a role with scope::no-rule-edits may not")
	}
	return notes
}

// usedPins tells whether any hook of this user and project names a pin.
func (cmd hooksCommand) usedPins(home hooks.Home, project string) func(string) bool {
	found, err := home.Status(home.Places(project))
	return func(pin string) bool {
		return err != nil || slices.ContainsFunc(found, func(one hooks.Installed) bool { return strings.Contains(one.Command, pin) })
	}
}

// trustNotes say whether Codex would run the hooks.
func (cmd hooksCommand) trustNotes(ctx context.Context, changes []hooks.Change, project string, grant bool) []string {
	var notes []string
	for _, c := range changes {
		if c.Agent != hooks.Codex || c.Command == "" {
			continue
		}
		if t := cmd.codexTrust(ctx, c.Place, c.Command, project, grant); !t.Runs {
			notes = append(notes, c.File+" is not run: "+t.Why)
		}
	}
	return notes
}

// codexTrust asks Codex whether it would run a hook.
func (cmd hooksCommand) codexTrust(ctx context.Context, place hooks.Place, command, project string, grant bool) hooks.Trust {
	program := codexProgram(cmd.Env)
	if program == "" {
		if place.Scope == hooks.Managed {
			return hooks.Trust{Runs: true}
		}
		return hooks.Trust{Why: "codex was not found to ask it: hooks must be trusted under /hooks in Codex"}
	}
	if project == "" {
		project = "/"
	}
	trust, err := hooks.CodexTrust(ctx, program, project, []string{command}, grant)
	if err != nil {
		return hooks.Trust{Why: err.Error()}
	}
	return trust[command]
}

func (cmd hooksCommand) printHooks(done hooksDone) error {
	if cmd.JSON {
		return cmd.PrintJSON(done)
	}
	p := cmd.Printer(cmd.Stdout)
	for _, c := range done.Changes {
		what := "removed from "
		switch {
		case c.Unchanged:
			what = "unchanged: "
		case c.Command != "":
			what = done.Role + " holds: "
		}
		if done.DryRun && !c.Unchanged {
			what = "would be written: "
		}
		p.Line("%-7s %s%s", c.Agent, what, c.File)
		if c.Command != "" {
			p.Line("        %s", c.Command)
		}
	}
	for _, note := range done.Notes {
		p.Mark("warn", "note", note)
	}
	if done.Role != "" && !done.DryRun {
		p.Line("nacre hooks status shows what stays uncovered.")
	}
	return nil
}

func (cmd hooksCommand) removeCommand() *cobra.Command {
	var f hooksFlags
	c := &cobra.Command{
		Use: "remove", Short: "take nacre's hooks out of the agents' settings", Args: command.NoArguments,
		Long:    `Takes out what nacre hooks install wrote, and nothing else.`,
		Example: "  nacre hooks remove\n  nacre hooks remove --user --codex",
		RunE:    func(*cobra.Command, []string) error { return cmd.removeHooks(f) },
	}
	f.add(c)
	return c
}

func (cmd hooksCommand) removeHooks(f hooksFlags) error {
	scope, project, places, err := cmd.target(f)
	if err != nil {
		return err
	}
	home := hooks.HomeFor(cmd.Getenv)
	plan, err := home.PlanRemove(places)
	if err != nil {
		return err
	}
	if !f.dryRun && slices.ContainsFunc(plan.Changes, func(c hooks.Change) bool { return !c.Unchanged }) {
		if err := errors.Join(plan.Apply(), plan.Orphans(cmd.usedPins(home, project))); err != nil {
			return err
		}
	}
	return cmd.printHooks(hooksDone{Scope: scope, DryRun: f.dryRun, Changes: plan.Changes, Notes: []string{}})
}

func (cmd hooksCommand) statusCommand() *cobra.Command {
	var project string
	c := &cobra.Command{
		Use: "status", Short: "show the hooks that hold work here, what they refused, and what stays uncovered", Args: command.NoArguments,
		Long: `Shows each hook, whether it would be run, the last calls that were refused, and the ways
past it that no hook covers. Exit 1 where a hook is not run, or refuses everything.`,
		Example: "  nacre hooks status",
		RunE:    func(c *cobra.Command, _ []string) error { return cmd.hooksStatus(c.Context(), project) },
	}
	command.ProjectFlag(c, &project)
	return c
}

// hooksState is what status shows.
type hooksState struct {
	Installed []hooks.Installed `json:"installed"`
	Refused   []hooks.Refusal   `json:"refused"`
	Errors    []string          `json:"errors"`
}

func (cmd hooksCommand) hookState(ctx context.Context, named string) (hooksState, error) {
	project, err := cmd.ProjectFolder(named)
	if err == nil {
		project, err = filepath.EvalSymlinks(project)
	}
	if err != nil {
		return hooksState{}, command.UsageOf(err)
	}
	home := hooks.HomeFor(cmd.Getenv)
	s := hooksState{Installed: []hooks.Installed{}, Refused: []hooks.Refusal{}, Errors: []string{}}
	found, err := home.Status(home.Places(project))
	if err != nil {
		s.Errors = append(s.Errors, err.Error())
	}
	for _, one := range found {
		if one.Agent == hooks.Codex {
			if t := cmd.codexTrust(ctx, one.Place, one.Command, project, false); !t.Runs {
				one.Problems = append(one.Problems, "is not run: "+t.Why)
			}
		}
		s.Installed = append(s.Installed, one)
	}
	refused, err := hooks.Refusals(home.LogFile(), refusalsShown)
	if err != nil {
		s.Errors = append(s.Errors, err.Error())
	}
	s.Refused = append(s.Refused, refused...)
	return s, nil
}

func (cmd hooksCommand) hooksStatus(ctx context.Context, project string) error {
	s, err := cmd.hookState(ctx, project)
	if err != nil {
		return err
	}
	if cmd.JSON {
		err = cmd.PrintJSON(s)
	} else {
		cmd.printHookState(s)
	}
	if err == nil && (len(s.Errors) > 0 || slices.ContainsFunc(s.Installed, func(one hooks.Installed) bool { return len(one.Problems) > 0 })) {
		return command.Exit(command.ExitFailed)
	}
	return err
}

func (cmd hooksCommand) printHookState(s hooksState) {
	p := cmd.Printer(cmd.Stdout)
	if len(s.Installed) == 0 {
		p.Line("no hooks of nacre's hold work here: nacre hooks install --role ROLE")
	}
	for _, one := range s.Installed {
		mark := "ok"
		if len(one.Problems) > 0 {
			mark = "denied"
		}
		p.Mark(mark, one.Agent+" "+one.Scope, fmt.Sprintf("role %s, task %s · %s", cmp.Or(one.Role, "unknown"), cmp.Or(one.Task, "none: nothing may be written"), one.File))
		for _, problem := range one.Problems {
			p.Line("          %s", problem)
		}
		for _, way := range one.Uncovered {
			p.Line("          uncovered: %s", way)
		}
	}
	for _, r := range s.Refused {
		p.Line("refused   %s  %s: %s", r.Time.Format("2006-01-02 15:04:05"), cmp.Or(r.Tool, "unread call"), r.Reason)
	}
	for _, text := range s.Errors {
		p.Mark("denied", "settings", text)
	}
}

// Findings are doctor's rows: the hooks that are there, and what they leave open.
func (c Commands) Findings(ctx context.Context) []assembly.Finding {
	s, err := hooksCommand(c).hookState(ctx, "")
	if err != nil {
		return []assembly.Finding{{Name: "hooks", Status: "warn", Text: err.Error()}}
	}
	var findings []assembly.Finding
	for _, text := range s.Errors {
		findings = append(findings, assembly.Finding{Name: "hooks", Status: "warn", Text: text, Fix: "mend the file, then nacre hooks status"})
	}
	for _, one := range s.Installed {
		if len(one.Problems) > 0 {
			findings = append(findings, assembly.Finding{Name: "hooks", Status: "fail", Text: one.File + ": " + strings.Join(one.Problems, "; "), Fix: "nacre hooks install, or nacre hooks remove"})
			continue
		}
		findings = append(findings, assembly.Finding{Name: "hooks", Status: "ok", Text: one.Agent + " " + one.Scope + ": role " + one.Role})
		for _, way := range one.Uncovered {
			findings = append(findings, assembly.Finding{Name: "hooks", Status: "warn", Text: "not enforced for " + one.Agent + ": " + way})
		}
	}
	if len(findings) == 0 {
		findings = append(findings, assembly.Finding{Name: "hooks", Status: "ok", Text: "none: agents outside of nacre run are not held"})
	}
	return findings
}
