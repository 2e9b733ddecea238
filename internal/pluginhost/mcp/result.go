package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"unicode"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nacre-dev/nacre/internal/wire"
	"github.com/nacre-dev/nacre/plugin"
)

const (
	maxWords = 2000    // bytes of a tool's own error, or of a description
	maxExact = 1 << 53 // whole numbers below it are kept exactly by the SDK's decoding
)

// resultOf is a tool's structured content, or {"content": […]} of its blocks.
func resultOf(result *sdk.CallToolResult) (json.RawMessage, error) {
	switch {
	case result == nil:
		return nil, errors.New("an empty answer")
	case result.IsError:
		return nil, &plugin.ToolError{Code: toolError, Message: wordsOf(result.Content)}
	case result.InputRequests != nil:
		return nil, errors.New("the server asks back, which nobody here answers")
	case result.StructuredContent != nil:
		return structured(result)
	}
	content := result.Content
	if content == nil {
		content = []sdk.Content{}
	}
	return json.Marshal(map[string]any{"content": content})
}

// structured prefers the text in which servers repeat their structured content,
// since the SDK has turned the numbers of the latter into floats.
func structured(result *sdk.CallToolResult) (json.RawMessage, error) {
	if len(result.Content) == 1 {
		if text, ok := result.Content[0].(*sdk.TextContent); ok {
			raw := []byte(text.Text)
			var same any
			if wire.Check(raw, wire.Limits{Message: MaxMessage, String: MaxMessage, CaseSensitive: true}) == nil &&
				json.Unmarshal(raw, &same) == nil && reflect.DeepEqual(same, result.StructuredContent) {
				return raw, nil
			}
		}
	}
	if !exact(result.StructuredContent) {
		return nil, fmt.Errorf("the result holds a whole number of ±%d or beyond, which would not be kept exactly", int64(maxExact))
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
func wordsOf(content []sdk.Content) string {
	var b strings.Builder
	for _, block := range content {
		if text, ok := block.(*sdk.TextContent); ok && b.Len() < maxWords {
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(text.Text)
		}
	}
	if b.Len() == 0 {
		return "the tool failed and did not say why"
	}
	return clipped(b.String())
}

// clipped cuts a server's words, and drops characters that nobody sees but a
// model reads.
func clipped(text string) string {
	if len(text) > maxWords {
		text = text[:maxWords]
	}
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		if r == unicode.ReplacementChar || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Variation_Selector) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
}
