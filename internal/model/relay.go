package model

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	// maxAnswer is the largest answer that is not a stream, in bytes.
	maxAnswer = 64 << 20
	// maxError is the largest error body passed on, in bytes.
	maxError = 1 << 20
	// maxChunk is the most of a stream that waits for the rest of its line.
	maxChunk = 64 << 10
	// maxEvent is the longest line of a stream that is read for usage; longer
	// ones only pass. The last event of Responses holds the whole answer.
	maxEvent = 8 << 20
)

// send makes the call and passes the answer on. The call's charge and reason
// say how it went; until something better is known it was cut.
func (g *Gateway) send(w http.ResponseWriter, r *http.Request, c *call, header http.Header, body []byte) {
	ctx, stop := context.WithCancelCause(r.Context())
	defer stop(nil)
	watch := time.AfterFunc(g.limits.FirstByte, func() { stop(nil) })
	defer watch.Stop()
	go g.opts.endRevoked(ctx, stop)
	defer func() { // also of an answer that is cut
		if errors.Is(context.Cause(ctx), errRevoked) && c.reason != ReasonDone {
			c.reason = ReasonRevoked
		}
	}()

	resp, no, err := g.ask(ctx, c, r.URL.RawQuery, header, body)
	if no != nil {
		c.charge, c.reason = chargeNothing, no.reason
		c.write(w, no)
		return
	}
	if err != nil {
		c.reason = ReasonUnreachable
		if neverSent(err) {
			c.charge = chargeNothing
		}
		c.write(w, refuse(ReasonUnreachable, "the model could not be reached"))
		return
	}
	defer func() { _ = resp.Body.Close() }()
	c.status = resp.StatusCode
	a := &answer{gateway: g, call: c, w: w, resp: resp, watch: watch}
	switch kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		c.charge, c.reason = chargeNothing, ReasonRedirect
		c.write(w, refuse(ReasonRedirect, "the upstream redirects; the gateway does not follow"))
	case resp.StatusCode != http.StatusOK:
		if resp.StatusCode >= 400 {
			c.charge = chargeNothing // errors are not charged by vendors
		}
		a.fault()
	case encoded(resp.Header):
		c.reason = ReasonUpstreamError
		c.write(w, refuse(ReasonUnreachable, "the upstream's answer is compressed, though it was asked for one that is not"))
	case kind == "text/event-stream":
		a.stream()
	default:
		a.whole()
	}
}

// errRevoked is why a call ends of a session that may do nothing any more.
var errRevoked = errors.New("model: what the session was granted was revoked")

// revokedPoll is how soon a call ends once that was taken back.
const revokedPoll = time.Second

// endRevoked looks every second whether what the session was granted was taken back.
func (o Oversight) endRevoked(ctx context.Context, stop context.CancelCauseFunc) {
	every := time.NewTicker(revokedPoll)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			if o.revoked() {
				stop(errRevoked)
				return
			}
		}
	}
}

// ask sends a request. Where the vendor rejects the token of a login, the login gives another one,
// and the request is sent once more. The token may have been revoked, or have ended while the call
// waited.
func (g *Gateway) ask(ctx context.Context, c *call, query string, header http.Header, body []byte) (*http.Response, *refusal, error) {
	resp, no, err := g.post(ctx, c, query, header, body)
	if no != nil || err != nil || !c.upstream.credential.login || resp.StatusCode != http.StatusUnauthorized {
		return resp, no, err
	}
	_ = resp.Body.Close()
	if no := c.identify(ctx, c.upstream.credential.Key); no != nil {
		return nil, no, nil
	}
	c.upstream.credential.sign(header)
	return g.post(ctx, c, query, header, body)
}

func (g *Gateway) post(ctx context.Context, c *call, query string, header http.Header, body []byte) (*http.Response, *refusal, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.upstream.endpoint(c.route.path, query), bytes.NewReader(body))
	if err != nil {
		return nil, refuse(ReasonUnreachable, "the upstream's address is unusable"), nil
	}
	req.Header = header
	resp, err := g.client.Do(req)
	return resp, nil, err
}

