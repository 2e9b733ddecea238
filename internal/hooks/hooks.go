// Package hooks promises that the gates of a role hold the tool calls of Claude Code and Codex
// where a person runs them without a sandbox (S-17). It pins a role and a task, writes the hooks
// that ask them before every call, and answers those hooks. Whatever is missing, malformed, late or
// changed refuses the call. It does not contain anything: a program that kills its hooks, or whose
// hooks were switched off, is not asked. [Uncovered] lists those ways.
package hooks

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

const (
	// Deadline is how long an answer may take before it is a refusal.
	Deadline = 10 * time.Second
	// Timeout is what the agents are told to wait for an answer, in seconds: they
	// let a call through whose hook takes longer, so it is far above Deadline.
	Timeout = 60
)

// The agents whose hooks are written.
const (
	Claude = "claude"
	Codex  = "codex"
)

// The scopes of an installation: who is held by it.
const (
	// Project holds who works in one project.
	Project = "project"
	// User holds one user, in every project.
	User = "user"
	// Managed holds all users of a machine, and no flag or project switches it off.
	Managed = "managed"
)

// Home is where agents look for their settings.
type Home struct {
	// Claude and Codex are the user's own folders of the agents.
	Claude, Codex string
	// Etc is the machine's folder of settings, /etc.
	Etc string
	// State is nacre's own folder.
	State string
}

// HomeOf finds the folders of a user by the environment.
func HomeOf(getenv func(string) string, state string) Home {
	h := Home{Claude: getenv("CLAUDE_CONFIG_DIR"), Codex: getenv("CODEX_HOME"), Etc: "/etc", State: state}
	if h.Claude == "" {
		h.Claude = filepath.Join(getenv("HOME"), ".claude")
	}
	if h.Codex == "" {
		h.Codex = filepath.Join(getenv("HOME"), ".codex")
	}
	return h
}

// Place is one settings file that holds, or is to hold, a hook.
type Place struct {
	Agent string `json:"agent"`
	Scope string `json:"scope"`
	File  string `json:"file"`
}

// Place is where an agent reads the hooks of a scope. The project is needed for
// the scope Project only.
func (h Home) Place(agent, scope, project string) Place {
	files := map[string]string{
		Claude + Project: filepath.Join(project, ".claude", "settings.local.json"),
		Claude + User:    filepath.Join(h.Claude, "settings.json"),
		Claude + Managed: filepath.Join(h.Etc, "claude-code", "managed-settings.json"),
		Codex + Project:  filepath.Join(project, ".codex", "hooks.json"),
		Codex + User:     filepath.Join(h.Codex, "hooks.json"),
		Codex + Managed:  filepath.Join(h.Etc, "codex", "requirements.toml"),
	}
	return Place{Agent: agent, Scope: scope, File: files[agent+scope]}
}

// Places are all where hooks may be that hold work in a project.
func (h Home) Places(project string) []Place {
	var all []Place
	for _, agent := range []string{Claude, Codex} {
		for _, scope := range []string{Managed, User, Project} {
			all = append(all, h.Place(agent, scope, project))
		}
	}
	return all
}

// Pins is the folder of the pins of a scope. Those of Managed are read by
// every user.
func (h Home) Pins(scope string) string {
	if scope == Managed {
		return filepath.Join(h.Etc, "nacre", "hooks")
	}
	return filepath.Join(h.State, "hooks")
}

// tail ends a hook's command: whatever ends the program other than an allowing answer becomes a
// refusal, and so does its not being there. Codex lets a call through where exit code 2 comes
// without a reason, so one is always said. It asks the user's own shell, so the words are such as
// all shells know.
const tail = ` || /bin/sh -c 'echo nacre hook: the call is refused >&2; exit 2' || exit 2`

func line(program, pin string) string {
	return quote(program) + " hook --set " + quote(pin) + tail
}

// ours matches the commands that line makes, and finds the program and the pin.
var ours = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([^\s']+|'[^']+') hook --set ([^\s']+|'[^']+')` + regexp.QuoteMeta(tail) + `$`)
})

// parse takes a hook's command apart; ok tells whether it is nacre's.
func parse(command string) (program, pin string, ok bool) {
	m := ours().FindStringSubmatch(command)
	if m == nil || !digested().MatchString(filepath.Base(strings.Trim(m[2], "'"))) {
		return "", "", false
	}
	return strings.Trim(m[1], "'"), strings.Trim(m[2], "'"), true
}

// plain are words that every shell takes as they are.
var plain = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_/.,:@%+-]+$`) })

// quote makes one word of a path for all shells; checkPath refuses what it cannot.
func quote(word string) string {
	if plain().MatchString(word) {
		return word
	}
	return "'" + word + "'"
}

// checkPath refuses what shells quote in different ways.
func checkPath(path string) error {
	if strings.ContainsAny(path, "'\\\n\r\x00") {
		return fmt.Errorf("the path %q cannot be written as a hook: it holds a quote, a backslash or a line's end", path)
	}
	return nil
}
