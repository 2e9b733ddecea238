package agent

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"

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

// refused says why the task's gates do not let a tool be used so.
func (t Tools) refused(name string, input json.RawMessage) string {
	if t.Gates == nil {
		return ""
	}
	known, ok := claudeNames[name]
	if !ok {
		return "" // there is no such tool, as its result says
	}
	call, err := hookCall(known, input, t.Dir)
	if err != nil {
		return guard.Prefix + err.Error()
	}
	refusal, _ := t.Gates.Decide(call)
	return refusal
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
func hook(w World) error {
	if code := guard.Hook(w.Gates, w.Stdin, w.Stdout, w.Stderr); code != 0 {
		return errRefused
	}
	return nil
}

// errRefused has been told to whoever asked.
var errRefused = errors.New("refused")
