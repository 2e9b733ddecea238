package mcpdriver

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nacre-dev/nacre"
)

// Closed closes a schema.
func Closed(input any) (json.RawMessage, []string, error) { return closed(input) }

// Class classes a tool.
func (s Server) Class(tool *mcp.Tool) (nacre.SafetyClass, string, error) { return s.class(tool) }

// Snake is a tool's name as capabilities have it.
func Snake(name string) string { return snake(name) }

// Visible is a text without what nobody sees.
func Visible(text string) (string, bool) { return visible(text) }
