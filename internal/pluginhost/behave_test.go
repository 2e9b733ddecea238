package pluginhost_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/testwait"
	"github.com/nacre-dev/nacre/plugin"
)

// behave is a handler, good or bad.
func behave(mode string) {
	switch mode {
	case "sdk":
		if err := plugin.Serve(sdkHandler()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "channel":
		if err := plugin.Serve(channelHandler()); err != nil {
			os.Exit(1)
		}
	case "initcrash":
		os.Exit(3)
	case "inithang", "stubborn":
		(&rawHandler{stubborn: mode == "stubborn", hangs: mode == "inithang"}).serve()
	case "initauth":
		(&rawHandler{initialize: `"error":{"code":1,"message":"m","data":{"code":"AUTH_ERROR","message":"password hunter2","retriable":false}}`}).serve()
	case "initodd":
		(&rawHandler{initialize: `"error":{"code":1,"message":"m","data":{"code":"SURPRISE","message":"m","retriable":false}}`}).serve()
	case "initgarbage":
		fmt.Println("hello")
		(&rawHandler{initialize: `"result":}`}).serve()
	case "shutdowncrash", "shutdownlater":
		(&rawHandler{ends: strings.TrimPrefix(mode, "shutdown")}).serve()
	case "raw":
		(&rawHandler{}).serve()
	}
}

func sdkHandler() plugin.Handler {
	return plugin.Handler{
		Initialize: func(ctx context.Context, s plugin.Setup) error {
			secret, err := s.Credential(ctx, "API_KEY")
			if err == nil {
				err = os.WriteFile(s.DataDir+"/credential", []byte(secret.Reveal()), 0o600)
			}
			return errors.Join(os.WriteFile(s.DataDir+"/config", s.Config, 0o600), ignoreMissing(err))
		},
		Tools: map[nacre.ToolName]plugin.ToolFunc{
			"echo": func(_ context.Context, r *plugin.Request) (any, error) {
				return map[string]any{"arguments": r.Arguments, "group": r.Group, "topic": r.Envelope.Topic, "correlation": r.Envelope.Correlation,
					"source": r.Envelope.Source, "version": r.Envelope.Version, "type": r.Envelope.Type}, nil
			},
			"files": func(_ context.Context, r *plugin.Request) (any, error) {
				said := map[string]string{}
				for argument, f := range r.Files {
					said[argument] = fmt.Sprintf("%s %d %.4s %d", f.Name, f.Bytes, f.SHA256, len(f.Content))
				}
				return said, nil
			},
			"parts": func(ctx context.Context, r *plugin.Request) (any, error) {
				said := map[string]string{}
				for argument, f := range r.Files {
					digest := sha256.New()
					n, err := io.Copy(digest, r.Open(ctx, argument))
					said[argument] = fmt.Sprintf("%d of %d, %d at once, whole: %t, %v", n, f.Bytes, len(f.Content), hex.EncodeToString(digest.Sum(nil)) == f.SHA256, err)
				}
				_, err := io.ReadAll(r.Open(ctx, "nothing"))
				said[""] = fmt.Sprint(err)
				return said, nil
			},
			"services": services,
			"slow": func(ctx context.Context, _ *plugin.Request) (any, error) {
				select {
				case <-time.After(300 * time.Millisecond):
				case <-ctx.Done():
				}
				return "done", nil
			},
			"panics": func(context.Context, *plugin.Request) (any, error) { panic("hunter2") },
		},
		HandleEvent: func(_ context.Context, e plugin.Envelope) { fmt.Fprintln(os.Stderr, "event", e.Topic) },
		Shutdown:    func(context.Context) error { return os.WriteFile("/dev/null", nil, 0) },
	}
}

// outcome is what a tool says of a publication.
func outcome(err error) string {
	if err != nil {
		return err.Error()
	}
	return "published"
}

// channelHandler serves a channel and a socket, and does what it is told.
func channelHandler() plugin.Handler {
	var setup plugin.Setup
	var socket net.Listener
	return plugin.Handler{
		Initialize: func(_ context.Context, s plugin.Setup) (err error) {
			setup = s
			socket, err = net.Listen("unix", s.DataDir+"/"+plugin.ListenSocket)
			return err
		},
		Verify: func(ctx context.Context, s plugin.Setup) error {
			secret, err := s.Credential(ctx, "API_KEY")
			if err != nil || secret.Reveal() != "right" {
				return &plugin.ToolError{Code: secret.Reveal(), Message: "hunter2 is refused", Retriable: false}
			}
			return nil
		},
		Tools: map[nacre.ToolName]plugin.ToolFunc{
			"receive": plugin.Tool(func(ctx context.Context, _ *plugin.Request, a struct {
				Topic   string
				Payload json.RawMessage
			}) (any, error) {
				return outcome(setup.Publish(ctx, a.Topic, a.Payload)), nil
			}),
			"credential": func(ctx context.Context, _ *plugin.Request) (any, error) {
				secret, err := setup.Credential(ctx, "API_KEY")
				return secret.Reveal(), err
			},
			"publish": plugin.Tool(func(ctx context.Context, r *plugin.Request, a struct {
				Topic   string
				Payload json.RawMessage
			}) (any, error) {
				return outcome(r.Publish(ctx, a.Topic, a.Payload)), nil
			}),
		},
		Shutdown: func(context.Context) error { return socket.Close() },
	}
}

// ignoreMissing lets a plugin start that lists no credential.
func ignoreMissing(err error) error {
	if err != nil && strings.Contains(err.Error(), "does not list") {
		return nil
	}
	return err
}

// services tries each service and reports what came.
func services(ctx context.Context, r *plugin.Request) (any, error) {
	report := map[string]string{}
	keep := func(name string, raw json.RawMessage, err error) {
		report[name] = string(raw)
		if err != nil {
			report[name] = err.Error()
		}
	}
	raw, err := r.AuditLog(ctx, plugin.AuditFilter{LastN: 3})
	keep("audit", raw, err)
	raw, err = r.ToolCatalog(ctx)
	keep("tools", raw, err)
	raw, err = r.SessionInfo(ctx)
	keep("session", raw, err)
	secret, err := r.Credential(ctx, "API_KEY")
	keep("credential", json.RawMessage(secret.Reveal()), err)
	_, err = r.Credential(ctx, "OTHER")
	keep("other", nil, err)
	keep("publish", nil, r.Publish(ctx, "p.note.added", map[string]int{"n": 1}))
	return report, nil
}

// rawHandler writes the protocol by hand, so that it can do it wrongly.
type rawHandler struct {
	initialize string
	stubborn   bool // ignores shutdown and the end of input
	hangs      bool
	ends       string // how a shutdown goes
	cancels    int
	verified   int
	tickets    []string
	channel    string
	answers    []string // to its own questions
}

func (h *rawHandler) serve() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Ticket   string
				Channel  string `json:"channel_ticket"`
				Envelope struct{ Topic string }
			}
			Result, Error json.RawMessage
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			os.Exit(9)
		}
		switch m.Method {
		case "":
			h.answers = append(h.answers, string(m.ID)+string(m.Result)+string(m.Error))
		case "verify":
			h.verify(string(m.ID))
		case "initialize":
			h.channel = m.Params.Channel
			if h.hangs {
				testwait.Stay()
			}
			if h.initialize == "" {
				h.initialize = `"result":{}`
			}
			say(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, h.initialize)
		case "cancel":
			h.cancels++
		case "shutdown":
			if h.stubborn {
				testwait.Stay()
			}
			switch h.ends {
			case "crash":
				os.Exit(4)
			case "later": // says that it is done, and is not
				say(`{"jsonrpc":"2.0","id":%s,"result":null}`, m.ID)
				testwait.Stay()
			}
			say(`{"jsonrpc":"2.0","id":%s,"result":null}`, m.ID)
			return
		case "handleRequest":
			h.tickets = append(h.tickets, m.Params.Ticket)
			h.answer(strings.TrimPrefix(m.Params.Envelope.Topic, "tool.invoke."), string(m.ID), m.Params.Ticket)
		}
	}
	if h.stubborn {
		testwait.Stay()
	}
}

