package egress

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nacre-dev/nacre"
)

const (
	httpPort = 80
	// prefetch is how much of a chunked body is decoded before anything is
	// dialled, in bytes, so that most malformed bodies never leave.
	prefetch = 64 << 10
	// maxAnswerHead is the largest head of an upstream's answer, in bytes.
	maxAnswerHead = 256 << 10
	// maxInterim is how many 1xx answers may come before the final one.
	maxInterim = 8
)

// forward carries one plain HTTP request to a host listed for it, and closes:
// no second request can hide behind the first.
func (p *Proxy) forward(ctx context.Context, c *client, h *head) {
	d := denial{method: h.method}
	t, path, err := h.forwardTarget()
	d.target = t
	if err != nil {
		p.denyFor(ctx, c, d, err)
		return
	}
	where, _, _ := strings.Cut(path, "?")
	d.path = recordedPath(where)
	until, admitted := c.admit(ctx, p, &d, nacre.ProtocolHTTP)
	if !admitted {
		return
	}
	if err := p.plain.listed(t, h, path); err != nil {
		p.denyFor(ctx, c, d, err)
		return
	}
	ctx, cancel := p.while(ctx, t, d.rule, until)
	defer cancel()
	body, err := p.requestBody(c, h)
	if err != nil {
		p.denyFor(ctx, c, d, err)
		return
	}
	seen, err := p.plain.guarded(t, h, p.inspectUnpacked(h, body))
	if err != nil {
		p.denyFor(ctx, c, d, err)
		return
	}
	defer func() { _ = seen.Close() }() // it is the client's connection, which goes on
	to, err := p.addresses(ctx, t.host, d.rule)
	if err != nil {
		p.denyFor(ctx, c, d, err)
		return
	}
	if len(p.plain[t]) == 0 {
		// What was refused is recorded with its path, which a policy is learned from. What is
		// carried to a host that names no paths is not: it may hold a secret, as that of a bot does.
		d.path = ""
	}
	flow, err := p.allow(ctx, d, to)
	if err != nil {
		c.answer(denial{reason: reasonOf(err), target: t, method: h.method})
		return
	}
	defer flow.end(ctx)
	asked, err := requestHead(ctx, h, t, path, to)
	if err == nil {
		err = flow.dial(ctx, to)
	}
	if err != nil {
		flow.finish(reasonOf(err))
		c.answer(denial{target: t, method: h.method}.because(err))
		return
	}
	flow.exchange(c, h, asked, seen)
}

