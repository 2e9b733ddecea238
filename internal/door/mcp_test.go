package door_test

import (
	"bufio"
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/ipc"
	"github.com/nacre-dev/nacre/internal/ipc/mcpserver"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// listing is crew with the intrinsic that names the tools.
func listing() kernel {
	k := crew()
	k["list_tools"] = func(context.Context, nacre.Call) (json.RawMessage, error) {
		return json.RawMessage(`{"tools":[
			{"name":"echo","description":"says it again","arguments_schema":{"type":"object","additionalProperties":false,"properties":{"n":{"type":"integer","maximum":9223372036854775807}}}},
			{"name":"refused","description":"refuses","arguments_schema":{"type":"object"},"needs_confirmation":true}]}`), nil
	}
	return k
}

// mcpPipe serves one MCP client over pipes, in this process.
type mcpPipe struct {
	in  *io.PipeWriter
	out *bufio.Reader
	// ended returns what Serve did, after the client ended its side.
	ended func() error
}

func serveMCP(t *testing.T, s served) mcpPipe {
	t.Helper()
	in, clientIn := io.Pipe()
	clientOut, out := io.Pipe()
	result := make(chan error, 1)
	go func() {
		result <- mcpserver.Serve(context.Background(), ipc.Socket(s.path), "test", in, out)
		_ = out.Close() // the client is told
	}()
	ended := sync.OnceValue(func() error {
		_ = clientIn.Close() // the end
		go func() { _, _ = io.Copy(io.Discard, clientOut) }()
		return <-result
	})
	t.Cleanup(func() {
		if err := ended(); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return mcpPipe{clientIn, bufio.NewReaderSize(clientOut, 4<<20), ended}
}

// connectMCP is the official SDK as the client.
func connectMCP(t *testing.T, s served, revision string, progress func(*mcp.ProgressNotificationParams)) *mcp.ClientSession {
	t.Helper()
	p := serveMCP(t, s)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress(r.Params) },
	})
	session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: io.NopCloser(p.out), Writer: p.in}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.ended(); _ = session.Close() }) // judged by the pipe's own cleanup
	return session
}

func textOf(t *testing.T, r *mcp.CallToolResult) string {
	t.Helper()
	if len(r.Content) != 1 {
		t.Fatalf("have %+v, want one text", r)
	}
	return r.Content[0].(*mcp.TextContent).Text
}

// D-08: the catalogue of the host, and each tool through the same pipeline.
func TestMCPServesTheCatalogue(t *testing.T) {
	for _, revision := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			s := serve(t, listing(), config{})
			session := connectMCP(t, s, revision, nil)
			listed, err := session.ListTools(t.Context(), nil)
			if err != nil || len(listed.Tools) != 2 || listed.Tools[0].Name != "echo" || listed.Tools[0].Description != "says it again" {
				t.Fatalf("have %+v, %v, want the two tools", listed, err)
			}
			if schema, _ := json.Marshal(listed.Tools[0].InputSchema); !bytes.Contains(schema, []byte(`"additionalProperties":false`)) {
				t.Errorf("have schema %s, want the tool's own", schema)
			}
			result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"n": 1}})
			if err != nil || result.IsError || textOf(t, result) != `{"n":1}` {
				t.Errorf("have %+v, %v, want the arguments back", result, err)
			}
			if have := session.InitializeResult().ProtocolVersion; have != revision {
				t.Errorf("have revision %s", have)
			}
			if err := session.Ping(t.Context(), nil); err != nil {
				t.Errorf("have %v of a ping", err)
			}
		})
	}
}

// A catalogue that is longer than a page is read page by page.
func TestMCPPages(t *testing.T) {
	k := kernel{"list_tools": func(_ context.Context, call nacre.Call) (json.RawMessage, error) {
		var arguments struct{ After string }
		if err := json.Unmarshal(call.Arguments, &arguments); err != nil {
			return nil, err
		}
		page := map[string]string{"": "a", "a": "b", "b": "c"}[arguments.After]
		next := map[string]string{"a": "a", "b": "b"}[page]
		return fmt.Appendf(nil, `{"tools":[{"name":%q,"arguments_schema":{"type":"object"}}],"next":%q}`, page, next), nil
	}}
	session := connectMCP(t, serve(t, k, config{}), "", nil)
	var names []string
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	if !slices.Equal(names, []string{"a", "b", "c"}) {
		t.Errorf("have %v, want three pages", names)
	}
}

