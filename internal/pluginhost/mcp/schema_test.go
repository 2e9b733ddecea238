package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre/internal/pluginhost/mcp"
	"github.com/nacre-dev/nacre/internal/schema"
	"github.com/nacre-dev/nacre/plugin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func decode(t testing.TB, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// inside is a schema of one argument, x, and more keywords.
func inside(x string) string { return `{"type":"object","properties":{"x":` + x + `}}` }

// D-21: a server must take every argument that the manifest allows.
func TestCompatible(t *testing.T) {
	for name, c := range map[string]struct{ pinned, offered, want string }{
		"the same":                              {inside(`{"type":"string"}`), inside(`{"type":"string"}`), ""},
		"other words about it":                  {inside(`{"type":"string","description":"a"}`), inside(`{"type":"string","description":"b","title":"c"}`), ""},
		"a new argument that may be left out":   {inside(`{"type":"string"}`), `{"type":"object","properties":{"x":{"type":"string"},"y":{}}}`, ""},
		"a new argument that may not":           {inside(`{"type":"string"}`), `{"type":"object","properties":{"x":{"type":"string"},"y":{}},"required":["y"]}`, "y: the server requires it"},
		"required now":                          {inside(`{"type":"string"}`), `{"type":"object","properties":{"x":{"type":"string"}},"required":["x"]}`, "x: the server requires it"},
		"required now, with a default of ours":  {inside(`{"type":"string","default":"a"}`), `{"type":"object","properties":{"x":{"type":"string"}},"required":["x"]}`, ""},
		"required before, and not now":          {`{"type":"object","properties":{"x":{"type":"string"}},"required":["x"]}`, inside(`{"type":"string"}`), ""},
		"an argument that is gone, and open":    {inside(`{"type":"string"}`), `{"type":"object","properties":{}}`, ""},
		"an argument that is gone, and closed":  {inside(`{"type":"string"}`), `{"type":"object","properties":{},"additionalProperties":false}`, "x: the server has no such argument"},
		"another type":                          {inside(`{"type":"string"}`), inside(`{"type":"integer"}`), "x: string is not taken"},
		"more types":                            {inside(`{"type":"string"}`), inside(`{"type":["string","null"]}`), ""},
		"fewer types":                           {inside(`{"type":["string","null"]}`), inside(`{"type":"string"}`), "null is not taken"},
		"whole numbers where any are taken":     {inside(`{"type":"integer"}`), inside(`{"type":"number"}`), ""},
		"any numbers where whole ones are":      {inside(`{"type":"number"}`), inside(`{"type":"integer"}`), "number is not taken"},
		"anything where text is taken":          {inside(`{}`), inside(`{"type":"string"}`), "only [string] is taken"},
		"true where text is taken":              {inside(`true`), inside(`{"type":"string"}`), "anything is allowed"},
		"text where anything is taken":          {inside(`{"type":"string"}`), inside(`{}`), ""},
		"text where nothing is taken":           {inside(`{"type":"string"}`), inside(`false`), "no such argument"},
		"a value more":                          {inside(`{"enum":["a"]}`), inside(`{"enum":["a","b"]}`), ""},
		"a value less":                          {inside(`{"enum":["a","b"]}`), inside(`{"enum":["a"]}`), "the value b is not taken"},
		"one value":                             {inside(`{"const":"a"}`), inside(`{"type":"string"}`), ""},
		"one value of another type":             {inside(`{"const":1}`), inside(`{"type":"string"}`), "integer is not taken"},
		"values where any text was":             {inside(`{"type":"string"}`), inside(`{"type":"string","enum":["a"]}`), "only certain values"},
		"a longer limit":                        {inside(`{"type":"string","maxLength":5}`), inside(`{"type":"string","maxLength":9}`), ""},
		"a shorter limit":                       {inside(`{"type":"string","maxLength":9}`), inside(`{"type":"string","maxLength":5}`), "maxLength is 5"},
		"a limit where there was none":          {inside(`{"type":"integer"}`), inside(`{"type":"integer","minimum":1}`), "minimum is 1"},
		"a lower minimum":                       {inside(`{"type":"integer","minimum":3}`), inside(`{"type":"integer","minimum":1}`), ""},
		"a limit on values that are listed":     {inside(`{"enum":["a"]}`), inside(`{"type":"string","maxLength":5}`), ""},
		"another pattern":                       {inside(`{"type":"string","pattern":"a"}`), inside(`{"type":"string","pattern":"b"}`), "pattern is b"},
		"a pattern less":                        {inside(`{"type":"string","pattern":"a"}`), inside(`{"type":"string"}`), ""},
		"elements of another type":              {inside(`{"type":"array","items":{"type":"string"}}`), inside(`{"type":"array","items":{"type":"integer"}}`), "x[]: string is not taken"},
		"a list of anything":                    {inside(`{"type":"array"}`), inside(`{"type":"array","items":{"type":"integer"}}`), "x[]: anything is allowed"},
		"an argument inside of one":             {inside(`{"type":"object","properties":{"y":{"type":"string"}}}`), inside(`{"type":"object","properties":{"y":{"type":"integer"}}}`), "x.y: string is not taken"},
		"an alternative more":                   {inside(`{"anyOf":[{"type":"string"}]}`), inside(`{"anyOf":[{"type":"string"},{"type":"null"}]}`), ""},
		"an alternative less":                   {inside(`{"anyOf":[{"type":"string"},{"type":"null"}]}`), inside(`{"anyOf":[{"type":"string"}]}`), "null is not taken"},
		"one alternative, said plainly":         {inside(`{"type":"string"}`), inside(`{"anyOf":[{"type":"string"},{"type":"null"}]}`), ""},
		"all of two":                            {inside(`{"type":"string","maxLength":3}`), inside(`{"allOf":[{"type":"string"},{"maxLength":2}]}`), "maxLength is 2"},
		"a condition":                           {inside(`{"type":"string"}`), inside(`{"not":{"const":"a"}}`), "not is"},
		"another draft's definitions":           {`{"type":"object","properties":{"x":{"$ref":"#/$defs/t"}},"$defs":{"t":{"type":"string"}}}`, `{"type":"object","properties":{"x":{"$ref":"#/definitions/t"}},"definitions":{"t":{"type":"string"}}}`, ""},
		"a definition that is another":          {`{"type":"object","properties":{"x":{"$ref":"#/$defs/t"}},"$defs":{"t":{"type":"string"}}}`, `{"type":"object","properties":{"x":{"$ref":"#/$defs/t"}},"$defs":{"t":{"type":"integer"}}}`, "string is not taken"},
		"a definition that holds itself":        {loop("string"), loop("string"), ""},
		"one that holds itself and is another":  {loop("string"), loop("integer"), "string is not taken"},
		"a server without a schema":             {inside(`{"type":"string"}`), `null`, "not an object"},
		"a server whose schema is no object":    {inside(`{"type":"string"}`), `[1]`, "not an object"},
		"a reference that leads nowhere":        {inside(`{"type":"string"}`), inside(`{"$ref":"#/$defs/none"}`), "$ref is"},
		"a reference to itself":                 {inside(`{"type":"string"}`), `{"type":"object","properties":{"x":{"$ref":"#/$defs/a"}},"$defs":{"a":{"$ref":"#/$defs/a"}}}`, "$ref is"},
		"properties of a kind":                  {inside(`{"type":"string"}`), `{"type":"object","additionalProperties":{"type":"integer"}}`, "string is not taken"},
		"no arguments where any kind was taken": {`{"type":"object","additionalProperties":false}`, `{"type":"object","additionalProperties":{"type":"integer"}}`, ""},
	} {
		err := mcp.Compatible(json.RawMessage(c.pinned), decode(t, c.offered))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: have %v, want %q", name, err, c.want)
		}
	}
}

