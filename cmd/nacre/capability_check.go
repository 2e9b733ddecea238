package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/gate"
	"github.com/nacre-dev/nacre/internal/guard"
)

func (a *app) capabilityCheckCommand() *cobra.Command {
	var project string
	c := &cobra.Command{
		Use: "check NAME...", Short: "hold a tool call against atoms, as a hook of Claude Code or Codex",
		Long: `Reads a PreToolUse hook's JSON on standard input and decides by the gates of the named
atoms, all in one call. Exit 0 with JSON on standard output: the call may go on, and the
agent's own permissions still apply. Exit 2 with the reason on standard error: it may not.
Whatever is missing, malformed or unknown is exit 2. $NACRE_TASK names the task file
from which scope atoms take their lists.`,
		Example: "  nacre capability check policy::no-git-ops scope::files-whitelist < hook.json",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("%s takes one or more atoms; see %s --help", c.CommandPath(), c.CommandPath())
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.checkCapabilities(project, args) },
	}
	projectFlag(c, &project)
	return c
}

func (a *app) checkCapabilities(project string, names []string) error {
	results, err := a.decide(project, names)
	if err != nil {
		results = []guard.Finding{{Name: strings.Join(names, " "), Decision: "deny", Severity: "block", Reason: err.Error()}}
	}
	var reasons, warnings []string
	for _, r := range results {
		switch {
		case r.Denied():
			reasons = append(reasons, r.Name+": "+r.Reason)
		case r.Warns():
			warnings = append(warnings, r.Name+": "+r.Reason)
		}
	}
	for _, warning := range warnings {
		a.printer(a.stderr).Line("nacre: warning: %s", warning)
	}
	if a.json {
		decision := "allow"
		if len(reasons) > 0 {
			decision = "deny"
		}
		if err := printJSON(a.stdout, map[string]any{"decision": decision, "atoms": results}); err != nil {
			return &exitError{guard.ExitDenied, err}
		}
	}
	if len(reasons) > 0 {
		return &exitError{guard.ExitDenied, errors.New(strings.Join(reasons, "\n"))}
	}
	if a.json {
		return nil
	}
	out, err := guard.Answer(strings.Join(warnings, "\n"))
	if err == nil {
		_, err = fmt.Fprintf(a.stdout, "%s\n", out)
	}
	if err != nil {
		return &exitError{guard.ExitDenied, err}
	}
	return nil
}

// decide asks every gate. An error refuses the call as a whole.
func (a *app) decide(named string, names []string) ([]guard.Finding, error) {
	project, err := a.projectOf(named)
	if err != nil {
		return nil, err
	}
	call, err := a.readHook()
	if err != nil {
		return nil, err
	}
	atoms, done, err := library(project)
	if err != nil {
		return nil, err
	}
	defer done()
	task, err := a.parameters()
	if err != nil {
		return nil, err
	}
	world := guard.World(project, call.Dir)
	results := make([]guard.Finding, 0, len(names))
	for _, name := range names {
		one, err := atoms.Find(name)
		if err != nil {
			return nil, err
		}
		results = append(results, a.ask(one, task, call, world))
	}
	return results, nil
}

func (a *app) readHook() (gate.Call, error) {
	if isTerminal(a.stdin) {
		return gate.Call{}, errors.New("no hook JSON on standard input")
	}
	return guard.ReadHook(a.stdin)
}

// parameters are those of the task that the environment names, or nil.
func (a *app) parameters() (*atom.Parameters, error) {
	name := a.getenv("NACRE_TASK")
	if name == "" {
		return nil, nil //nolint:nilnil // no task is not an error: not every atom needs one
	}
	p, err := readTask(name)
	if err != nil {
		return nil, fmt.Errorf("NACRE_TASK: %w", err)
	}
	return &p, nil
}

// ask holds a call against one atom.
func (a *app) ask(one atom.Atom, task *atom.Parameters, call gate.Call, world gate.World) guard.Finding {
	g := guard.Of(one, task)
	f := g.Check(call, world)
	if f.Decision == "deny" && g.Missing == "" && a.bypassed(g.BypassEnv, world) {
		return guard.Finding{Name: f.Name, Decision: "allow", Severity: f.Severity}
	}
	return f
}

// bypassed tells whether the orchestrator's own environment lifts a gate: the
// value is exactly 1, this is no sandbox, and no settings file of an agent,
// which a repository or the agent may have written, names the variable (S-02).
func (a *app) bypassed(name string, w gate.World) bool {
	if name == "" || a.getenv(name) != "1" {
		return false
	}
	if _, err := os.Lstat(nacre.SocketDir); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	dirs := []string{w.Home}
	for _, dir := range []string{w.Project, w.Dir} {
		for ; dir != "" && filepath.IsAbs(dir); dir = filepath.Dir(dir) {
			dirs = append(dirs, dir)
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	for _, dir := range dirs {
		for _, file := range []string{".claude/settings.json", ".claude/settings.local.json", ".codex/config.toml", ".codex/hooks.json", ".claude.json"} {
			if mentions(filepath.Join(dir, file), name) {
				return false
			}
		}
	}
	return true
}

// mentions tells whether a file names a variable. One that cannot be read may.
func mentions(file, name string) bool {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false
	}
	if err != nil {
		return true
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, gate.MaxHook+1))
	return err != nil || len(data) > gate.MaxHook || bytes.Contains(data, []byte(name)) || bytes.Contains(data, []byte(`\u`))
}
