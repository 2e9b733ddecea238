// Package mcpdriver promises that the tools of an MCP server become capabilities under the
// operator's rules (K-13). What a server says of its own tools counts only where the operator
// trusts the server, and a tool that nobody classed is DESTRUCTIVE. A tool whose definition changes
// after it was registered is refused. Schemas are closed, or their tool is left out. What a server
// answers is bounded, untrusted, and JSON or an error.
//
// It speaks stdio and streamable HTTP through the official SDK, in the
// revisions 2026-07-28 and 2025-11-25 and with older servers as the SDK does.
// It gives servers nothing: no roots, no sampling, no elicitation, no
// environment. It does not restart a server that died, and does not seal the
// process of a stdio server; see Server.Connect.
package mcpdriver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nacre-dev/nacre"
)

// The limits of a server.
const (
	// DefaultTimeout bounds each exchange, and the opening, where Server says nothing.
	DefaultTimeout = 30 * time.Second
	// MaxMessage is the largest message that is read, MaxResult the largest
	// result of a call, in bytes.
	MaxMessage = 8 << 20
	MaxResult  = 2 << 20

	maxTools = 1000
	maxPages = 100
	// maxDescription is the longest description of a tool, in bytes.
	maxDescription = 8 << 10
	// listingAge is how old the list of tools may be when a call relies on it.
	listingAge = time.Minute
)