func loop(kind string) string {
	return `{"type":"object","properties":{"x":{"$ref":"#/$defs/t"}},"$defs":{"t":{"type":"object","properties":{"more":{"$ref":"#/$defs/t"},"v":{"type":"` + kind + `"}}}}}`
}

// A small schema that unfolds into a large one is not compared for ever.
func TestCompatibleOfAnExplosion(t *testing.T) {
	var defs []string
	for i := range 40 {
		defs = append(defs, fmt.Sprintf(`"d%d":{"type":"object","properties":{"a":{"$ref":"#/$defs/d%d"},"b":{"$ref":"#/$defs/d%d"}}}`, i, i+1, i+1))
	}
	bomb := `{"type":"object","properties":{"x":{"$ref":"#/$defs/d0"}},"$defs":{` + strings.Join(defs, ",") + `,"d40":{"type":"string"}}}`
	if err := mcp.Compatible(json.RawMessage(bomb), decode(t, bomb)); err != nil {
		t.Errorf("with itself: %v", err)
	}
	_ = mcp.Compatible(json.RawMessage(strings.ReplaceAll(bomb, "$ref\":\"#/$defs/d40", "type\":\"string")), decode(t, strings.ReplaceAll(bomb, "#/$defs/d4", "#/$defs/d4")))
}

