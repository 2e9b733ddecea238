package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"github.com/nacre-dev/nacre/internal/egress/fields"
)

const (
	// maxStreams is how many requests one HTTP/2 connection has at once.
	maxStreams = 100
	// maxRequests is how many requests on opened hosts a session has at once.
	maxRequests = 512
	// upstreamConns is how many connections one connection from inside leads to.
	upstreamConns = 16
	// idleConns is how many of them are kept while nothing is asked.
	idleConns = 2
	// maxUpstream is how many all connections of a session lead to at once.
	maxUpstream = 512
	// closeTime bounds the last words of a connection.
	closeTime = time.Second
)

// openedHosts indexes the credentials.
func openedHosts(list []Credential, authority *Authority) (opened, plain requestList, err error) {
	opened, plain = requestList{}, requestList{}
	for _, c := range list {
		if err := c.Check(); err != nil {
			return nil, nil, err
		}
		t := target{c.Host, c.Port}
		switch {
		case c.Plain:
			plain[t] = append(plain[t], c)
		case authority == nil || !slices.Contains(authority.hosts, c.Host):
			return nil, nil, fmt.Errorf("credential %s: the authority is not for %s", c.Name, c.Host)
		default:
			opened[t] = append(opened[t], c)
		}
	}
	if len(opened) == 0 && authority != nil {
		return nil, nil, errors.New("credentials need an authority, and an authority credentials")
	}
	return opened, plain, nil
}

// opened is one connection to a host whose TLS is opened.
type opened struct {
	proxy *Proxy
	flow  *flow
	host  target
	list  []Credential
	to    route
	// transports lead to the host, one for each set of roots among the credentials.
	mu         sync.Mutex
	transports map[string]*http.Transport
	conns      map[net.Conn]bool
	ended      bool
	requests   sync.WaitGroup
}

// tunnelOpened answers a CONNECT to a host that a credential is for, and serves
// the requests inside.
func (p *Proxy) tunnelOpened(ctx context.Context, c *client, d denial, to route) {
	d.opened = true
	flow, hello := p.greeted(ctx, c, d, to)
	if flow == nil {
		return
	}
	defer flow.end(ctx)
	ctx, cancel := context.WithCancel(ctx)
	o := &opened{
		proxy: p, flow: flow, host: d.target, list: p.opened[d.target], to: to,
		transports: map[string]*http.Transport{}, conns: map[net.Conn]bool{},
	}
	stop := context.AfterFunc(ctx, func() { flow.finish(stopReason(ctx)); _ = c.conn.Close() })
	defer func() { stop(); cancel(); o.abort(); o.requests.Wait() }()

	inside := &insideConn{Conn: c.conn, flow: flow, from: io.MultiReader(bytes.NewReader(hello), c.r)}
	flow.touch()
	o.serve(ctx, inside)
}

// serve makes the handshake and carries what the client then speaks.
func (o *opened) serve(ctx context.Context, inside *insideConn) {
	conn := tls.Server(inside, &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, SessionTicketsDisabled: true,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if !strings.EqualFold(hello.ServerName, o.host.host) {
				return nil, refusal(ReasonSNIMismatch, "the TLS client hello names another server")
			}
			return o.proxy.opts.Authority.leaf(o.host.host)
		},
	})
	defer func() { inside.by(closeTime); _ = conn.Close() }() // says that the end is one
	inside.by(o.proxy.limits.Request)
	if err := conn.HandshakeContext(ctx); err != nil {
		o.flow.finish(ReasonHandshake)
		return
	}
	inside.whenever()
	if conn.ConnectionState().NegotiatedProtocol == "h2" {
		o.serveHTTP2(ctx, conn)
		return
	}
	o.serveHTTP1(ctx, &client{conn: conn, r: bufio.NewReaderSize(conn, min(o.proxy.limits.Header, bufferSize))}, inside)
}

func (o *opened) serveHTTP2(ctx context.Context, conn *tls.Conn) {
	// An http.Server wants a listener and does not say when one connection has
	// ended; this is what is under it.
	server := &http2.Server{MaxConcurrentStreams: maxStreams, IdleTimeout: o.proxy.limits.Idle} //nolint:staticcheck // see above
	server.ServeConn(conn, &http2.ServeConnOpts{                                                //nolint:staticcheck // see above
		Context: ctx, BaseConfig: &http.Server{MaxHeaderBytes: o.proxy.limits.Header, ErrorLog: log.New(io.Discard, "", 0)},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !o.begin() {
				return
			}
			defer o.requests.Done()
			for name := range r.Header {
				if fields.Spelled(name) == "host" {
					if values := r.Header[name]; len(values) != 1 || o.checkAuthority(values[0]) != nil {
						r.Host = "" // refused below
					}
					delete(r.Header, name)
				}
			}
			if !o.exchange(w, r) {
				panic(http.ErrAbortHandler) // resets the stream: what was sent is not the whole answer
			}
		}),
	})
}

