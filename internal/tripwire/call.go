package tripwire

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
)

// maxInput is how much of a tool's input is read, in bytes.
const maxInput = 16 << 20

// Called is told of a tool that an agent uses, as the agent says it: its name
// and its input.
func (w *Watch) Called(name string, input json.RawMessage) []Alarm {
	if len(input) > maxInput {
		return w.unread(name)
	}
	var fields map[string]any
	if json.Unmarshal(input, &fields) != nil {
		var text string
		if json.Unmarshal(input, &text) != nil {
			return nil
		}
		fields = map[string]any{"input": text} // a patch may come as bare text
	}
	var alarms []Alarm
	written := changed(name, fields)
	w.mu.Lock()
	fetched := maps.Clone(w.fetched)
	w.mu.Unlock()
	for _, text := range commands(fields) {
		c := readCommand(text, fetched)
		if c.unread {
			alarms = append(alarms, w.unread(name)...)
		}
		if c.runs {
			alarms = append(alarms, w.once(PipeToShell, "", name+" gives a download to a shell to run")...)
		}
		written = append(written, c.writes...)
	}
	w.mu.Lock()
	maps.Copy(w.fetched, fetched)
	w.mu.Unlock()
	for _, to := range written {
		what := sensitive(to)
		if what == "" {
			continue
		}
		told := w.writes(name, what)
		alarms = append(alarms, told...)
		if len(told) > 0 && told[0].Reaction == Contain {
			break // it ends here
		}
	}
	return alarms
}

// writes contains, but for git's own folder: that is read-only inside, so that
// nothing comes of it, and the installers of hooks try it in good faith.
func (w *Watch) writes(name, what string) []Alarm {
	most := Contain
	if strings.HasPrefix(what, ".git/") {
		most = Notify
	}
	return w.atMost(most, ConfigWrite, what, name+" writes "+what)
}

// unread tells of a command that nobody can read before it runs, which is no
// proof of anything.
func (w *Watch) unread(name string) []Alarm {
	return w.atMost(Notify, PipeToShell, "unread", name+" runs a command that is too long or too deep to be read")
}

// commands are the shell commands that a tool's input holds.
func commands(fields map[string]any) []string {
	var list []string
	for _, key := range []string{"command", "cmd", "script", "commandLine", "command_line", "shell_command", "chars", "keystrokes"} {
		switch value := fields[key].(type) {
		case string:
			list = append(list, value)
			if words, ok := fields["args"].([]any); ok { // a terminal of ACP's
				list = append(list, joined(append([]any{value}, words...)))
			}
		case []any:
			list = append(list, joined(value))
		}
	}
	if several, ok := fields["commands"].([]any); ok {
		for _, one := range several {
			if text, ok := one.(string); ok {
				list = append(list, text)
			}
		}
	}
	if action, ok := fields["action"].(map[string]any); ok { // a local shell of OpenAI's
		list = append(list, commands(action)...)
	}
	return list
}

// joined is a list of words as one command, each word quoted.
func joined(words []any) string {
	var b strings.Builder
	for _, word := range words {
		text, ok := word.(string)
		if !ok {
			return ""
		}
		b.WriteString("'" + strings.ReplaceAll(text, "'", `'\''`) + "' ")
	}
	return b.String()
}

// contentKeys are the fields of tools that write; one that reads has none of them.
func contentKeys() []string {
	return []string{
		"content", "contents", "new_string", "old_string", "new_source", "edits", "file_text", "insert_text", "new_str", "old_str", "text", "diff",
	}
}

func pathKeys() []string {
	return []string{
		"file_path", "path", "notebook_path", "filePath", "filename", "file", "abs_path", "absolute_path", "target_file", "destination",
		"dest", "new_path", "uri", "target", "output_path", "relative_path",
	}
}

// changed are the files that a tool with such an input writes.
func changed(name string, fields map[string]any) []string {
	var list []string
	for _, key := range []string{"input", "patch", "command"} {
		text, ok := fields[key].(string)
		if words, many := fields[key].([]any); many {
			text, ok = joined(words), true
		}
		if ok && strings.Contains(text, "*** Begin Patch") {
			list = append(list, patched(text)...)
		}
	}
	list = append(list, changedTogether(name, fields)...)
	has := func(key string) bool { _, ok := fields[key]; return ok }
	if !slices.ContainsFunc(contentKeys(), has) && !changes(name) {
		return list
	}
	for _, key := range pathKeys() {
		if text, ok := fields[key].(string); ok {
			list = append(list, absolute(workDir, strings.TrimPrefix(text, "file://")))
		}
	}
	return list
}