// What a schema is closed to is what its server takes, whatever the server sends.
func FuzzCompatible(f *testing.F) {
	for _, schema := range []string{
		inside(`{"type":"string"}`), `{"type":"object"}`, `{}`, loop("string"), inside(`{"type":["string","null"],"maxLength":3}`),
		inside(`{"anyOf":[{"type":"string"},{"type":"object","properties":{"y":{"type":"number"}}}]}`), inside(`{"type":"array","items":{"type":"integer","minimum":0}}`),
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"x":{"type":"array","items":[{"type":"string"}]},"m":{}},"required":["x"],"additionalProperties":true}`,
		inside(`{"type":"object","additionalProperties":{"type":"string"}}`), inside(`{"type":"string","format":"int64"}`), `[]`, `null`, `{"properties":7}`,
		inside(`{"type":"array","prefixItems":[{"type":"object","properties":{"a":{"type":"string"}}}],"items":false}`), inside(`{"type":"object","patternProperties":{"^a":{"type":"object","properties":{}}}}`),
		inside(`{"oneOf":[{"type":"object","properties":{"a":{"const":"x"}},"required":["a"]},{"type":"object","properties":{"a":{"const":"y"}},"required":["a"]}]}`),
		`{"type":"object","allOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"b":{"type":"string"}},"required":["b"]}]}`, `{"allOf":[1,{"items":{}}]}`,
	} {
		f.Add([]byte(schema))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var offered any
		if json.Unmarshal(raw, &offered) != nil {
			return
		}
		pinned, _, err := schema.Close(offered)
		if err != nil {
			return
		}
		if err := mcp.Compatible(pinned, offered); err != nil {
			t.Errorf("have %v\n%s\n%s", err, pinned, raw)
		}
	})
}

// streams are the two ends of a connection to a server of this process.
func streams(t *testing.T, s *sdk.Server) io.ReadWriteCloser {
	t.Helper()
	fromR, fromW := io.Pipe()
	toR, toW := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Run(context.Background(), &sdk.IOTransport{Reader: toR, Writer: fromW}) // its end is the client's
	}()
	t.Cleanup(func() { <-ended })
	return &ends{fromR, toW}
}

type ends struct {
	*io.PipeReader
	to *io.PipeWriter
}

// Write implements io.Writer.
func (e *ends) Write(p []byte) (int, error) { return e.to.Write(p) }

// Close implements io.Closer.
func (e *ends) Close() error { _, _ = e.PipeReader.Close(), e.to.Close(); return nil }

// D-22: a manifest made of a server pins its tools, closed, and says what it left out.
func TestManifestFor(t *testing.T) {
	s := sdk.NewServer(&sdk.Implementation{Name: "peer", Version: "1"}, nil)
	for _, tool := range []sdk.Tool{
		{Name: "getUser", Description: "Get <one>\u202e", InputSchema: json.RawMessage(inside(`{"type":"string","format":"int64"}`))},
		{Name: "get-user", InputSchema: json.RawMessage(inside(`{"type":"string"}`))},
		{Name: "free", InputSchema: json.RawMessage(`{"type":"object","properties":{"m":{},"n":{"type":"integer"}}}`)},
		{Name: "wild", InputSchema: json.RawMessage(`{"type":"object","properties":{"m":{}},"required":["m"]}`)},
	} {
		s.AddTool(&tool, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return nil, os.ErrInvalid })
	}
	manifest, warnings, err := mcp.ManifestFor(t.Context(), mcp.Peer{Stream: streams(t, s)}, mcp.Draft{
		Description: "d", Version: "1.0.0", Command: []string{"x"}, Prefix: "peer_",
	})
	if err != nil {
		t.Fatal(err, warnings)
	}
	m, err := plugin.ParseManifest(manifest)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range m.Provides.Tools {
		names = append(names, string(tool.Name)+" "+string(tool.Description))
		if !strings.Contains(string(tool.ArgumentsSchema), `"additionalProperties": false`) {
			t.Errorf("%s is open: %s", tool.Name, tool.ArgumentsSchema)
		}
	}
	if have, want := strings.Join(names, "|"), "peer_free Call free|peer_get_user Call get-user"; have != want {
		t.Errorf("have %s, want %s", have, want)
	}
	for _, want := range []string{`"wild" is left out`, `"getUser" is left out: it would have the name of "get-user"`, "m accepts anything; it is optional and left out"} {
		if !strings.Contains(strings.Join(warnings, "\n"), want) {
			t.Errorf("have %q, want %q", warnings, want)
		}
	}
	empty := sdk.NewServer(&sdk.Implementation{Name: "peer", Version: "1"}, nil)
	if _, _, err := mcp.ManifestFor(t.Context(), mcp.Peer{Stream: streams(t, empty)}, mcp.Draft{Description: "d", Version: "1.0.0", Command: []string{"x"}}); err == nil {
		t.Error("a server without tools: accepted")
	}
	if _, _, err := mcp.ManifestFor(t.Context(), mcp.Peer{}, mcp.Draft{}); err == nil {
		t.Error("no server: accepted")
	}
}
