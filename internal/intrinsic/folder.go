package intrinsic

import (
	"encoding/json"
	"time"

	"github.com/nacre-dev/nacre"
)

// RequestFolder is the tool that asks a person for a folder outside of the project.
const RequestFolder nacre.ToolName = "request_folder"

// folderCalls is how often it may be called in a minute. A call waits for the answer, so that
// an agent that waits needs few.
const folderCalls = 12

// FolderTool asks for a folder with what it is given, whose argument path is a value that matters:
// the question says where it came from.
func FolderTool(ask nacre.Driver) nacre.Tool {
	return nacre.Tool{Driver: ask, Capability: nacre.Capability{
		ID: nacre.CapabilityID("core." + string(RequestFolder)), Tool: RequestFolder, Name: string(RequestFolder),
		Description: "Ask a person to show you a folder that is outside of your project, such as a sibling repository or a folder of data. On their yes it is at the place that is returned, read-only: outside of your project nothing can be written. Call it again with the same path while its state is waiting",
		Safety:      nacre.Read, Sensitivity: nacre.SensitiveNone, Returns: nacre.Trusted, Handling: nacre.Handling{Intrinsic: true},
		Values: nacre.Values{Sinks: []string{"path"}, Kinds: map[string]nacre.ValueKind{"path": nacre.KindPath}},
		Rate:   nacre.RateLimit{Calls: folderCalls, Window: time.Minute},
		Schema: json.RawMessage(`{"type":"object","required":["path","reason"],"additionalProperties":false,"properties":{
			"path":{"type":"string","minLength":1,"maxLength":1024,"description":"on the person's machine: relative to your project, such as ../lib, from ~/, or absolute"},
			"reason":{"type":"string","minLength":1,"maxLength":500,"description":"what you need it for, in your words: the person reads it"}}}`),
	}}
}
