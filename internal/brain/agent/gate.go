//go:build linux

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/nacre-dev/nacre/internal/gate"
	"github.com/nacre-dev/nacre/internal/guard"
)

// gates are those of the task that this sandbox was made for; none where no
// task has any. A set that cannot be read refuses every call.
func gates(path string) *guard.Set {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	set, err := guard.Load(path)
	if err != nil {
		return &guard.Set{}
	}
	return &set
}

// claudeNames are what gates know our tools by; they read the same keys.
var claudeNames = map[string]string{
	"shell": "Bash", "read": "Read", "write": "Write", "edit": "Edit", "list": "LS", "fetch": "WebFetch", "glob": "Glob", "grep": "Grep",
}

// offered are the tools that the model is told of: none that the task's role never lets
// be called. A set that cannot be read refuses each call by itself.
func (t Tools) offered() []offer {
	return slices.DeleteFunc(ownTools(), func(o offer) bool {
		return t.Gates != nil && t.Gates.Project != "" && !t.Gates.Offers(claudeNames[o.name])
	})
}

// gated is what the task's gates say of a tool that is used so. The host has heard of it.
func (t Tools) gated(ctx context.Context, name string, input json.RawMessage) (v guard.Verdict) {
	if t.Gates == nil {
		return v
	}
	known, ok := claudeNames[name]
	if !ok {
		return v // there is no such tool, as its result says
	}
	if call, err := hookCall(known, input, t.Dir); err != nil {
		v.Refusal = guard.Prefix + err.Error()
	} else {
		v = t.Gates.Decide(call)
	}
	if v.Refusal != "" {
		guard.Tell(ctx, t.Refusals, guard.Refusal{Tool: known, Reason: v.Refusal})
	} else {
		v.Tell(ctx, t.Refusals, known)
	}
	return v
}

// hookCall is a call as a hook would tell of it.
func hookCall(tool string, input json.RawMessage, dir string) (gate.Call, error) {
	hook, err := json.Marshal(map[string]any{"hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": input, "cwd": dir})
	if err != nil {
		return gate.Call{}, err
	}
	return gate.ParseHook(hook)
}

// hook answers a hook of another brain's program, by the same gates.
func hook(ctx context.Context, w World) error {
	if code := guard.Hook(ctx, w.Gates, w.Refusals, w.Stdin, w.Stdout, w.Stderr); code != 0 {
		return errRefused
	}
	return nil
}

// errRefused has been told to whoever asked.
var errRefused = errors.New("refused")
