package mcp

import (
	"encoding/json"
	"errors"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nacre-dev/nacre/internal/mcptool"
	"github.com/nacre-dev/nacre/plugin"
)

// resultOf is what a tool answered.
func resultOf(result *sdk.CallToolResult) (json.RawMessage, error) {
	raw, err := mcptool.Result(result, MaxMessage)
	if failure := (*mcptool.Failure)(nil); errors.As(err, &failure) {
		return nil, &plugin.ToolError{Code: toolError, Message: failure.Words}
	}
	return raw, err
}
