package mcpserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre/internal/ipc/mcpserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func noDoor(context.Context) (net.Conn, error) { return nil, errors.New("no door") }

// serve gives the server all of its input at once and returns what it wrote.
func serve(t *testing.T, input []byte) (out string) {
	t.Helper()
	var written bytes.Buffer
	if err := mcpserver.Serve(t.Context(), noDoor, "test", io.NopCloser(bytes.NewReader(input)), &written); err != nil {
		t.Fatalf("have %v, want the end of input to be none", err)
	}
	return written.String()
}

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n"

// Without a door the protocol is spoken all the same, and says what is missing.
func TestWithoutADoor(t *testing.T) {
	out := serve(t, []byte(hello+`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"+`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`+"\n"+
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{}}}`+"\n"))
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 3 {
		t.Fatalf("have %q, want three answers", lines)
	}
	for _, want := range []string{`"serverInfo":{"name":"nacre"`, `"the tools cannot be listed"`, `"isError":true`, "IPC_TIMEOUT"} {
		if !strings.Contains(out, want) {
			t.Errorf("have %s, want %s", out, want)
		}
	}
	if strings.Contains(out, `"prompts"`) || strings.Contains(out, `"resources"`) || strings.Contains(out, `"logging"`) {
		t.Errorf("have %s, want tools alone", out)
	}
}

// Whatever stands where parameters should be, each request has its answer.
func TestParametersThatAreNone(t *testing.T) {
	var input strings.Builder
	want := 1
	input.WriteString(hello)
	for _, method := range []string{"tools/list", "tools/call", "ping", "prompts/list", "prompts/get", "resources/read", "resources/subscribe",
		"logging/setLevel", "completion/complete", "server/discover", "subscriptions/listen", "initialize", "notifications/initialized", ""} {
		for _, params := range []string{``, `,"params":null`, `,"params":{}`, `,"params":[]`, `,"params":1`, `,"params":{"name":null,"arguments":null,"cursor":null,"_meta":null}`, `,"params":{"_meta":{"progressToken":{}},"name":1}`} {
			fmt.Fprintf(&input, `{"jsonrpc":"2.0","id":%d,"method":%q%s}`+"\n", want, method, params)
			want++
		}
	}
	answers := strings.Count(serve(t, []byte(input.String())), "\n")
	if answers != want {
		t.Errorf("have %d answers to %d requests", answers, want)
	}
}

// FuzzServe writes any bytes to the server: it ends with its input, and what it
// wrote is one message of JSON a line.
func FuzzServe(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}` + "\n[]\nnull\n{}\n"))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"a","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}` + "\n"))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x","arguments":{}}}` + "\n"))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}` + "\n" + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}` + "\n"))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1.5,"method":"tools/list","params":{"cursor":"x"}}` + "\r\n" + `{"jsonrpc":"2.0","id":-0,"method":"subscriptions/listen","params":{}}`))
	f.Fuzz(func(t *testing.T, stream []byte) {
		for line := range strings.Lines(serve(t, append([]byte(hello), stream...))) {
			if !json.Valid([]byte(line)) {
				t.Errorf("have %q, want JSON", line)
			}
		}
	})
}
