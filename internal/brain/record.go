package brain

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
)

// Recorder keeps what a brain chose in its last conversation. It is used by
// one goroutine at a time.
type Recorder struct {
	choices []kept
	left    []string
	begun   bool
}

// kept is a choice, and the call that it was.
type kept struct {
	Choice
	call string
}

// Record has r hear what b says and does.
func Record(b Brain, r *Recorder) Brain { return recorded{b, r} }

type recorded struct {
	Brain
	recorder *Recorder
}

// Converse begins the recording anew: a conversation that was interrupted
// begins anew as well.
func (b recorded) Converse(ctx context.Context, p Process, t Turn, emit func(Event)) error {
	*b.recorder = Recorder{begun: true}
	return b.Brain.Converse(ctx, p, t, func(e Event) {
		b.recorder.hear(e)
		emit(e)
	})
}

func (r *Recorder) hear(e Event) {
	if len(r.choices) >= MaxChoices {
		return
	}
	switch e.Kind {
	case Text:
		if e.Text != "" {
			r.choices = append(r.choices, kept{Choice: Choice{Say: e.Text}})
		}
	case ToolCall:
		tool, input, ok := replayed(e.Name, e.Input)
		if ok && tool != "" {
			r.choices = append(r.choices, kept{Choice{Tool: tool, Input: input}, e.ID})
		} else if !ok {
			r.left = append(r.left, clip(e.Name, maxID))
		}
	case ToolResult:
		if e.Denied { // what was not done is not done again
			r.choices = slices.DeleteFunc(r.choices, func(k kept) bool { return k.call == e.ID && k.Tool != "" })
		}
	default:
	}
}

// Left are the names of the tools whose calls cannot be played again, such as
// a patch whose text the program does not tell.
func (r *Recorder) Left() []string { return r.left }

// Begun reports whether there was a conversation.
func (r *Recorder) Begun() bool { return r.begun }

// Recording is what was kept, as docs/recording.md has it. Each line goes
// through redact, which takes secrets out of a JSON document. What comes of it
// can be played, or there is an error.
func (r *Recorder) Recording(name, task string, redact func(json.RawMessage) (json.RawMessage, error)) ([]byte, error) {
	head := map[string]any{"v": RecordingVersion, "name": cmp.Or(clip(name, maxID-4), "session")}
	if task != "" {
		head["task"] = task
	}
	lines := []map[string]any{head}
	for _, c := range r.choices {
		if c.Tool == "" {
			lines = append(lines, map[string]any{"say": c.Say})
		} else {
			lines = append(lines, map[string]any{"tool": c.Tool, "input": c.Input})
		}
	}
	var out bytes.Buffer
	for _, line := range lines {
		data, err := json.Marshal(line)
		if err == nil {
			data, err = redact(data)
		}
		if err != nil {
			return nil, fmt.Errorf("recording: %w", err)
		}
		out.Write(append(bytes.TrimSpace(data), '\n'))
	}
	if _, err := ParseRecording(out.Bytes()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// words are how a tool of another brain becomes one of the replay brain: its
// name, and the new names of the keys that are kept.
type words struct {
	tool string
	keys map[string]string
}

// translations are the tools of Claude Code.
func translations() map[string]words {
	return map[string]words{
		"Bash":  {"shell", map[string]string{"command": "command"}},
		"Read":  {"read", map[string]string{"file_path": "path", "offset": "offset", "limit": "limit"}},
		"Write": {"write", map[string]string{"file_path": "path", "content": "content"}},
		"Edit":  {"edit", map[string]string{"file_path": "path", "old_string": "old", "new_string": "new", "replace_all": "all"}},
		"Glob":  {"glob", map[string]string{"pattern": "pattern", "path": "path"}},
		"Grep":  {"grep", map[string]string{"pattern": "pattern", "path": "path", "glob": "files"}},
	}
}

// replayed is the call as the replay brain makes it. A tool that does nothing
// by itself becomes none; one that is not known cannot be played.
func replayed(name string, input json.RawMessage) (tool string, in json.RawMessage, ok bool) {
	own := []string{"shell", "read", "write", "edit", "list", "glob", "grep", "fetch"}
	known, translated := translations()[name]
	switch {
	case name == "Skill":
		return "", nil, true
	case slices.Contains(own, name):
		return name, input, isObject(input)
	case !translated:
		return atDoor(name, input)
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(input, &fields) != nil {
		return "", nil, false
	}
	out := map[string]json.RawMessage{}
	for from, to := range known.keys {
		if value, there := fields[from]; there && string(value) != "null" {
			out[to] = value
		}
	}
	return known.tool, mustJSON(out), true
}

// atDoor is a call of a tool of the host, which the replay brain makes from
// its shell.
func atDoor(name string, input json.RawMessage) (string, json.RawMessage, bool) {
	if _, err := nacre.ParseToolName(name); err != nil || !isObject(input) || slices.Contains([]string{"apply_patch", "execute", "other"}, name) {
		return "", nil, false
	}
	quoted := "'" + strings.ReplaceAll(string(input), "'", `'\''`) + "'"
	return "shell", mustJSON(map[string]string{"command": "ipc " + name + " " + quoted}), true
}
