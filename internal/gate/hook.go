package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/wire"
)

// MaxHook is the longest hook message, in bytes.
const MaxHook = 16 << 20

// Call is one tool call that an agent is about to make, read from its hook.
// The zero value is refused by every rule.
type Call struct {
	// Tool is the name as the agent's program gives it.
	Tool string
	// Dir is the folder that the agent's program says it works in; may be empty.
	Dir string

	class   class
	command string
	argv    []string
	// paths are all files that a writing tool names.
	paths []string
	// deletes are those of paths that go.
	deletes []string
	// wrong says why the input cannot be what the tool's name says.
	wrong string
}

// ParseHook reads a PreToolUse hook as Claude Code and Codex send it: one JSON
// object with tool_name and tool_input. Everything that is not exactly that is
// an error (S-07).
func ParseHook(data []byte) (Call, error) {
	if len(strings.TrimSpace(string(data[:min(len(data), 64)]))) == 0 {
		return Call{}, errors.New("no hook JSON on standard input")
	}
	members, err := wire.Object(data, wire.Limits{Message: MaxHook, String: MaxHook})
	if err != nil {
		return Call{}, fmt.Errorf("the hook's JSON: %w", err)
	}
	var c Call
	var input json.RawMessage
	for _, m := range members {
		text, isText := wire.Text(m.Value)
		switch m.Key {
		case "hook_event_name":
			if text != "PreToolUse" {
				return Call{}, errors.New("the hook's event is not PreToolUse: a gate decides before a call only")
			}
		case "tool_name":
			if !isText || text == "" || len(text) > maxToolName {
				return Call{}, errors.New("the hook's tool_name is not a name")
			}
			c.Tool = text
		case "tool_input":
			input = m.Value
		case "cwd":
			if !isText {
				return Call{}, errors.New("the hook's cwd is not text")
			}
			c.Dir = text
		}
	}
	if c.Tool == "" {
		return Call{}, errors.New("the hook names no tool_name")
	}
	if input == nil {
		return Call{}, errors.New("the hook has no tool_input")
	}
	return c, c.take(input)
}

const maxToolName = 256

// take reads the tool's input by what class of tool it is.
func (c *Call) take(raw json.RawMessage) error {
	input := map[string]json.RawMessage{}
	members, err := wire.Object(raw, wire.Limits{Message: MaxHook, String: MaxHook})
	if err != nil {
		// a patch may come as bare text
		text, ok := wire.Text(raw)
		if !ok || !strings.HasPrefix(text, "*** Begin Patch") {
			return errors.New("the hook's tool_input is not an object")
		}
		input["input"] = raw
	}
	for _, m := range members {
		input[m.Key] = m.Value
	}
	c.class = classOf(c.Tool)
	if c.class == classOther && hasAny(input, commandKeys) {
		c.class = classShell // an unknown tool that is given a command
	}
	switch c.class {
	case classShell:
		c.takeCommand(input)
	case classWrite:
		c.takePaths(input)
	case classRead, classNeutral:
		c.takeNothing(input)
	}
	return nil
}

// honest refuses an input that does not fit the tool's name.
func (c Call) honest() Decision {
	if c.wrong != "" {
		return deny("%s: %s", c.Tool, c.wrong)
	}
	return allow()
}

var (
	commandKeys = []string{"command", "cmd", "script", "commandLine", "shell_command"}
	contentKeys = []string{"content", "new_string", "old_string", "new_source", "edits", "file_text", "insert_text", "patch", "contents", "new_str"}
	pathKeys    = []string{"file_path", "path", "notebook_path", "filePath", "filename", "file", "abs_path", "absolute_path", "target_file", "destination", "source", "dest", "src", "old_path", "new_path", "uri", "target", "output_path", "directory", "relative_path"}
	patchKeys   = []string{"input", "command", "patch"}
)

func hasAny(input map[string]json.RawMessage, keys []string) bool {
	for _, key := range keys {
		if _, ok := input[key]; ok {
			return true
		}
	}
	return false
}