// encoded reports whether an answer cannot be read as it is: neither metered
// nor searched for the key.
func encoded(h http.Header) bool {
	coding := h.Get("Content-Encoding")
	return coding != "" && !strings.EqualFold(coding, "identity")
}

// neverSent reports whether an error came before anything was sent, so that nothing can be charged.
func neverSent(err error) bool {
	var op *net.OpError
	var stranger *tls.CertificateVerificationError
	return errors.As(err, &op) && op.Op == "dial" || errors.As(err, &stranger)
}

// answer is an upstream's answer on its way to the brain.
type answer struct {
	gateway *Gateway
	call    *call
	w       http.ResponseWriter
	resp    *http.Response
	// watch ends the call when the upstream is silent.
	watch *time.Timer
	// long is a line that comes in more than one chunk; unread says that it is too long to be read.
	long   []byte
	unread bool
	// tail is the end of what came, in which a key may begin, and held what of a
	// chunk is not passed on until it is seen whether it does.
	tail, held []byte
}

// fault passes an upstream's error on as it is.
func (a *answer) fault() {
	a.call.reason = ReasonUpstreamError
	body, err := io.ReadAll(io.LimitReader(a.resp.Body, maxError+1))
	if err != nil || len(body) > maxError || encoded(a.resp.Header) || a.leaks(body) {
		body = refuse(ReasonUpstreamError, "the upstream's error could not be passed on").body(a.call.route.dialect)
	}
	a.begin()
	_, _ = a.w.Write(body) // a client that is gone needs no answer
}

// whole passes an answer on that is one JSON object.
func (a *answer) whole() {
	body, err := io.ReadAll(io.LimitReader(a.resp.Body, maxAnswer+1))
	switch {
	case err != nil || len(body) > maxAnswer || !json.Valid(body):
		a.call.write(a.w, refuse(ReasonUnreachable, "the answer was cut"))
		return
	case a.leaks(body):
		a.call.reason = ReasonKeyEchoed
		a.call.write(a.w, refuse(ReasonKeyEchoed, "the upstream's answer holds the key and was withheld"))
		return
	}
	if !a.call.route.free {
		a.call.route.read(body, &a.call.meter)
	}
	a.call.done()
	a.begin()
	_, _ = a.w.Write(body)
}

// begin writes the status and the headers that are passed on.
func (a *answer) begin() {
	patient(a.w, a.gateway.limits.Idle)
	downstreamHeader(a.w.Header(), a.resp.Header, a.call.upstream.credential.Key)
	a.w.WriteHeader(a.resp.StatusCode)
}

// patient bounds how long a client may take to read what is written next. It
// is set anew for every answer: a connection keeps its deadline.
func patient(w http.ResponseWriter, wait time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait)) // a writer without deadlines ends with its request
}

// leaks reports whether the key is in b, or across what was passed on before and b.
func (a *answer) leaks(b []byte) bool {
	key := []byte(a.call.upstream.credential.Key.Reveal())
	if len(key) == 0 {
		return false
	}
	seam := append(a.tail, b[:min(len(b), len(key))]...)
	found := bytes.Contains(seam, key) || bytes.Contains(b, key)
	if len(b) >= len(key) {
		seam = b
	}
	a.tail = append(a.tail[:0], seam[max(len(seam)-len(key)+1, 0):]...)
	return found
}

// settled is what of a chunk may be passed on, after what was held back of the
// one before: no beginning of the key, where more of the line comes.
func (a *answer) settled(chunk []byte, more bool) []byte {
	if len(a.held) > 0 {
		chunk = append(a.held, chunk...)
	}
	keep, key := 0, a.call.upstream.credential.Key.Reveal()
	for n := min(len(key)-1, len(chunk)); more && n > keep; n-- {
		if string(chunk[len(chunk)-n:]) == key[:n] {
			keep = n
		}
	}
	a.held = bytes.Clone(chunk[len(chunk)-keep:])
	return chunk[:len(chunk)-keep]
}

