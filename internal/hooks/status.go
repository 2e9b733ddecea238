package hooks

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/BurntSushi/toml"
)

// Installed is one hook of nacre's as it was found.
type Installed struct {
	Place
	Command string `json:"command"`
	Role    string `json:"role,omitempty"`
	Task    string `json:"task,omitempty"`
	Project string `json:"project,omitempty"`
	// Problems say why the hook refuses every call, or why it is not run.
	Problems []string `json:"problems"`
	// Uncovered are the ways past the hook where it is in order.
	Uncovered []string `json:"uncovered"`
}

// Status finds nacre's hooks in the places, and what is wrong with each.
func (h Home) Status(places []Place) ([]Installed, error) {
	var found []Installed
	var errs []error
	for _, p := range places {
		data, err := readSettings(p.File)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if len(data) == 0 {
			continue
		}
		commands, err := p.ours(data)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, command := range commands {
			found = append(found, inspect(p, command))
		}
	}
	for i := range found {
		found[i].Problems = append(found[i].Problems, h.switchedOff(found[i].Place, places)...)
	}
	return found, errors.Join(errs...)
}

func inspect(p Place, command string) Installed {
	one := Installed{Place: p, Command: command, Problems: []string{}, Uncovered: Uncovered(p.Agent, p.Scope)}
	program, file, _ := parse(command)
	if err := checkProgram(program, p.Scope == Managed); err != nil {
		one.Problems = append(one.Problems, "refuses every call: "+err.Error())
	}
	pin, err := LoadPin(file)
	if err != nil {
		one.Problems = append(one.Problems, "refuses every call: "+err.Error())
		return one
	}
	one.Role, one.Task, one.Project = pin.Role, pin.Task, pin.Project
	if !pin.Guarded() {
		one.Uncovered = append(one.Uncovered, "the role may write the settings that hold it: one with scope::no-rule-edits may not")
	}
	return one
}

// switchedOff says which settings keep an agent from running a hook.
func (h Home) switchedOff(p Place, places []Place) []string {
	if p.Agent == Codex {
		return h.codexOff(p)
	}
	var why []string
	files := []string{}
	for _, other := range places {
		if other.Agent == Claude {
			files = append(files, other.File)
			if other.Scope == Project {
				files = append(files, filepath.Join(filepath.Dir(other.File), "settings.json"))
			}
		}
	}
	for _, file := range files {
		var s struct {
			Off         any `json:"disableAllHooks"`
			ManagedOnly any `json:"allowManagedHooksOnly"`
		}
		data, err := readSettings(file)
		if err != nil || len(data) == 0 || json.Unmarshal(data, &s) != nil {
			continue
		}
		managed := file == h.Place(Claude, Managed, "").File
		if s.Off == true && (p.Scope != Managed || managed) {
			why = append(why, "is not run: "+file+" says disableAllHooks")
		}
		if s.ManagedOnly == true && managed && p.Scope != Managed {
			why = append(why, "is not run: "+file+" says allowManagedHooksOnly")
		}
	}
	return why
}

func (h Home) codexOff(p Place) []string {
	var why []string
	requirements := h.Place(Codex, Managed, "").File
	for _, file := range []string{requirements, filepath.Join(h.Codex, "config.toml")} {
		var s struct {
			ManagedOnly bool            `toml:"allow_managed_hooks_only"`
			Features    map[string]bool `toml:"features"`
		}
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if _, err := toml.Decode(string(data), &s); err != nil {
			why = append(why, fmt.Sprintf("may not be run: %s cannot be read: %v", file, err))
			continue
		}
		for _, name := range []string{"hooks", "codex_hooks"} {
			if on, said := s.Features[name]; said && !on {
				why = append(why, "is not run: "+file+" switches "+name+" off")
			}
		}
		if s.ManagedOnly && p.Scope != Managed {
			why = append(why, "is not run: "+file+" says allow_managed_hooks_only")
		}
	}
	return why
}

// Uncovered lists how an agent gets past hooks of a scope that are in order. All
// of it was seen with the real programs.
func Uncovered(agent, scope string) []string {
	all := []string{
		"the agent's program ends the hook's own shell, or stops it until the program's limit: the call goes through",
		"programs that a call starts are not asked again: what holds them is a sandbox (nacre run)",
	}
	switch {
	case agent == Claude && scope != Managed:
		all = append(all, "disableAllHooks in any settings file, claude --bare, --safe-mode, and --setting-sources without this one: no hook is run",
			"an error anywhere in the settings file has Claude Code drop all of it, with the hook")
	case agent == Codex && scope == Managed:
		all = append(all, "nothing else was seen: flags and projects do not switch managed hooks off")
	case agent == Codex:
		all = append(all, "a hook that was not trusted in Codex, or was changed since: it is passed over without a word",
			"[features] hooks = false or codex --disable hooks, another CODEX_HOME: no hook is run")
	}
	if scope == Project {
		all = append(all, "an agent that is started in another folder does not read this project's hooks")
	}
	return all
}
