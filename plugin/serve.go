package plugin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
)

const (
	maxLine   = 4 << 20 // bytes of one line from the host
	maxEvents = 64      // events waiting for HandleEvent
)

// Serve runs a handler on standard input and output until the host closes
// them or says shutdown. Standard output belongs to the protocol: Serve points
// os.Stdout at standard error, where print statements do no harm and end up in the
// host's log.
func Serve(h Handler) error {
	out := os.Stdout
	os.Stdout = os.Stderr
	return ServeOn(h, os.Stdin, out)
}

// ServeOn is [Serve] on streams of the caller's. It returns nil after a
// shutdown or the end of in, when everything it started has ended.
func ServeOn(h Handler, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancel(context.Background())
	c := &conn{handler: h, out: out, pending: map[string]chan Message{}, working: map[string]context.CancelFunc{},
		events: make(chan Envelope, maxEvents)}
	c.work.Go(func() { c.deliver(ctx) })
	err := c.read(ctx, in)
	stop()
	close(c.events)
	c.work.Wait()
	return err
}

// conn is the connection to the host.
type conn struct {
	handler Handler
	events  chan Envelope
	work    sync.WaitGroup

	writing sync.Mutex
	out     io.Writer

	mu      sync.Mutex
	last    int
	pending map[string]chan Message
	working map[string]context.CancelFunc
	setup   Setup // as initialize brought it
}

var errShutdown = errors.New("shutdown")

func (c *conn) read(ctx context.Context, in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var m Message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return fmt.Errorf("line from the host: %w", err)
		}
		if err := c.dispatch(ctx, m); errors.Is(err, errShutdown) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return lines.Err()
}

func (c *conn) dispatch(ctx context.Context, m Message) error {
	switch m.Method {
	case "":
		c.settle(m)
	case MethodInitialize:
		c.start(ctx, m, c.initialize)
	case MethodHandleRequest:
		c.start(ctx, m, c.request)
	case MethodVerify:
		c.start(ctx, m, c.verify)
	case MethodHandleEvent:
		var p EventParams
		if json.Unmarshal(m.Params, &p) == nil {
			c.queue(p.Envelope)
		}
	case MethodCancel:
		var p CancelParams
		if json.Unmarshal(m.Params, &p) == nil {
			c.cancel(string(p.ID))
		}
	case MethodShutdown:
		if err := c.reply(m.ID, c.guard(func() (any, error) { return nil, c.shutdown(ctx) })); err != nil {
			return err
		}
		return errShutdown
	default:
		return c.reply(m.ID, Message{Error: &RPCError{Code: RPCUnknownMethod, Message: "unknown method"}})
	}
	return nil
}

// start answers a request from a goroutine of its own.
func (c *conn) start(ctx context.Context, m Message, do func(context.Context, json.RawMessage) (any, error)) {
	ctx, cancel := context.WithCancel(ctx)
	id := string(m.ID)
	c.mu.Lock()
	c.working[id] = cancel
	c.mu.Unlock()
	c.work.Go(func() {
		defer c.cancel(id)
		answer := c.guard(func() (any, error) { return do(ctx, m.Params) })
		if err := c.reply(m.ID, answer); err != nil {
			c.note("answer not sent: %v", err)
		}
	})
	runtime.Gosched() // the request goes first, on this thread: another one can wait for the next
}

func (c *conn) cancel(id string) {
	c.mu.Lock()
	cancel := c.working[id]
	delete(c.working, id)
	c.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

func (c *conn) initialize(ctx context.Context, params json.RawMessage) (any, error) {
	var p InitializeParams
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, fmt.Errorf("initialize: %w", err)
	}
	s := Setup{Plugin: p.Plugin, Config: p.Config, DataDir: p.DataDir,
		service: service{conn: c, ticket: p.Ticket}, channel: service{conn: c, ticket: p.ChannelTicket}}
	c.mu.Lock()
	c.setup = s
	c.mu.Unlock()
	if c.handler.Initialize == nil {
		return nil, nil
	}
	return nil, c.handler.Initialize(ctx, s)
}

