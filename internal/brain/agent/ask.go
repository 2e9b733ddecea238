//go:build linux

package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nacre-dev/nacre/internal/brain"
)

// Limits of asking a model.
const (
	// attempts is how often one request is sent at most.
	attempts = 5
	// firstWait is the wait after the first failure; it doubles up to maxWait.
	firstWait = 500 * time.Millisecond
	maxWait   = 30 * time.Second
	// maxAsked is the longest that the other side may ask to be left alone.
	maxAsked = 120
	// firstByte is how long an answer may take to begin, idle how long it may
	// pause.
	firstByte = 10 * time.Minute
	idle      = 3 * time.Minute
	// maxFault is how much of an error's body is read.
	maxFault = 64 << 10
	// maxFaultText is how much of its message is told.
	maxFaultText = 1000
)

var errIdle = errors.New("nothing came for too long")

// asker sends requests to the model gateway.
type asker struct {
	dialect dialect
	url     string
	token   string
	client  *http.Client
	// pause waits, unless ctx ends first.
	pause func(ctx context.Context, d time.Duration) error
	// retrying is told why a request is sent again.
	retrying func(class brain.Class, text string) error
}

// gatewayURL refuses a base that is not on the sandbox's own loopback: the
// gateway is there, and the conversation goes nowhere else.
func gatewayURL(variable, base, path string) (string, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("%s %.80q: want the model gateway, such as http://127.0.0.1:3129", variable, base)
	}
	addr, err := netip.ParseAddr(u.Hostname())
	if u.Hostname() != "localhost" && (err != nil || !addr.IsLoopback()) {
		return "", fmt.Errorf("%s %.80q is not on the loopback address", variable, base)
	}
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/v1")
	return u.JoinPath(path).String(), nil
}

// newClient asks no proxy: the gateway is on loopback. It follows no redirect.
func newClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{Proxy: nil, DisableCompression: true, MaxResponseHeaderBytes: maxFault},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ask sends the conversation until it is answered whole, a bounded number of
// times. The error is a *fault, or ctx's.
func (a *asker) ask(ctx context.Context, c *conversation) (reply, error) {
	body, err := a.dialect.request(c)
	if err != nil {
		return reply{}, &fault{class: brain.ClassProtocol, text: err.Error()}
	}
	for attempt := 1; ; attempt++ {
		got, err := a.once(ctx, body)
		if err == nil {
			got.sent = len(body)
			return got, nil
		}
		if ctx.Err() != nil {
			return reply{}, context.Cause(ctx)
		}
		f := faultOf(err)
		wait, again := f.after(attempt)
		if !again {
			return reply{}, f
		}
		text := fmt.Sprintf("attempt %d of %d in %s: %s", attempt+1, attempts, wait.Round(100*time.Millisecond), f.text)
		if err := a.retrying(f.class, text); err != nil {
			return reply{}, err
		}
		if err := a.pause(ctx, wait); err != nil {
			return reply{}, context.Cause(ctx)
		}
	}
}

// after says how long to wait before the next attempt. Where there is to be
// none, the fault itself says why.
func (f *fault) after(attempt int) (wait time.Duration, again bool) {
	switch {
	case !f.again:
		return 0, false
	case attempt == attempts:
		f.text += fmt.Sprintf(" (given up after %d attempts)", attempts)
		return 0, false
	case f.hasWait && f.wait > maxAsked:
		f.text += fmt.Sprintf(" (it asks to wait %d s, and %d s is the longest wait here)", f.wait, maxAsked)
		return 0, false
	case f.hasWait:
		return time.Duration(f.wait) * time.Second, true
	}
	wait = min(firstWait<<(attempt-1), maxWait)
	return wait + rand.N(wait/4), true // not all at once
}

func faultOf(err error) *fault {
	if f, ok := errors.AsType[*fault](err); ok {
		return f
	}
	return &fault{class: brain.ClassNetwork, text: err.Error(), again: true}
}