// verify is answered wrongly, each time in another way.
func (h *rawHandler) verify(id string) {
	h.verified++
	switch h.verified {
	case 1:
		say(`{"jsonrpc":"2.0","id":%s,"error":{"code":1,"message":"hunter2","data":{"code":"SURPRISE","message":"m","retriable":false}}}`, id)
	case 2:
		say(`{"jsonrpc":"2.0","id":%s,"result":NaN}`, id)
	case 3: // never
	default:
		os.Exit(5)
	}
}

func mustJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

func (h *rawHandler) answer(tool, id, ticket string) {
	ok := `{"jsonrpc":"2.0","id":` + id + `,"result":`
	failed := `{"jsonrpc":"2.0","id":` + id + `,"error":`
	switch tool {
	case "lifelong":
		say(`{"jsonrpc":"2.0","id":300,"method":"getAuditLog","params":{"ticket":%q}}`, h.channel)
		say(`{"jsonrpc":"2.0","id":301,"method":"publishEvent","params":{"ticket":%q,"topic":"p.x","payload":{"channel":"post"}}}`, h.channel)
		say(`{"jsonrpc":"2.0","id":302,"method":"publishEvent","params":{"ticket":%q,"topic":"message.inbound","payload":{"channel":"post"}}}`, h.tickets[0])
		say("%s1}", ok)
	case "answered":
		say("%s%s}", ok, mustJSON(h.answers))
	case "echo", "null":
		say("%snull}", ok)
	case "toolerror":
		say(`%s{"code":1,"message":"m","data":{"code":"NOT_FOUND","message":"no such thing","retriable":true}}}`, failed)
	case "reserved":
		say(`%s{"code":1,"message":"m","data":{"code":"UNAUTHORIZED","message":"m","retriable":true}}}`, failed)
	case "untyped":
		say(`%s{"code":1,"message":"m","data":{"code":"X","message":"m","retriable":"no"}}}`, failed)
	case "plain":
		say(`%s{"code":1,"message":"/etc/secret hunter2"}}`, failed)
	case "nan":
		say("%sNaN}", ok)
	case "badutf8":
		say("%s\"\xff\"}", ok)
	case "deep":
		say("%s%s1%s}", ok, strings.Repeat("[", 500), strings.Repeat("]", 500))
	case "nothing":
		say(`{"jsonrpc":"2.0","id":%s}`, id)
	case "both":
		say(`%s1,"error":{"code":1,"message":"m"}}`, ok)
	case "big":
		say("%s%q}", ok, strings.Repeat("x", 1<<20))
	case "huge":
		say("%s%q}", ok, strings.Repeat("x", 9<<20))
	case "bigidlast":
		say(`{"jsonrpc":"2.0","result":%q,"id":%s}`, strings.Repeat("x", 9<<20), id)
	case "twice":
		say("%s1}", ok)
		say("%s2}", ok)
	case "prints":
		fmt.Println("loading…")
		fmt.Println("{half")
		say("%s1}", ok)
	case "stderr":
		fmt.Fprint(os.Stderr, strings.Repeat("hunter2 ", 4<<20))
		say("%s1}", ok)
	case "late":
		time.Sleep(300 * time.Millisecond)
		say("%s1}", ok)
	case "cancelled":
		say("%s%d}", ok, h.cancels)
	case "hang":
	case "borrow":
		for i, t := range append(h.tickets[:len(h.tickets)-1:len(h.tickets)-1], "", "guess", os.Getenv("OTHER_TICKET")) {
			say(`{"jsonrpc":"2.0","id":%d,"method":"getSessionInfo","params":{"ticket":%q}}`, 100+i, t)
		}
		say(`{"jsonrpc":"2.0","id":200,"method":"getAuditLog","params":{"ticket":%q,"filters":{"group":"other"}}}`, ticket)
		say("%s1}", ok)
	case "ticket":
		say("%s%q}", ok, ticket)
	default:
		misbehave(tool)
	}
}

func misbehave(tool string) {
	switch tool {
	case "die":
		fmt.Fprintln(os.Stderr, "panic: password hunter2")
		os.Exit(2)
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "closeout":
		_ = os.Stdout.Close()
		testwait.Stay()
	case "closein":
		_ = os.Stdin.Close()
		testwait.Stay()
	case "daemon":
		cmd := exec.Command("sleep", "1000")
		cmd.Stdout, cmd.Stderr, cmd.Stdin = os.Stdout, os.Stderr, os.Stdin
		if cmd.Start() == nil {
			os.Exit(4)
		}
	case "flood":
		for {
			say("spam")
		}
	case "floodanswers":
		for {
			say(`{"jsonrpc":"2.0","id":99999,"result":1}`)
		}
	case "floodcallbacks":
		for i := 0; ; i++ {
			say(`{"jsonrpc":"2.0","id":%d,"method":"getAuditLog","params":{"ticket":"x"}}`, i)
		}
	case "floodlong":
		chunk := strings.Repeat("x", 1<<20)
		for {
			fmt.Print(chunk)
		}
	case "deaf":
		testwait.Stay()
	}
}
