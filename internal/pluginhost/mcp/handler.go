package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/mcptool"
	"github.com/nacre-dev/nacre/plugin"
)

const (
	maxCalls  = 64               // at once
	maxNamed  = 8                // extra tools that are named in a note
	recheck   = 10 * time.Second // for the list of tools after it has changed
	tooLarge  = "RESPONSE_TOO_LARGE"
	toolError = "TOOL_ERROR"
	badArgs   = "INVALID_ARGUMENTS"
)

// CodeTooLarge is the code of a JSON-RPC error that stands in for an answer
// which is larger than [MaxMessage].
const CodeTooLarge = -32099

// Handler is a plugin's handler that hands every call to an MCP server.
type Handler struct {
	// Plugin and Manifest are the plugin's own; the tools are pinned by the latter.
	Plugin   nacre.PluginName
	Manifest plugin.Manifest
	// Reach gives the way to the server; s is good for its credential.
	Reach func(ctx context.Context, s plugin.Setup) (Peer, error)
	// Note is told what the server does that is not in order: extra tools, other
	// descriptions, requests. It may hold the server's words, cut.
	Note func(what string)
	// Gone is called, from a goroutine of its own, when a session has ended.
	Gone func()
	// Log gets errors of single calls.
	Log io.Writer
}

// bridge is a handler at work.
type bridge struct {
	Handler
	calls chan struct{}

	mu      sync.Mutex
	client  *client
	names   map[nacre.ToolName]string // as the server has them
	watches sync.WaitGroup
}

// Serve makes a handler for [plugin.ServeOn]. Stop ends its session and waits for what it
// started; it must be called once ServeOn has returned.
func (h Handler) Serve() (handler plugin.Handler, stop func()) {
	b := &bridge{Handler: h, calls: make(chan struct{}, maxCalls)}
	tools := map[nacre.ToolName]plugin.ToolFunc{}
	for _, t := range h.Manifest.Provides.Tools {
		tools[t.Name] = b.tool
	}
	return plugin.Handler{
		Initialize: b.initialize, Verify: func(ctx context.Context, _ plugin.Setup) error { return starting(b.check(ctx)) },
		Tools: tools, Shutdown: func(context.Context) error { b.end(); return nil }, Log: h.Log,
	}, func() { b.end(); b.watches.Wait() }
}

// initialize opens the session and holds the server against the manifest.
func (b *bridge) initialize(ctx context.Context, s plugin.Setup) error {
	peer, err := b.Reach(ctx, s)
	if err != nil {
		return err
	}
	c, err := connect(ctx, peer, b.Note)
	if err != nil {
		return starting(err)
	}
	b.mu.Lock()
	b.client = c
	b.mu.Unlock()
	b.watches.Go(func() { b.watch(c) })
	return starting(b.check(ctx))
}

// starting tells the host the category of what went wrong at a start.
func starting(err error) error {
	var known *categorised
	if errors.As(err, &known) {
		return &plugin.ToolError{Code: known.category, Message: mcptool.Clip(err.Error())}
	}
	return err
}

func configError(format string, values ...any) error {
	return &categorised{plugin.CategoryConfig, fmt.Errorf(format, values...)}
}

// watch holds the server against the manifest again when it says that its tools
// have changed, and ends a session that no longer fits.
func (b *bridge) watch(c *client) {
	for {
		select {
		case <-c.gone:
			b.Gone()
			return
		case <-c.changed:
		}
		ctx, cancel := context.WithTimeout(context.Background(), recheck)
		if err := b.check(ctx); err != nil {
			b.Note("the server's tools have changed: " + mcptool.Clip(err.Error()))
			c.close()
		}
		cancel()
	}
}

