package model

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"time"
)

const (
	// maxAnswer is the largest answer that is not a stream, in bytes.
	maxAnswer = 64 << 20
	// maxError is the largest error body passed on, in bytes.
	maxError = 1 << 20
	// maxEvent is the longest line of a stream that is read for usage; longer ones only pass.
	maxEvent = 64 << 10
)

// send makes the call and passes the answer on. The call's charge and reason
// say how it went; until something better is known it was cut.
func (g *Gateway) send(w http.ResponseWriter, r *http.Request, c *call, header http.Header, body []byte) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	watch := time.AfterFunc(g.limits.FirstByte, cancel)
	defer watch.Stop()

	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.upstreamURL(r, c), bytes.NewReader(body))
	if err != nil {
		c.charge, c.reason = chargeNothing, ReasonUnreachable
		refuse(ReasonUnreachable, "the upstream's address is unusable").write(w)
		return
	}
	req.Header = header
	resp, err := g.client.Do(req)
	if err != nil {
		c.reason = ReasonUnreachable
		if neverSent(err) {
			c.charge = chargeNothing
		}
		refuse(ReasonUnreachable, "the model could not be reached").write(w)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	c.status = resp.StatusCode
	a := &answer{gateway: g, call: c, w: w, resp: resp, watch: watch}
	switch kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		c.charge, c.reason = chargeNothing, ReasonRedirect
		refuse(ReasonRedirect, "the upstream redirects; the gateway does not follow").write(w)
	case resp.StatusCode != http.StatusOK:
		a.fault()
	case kind == "text/event-stream":
		a.stream()
	default:
		a.whole()
	}
}

func (g *Gateway) upstreamURL(r *http.Request, c *call) string {
	u := g.opts.Upstream.JoinPath(c.path)
	u.RawQuery = r.URL.RawQuery // admit has accepted nothing but beta=true
	return u.String()
}

// neverSent reports whether an error came before anything was sent, so that nothing can be charged.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// answer is an upstream's answer on its way to the brain.
type answer struct {
	gateway *Gateway
	call    *call
	w       http.ResponseWriter
	resp    *http.Response
	// watch ends the call when the upstream is silent.
	watch *time.Timer
	ended bool
	// wrong says that an error event came in the stream.
	wrong bool
}

// fault passes an upstream's error on as it is. Errors are not charged by the vendor.
func (a *answer) fault() {
	a.call.charge, a.call.reason = chargeNothing, ReasonUpstreamError
	body, err := io.ReadAll(io.LimitReader(a.resp.Body, maxError+1))
	if err != nil || len(body) > maxError || a.leaks(body) {
		body = refuse(ReasonUpstreamError, "the upstream's error could not be passed on").body()
	}
	a.begin()
	_, _ = a.w.Write(body) // a client that is gone needs no answer
}

// whole passes an answer on that is one JSON object.
func (a *answer) whole() {
	body, err := io.ReadAll(io.LimitReader(a.resp.Body, maxAnswer+1))
	var said event
	switch {
	case err != nil || len(body) > maxAnswer || json.Unmarshal(body, &said) != nil:
		refuse(ReasonUnreachable, "the answer was cut").write(a.w)
		return
	case a.leaks(body):
		a.call.reason = ReasonKeyEchoed
		refuse(ReasonKeyEchoed, "the upstream's answer holds the key and was withheld").write(a.w)
		return
	}
	if a.call.path == countPath {
		a.call.reason = ReasonDone
	} else {
		said.Usage.into(a.call)
		a.call.done()
	}
	a.begin()
	_, _ = a.w.Write(body)
}

// begin writes the status and the headers that are passed on.
func (a *answer) begin() {
	downstreamHeader(a.w.Header(), a.resp.Header)
	a.w.WriteHeader(a.resp.StatusCode)
}

func (a *answer) leaks(b []byte) bool {
	key := a.gateway.opts.Key.Reveal()
	return key != "" && bytes.Contains(b, []byte(key))
}

// stream passes events on as they come, and reads the usage out of them.
func (a *answer) stream() {
	a.begin()
	r := bufio.NewReaderSize(a.resp.Body, maxEvent)
	out := http.NewResponseController(a.w)
	partial := false
	for {
		line, err := r.ReadSlice('\n')
		a.watch.Reset(a.gateway.limits.Idle)
		if a.leaks(line) {
			a.call.reason = ReasonKeyEchoed
			abort()
		}
		whole := !partial && err == nil
		partial = errors.Is(err, bufio.ErrBufferFull)
		if whole {
			a.read(line)
		}
		_ = out.SetWriteDeadline(time.Now().Add(a.gateway.limits.Idle)) // a writer without deadlines ends with its request
		if _, werr := a.w.Write(line); werr != nil {
			break
		}
		if r.Buffered() == 0 && out.Flush() != nil {
			break
		}
		if err != nil && !partial {
			break
		}
	}
	switch {
	case a.wrong:
		a.call.reason = ReasonUpstreamError // the brain was told; what it cost was not, so it is charged in full
	case a.ended:
		a.call.done()
	default:
		abort()
	}
}

// done ends a call whose answer came whole. Where the upstream does not say
// what it used, the reservation is charged.
func (c *call) done() {
	c.reason = ReasonDone
	if c.counted {
		c.charge = chargeUsed
	}
}

// abort cuts the brain's connection, so that it knows that the answer is not
// whole. net/http has no other way once an answer has begun.
func abort() { panic(http.ErrAbortHandler) }

// event is the part of a stream's event, or of a whole message, that is counted.
type event struct {
	Type    string `json:"type"`
	Message struct {
		Usage *usage `json:"usage"`
	} `json:"message"`
	Usage *usage `json:"usage"`
}

// read looks at one line of the stream.
func (a *answer) read(line []byte) {
	data, ok := bytes.CutPrefix(line, []byte("data:"))
	if !ok {
		return
	}
	var e event
	if json.Unmarshal(data, &e) != nil {
		return
	}
	switch e.Type {
	case "message_start":
		e.Message.Usage.into(a.call)
	case "message_delta":
		e.Usage.into(a.call)
	case "message_stop":
		a.ended = true
	case "error":
		a.wrong = true
	}
}

// usage is the vendor's account of a call, in tokens; each report holds totals so far.
type usage struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
	Creation   struct {
		Long int64 `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
}

// into adds a report to the call's: the larger of each total counts.
func (u *usage) into(c *call) {
	if u == nil {
		return
	}
	c.counted = true
	long := min(max(u.Creation.Long, 0), max(u.CacheWrite, 0))
	c.usage.Input = max(c.usage.Input, u.Input)
	c.usage.Output = max(c.usage.Output, u.Output)
	c.usage.CacheRead = max(c.usage.CacheRead, u.CacheRead)
	c.usage.CacheWriteLong = max(c.usage.CacheWriteLong, long)
	c.usage.CacheWrite = max(c.usage.CacheWrite, u.CacheWrite-long)
}
