package mcpdriver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/mcptool"
	"github.com/nacre-dev/nacre/internal/wire"
)

// resultOf is what a tool answered.
func resultOf(result *mcp.CallToolResult) (json.RawMessage, error) {
	raw, err := mcptool.Result(result, MaxResult)
	if failure := (*mcptool.Failure)(nil); errors.As(err, &failure) {
		return nil, &nacre.Refusal{Code: nacre.CodeHandlerError, Message: failure.Words}
	}
	if err != nil {
		return nil, err
	}
	if err := wire.Check(raw, wire.Limits{Message: MaxResult, String: MaxResult, CaseSensitive: true}); err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	return raw, nil
}

// failed sorts the errors of a call. What the server says of the arguments
// reaches the agent; all else is for the host.
func (c *Client) failed(ctx context.Context, tool string, t *trip, err error) error {
	var answer *jsonrpc.Error
	if errors.As(err, &answer) {
		if answer.Code == jsonrpc.CodeInvalidParams {
			return &nacre.Refusal{Code: nacre.CodeHandlerError, Message: mcptool.Clip(answer.Message)}
		}
		return fmt.Errorf("mcp server %s: tool %.80q: error %d: %q", c.server.Name, tool, answer.Code, mcptool.Clip(answer.Message))
	}
	err = fmt.Errorf("mcp server %s: tool %.80q: %w", c.server.Name, tool, plain(ctx, err))
	if c.server.URL != "" && !t.sent.Load() {
		return nacre.NotSent(err)
	}
	return err
}