func (c *conn) verify(ctx context.Context, params json.RawMessage) (any, error) {
	var p VerifyParams
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	if c.handler.Verify == nil {
		return nil, errors.New("the manifest says verify and the handler has none")
	}
	c.mu.Lock()
	s := c.setup
	c.mu.Unlock()
	s.ticket = p.Ticket
	return nil, c.handler.Verify(ctx, s)
}

func (c *conn) request(ctx context.Context, params json.RawMessage) (any, error) {
	var p RequestParams
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, fmt.Errorf("handleRequest: %w", err)
	}
	var payload RequestPayload
	if err := json.Unmarshal(p.Envelope.Payload, &payload); err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	name := nacre.ToolName(strings.TrimPrefix(p.Envelope.Topic, "tool.invoke."))
	do, ok := c.handler.Tools[name]
	if !ok {
		return nil, fmt.Errorf("no tool %q in the handler", name)
	}
	return do(ctx, &Request{Envelope: p.Envelope, Tool: name, Group: p.Envelope.Group, Arguments: payload.Arguments, Files: p.Files,
		Until:   time.Now().Add(time.Duration(p.TimeoutMS) * time.Millisecond),
		service: service{conn: c, ticket: p.Ticket}})
}

func (c *conn) shutdown(ctx context.Context) error {
	if c.handler.Shutdown == nil {
		return nil
	}
	return c.handler.Shutdown(ctx)
}

func (c *conn) queue(e Envelope) {
	select {
	case c.events <- e:
	default:
		c.note("event %s dropped: %d are waiting", e.Topic, maxEvents)
	}
}

func (c *conn) deliver(ctx context.Context) {
	for e := range c.events {
		if c.handler.HandleEvent != nil && ctx.Err() == nil {
			c.guard(func() (any, error) { c.handler.HandleEvent(ctx, e); return nil, nil })
		}
	}
}

// guard turns what a handler did into an answer. Only a ToolError says
// anything; the rest goes to standard error, which the host keeps.
func (c *conn) guard(do func() (any, error)) (answer Message) {
	internal := Message{Error: &RPCError{Code: RPCInternal, Message: "internal plugin error"}}
	defer func() {
		if v := recover(); v != nil {
			c.note("a handler panicked: %v\n%s", v, debug.Stack())
			answer = internal
		}
	}()
	result, err := do()
	var known *ToolError
	if errors.As(err, &known) {
		data, err := json.Marshal(known)
		if err != nil {
			return internal
		}
		return Message{Error: &RPCError{Code: RPCToolError, Message: known.Message, Data: data}}
	}
	if err == nil {
		answer.Result, err = json.Marshal(result)
	}
	if err != nil {
		c.note("%v", err)
		return internal
	}
	return answer
}

func (c *conn) reply(id json.RawMessage, m Message) error {
	if id == nil {
		return nil
	}
	m.ID = id
	return c.write(m)
}

func (c *conn) write(m Message) error {
	m.JSONRPC = "2.0"
	line, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("message: %w", err)
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err = c.out.Write(append(bytes.TrimSpace(line), '\n'))
	return err
}

// call asks the host and waits for its answer.
func (c *conn) call(ctx context.Context, method string, params Service) (json.RawMessage, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	answer := make(chan Message, 1)
	c.mu.Lock()
	c.last++
	id := strconv.Itoa(c.last)
	c.pending[id] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.pending, id)
		c.mu.Unlock()
	}()
	if err := c.write(Message{ID: json.RawMessage(id), Method: method, Params: raw}); err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %w", method, ctx.Err())
	case m := <-answer:
		if m.Error != nil {
			return nil, &Refused{Method: method, Words: m.Error.Message}
		}
		return m.Result, nil
	}
}

func (c *conn) settle(m Message) {
	c.mu.Lock()
	answer := c.pending[string(m.ID)]
	delete(c.pending, string(m.ID))
	c.mu.Unlock()
	if answer != nil {
		answer <- m
	}
}

func (c *conn) note(format string, args ...any) {
	log := c.handler.Log
	if log == nil {
		log = os.Stderr
	}
	_, _ = fmt.Fprintf(log, format+"\n", args...) // nowhere left to tell
}
