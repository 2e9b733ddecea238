// Package mcpserver promises the agent's side of the door in MCP (D-08). It is a server on standard
// input and output whose tools are those that list_tools names. Its calls go through the same
// socket and the same pipeline as those of ipc. It adds no tool, no authority and no check, and
// keeps nothing between two messages: what a tool is and who may call it is the host's to say.
package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/ipc"
	"github.com/nacre-dev/nacre/internal/message"
	"github.com/nacre-dev/nacre/internal/wire"
)

const (
	// maxCalls is how many calls are under way at once, the door's own limit (D-03).
	maxCalls = 64
	// catalogueTool is the intrinsic that names the tools.
	catalogueTool = "list_tools"
	// progressEvery is the time between two notes that a person is being asked.
	progressEvery = 10 * time.Second
)

// The methods that are the door's to answer.
const (
	methodList = "tools/list"
	methodCall = "tools/call"
)

const instructions = "The tools are carried out on the host, outside of this sandbox; each call is decided, recorded, and for some a person is asked first. " +
	`An error is an object {"code","message","retriable"} with "stage", "field" and "retry_after" where they apply.`

// revisions of MCP that are spoken.
func revisions() []string { return []string{"2026-07-28", "2025-11-25", "2025-06-18"} }

// Main is the program ipc-mcp. It returns the exit code: 0 when the client
// ended its side, 1 when it could not be talked to.
func Main(version string, stdin io.ReadCloser, stdout, stderr io.Writer) int {
	if err := Serve(context.Background(), ipc.Door(), version, stdin, stdout); err != nil {
		_, _ = fmt.Fprintln(stderr, "ipc-mcp: "+err.Error()) // there is nowhere else to say it
		return 1
	}
	return 0
}

// Serve answers the client of in and out by the door that dial reaches, until
// in or ctx ends. When in ends, questions to a person are withdrawn, and what
// else is under way is still answered; when ctx ends, nothing is. in must fail
// or end for Serve to leave nothing behind.
func Serve(ctx context.Context, dial ipc.Dialer, version string, in io.ReadCloser, out io.Writer) error {
	s := &server{dial: dial, places: make(chan struct{}, maxCalls), ending: make(chan struct{})}
	m := mcp.NewServer(&mcp.Implementation{Name: "nacre", Version: version}, &mcp.ServerOptions{
		Instructions: instructions, SupportedProtocolVersions: revisions(),
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = "private" },
	})
	m.AddReceivingMiddleware(s.middleware)
	return m.Run(ctx, &transport{in: in, out: out, ending: func() { close(s.ending) }})
}

type server struct {
	dial ipc.Dialer
	// places holds a token for each call under way.
	places chan struct{}
	// ending is closed when the client will send nothing more.
	ending chan struct{}
}

// middleware sends the two methods of tools to the door; the library answers
// the rest of the protocol.
func (s *server) middleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (result mcp.Result, err error) {
		defer func() {
			if recover() != nil { // one message must not end the others
				result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
			}
		}()
		switch request := request.(type) {
		case *mcp.ListToolsRequest:
			if method == methodList {
				return s.list(ctx, request.Params)
			}
		case *mcp.CallToolRequest:
			if method == methodCall && request.Params != nil {
				return s.call(ctx, request), nil
			}
		}
		return next(ctx, method, request)
	}
}

// ask carries one call, unless too many are under way.
func (s *server) ask(ctx context.Context, tool string, arguments []byte, asked func(time.Duration)) ipc.Answer {
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	default:
		return ipc.Answer{Failure: message.AppendRefusal(nil, &nacre.Refusal{
			Code: nacre.CodeRateLimited, Message: fmt.Sprintf("%d calls are under way", maxCalls), Retriable: true, Stage: 4, RetryAfter: 1,
		})}
	}
	request := message.Request{Topic: message.TopicPrefix + tool, Correlation: ipc.NewCorrelation(), Arguments: arguments}
	return ipc.Ask(ctx, s.dial, request, asked)
}