// Server says how a server is reached and what its tools may be. Name, and one
// of Command, URL and Connect, are required.
type Server struct {
	// Name is the first part of its capabilities' ids: letters of a–z, digits, _ and -.
	Name string

	Process
	// Connect reaches a server that speaks as on standard streams, such as one in
	// a sandbox. Close of what it returns must end reads.
	Connect func(ctx context.Context) (io.ReadWriteCloser, error)

	Endpoint

	// Protocol is the revision to ask for, such as "2025-11-25" for a server that
	// cannot stand a newer one; empty means the newest.
	Protocol string
	// Timeout bounds each exchange; zero means DefaultTimeout.
	Timeout time.Duration

	// Trusted lets the server's own annotations class its tools.
	Trusted bool
	// Classes are the operator's own, by the tool's name on the server; they win.
	Classes map[string]nacre.SafetyClass
	// Unannotated is what becomes of a tool that nothing classes: READ, WRITE,
	// DESTRUCTIVE or Reject; empty means DESTRUCTIVE.
	Unannotated string
	// Sensitivity of all tools; the zero value is SECRETS, the strictest.
	Sensitivity nacre.Sensitivity
	// Sinks are the arguments in which a wrong value does harm, by the tool's name. A tool that is
	// not listed has all its arguments as sinks, or is left out where its schema does not list
	// them.
	Sinks map[string][]string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Process starts a server that speaks on its standard streams.
type Process struct {
	// Command is the program and its arguments; the first element is a path. It
	// runs with the rights of this process.
	Command []string
	// Dir is the command's folder; empty means the current one.
	Dir string
	// Env is the command's whole environment; nothing is inherited.
	Env []string
	// SecretEnv is added to Env.
	SecretEnv map[string]nacre.Secret
	// Stderr gets what the command writes there; nil drops it.
	Stderr io.Writer
}

// Endpoint reaches a server that speaks streamable HTTP.
type Endpoint struct {
	// URL is where it listens. Redirects are refused.
	URL string
	// Cleartext allows a URL of the scheme http.
	Cleartext bool
	// Secrets are headers of every HTTP request.
	Secrets map[string]nacre.Secret
	// Transport carries HTTP requests; nil means one that uses no proxy.
	Transport http.RoundTripper
}

// Reject leaves out tools that nothing classes.
const Reject = "reject"

func (s Server) check() (Server, error) {
	if _, err := nacre.ParsePluginName(s.Name); err != nil {
		return s, fmt.Errorf("name: %w", err)
	}
	ways := 0
	for _, given := range []bool{len(s.Command) > 0, s.Connect != nil, s.URL != ""} {
		if given {
			ways++
		}
	}
	switch {
	case ways != 1:
		return s, errors.New("give exactly one of Command, URL and Connect")
	case s.Timeout < 0:
		return s, fmt.Errorf("timeout of %v: use a positive time", s.Timeout)
	case s.Sensitivity > nacre.SensitiveNone:
		return s, fmt.Errorf("unknown sensitivity %d", s.Sensitivity)
	}
	if _, err := s.unannotated(); err != nil && !errors.Is(err, errRejected) {
		return s, err
	}
	for name, class := range s.Classes {
		if class > nacre.Read {
			return s, fmt.Errorf("unknown safety class %d of tool %.80q", class, name)
		}
	}
	if s.Timeout == 0 {
		s.Timeout = DefaultTimeout
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	return s, nil
}

// Client is a connection to a server. It is safe for concurrent use.
type Client struct {
	server  Server
	session *mcp.ClientSession
	// stop ends what the connection needs beyond the session; gone is closed when
	// the session has ended, whoever ended it.
	stop func()
	gone chan struct{}

	// changed is set when the server says that its tools are not what they were.
	changed atomic.Bool
	// listing is held by whoever lists; it guards hashes and listed.
	listing chan struct{}
	hashes  map[string]string
	listed  time.Time
	closing sync.Once
}

// Open connects to a server. The client must be closed.
func Open(ctx context.Context, s Server) (*Client, error) {
	s, err := s.check()
	if err != nil {
		return nil, fmt.Errorf("mcp server %.80q: %w", s.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	c := &Client{server: s, gone: make(chan struct{}), listing: make(chan struct{}, 1), stop: func() {}}
	transport, err := c.transport(ctx)
	if err != nil {
		return nil, fmt.Errorf("mcp server %s: %w", s.Name, err)
	}
	c.session, err = c.sdk().Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: s.Protocol})
	if err != nil {
		c.stop()
		return nil, fmt.Errorf("mcp server %s: connect: %w", s.Name, plain(ctx, err))
	}
	go func() {
		_ = c.session.Wait() // how it ended is told by the calls that fail
		c.stop()
		close(c.gone)
	}()
	return c, nil
}

func (c *Client) sdk() *mcp.Client {
	options := &mcp.ClientOptions{
		Capabilities:   &mcp.ClientCapabilities{},
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true}, // a call is sent once
	}
	if c.server.URL == "" { // over HTTP this would keep a stream open
		options.ToolListChangedHandler = func(context.Context, *mcp.ToolListChangedRequest) { c.changed.Store(true) }
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "nacre", Version: "1"}, options)
	client.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
			if method == "notifications/tools/list_changed" {
				c.changed.Store(true)
			}
			return next(ctx, method, request)
		}
	})
	client.AddSendingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
			result, err := next(ctx, method, request)
			if list, ok := result.(*mcp.ListToolsResult); ok && list != nil {
				list.TTLMs = 0 // how long a list is good for is not the server's to say
			}
			return result, err
		}
	})
	return client
}

// Protocol is the revision that was agreed on.
func (c *Client) Protocol() string { return c.session.InitializeResult().ProtocolVersion }

// Close waits for calls under way, each of which its own deadline ends, then
// ends the session, and waits for the server's process to end.
func (c *Client) Close() error {
	var err error
	c.closing.Do(func() {
		err = c.session.Close()
		<-c.gone
	})
	return err
}

// goneError says that the server has ended; kernels tell agents that the tool is unavailable.
type goneError struct{ name string }

func (e *goneError) Error() string {
	return fmt.Sprintf("mcp server %s has ended: open it again", e.name)
}

// Unavailable reports true.
func (e *goneError) Unavailable() bool { return true }

// alive is an error, with nothing sent, once the session has ended.
func (c *Client) alive() error {
	select {
	case <-c.gone:
		return nacre.NotSent(&goneError{c.server.Name})
	default:
		return nil
	}
}

// plain says that time ran out instead of what that did to the connection.
func plain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}
