package door

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/nacre-dev/nacre/internal/message"
	"github.com/nacre-dev/nacre/internal/wire"
	"github.com/nacre-dev/nacre/internal/zmtp"
)

// conn is one client's connection.
type conn struct {
	door *door
	nc   *net.UnixConn
	r    *zmtp.Reader
	// events is whether the client asked for them.
	events bool
	// writing is held while a message is written, so that none is cut in two.
	writing sync.Mutex
	calls   sync.WaitGroup
	// unanswered holds a token for each request that was let in and whose
	// answer is not written. Where it is full, the client is not read from.
	unanswered chan struct{}
	// more are requests for a goroutine that has answered one, until none will come.
	more chan *request
	none chan struct{}
}

func newConn(d *door, nc *net.UnixConn) *conn {
	return &conn{
		door: d, nc: nc, r: zmtp.NewReader(nc, wire.MaxMessage),
		unanswered: make(chan struct{}, 2*d.deps.Limits.InFlight), // those in flight, and as many on their way back
		more:       make(chan *request), none: make(chan struct{}),
	}
}

// serve reads requests until the client goes away, breaks the protocol, or taking ends. It returns
// when the last of its calls has, which ctx ends.
func (c *conn) serve(ctx, taking context.Context) {
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	defer c.calls.Wait()
	defer close(c.none)
	// A door that closes stops listening, but its answers still go out.
	defer context.AfterFunc(taking, func() { _ = c.nc.CloseRead() })()
	err := c.handshake()
	if err == nil {
		c.door.greeting.leave(c.nc)
		err = c.read(own)
	}
	if taking.Err() == nil {
		cancel() // the client is gone, and with it every call that it waits for
		if worthTelling(err) {
			reason := reasonProtocol
			if errors.Is(err, os.ErrDeadlineExceeded) {
				reason = reasonSlow
			}
			c.door.rejectConnection(ctx, reason, err.Error())
		}
		_ = c.nc.Close() // closed already where it was a write that failed
	}
}

// worthTelling leaves out clients that came and went.
func worthTelling(err error) bool {
	return errors.Is(err, zmtp.ErrProtocol) || errors.Is(err, os.ErrDeadlineExceeded)
}

// handshake exchanges greeting and READY. The peer's socket type decides
// nothing but whether it can talk to us; what else it says of itself is ignored.
func (c *conn) handshake() error {
	if err := c.nc.SetDeadline(soon(c.door.deps.Limits.Handshake)); err != nil {
		return err
	}
	if _, err := c.nc.Write(zmtp.AppendGreeting(nil)); err != nil {
		return err
	}
	if err := c.r.Greeting(); err != nil {
		return err
	}
	if _, err := c.nc.Write(zmtp.AppendReady(nil, c.properties()...)); err != nil {
		return err
	}
	item, err := c.r.Next()
	if err != nil {
		return err
	}
	if item.Command != zmtp.Ready {
		return fmt.Errorf("%w: no READY", zmtp.ErrProtocol)
	}
	properties, err := zmtp.ParseProperties(item.Body)
	if err != nil {
		return err
	}
	if kind, _ := zmtp.Lookup(properties, zmtp.SocketType); kind != "DEALER" && kind != "REQ" {
		_, _ = c.nc.Write(zmtp.AppendCommand(nil, zmtp.Error, []byte("\x17use a DEALER or REQ here"))) // closing anyway
		return fmt.Errorf("%w: a socket type other than DEALER or REQ", zmtp.ErrProtocol)
	}
	wish, _ := zmtp.Lookup(properties, message.EventsProperty)
	c.events = wish == "1"
	return c.nc.SetDeadline(time.Time{})
}

// properties are what the door says of itself: how long to wait where that is not what
// every client waits.
func (c *conn) properties() []zmtp.Property {
	all := []zmtp.Property{{Name: zmtp.SocketType, Value: "ROUTER"}}
	wait := defaultAnswer
	if answer := c.door.deps.Answer; answer != nil {
		wait = answer()
	}
	if wait != defaultAnswer {
		all = append(all, zmtp.Property{Name: message.WaitProperty, Value: strconv.Itoa(int(wait / time.Second))})
	}
	return all
}

// read takes one message after the other. A message may be as long in coming
// as it likes, but once begun it has to end in time.
func (c *conn) read(ctx context.Context) error {
	for {
		if err := c.r.Wait(); err != nil {
			return err
		}
		item, err := c.next()
		if err != nil && !errors.Is(err, zmtp.ErrTooLarge) {
			return err
		}
		if item.Command != "" {
			if err := c.command(item); err != nil {
				return err
			}
			continue
		}
		c.receive(ctx, item.Parts, err)
	}
}

// next reads an item that has begun. One that is here already needs no deadline.
func (c *conn) next() (zmtp.Item, error) {
	if c.r.Whole() {
		return c.r.Next()
	}
	if err := c.nc.SetReadDeadline(soon(c.door.deps.Limits.Message)); err != nil {
		return zmtp.Item{}, err
	}
	item, err := c.r.Next()
	if failed := c.nc.SetReadDeadline(time.Time{}); failed != nil && err == nil {
		err = failed
	}
	return item, err
}

// command answers a PING; after the handshake nothing else concerns a ROUTER.
func (c *conn) command(item zmtp.Item) error {
	if item.Command != zmtp.Ping {
		return nil
	}
	pong, ok := zmtp.AppendPong(nil, item.Body)
	if !ok {
		return fmt.Errorf("%w: malformed PING", zmtp.ErrProtocol)
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.write(pong)
}

// write sends whole frames; the caller holds writing. After an error the
// stream may end inside a frame, so the connection is closed: its reader then
// ends, and with it every call.
func (c *conn) write(frames []byte) error {
	err := c.nc.SetWriteDeadline(soon(c.door.deps.Limits.Write))
	if err == nil {
		_, err = c.nc.Write(frames)
	}
	if err != nil {
		_ = c.nc.Close() // the first error is the one to tell
		if errors.Is(err, os.ErrDeadlineExceeded) {
			c.door.rejectConnection(context.Background(), reasonSlow, "the client did not take its answers in time")
		}
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// send frames an envelope as the request was framed: behind an empty part or alone.
func (c *conn) send(delimited bool, envelope message.Envelope) error {
	b := c.door.buffers.take(zmtp.Room + len(envelope.Payload) + maxFrame)
	defer c.door.buffers.give(b)
	*b = envelope.Append((*b)[:zmtp.Room])
	return c.write(zmtp.Framed(*b, delimited))
}

// soon is a deadline for the network, which runs on the machine's own clock.
func soon(d time.Duration) time.Time { return time.Now().Add(d) }
