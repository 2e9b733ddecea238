package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/nacre-dev/nacre/internal/chat"
)

// Limits of the socket.
const (
	maxEnvelope = 1 << 20          // bytes
	writeTime   = 5 * time.Second  // for an acknowledgement
	steady      = time.Minute      // after which a connection counts as one that worked
	disabled    = 5 * time.Minute  // until Socket Mode is tried again that was switched off
	crowded     = 30 * time.Second // until another try where too many sockets are open
)

// ended is why Slack ends a connection, in its own words.
type ended string

// The reasons that Slack gives.
const (
	endWarning  ended = "warning"           // it closes the socket soon
	endRefresh  ended = "refresh_requested" // the same
	endDisabled ended = "link_disabled"
	endCrowded  ended = "too_many_websockets"
)

func (e ended) Error() string { return "Slack ends the connection: " + string(e) }

// envelope is what comes over the socket.
type envelope struct {
	Type    string          `json:"type"`
	ID      string          `json:"envelope_id"`
	Reason  string          `json:"reason"`
	Payload json.RawMessage `json:"payload"`
}

// link is one connection.
type link struct {
	conn    *websocket.Conn
	writing sync.Mutex
}

// ack tells Slack that an envelope is not to come again. On a connection that has ended it
// does come again, and the message has the same name.
func (l *link) ack(id string) {
	l.writing.Lock()
	defer l.writing.Unlock()
	_ = l.conn.SetWriteDeadline(time.Now().Add(writeTime))     // an error shows when it is written
	_ = l.conn.WriteJSON(map[string]string{"envelope_id": id}) // the reader sees that the connection is over
}

// listener brings what comes over the socket to the host. What is not decided on yet outlives
// connections.
type listener struct {
	*handler
	marks  chat.Marks
	inbox  *chat.Inbox
	outage chat.Outage
}

// listen brings what is written to the host until ctx ends. Where two handlers run in one data
// folder, one of them listens: Slack gives each socket a part of the messages.
func (l *listener) listen(ctx context.Context) {
	unlock := l.world.Lock(ctx, l.setup.DataDir)
	if unlock == nil {
		return
	}
	defer unlock()
	if err := l.chats.Kept.Load(); err != nil {
		chat.Note("what was kept cannot be read: %v", err)
	}
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { l.inbox.Run(ctx) })
	l.outage = chat.Outage{Title: l.chats.Title, Note: chat.Note}
	failures := 0
	for ctx.Err() == nil {
		began := l.world.Now()
		err := l.connected(ctx)
		if lived := l.world.Now().Sub(began); lived >= steady || lived < 0 {
			failures = 0
		}
		_ = l.world.Wait(ctx, l.afterEnd(ctx, err, failures)) // the loop's condition has its error
		failures++
	}
}

// socket asks where the next connection is to be made. Each address is good once.
func (h *handler) socket(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, chat.CallTime)
	defer cancel()
	var answer struct {
		URL string `json:"url"`
	}
	if _, err := h.api.call(ctx, h.api.tokens.Load().app, "apps.connections.open", struct{}{}, &answer); err != nil {
		return "", err
	}
	u, err := url.Parse(answer.URL)
	if err != nil || u.Hostname() == "" || u.User != nil || u.Scheme != "wss" && (u.Scheme != "ws" || h.api.base.Scheme != "http") {
		return "", chat.ErrUnreached
	}
	return answer.URL, nil
}

func (h *handler) dial(ctx context.Context, address string) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, chat.CallTime)
	defer cancel()
	dialer := websocket.Dialer{Proxy: h.world.Proxy, HandshakeTimeout: chat.CallTime}
	conn, resp, err := dialer.DialContext(ctx, address, nil)
	if resp != nil {
		_ = resp.Body.Close() // the library has read what it needs
	}
	if err != nil {
		return nil, chat.ErrUnreached
	}
	conn.SetReadLimit(maxEnvelope)
	return conn, nil
}

