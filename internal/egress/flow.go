package egress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/outward"
)

// OutcomeClosed is the outcome of the record that ends an allowed connection
// and counts its bytes.
const OutcomeClosed = "closed"

// recordTimeout bounds the write of a record that outlives its connection.
const recordTimeout = 10 * time.Second

// detail is what an egress record adds.
type detail struct {
	Host   string `json:"host,omitempty"`
	Port   uint16 `json:"port,omitempty"`
	Method string `json:"method,omitempty"`
	Rule   string `json:"rule,omitempty"`
	// Address is what the host resolved to, or its pin. In the closing record it is the one of them
	// that was reached, and in a refusal the one that was refused.
	Address string `json:"address,omitempty"`
	Pinned  bool   `json:"pinned,omitempty"`
	// Upstream says that the address is of the operator's proxy, which was told the name.
	Upstream bool `json:"upstream,omitempty"`
	// Why nothing was reached is the host's own text.
	Why string `json:"why,omitempty"`
	// Path without its query is of a request that was read: to a host that is asked listed requests
	// alone, or whose TLS is opened. Status and Credential are of one to a host whose TLS is
	// opened.
	Path       string `json:"path,omitempty"`
	Status     int    `json:"status,omitempty"`
	Credential string `json:"credential,omitempty"`
	Opened     bool   `json:"opened,omitempty"`
	// Sent and Received are bytes as the sandbox counts them.
	Sent     *int64 `json:"bytes_sent,omitempty"`
	Received *int64 `json:"bytes_received,omitempty"`
}

func (p *Proxy) record(outcome string, reason Reason, correlation nacre.Correlation, d detail) nacre.Record {
	text, _ := json.Marshal(d) // strings and numbers always do
	return nacre.Record{
		Kind: nacre.KindEgress, Time: p.opts.Now(), Group: p.opts.Group, Session: p.opts.Session, Source: "egress",
		Correlation: correlation, Outcome: outcome, Reason: string(reason), Detail: text,
	}
}

func (p *Proxy) correlation() nacre.Correlation {
	return nacre.Correlation(fmt.Sprintf("egress-%d", p.serial.Add(1)))
}

// recordDenied writes one refusal. A refusal needs no durable record before it takes effect.
func (p *Proxy) recordDenied(ctx context.Context, d denial) {
	p.denials.add(d)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	_ = p.opts.Record.Append(ctx, p.record(nacre.OutcomeDenied, d.reason, p.correlation(), // a log that fails also refuses what is allowed
		detail{Host: d.target.host, Port: d.target.port, Method: d.method, Rule: d.ruleName(), Address: d.address, Path: d.path, Credential: d.credential}))
}

func (p *Proxy) denyFor(ctx context.Context, c *client, d denial, err error) {
	d.reason = reasonOf(err)
	var r *reasonError
	if errors.As(err, &r) {
		d.detail, d.address = r.detail, r.address
	}
	p.deny(ctx, c, d)
}

// deny records a refusal and answers it.
func (p *Proxy) deny(ctx context.Context, c *client, d denial) {
	p.recordDenied(ctx, d)
	d.plugin = p.opts.Plugin
	c.answer(d)
}

const (
	// lingerTime bounds how long a client that was answered early is still read
	// from, and lingerQuiet how long it may say nothing meanwhile.
	lingerTime  = 5 * time.Second
	lingerQuiet = 2 * time.Second
)

func (c *client) answer(d denial) {
	_ = c.conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.conn.Write(d.response()); err != nil {
		return
	}
	c.linger()
}

// linger ends what is said to a client, and reads what it still sends.
func (c *client) linger() { linger(c.conn, c.r) }

// linger lets a client see its answer before the connection is reset. One that is in the middle of
// an upload learns of the reset by its next write, and would not look any more.
func linger(conn net.Conn, from io.Reader) {
	closeWrite(conn)
	buf := make([]byte, bufferSize)
	for end := time.Now().Add(lingerTime); time.Now().Before(end); {
		_ = conn.SetReadDeadline(time.Now().Add(lingerQuiet))
		if _, err := from.Read(buf); err != nil {
			return
		}
	}
}

// flow is one allowed connection.
type flow struct {
	proxy       *Proxy
	correlation nacre.Correlation
	detail      detail
	up          net.Conn
	// release undoes what closes up when the session ends.
	release  func() bool
	sent     atomic.Int64
	received atomic.Int64
	active   atomic.Int64
	mu       sync.Mutex
	reason   Reason
	client   net.Conn // once it is spliced
}

// allow makes the decision durable. Nothing is dialled before it returns (K-21).
func (p *Proxy) allow(ctx context.Context, d denial, to route) (*flow, error) {
	if p.moved.Load() >= p.limits.Bytes {
		d.reason = ReasonBytes
		p.recordDenied(ctx, d)
		return nil, refusal(ReasonBytes, "the session's bytes are used up")
	}
	f := &flow{proxy: p, correlation: p.correlation(), detail: detail{
		Host: d.target.host, Port: d.target.port, Method: d.method, Rule: d.ruleName(), Address: to.String(), Upstream: to.through != nil,
		Pinned: d.rule.Pin.IsValid(), Opened: d.opened, Path: d.path,
	}}
	if err := p.opts.Record.Commit(ctx, p.record(nacre.OutcomeAllowed, ReasonListed, f.correlation, f.detail)); err != nil {
		return nil, refusal(ReasonAudit, "the record could not be written")
	}
	return f, nil
}