// changedTogether are the files of a tool that changes many at once: a list of what
// it writes, or what it writes by the file's name.
func changedTogether(name string, fields map[string]any) []string {
	var list []string
	for _, key := range []string{"files", "changes"} {
		switch all := fields[key].(type) {
		case []any:
			for _, one := range all {
				if file, ok := one.(map[string]any); ok && file["files"] == nil && file["changes"] == nil {
					list = append(list, changed(name, file)...)
				}
			}
		case map[string]any:
			for file, change := range all {
				if _, ok := change.(map[string]any); ok && strings.Trim(file, "./~") != "" {
					list = append(list, absolute(workDir, file))
				}
			}
		}
	}
	slices.Sort(list)
	return list
}

// changes tells the tools that change files without a content of theirs.
func changes(name string) bool {
	if i := strings.LastIndex(name, "__"); i >= 0 {
		name = name[i+2:]
	}
	switch strings.ToLower(name) {
	case "delete", "delete_file", "remove_file", "move", "move_file", "rename_file", "copy_file", "rename", "copy", "write", "edit", "write_file", "edit_file":
		return true
	}
	return false
}

// patched are the files that a patch touches.
func patched(text string) []string {
	var list []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		for _, header := range []string{"*** Add File:", "*** Update File:", "*** Delete File:", "*** Move to:"} {
			if name, ok := strings.CutPrefix(line, header); ok {
				list = append(list, absolute(workDir, strings.TrimSpace(name)))
			}
		}
	}
	return list
}

// Planted is told of a file that the host would obey later and that a sandbox
// left in the project, relative to it.
func (w *Watch) Planted(name string) []Alarm {
	// The operator's own command may have meant to; it is at its end in any case.
	return w.atMost(Notify, ConfigWrite, name, name+" is new in the project")
}

// sensitive names the configuration of ssh, of git's hooks or of an agent that a
// path is of, or "". What such programs keep there for themselves is none.
func sensitive(name string) string {
	into := strings.HasSuffix(name, "/")
	parts := strings.Split(strings.ToLower(strings.Trim(name, "/")), "/")
	for i, part := range parts {
		below := parts[i+1:]
		if len(below) == 0 && into {
			below = []string{"*"}
		}
		if rule, ok := configs()[matched(part)]; ok && len(below) > 0 && rule(below) {
			return path.Join(append([]string{part}, below...)...)
		}
	}
	last := parts[len(parts)-1]
	switch last {
	case ".mcp.json", ".claude.json", ".aider.conf.yml", "opencode.json", "opencode.jsonc":
		return last
	}
	return ""
}

// configs are the folders that hold configuration, with what of it counts.
var configs = sync.OnceValue(func() map[string]func(below []string) bool {
	always := func([]string) bool { return true }
	except := func(names ...string) func([]string) bool {
		return func(below []string) bool { return !slices.Contains(names, below[0]) }
	}
	only := func(names ...string) func([]string) bool {
		return func(below []string) bool { return slices.Contains(names, below[0]) }
	}
	return map[string]func([]string) bool{
		".ssh":    except("known_hosts", "known_hosts.old"),
		".claude": except("plans", "todos", "projects", "worktrees", "shell-snapshots", "statsig", "debug"),
		".codex":  except("sessions", "log", "history.jsonl"),
		".git":    only("hooks", "config", "commondir", "modules", "worktrees"),
		".cursor": only("mcp.json", "hooks.json", "hooks", "cli.json", "cli-config.json", "*"),
		".gemini": only("settings.json", "extensions", "*"),
		".nacre":  always, ".opencode": always,
		".vscode": only("mcp.json"), ".roo": only("mcp.json"), ".amazonq": only("mcp.json"), ".windsurf": only("mcp.json", "hooks.json"),
		".kiro": only("settings", "hooks"), ".qwen": only("settings.json"), ".continue": only("mcpservers", "config.yaml", "config.json"),
	}
})

// configNames are the names of those folders, in order.
var configNames = sync.OnceValue(func() []string { return slices.Sorted(maps.Keys(configs())) })

// matched is the folder of configuration that a pattern such as .ss? stands for, or
// the part as it is.
func matched(part string) string {
	if !strings.HasPrefix(part, ".") || !strings.ContainsAny(part, "*?[") {
		return part
	}
	for _, name := range configNames() {
		if ok, err := path.Match(part, name); ok && err == nil && name != ".git" {
			return name
		}
	}
	return part
}