// D-08: an error reaches the model as the same object that ipc prints. A tool that is not in the
// list is the door's to refuse, and to record.
func TestMCPErrorsAreTheDoors(t *testing.T) {
	s := serve(t, listing(), config{})
	session := connectMCP(t, s, "", nil)
	for name, want := range map[string]string{
		"refused":         `"code":"HANDLER_ERROR"`,
		"missing":         `"code":"UNKNOWN_TOOL"`,
		"message.inbound": `"code":"UNKNOWN_TOOL"`,
		"limited":         `"retry_after":12`,
		"":                `"code":"UNKNOWN_TOOL"`,
		"line\nbreak":     `"code":"VALIDATION_FAILED"`,
		"panics":          `"code":"PLUGIN_ERROR"`,
	} {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name})
		if err != nil || !result.IsError || !strings.Contains(textOf(t, result), want) {
			t.Errorf("%q: have %+v, %v, want %s", name, result, err, want)
			continue
		}
		if object, ok := result.StructuredContent.(map[string]any); !ok || object["message"] == "" {
			t.Errorf("%q: have %v, want the object too", name, result.StructuredContent)
		}
	}
	if records := s.records.all(); !slices.ContainsFunc(records, func(r nacre.Record) bool { return r.Reason == "unknown_tool" }) {
		t.Errorf("have %+v, want the door's records", records)
	}
}

// A call that the client cancels is withdrawn at the door, with its question.
func TestMCPCancellationWithdrawsTheQuestion(t *testing.T) {
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		u := newUntil()
		k := listing()
		k["ask"] = func(ctx context.Context, call nacre.Call) (json.RawMessage, error) {
			call.OnAsk(time.Date(2026, 2, 17, 10, 35, 0, 0, time.UTC))
			return u.call(ctx, call)
		}
		notes := make(chan *mcp.ProgressNotificationParams, 10)
		session := connectMCP(t, serve(t, k, config{}), revision, func(p *mcp.ProgressNotificationParams) { notes <- p })
		ctx, cancel := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		asking.Go(func() {
			params := &mcp.CallToolParams{Name: "ask", Arguments: map[string]any{}}
			params.SetProgressToken("mine")
			if _, err := session.CallTool(ctx, params); err == nil {
				t.Error("have an answer, want the call given up")
			}
		})
		<-u.began
		if note := <-notes; note.ProgressToken != "mine" || note.Total != 300 || !strings.Contains(note.Message, "5m0s") {
			t.Errorf("have %+v, want a note that a person is asked", note)
		}
		cancel()
		<-u.cancelled
		asking.Wait()
		if result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{}}); err != nil || result.IsError {
			t.Errorf("have %+v, %v, want the next call answered", result, err)
		}
	}
}

// When the client is gone, its questions are withdrawn; what it sent besides is
// still answered.
func TestMCPEndOfInput(t *testing.T) {
	u := newUntil()
	k := listing()
	k["ask"] = func(ctx context.Context, call nacre.Call) (json.RawMessage, error) {
		call.OnAsk(time.Unix(1<<40, 0))
		return u.call(ctx, call)
	}
	program := exec.Command(testpeer.Program(t, "ipc-mcp"))
	s := serve(t, k, config{})
	program.Env = []string{ipc.PathVariable + "=" + s.path}
	stdin, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	program.Stdout = &out
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(stdin, mcpHello+mcpCall(1, "ask", "{}")+mcpCall(2, "echo", `{"big":9223372036854775809,"float":1e400,"zero":-0,"__proto__":{"a":1.10}}`))
	if err != nil {
		t.Fatal(err)
	}
	<-u.began
	_ = stdin.Close() // the point
	<-u.cancelled
	if err := program.Wait(); err != nil {
		t.Errorf("have %v, want exit 0", err)
	}
	if want := `{\"big\":9223372036854775809,\"float\":1e400,\"zero\":-0,\"__proto__\":{\"a\":1.10}}`; !strings.Contains(out.String(), want) {
		t.Errorf("have %s, want the echo answered, number for number", out.String())
	}
}

const mcpHello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n" +
	`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"

func mcpCall(id int, tool, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`+"\n", id, tool, arguments)
}

