// Package guard promises that the gates of a task hold each tool call of an agent before it happens
// (S-02, S-05 to S-07). They are the same for a hook of Claude Code or Codex, for the loops of
// nacre's own, and for a person's `nacre capability check`. What is missing or unreadable refuses.
// A gate explains and refuses early; what holds against a program that runs is the operating
// system's layer.
package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/gate"
	"github.com/nacre-dev/nacre/internal/role"
)

// MaxSet is the largest file of gates, in bytes.
const MaxSet = 4 << 20

// Gate is one atom's gate with a task's parameters in it.
type Gate struct {
	Capability atom.ID       `json:"capability"`
	Severity   atom.Severity `json:"severity"`
	// BypassEnv is a variable of the orchestrator's own environment that lifts
	// the gate. Inside a sandbox nothing does.
	BypassEnv string `json:"-"`
	// Missing says what the gate cannot decide without; it then refuses.
	Missing string      `json:"missing,omitempty"`
	Rules   []gate.Rule `json:"rules"`
}

// Finding is what one gate said of a call.
type Finding struct {
	Name     string `json:"name"`
	Decision string `json:"decision"` // "allow" or "deny"
	Severity string `json:"severity,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// Denied reports whether the finding ends the call.
func (f Finding) Denied() bool { return f.Decision != allow && f.Severity == atom.Block.String() }

// Warns reports whether the finding is to be shown, and no more.
func (f Finding) Warns() bool { return f.Decision != allow && f.Severity == atom.Warn.String() }

const (
	allow = "allow"
	deny  = "deny"
)

// Of is an atom's gate with a task's parameters; nil means that there is no task.
func Of(a atom.Atom, task *atom.Parameters) Gate {
	g := Gate{Capability: a.ID, Severity: a.Gate.Severity, BypassEnv: a.Gate.BypassEnv}
	for _, list := range a.Needs() {
		switch {
		case task == nil:
			g.Missing = "no task: NACRE_TASK does not name the task file that holds " + list
		case !task.Has(list):
			g.Missing = "the task has no " + list + " in [scope]: write it, if need be as an empty list"
		}
	}
	if a.Gate.Handler != "" {
		rule := gate.Rule{Kind: gate.KindOf(a.Gate.Handler), Commands: a.Commands}
		if task != nil {
			rule.Whitelist, rule.Denylist = task.Whitelist, task.Denylist
			rule.AllowDepBump, rule.MaxDeletes = task.AllowDepBump, task.MaxDeletes
		}
		g.Rules = append(g.Rules, rule)
	}
	if len(a.Forbidden) > 0 || len(a.Denied) > 0 || len(a.Tools) > 0 {
		g.Rules = append(g.Rules, gate.Rule{Kind: gate.Patterns, Forbidden: a.Forbidden, Denied: a.Denied, Tools: a.Tools})
	}
	return g
}

// Check holds a call against the gate. What is missing refuses whatever the severity.
func (g Gate) Check(call gate.Call, w gate.World) Finding {
	f := Finding{Name: string(g.Capability), Decision: allow, Severity: g.Severity.String()}
	if g.Missing != "" {
		f.Decision, f.Severity, f.Reason = deny, atom.Block.String(), g.Missing
		return f
	}
	for _, rule := range g.Rules {
		if d := rule.Check(call, w); !d.Allowed {
			f.Decision, f.Reason = deny, d.Reason
			return f
		}
	}
	return f
}

// Set is all that holds a task's calls. The zero value refuses all of them.
type Set struct {
	// Role names where the set comes from, for its refusals.
	Role string `json:"role"`
	// Project is the folder that paths are resolved against, as the agent sees it.
	Project string `json:"project"`
	// Allowed are the only tools that may be called; nil means no such limit.
	Allowed []string `json:"allowed,omitempty"`
	// Refused are tools that may not be called.
	Refused []string `json:"refused,omitempty"`
	Gates   []Gate   `json:"gates"`
}

// SetOf is the set of a role with a task's parameters, for a project as the
// agent sees it.
func SetOf(project string, r role.Resolved, p atom.Parameters) Set {
	set := Set{Role: r.Name, Project: project, Allowed: r.Tools, Refused: r.Denied}
	for _, a := range r.Atoms {
		if a.HasGate() {
			set.Gates = append(set.Gates, Of(a, &p))
		}
	}
	for _, commands := range r.Commands {
		set.Gates = append(set.Gates, Gate{
			Capability: "tools::bash-allowlist", Rules: []gate.Rule{{Kind: gate.BashAllowlist, Commands: commands}},
		})
	}
	return set
}

// Bytes is the set as Load reads it.
func (s Set) Bytes() ([]byte, error) { return json.Marshal(s) }

// Load reads a set. Everything that is not exactly one is an error.
func Load(path string) (Set, error) {
	data, err := readFile(path)
	if err != nil {
		return Set{}, fmt.Errorf("the gates of this task: %w", err)
	}
	var s Set
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil {
		return Set{}, fmt.Errorf("the gates of this task: %s: %w", path, err)
	}
	if s.Project == "" || decoder.More() {
		return Set{}, fmt.Errorf("the gates of this task: %s is not a whole set", path)
	}
	return s, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, MaxSet+1))
	if err == nil && len(data) > MaxSet {
		err = fmt.Errorf("%s is over %d bytes", path, MaxSet)
	}
	return data, err
}

// Prefix begins the text of every refusal that an agent sees.
const Prefix = "nacre gate: "

// Verdict is what a set says of a call. The zero value lets it happen.
type Verdict struct {
	// Refusal begins with Prefix and names the atoms; empty where the call may happen.
	Refusal string
	// Warnings go on beside a call that may happen: the agent and a person see them.
	Warnings string
	// Notes are of gates that only advise: they are recorded, and shown to nobody.
	Notes string
}

// Decide holds a call against all of the set.
func (s Set) Decide(call gate.Call) Verdict {
	if s.Project == "" {
		return Verdict{Refusal: Prefix + "there is no set of gates"}
	}
	w := World(s.Project, call.Dir)
	var denied, warned, noted []string
	if reason := s.tool(call); reason != "" {
		denied = append(denied, reason)
	}
	for _, g := range s.Gates {
		switch f := g.Check(call, w); {
		case f.Denied():
			denied = append(denied, f.Name+": "+f.Reason)
		case f.Warns():
			warned = append(warned, f.Name+": "+f.Reason)
		case f.Decision != allow:
			noted = append(noted, f.Name+": "+f.Reason)
		}
	}
	v := Verdict{Warnings: strings.Join(warned, "\n"), Notes: strings.Join(noted, "\n")}
	if len(denied) > 0 {
		v.Refusal = Prefix + strings.Join(denied, "\n")
	}
	return v
}

// Offers tells whether the role's lists let a tool be called at all. What they never let
// be called is not offered to a model, which would otherwise try it (F-106).
func (s Set) Offers(tool string) bool { return s.tool(gate.Named(tool)) == "" }

// tool holds the tool's name against the role's lists.
func (s Set) tool(call gate.Call) string {
	switch {
	case s.Allowed != nil && !gate.Permits(s.Allowed, call):
		return fmt.Sprintf("the role %s may use %s, not %.80s", s.Role, listOr(s.Allowed, "no tool"), call.Tool)
	case gate.Permits(s.Refused, call):
		return fmt.Sprintf("the role %s may not use %.80s", s.Role, call.Tool)
	}
	return ""
}

func listOr(list []string, otherwise string) string {
	if len(list) == 0 {
		return otherwise
	}
	return strings.Join(list, ", ")
}

// Hook answers one hook call by the set of a file. It is exit code 0 and JSON where the call may go
// on, and otherwise 2 and the reason, which both Claude Code and Codex take for a refusal. The host
// hears of a refusal on a socket first.
func Hook(ctx context.Context, path, socket string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	tool := ""
	refuse := func(reason string) int {
		Tell(ctx, socket, Refusal{Tool: tool, Reason: reason})
		return refuse(stderr, reason)
	}
	defer func() {
		if p := recover(); p != nil { // a gate that fails must not let the call through
			code = refuse(Prefix + fmt.Sprintf("it failed: %v", p))
		}
	}()
	set, err := Load(path)
	if err != nil {
		return refuse(Prefix + err.Error())
	}
	call, err := ReadHook(stdin)
	if err != nil {
		return refuse(Prefix + err.Error())
	}
	tool = call.Tool
	v := set.Decide(call)
	if v.Refusal != "" {
		return refuse(v.Refusal)
	}
	v.Tell(ctx, socket, tool)
	answer, err := Answer(v.Warnings)
	if err == nil {
		_, err = fmt.Fprintf(stdout, "%s\n", answer)
	}
	if err != nil {
		return refuse(Prefix + err.Error())
	}
	return 0
}

// ExitDenied is what hooks take for a refusal; every failure is one.
const ExitDenied = 2

func refuse(stderr io.Writer, reason string) int {
	_, _ = fmt.Fprintln(stderr, reason) // the exit code alone refuses too
	return ExitDenied
}

// ReadHook reads one hook message.
func ReadHook(r io.Reader) (gate.Call, error) {
	data, err := io.ReadAll(io.LimitReader(r, gate.MaxHook+1))
	if err != nil {
		return gate.Call{}, fmt.Errorf("the hook's JSON: %w", err)
	}
	if len(data) > gate.MaxHook {
		return gate.Call{}, errors.New("the hook's JSON is too big")
	}
	return gate.ParseHook(data)
}

// Answer is what a hook prints where a call may go on. It approves nothing: the
// agent's own rules still ask their own questions.
func Answer(message string) ([]byte, error) {
	return json.Marshal(struct {
		Continue      bool   `json:"continue"`
		SystemMessage string `json:"systemMessage,omitempty"`
	}{true, message})
}
