package model

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/budget"
)

// minOutput is the least output worth a call when the budget runs out.
const minOutput = 1024

// call is one request from its record to its settlement.
type call struct {
	id       nacre.Correlation
	route    route
	req      *request
	upstream asked
	bill
	digest  string
	dropped dropped

	status int
	meter  meter
	// short and over say that the upstream claimed less, and much more, than was counted.
	short, over bool
	reason      Reason
}

// bill is what a call may cost, and how that is paid.
type bill struct {
	price       budget.Price
	reservation budget.Reservation
	reserved    int64
	// hold is what is set aside of the day's budgets.
	hold *hold
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

// maxRefusals is how many refused requests of a session are answered and recorded. After them every
// connection is cut, so that a sandbox cannot fill the disk with its own refusals.
const maxRefusals = 10_000

// ServeHTTP carries one call: who? → allowed? → reserve → record → send → pass on → settle → record.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.refused.Load() >= maxRefusals {
		abort()
	}
	if isModels(r) && presented(r.Header, g.opts.SessionToken) {
		g.listModels(w)
		return
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
	if no := c.identify(r.Context(), nacre.Secret{}); no != nil {
		g.settle(r.Context(), c, chargeNothing)
		g.refuse(w, r, c, no)
		return
	}
	header, left := upstreamHeader(r.Header, c.route, c.upstream.credential, g.allowed)
	body := c.req.encode()
	c.dropped, c.digest = left, digestOf(body)
	if err := g.recordBegin(r.Context(), c); err != nil {
		g.settle(r.Context(), c, chargeNothing)
		c.write(w, refuse(ReasonAudit, "the record could not be written, so the call was not made"))
		return
	}
	defer func() {
		g.settle(r.Context(), c, c.charge)
		g.recordEnd(r.Context(), c)
	}()
	g.send(w, r, c, header, body)
}

// refuse records a refusal and answers it.
func (g *Gateway) refuse(w http.ResponseWriter, r *http.Request, c *call, no *refusal) {
	g.refused.Add(1)
	g.recordDenied(r.Context(), no, c)
	c.write(w, no)
}

// write answers in the form of the vendor that the brain thinks it speaks to.
func (c *call) write(w http.ResponseWriter, no *refusal) { no.write(w, c.route.dialect) }

// admit decides whether a request may be a call at all. With no refusal the
// call holds one of the gateway's slots.
func (g *Gateway) admit(w http.ResponseWriter, r *http.Request) (*call, *refusal) {
	c := &call{
		id: nacre.Correlation(fmt.Sprintf("model-%d", g.serial.Add(1))), reason: ReasonCut, route: route{dialect: shapeOf(r.RequestURI)},
	}
	if !presented(r.Header, g.opts.SessionToken) {
		return c, refuse(ReasonToken, "the session's token was not presented")
	}
	found, ok := findRoute(r.Method, r.RequestURI)
	if !ok {
		return c, refuse(ReasonPath, "%.16s %.128q is not on the gateway's list", r.Method, r.RequestURI)
	}
	c.route = found
	if g.opts.revoked() {
		return c, refuse(ReasonRevoked, "what the session was granted was revoked")
	}
	if no := checkHeader(r.Header); no != nil {
		return c, no
	}
	if !g.acquire(r.Context()) {
		return c, refuse(ReasonBusy, "too many calls at once")
	}
	body, no := g.readBody(w, r)
	if no == nil {
		no = g.understand(c, body)
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

// understand reads the request, and finds who answers it at which price.
func (g *Gateway) understand(c *call, body []byte) (no *refusal) {
	if c.req, no = parseRequest(body, g.limits.Body, c.route, g.allowed); no != nil {
		return no
	}
	if c.upstream.Upstream, no = g.choose(c.route.dialect, c.req.model); no != nil {
		return no
	}
	c.meter.quiet, c.meter.searches = !c.req.usageAsked, c.req.certain
	if c.route.free {
		return nil
	}
	var err error
	if c.price, err = c.upstream.Prices.Lookup(c.req.model); err != nil {
		return refuse(ReasonNoPrice, "model %.128q: %v", c.req.model, err)
	}
	if most := c.price.MaxOutput; most > 0 && c.req.maxTokens > most {
		return refuse(ReasonField, "%s is %d: model %.128q writes at most %d tokens", c.req.maxField, c.req.maxTokens, c.req.model, most)
	}
	return nil
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
	if err == nil {
		_ = conn.SetReadDeadline(time.Time{}) // else the server, which reads on before it answers, would wait without end
	}
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return nil, refuse(ReasonTooLarge, "the request is larger than %d bytes", g.limits.Body)
	}
	if err != nil {
		return nil, refuse(ReasonMalformed, "the request did not arrive whole")
	}
	return body, nil
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