// call answers with what the tool returned, or with the error object, which
// the model is to see: MCP's own errors are for what is not a call at all.
func (s *server) call(ctx context.Context, request *mcp.CallToolRequest) *mcp.CallToolResult {
	arguments := request.Params.Arguments
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	ctx, cancel := context.WithCancel(ctx)
	var once sync.Once
	var waiting sync.WaitGroup
	answer := s.ask(ctx, request.Params.Name, arguments, func(left time.Duration) {
		once.Do(func() { waiting.Go(func() { s.wait(ctx, cancel, left, noteOf(request)) }) })
	})
	cancel()
	waiting.Wait()
	if answer.Failure != nil {
		return &mcp.CallToolResult{IsError: true, Content: text(answer.Failure), StructuredContent: answer.Failure}
	}
	return &mcp.CallToolResult{Content: text(answer.Result)}
}

// wait is beside a call while a person is asked: it tells the client so, and
// withdraws the call where the client is gone.
func (s *server) wait(ctx context.Context, withdraw context.CancelFunc, left time.Duration, note func(ctx context.Context, passed, left time.Duration)) {
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	begun := time.Now()
	for {
		note(ctx, time.Since(begun), left)
		select {
		case <-ticker.C:
		case <-s.ending:
			withdraw()
			return
		case <-ctx.Done():
			return
		}
	}
}

// noteOf says to a client that asked for progress that a person is being
// asked, so that it does not give up the call meanwhile.
func noteOf(request *mcp.CallToolRequest) func(ctx context.Context, passed, left time.Duration) {
	token := request.Params.GetProgressToken()
	return func(ctx context.Context, passed, left time.Duration) {
		if token == nil {
			return
		}
		_ = request.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ // the call ends with its client
			ProgressToken: token, Progress: passed.Seconds(), Total: max(left, passed).Seconds(),
			Message: fmt.Sprintf("a person is being asked, and has %v", max(left-passed, 0).Round(time.Second)),
		})
	}
}

func text(document []byte) []mcp.Content {
	return []mcp.Content{&mcp.TextContent{Text: string(document)}}
}

// list asks the door each time: the catalogue is the host's, and may change. A
// page's cursor is the host's too: the last name of the page before.
func (s *server) list(ctx context.Context, params *mcp.ListToolsParams) (*mcp.ListToolsResult, error) {
	arguments := []byte("{}")
	if params != nil && params.Cursor != "" {
		arguments = append(wire.AppendText([]byte(`{"after":`), params.Cursor), '}')
	}
	answer := s.ask(ctx, catalogueTool, arguments, nil)
	if answer.Failure != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the tools cannot be listed", Data: answer.Failure}
	}
	tools, next, err := parseCatalogue(answer.Result)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the list of tools is not one: " + err.Error()}
	}
	return &mcp.ListToolsResult{Tools: tools, NextCursor: next, Cacheable: mcp.Cacheable{CacheScope: "private"}}, nil
}

// parseCatalogue turns what list_tools returns into MCP's form, in its order.
// next is where the following page begins; empty on the last.
func parseCatalogue(result []byte) (tools []*mcp.Tool, next string, err error) {
	var catalogue struct {
		Tools []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Arguments   json.RawMessage `json:"arguments_schema"`
		} `json:"tools"`
		Next string `json:"next"`
	}
	if err := json.Unmarshal(result, &catalogue); err != nil {
		return nil, "", err
	}
	if catalogue.Tools == nil {
		return nil, "", errors.New("no tools in it")
	}
	tools = make([]*mcp.Tool, 0, len(catalogue.Tools))
	for _, t := range catalogue.Tools {
		if _, err := nacre.ParseToolName(t.Name); err != nil {
			return nil, "", err
		}
		if len(t.Arguments) == 0 || t.Arguments[0] != '{' {
			return nil, "", fmt.Errorf("tool %s has no schema", t.Name)
		}
		tools = append(tools, &mcp.Tool{Name: t.Name, Description: t.Description, InputSchema: t.Arguments})
	}
	return tools, catalogue.Next, nil
}
