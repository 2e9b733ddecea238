package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/nacre-dev/nacre/plugin"
)

// Limits of sending.
const (
	sendTime    = 25 * time.Second // with all attempts; the host waits 30 s
	attemptTime = 8 * time.Second
	maxAttempts = 3
	maxPause    = 5 * time.Second
	maxAnswer   = 64 << 10 // bytes of an answer that are read, and thrown away
)

var errNoProxy = errors.New("no proxy")

// transport goes through the host's proxy, always: nothing is dialled directly.
func transport(getenv func(string) string) *http.Transport {
	return &http.Transport{
		Proxy: func(r *http.Request) (*url.URL, error) {
			name := "HTTPS_PROXY"
			if r.URL.Scheme == "http" {
				name = "HTTP_PROXY"
			}
			address := getenv(name)
			if address == "" {
				return nil, errNoProxy
			}
			return url.Parse(address)
		},
		OnProxyConnectResponse: func(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
			if resp.Header.Get(reasonHeader) != "" {
				return &refusedError{resp.StatusCode}
			}
			return nil
		},
		DisableKeepAlives: true, ResponseHeaderTimeout: attemptTime, TLSHandshakeTimeout: attemptTime, MaxResponseHeaderBytes: maxHead,
	}
}

// reasonHeader is in every refusal of the proxy.
const reasonHeader = "X-Nacre-Reason"

// refusedError is a refusal of the proxy, which it gives with 403 where the
// operator has not listed the host.
type refusedError struct{ status int }

func (e *refusedError) Error() string { return "refused by the proxy" }

type sendArgs struct{ Recipient, Body string }

// outbound is what is posted.
type outbound struct {
	ID     string    `json:"id"`
	SentAt time.Time `json:"sent_at"`
	From   string    `json:"from"` // the group
	To     string    `json:"to"`
	Body   string    `json:"body"`
}

func (h *handler) send(ctx context.Context, r *plugin.Request, args sendArgs) (any, error) {
	k := h.hooks[args.Recipient]
	if k == nil || k.reply == nil {
		return nil, refuse("UNKNOWN_RECIPIENT", false, "No hook %.80q has a reply_url: the operator sets it in [plugins.webhook]", args.Recipient)
	}
	now := h.world.now()
	m := outbound{ID: rand.Text(), SentAt: now.UTC(), From: string(r.Group), To: k.name, Body: args.Body}
	body, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	for attempt := 1; ; attempt++ {
		pause, err := h.post(ctx, k, m.ID, body)
		if err == nil {
			return map[string]string{"status": "sent", "id": m.ID}, nil
		}
		if pause == 0 || attempt == maxAttempts || h.world.wait(ctx, pause*time.Duration(attempt)) != nil {
			return nil, err
		}
	}
}

func refuse(code string, retriable bool, format string, values ...any) *plugin.ToolError {
	return &plugin.ToolError{Code: code, Message: fmt.Sprintf(format, values...), Retriable: retriable}
}

// post sends once; pause is how long to wait before it is worth another try, or 0.
func (h *handler) post(ctx context.Context, k *hook, id string, body []byte) (pause time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, k.reply.String(), bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", mediaJSON)
	r.Header.Set("User-Agent", "nacre-webhook/1.0")
	r.Header.Set("Idempotency-Key", id)
	r.Header.Set(genericHeader, genericSignature(k.secret, body, h.world.now()))
	resp, err := h.client.Do(r)
	if err != nil {
		return notSent(k, err)
	}
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer) // what it says is not told
	_ = resp.Body.Close()
	return judge(k, resp)
}

func notSent(k *hook, err error) (time.Duration, error) {
	var refused *refusedError
	if errors.Is(err, errNoProxy) || errors.As(err, &refused) && refused.status == http.StatusForbidden {
		return 0, denied(k)
	}
	return time.Second, refuse("NOT_REACHED", true, "%s was not reached", k.name)
}

func denied(k *hook) error {
	host := k.reply.Host
	if k.reply.Port() == "" && k.reply.Scheme == "https" {
		host += ":443"
	} else if k.reply.Port() == "" {
		host += ":80/http"
	}
	return refuse("HOST_DENIED", false, "%s is not among the hosts that may be reached: the operator can add %q to hosts in [access.webhook]", k.reply.Host, host)
}

func judge(k *hook, resp *http.Response) (time.Duration, error) {
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		return 0, nil
	case resp.Header.Get(reasonHeader) != "" && code == http.StatusForbidden:
		return 0, denied(k)
	case code == http.StatusTooManyRequests || code >= 500:
		pause := time.Second
		if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
			pause = min(time.Duration(min(n, 60))*time.Second, maxPause)
		}
		return pause, refuse("NOT_TAKEN", true, "%s cannot take it now (HTTP %d)", k.name, code)
	default:
		return 0, refuse("NOT_TAKEN", false, "%s did not take it (HTTP %d)", k.name, code)
	}
}
