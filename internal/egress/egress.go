// Package egress promises that a sandbox reaches the hosts of its session's list and nothing else
// (M-20, M-21, M-23). It is a proxy on one unix socket that refuses by default, matches before it
// resolves, dials only an address it has checked, and records every decision. It does not look inside
// TLS, and what an allowed host does behind a matching server name is not seen. Hosts that a
// credential is for are the exception: there it opens TLS, lets through what the credential allows,
// adds it, and searches the answers for it (M-22).
package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/outward"
)

// Defaults of Limits.
const (
	// DefaultHeader is the largest request head in bytes.
	DefaultHeader = 16 << 10
	// DefaultRequest is how long a request head, or a TLS hello, may take to arrive whole.
	DefaultRequest = 10 * time.Second
	// DefaultFirstByte is how long a host may take to its first byte.
	DefaultFirstByte = time.Minute
	// DefaultIdle is how long a connection may be silent in both directions.
	DefaultIdle = 5 * time.Minute
	// DefaultConnections is how many connections a session has at once.
	DefaultConnections = 256
	// DefaultTotal is how many connections a session has in all: each leaves
	// records, and a sandbox must not fill the disk with them.
	DefaultTotal = 100_000
	// DefaultBytes is how many bytes a session may move, both ways together.
	DefaultBytes = 64 << 30
)

// Limits of one session's proxy. Zero means the default, never "none".
type Limits struct {
	Header      int
	Request     time.Duration
	FirstByte   time.Duration
	Idle        time.Duration
	Connections int
	Total       int64
	Bytes       int64
	// Held is how many connections wait for a person at once.
	Held int
}

func (l Limits) withDefaults() Limits {
	if l.Header <= 0 {
		l.Header = DefaultHeader
	}
	if l.Request <= 0 {
		l.Request = DefaultRequest
	}
	if l.FirstByte <= 0 {
		l.FirstByte = DefaultFirstByte
	}
	if l.Idle <= 0 {
		l.Idle = DefaultIdle
	}
	if l.Connections <= 0 {
		l.Connections = DefaultConnections
	}
	if l.Total <= 0 {
		l.Total = DefaultTotal
	}
	if l.Bytes <= 0 {
		l.Bytes = DefaultBytes
	}
	if l.Held <= 0 {
		l.Held = DefaultHeld
	}
	return l
}

// Options of a proxy. No Rules means that nothing is let out.
type Options struct {
	Rules   []nacre.EgressRule
	Record  nacre.Recorder
	Session nacre.SessionID
	Group   nacre.Group
	// Plugin is whose proxy it is, where it is no session's: a refusal then says
	// where the operator lets a plugin out.
	Plugin nacre.PluginName
	// Now gives the time of records.
	Now func() time.Time
	// Resolve looks up a listed host; nil means the system's resolver. It is
	// never called for a host that is not listed, nor for one that is pinned.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// Dial connects to a checked address; nil means plain TCP.
	Dial func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	// Credentials are for hosts whose TLS is opened, which Authority is for, both or none;
	// and for hosts of plain HTTP.
	Credentials []Credential
	Authority   *Authority
	Limits      Limits
	// Inspect looks at what leaves.
	Inspect Inspection
	// Upstream are the operator's own proxies; nil means none. A host that is pinned is
	// dialled by its pin.
	Upstream *outward.Proxies
	// Revoked tells what was taken back since.
	Revoked Revocation
	// Asking is how a person is asked for what a rule would let through.
	Asking Asking
}

// Inspection looks at what leaves. Its zero value looks at nothing.
type Inspection struct {
	// Each, where set, gives what looks at one request on an opened host: its
	// head, then its body in pieces. An error keeps what it saw from leaving.
	Each func() func(piece []byte) error
	// PassOpaque lets bodies through to opened hosts in codings that it cannot
	// see into, such as br: for one that stops nothing.
	PassOpaque bool
	// Placeholders stand inside for credentials of opened hosts. A request to one that holds one after
	// the credential was put in its place is refused.
	Placeholders []string
}

// Proxy serves one session. It is safe for concurrent use.
type Proxy struct {
	rules   ruleSet
	opts    Options
	limits  Limits
	denials denialList
	granted grants
	moved   atomic.Int64
	// accepted counts connections, for Limits.Total.
	accepted atomic.Int64
	asking   asking
	serial   atomic.Uint64
	// opened are the credentials of each host whose TLS is opened, and plain the requests
	// of each that is asked nothing else over plain HTTP.
	opened, plain requestList
	// requests are under way on such hosts, upstream the connections to them, buffered the bytes
	// held for signatures and of pushes.
	requests, upstream, buffered atomic.Int64
}

