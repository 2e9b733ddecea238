package brain

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/nacre-dev/nacre/internal/gate"
	"github.com/nacre-dev/nacre/internal/guard"
)

// acpAdvisory is told at the beginning of a turn with gates: nothing makes such
// an agent ask. Those that wrap Claude Code or Codex have their hooks besides.
const acpAdvisory = "gates: advisory: this agent is held to the task's gates where it asks, and asks only what its own mode finds risky. " +
	"The sandbox holds it, and what it made is checked"

// acpGates are the turn's, for the agent's questions. A set that cannot be read
// refuses all of them.
func acpGates(data []byte) *guard.Set {
	if data == nil {
		return nil
	}
	var set guard.Set
	if json.Unmarshal(data, &set) != nil {
		return &guard.Set{}
	}
	return &set
}

// gated reports whether the task's gates refuse a call that the agent asks for,
// and tells why.
func (d *acpDialect) gated(s *stream, c *acpCall) bool {
	if d.gates == nil {
		return false
	}
	call, err := c.hook()
	v, tool := guard.Verdict{}, c.kind
	if err != nil {
		v.Refusal = guard.Prefix + err.Error()
	} else {
		v, tool = d.gates.Decide(call), call.Tool
	}
	told := v.Remarks(tool)
	if v.Refusal != "" {
		told = []guard.Refusal{{Tool: tool, Reason: v.Refusal}}
	}
	for _, r := range told {
		r.Reason = clip(r.Reason, maxGarbled)
		s.emit(Event{Kind: Raw, Name: Refused, Input: mustJSON(r)})
	}
	return v.Refusal != ""
}

// hook is the call as a hook would tell of it: by its kind, which is the name
// that gates know, unless it is given a command.
func (c *acpCall) hook() (gate.Call, error) {
	input := map[string]json.RawMessage{}
	if json.Unmarshal(c.input, &input) != nil || input == nil {
		input = map[string]json.RawMessage{}
	}
	tool := c.kind
	if input["command"] != nil || input["cmd"] != nil {
		tool = "execute"
	}
	// Codex's changes are a map by path.
	changes := map[string]json.RawMessage{}
	if json.Unmarshal(input["changes"], &changes) == nil && len(changes) > 0 {
		input["changes"] = mustJSON(slices.Sorted(maps.Keys(changes)))
	}
	dir := acpWorkspace
	for _, key := range []string{"cwd", "workdir"} {
		if named := ""; json.Unmarshal(input[key], &named) == nil && named != "" {
			dir = named
		}
	}
	hook := mustJSON(map[string]any{"hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": input, "cwd": dir})
	return gate.ParseHook(hook)
}
