package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nacre-dev/nacre"
)

// Limits of a server.
const (
	// MaxMessage is the largest message that is read, in bytes: it holds a result
	// twice, as text and structured.
	MaxMessage = 4 << 20

	maxTools   = 1000
	maxPages   = 100
	maxNotices = 10_000      // notifications between two answers
	closing    = time.Second // for the end of a session
)

// A Peer is how a server is reached: Stream, or URL with Transport.
type Peer struct {
	// Stream speaks as a server's standard streams do. Close must end reads.
	Stream io.ReadWriteCloser

	// URL is the endpoint of a server that speaks streamable HTTP.
	URL string
	// Transport carries its requests; it decides what is reached.
	Transport http.RoundTripper
	// Bearer, unless empty, goes with each request as authorization.
	Bearer nacre.Secret
}

// errFlood ends a session whose server only talks.
var errFlood = errors.New("the server sends notifications without end")

// client is a session with a server.
type client struct {
	session *sdk.ClientSession
	trips   *trips // of HTTP; nil else
	note    func(what string)
	// changed holds a value while the server's tools may have changed.
	changed chan struct{}
	notices atomic.Int64
	gone    chan struct{}
	close   func()
}

// connect opens a session, which ends by close or when the server ends it. note
// is told what a server does that is not in order; its words are the server's.
func connect(ctx context.Context, p Peer, note func(string)) (*client, error) {
	c := &client{note: note, changed: make(chan struct{}, 1), gone: make(chan struct{})}
	transport, err := c.transport(p)
	if err != nil {
		return nil, err
	}
	if c.session, err = c.sdk().Connect(ctx, transport, nil); err != nil {
		if p.Stream != nil {
			_ = p.Stream.Close() // nobody reads it any more
		}
		return nil, c.failed(ctx, fmt.Errorf("connect: %w", err))
	}
	c.close = sync.OnceFunc(func() {
		if p.Stream != nil {
			_ = p.Stream.Close() // a server that does not read would hold up the session's end
		}
		_ = c.session.Close() // how it ended is told by the calls that fail
	})
	go func() {
		_ = c.session.Wait() // how it ended is told by the calls that fail
		c.close()
		close(c.gone)
	}()
	return c, nil
}

func (c *client) transport(p Peer) (sdk.Transport, error) {
	if p.Stream != nil {
		return &sdk.IOTransport{Reader: p.Stream, Writer: p.Stream, MaxLineLength: MaxMessage}, nil
	}
	if p.URL == "" || p.Transport == nil {
		return nil, errors.New("there is no way to the server")
	}
	c.trips = &trips{next: p.Transport, bearer: p.Bearer}
	return &sdk.StreamableClientTransport{
		Endpoint:             p.URL,
		HTTPClient:           &http.Client{Transport: c.trips, CheckRedirect: refuseRedirect},
		DisableStandaloneSSE: true, MaxRetries: -1, MaxEventSize: MaxMessage,
	}, nil
}

func (c *client) sdk() *sdk.Client {
	options := &sdk.ClientOptions{
		Capabilities:   &sdk.ClientCapabilities{},
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true}, // a call is sent once
	}
	if c.trips == nil { // over HTTP this would keep a stream open
		options.ToolListChangedHandler = func(context.Context, *sdk.ToolListChangedRequest) { c.suspect() }
	}
	own := sdk.NewClient(&sdk.Implementation{Name: "nacre", Version: "1"}, options)
	own.AddReceivingMiddleware(c.receive)
	own.AddSendingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, request sdk.Request) (sdk.Result, error) {
			result, err := next(ctx, method, request)
			if list, ok := result.(*sdk.ListToolsResult); ok && list != nil {
				list.TTLMs = 0 // how long a list is good for is not the server's to say
			}
			return result, err
		}
	})
	return own
}

// receive refuses what a server asks for and counts what it tells.
func (c *client) receive(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, request sdk.Request) (sdk.Result, error) {
		switch method {
		case "sampling/createMessage", "elicitation/create", "roots/list":
			c.note("the server asks for " + method + ", which is refused")
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "not offered"}
		case "notifications/tools/list_changed":
			c.suspect()
		}
		if c.notices.Add(1) == maxNotices {
			c.note(errFlood.Error())
			go c.close()
		}
		return next(ctx, method, request)
	}
}

// suspect asks for another look at the server's tools.
func (c *client) suspect() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// tools lists what the server offers, in its order.
func (c *client) tools(ctx context.Context) ([]*sdk.Tool, error) {
	var all []*sdk.Tool
	seen := map[string]bool{}
	params := &sdk.ListToolsParams{}
	for range maxPages {
		page, err := c.session.ListTools(ctx, params)
		if err != nil {
			return nil, c.failed(ctx, fmt.Errorf("list tools: %w", err))
		}
		c.notices.Store(0)
		for _, t := range page.Tools {
			if t == nil || seen[t.Name] {
				return nil, errors.New("the server lists a tool twice, or one without a name")
			}
			seen[t.Name] = true
			all = append(all, t)
		}
		if len(all) > maxTools {
			return nil, fmt.Errorf("the server lists more than %d tools", maxTools)
		}
		if page.NextCursor == "" {
			return all, nil
		}
		params = &sdk.ListToolsParams{Cursor: page.NextCursor}
	}
	return nil, fmt.Errorf("the server lists its tools on more than %d pages", maxPages)
}

// call carries out one call, sent once.
func (c *client) call(ctx context.Context, tool string, arguments json.RawMessage) (*sdk.CallToolResult, error) {
	result, err := c.session.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return nil, c.failed(ctx, err)
	}
	c.notices.Store(0)
	return result, nil
}

// failed says that time ran out instead of what that did to the connection.
func (c *client) failed(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if c.trips != nil {
		return c.trips.explain(err)
	}
	return err
}