// New checks the rules and makes a proxy. It opens nothing.
func New(opts Options) (*Proxy, error) {
	if opts.Record == nil || opts.Now == nil {
		return nil, errors.New("egress: a recorder and a clock are required")
	}
	rules, err := newRuleSet(opts.Rules)
	if err != nil {
		return nil, fmt.Errorf("egress: %w", err)
	}
	opened, plain, err := openedHosts(opts.Credentials, opts.Authority)
	if err != nil {
		return nil, fmt.Errorf("egress: %w", err)
	}
	if opts.Resolve == nil {
		opts.Resolve = outward.Resolve
	}
	if opts.Dial == nil {
		opts.Dial = outward.Direct
	}
	limits := opts.Limits.withDefaults()
	return &Proxy{rules: rules, opts: opts, limits: limits, opened: opened, plain: plain, asking: asking{Asking: opts.Asking, most: limits.Held}}, nil
}

// Serve answers connections until ctx ends or the listener fails, then closes
// the listener and every connection and waits until all have ended. It
// returns nil when ctx ended it.
func (p *Proxy) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { _ = l.Close() }) // accept then fails, which ends the loop
	var conns sync.WaitGroup
	defer func() { cancel(); stop(); _ = l.Close(); conns.Wait() }()

	slots := make(chan struct{}, p.limits.Connections)
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = conn.Close() // arrived while stopping
			}
			return nil
		}
		if err != nil {
			if wait(ctx, err) {
				continue
			}
			return fmt.Errorf("egress: accept: %w", err)
		}
		if !p.count(ctx, conn) {
			continue
		}
		select {
		case slots <- struct{}{}:
			conns.Go(func() {
				defer func() { <-slots }()
				p.serveConn(ctx, conn)
			})
		default:
			p.refuseBusy(ctx, conn)
		}
	}
}

// count closes a connection over the session's total: the first with a
// record, those after it without, since no decision is made on them.
func (p *Proxy) count(ctx context.Context, conn net.Conn) bool {
	over := p.accepted.Add(1) - p.limits.Total
	if over == 1 {
		p.recordDenied(ctx, denial{reason: ReasonSpent})
	}
	if over > 0 {
		_ = conn.Close()
	}
	return over <= 0
}

// acceptPause is how long Serve waits when the machine is out of descriptors.
const acceptPause = 50 * time.Millisecond

// wait pauses after an error of Accept that may pass, and reports whether to go on.
func wait(ctx context.Context, err error) bool {
	passing := false
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ECONNABORTED, syscall.ENOBUFS, syscall.ENOMEM} {
		passing = passing || errors.Is(err, errno)
	}
	if !passing {
		return false
	}
	pause := time.NewTimer(acceptPause)
	defer pause.Stop()
	select {
	case <-ctx.Done():
	case <-pause.C:
	}
	return true
}

// refuseBusy answers without a goroutine and without waiting for the client.
func (p *Proxy) refuseBusy(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	d := denial{reason: ReasonBusy}
	p.recordDenied(ctx, d)
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = conn.Write(d.response()) // a client that is gone needs no answer
}

// bufferSize is one buffer of a connection and direction, in bytes.
const bufferSize = 32 << 10

// client is the sandbox's side of one connection; what was read ahead stays in r.
type client struct {
	conn net.Conn
	r    *bufio.Reader
}

// serveConn carries one connection from its request head to its end.
func (p *Proxy) serveConn(ctx context.Context, conn net.Conn) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer func() { stop(); _ = conn.Close() }()

	c := &client{conn: conn, r: bufio.NewReaderSize(conn, min(p.limits.Header, bufferSize))}
	_ = conn.SetDeadline(time.Now().Add(p.limits.Request))
	head, err := readHead(c.r, p.limits.Header)
	if err != nil {
		if !errors.Is(err, errNoRequest) {
			p.denyFor(ctx, c, denial{}, err)
		}
		return
	}
	if head.method == "CONNECT" {
		p.connect(ctx, c, head)
		return
	}
	p.forward(ctx, c, head)
}
