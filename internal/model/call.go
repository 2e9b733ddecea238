package model

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/budget"
)

const (
	messagesPath = "/v1/messages"
	countPath    = "/v1/messages/count_tokens"
	// minOutput is the least max_tokens worth a call when the budget runs out.
	minOutput = 1024
)

// call is one request from its record to its settlement.
type call struct {
	id          nacre.Correlation
	path        string
	req         *request
	price       budget.Price
	reservation budget.Reservation
	reserved    int64
	digest      string
	dropped     int

	status int
	usage  budget.Usage
	// counted says that the upstream has reported usage.
	counted bool
	reason  Reason
	// charge says how the reservation ends.
	charge charge
}

// charge is how a reservation ends. The zero value takes it in full.
type charge uint8

const (
	chargeReserved charge = iota
	chargeUsed
	chargeNothing
)

// maxRefusals is how many refused requests of a session are answered and
// recorded; after them every connection is cut, so that a sandbox cannot fill
// the disk with its own refusals.
const maxRefusals = 10_000

// ServeHTTP carries one call: who? → allowed? → reserve → record → send → pass on → settle → record.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.refused.Load() >= maxRefusals {
		abort()
	}
	c, no := g.admit(w, r)
	if no != nil {
		g.refuse(w, r, c, no)
		return
	}
	defer g.release()
	if no := g.reserve(r.Context(), c); no != nil {
		g.refuse(w, r, c, no)
		return
	}
	header, dropped := upstreamHeader(r.Header, g.opts.Key)
	body := c.req.encode()
	c.dropped, c.digest = dropped, digestOf(body)
	if err := g.recordBegin(r.Context(), c); err != nil {
		g.settle(c, chargeNothing)
		refuse(ReasonAudit, "the record could not be written, so the call was not made").write(w)
		return
	}
	defer func() {
		g.settle(c, c.charge)
		g.recordEnd(r.Context(), c)
	}()
	g.send(w, r, c, header, body)
}

// refuse records a refusal and answers it.
func (g *Gateway) refuse(w http.ResponseWriter, r *http.Request, c *call, no *refusal) {
	g.refused.Add(1)
	g.recordDenied(r.Context(), no, c)
	no.write(w)
}

// admit decides whether a request may be a call at all. With no refusal the
// call holds one of the gateway's slots.
func (g *Gateway) admit(w http.ResponseWriter, r *http.Request) (*call, *refusal) {
	c := &call{id: nacre.Correlation(fmt.Sprintf("model-%d", g.serial.Add(1))), reason: ReasonCut}
	if !presented(r.Header, g.opts.SessionToken) {
		return c, refuse(ReasonToken, "the session's token was not presented")
	}
	switch r.RequestURI {
	case messagesPath, messagesPath + "?beta=true":
		c.path = messagesPath
	case countPath, countPath + "?beta=true":
		c.path = countPath
	}
	if r.Method != http.MethodPost || c.path == "" {
		return c, refuse(ReasonPath, "%.16s %.128q is not on the gateway's list", r.Method, r.RequestURI)
	}
	if no := checkHeader(r.Header); no != nil {
		return c, no
	}
	if !g.acquire(r.Context()) {
		return c, refuse(ReasonBusy, "too many calls at once")
	}
	body, no := g.readBody(w, r)
	if no == nil {
		c.req, no = parseRequest(body, g.limits.Body)
	}
	if no == nil && c.path == messagesPath {
		var err error
		if c.price, err = g.opts.Prices.Lookup(c.req.model); err != nil {
			no = refuse(ReasonNoPrice, "model %.128q: %v", c.req.model, err)
		}
	}
	if no != nil {
		g.release()
		return c, no
	}
	if g.opts.Observe != nil {
		g.opts.Observe(body)
	}
	return c, nil
}

func checkHeader(h http.Header) *refusal {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return refuse(ReasonMalformed, "want the content type application/json")
	}
	if len(h.Values("Content-Encoding")) > 0 {
		return refuse(ReasonMalformed, "want a body that is not compressed")
	}
	for _, v := range h.Values("Anthropic-Version") {
		if v != apiVersion {
			return refuse(ReasonMalformed, "want anthropic-version %s", apiVersion)
		}
	}
	return nil
}

func (g *Gateway) acquire(ctx context.Context) bool {
	patience := time.NewTimer(g.limits.Request)
	defer patience.Stop()
	select {
	case g.slots <- struct{}{}:
		return true
	case <-patience.C:
	case <-ctx.Done():
	}
	return false
}

func (g *Gateway) release() { <-g.slots }

func (g *Gateway) readBody(w http.ResponseWriter, r *http.Request) ([]byte, *refusal) {
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(g.limits.Request)) // where there is no deadline the server's own hold
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(g.limits.Body)))
	_ = conn.SetReadDeadline(time.Time{})
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return nil, refuse(ReasonTooLarge, "the request is larger than %d bytes", g.limits.Body)
	}
	if err != nil {
		return nil, refuse(ReasonMalformed, "the request did not arrive whole")
	}
	return body, nil
}