// finish notes why the flow ended; the first reason stands.
func (f *flow) finish(reason Reason) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reason == "" {
		f.reason = reason
	}
}

// dial connects to one of the checked addresses; the closing record says which.
func (f *flow) dial(ctx context.Context, to route) error {
	conn, address, err := f.proxy.dial(ctx, to)
	if err != nil {
		r := unreached(err)
		f.detail.Why = r.detail
		f.finish(r.reason)
		return r
	}
	f.up, f.detail.Address = conn, address
	f.release = context.AfterFunc(ctx, func() { f.finish(stopReason(ctx)); _ = conn.Close(); f.hangUp() })
	return nil
}

// unreached is why nothing could be dialled, as a reason.
func unreached(err error) *reasonError {
	var r *reasonError
	var proxy *outward.Refused
	switch {
	case errors.As(err, &r):
		return r
	case errors.As(err, &proxy):
		return &reasonError{ReasonUpstreamProxy, proxy.Why, proxy.Proxy}
	}
	return &reasonError{reason: ReasonDial, detail: "the host could not be reached"}
}

// hangUp ends the client's side of what is spliced: where the host has said all that
// it had to say, the client alone keeps the flow open.
func (f *flow) hangUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.client != nil {
		_ = f.client.Close()
	}
}

// end closes the upstream side and writes the closing record with the bytes both ways.
func (f *flow) end(ctx context.Context) {
	if f.up != nil {
		f.release()
		_ = f.up.Close()
	}
	if ctx.Err() != nil {
		f.finish(stopReason(ctx)) // what ended with it may be here before what notes why
	}
	f.finish(ReasonDone)
	f.mu.Lock()
	reason := f.reason
	f.mu.Unlock()
	sent, received := f.sent.Load(), f.received.Load()
	d := f.detail
	d.Sent, d.Received = &sent, &received
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	_ = f.proxy.opts.Record.Append(ctx, f.proxy.record(OutcomeClosed, reason, f.correlation, d)) // a log that fails also refuses the next
}

// splice moves bytes both ways until both sides have ended, or either fails.
func (f *flow) splice(client net.Conn, fromClient, fromServer io.Reader, firstByte time.Duration) {
	_ = client.SetDeadline(time.Time{})
	f.mu.Lock()
	f.client = client
	f.mu.Unlock()
	f.active.Store(time.Now().UnixNano())
	idle := f.proxy.limits.Idle
	var back sync.WaitGroup
	back.Go(func() {
		f.pump(pipe{client, f.up, fromServer, &f.received, min(firstByte, idle)})
	})
	f.pump(pipe{f.up, client, fromClient, &f.sent, idle})
	back.Wait()
}

// pipe is one direction: src's bytes come through from.
type pipe struct {
	dst, src net.Conn
	from     io.Reader
	count    *atomic.Int64
	first    time.Duration
}

// pump moves one direction; when it fails it ends the other too.
func (f *flow) pump(d pipe) {
	if reason := f.copy(d); reason != ReasonDone {
		f.finish(reason)
		_ = d.src.Close()
		_ = d.dst.Close()
		return
	}
	closeWrite(d.dst)
}

func (f *flow) copy(d pipe) Reason {
	buf := make([]byte, bufferSize)
	patience := d.first
	for {
		_ = d.src.SetReadDeadline(time.Now().Add(patience))
		n, err := d.from.Read(buf)
		if n > 0 {
			patience = f.proxy.limits.Idle
			if reason := f.write(d, buf[:n]); reason != ReasonDone {
				return reason
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return ReasonDone
		case isTimeout(err) && patience < f.proxy.limits.Idle:
			return ReasonTimeout
		case isTimeout(err) && f.silence() < f.proxy.limits.Idle:
		default:
			return endOf(err)
		}
	}
}

func (f *flow) write(d pipe, b []byte) Reason {
	now := time.Now()
	f.active.Store(now.UnixNano())
	if f.proxy.moved.Add(int64(len(b))) > f.proxy.limits.Bytes {
		return ReasonBytes
	}
	_ = d.dst.SetWriteDeadline(now.Add(f.proxy.limits.Idle))
	n, err := d.dst.Write(b)
	d.count.Add(int64(n))
	if err != nil {
		return endOf(err)
	}
	return ReasonDone
}

// silence is for how long neither direction has moved.
func (f *flow) silence() time.Duration {
	return time.Since(time.Unix(0, f.active.Load()))
}

// endOf is why a connection ended that did not end in order.
func endOf(err error) Reason {
	var r *reasonError
	switch {
	case errors.As(err, &r):
		return r.reason
	case isTimeout(err):
		return ReasonIdle
	}
	return ReasonReset
}

// closeWrite tells the other side that no more will come.
func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // a connection that is gone needs no end
		return
	}
	_ = c.Close()
}

// touch notes that something moved.
func (f *flow) touch() { f.active.Store(time.Now().UnixNano()) }

// move counts bytes against the session's limit.
func (f *flow) move(n int) error {
	f.touch()
	if f.proxy.moved.Add(int64(n)) > f.proxy.limits.Bytes {
		f.finish(ReasonBytes)
		return refusal(ReasonBytes, "the session's bytes are used up")
	}
	return nil
}