// once sends the request one time. Whoever is silent for too long is cut off.
func (a *asker) once(ctx context.Context, body []byte) (reply, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(firstByte, func() { cancel(errIdle) })
	defer watch.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, bytes.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("User-Agent", "nacre-brain")
	a.dialect.sign(req.Header, a.token)
	res, err := a.client.Do(req)
	if err != nil {
		return reply{}, &fault{class: brain.ClassNetwork, text: "the model gateway: " + cause(ctx, err).Error(), again: true}
	}
	defer func() { _ = res.Body.Close() }() // only read
	if res.StatusCode != http.StatusOK {
		return reply{}, statusFault(res)
	}
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind != "text/event-stream" {
		return reply{}, &fault{class: brain.ClassProtocol, text: fmt.Sprintf("the answer is %.80q and no stream", kind)}
	}
	l := a.dialect.listen()
	err = events(&watched{res.Body, func() { watch.Reset(idle) }}, l.hear)
	got, whole := l.answer()
	if errors.Is(err, errEvent) || errors.Is(err, errAnswer) {
		return reply{}, notUnderstood(err)
	}
	if f, ok := errors.AsType[*fault](err); ok {
		return reply{}, f
	}
	if whole != nil && err != nil {
		return reply{}, &fault{class: brain.ClassNetwork, text: "the answer was cut off: " + cause(ctx, err).Error(), again: true}
	}
	return got, whole
}

// cause prefers why ctx was ended to what came of it.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil {
		return why
	}
	return err
}

// watched tells whenever something was read.
type watched struct {
	r    io.Reader
	tell func()
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if n > 0 {
		w.tell()
	}
	return n, err
}

// vendorError is the error object of both vendors.
type vendorError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Code    any    `json:"code"`
}

// statusFault reads why a request was refused.
func statusFault(res *http.Response) *fault {
	data, _ := io.ReadAll(io.LimitReader(res.Body, maxFault)) // what came of it is told
	var body struct {
		Error json.RawMessage `json:"error"`
	}
	var said vendorError
	if json.Unmarshal(data, &body) != nil || json.Unmarshal(body.Error, &said) != nil || said.Message == "" {
		said.Message = strings.TrimSpace(strings.ToValidUTF8(string(data), ""))
	}
	f := said.fault(res.StatusCode)
	switch res.Header.Get("X-Should-Retry") {
	case "true":
		f.again = true
	case "false":
		f.again = false
	}
	if n, err := strconv.ParseInt(res.Header.Get("Retry-After"), 10, 64); err == nil && n >= 0 {
		f.wait, f.hasWait = n, true
	}
	return f
}

// fault says what an error of the vendor's means. The status is 0 where it
// came in a stream that had begun.
func (v vendorError) fault(status int) *fault {
	code, _ := v.Code.(string)
	f := &fault{class: brain.StatusClass(status), text: clip(v.Message, maxFaultText)}
	if f.text == "" {
		f.text = clip(v.Type+" "+code, maxFaultText)
	}
	switch {
	case code == "insufficient_quota" || v.Type == "insufficient_quota" || v.Type == "billing_error":
		f.class = brain.ClassBudget
	case status == http.StatusRequestEntityTooLarge || tooLong(v.Type, code, v.Message):
		f.class, f.long = brain.ClassContext, true
	case status == 0:
		f.class, f.again = streamClass(cmp.Or(v.Type, code))
	case status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError:
		f.again = true
	}
	if status != 0 {
		f.text = fmt.Sprintf("HTTP %d: %s", status, f.text)
	}
	return f
}

// streamClass is what the type of an error in a stream stands for.
func streamClass(kind string) (class brain.Class, again bool) {
	switch kind {
	case "invalid_request_error", "not_found_error", "invalid_prompt":
		return brain.ClassProtocol, false
	case "authentication_error", "permission_error":
		return brain.ClassAuth, false
	case "rate_limit_error", "rate_limit_exceeded", "requests", "tokens":
		return brain.ClassRate, true
	}
	return brain.ClassOverload, true
}

// tooLong knows the words of vendors and of local servers for a conversation
// that is longer than the model can read.
func tooLong(kind, code, text string) bool {
	if kind == "request_too_large" || code == "context_length_exceeded" {
		return true
	}
	text = strings.ToLower(text)
	for _, words := range []string{
		"prompt is too long", "maximum context length", "context_length_exceeded", "available context size", "exceeds the context", "context window",
	} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}

// clip cuts s at limit bytes, as valid UTF-8.
func clip(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit] + "…"
	}
	return strings.ToValidUTF8(s, "")
}

// sleep waits by the clock.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