// forwardTarget reads the one absolute http URL that a request names.
func (h *head) forwardTarget() (target, string, error) {
	if !slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}, h.method) {
		return target{}, "", refusal(ReasonMethod, "methods carried: CONNECT, GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
	}
	rest, ok := strings.CutPrefix(h.target, "http://")
	if !ok {
		return target{}, "", refusal(ReasonTarget, "this is a proxy: send a whole http:// URL, or CONNECT")
	}
	authority, path := rest, "/"
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	if path[0] == '?' {
		path = "/" + path
	}
	t, err := parseAuthority(authority, httpPort)
	switch {
	case err != nil:
		return target{}, "", err
	case strings.ContainsAny(path, `#\`):
		return t, "", refusal(ReasonTarget, "a URL on the wire has no # and no backslash")
	}
	if _, ok := h.get("host"); !ok {
		return t, "", refusal(ReasonHostMismatch, "the Host header is missing")
	}
	return t, path, h.checkHost(t, httpPort)
}

// requestBody gives the body, decoded, with its beginning already read where it is chunked.
func (p *Proxy) requestBody(c *client, h *head) (io.Reader, error) {
	if expect, ok := h.get("expect"); ok && !h.old {
		if lowerASCII(expect) != "100-continue" {
			return nil, refusal(ReasonMalformed, "the one expectation is 100-continue")
		}
		if _, err := io.WriteString(c.conn, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return nil, err
		}
	}
	if h.length >= 0 {
		return &io.LimitedReader{R: c.r, N: h.length}, nil
	}
	return prefetched(c.r)
}

// prefetched decodes the first chunk of a body, and all that came with it: a
// client that sends more later is not waited for.
func prefetched(r *bufio.Reader) (io.Reader, error) {
	chunks := &chunkReader{r: r}
	var first bytes.Buffer
	buf := make([]byte, prefetch/16)
	for first.Len() == 0 || (first.Len() < prefetch && r.Buffered() > len("\r\n")) {
		n, err := chunks.Read(buf)
		first.Write(buf[:n])
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return io.MultiReader(&first, chunks), nil
}

// hopByHop are the headers that end at a proxy (RFC 9110, 7.6.1), and those it writes itself.
var hopByHop = []string{
	"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
	"transfer-encoding", "upgrade", "http2-settings", "host", "content-length", "expect",
}

// requestHead writes the request as the upstream gets it: with the whole URL where that
// is a proxy.
func requestHead(ctx context.Context, h *head, t target, path string, to route) ([]byte, error) {
	host, authorization := t.host, ""
	if t.port != httpPort {
		host = t.String()
	}
	if to.through != nil {
		var err error
		if authorization, err = to.through.Authorization(ctx); err != nil {
			return nil, unreached(err)
		}
		path = "http://" + host + path
	}
	b := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s", h.method, path, host, authorization)
	switch _, sized := h.get("content-length"); {
	case h.length < 0:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case sized:
		b = fmt.Appendf(b, "Content-Length: %d\r\n", h.length)
	}
	dropped := h.connectionNames()
	for _, f := range h.headers {
		if !slices.Contains(hopByHop, f.name) && !slices.Contains(dropped, f.name) {
			b = fmt.Appendf(b, "%s: %s\r\n", f.name, f.value)
		}
	}
	return append(b, "\r\n"...), nil
}

// connectionNames are the headers that the Connection header says end here.
func (h *head) connectionNames() []string {
	var names []string
	for _, f := range h.headers {
		if f.name == "connection" {
			for name := range strings.SplitSeq(f.value, ",") {
				names = append(names, lowerASCII(strings.Trim(name, " \t")))
			}
		}
	}
	return names
}

// exchange sends the request and brings back the answer, which may come
// before the whole request was sent, and end it.
func (f *flow) exchange(c *client, h *head, requestHead []byte, body io.Reader) {
	_ = c.conn.SetDeadline(time.Time{})
	up := &meter{flow: f, pipe: pipe{dst: f.up, src: c.conn, count: &f.sent}}
	from := &idleReader{flow: f, conn: c.conn, r: body, patience: f.proxy.limits.Idle}
	var sender sync.WaitGroup
	var unsent error
	var cut bool // by the client, or by a limit: the request will never be whole
	sender.Go(func() {
		unsent = sendRequest(up, requestHead, h.length, from)
		if cut = unsent != nil && !up.broken && !from.over.Load(); cut {
			_ = f.up.Close()
		}
	})
	begun, err := f.answer(c, h)
	_ = f.up.Close()
	from.over.Store(true)
	_ = c.conn.SetReadDeadline(time.Now()) // ends a sender whose client is still writing
	sender.Wait()

	reason := ReasonDone
	switch {
	case err == nil:
	case cut:
		reason = endOf(unsent)
	case reasonOf(err) == ReasonUpstreamProxy:
		reason = ReasonUpstreamProxy
	case !begun:
		reason = ReasonUpstream
	default:
		reason = endOf(err)
	}
	f.finish(reason)
	switch {
	case !begun:
		c.answer(denial{reason: reason, target: target{f.detail.Host, f.detail.Port}, method: h.method})
	case unsent != nil:
		c.linger()
	}
}

func sendRequest(up io.Writer, head []byte, length int64, body io.Reader) error {
	if _, err := up.Write(head); err != nil {
		return err
	}
	if length >= 0 {
		n, err := io.Copy(up, body)
		if err == nil && n < length {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	buf := make([]byte, bufferSize)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			if _, err := up.Write(fmt.Appendf(nil, "%x\r\n%s\r\n", n, buf[:n])); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			_, err = io.WriteString(up, "0\r\n\r\n")
			return err
		}
		if err != nil {
			return err
		}
	}
}

// answer reads the upstream's answer and writes it to the client, framed anew;
// begun says that the client was sent any of it.
func (f *flow) answer(c *client, h *head) (begun bool, err error) {
	from := &idleReader{flow: f, conn: f.up, r: f.up, patience: f.proxy.limits.FirstByte}
	limit := &headLimit{r: from, left: maxAnswerHead}
	resp, err := readAnswer(bufio.NewReaderSize(limit, bufferSize), h.method)
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }()
	if f.detail.Upstream && resp.StatusCode == http.StatusProxyAuthRequired {
		return false, refusal(ReasonUpstreamProxy, "the operator's proxy wants other credentials: [egress.proxy] names them")
	}
	limit.off = true
	for _, value := range resp.Header["Connection"] {
		for name := range strings.SplitSeq(value, ",") {
			resp.Header.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		resp.Header.Del(name)
	}
	resp.Close, resp.Trailer = true, nil
	if h.old && resp.ContentLength < 0 {
		resp.TransferEncoding = nil // an HTTP/1.0 client reads to the end
	}
	return true, resp.Write(&meter{flow: f, pipe: pipe{dst: c.conn, src: f.up, count: &f.received}})
}

// readAnswer skips interim answers; a change of protocol is refused.
func readAnswer(r *bufio.Reader, method string) (*http.Response, error) {
	for range maxInterim {
		resp, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil || resp.StatusCode >= 200 {
			return resp, err
		}
		_ = resp.Body.Close() // interim answers have no body
		if resp.StatusCode == http.StatusSwitchingProtocols {
			break
		}
	}
	return nil, refusal(ReasonUpstream, "no final answer")
}

// meter counts and bounds what is written to one side.
type meter struct {
	flow *flow
	pipe pipe
	// broken says that the side takes no more, which does not mean that it says no more.
	broken bool
}

func (m *meter) Write(b []byte) (int, error) {
	if reason := m.flow.write(m.pipe, b); reason != ReasonDone {
		m.broken = reason == ReasonReset
		return 0, refusal(reason, "the connection ended")
	}
	return len(b), nil
}

// idleReader gives the first read its patience, and each later one the flow's idle time.
type idleReader struct {
	flow     *flow
	conn     net.Conn
	r        io.Reader
	patience time.Duration
	// over ends it: set first, and then the connection's read deadline.
	over atomic.Bool
}

func (i *idleReader) Read(p []byte) (int, error) {
	_ = i.conn.SetReadDeadline(time.Now().Add(i.patience))
	if i.over.Load() {
		return 0, errOver
	}
	n, err := i.r.Read(p)
	if n > 0 {
		i.patience = i.flow.proxy.limits.Idle
	}
	return n, err
}

// errOver says that the exchange ended before the request did.
var errOver = errors.New("the exchange is over")

// headLimit bounds what is read until off is set.
type headLimit struct {
	r    io.Reader
	left int
	off  bool
}

func (l *headLimit) Read(p []byte) (int, error) {
	if l.off {
		return l.r.Read(p)
	}
	if l.left <= 0 {
		return 0, refusal(ReasonUpstream, "the answer's head is too large")
	}
	n, err := l.r.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}
