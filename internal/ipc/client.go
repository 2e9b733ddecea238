// Package ipc promises the agent's side of the door: a client of the request
// socket, and the program ipc over it. Both wait no longer than they say, give
// one structured answer or error for each request, and never send a request
// twice. The package trusts nothing to the environment but the socket's path,
// and imports little, since it is the whole of a small static binary (D-07).
package ipc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/message"
	"github.com/nacre-dev/nacre/internal/wire"
	"github.com/nacre-dev/nacre/internal/zmtp"
)

const (
	// Wait is how long a call waits for its answer where the door does not say
	// otherwise: a handler's deadline of 30 s, and 5 s for the core. Once told that a
	// person is asked, it waits until the question expires and as long again.
	Wait = 35 * time.Second
	// maxPending is the longest that a question to a person may be said to take.
	maxPending = 24 * time.Hour
	// handshakeTime is how long connecting and the handshake may take.
	handshakeTime = 5 * time.Second
)

// errAnswer is under the errors of a door that answers something else.
var errAnswer = errors.New("not an answer")

// Client is one connection to a door. It is not safe for concurrent use: a
// program that wants several calls at once opens several.
type Client struct {
	nc net.Conn
	r  *zmtp.Reader
	// wait is how long the door says that a call may take.
	wait time.Duration
	// asked, when set, is told how long a person has who is asked.
	asked func(left time.Duration)
}

// Dialer makes a connection to a door.
type Dialer func(ctx context.Context) (net.Conn, error)

// Socket is the Dialer of the door at path.
func Socket(path string) Dialer {
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
}

// Dial connects and shakes hands. Nothing of any request has been written when
// it returns, so after an error it may be called again.
func Dial(ctx context.Context, dial Dialer) (*Client, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	nc, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	c := &Client{nc: nc, r: zmtp.NewReader(nc, message.MaxEnvelope)}
	defer c.interrupt(ctx)()
	if err := c.handshake(); err != nil {
		_ = c.nc.Close() // the handshake's error is the one to tell
		return nil, fmt.Errorf("handshake: %w", because(ctx, err))
	}
	return c, nil
}

// interrupt makes reads and writes fail once ctx ends; the function it returns
// undoes that.
func (c *Client) interrupt(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = c.nc.SetDeadline(time.Unix(1, 0)) })
}

// because prefers the context's reason to the time-out it was turned into.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func (c *Client) handshake() error {
	if _, err := c.nc.Write(zmtp.AppendGreeting(nil)); err != nil {
		return err
	}
	if err := c.r.Greeting(); err != nil {
		return err
	}
	ready := zmtp.AppendReady(nil,
		zmtp.Property{Name: zmtp.SocketType, Value: "DEALER"}, zmtp.Property{Name: message.EventsProperty, Value: "1"})
	if _, err := c.nc.Write(ready); err != nil {
		return err
	}
	item, err := c.r.Next()
	if err == nil && item.Command != zmtp.Ready {
		err = errors.New("the door refuses the connection")
	}
	if err == nil {
		c.wait = waitOf(item.Body)
	}
	return err
}

// waitOf is how long a door's READY says that a call may take.
func waitOf(ready []byte) time.Duration {
	properties, err := zmtp.ParseProperties(ready)
	text, said := zmtp.Lookup(properties, message.WaitProperty)
	if err != nil || !said {
		return Wait
	}
	return max(parseSeconds(text), time.Second)
}

// Close ends the connection; the door cancels what was not answered.
func (c *Client) Close() error { return c.nc.Close() }

// Call sends the request and returns the response to it, waiting at most
// for as long as the door says, or longer while a person is asked. A response without a correlation is to
// the one request there is. For a caller whose context has ended nothing is sent. After an
// error the connection is of no further use.
func (c *Client) Call(ctx context.Context, request message.Request) (message.Envelope, error) {
	if ctx.Err() != nil { // interrupt may act only after the answer has come
		return message.Envelope{}, context.Cause(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer c.interrupt(ctx)()
	timer := time.AfterFunc(c.wait, func() { cancel(context.DeadlineExceeded) })
	defer timer.Stop()
	if err := c.Send(request.Append(nil)); err != nil {
		return message.Envelope{}, because(ctx, err)
	}
	for {
		e, err := c.Receive()
		switch {
		case err != nil:
			return message.Envelope{}, because(ctx, err)
		case e.Correlation != request.Correlation && e.Correlation != "":
			// Late, of a call that was given up.
		case e.Type == message.TypeResponse:
			return e, nil
		case e.Topic == message.TopicPending:
			left := pending(e.Payload)
			timer.Reset(left + c.wait)
			if c.asked != nil {
				c.asked(left)
			}
		}
	}
}

// pending reads how long a question to a person may take; what is not said is 0.
func pending(payload []byte) time.Duration {
	members, _ := wire.Object(payload, wire.Limits{})
	for _, m := range members {
		if m.Key == "seconds" {
			return parseSeconds(string(m.Value))
		}
	}
	return 0
}

// parseSeconds reads a whole number; more than is believed is as much as is believed.
func parseSeconds(text string) time.Duration {
	seconds, err := strconv.ParseUint(text, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0
	}
	return time.Duration(min(seconds, uint64(maxPending/time.Second))) * time.Second
}

// Send writes one message as it is, good or bad; what comes back is for Receive.
func (c *Client) Send(message []byte) error {
	_, err := c.nc.Write(zmtp.AppendMessage(nil, nil, message))
	return err
}

// Receive reads the next envelope, a response or an event.
func (c *Client) Receive() (message.Envelope, error) {
	for {
		item, err := c.r.Next()
		if err != nil {
			return message.Envelope{}, err
		}
		if item.Command != "" {
			continue
		}
		if len(item.Parts) != 2 || len(item.Parts[0]) != 0 {
			return message.Envelope{}, fmt.Errorf("%w: another form than the request's", errAnswer)
		}
		e, err := message.ParseEnvelope(item.Parts[1])
		if err != nil {
			return message.Envelope{}, fmt.Errorf("%w: %w", errAnswer, err)
		}
		return e, nil
	}
}

// NewRequest makes a request for a tool, by its name or its topic.
func NewRequest(tool string, correlation nacre.Correlation, arguments []byte) message.Request {
	topic := tool
	if _, err := nacre.ParseToolName(tool); err == nil {
		topic = message.TopicPrefix + tool
	}
	return message.Request{Topic: topic, Correlation: correlation, Arguments: arguments}
}
