package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nacre-dev/nacre/internal/ipc"
	"github.com/nacre-dev/nacre/internal/wire"
)

const (
	// maxLine is the longest message of a client, in bytes: the arguments of a
	// call at the door's limit and what MCP puts around them.
	maxLine = wire.MaxMessage + 64<<10
	// maxLineDepth is how deep a message may nest: arguments at the door's
	// limit, in the params of a message.
	maxLineDepth = wire.MaxDepth + 2
	// maxOpen is how many requests of any kind are read before one is answered.
	maxOpen = 4 * maxCalls
	// drainTime is how long requests may take that were sent before in ended.
	drainTime  = ipc.Wait + 5*time.Second
	readBuffer = 64 << 10
)

// transport is one message a line, read strictly: what is too long, nested too
// deep, ambiguous or no message is answered as such, and the next is read.
type transport struct {
	in  io.ReadCloser
	out io.Writer
	// ending is called when in ends, before what is under way is waited for.
	ending func()
}

// Connect implements [mcp.Transport].
func (t *transport) Connect(context.Context) (mcp.Connection, error) {
	c := &lines{
		transport: t, incoming: make(chan jsonrpc.Message), closed: make(chan struct{}),
		open: make(map[jsonrpc.ID]struct{}), places: make(chan struct{}, maxOpen),
	}
	go c.read() // ends with in, or at the first message after Close
	return c, nil
}

type lines struct {
	*transport
	incoming chan jsonrpc.Message
	closing  sync.Once
	closed   chan struct{}
	// failed is why reading ended; read after incoming is closed.
	failed error
	// writing guards out, and open, which are the requests not answered yet;
	// each has one of the places.
	writing sync.Mutex
	open    map[jsonrpc.ID]struct{}
	places  chan struct{}
}

func (c *lines) read() {
	defer close(c.incoming)
	r := bufio.NewReaderSize(c.in, readBuffer)
	for c.failed == nil {
		line, err := readLine(r)
		switch {
		case errors.Is(err, errTooLong):
			c.failed = c.refuse(err)
		case err != nil:
			c.failed = err
		case len(bytes.TrimSpace(line)) > 0:
			c.failed = c.deliver(line)
		}
	}
	c.ending()
	c.drain()
}

// drain waits until all that was asked is answered: the library would leave it
// once it knows that the client's side has ended.
func (c *lines) drain() {
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	for range maxOpen {
		select {
		case c.places <- struct{}{}:
		case <-timer.C:
			return
		case <-c.closed:
			return
		}
	}
}

func (c *lines) deliver(line []byte) error {
	if err := wire.Check(line, wire.Limits{Message: maxLine, Depth: maxLineDepth, String: maxLine, CaseSensitive: true}); err != nil {
		return c.refuse(err)
	}
	message, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		return c.refuse(err)
	}
	if request, ok := message.(*jsonrpc.Request); ok && request.IsCall() {
		if err := c.enter(request.ID); err != nil {
			return c.refuse(err)
		}
	}
	select {
	case c.incoming <- message:
		return nil
	case <-c.closed:
		return io.EOF
	}
}

// enter takes a place for a request; a client that does not take its answers
// is not read from either.
func (c *lines) enter(id jsonrpc.ID) error {
	select {
	case c.places <- struct{}{}:
	case <-c.closed:
		return io.EOF
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	if _, twice := c.open[id]; twice {
		<-c.places
		return errors.New("a request with this id is not answered yet")
	}
	c.open[id] = struct{}{}
	return nil
}

// leave gives back the place of a request that is answered; c.writing is held.
func (c *lines) leave(id jsonrpc.ID) {
	if _, ok := c.open[id]; ok {
		delete(c.open, id)
		<-c.places
	}
}

// refuse answers a message whose id cannot be relied on. Its error ends the connection.
func (c *lines) refuse(why error) error {
	answer := wire.AppendText([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":`), "not an acceptable message: "+why.Error())
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.out.Write(append(answer, "}}\n"...))
	return err
}

var errTooLong = fmt.Errorf("longer than %d bytes", maxLine)

// readLine returns a line without its end, or errTooLong when it has read past
// one that is over the limit.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	tooLong := false
	for {
		piece, err := r.ReadSlice('\n')
		if tooLong = tooLong || len(line)+len(piece) > maxLine+1; !tooLong {
			line = append(line, piece...)
		} else {
			line = nil
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return nil, err
		case tooLong:
			return nil, errTooLong
		}
		return bytes.TrimSuffix(line, []byte("\n")), nil
	}
}

// Read implements [mcp.Connection].
func (c *lines) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case message, ok := <-c.incoming:
		if !ok {
			return nil, c.failed
		}
		return message, nil
	case <-c.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write implements [mcp.Connection].
func (c *lines) Write(_ context.Context, message jsonrpc.Message) error {
	encoded, err := jsonrpc.EncodeMessage(message)
	if err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err = c.out.Write(append(encoded, '\n'))
	if response, ok := message.(*jsonrpc.Response); ok {
		c.leave(response.ID)
	}
	return err
}

// Close implements [mcp.Connection].
func (c *lines) Close() error {
	c.closing.Do(func() { close(c.closed) })
	return c.in.Close()
}

// SessionID implements [mcp.Connection]: a pipe has none.
func (*lines) SessionID() string { return "" }