// begin counts a request, unless the connection has ended.
func (o *opened) begin() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		o.requests.Add(1)
	}
	return !o.ended
}

// abort ends every connection to the host, and lets no more begin.
func (o *opened) abort() {
	o.mu.Lock()
	o.ended = true
	conns, transports := slices.Collect(maps.Keys(o.conns)), slices.Collect(maps.Values(o.transports))
	o.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close()
	}
	for _, t := range transports {
		t.CloseIdleConnections()
	}
}

// transport leads to the host, and accepts what the credential's roots vouch for.
func (o *opened) transport(c Credential) *http.Transport {
	o.mu.Lock()
	defer o.mu.Unlock()
	if t := o.transports[c.Name]; t != nil {
		return t
	}
	limits := o.proxy.limits
	t := &http.Transport{
		DialContext: o.dial, ForceAttemptHTTP2: true, DisableCompression: true,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.Roots, ServerName: o.host.host},
		TLSHandshakeTimeout: limits.Request, ResponseHeaderTimeout: limits.FirstByte, IdleConnTimeout: limits.Idle,
		MaxResponseHeaderBytes: maxAnswerHead, MaxConnsPerHost: upstreamConns, MaxIdleConnsPerHost: idleConns,
	}
	o.transports[c.Name] = t
	return t
}

// dial reaches one of the addresses that were checked, whatever it is asked for.
func (o *opened) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if o.proxy.upstream.Add(1) > maxUpstream {
		o.proxy.upstream.Add(-1)
		return nil, refusal(ReasonBusy, "too many connections to hosts that hold credentials are open")
	}
	conn, address, err := o.proxy.dial(ctx, o.to)
	if err != nil {
		o.proxy.upstream.Add(-1)
		return nil, unreached(err)
	}
	up := &upstreamConn{Conn: conn, opened: o}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		o.proxy.upstream.Add(-1)
		_ = conn.Close()
		return nil, errOver
	}
	o.conns[up], o.flow.detail.Address = true, address
	return up, nil
}

// upstreamConn is one connection to the host, which ends when it is silent.
type upstreamConn struct {
	net.Conn
	opened *opened
}

// Read implements net.Conn.
func (u *upstreamConn) Read(p []byte) (int, error) {
	_ = u.SetReadDeadline(time.Now().Add(u.opened.proxy.limits.Idle))
	n, err := u.Conn.Read(p)
	u.opened.flow.touch()
	return n, err
}

// Write implements net.Conn.
func (u *upstreamConn) Write(p []byte) (int, error) {
	_ = u.SetWriteDeadline(time.Now().Add(u.opened.proxy.limits.Idle))
	return u.Conn.Write(p)
}

// Close implements net.Conn.
func (u *upstreamConn) Close() error {
	u.opened.mu.Lock()
	open := u.opened.conns[u]
	delete(u.opened.conns, u)
	u.opened.mu.Unlock()
	if open {
		u.opened.proxy.upstream.Add(-1)
	}
	return u.Conn.Close()
}

// insideConn is the sandbox's side below TLS: it counts, and ends what is silent.
type insideConn struct {
	net.Conn
	flow *flow
	from io.Reader

	mu sync.Mutex
	// limit, where it is set, is when the next bytes must have come.
	limit time.Time
}

// by gives what comes next a time.
func (c *insideConn) by(d time.Duration) {
	c.mu.Lock()
	c.limit = time.Now().Add(d)
	c.mu.Unlock()
	_ = c.SetReadDeadline(c.limit)
	_ = c.SetWriteDeadline(c.limit)
}

// whenever leaves what comes next the flow's idle time.
func (c *insideConn) whenever() {
	c.mu.Lock()
	c.limit = time.Time{}
	c.mu.Unlock()
}

func (c *insideConn) deadline() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.limit.IsZero() {
		return c.limit
	}
	return time.Now().Add(c.flow.proxy.limits.Idle)
}

// Read implements net.Conn.
func (c *insideConn) Read(p []byte) (int, error) {
	for {
		deadline := c.deadline()
		_ = c.SetReadDeadline(deadline)
		n, err := c.from.Read(p)
		if n > 0 {
			c.flow.sent.Add(int64(n))
			return n, c.flow.move(n)
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if c.flow.silence() >= c.flow.proxy.limits.Idle || !time.Now().Before(deadline) && c.isLimited() {
			c.flow.finish(ReasonIdle)
			return n, err
		}
	}
}

func (c *insideConn) isLimited() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.limit.IsZero()
}

// Write implements net.Conn.
func (c *insideConn) Write(p []byte) (int, error) {
	_ = c.SetWriteDeadline(c.deadline())
	if err := c.flow.move(len(p)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	c.flow.received.Add(int64(n))
	return n, err
}