// stream passes events on as they come, and reads the usage out of them.
func (a *answer) stream() {
	a.begin()
	r := &lineReader{Reader: bufio.NewReaderSize(a.resp.Body, maxChunk)}
	out := http.NewResponseController(a.w)
	for passed := 0; passed < a.gateway.limits.Stream; {
		line, err := r.next()
		passed += len(line)
		a.watch.Reset(a.gateway.limits.Idle)
		more := errors.Is(err, bufio.ErrBufferFull)
		if whole, ok := a.gather(line, more); ok {
			a.read(whole)
		}
		if a.leaks(line) {
			a.call.reason = ReasonKeyEchoed
			abort()
		}
		patient(a.w, a.gateway.limits.Idle)
		line = a.settled(line, more)
		if !a.call.meter.withhold {
			if _, werr := a.w.Write(line); werr != nil {
				break
			}
		}
		a.call.meter.withhold = false
		if r.Buffered() == 0 && out.Flush() != nil {
			break
		}
		if err != nil && !more {
			break
		}
	}
	a.end()
}

// lineReader reads lines that end with CR, LF or both.
type lineReader struct {
	*bufio.Reader
	// returned says that the line before ended with CR alone.
	returned bool
}

// next gives a line as soon as it is known to be one: a CR may be half of an
// end, unless another CR is before it. What it gives is good until the next call.
func (r *lineReader) next() ([]byte, error) {
	for seen := 0; ; {
		_, err := r.Peek(seen + 1)
		buf, _ := r.Peek(r.Buffered()) // what is there cannot fail
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			_, _ = r.Discard(len(buf))
			return buf, err
		}
		if err != nil || bytes.IndexByte(buf[seen:], '\n') >= 0 {
			r.returned = false
			return r.ReadSlice('\n')
		}
		from := max(seen-1, 0)
		if end := bytes.IndexByte(buf[from:], '\r'); end >= 0 && (from+end+1 < len(buf) || r.returned && len(buf) == 1) {
			r.returned = true
			_, err := r.Discard(from + end + 1)
			return buf[:from+end+1], err
		}
		seen = len(buf)
	}
}

// gather puts the chunks of a line together, and reports whether it is whole and may be read.
func (a *answer) gather(chunk []byte, more bool) (line []byte, ok bool) {
	if !more && len(a.long) == 0 && !a.unread {
		return chunk, true
	}
	if len(a.long)+len(chunk) > maxEvent {
		a.unread, a.long = true, nil
		a.call.meter.unread = true
	}
	if !a.unread {
		a.long = append(a.long, chunk...)
	}
	if more {
		return nil, false
	}
	line, ok = a.long, !a.unread
	a.long, a.unread = nil, false
	return line, ok
}

// end says how a stream ended.
func (a *answer) end() {
	switch m := &a.call.meter; {
	case m.wrong:
		a.call.reason = ReasonUpstreamError // the brain was told; what it cost was not, so it is charged in full
	case m.ended:
		a.call.done()
	default:
		abort()
	}
}

// done ends a call whose answer came whole. Where the upstream does not say
// what it used, or says it in a way that cannot be read, the reservation is charged.
func (c *call) done() {
	c.reason = ReasonDone
	if c.meter.counted && !c.meter.unread {
		c.charge = chargeUsed
	}
}

// abort cuts the brain's connection, so that it knows that the answer is not
// whole. net/http has no other way once an answer has begun.
func abort() { panic(http.ErrAbortHandler) }

// byteOrderMark may stand before a stream, and is no part of its first line.
const byteOrderMark = "\ufeff"

// read looks at one line of the stream, or at many that end with CR alone.
func (a *answer) read(text []byte) {
	events := 0
	for line := range bytes.SplitSeq(text, []byte{'\r'}) {
		line = bytes.TrimPrefix(line, []byte(byteOrderMark))
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && len(bytes.TrimSpace(data)) > 0 {
			a.call.route.read(data, &a.call.meter)
			events++
		}
	}
	if events > 1 {
		a.call.meter.withhold = false // the others are the brain's
	}
}
