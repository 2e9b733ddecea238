package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/leak"
	"github.com/nacre-dev/nacre/internal/redact"
	"github.com/nacre-dev/nacre/internal/urlpath"
)

// OutcomeAnswered is the outcome of the record that ends a request on a host
// whose TLS is opened: its status, and the bytes of both bodies.
const OutcomeAnswered = "answered"

const (
	// httpsPort need not be written in a Host header.
	httpsPort = 443
	// maxRecordedPath is how much of a path a record holds, in bytes.
	maxRecordedPath = 512
	maxMethod       = 32
)

// order is one request that a credential allows, ready to be sent.
type order struct {
	request    *http.Request
	credential Credential
	secrets    []string
	sent       atomic.Int64
}

// exchange carries one request and its answer. It reports whether what the
// client was sent is a whole answer.
func (o *opened) exchange(w http.ResponseWriter, r *http.Request) (whole bool) {
	d := denial{target: o.host, method: r.Method[:min(len(r.Method), maxMethod)], opened: true}
	if o.proxy.requests.Add(1) > maxRequests {
		d.reason = ReasonBusy
	}
	defer o.proxy.requests.Add(-1)
	over := o.proxy.accepted.Add(1) - o.proxy.limits.Total
	if over > 0 {
		d.reason = ReasonSpent
	}
	if over > 1 { // the first has a record: no decision is made on them
		o.explain(w, d)
		return true
	}
	if d.reason != "" {
		o.refuse(r.Context(), w, d)
		return true
	}
	ctx, stop := context.WithCancelCause(r.Context())
	defer stop(context.Canceled)
	held := &memory{of: &o.proxy.buffered}
	defer held.give()
	q, err := o.admit(ctx, stop, r, &d, held)
	if err != nil {
		o.refuse(ctx, w, d.because(err))
		return true
	}
	return o.send(ctx, w, q, d)
}

// because adds why to a denial.
func (d denial) because(err error) denial {
	d.reason = reasonOf(err)
	var r *reasonError
	if errors.As(err, &r) {
		d.detail, d.address = r.detail, r.address
	}
	return d
}

// refuse records a refusal and answers it.
func (o *opened) refuse(ctx context.Context, w http.ResponseWriter, d denial) {
	o.proxy.recordDenied(ctx, d)
	o.explain(w, d)
}

// explain answers for the host, with nothing of what it said: its length would be
// that of another body.
func (o *opened) explain(w http.ResponseWriter, d denial) {
	clear(w.Header())
	if d.isPush() {
		explainPush(w, d)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Nacre-Reason", string(d.reason))
	if d.reason == ReasonOpaque {
		w.Header().Set("Accept-Encoding", "gzip, deflate, identity") // RFC 7694
	}
	w.WriteHeader(d.status())
	if d.method != http.MethodHead {
		_, _ = io.WriteString(w, d.text()) // a client that is gone needs no answer
	}
}

// checkAuthority refuses every name but the CONNECT's (M-22).
func (o *opened) checkAuthority(name string) error {
	if named, err := parseAuthority(name, httpsPort); err != nil || named != o.host {
		return refusal(ReasonAuthority, "the request names another host than the connection")
	}
	return nil
}

// admit decides on a request: whose? where to? may it? Then it is made anew,
// with the credential, and stopped when that is lost.
func (o *opened) admit(ctx context.Context, stop context.CancelCauseFunc, r *http.Request, d *denial, held *memory) (*order, error) {
	if err := errors.Join(o.checkAuthority(r.Host), o.inspect(r)); err != nil {
		return nil, err
	}
	if r.Trailer != nil || r.Header["Trailer"] != nil {
		return nil, refusal(ReasonMalformed, "a request has no trailers")
	}
	if length := r.Header.Get("Content-Length"); length != "" && length != strconv.FormatInt(r.ContentLength, 10) {
		return nil, refusal(ReasonMalformed, "the Content-Length is not the body's")
	}
	if r.Header["Upgrade"] != nil {
		return nil, refusal(ReasonUpgrade, "another protocol, such as a websocket, is not carried to a host that holds a credential")
	}
	where, _, _ := strings.Cut(r.RequestURI, "?")
	d.path = recordedPath(where)
	path, query, err := splitTarget(r.RequestURI)
	if err != nil {
		return nil, err
	}
	c, err := o.choose(r, d, held, path, query)
	if err != nil {
		return nil, err
	}
	headers, err := cleanHeaders(r.Header, c)
	if err != nil {
		return nil, err
	}
	if query, err = cleanQuery(query, path, c); err != nil {
		return nil, err
	}
	if err := o.substituted(r, path, query, headers); err != nil {
		return nil, err
	}
	if r.Body, err = guardForm(r.Method, r.Body, r.Header); err != nil {
		return nil, err
	}
	c.carried(ctx, o.proxy.opts.Now(), stop)
	material, err := c.material(ctx)
	if err != nil {
		return nil, err
	}
	q, err := o.compose(ctx, r, c, material, &url.URL{Path: path, RawQuery: query}, headers)
	if err == nil && c.Scheme == SchemeSigV4 {
		err = o.sign(q, material, held)
	}
	return q, err
}

// recordedPath is what a record tells of a path: no secret, and not all of a long one.
func recordedPath(path string) string {
	clean, _ := redact.New().String(path)
	return clean[:min(len(clean), maxRecordedPath)]
}

// compose makes the request that is sent; its target is, byte for byte, the one
// that was checked.
func (o *opened) compose(ctx context.Context, r *http.Request, c Credential, m Material, where *url.URL, headers http.Header) (*order, error) {
	path, ok := urlpath.Unescape(where.Path)
	if !ok {
		return nil, refusal(ReasonPath, "an escape in a path is % and two hexadecimal digits")
	}
	host := o.host.String()
	if o.host.port == httpsPort {
		host = o.host.host
	}
	q := &order{credential: c, secrets: c.secrets(m)}
	q.request = (&http.Request{
		Method: r.Method, Host: host, Header: headers, ContentLength: r.ContentLength, Body: http.NoBody,
		URL: &url.URL{Scheme: "https", Host: o.host.String(), Path: path, RawPath: where.Path, RawQuery: where.RawQuery},
	}).WithContext(ctx)
	if q.request.URL.EscapedPath() != where.Path {
		return nil, refusal(ReasonPath, "the path cannot be sent as it was checked")
	}
	if r.Body != nil && r.ContentLength != 0 {
		q.request.Body = &countedBody{ReadCloser: r.Body, count: &q.sent}
	}
	c.add(q.request, m)
	return q, nil
}

// memory is what the body of one request takes of its session's, in bytes.
type memory struct {
	of   *atomic.Int64
	held int64
}

// take takes more, as far as there is any.
func (m *memory) take(n int64) error {
	if m.of.Add(n) > maxBuffered {
		m.of.Add(-n)
		return refusal(ReasonBusy, "too many bodies wait to be signed, or pushes to be read")
	}
	m.held += n
	return nil
}

// give gives all of it back.
func (m *memory) give() { m.giveTo(0) }

// giveTo gives back what is more than n.
func (m *memory) giveTo(n int64) {
	if more := m.held - n; more > 0 {
		m.of.Add(-more)
		m.held = n
	}
}

// countedBody counts what the host was sent of a body.
type countedBody struct {
	io.ReadCloser
	count *atomic.Int64
}

// Read implements io.Reader.
func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.count.Add(int64(n))
	return n, err
}

