package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/gate"
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

// exitDenied is what hooks take for a refusal; every failure here is one.
const exitDenied = 2

// checked is what one atom's gate said.
type checked struct {
	Name     string `json:"name"`
	Decision string `json:"decision"`
	Severity string `json:"severity,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

func (a *app) checkCapabilities(project string, names []string) error {
	results, err := a.decide(project, names)
	if err != nil {
		results = []checked{{Name: strings.Join(names, " "), Decision: "deny", Severity: "block", Reason: err.Error()}}
	}
	var reasons, warnings []string
	for _, r := range results {
		switch {
		case r.Decision != "deny":
		case r.Severity == atom.Block.String():
			reasons = append(reasons, r.Name+": "+r.Reason)
		case r.Severity == atom.Warn.String():
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
			return &exitError{exitDenied, err}
		}
	}
	if len(reasons) > 0 {
		return &exitError{exitDenied, errors.New(strings.Join(reasons, "\n"))}
	}
	if a.json {
		return nil
	}
	out, err := decisionJSON(strings.Join(warnings, "\n"))
	if err == nil {
		_, err = fmt.Fprintf(a.stdout, "%s\n", out)
	}
	if err != nil {
		return &exitError{exitDenied, err}
	}
	return nil
}

// decide asks every gate. An error refuses the call as a whole.
func (a *app) decide(named string, names []string) ([]checked, error) {
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
	world := a.world(project, call.Dir)
	results := make([]checked, 0, len(names))
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
	data, err := io.ReadAll(io.LimitReader(a.stdin, gate.MaxHook+1))
	if err != nil {
		return gate.Call{}, fmt.Errorf("the hook's JSON: %w", err)
	}
	return gate.ParseHook(data)
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
func (a *app) ask(one atom.Atom, task *atom.Parameters, call gate.Call, world gate.World) checked {
	result := checked{Name: string(one.ID), Decision: "allow", Severity: one.Gate.Severity.String()}
	for _, list := range one.Needs() {
		switch {
		case task == nil:
			return denied(result, "no task: NACRE_TASK does not name the task file that holds "+list)
		case !task.Has(list):
			return denied(result, "the task has no "+list+" in [scope]: write it, if need be as an empty list")
		}
	}
	for _, rule := range rulesOf(one, task) {
		if d := rule.Check(call, world); !d.Allowed {
			if a.bypassed(one.Gate.BypassEnv, world) {
				return result
			}
			result.Decision, result.Reason = "deny", d.Reason
			return result
		}
	}
	return result
}

// denied is a refusal because something is missing, which no severity softens.
func denied(result checked, reason string) checked {
	result.Decision, result.Severity, result.Reason = "deny", atom.Block.String(), reason
	return result
}

// rulesOf are the gates of an atom, with a task's parameters.
func rulesOf(one atom.Atom, task *atom.Parameters) []gate.Rule {
	var rules []gate.Rule
	if one.Gate.Handler != "" {
		rule := gate.Rule{Kind: gate.KindOf(one.Gate.Handler), Commands: one.Commands}
		if task != nil {
			rule.Whitelist, rule.Denylist = task.Whitelist, task.Denylist
			rule.AllowDepBump, rule.MaxDeletes = task.AllowDepBump, task.MaxDeletes
		}
		rules = append(rules, rule)
	}
	if len(one.Forbidden) > 0 || len(one.Denied) > 0 || len(one.Tools) > 0 {
		rules = append(rules, gate.Rule{Kind: gate.Patterns, Forbidden: one.Forbidden, Denied: one.Denied, Tools: one.Tools})
	}
	return rules
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

// world is what the gates are told of the project.
func (a *app) world(project, dir string) gate.World {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // then paths in it are refused
	}
	return gate.World{Project: project, Dir: dir, Home: home, FoldCase: foldsCase(project), Readlink: readlink, Count: countFiles}
}

// foldsCase tells whether the project's file system takes a folder's name in
// the other case for the same folder.
func foldsCase(project string) bool {
	swapped := strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, filepath.Base(project))
	here, err := os.Stat(project)
	if err != nil || swapped == filepath.Base(project) {
		return false
	}
	there, err := os.Stat(filepath.Join(filepath.Dir(project), swapped))
	return err == nil && os.SameFile(here, there)
}

func readlink(path string) (string, bool, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return "", false, nil
	case err != nil:
		return "", false, err
	case info.Mode()&fs.ModeSymlink == 0:
		return "", false, nil
	}
	target, err := os.Readlink(path)
	return target, true, err
}

// errEnough ends a count that is over its limit.
var errEnough = errors.New("enough")

// countFiles counts what goes with a path, without following links.
func countFiles(path string, limit int) (int, error) {
	if strings.ContainsAny(path, "*?[") {
		if _, err := os.Lstat(path); err != nil {
			return 0, errors.New("it is a pattern")
		}
	}
	n, entries := 0, 0
	err := filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.IsDir() {
			n++
		}
		if entries++; n > limit || entries > maxEntries {
			return errEnough
		}
		return nil
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return n, nil
	case errors.Is(err, errEnough) && n <= limit:
		return 0, fmt.Errorf("it holds more than %d folders", maxEntries)
	case errors.Is(err, errEnough):
		return n, nil
	}
	return n, err
}

// maxEntries is how many files and folders are looked at to count a deletion.
const maxEntries = 10000

// decisionJSON is what a hook prints where a call may go on. It approves
// nothing: the agent's own rules still ask their own questions.
func decisionJSON(message string) ([]byte, error) {
	return json.Marshal(struct {
		Continue      bool   `json:"continue"`
		SystemMessage string `json:"systemMessage,omitempty"`
	}{true, message})
}
