package plugin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
)

// host is the other end of a handler under test.
type host struct {
	t    *testing.T
	in   io.Writer
	out  *bufio.Reader
	done chan error
}

func serve(t *testing.T, h plugin.Handler) *host {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	s := &host{t, inW, bufio.NewReader(outR), make(chan error, 1)}
	go func() { s.done <- plugin.ServeOn(h, inR, outW) }()
	t.Cleanup(func() {
		_, _ = inW.Close(), outR.Close()
	})
	return s
}

func (h *host) say(line string) {
	h.t.Helper()
	if _, err := io.WriteString(h.in, line+"\n"); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) hear() string {
	h.t.Helper()
	line, err := h.out.ReadString('\n')
	if err != nil {
		h.t.Fatal(err)
	}
	return strings.TrimSuffix(line, "\n")
}

func request(id, tool, args string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"handleRequest","params":{"ticket":"T","timeout_ms":1000,"envelope":{"topic":"tool.invoke.` + tool + `","group":"family","payload":{"arguments":` + args + `}}}}`
}

// D-13: a handler is given the files that arguments name.
func TestARequestCarriesFiles(t *testing.T) {
	h := serve(t, plugin.Handler{Tools: map[nacre.ToolName]plugin.ToolFunc{
		"size": func(_ context.Context, r *plugin.Request) (any, error) {
			f := r.Files["parts.0.file"]
			return []any{f.Name, f.SHA256, f.Bytes, string(f.Content), len(r.Files)}, nil
		},
	}})
	files := `"files":{"parts.0.file":{"name":"a.txt","sha256":"00ff","bytes":3,"content_base64":"b25l"}},"envelope"`
	h.say(strings.Replace(request("1", "size", `{}`), `"envelope"`, files, 1))
	if have, want := h.hear(), `{"jsonrpc":"2.0","id":1,"result":["a.txt","00ff",3,"one",1]}`; have != want {
		t.Errorf("have %s\nwant %s", have, want)
	}
	h.say(request("2", "size", `{}`))
	if have, want := h.hear(), `{"jsonrpc":"2.0","id":2,"result":["","",0,"",0]}`; have != want {
		t.Errorf("have %s\nwant %s", have, want)
	}
}

type addArgs struct{ A, B int }

func calculator() plugin.Handler {
	return plugin.Handler{Tools: map[nacre.ToolName]plugin.ToolFunc{
		"add": plugin.Tool(func(_ context.Context, _ *plugin.Request, args addArgs) (any, error) { return args.A + args.B, nil }),
		"refuse": func(context.Context, *plugin.Request) (any, error) {
			return nil, errors.Join(&plugin.ToolError{Code: "NO", Message: "not today", Retriable: true})
		},
		"fail":    func(context.Context, *plugin.Request) (any, error) { return nil, errors.New("/etc/secret") },
		"panic":   func(context.Context, *plugin.Request) (any, error) { panic("/etc/secret") },
		"channel": func(context.Context, *plugin.Request) (any, error) { return make(chan int), nil },
		"cycle": func(context.Context, *plugin.Request) (any, error) {
			loop := map[string]any{}
			loop["self"] = loop
			return loop, nil
		},
		"nan":  func(context.Context, *plugin.Request) (any, error) { return math.NaN(), nil },
		"wait": func(ctx context.Context, _ *plugin.Request) (any, error) { <-ctx.Done(); return "cancelled", nil },
		"ask": func(ctx context.Context, r *plugin.Request) (any, error) {
			raw, err := r.AuditLog(ctx, plugin.AuditFilter{Correlation: "c-1"})
			return json.RawMessage(raw), err
		},
	}}
}

// D-21: each way a tool can end, as it stands on the wire.
func TestServeAnswers(t *testing.T) {
	h := serve(t, calculator())
	const internal = `"error":{"code":-32603,"message":"internal plugin error"}}`
	for _, c := range []struct{ line, want string }{
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocol":1,"config":{}}}`, `{"jsonrpc":"2.0","id":1,"result":null}`},
		{request("2", "add", `{"a":1,"b":2}`), `{"jsonrpc":"2.0","id":2,"result":3}`},
		{request("3", "refuse", `{}`), `{"jsonrpc":"2.0","id":3,"error":{"code":-32000,"message":"not today","data":{"code":"NO","message":"not today","retriable":true}}}`},
		{request("4", "fail", `{}`), `{"jsonrpc":"2.0","id":4,` + internal},
		{request("5", "panic", `{}`), `{"jsonrpc":"2.0","id":5,` + internal},
		{request("6", "channel", `{}`), `{"jsonrpc":"2.0","id":6,` + internal},
		{request("21", "cycle", `{}`), `{"jsonrpc":"2.0","id":21,` + internal},
		{request("22", "nan", `{}`), `{"jsonrpc":"2.0","id":22,` + internal},
		{request("7", "add", `{"a":"x"}`), `{"jsonrpc":"2.0","id":7,` + internal},
		{request("8", "none", `{}`), `{"jsonrpc":"2.0","id":8,` + internal},
		{`{"jsonrpc":"2.0","id":9,"method":"dance"}`, `{"jsonrpc":"2.0","id":9,"error":{"code":-32601,"message":"unknown method"}}`},
		{request("10", "wait", `{}`) + "\n" + `{"jsonrpc":"2.0","method":"cancel","params":{"id":10}}`, `{"jsonrpc":"2.0","id":10,"result":"cancelled"}`},
		{request("11", "ask", `{}`), `{"jsonrpc":"2.0","id":1,"method":"getAuditLog","params":{"ticket":"T","filters":{"correlation":"c-1"}}}`},
		{`{"jsonrpc":"2.0","id":1,"result":[1]}`, `{"jsonrpc":"2.0","id":11,"result":[1]}`},
		{request("12", "ask", `{}`), `{"jsonrpc":"2.0","id":2,"method":"getAuditLog","params":{"ticket":"T","filters":{"correlation":"c-1"}}}`},
		{`{"jsonrpc":"2.0","id":2,"error":{"code":-32001,"message":"no"}}`, `{"jsonrpc":"2.0","id":12,` + internal},
		{`{"jsonrpc":"2.0","id":13,"method":"shutdown"}`, `{"jsonrpc":"2.0","id":13,"result":null}`},
	} {
		h.say(c.line)
		if have := h.hear(); have != c.want {
			t.Errorf("%s\nhave %s\nwant %s", c.line, have, c.want)
		}
	}
	if err := <-h.done; err != nil {
		t.Errorf("after shutdown: %v", err)
	}
}

