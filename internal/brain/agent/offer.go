//go:build linux

package agent

import "encoding/json"

// offer is a tool as the model is told of it.
type offer struct {
	name, description string
	schema            json.RawMessage
}

// ownTools are the tools that run here, inside the sandbox. What they take is
// checked by each of them; the schemas are for the model.
func ownTools() []offer {
	return []offer{
		{
			"shell", "Run a command with sh in the project's folder. Standard input is empty. Its output and exit code come back; its processes end with it.",
			schema(`"command":{"type":"string"},"timeout_s":{"type":"integer","minimum":1,"maximum":3600,"description":"seconds, 120 if left out"}`, `"command"`),
		},
		{
			"read", "Read a text file, 2000 lines at a time unless told otherwise.",
			schema(pathProperty+`,"offset":{"type":"integer","minimum":1,"description":"first line"},"limit":{"type":"integer","minimum":1,"description":"number of lines"}`, `"path"`),
		},
		{
			"write", "Make a file, or replace all of it, with the folders above it.",
			schema(pathProperty+`,"content":{"type":"string"}`, `"path","content"`),
		},
		{
			"edit", "Replace text in a file. The old text must be in it exactly once, byte for byte, unless all is true.",
			schema(pathProperty+`,"old":{"type":"string"},"new":{"type":"string"},"all":{"type":"boolean"}`, `"path","old","new"`),
		},
		{"list", "List a folder: folders end in /, links in @.", schema(pathProperty, "")},
		{
			"glob", "Find files by the pattern of their path, such as **/*_test.go.",
			schema(`"pattern":{"type":"string"},`+pathProperty, `"pattern"`),
		},
		{
			"grep", "Find lines by a regular expression (RE2) in the files of a folder, or in one file.",
			schema(`"pattern":{"type":"string"},`+pathProperty+`,"files":{"type":"string","description":"only files whose path fits this pattern, such as **/*.go"}`, `"pattern"`),
		},
	}
}

const pathProperty = `"path":{"type":"string","description":"relative to the project's folder, or absolute"}`

func schema(properties, required string) json.RawMessage {
	return json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{` + properties + `},"required":[` + required + `]}`)
}
