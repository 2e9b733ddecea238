package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/nacre-dev/nacre/internal/chat"
)

// Limits of the gateway.
const (
	maxFrame   = 1 << 20         // bytes
	writeTime  = 5 * time.Second // for one frame
	steady     = time.Minute     // after which a connection counts as one that worked
	maxSession = 256             // bytes of a session's name
)

// What the bot hears: messages in channels and alone with it, and what they say. Discord lets
// a bot read what does not name it only where its page says so.
const (
	intentMessages = 1<<9 | 1<<12
	intentContent  = 1 << 15
	intents        = intentMessages | intentContent
)

// The kinds of frames.
const (
	opDispatch  = 0
	opHeartbeat = 1
	opIdentify  = 2
	opResume    = 6
	opReconnect = 7
	opNoSession = 9
	opHello     = 10
)

// closed is why a connection ended, as the code of the service's close.
type closed int

func (c closed) Error() string { return fmt.Sprintf("Discord ended the connection (%d)", int(c)) }

// The codes after which it is no use to go on as before.
const (
	closeToken   closed = 4004
	closeSeq     closed = 4007
	closeTimeout closed = 4009
	closeShard   closed = 4010
	closeShards  closed = 4011
	closeVersion closed = 4012
	closeIntents closed = 4013
	closeContent closed = 4014
)

// The other ways in which Discord ends a connection, in words.
var (
	errReconnect = errors.New("a new connection is asked for")
	errNoSession = errors.New("the connection is not known any more")
)

// frame is what comes over the gateway, and what is sent.
type frame struct {
	Op   int             `json:"op"`
	Data json.RawMessage `json:"d"`
	Seq  int64           `json:"s,omitempty"`
	Type string          `json:"t,omitempty"`
}

// link is one connection.
type link struct {
	conn    *websocket.Conn
	writing sync.Mutex
}

func (l *link) send(op int, data any) error {
	raw, err := json.Marshal(data)
	if err != nil {
		return err
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	_ = l.conn.SetWriteDeadline(time.Now().Add(writeTime)) // an error shows when it is written
	return l.conn.WriteJSON(frame{Op: op, Data: raw})
}

// session is what Discord knows of the bot over connections: with it the next one begins where
// the last one ended.
type session struct {
	id, url string
	seq     atomic.Int64 // of what was heard last
}

// listener brings what comes over the gateway to the host.
type listener struct {
	*handler
	inbox   *chat.Inbox
	session session
	outage  chat.Outage
	intents int
	// expected are channels in which the bot was named, and threads that may begin there.
	expected map[string]bool
	// atOnce does what must not wait for anything, until the listener ends.
	atOnce func(do func(context.Context))
}

// listen brings what is written to the host until ctx ends. Where two handlers run in one data
// folder, one of them listens: Discord would bring everything to both.
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
	l.atOnce = func(do func(context.Context)) { work.Go(func() { do(ctx) }) }
	l.atOnce(l.inbox.Run)
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

func (h *handler) dial(ctx context.Context, address string) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, chat.CallTime)
	defer cancel()
	dialer := websocket.Dialer{Proxy: h.world.Proxy, HandshakeTimeout: chat.CallTime}
	conn, resp, err := dialer.DialContext(ctx, address+"/?v=10&encoding=json", nil)
	if resp != nil {
		_ = resp.Body.Close() // the library has read what it needs
	}
	if err != nil {
		return nil, chat.ErrUnreached
	}
	conn.SetReadLimit(maxFrame)
	return conn, nil
}

// connected makes one connection and reads it to its end.
func (l *listener) connected(ctx context.Context) error {
	address := l.session.url
	if address == "" {
		var err error
		if address, err = l.gateway(ctx); err != nil {
			return err
		}
	}
	conn, err := l.dial(ctx, address)
	if err != nil {
		l.session.url = "" // what is left of the session is asked for at the usual address
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
	return l.read(ctx, &link{conn: conn}, &beside)
}

// beat asks for a sign of life often enough that a dead connection is not believed for long.
func (l *listener) beat(ctx context.Context, to *link, interval time.Duration) {
	every := time.NewTicker(min(interval, l.world.Patience/3))
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			if l.heartbeat(to) != nil {
				_ = to.conn.Close() // the reader sees it
				return
			}
		}
	}
}