// Whatever a client sends is answered, and the next message too.
func TestMCPBadMessages(t *testing.T) {
	p := serveMCP(t, serve(t, listing(), config{}))
	read := func() string {
		line, err := p.out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
	write := func(line string) {
		if _, err := io.WriteString(p.in, line); err != nil {
			t.Error(err)
		}
	}
	go write(mcpHello)
	if hello := read(); !strings.Contains(hello, `"protocolVersion":"2025-11-25"`) || !strings.Contains(hello, `"tools":{}`) {
		t.Fatalf("have %s, want the revision and tools", hello)
	}
	for name, test := range map[string]struct{ line, want string }{
		"garbage":              {"GET / HTTP/1.1", "-32700"},
		"null":                 {"null", "-32700"},
		"a batch":              {`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, "-32700"},
		"bad UTF-8":            {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"x\":\"\xff\"}}", "-32700"},
		"a duplicate key":      {`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, "-32700"},
		"a depth bomb":         {strings.Repeat("[", 500_000), "-32700"},
		"two megabytes":        {`{"x":"` + strings.Repeat("x", 2<<20) + `"}`, "-32700"},
		"an unknown method":    {`{"jsonrpc":"2.0","id":1,"method":"no/such"}`, "-32601"},
		"no arguments at all":  {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`, `"text":"{}"`},
		"null arguments":       {strings.TrimSpace(mcpCall(1, "echo", "null")), "VALIDATION_FAILED"},
		"a list of arguments":  {strings.TrimSpace(mcpCall(1, "echo", "[]")), "VALIDATION_FAILED"},
		"keys in another case": {strings.TrimSpace(mcpCall(1, "echo", `{"a":1,"A":2}`)), "VALIDATION_FAILED"},
		"a string too long":    {strings.TrimSpace(mcpCall(1, "echo", `{"a":"`+strings.Repeat("x", 101<<10)+`"}`)), "VALIDATION_FAILED"},
		"arguments too long":   {strings.TrimSpace(mcpCall(1, "echo", `{"a":[`+strings.Repeat(`1,`, 520<<10)+`1]}`)), "VALIDATION_FAILED"},
	} {
		go write(test.line + "\n\r\n")
		if have := read(); !strings.Contains(have, test.want) {
			t.Errorf("%s: have %.300s, want %s", name, have, test.want)
		}
		go write(mcpCall(7, "echo", `{"n":1}`))
		if have := read(); !strings.Contains(have, `"id":7`) || !strings.Contains(have, `{\"n\":1}`) {
			t.Errorf("%s: have %.300s, want the next call answered", name, have)
		}
	}
}

// More calls at once than the door takes, and an id twice: each is answered.
func TestMCPFloods(t *testing.T) {
	u := newUntil()
	k := listing()
	k["until"] = u.call
	p := serveMCP(t, serve(t, k, config{}))
	const sent = 200
	go func() {
		_, _ = io.WriteString(p.in, mcpHello)
		for i := range sent {
			_, _ = io.WriteString(p.in, mcpCall(i+1, "until", "{}"))
		}
		_, _ = io.WriteString(p.in, mcpCall(1, "echo", "{}")) // its id is in use, or free again
	}()
	read := func(n int) (limited int) {
		for range n {
			line, err := p.out.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(line, "RATE_LIMITED") {
				limited++
			}
		}
		return limited
	}
	// The greeting, the one whose id was there before, and all that find no place.
	if limited := read(1 + 1 + sent - 64); limited < sent-64 {
		t.Errorf("have %d refused, want %d", limited, sent-64)
	}
	close(u.end)
	if limited := read(64); limited != 0 {
		t.Errorf("have %d more refused, want the 64 answered", limited)
	}
}

// D-08: a static binary of its own.
func TestMCPProgramIsStaticAndSmall(t *testing.T) {
	isStatic(t, testpeer.Program(t, "ipc-mcp"), 8<<20)
}

func isStatic(t *testing.T, program string, limit int64) {
	t.Helper()
	file, err := elf.Open(program)
	if err != nil {
		t.Skip("not an ELF system:", err)
	}
	defer func() { _ = file.Close() }() // read only
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP || segment.Type == elf.PT_DYNAMIC {
			t.Errorf("have a segment %v, want a static program", segment.Type)
		}
	}
	if info, err := os.Stat(program); err != nil || info.Size() > limit {
		t.Errorf("have %d bytes, %v, want at most %d", info.Size(), err, limit)
	}
}

// A list that is not one is an error, never an empty list.
func TestMCPListFailures(t *testing.T) {
	for name, result := range map[string]string{
		"no tools": `{}`, "a name that is none": `{"tools":[{"name":"X y","arguments_schema":{}}]}`, "no schema": `{"tools":[{"name":"x"}]}`, "a list": `[]`,
	} {
		k := kernel{"list_tools": func(context.Context, nacre.Call) (json.RawMessage, error) { return json.RawMessage(result), nil }}
		if _, err := connectMCP(t, serve(t, k, config{}), "", nil).ListTools(t.Context(), nil); err == nil {
			t.Errorf("%s: have no error", name)
		}
	}
	if _, err := connectMCP(t, serve(t, crew(), config{}), "", nil).ListTools(t.Context(), nil); err == nil {
		t.Error("a door that lists nothing: have no error")
	}
}
