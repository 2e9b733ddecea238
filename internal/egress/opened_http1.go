package egress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// serveHTTP1 carries the requests of one HTTP/1.1 connection, one after the other.
func (o *opened) serveHTTP1(ctx context.Context, c *client, inside *insideConn) {
	for ctx.Err() == nil {
		if _, err := c.r.Peek(1); err != nil {
			return
		}
		inside.by(o.proxy.limits.Request)
		head, err := readHead(c.r, o.proxy.limits.Header)
		inside.whenever()
		if !o.begin() {
			return
		}
		more := o.one(ctx, c, inside, head, err)
		o.requests.Done()
		if !more {
			return
		}
	}
}

// one carries a request, and reports whether another may follow.
func (o *opened) one(ctx context.Context, c *client, inside *insideConn, head *head, err error) (more bool) {
	w := &http1Writer{to: c.conn, header: http.Header{}, close: true}
	if err != nil {
		o.refuse(ctx, w, denial{target: o.host, opened: true}.because(err))
		_ = w.finish()
		return false
	}
	w.method, w.old, w.close = head.method, head.old, head.wantsClose()
	body := &http1Body{r: bodyOf(c, head)}
	body.whole.Store(head.length == 0)
	r, err := head.request(ctx)
	if err == nil {
		if expect, ok := head.get("expect"); ok && !head.old {
			body.begin = w.expected
			if lowerASCII(expect) != "100-continue" {
				err = refusal(ReasonMalformed, "the one expectation is 100-continue")
			}
		}
	}
	if err != nil {
		w.close = true
		o.refuse(ctx, w, denial{target: o.host, method: head.method, opened: true}.because(err))
		_ = w.finish()
		return false
	}
	r.Body = body
	if !o.exchange(w, r) {
		_ = inside.Close() // without TLS's last word: the answer is cut, and must look so
		return false
	}
	finished := w.finish()
	if body.whole.Load() {
		return finished && !w.close
	}
	body.end(inside)
	return false
}

func bodyOf(c *client, h *head) io.Reader {
	if h.length >= 0 {
		return &io.LimitedReader{R: c.r, N: h.length}
	}
	return &chunkReader{r: c.r}
}

// wantsClose reports whether the client sends nothing after this.
func (h *head) wantsClose() bool {
	for _, name := range h.connectionNames() {
		if name == "close" {
			return true
		}
	}
	return h.old
}

// request is the head as net/http has it.
func (h *head) request(ctx context.Context) (*http.Request, error) {
	host, ok := h.get("host")
	if !ok {
		return nil, refusal(ReasonAuthority, "the Host header is missing")
	}
	r := &http.Request{Method: h.method, RequestURI: h.target, Host: host, ContentLength: h.length, Header: h.fields()}
	r.Header.Del("Host")
	return r.WithContext(ctx), nil
}

// http1Body reads a request's body until its end, and never past it.
type http1Body struct {
	r io.Reader
	// begin, where it is set, is called before the first byte is read.
	begin func() error

	mu    sync.Mutex
	used  bool
	whole atomic.Bool
}

// Read implements io.Reader.
func (b *http1Body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.whole.Load() {
		return 0, io.EOF
	}
	if !b.used && b.begin != nil {
		if err := b.begin(); err != nil {
			return 0, err
		}
	}
	b.used = true
	n, err := b.r.Read(p)
	limited, sized := b.r.(*io.LimitedReader)
	switch {
	case sized && limited.N == 0:
		b.whole.Store(true)
	case errors.Is(err, io.EOF) && sized:
		err = io.ErrUnexpectedEOF
	case errors.Is(err, io.EOF):
		b.whole.Store(true)
	}
	return n, err
}

// Close implements io.Closer. What is left of the body is left to end.
func (b *http1Body) Close() error { return nil }

// end stops whoever still reads the body, and takes what the client still sends
// for a while, so that it sees the answer.
func (b *http1Body) end(inside *insideConn) {
	inside.by(0)
	b.mu.Lock() // no read is under way
	b.whole.Store(true)
	b.mu.Unlock()
	linger(inside.Conn, inside.from)
}

// http1Writer writes one answer. It is used by one goroutine, besides expected.
type http1Writer struct {
	to     io.Writer
	header http.Header
	method string
	// old says that the client speaks HTTP/1.0, close that no other answer follows.
	old, close bool

	mu             sync.Mutex
	begun, chunked bool
	bodiless       bool
	err            error
}

// Header implements http.ResponseWriter.
func (w *http1Writer) Header() http.Header { return w.header }

// expected tells the client to send the body, unless it was answered already.
func (w *http1Writer) expected() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.begun {
		return errOver
	}
	_, err := io.WriteString(w.to, "HTTP/1.1 100 Continue\r\n\r\n")
	return err
}

// WriteHeader implements http.ResponseWriter.
func (w *http1Writer) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.begun {
		return
	}
	w.begun, w.bodiless = true, isBodiless(w.method, status)
	_, sized := w.header["Content-Length"]
	w.chunked = !sized && !w.bodiless && !w.old
	w.close = w.close || w.old
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %03d %s\r\n", status, http.StatusText(status))
	_ = w.header.Write(&b) // a buffer takes all
	if w.chunked {
		b.WriteString("Transfer-Encoding: chunked\r\n")
	}
	if w.close {
		b.WriteString("Connection: close\r\n")
	}
	b.WriteString("\r\n")
	_, w.err = w.to.Write(b.Bytes())
}

// Write implements http.ResponseWriter.
func (w *http1Writer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.err != nil || w.bodiless || len(p) == 0 {
		return len(p), w.err
	}
	out := p
	if w.chunked {
		out = append(append(fmt.Appendf(make([]byte, 0, len(p)+maxChunkLine), "%x\r\n", len(p)), p...), "\r\n"...)
	}
	if _, w.err = w.to.Write(out); w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// finish ends the answer, and reports whether all of it was written.
func (w *http1Writer) finish() bool {
	if w.err == nil && w.chunked {
		_, w.err = io.Copy(w.to, strings.NewReader("0\r\n\r\n"))
	}
	return w.err == nil
}