// connected makes one connection and reads it to its end.
func (l *listener) connected(ctx context.Context) error {
	if _, err := l.whoami(ctx); err != nil {
		return err
	}
	behind := l.marks.Behind()
	address, err := l.socket(ctx)
	if err != nil {
		return err
	}
	conn, err := l.dial(ctx, address)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	closing := context.AfterFunc(ctx, func() { _ = conn.Close() })
	var beside sync.WaitGroup
	defer func() {
		cancel()
		closing()
		_ = conn.Close()
		beside.Wait()
	}()
	beside.Go(func() { l.ping(ctx, conn) })
	beside.Go(func() { l.missed(ctx, behind) }) // now, for what is written from now on comes over the socket
	return l.read(ctx, &link{conn: conn})
}

// ping asks for a sign of life often enough that a dead connection is not believed for long.
func (l *listener) ping(ctx context.Context, conn *websocket.Conn) {
	every := time.NewTicker(l.world.Patience / 3)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			if conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeTime)) != nil {
				_ = conn.Close() // the reader sees it
				return
			}
		}
	}
}

// read takes envelopes until the connection ends, or is silent for too long.
func (l *listener) read(ctx context.Context, from *link) error {
	alive := func(string) error { return from.conn.SetReadDeadline(time.Now().Add(l.world.Patience)) }
	from.conn.SetPongHandler(alive)
	from.conn.SetPingHandler(func(data string) error {
		_ = from.conn.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(writeTime)) // a dead connection shows by itself
		return alive("")
	})
	for {
		if err := alive(""); err != nil {
			return err
		}
		kind, data, err := from.conn.ReadMessage()
		if err != nil {
			return chat.ErrUnreached
		}
		l.outage.Ends()
		var e envelope
		if kind != websocket.TextMessage || json.Unmarshal(data, &e) != nil {
			continue
		}
		if e.Type == "disconnect" {
			return ended(e.Reason)
		}
		if err := l.sort(ctx, from, e); err != nil {
			return err
		}
	}
}

// sort puts an envelope where it is worked on. What is nobody's work is acknowledged at once, and
// so is a press. Slack shows a person a failure after three seconds, and they press again where
// nothing came of it.
func (l *listener) sort(ctx context.Context, from *link, e envelope) error {
	if e.ID == "" {
		return nil
	}
	switch e.Type {
	case "events_api":
		said, ok := l.readEvent(e.Payload)
		if ok && said.commands() {
			l.inbox.Soon(said.sender(), func(ctx context.Context) { l.command(ctx, said) })
		} else if ok {
			return l.offer(ctx, said, func() { from.ack(e.ID) })
		}
	case "interactive":
		if p, ok := readPress(e.Payload); ok {
			l.inbox.Soon(p.User, func(ctx context.Context) { l.chats.Pressed(ctx, p) })
		}
	}
	from.ack(e.ID)
	return nil
}

// afterEnd is how long to wait before the next connection.
func (l *listener) afterEnd(ctx context.Context, err error, failures int) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	var reason ended
	if errors.As(err, &reason) {
		switch reason {
		case endWarning, endRefresh:
			if failures == 0 {
				return 0
			}
		case endDisabled:
			chat.Note("Socket Mode is switched off at Slack: switch it on, and it is tried again within %s", disabled)
			return disabled
		case endCrowded:
			return max(crowded, chat.Backoff(failures))
		}
		return chat.Backoff(failures)
	}
	why, pause, refused := chat.Refused(err)
	if refused {
		l.outage.Refuses(err)
	}
	if why == chat.Revoked { // perhaps there is a new one by then
		if t, err := readTokens(ctx, l.setup); err == nil && t != *l.api.tokens.Load() {
			l.api.tokens.Store(&t)
			l.self.Store(nil)
			return 0
		}
		chat.Note("Slack does not know a token any more: give it a new one, and it is used within %s", chat.RevokedPause)
		return chat.RevokedPause
	}
	pause = max(pause, chat.Backoff(failures))
	l.outage.Lasts(pause)
	return pause
}