func (l *listener) heartbeat(to *link) error {
	var last any
	if seq := l.session.seq.Load(); seq > 0 {
		last = seq
	}
	return to.send(opHeartbeat, last)
}

// read takes frames until the connection ends, or is silent for too long.
func (l *listener) read(ctx context.Context, from *link, beside *sync.WaitGroup) error {
	for {
		if err := from.conn.SetReadDeadline(time.Now().Add(l.world.Patience)); err != nil {
			return err
		}
		kind, data, err := from.conn.ReadMessage()
		var ended *websocket.CloseError
		if errors.As(err, &ended) {
			return closed(ended.Code)
		}
		if err != nil {
			return chat.ErrUnreached
		}
		var f frame
		if kind != websocket.TextMessage || json.Unmarshal(data, &f) != nil {
			continue
		}
		if err := l.handle(ctx, from, f, beside); err != nil {
			return err
		}
	}
}

func (l *listener) handle(ctx context.Context, from *link, f frame, beside *sync.WaitGroup) error {
	switch f.Op {
	case opHello:
		l.outage.Ends()
		var hello struct {
			Interval int64 `json:"heartbeat_interval"` // milliseconds
		}
		if json.Unmarshal(f.Data, &hello) != nil || hello.Interval <= 0 {
			return chat.ErrUnreached
		}
		interval := time.Duration(min(hello.Interval, time.Hour.Milliseconds())) * time.Millisecond
		beside.Go(func() { l.beat(ctx, from, interval) })
		return l.introduce(from)
	case opHeartbeat:
		return l.heartbeat(from)
	case opReconnect:
		return errReconnect
	case opNoSession:
		var resumes bool
		if json.Unmarshal(f.Data, &resumes) == nil && resumes {
			return errReconnect
		}
		return errNoSession
	case opDispatch:
		err := l.dispatch(ctx, f, beside)
		if err == nil && f.Seq > 0 {
			l.session.seq.Store(f.Seq)
		}
		return err
	}
	return nil
}

// introduce says who the bot is, or which session goes on.
func (l *listener) introduce(to *link) error {
	token := *l.api.token.Load()
	if l.session.id != "" {
		return to.send(opResume, map[string]any{"token": token, "session_id": l.session.id, "seq": l.session.seq.Load()})
	}
	l.session.seq.Store(0)
	return to.send(opIdentify, map[string]any{
		"token": token, "intents": l.intents, "properties": map[string]string{"os": "linux", "browser": "nacre", "device": "nacre"},
	})
}

// dispatch works on what happened. With an error it was not heard, and comes again.
func (l *listener) dispatch(ctx context.Context, f frame, beside *sync.WaitGroup) error {
	switch f.Type {
	case "READY":
		var ready struct {
			Session string `json:"session_id"`
			URL     string `json:"resume_gateway_url"`
			User    user   `json:"user"`
		}
		if json.Unmarshal(f.Data, &ready) != nil || !isID(ready.User.ID) || ready.Session == "" || len(ready.Session) > maxSession {
			return chat.ErrUnreached
		}
		l.session.id, l.session.url = ready.Session, ""
		if l.isGateway(ready.URL) {
			l.session.url = ready.URL
		}
		l.self.Store(&ready.User.ID)
		behind := l.marks.Behind()
		beside.Go(func() { l.missed(ctx, behind) }) // what is written from now on comes by itself
	case "RESUMED":
		left := l.marks.Left()
		beside.Go(func() { l.missed(ctx, left) })
	case "MESSAGE_CREATE":
		return l.heard(ctx, f.Data)
	case "INTERACTION_CREATE":
		if p, ok := readPress(f.Data); ok {
			l.pressed(p)
		}
	}
	return nil
}

