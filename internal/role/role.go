// Package role promises to read roles strictly and to resolve them into what an agent in one is
// held by (S-08). That is atoms in order, tools, patterns of commands and what happens on a
// refusal. It composes a task in a role into its prompt, the same bytes for the same input (S-10).
// What a role inherits can be narrowed; safety, policy and scope cannot be dropped unless the
// parent role says so. It starts nothing, enforces nothing and writes no file.
package role

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode"

	"github.com/nacre-dev/nacre/internal/atom"
)

// The policies of escalation: what a refusal does to the run (S-18).
const (
	// FailFast ends the run at the first refusal. It is the default.
	FailFast = "fail-fast"
	// AskViaReturn has the agent come back with a question; nothing is merged.
	AskViaReturn = "ask-via-return"
	// NotifyOrchestrator tells the orchestrator at once; the run waits.
	NotifyOrchestrator = "orchestrator-notify"
)

// The isolations of an agent that Claude Code starts.
const (
	Worktree    = "worktree"
	NoIsolation = "none"
)

// Callable is what agents in a role may call.
type Callable struct {
	// Allowed are the only tools that may be called; nil means that the file
	// does not say. Denied are tools that may not.
	Allowed, Denied []string
	// RelaxableTools are tools that a child may add to Allowed.
	RelaxableTools []string
	// Commands are patterns of the only shell commands that may be called;
	// nil means that the file does not say.
	Commands []string
}

// Role is one role's own file, before what it extends is put under it.
type Role struct {
	Name, DisplayName, Description string
	// Extends is the parent's name; empty means none.
	Extends string
	// Required are the atoms it adds, Relaxes those of its parent that it
	// drops, Relaxable those that a child may drop.
	Required, Relaxes, Relaxable []string
	// Spawnable says that agents may be started in it.
	Spawnable bool
	Callable
	// Escalation, SubagentType and Isolation are empty where the file does
	// not say.
	Escalation, SubagentType, Isolation string
	// BuiltIn says that the role ships with nacre.
	BuiltIn bool

	saysSpawnable bool
}

// file is a role's TOML as it is written.
type file struct {
	Role struct {
		Name         string `toml:"name"`
		DisplayName  string `toml:"display-name"`
		Description  string `toml:"description"`
		SubagentType string `toml:"claude-subagent-type"`
		Isolation    string `toml:"isolation"`
		Spawnable    bool   `toml:"spawnable"`
	} `toml:"role"`
	Capabilities struct {
		Extends   string   `toml:"extends"`
		Required  []string `toml:"required"`
		Relaxes   []string `toml:"relaxes"`
		Relaxable []string `toml:"relaxable"`
	} `toml:"capabilities"`
	Tools struct {
		Allowed      []string `toml:"allowed"`
		Denied       []string `toml:"denied"`
		Relaxable    []string `toml:"relaxable"`
		BashPatterns []string `toml:"bash-patterns-allowed"`
	} `toml:"tools"`
	Escalation struct {
		Policy string `toml:"policy"`
	} `toml:"escalation"`
}

var known = sync.OnceValue(func() atom.Keys {
	return atom.KeySet(`role.name role.display-name role.description role.claude-subagent-type role.isolation role.spawnable
	capabilities.extends capabilities.required capabilities.relaxes capabilities.relaxable
	tools.allowed tools.denied tools.relaxable tools.bash-patterns-allowed escalation.policy`)
})

// parse reads a role that must bear a name.
func parse(name string, source []byte) (Role, error) {
	var f file
	meta, err := atom.Decode(source, &f, known())
	if err != nil {
		return Role{}, err
	}
	if f.Role.Name != name {
		return Role{}, fmt.Errorf("role.name is %.80q, but the file's name says %q", f.Role.Name, name)
	}
	r := Role{
		Name: name, DisplayName: f.Role.DisplayName, Description: f.Role.Description,
		SubagentType: f.Role.SubagentType, Isolation: f.Role.Isolation,
		Spawnable: true, saysSpawnable: meta.IsDefined("role", "spawnable"),
		Extends: f.Capabilities.Extends, Required: f.Capabilities.Required, Relaxes: f.Capabilities.Relaxes, Relaxable: f.Capabilities.Relaxable,
		Callable: Callable{Denied: f.Tools.Denied, RelaxableTools: f.Tools.Relaxable}, Escalation: f.Escalation.Policy,
	}
	if r.saysSpawnable {
		r.Spawnable = f.Role.Spawnable
	}
	if meta.IsDefined("tools", "allowed") {
		r.Allowed = append([]string{}, f.Tools.Allowed...)
	}
	if meta.IsDefined("tools", "bash-patterns-allowed") {
		r.Commands = append([]string{}, f.Tools.BashPatterns...)
	}
	if meta.IsDefined("capabilities", "extends") {
		if err := atom.CheckSlug(r.Extends); err != nil {
			return Role{}, fmt.Errorf("capabilities.extends: %w; leave it out where there is none", err)
		}
	}
	return r, errors.Join(r.checkLists(), r.checkWords())
}

func (r Role) checkLists() error {
	for _, list := range [][]string{r.Required, r.Relaxes, r.Relaxable, r.Allowed, r.Denied, r.RelaxableTools, r.Commands} {
		if err := atom.CheckList(list); err != nil {
			return err
		}
	}
	for _, pattern := range r.Commands {
		if _, err := regexp.Compile(pattern); err != nil {
			return fmt.Errorf("the pattern %.80q: %w", pattern, err)
		}
	}
	return nil
}

// subagent is the name of a kind of agent in Claude Code.
var subagent = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_:-]{0,63}$`) })

func (r Role) checkWords() error {
	for _, word := range []string{r.DisplayName, r.Description} {
		if len(word) > atom.MaxFile || strings.ContainsFunc(word, unicode.IsControl) {
			return errors.New("role.display-name and role.description are one line each")
		}
	}
	if r.SubagentType != "" && !subagent().MatchString(r.SubagentType) {
		return fmt.Errorf("role.claude-subagent-type is %.80q: write a name, such as code-implementer", r.SubagentType)
	}
	switch r.Isolation {
	case "", Worktree, NoIsolation:
	default:
		return fmt.Errorf("role.isolation is %.80q: write %s or %s", r.Isolation, Worktree, NoIsolation)
	}
	switch r.Escalation {
	case "", FailFast, AskViaReturn, NotifyOrchestrator:
		return nil
	}
	return fmt.Errorf("escalation.policy is %.80q: write %s, %s or %s", r.Escalation, FailFast, AskViaReturn, NotifyOrchestrator)
}