func (c *Call) takeCommand(input map[string]json.RawMessage) {
	for _, key := range append(commandKeys[:len(commandKeys):len(commandKeys)], "chars") {
		value, ok := input[key]
		if !ok {
			continue
		}
		if c.command != "" || c.argv != nil {
			c.wrong = "it is given two commands"
			return
		}
		if text, isText := wire.Text(value); isText {
			c.command = text
		} else if err := json.Unmarshal(value, &c.argv); err != nil || len(c.argv) == 0 {
			c.wrong = "its command is not text"
			return
		}
	}
	if hasAny(input, contentKeys) && !isCommandTool(c.Tool) {
		c.wrong = "its input is that of another tool"
	}
	if list, ok := input["args"]; ok && c.argv == nil {
		var args []string
		if err := json.Unmarshal(list, &args); err != nil {
			c.wrong = "its args are not a list of text"
			return
		}
		c.argv, c.command = append([]string{c.command}, args...), ""
	}
	if !hasAny(input, commandKeys) {
		if _, typed := input["chars"]; !typed {
			c.wrong = "it is given no command"
		}
	}
}

// isCommandTool tells the tools of which content may be a comment only.
func isCommandTool(tool string) bool { return strings.HasPrefix(tool, "mcp__") }

func (c *Call) takePaths(input map[string]json.RawMessage) {
	if isPatch(c.Tool) {
		c.takePatch(input)
		return
	}
	if hasAny(input, commandKeys[:2]) {
		c.wrong = "its input is that of another tool"
		return
	}
	for _, key := range pathKeys {
		value, ok := input[key]
		if !ok {
			continue
		}
		path, isText := wire.Text(value)
		if !isText {
			c.wrong = key + " is not one path"
			return
		}
		c.paths = append(c.paths, strings.TrimPrefix(path, "file://"))
	}
	for _, key := range []string{"paths", "files", "edits", "file_paths", "changes"} {
		if value, ok := input[key]; ok && !c.takeList(value) {
			c.wrong = key + " is not a list that can be read"
			return
		}
	}
	if len(c.paths) == 0 {
		c.wrong = "it names no file"
	}
	switch toolWord(c.Tool) {
	case "delete_file", "delete", "remove_file", "delete_directory", "move", "move_file", "rename_file":
		c.deletes = c.paths
	}
}

// takeList reads paths out of a list of text, or of objects such as edits.
func (c *Call) takeList(value json.RawMessage) bool {
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil {
		return false
	}
	for _, one := range list {
		if path, ok := wire.Text(one); ok {
			c.paths = append(c.paths, path)
			continue
		}
		members, err := wire.Object(one, wire.Limits{Message: MaxHook, String: MaxHook})
		if err != nil {
			return false
		}
		for _, m := range members {
			if !slices.Contains(pathKeys, m.Key) {
				continue
			}
			path, ok := wire.Text(m.Value)
			if !ok {
				return false
			}
			c.paths = append(c.paths, path)
		}
	}
	return true
}

// takePatch reads the files that Codex's apply_patch touches.
func (c *Call) takePatch(input map[string]json.RawMessage) {
	text := ""
	for _, key := range patchKeys {
		value, ok := input[key]
		if !ok {
			continue
		}
		one, isText := wire.Text(value)
		if !isText {
			var argv []string
			if json.Unmarshal(value, &argv) != nil || len(argv) == 0 {
				c.wrong = "its patch is not text"
				return
			}
			one = argv[len(argv)-1]
		}
		text += one + "\n"
	}
	c.paths, c.deletes = patched(text)
	if len(c.paths) == 0 {
		c.wrong = "its patch names no file"
	}
}

// patched are the files that a patch touches, and those that it removes.
func patched(text string) (paths, deletes []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		for _, header := range []string{"*** Add File:", "*** Update File:", "*** Delete File:", "*** Move to:", "*** Move File:", "*** Copy File:"} {
			path, ok := strings.CutPrefix(line, header)
			if !ok {
				continue
			}
			paths = append(paths, strings.TrimSpace(path))
			if header == "*** Delete File:" {
				deletes = append(deletes, strings.TrimSpace(path))
			}
		}
	}
	return paths, deletes
}

// takeNothing refuses a harmless name with the input of a tool that is not.
func (c *Call) takeNothing(input map[string]json.RawMessage) {
	if strings.HasPrefix(c.Tool, "mcp__") && c.class == classNeutral {
		return
	}
	if c.class == classRead && (hasAny(input, contentKeys) || hasAny(input, commandKeys)) {
		c.wrong = "its input is that of another tool"
	}
}