// send makes the use of the credential durable, sends the request and brings
// back the answer (K-21).
func (o *opened) send(ctx context.Context, w http.ResponseWriter, q *order, d denial) (whole bool) {
	correlation := o.proxy.correlation()
	told := detail{Host: o.host.host, Port: o.host.port, Method: q.request.Method, Path: d.path, Credential: d.credential, Opened: true}
	if err := o.proxy.opts.Record.Commit(ctx, o.proxy.record(nacre.OutcomeAllowed, ReasonListed, correlation, told)); err != nil {
		d.reason = ReasonAudit
		o.explain(w, d)
		return true
	}
	end := func(reason Reason, status int, received int64) {
		sent := q.sent.Load()
		told.Status, told.Sent, told.Received = status, &sent, &received
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
		defer cancel()
		_ = o.proxy.opts.Record.Append(late, o.proxy.record(OutcomeAnswered, reason, correlation, told)) // the answer is out
	}
	resp, err := o.transport(q.credential).RoundTrip(q.request)
	if err != nil {
		if d.reason = failureOf(err); d.reason == reasonOf(err) {
			d = d.because(err)
			told.Address, told.Why = d.address, d.detail
		}
		d.reason = q.ended(d.reason) //nolint:contextcheck // it asks the request for its own
		end(d.reason, 0, 0)
		o.explain(w, d)
		return true
	}
	defer func() { _ = resp.Body.Close() }()
	a := &answering{w: w, resp: resp, secrets: q.secrets, scan: leak.New(q.secrets), bodiless: isBodiless(q.request.Method, resp.StatusCode)}
	reason := q.ended(a.run()) //nolint:contextcheck // it asks the request for its own
	end(reason, resp.StatusCode, a.received)
	if !a.begun && reason != ReasonDone {
		if d.reason = reason; reason == ReasonEncoded {
			d.detail = "it could not be searched for the credential: ask for all of it, without Range, and for no coding but gzip"
		}
		o.explain(w, d)
		return true
	}
	return reason == ReasonDone
}

// ended is why a request ended. Where its credential was lost, a host may end in order since nacre leaves.
func (q *order) ended(seen Reason) Reason {
	if errors.Is(context.Cause(q.request.Context()), errRevoked) && seen != ReasonLeak {
		return ReasonRevoked
	}
	return seen
}

// failureOf is why there is no answer. What the error says is not told: it may
// hold what was sent.
func failureOf(err error) Reason {
	var r *reasonError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &r):
		return r.reason
	case errors.As(err, &certificate):
		return ReasonCertificate
	}
	return ReasonUpstream
}

func isBodiless(method string, status int) bool {
	return method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified || status < 200
}
