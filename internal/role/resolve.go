package role

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/atom"
)

// MaxDepth is how many roles may lie under one through extends.
const MaxDepth = 16

// Resolved is a role with everything that it inherits. Library.Resolve makes
// it; the zero value is not spawnable.
type Resolved struct {
	Name, DisplayName, Description string
	// Extends are the roles under it, the nearest first.
	Extends []string
	// Atoms hold the agent, in the order of their texts.
	Atoms []atom.Atom
	// Tools are the only tools that may be called; nil means that no role
	// says, and it is never empty otherwise. Denied are tools that may not.
	Tools, Denied []string
	// Commands are lists of patterns, one of each role that has one: a shell
	// command must match a pattern of every list. An empty list allows none.
	Commands [][]string
	// Escalation is FailFast, AskViaReturn or NotifyOrchestrator.
	Escalation string
	// SubagentType is what Claude Code is asked to start.
	SubagentType string
	// Isolation is Worktree or NoIsolation.
	Isolation string
	// Spawnable says that agents may be started in it.
	Spawnable bool
	// BuiltIn says that the role ships with nacre.
	BuiltIn bool
	// Warnings are for the person who wrote the role.
	Warnings []string

	// gives is what a role that extends this one may change of it.
	gives given
}

// given is what a role lets those that extend it change.
type given struct {
	relaxable []atom.ID
	tools     []string // that they may add
}

// ErrNotSpawnable is a role in which no agent is started.
var ErrNotSpawnable = errors.New("not spawnable (RULE 0.13: the orchestrator owns git)")

// CheckSpawnable returns an ErrNotSpawnable where no agent may be started.
func (r Resolved) CheckSpawnable() error {
	if r.Spawnable {
		return nil
	}
	return fmt.Errorf("role %q is %w: what it does is done on the host, by nobody else", r.Name, ErrNotSpawnable)
}

// Within refuses a role that holds its agent less than another one does. Such a role lacks an atom
// or a list of the other, or may call a tool that the other may not.
func (r Resolved) Within(above Resolved) error {
	for _, a := range above.Atoms {
		if !r.Has(a.ID) {
			return fmt.Errorf("role %q lacks %s, which role %q has", r.Name, a.ID, above.Name)
		}
	}
	for _, tool := range above.Denied {
		if !slices.Contains(r.Denied, tool) {
			return fmt.Errorf("role %q does not deny %s, as role %q does", r.Name, tool, above.Name)
		}
	}
	for _, tool := range r.Tools {
		if above.Tools != nil && !slices.Contains(above.Tools, tool) {
			return fmt.Errorf("role %q may call %s, and role %q may not", r.Name, tool, above.Name)
		}
	}
	if above.Tools != nil && r.Tools == nil {
		return fmt.Errorf("role %q may call any tool, and role %q only some", r.Name, above.Name)
	}
	for _, list := range above.Commands {
		if !slices.ContainsFunc(r.Commands, func(own []string) bool { return slices.Equal(own, list) }) {
			return fmt.Errorf("role %q does not hold commands to a list of role %q", r.Name, above.Name)
		}
	}
	return nil
}

// Has says whether an atom holds the role.
func (r Resolved) Has(id atom.ID) bool {
	return slices.ContainsFunc(r.Atoms, func(a atom.Atom) bool { return a.ID == id })
}

// Resolve reads a role and all under it: the parent's atoms first, then its
// own, less what it relaxes (S-08).
func (l Library) Resolve(name string) (Resolved, error) {
	return l.resolve(name, nil)
}

// resolve puts a role onto what it extends; above are those that extend it.
func (l Library) resolve(name string, above []string) (Resolved, error) {
	if slices.Contains(above, name) {
		return Resolved{}, fmt.Errorf("roles extend each other in a cycle: %s", strings.Join(append(above, name), " → "))
	}
	if len(above) > MaxDepth {
		return Resolved{}, fmt.Errorf("%q extends more than %d roles, one under the other", above[0], MaxDepth)
	}
	own, err := l.Find(name)
	if err != nil {
		if len(above) > 0 {
			err = fmt.Errorf("role %q extends %w", above[len(above)-1], err)
		}
		return Resolved{}, err
	}
	under := Resolved{Spawnable: true}
	if own.Extends != "" {
		if under, err = l.resolve(own.Extends, append(above, name)); err != nil {
			return Resolved{}, err
		}
	}
	r, err := l.extend(under, own)
	if err != nil {
		return Resolved{}, fmt.Errorf("role %q: %w", name, err)
	}
	return r, nil
}

// extend applies a role's own file to what lies under it.
func (l Library) extend(under Resolved, own Role) (Resolved, error) {
	r := under
	r.Name, r.DisplayName, r.Description, r.BuiltIn = own.Name, own.DisplayName, own.Description, own.BuiltIn
	r.Extends, r.Warnings = nil, slices.Clone(under.Warnings)
	if own.Extends != "" {
		r.Extends = append([]string{under.Name}, under.Extends...)
	}
	if own.Spawnable && own.saysSpawnable && !under.Spawnable {
		return Resolved{}, fmt.Errorf("a role that extends %[1]q cannot set spawnable: %[1]q is not spawnable", under.Name)
	}
	r.Spawnable = under.Spawnable && own.Spawnable
	r.Escalation = first(own.Escalation, under.Escalation, FailFast)
	r.SubagentType = first(own.SubagentType, subagentOf(own.Name), under.SubagentType, generalPurpose)
	r.Isolation = first(own.Isolation, isolationOf(own.Name), under.Isolation, NoIsolation)
	if err := l.putAtoms(&r, under, own); err != nil {
		return Resolved{}, err
	}
	return r, r.narrow(under, own)
}

