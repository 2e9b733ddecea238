package mcpdriver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/wire"
)

// maxExact is the first whole number that others are decoded to by the SDK.
const maxExact = 1 << 53

// resultOf is a tool's structured content, or {"content": […]} of its blocks.
func resultOf(result *mcp.CallToolResult) (json.RawMessage, error) {
	switch {
	case result == nil:
		return nil, errors.New("an empty answer")
	case result.IsError:
		return nil, &nacre.Refusal{Code: nacre.CodeHandlerError, Message: wordsOf(result.Content)}
	case result.InputRequests != nil:
		return nil, errors.New("the server asks back, which nobody here answers")
	}
	var raw []byte
	var err error
	if result.StructuredContent != nil {
		raw, err = structured(result)
	} else {
		raw, err = json.Marshal(map[string]any{"content": blocks(result.Content)})
	}
	if err != nil {
		return nil, err
	}
	if err := wire.Check(raw, wire.Limits{Message: MaxResult, String: MaxResult, CaseSensitive: true}); err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	return raw, nil
}

func blocks(content []mcp.Content) []mcp.Content {
	if content == nil {
		return []mcp.Content{}
	}
	return content
}

// structured prefers the text in which servers repeat their structured content,
// since the SDK has turned the numbers of the latter into floats. Where there is
// no such text, a number that may have changed is an error.
func structured(result *mcp.CallToolResult) ([]byte, error) {
	if len(result.Content) == 1 {
		if text, ok := result.Content[0].(*mcp.TextContent); ok {
			raw := []byte(text.Text)
			var same any
			if wire.Check(raw, wire.Limits{Message: MaxResult, String: MaxResult, CaseSensitive: true}) == nil &&
				json.Unmarshal(raw, &same) == nil && reflect.DeepEqual(same, result.StructuredContent) {
				return raw, nil
			}
		}
	}
	if !exact(result.StructuredContent) {
		return nil, errors.New("the result holds a number too large to be kept exactly; the server should send it as a string")
	}
	return json.Marshal(result.StructuredContent)
}

func exact(value any) bool {
	switch v := value.(type) {
	case float64:
		return v != math.Trunc(v) || math.Abs(v) < maxExact
	case []any:
		for _, inner := range v {
			if !exact(inner) {
				return false
			}
		}
	case map[string]any:
		for _, inner := range v {
			if !exact(inner) {
				return false
			}
		}
	}
	return true
}

// wordsOf is what a tool says of its own failure.
func wordsOf(content []mcp.Content) string {
	var b strings.Builder
	for _, block := range content {
		if text, ok := block.(*mcp.TextContent); ok && b.Len() < maxWords {
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(text.Text)
		}
	}
	if b.Len() == 0 {
		return "the tool failed and did not say why"
	}
	return shorten(b.String())
}

func shorten(text string) string {
	if len(text) > maxWords {
		text = text[:maxWords]
	}
	text, _ = visible(strings.ToValidUTF8(text, ""))
	return text
}

// failed sorts the errors of a call. What the server says of the arguments
// reaches the agent; all else is for the host.
func (c *Client) failed(ctx context.Context, tool string, t *trip, err error) error {
	var answer *jsonrpc.Error
	if errors.As(err, &answer) {
		if answer.Code == jsonrpc.CodeInvalidParams {
			return &nacre.Refusal{Code: nacre.CodeHandlerError, Message: shorten(answer.Message)}
		}
		return fmt.Errorf("mcp server %s: tool %.80q: error %d: %q", c.server.Name, tool, answer.Code, shorten(answer.Message))
	}
	err = fmt.Errorf("mcp server %s: tool %.80q: %w", c.server.Name, tool, plain(ctx, err))
	if c.server.URL != "" && !t.sent.Load() {
		return nacre.NotSent(err)
	}
	return err
}
