// Package model promises that a sandbox gets answers from a model and nothing else from its vendor (M-04). A
// gateway on one unix socket holds the keys. It lets through an allow-list of Anthropic Messages, OpenAI
// Responses and OpenAI Chat Completions with the client's own tools only. It reserves what a call may cost
// before it is made, and records every call without its content. It is not a tunnel and not a cache, and it
// does not judge what is said.
package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/budget"
)

// Defaults of Limits.
const (
	// DefaultBody is the largest request in bytes, the vendor's own limit.
	DefaultBody = 32 << 20
	// DefaultCalls is how many calls of a session run at once; more wait.
	DefaultCalls = 16
	// DefaultConnections is how many connections a session has at once; more wait.
	DefaultConnections = 64
	// DefaultRequest is how long a request may take to arrive whole.
	DefaultRequest = time.Minute
	// DefaultFirstByte is how long the upstream may take to begin its answer.
	DefaultFirstByte = 10 * time.Minute
	// DefaultIdle is how long the upstream may be silent in an answer.
	DefaultIdle = 5 * time.Minute
	// DefaultStream is the longest stream that is passed on, in bytes.
	DefaultStream = 1 << 30
	// DefaultOutput is the most output tokens of a call that sets no maximum of its own.
	DefaultOutput = 32_000
)

const (
	maxHeader = 64 << 10
	// dialTimeout and tlsTimeout bound the way to the upstream.
	dialTimeout = 10 * time.Second
	tlsTimeout  = 10 * time.Second
	// recordTimeout bounds the write of a record that outlives its request.
	recordTimeout = 10 * time.Second
)

// Limits of one session's gateway. Zero means the default, never "none".
type Limits struct {
	Body        int
	Calls       int
	Connections int
	Request     time.Duration
	FirstByte   time.Duration
	Idle        time.Duration
	// Stream ends an answer that does not end itself; it is charged in full.
	Stream int
	// Output is the maximum where a call sets none.
	Output int64
}

func (l Limits) withDefaults() Limits {
	l.Body = positive(l.Body, DefaultBody)
	l.Calls = positive(l.Calls, DefaultCalls)
	l.Connections = positive(l.Connections, DefaultConnections)
	l.Request = positive(l.Request, DefaultRequest)
	l.FirstByte = positive(l.FirstByte, DefaultFirstByte)
	l.Idle = positive(l.Idle, DefaultIdle)
	l.Stream = positive(l.Stream, DefaultStream)
	l.Output = positive(l.Output, DefaultOutput)
	return l
}

func positive[T int | int64 | time.Duration](v, standard T) T {
	if v <= 0 {
		return standard
	}
	return v
}

// Options of a gateway. What is not said to be optional is required.
type Options struct {
	// Upstreams are asked in this order.
	Upstreams []Upstream
	// SessionToken is what the brain must present as its key.
	SessionToken nacre.Secret
	// Budget is what the session may spend, in micro-dollars.
	Budget int64
	// Days, when set, is where every session of the installation accounts for what it spends. DayLimits are
	// what may be spent there in one day.
	Days      *Daybook
	DayLimits budget.DayLimits
	// Agent is the brain with its version, such as "claude 2.1.329": it chooses
	// the beta features that may be asked for. One that is not known may ask for none.
	Agent string
	// VendorTools are what may run at the vendor (VendorTools): the operator's
	// grants; none is the rule.
	VendorTools []string
	// Prices are the models that may be used.
	Prices  budget.Table
	Record  nacre.Recorder
	Session nacre.SessionID
	Group   nacre.Group
	Oversight
	// Now gives the time of records.
	Now func() time.Time
	// Client is optional. Redirects are never followed, whatever it says.
	Client *http.Client
	// Limits are optional.
	Limits Limits
}

// Oversight is who looks on. Its zero value is nobody.
type Oversight struct {
	// Observe, when set, is given the body of every request that is accepted,
	// before it is sent on. It must not keep or change it.
	Observe func(body []byte)
	// Revoked, when set, tells whether what the session was granted was taken back. Nothing is sent to a
	// model then, and a call that is under way ends within about a second (M-35).
	Revoked func() bool
}

func (o Oversight) revoked() bool { return o.Revoked != nil && o.Revoked() }

// Gateway serves one session. It is safe for concurrent use.
type Gateway struct {
	opts Options
	// upstreams are never changed.
	upstreams []Upstream
	limits    Limits
	allowed   allowed
	client    *http.Client
	slots     chan struct{}
	serial    atomic.Uint64
	refused   atomic.Int64

	mu     sync.Mutex
	ledger *budget.Ledger
	// changed is closed when a reservation ends.
	changed             chan struct{}
	tokensIn, tokensOut int64
}

// New checks the options and makes a gateway. It opens nothing.
func New(opts Options) (*Gateway, error) {
	switch {
	case opts.Record == nil || opts.Now == nil:
		return nil, errors.New("model: a recorder and a clock are required")
	case opts.SessionToken.Empty():
		return nil, errors.New("model: a session token is required")
	case opts.Budget <= 0:
		return nil, errors.New("model: a budget is required")
	}
	for _, name := range opts.VendorTools {
		if !slices.Contains(VendorTools(), name) {
			return nil, fmt.Errorf("model: vendor tool %.64q: what can be granted is %v", name, VendorTools())
		}
	}
	upstreams, err := opts.gather()
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	limits := opts.Limits.withDefaults()
	return &Gateway{
		opts: opts, upstreams: upstreams, limits: limits, allowed: allowed{betasOf(opts.Agent), opts.VendorTools}, client: newClient(opts.Client, limits), slots: make(chan struct{}, limits.Calls),
		ledger: budget.NewLedger(opts.Budget), changed: make(chan struct{}),
	}, nil
}

// newClient copies given, or makes a client that reads no environment.
func newClient(given *http.Client, l Limits) *http.Client {
	client := &http.Client{}
	if given != nil {
		*client = *given
	}
	if client.Transport == nil {
		t := Transport()
		t.MaxIdleConnsPerHost = l.Calls
		client.Transport = t
	}
	client.Jar, client.Timeout = nil, 0
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client
}

// Transport is what the gateway speaks to upstreams with. It reads no environment: where
// it dials, and whom it trusts, is the caller's to change.
func Transport() *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout: tlsTimeout, ForceAttemptHTTP2: true, DisableCompression: true,
		MaxIdleConnsPerHost: DefaultCalls, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: maxHeader,
	}
}

// Serve answers until ctx ends or the listener fails, then closes every
// connection and waits until all calls are settled and recorded. It returns
// nil when ctx ended it.
func (g *Gateway) Serve(ctx context.Context, l net.Listener) error {
	var calls sync.WaitGroup
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls.Add(1)
			defer calls.Done()
			g.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: g.limits.Request, ReadTimeout: g.limits.Request, IdleTimeout: g.limits.Idle, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    log.New(io.Discard, "", 0), // what clients do wrong is answered, not logged
	}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { defer close(closed); _ = srv.Close() })
	err := srv.Serve(netutil.LimitListener(l, g.limits.Connections))
	if stop() {
		_ = srv.Close()
		err = fmt.Errorf("model: %w", err)
	} else {
		<-closed
		err = nil
	}
	calls.Wait()
	g.client.CloseIdleConnections()
	return err
}

// Spent is what the session's calls cost so far, in micro-dollars and tokens.
// A call that is still running is not in it.
func (g *Gateway) Spent() (microUSD, tokensIn, tokensOut int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ledger.Spent(), g.tokensIn, g.tokensOut
}
