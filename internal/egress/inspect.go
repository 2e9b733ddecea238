package egress

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/nacre-dev/nacre/internal/unpack"
)

// inspect shows a request on an opened host to whoever looks for what must not
// leave: its head now, its body in pieces as it is sent.
func (o *opened) inspect(r *http.Request) error {
	if o.proxy.opts.Inspect.Each == nil {
		return nil
	}
	look := o.proxy.opts.Inspect.Each()
	var head strings.Builder
	head.WriteString(r.Method + " " + r.RequestURI + "\n")
	for name, values := range r.Header {
		for _, value := range values {
			head.WriteString(name + ": " + value + "\n")
		}
	}
	if err := look([]byte(head.String())); err != nil {
		return refusal(ReasonStopped, "what the request holds ended the session")
	}
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	r.Body = &inspectedBody{from: r.Body, search: &unpack.Search{
		Inspect: o.proxy.inspector(), Look: look, Refuse: unsearchable, Deflated: slices.Contains(codingsOf(r.Header, "Content-Encoding"), "deflate"),
	}}
	if o.proxy.opts.Inspect.PassOpaque {
		return nil
	}
	return searchableBody(r.Header)
}

// unsearchable refuses a compressed text that cannot be searched.
func unsearchable(detail string) error { return refusal(ReasonPacked, detail) }

// inspector makes the session's own looks, which need no end.
func (p *Proxy) inspector() func() (func([]byte) error, func()) {
	return func() (func([]byte) error, func()) { return p.opts.Inspect.Each(), func() {} }
}

// inspectUnpacked shows what a body of plain HTTP unpacks to. As it is, it was
// seen when it came, unless the sizes of chunks stood between its bytes.
func (p *Proxy) inspectUnpacked(h *head, body io.Reader) io.ReadCloser {
	if p.opts.Inspect.Each == nil {
		return io.NopCloser(body)
	}
	seen := &unpack.Search{Inspect: p.inspector(), Refuse: unsearchable}
	for _, f := range h.headers {
		seen.Deflated = seen.Deflated || f.name == "content-encoding" && strings.Contains(lowerASCII(f.value), "deflate")
	}
	if h.length < 0 {
		seen.Look = p.opts.Inspect.Each()
	}
	return &inspectedBody{from: io.NopCloser(body), search: seen}
}

// inspectedBody gives nothing of a piece that is not to leave. Of a compressed text
// it gives nothing before what that says was seen.
type inspectedBody struct {
	from   io.ReadCloser
	mu     sync.Mutex // closing may not wait for a reader
	search *unpack.Search
	held   []byte
	buffer []byte
	end    error
	closed bool
}

// Read implements io.Reader.
func (b *inspectedBody) Read(p []byte) (int, error) {
	for {
		if n := b.release(p); n > 0 || len(p) == 0 {
			return n, nil
		}
		if b.end != nil {
			return 0, b.end
		}
		if b.buffer == nil {
			b.buffer = make([]byte, unpack.BufferSize)
		}
		n, err := b.from.Read(b.buffer)
		b.take(b.buffer[:n], err)
	}
}

// release gives of what is held as much as may leave.
func (b *inspectedBody) release(p []byte) int {
	ready := len(b.held)
	if b.end == nil && b.unseen() {
		ready -= unpack.HeldBody
	}
	if ready <= 0 {
		return 0
	}
	n := copy(p, b.held[:ready])
	b.held = b.held[n:]
	return n
}

func (b *inspectedBody) unseen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.search.Unseen()
}

// take sees what came, and holds it.
func (b *inspectedBody) take(piece []byte, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		b.end, b.held = http.ErrBodyReadAfterClose, nil
		return
	}
	if len(piece) > 0 {
		if found := b.search.Next(piece); found != nil {
			_ = b.search.Finish() // one reason is enough
			b.end, b.held = found, nil
			return
		}
		b.held = append(b.held, piece...)
	}
	if err == nil {
		return
	}
	if found := b.search.Finish(); found != nil {
		err = found
	}
	if b.end = err; !errors.Is(err, io.EOF) {
		b.held = nil
	}
}

// Close implements io.Closer.
func (b *inspectedBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	_ = b.search.Finish() // what was not sent was not sent
	return b.from.Close()
}
