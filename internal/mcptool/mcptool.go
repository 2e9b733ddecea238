// Package mcptool turns what an MCP server says of a tool, and answers, into what
// nacre takes: names, words, results and the bodies that hold them.
//
// It promises that a result is JSON whose numbers are those that the server sent. Words which a
// model reads are ones that a person sees, cut to a limit. It does not speak to servers, and
// decides nothing about them.
package mcptool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nacre-dev/nacre/internal/wire"
)

const (
	// MaxWords is how much of a server's own words [Clip] keeps, in bytes.
	MaxWords = 2000
	// maxExact is the first whole number that others are decoded to by the SDK.
	maxExact = 1 << 53
)

// Failure is what a tool says of its own failure.
type Failure struct{ Words string }

// Error implements error.
func (f *Failure) Error() string { return f.Words }

// Result is a tool's structured content, or {"content": […]} of its blocks. Where
// the tool says that it failed, the error is a [*Failure]. No JSON that stands for
// structured content has more than limit bytes.
func Result(result *mcp.CallToolResult, limit int) (json.RawMessage, error) {
	switch {
	case result == nil:
		return nil, errors.New("an empty answer")
	case result.IsError:
		return nil, &Failure{words(result.Content)}
	case result.InputRequests != nil:
		return nil, errors.New("the server asks back, which nobody here answers")
	case result.StructuredContent != nil:
		return structured(result, limit)
	}
	content := result.Content
	if content == nil {
		content = []mcp.Content{}
	}
	return json.Marshal(map[string]any{"content": content})
}

// structured prefers the text in which servers repeat their structured content,
// since the SDK has turned the numbers of the latter into floats. Where there is
// no such text, a number that may have changed is an error.
func structured(result *mcp.CallToolResult, limit int) (json.RawMessage, error) {
	if len(result.Content) == 1 {
		if text, ok := result.Content[0].(*mcp.TextContent); ok {
			raw := []byte(text.Text)
			var same any
			if wire.Check(raw, wire.Limits{Message: limit, String: limit, CaseSensitive: true}) == nil &&
				json.Unmarshal(raw, &same) == nil && reflect.DeepEqual(same, result.StructuredContent) {
				return raw, nil
			}
		}
	}
	if !exact(result.StructuredContent) {
		return nil, fmt.Errorf("the result holds a whole number of ±%d or beyond, which would not be kept exactly; the server should send it as a string", int64(maxExact))
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

func words(content []mcp.Content) string {
	var b strings.Builder
	for _, block := range content {
		if text, ok := block.(*mcp.TextContent); ok && b.Len() < MaxWords {
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(text.Text)
		}
	}
	if b.Len() == 0 {
		return "the tool failed and did not say why"
	}
	return Clip(b.String())
}

// Clip is at most MaxWords of a server's words, as [Visible] shows them.
func Clip(text string) string {
	if len(text) > MaxWords {
		text = text[:MaxWords]
	}
	text, _ = Visible(strings.ToValidUTF8(text, ""))
	return text
}

// Visible drops what a person does not see but a model reads: control
// characters, and those that format or are private.
func Visible(text string) (shown string, clean bool) {
	shown = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		if r == unicode.ReplacementChar || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Variation_Selector) {
			return -1
		}
		return r
	}, text)
	return shown, shown == text
}

// Name is the name that an agent calls a server's tool by: get-user, get.user,
// getUser and "get user" are get_user. What is no letter, digit or _ then is left
// for [nacre.ParseToolName] to refuse.
func Name(name string) string {
	var b strings.Builder
	last := '_'
	for _, r := range name {
		switch {
		case 'A' <= r && r <= 'Z':
			if 'a' <= last && last <= 'z' || '0' <= last && last <= '9' {
				b.WriteByte('_')
			}
			b.WriteRune(r - 'A' + 'a')
		case strings.ContainsRune("-./ ", r):
			b.WriteByte('_')
		default:
			b.WriteRune(r)
		}
		last = r
	}
	return b.String()
}

// Bounded is the body of an answer that fails where it is longer than limit bytes.
func Bounded(body io.ReadCloser, limit int) io.ReadCloser {
	return &bounded{ReadCloser: body, limit: limit, left: limit}
}

type bounded struct {
	io.ReadCloser
	limit, left int
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", b.limit)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
