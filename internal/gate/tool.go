package gate

import (
	"slices"
	"strings"
)

// class is what kind of thing a tool does. The zero value is refused.
type class uint8

const (
	classNone class = iota
	// classOther is a tool that is not known: it may change anything.
	classOther
	classShell
	classWrite
	classRead
	// classNeutral touches no file of the project by itself: what it starts
	// comes through the gates again.
	classNeutral
)

// classOf maps the names of Claude Code, Codex, ACP, and servers of files over
// MCP to classes. What is not listed is classOther.
func classOf(tool string) class {
	switch tool {
	case "Bash", "PowerShell", "Monitor",
		"shell", "local_shell", "shell_command", "exec_command", "unified_exec", "write_stdin", "container.exec", "exec", "run_shell_command",
		"execute", "terminal/create", "Shell":
		return classShell
	case "Edit", "Write", "MultiEdit", "NotebookEdit", "Update", "StrReplace", "Delete",
		"apply_patch", "ApplyPatch", "str_replace_based_edit_tool", "str_replace_editor",
		"edit", "delete", "move", "fs/write_text_file", "write_file", "replace", "edit_file", "create_file", "delete_file":
		return classWrite
	case "Read", "Glob", "Grep", "LS", "NotebookRead", "LSP", "ReadMcpResourceTool", "ListMcpResourcesTool", "ReadMcpResource", "ListMcpResources",
		"read", "search", "fs/read_text_file", "view_image", "read_file", "read_many_files", "list_directory", "list_dir", "glob", "grep_files", "search_file_content":
		return classRead
	case "WebFetch", "WebSearch", "TodoWrite", "TodoRead", "Task", "Agent", "ExitPlanMode", "EnterPlanMode", "AskUserQuestion", "BashOutput", "KillShell", "KillBash",
		"TaskCreate", "TaskUpdate", "TaskList", "TaskGet", "TaskOutput", "TaskStop", "AgentOutputTool", "Skill", "SlashCommand", "ToolSearch", "SendMessage", "StructuredOutput",
		"update_plan", "web_search", "request_user_input", "spawn_agent", "send_input", "wait", "close_agent", "wait_agent",
		"think", "fetch", "switch_mode", "web_fetch", "google_web_search":
		return classNeutral
	}
	if strings.HasPrefix(tool, "mcp__") {
		return classOfMCP(toolWord(tool))
	}
	return classOther
}

// classOfMCP knows the tools of file servers by the names they usually have. A
// name is the server's word: what it says it reads is taken to read only where
// its input does not speak against it.
func classOfMCP(tool string) class {
	switch tool {
	case "write_file", "edit_file", "create_file", "append_file", "write", "edit", "create_directory", "move_file", "delete_file", "delete_directory", "remove_file",
		"rename_file", "copy_file", "write_text_file", "str_replace", "insert", "replace_in_file", "save_file", "update_file":
		return classWrite
	case "read_file", "read_text_file", "read_media_file", "read_multiple_files", "list_directory", "list_directory_with_sizes", "directory_tree", "search_files", "get_file_info",
		"list_allowed_directories", "read", "list", "search", "grep", "glob":
		return classRead
	case "run_command", "execute_command", "bash", "shell", "run_shell", "exec", "terminal":
		return classShell
	}
	return classOther
}

// toolWord is a tool's name without the server's.
func toolWord(tool string) string {
	if rest, ok := strings.CutPrefix(tool, "mcp__"); ok {
		if i := strings.LastIndex(rest, "__"); i >= 0 {
			return rest[i+2:]
		}
	}
	return tool
}

func isPatch(tool string) bool { return tool == "apply_patch" || tool == "ApplyPatch" }

// Named is a call of a tool by its name alone, for what its input does not decide.
func Named(tool string) Call { return Call{Tool: tool, class: classOf(tool)} }

// Permits tells whether names, as in [tools] allowed or denied, hold a call's tool. They hold it by
// its own name, or by the name that Claude Code gives a tool of its class. So Codex's shell is Bash
// and its apply_patch is Edit (S-02).
func Permits(names []string, c Call) bool {
	for _, name := range names {
		if name == c.Tool || name == "*" {
			return true
		}
		switch c.class {
		case classShell:
			if name == "Bash" && !strings.HasPrefix(c.Tool, "mcp__") {
				return true
			}
		case classWrite:
			if !strings.HasPrefix(c.Tool, "mcp__") && slices.Contains(writerNames(c.Tool), name) {
				return true
			}
		case classRead:
			if !strings.HasPrefix(c.Tool, "mcp__") && slices.Contains(readerNames(c.Tool), name) {
				return true
			}
		}
	}
	return false
}

func writerNames(tool string) []string {
	switch tool {
	case "Edit", "Write", "NotebookEdit", "Delete":
		return nil // their own names only
	case "MultiEdit", "edit", "edit_file", "replace", "Update", "StrReplace":
		return []string{"Edit"}
	case "fs/write_text_file", "write_file", "create_file":
		return []string{"Write"}
	}
	return []string{"Edit", "Write"}
}

func readerNames(tool string) []string {
	switch tool {
	case "Glob", "Grep", "Read":
		return nil
	case "search", "grep_files", "search_file_content":
		return []string{"Grep"}
	case "glob", "LS", "list_directory", "list_dir":
		return []string{"Glob"}
	}
	return []string{"Read"}
}