// putAtoms adds the required atoms and drops the relaxed ones.
func (l Library) putAtoms(r *Resolved, under Resolved, own Role) error {
	required, err := l.find("required", own.Required)
	if err != nil {
		return err
	}
	relaxed, err := l.find("relaxes", own.Relaxes)
	if err != nil {
		return err
	}
	relaxable, err := l.find("relaxable", own.Relaxable)
	if err != nil {
		return err
	}
	r.Atoms = slices.Clone(under.Atoms)
	for _, a := range required {
		if !r.Has(a.ID) {
			r.Atoms = append(r.Atoms, a)
		}
	}
	for _, a := range relaxed {
		switch {
		case contains(required, a.ID):
			return fmt.Errorf("%s is both required and relaxed", a.ID)
		case !under.Has(a.ID):
			r.Warnings = append(r.Warnings, fmt.Sprintf("role %q relaxes %s, which it does not inherit", own.Name, a.ID))
		case holds(a.ID) && !slices.Contains(under.gives.relaxable, a.ID):
			return fmt.Errorf("%s cannot be relaxed: role %q does not say that it is relaxable", a.ID, under.Name)
		}
		r.Atoms = slices.DeleteFunc(r.Atoms, func(one atom.Atom) bool { return one.ID == a.ID })
	}
	r.gives.relaxable = nil
	for _, a := range relaxable {
		switch {
		case under.Has(a.ID) && holds(a.ID) && !slices.Contains(under.gives.relaxable, a.ID):
			return fmt.Errorf("%s cannot be made relaxable: role %q, which it comes from, does not say so", a.ID, under.Name)
		case !r.Has(a.ID):
			r.Warnings = append(r.Warnings, fmt.Sprintf("role %q says that %s is relaxable, and does not have it", own.Name, a.ID))
		}
		r.gives.relaxable = append(r.gives.relaxable, a.ID)
	}
	if len(r.Atoms) == 0 && r.Spawnable {
		r.Warnings = append(r.Warnings, fmt.Sprintf("no atom holds role %q", own.Name))
	}
	return nil
}

// holds tells the categories that a child cannot drop by itself.
func holds(id atom.ID) bool {
	switch id.Category() {
	case "safety", "policy", "scope":
		return true
	}
	return false
}

func contains(list []atom.Atom, id atom.ID) bool {
	return slices.ContainsFunc(list, func(a atom.Atom) bool { return a.ID == id })
}

func (l Library) find(key string, names []string) ([]atom.Atom, error) {
	list := make([]atom.Atom, 0, len(names))
	for _, name := range names {
		a, err := l.Atoms().Find(name)
		if err != nil {
			return nil, fmt.Errorf("capabilities.%s: %w", key, err)
		}
		if !contains(list, a.ID) {
			list = append(list, a)
		}
	}
	return list, nil
}

// narrow puts a role's lists of tools and commands onto its parent's: they can
// only become less, but for the tools that the parent lets a child add.
func (r *Resolved) narrow(under Resolved, own Role) error {
	r.Denied = union(under.Denied, own.Denied)
	r.gives.tools = nil
	for _, tool := range own.RelaxableTools {
		if under.Tools != nil && !permits(under.Tools, tool) && !slices.Contains(under.gives.tools, tool) {
			return fmt.Errorf("tools.relaxable: %q is not for this role to give: role %q does not have it", tool, under.Name)
		}
		r.gives.tools = append(r.gives.tools, tool)
	}
	switch {
	case own.Allowed == nil:
	case under.Tools == nil:
		r.Tools = slices.Clone(own.Allowed)
	default:
		r.Tools = r.intersect(under, own)
	}
	if r.Tools != nil && !slices.ContainsFunc(r.Tools, func(tool string) bool { return !slices.Contains(r.Denied, tool) }) {
		return errors.New("no tool is left: list one in tools.allowed that what it extends allows as well")
	}
	r.Commands = slices.Clone(under.Commands)
	if own.Commands != nil {
		r.Commands = append(r.Commands, slices.Clone(own.Commands))
	}
	return nil
}

// intersect are the tools that both roles allow, or that the parent lets a
// child add. "*" stands for every tool.
func (r *Resolved) intersect(under Resolved, own Role) []string {
	kept := []string{}
	if slices.Contains(own.Allowed, "*") {
		kept = append(kept, under.Tools...)
	}
	for _, tool := range own.Allowed {
		switch {
		case slices.Contains(kept, tool) || tool == "*":
		case permits(under.Tools, tool) || slices.Contains(under.gives.tools, tool):
			kept = append(kept, tool)
		default:
			r.Warnings = append(r.Warnings, fmt.Sprintf("role %q allows %s, which role %q does not: it stays denied", own.Name, tool, under.Name))
		}
	}
	return kept
}

func permits(list []string, tool string) bool {
	return slices.Contains(list, tool) || slices.Contains(list, "*")
}

func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, one := range b {
		if !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return all
}

func first(words ...string) string {
	for _, word := range words {
		if word != "" {
			return word
		}
	}
	return ""
}

// generalPurpose is Claude Code's own kind of agent.
const generalPurpose = "general-purpose"

// subagentOf is the seed's table of what Claude Code is asked to start.
func subagentOf(role string) string {
	switch role {
	case "edit-local", "edit-shared":
		return "code-implementer"
	case "explorer":
		return "Explore"
	case "read-only":
		return "critic"
	}
	return ""
}

func isolationOf(role string) string {
	switch role {
	case "edit-local", "edit-shared":
		return Worktree
	}
	return ""
}
