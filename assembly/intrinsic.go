package assembly

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/nacre-dev/nacre"
)

// intrinsics are the core's own tools, which every group may use (D-30). They
// read what the host already knows and touch nothing.
func (s *sealed) intrinsics() []nacre.Tool {
	intrinsic := func(tool nacre.ToolName, description, schema string, do nacre.DriverFunc) nacre.Tool {
		return nacre.Tool{Driver: do, Capability: nacre.Capability{
			ID: nacre.CapabilityID("core." + string(tool)), Tool: tool, Name: string(tool), Description: description,
			Safety: nacre.Read, Sensitivity: nacre.SensitiveNone, Returns: nacre.Trusted, Intrinsic: true,
			Schema: json.RawMessage(schema),
		}}
	}
	return []nacre.Tool{
		intrinsic("list_tools", "List the tools this session may use, with their argument schemas",
			`{"type":"object","additionalProperties":false,"properties":{"query":{"type":"string","maxLength":200,"description":"only tools whose name or description holds this"}}}`,
			s.listTools),
		intrinsic("get_session_info", "Tell the group, when the session started and which plugins are up",
			`{"type":"object","additionalProperties":false,"properties":{}}`, s.sessionInfo),
	}
}

type listedTool struct {
	Name        nacre.ToolName  `json:"name"`
	Description string          `json:"description"`
	Arguments   json.RawMessage `json:"arguments_schema"`
	Confirmed   bool            `json:"needs_confirmation,omitempty"`
}

func (s *sealed) listTools(_ context.Context, in nacre.Invocation) (json.RawMessage, error) {
	var args struct{ Query string }
	if err := json.Unmarshal(in.Arguments, &args); err != nil {
		return nil, err
	}
	query := strings.ToLower(args.Query)
	tools := []listedTool{}
	for _, c := range s.kernel.Catalog(in.Principal) {
		if strings.Contains(strings.ToLower(string(c.Tool)+" "+c.Description), query) {
			tools = append(tools, listedTool{c.Tool, c.Description, c.Schema, c.HighRisk})
		}
	}
	return json.Marshal(map[string]any{"tools": tools})
}

func (s *sealed) sessionInfo(context.Context, nacre.Invocation) (json.RawMessage, error) {
	return json.Marshal(map[string]any{
		"group": s.Group(), "session_start": s.started.UTC().Format("2006-01-02T15:04:05Z"), "plugins": s.host.Health(),
	})
}