// D-33: what a channel receives is published under its own ticket, at any time.
func TestSetupPublishes(t *testing.T) {
	var setup plugin.Setup
	h := serve(t, plugin.Handler{
		Initialize: func(_ context.Context, s plugin.Setup) error { setup = s; return nil },
		Verify: func(ctx context.Context, s plugin.Setup) error {
			_, err := s.Credential(ctx, "KEY")
			return err
		},
	})
	const answered = `{"jsonrpc":"2.0","id":1,"result":null}`
	for _, c := range []struct{ ticket, want string }{
		{"", "this host serves no channels, or the manifest provides none"},
		{`,"channel_ticket":"C"`, ""},
	} {
		h.say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocol":1,"ticket":"I","config":{}` + c.ticket + `}}`)
		if have := h.hear(); have != answered {
			t.Fatalf("have %s", have)
		}
		h.say(`{"jsonrpc":"2.0","id":2,"method":"verify","params":{"ticket":"V"}}`)
		ticket := map[bool]string{true: "C", false: "V"}[c.want == ""]
		if have := h.hear(); !strings.Contains(have, `"method":"readCredential","params":{"ticket":"`+ticket+`","key":"KEY"}`) {
			t.Errorf("have %s", have)
		} else {
			h.say(`{"jsonrpc":"2.0","id":` + idOf(t, have) + `,"result":"s"}`)
		}
		if have := h.hear(); have != `{"jsonrpc":"2.0","id":2,"result":null}` {
			t.Errorf("have %s", have)
		}
		done := make(chan error, 1)
		go func() {
			done <- setup.Publish(context.Background(), plugin.TopicInbound, map[string]string{"channel": "post"})
		}()
		if c.want == "" {
			have := h.hear()
			if !strings.Contains(have, `"method":"publishEvent","params":{"ticket":"C","topic":"message.inbound","payload":{"channel":"post"}}`) {
				t.Errorf("have %s", have)
			}
			h.say(`{"jsonrpc":"2.0","id":` + idOf(t, have) + `,"result":true}`)
		}
		if err := <-done; c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
			t.Errorf("have %v, want %q", err, c.want)
		}
	}
}

func idOf(t *testing.T, line string) string {
	t.Helper()
	var m plugin.Message
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		t.Fatal(err)
	}
	return string(m.ID)
}

func TestServeEnds(t *testing.T) {
	if err := plugin.ServeOn(plugin.Handler{}, strings.NewReader(""), io.Discard); err != nil {
		t.Errorf("end of input: %v", err)
	}
	if err := plugin.ServeOn(plugin.Handler{}, strings.NewReader("garbage\n"), io.Discard); err == nil {
		t.Error("garbage from the host: accepted")
	}
}

// Services do not exist outside a request.
func TestRequestOfItsOwnMaking(t *testing.T) {
	if _, err := (&plugin.Request{}).SessionInfo(t.Context()); err == nil {
		t.Error("answered")
	}
}