// reserve sets the most that the call can cost aside. Where running calls hold
// what is missing it waits for them; where less is left than the call would
// use, it lowers max_tokens to what is.
func (g *Gateway) reserve(ctx context.Context, c *call) *refusal {
	if c.path == countPath {
		return nil // counting is free
	}
	patience := time.NewTimer(g.limits.Request)
	defer patience.Stop()
	for {
		changed, err := g.tryReserve(c)
		if err == nil {
			return nil
		}
		if changed == nil {
			return refuse(ReasonBudget, "%v. Start the session with a larger budget to go on", err)
		}
		select {
		case <-changed:
		case <-patience.C:
			return refuse(ReasonBusy, "the budget is held by calls that are running")
		case <-ctx.Done():
			return refuse(ReasonBusy, "the client left")
		}
	}
}

// tryReserve reserves now, or says what to wait for; nil means that waiting will not help.
func (g *Gateway) tryReserve(c *call) (<-chan struct{}, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	input, output := c.req.inputTokens(), c.req.maxTokens
	if output == 0 {
		output = g.limits.Output
	}
	need := c.price.Most(input, output)
	r, err := g.ledger.Reserve(need)
	if err != nil && g.ledger.Reserved() > 0 {
		return g.changed, err
	}
	if err != nil {
		output = min(output, c.price.Affordable(input, g.ledger.Left()))
		if output < minOutput || output <= c.req.thinking {
			return nil, err
		}
		need = c.price.Most(input, output)
		if r, err = g.ledger.Reserve(need); err != nil {
			return nil, err
		}
	}
	c.reservation, c.reserved = r, need
	c.req.setOutput(output)
	return nil, nil
}

// settle ends the call's reservation, and wakes those who wait for it.
func (g *Gateway) settle(c *call, how charge) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.reservation == 0 {
		return
	}
	switch how {
	case chargeNothing:
		g.ledger.Release(c.reservation)
		c.reserved = 0
	case chargeUsed:
		c.reserved = c.price.Cost(c.usage)
		g.ledger.Settle(c.reservation, c.reserved)
	default:
		g.ledger.Charge(c.reservation)
	}
	c.reservation = 0
	g.tokensIn += c.usage.In()
	g.tokensOut += c.usage.Output
	close(g.changed)
	g.changed = make(chan struct{})
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// The outcomes of a model.end record.
const (
	OutcomeCompleted = "completed"
	OutcomeFailed    = "failed"
	OutcomeCut       = "cut"
)

// detail is what a model record adds: names, counts and digests, never content.
type detail struct {
	Path     string `json:"path,omitempty"`
	Model    string `json:"model,omitempty"`
	Digest   string `json:"digest,omitempty"`
	Stream   bool   `json:"stream,omitempty"`
	Bytes    int    `json:"request_bytes,omitempty"`
	Messages int    `json:"messages,omitempty"`
	Tools    int    `json:"tools,omitempty"`
	Dropped  int    `json:"betas_dropped,omitempty"`
	Max      int64  `json:"max_tokens,omitempty"`
	Reserved int64  `json:"reserved_micro_usd,omitempty"`
	Status   int    `json:"status,omitempty"`
	In       *int64 `json:"input_tokens,omitempty"`
	Out      *int64 `json:"output_tokens,omitempty"`
	Cached   *int64 `json:"cache_read_tokens,omitempty"`
	Cost     *int64 `json:"micro_usd,omitempty"`
}

func (g *Gateway) record(kind nacre.Kind, outcome string, reason Reason, c *call, d detail) nacre.Record {
	text, err := json.Marshal(d)
	if err != nil {
		text = nil // strings and numbers always marshal
	}
	return nacre.Record{
		Kind: kind, Time: g.opts.Now(), Group: g.opts.Group, Session: g.opts.Session, Source: "model",
		Correlation: c.id, Outcome: outcome, Reason: string(reason), Detail: text,
	}
}

func (c *call) detail() detail {
	d := detail{Path: c.path, Digest: c.digest, Dropped: c.dropped, Reserved: c.reserved}
	if c.req != nil {
		d.Model, d.Stream, d.Bytes, d.Max = c.req.model, c.req.stream, c.req.bytes, c.req.maxTokens
		d.Messages, d.Tools = c.req.messages, c.req.tools
	}
	return d
}

// recordBegin makes the call durable before it is made.
func (g *Gateway) recordBegin(ctx context.Context, c *call) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	return g.opts.Record.Commit(ctx, g.record(nacre.KindModelBegin, nacre.OutcomeAllowed, "", c, c.detail()))
}

func (g *Gateway) recordDenied(ctx context.Context, no *refusal, c *call) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	_ = g.opts.Record.Append(ctx, g.record(nacre.KindModelBegin, nacre.OutcomeDenied, no.reason, c, c.detail())) // a log that fails also refuses what is allowed
}

func (g *Gateway) recordEnd(ctx context.Context, c *call) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	outcome := OutcomeFailed
	switch c.reason {
	case ReasonDone:
		outcome = OutcomeCompleted
	case ReasonCut:
		outcome = OutcomeCut
	}
	d := detail{Path: c.path, Model: c.req.model, Digest: c.digest, Status: c.status}
	in, out, cost := c.usage.In(), c.usage.Output, c.reserved
	d.In, d.Out, d.Cached, d.Cost = &in, &out, &c.usage.CacheRead, &cost
	_ = g.opts.Record.Append(ctx, g.record(nacre.KindModelEnd, outcome, c.reason, c, d)) // a log that fails also refuses the next call
}