// heard puts a message where it waits, if it can be read and may be for the bot.
func (l *listener) heard(ctx context.Context, data json.RawMessage) error {
	var m message
	readable := json.Unmarshal(data, &m) == nil && l.self.Load() != nil
	switch {
	case !readable || !l.mayBeForUs(m):
	case m.commands():
		l.inbox.Soon(m.Author.ID, func(ctx context.Context) { l.command(ctx, m) })
	default:
		return l.offer(ctx, m, func() {})
	}
	return nil
}

// offer puts a message where it waits for the host.
func (l *listener) offer(ctx context.Context, m message, taken func()) error {
	return l.inbox.Offer(ctx, len(m.Content), func(ctx context.Context) error { return l.take(ctx, m) }, taken)
}

// pressed brings a press to the host. That of a person is acknowledged at once, whatever waits
// before it; one of a stranger in its turn, so that there are never too many of them at once.
func (l *listener) pressed(p chat.Press) {
	if !l.chats.Known.Has(p.User) {
		l.inbox.Soon(p.User, func(ctx context.Context) { l.decided(ctx, p, l.acknowledge(ctx, p)) })
		return
	}
	acknowledged := make(chan error, 1)
	waits := l.inbox.Soon(p.User, func(ctx context.Context) { l.decided(ctx, p, <-acknowledged) }) // which ends with the listener
	if waits {
		l.atOnce(func(ctx context.Context) { acknowledged <- l.acknowledge(ctx, p) })
	}
}

// decided brings an acknowledged press to the host. One that Discord does not know any more
// decides nothing: whoever pressed was shown a failure.
func (l *listener) decided(ctx context.Context, p chat.Press, err error) {
	if why, _, _ := chat.Refused(err); why == chat.NotTaken {
		chat.Note("a press was passed over: %v", err)
		return
	}
	l.chats.Pressed(ctx, p)
}

// afterEnd is how long to wait before the next connection.
func (l *listener) afterEnd(ctx context.Context, err error, failures int) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	var code closed
	why, pause, refused := chat.Refused(err)
	switch {
	case errors.Is(err, errReconnect) && failures == 0:
		return 0
	case errors.Is(err, errNoSession):
		l.forget()
	case errors.As(err, &code):
		return l.afterClose(ctx, code, failures)
	case refused && why == chat.Revoked:
		return l.revoked(ctx)
	case refused:
		l.outage.Refuses(err)
	}
	pause = max(pause, chat.Backoff(failures))
	l.outage.Lasts(pause)
	return pause
}

// forget begins anew with the next connection.
func (l *listener) forget() {
	l.session.id, l.session.url = "", ""
	l.session.seq.Store(0)
}

func (l *listener) afterClose(ctx context.Context, code closed, failures int) time.Duration {
	switch code {
	case closeToken:
		return l.revoked(ctx)
	case closeSeq, closeTimeout:
		l.forget()
	case closeContent:
		if l.intents&intentContent == 0 {
			break
		}
		l.forget()
		l.intents = intentMessages
		chat.Note("Discord does not let the bot read what does not name it. Switch on Message Content Intent at the application's page, Bot, and start again. Until then it hears what is written to it alone and what names it")
		return chat.ShortPause
	case closeShard, closeShards, closeVersion, closeIntents:
		chat.Note("%v: the bot cannot be served, and it is tried again within %s", code, chat.RevokedPause)
		l.forget()
		return chat.RevokedPause
	}
	return chat.Backoff(failures)
}

// revoked waits for another token.
func (l *listener) revoked(ctx context.Context) time.Duration {
	l.forget()
	if token, err := readToken(ctx, l.setup); err == nil && token != *l.api.token.Load() {
		l.api.token.Store(&token)
		return 0
	}
	chat.Note("Discord does not know the token any more: give it a new one, and it is used within %s", chat.RevokedPause)
	return chat.RevokedPause
}