// check finds each of the manifest's tools on the server, by its name or by
// its name behind the plugin's.
func (b *bridge) check(ctx context.Context) error {
	c := b.session()
	if c == nil {
		return errors.New("there is no session with the server")
	}
	offered, err := c.tools(ctx)
	if err != nil {
		return err
	}
	byName := map[nacre.ToolName][]*sdk.Tool{}
	for _, t := range offered {
		name := nacre.ToolName(mcptool.Name(t.Name))
		byName[name] = append(byName[name], t)
	}
	names := map[nacre.ToolName]string{}
	used := map[string]bool{}
	for _, t := range b.Manifest.Provides.Tools {
		match, err := b.match(t, byName)
		if err != nil {
			return err
		}
		names[t.Name], used[match.Name] = match.Name, true
	}
	b.remark(offered, used)
	b.mu.Lock()
	b.names = names
	b.mu.Unlock()
	return nil
}

func (b *bridge) match(t plugin.ToolSpec, byName map[nacre.ToolName][]*sdk.Tool) (*sdk.Tool, error) {
	found := byName[t.Name]
	if short, ok := strings.CutPrefix(string(t.Name), mcptool.Name(string(b.Plugin))+"_"); ok && len(found) == 0 {
		found = byName[nacre.ToolName(short)]
	}
	switch len(found) {
	case 0:
		return nil, configError("tool %s: the server has no such tool: take it out of provides.tools, or mend the server", t.Name)
	case 1:
	default:
		return nil, configError("tool %s: the server has %d tools of this name", t.Name, len(found))
	}
	if err := compatible(t.ArgumentsSchema, found[0].InputSchema); err != nil {
		return nil, configError("tool %s: the server's schema is not the manifest's: %w", t.Name, err)
	}
	if found[0].Description != t.Description {
		b.Note(fmt.Sprintf("tool %s: the server describes it otherwise than the manifest, whose words count: %.200q", t.Name, found[0].Description))
	}
	return found[0], nil
}

// remark notes what is offered beyond the manifest: it is never called.
func (b *bridge) remark(offered []*sdk.Tool, used map[string]bool) {
	var extra []string
	for _, t := range offered {
		if !used[t.Name] {
			extra = append(extra, fmt.Sprintf("%.64q", t.Name))
		}
	}
	if len(extra) > 0 {
		slices.Sort(extra)
		b.Note(fmt.Sprintf("%d tools of the server are not in the manifest and are left out: %s", len(extra), strings.Join(extra[:min(len(extra), maxNamed)], ", ")))
	}
}

func (b *bridge) session() *client {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.client
}

// tool carries out one call. A server that does not read holds up no more than maxCalls.
func (b *bridge) tool(ctx context.Context, r *plugin.Request) (any, error) {
	select {
	case b.calls <- struct{}{}:
	default:
		return nil, errors.New("the server has too many calls in flight")
	}
	defer func() { <-b.calls }()
	c := b.session()
	b.mu.Lock()
	name := b.names[r.Tool]
	b.mu.Unlock()
	result, err := c.call(ctx, name, arguments(r.Arguments))
	if err != nil {
		return nil, callError(err)
	}
	return resultOf(result)
}

func arguments(given json.RawMessage) json.RawMessage {
	if len(given) == 0 {
		return json.RawMessage("{}")
	}
	return given
}

// callError lets the agent read what a server says of the arguments; all else
// is for the host.
func callError(err error) error {
	var answer *jsonrpc.Error
	if !errors.As(err, &answer) {
		return err
	}
	switch answer.Code {
	case jsonrpc.CodeInvalidParams:
		return &plugin.ToolError{Code: badArgs, Message: mcptool.Clip(answer.Message)}
	case CodeTooLarge:
		return &plugin.ToolError{Code: tooLarge, Message: "Response exceeded maximum size"}
	}
	return fmt.Errorf("error %d: %s", answer.Code, mcptool.Clip(answer.Message))
}

// end ends the session where there is one, and waits for that a moment.
func (b *bridge) end() {
	c := b.session()
	if c == nil {
		return
	}
	go c.close() // a server that does not answer may hold it up
	wait := time.NewTimer(closing)
	defer wait.Stop()
	select {
	case <-c.gone:
	case <-wait.C:
	}
}
