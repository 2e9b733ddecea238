package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/nacre-dev/nacre/plugin"
)

// Limits of connections.
const (
	maxClients   = 64
	maxQueued    = 2 * maxHistory // lines that wait for a client; one that is slower is dropped
	helloTime    = 10 * time.Second
	writeTime    = 5 * time.Second
	maxPerMinute = 60 // messages of one connection
)

// server takes the connections of `nacre chat`.
type server struct {
	hub      *hub
	listener net.Listener
	end      context.CancelFunc
	serving  sync.WaitGroup
}

// listen takes over the socket. The process before this one, if it still runs,
// keeps the connections it has.
func listen(ctx context.Context, path string, h *hub) (*server, error) {
	l, err := plugin.Listen(ctx, path)
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	s := &server{hub: h, listener: l, end: end}
	s.serving.Go(func() { s.accept(life) })
	return s, nil
}

func (s *server) close() error {
	s.end()
	err := s.listener.Close()
	s.serving.Wait()
	return err
}

func (s *server) accept(ctx context.Context) {
	slots := make(chan struct{}, maxClients)
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return // it was closed
		}
		select {
		case slots <- struct{}{}:
			s.serving.Go(func() {
				defer func() { <-slots }()
				s.serve(ctx, conn)
			})
		default:
			_ = conn.Close() // over the limit
		}
	}
}

// client is one connection.
type client struct {
	conn  net.Conn
	queue chan line
}

// tell queues a line. It never waits: a client that does not read is dropped.
func (c *client) tell(l line) {
	select {
	case c.queue <- l:
	default:
		_ = c.conn.Close()
	}
}

func (s *server) serve(ctx context.Context, conn net.Conn) {
	c := &client{conn, make(chan line, maxQueued)}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	var writing sync.WaitGroup
	writing.Go(c.write)
	s.read(ctx, c)
	close(c.queue) // nobody knows the client any more who could tell it something
	writing.Wait()
	_ = conn.Close()
}

// write sends what is queued, all of it also when reading has ended.
func (c *client) write() {
	out := json.NewEncoder(c.conn)
	for l := range c.queue {
		_ = c.conn.SetWriteDeadline(time.Now().Add(writeTime))
		if out.Encode(l) != nil {
			break
		}
	}
	_ = c.conn.Close() // which ends reading
	for range c.queue {
		continue // what is told meanwhile reaches nobody
	}
}

// read takes lines. The first one says who speaks, and it stays so.
func (s *server) read(ctx context.Context, c *client) {
	in := bufio.NewScanner(c.conn)
	in.Buffer(nil, maxLine)
	_ = c.conn.SetReadDeadline(time.Now().Add(helloTime))
	sender, count, since := "", 0, s.hub.now()
	for in.Scan() {
		what, err := parseSaid(in.Bytes())
		if err == nil && sender != "" && what.sender != sender {
			err = errors.New("a connection speaks for one sender")
		}
		if now := s.hub.now(); now.Sub(since) >= time.Minute {
			count, since = 0, now
		}
		if count++; err == nil && count > maxPerMinute+1 {
			err = errors.New("too many messages in a minute: wait a little")
		}
		if err != nil {
			c.tell(line{Kind: kindError, Body: err.Error()})
			if sender == "" {
				return
			}
			continue
		}
		if sender == "" {
			if err := s.hub.join(c, what.sender); err != nil {
				c.tell(line{Kind: kindError, Body: "what was said could not be read"})
				return
			}
			sender = what.sender
			defer s.hub.leave(c, sender)
			_ = c.conn.SetReadDeadline(time.Time{})
		}
		if what.body != "" {
			s.hub.take(ctx, c, what)
		}
	}
}
