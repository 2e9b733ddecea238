// Package chat is what channels to chat services have in common. It brings messages to the host, shows a question once as a card with
// buttons, and pairs people. It tells of the work on a message in one message that is edited, and cuts texts.
//
// It promises that none of it differs between services. It knows none of them: what a service
// is told, and how, is its plugin's own.
package chat

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre/plugin"
)

// Limits of a service's answers, and of how long they may take.
const (
	maxAnswer = 4 << 20 // bytes
	maxHead   = 64 << 10
	// CallTime is how long one call of a service may take.
	CallTime = 8 * time.Second
	// maxPause is the longest that a service may ask to wait.
	maxPause = time.Hour
)

// How long is waited before another try.
const (
	ShortPause   = time.Second
	LongPause    = 30 * time.Second
	RevokedPause = 5 * time.Minute
)

var (
	errNoProxy = errors.New("no proxy")
	// ErrUnreached is all that is said of a call that failed: what a client says of it may hold
	// its address, and an address may hold a token.
	ErrUnreached = errors.New("the service was not reached, or its answer was none")
)

// World is what a channel takes from outside.
type World struct {
	Now    func() time.Time
	Getenv func(string) string
	Wait   func(ctx context.Context, d time.Duration) error
	// Patience is how long a connection may be silent before it counts as dead.
	Patience time.Duration
}

// Here is the world of a program that runs.
func Here(patience time.Duration) World {
	return World{Now: time.Now, Getenv: os.Getenv, Wait: Wait, Patience: patience}
}

// Wait waits, and ends with an error where ctx ends before.
func Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Backoff is how long to wait after so many failures.
func Backoff(failures int) time.Duration { return min(ShortPause<<min(failures, 5), LongPause) }

// Pause is how long a service may ask to wait, of the seconds that it says.
func Pause(seconds int) time.Duration {
	return time.Duration(min(max(seconds, 0), int(maxPause/time.Second))) * time.Second
}

// Served tells whether the host serves channels, which its first line says, and gives what a
// handler reads: the handler of a single session has nothing to listen for.
func Served(in io.Reader) (served bool, all io.Reader, err error) {
	lines := bufio.NewReader(in)
	first, err := lines.ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, nil, err
	}
	var m plugin.Message
	var p plugin.InitializeParams
	served = json.Unmarshal(first, &m) == nil && m.Method == plugin.MethodInitialize && json.Unmarshal(m.Params, &p) == nil && p.ChannelTicket != ""
	return served, io.MultiReader(bytes.NewReader(first), lines), nil
}

// Lock waits until no other handler of this data folder listens, as while a plugin is
// reloaded. It is nil where ctx ends.
func (w World) Lock(ctx context.Context, dir string) (unlock func()) {
	file, err := os.OpenFile(filepath.Join(dir, "polling"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		Note("the lock of the data folder: %v", err)
		return nil
	}
	for ctx.Err() == nil {
		if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			return func() { _ = file.Close() }
		}
		_ = w.Wait(ctx, ShortPause)
	}
	_ = file.Close()
	return nil
}

// Note tells the operator something.
func Note(format string, values ...any) { fmt.Fprintf(os.Stderr, format+"\n", values...) }

// Base reads the address of a service's API.
func Base(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("no address of an API")
	}
	return u, nil
}

// Listed is how the operator lists the host of an address.
func Listed(u *url.URL) string {
	switch {
	case u.Port() != "" && u.Scheme == "http":
		return u.Host + "/http"
	case u.Port() != "":
		return u.Host
	case u.Scheme == "http":
		return u.Host + ":80/http"
	}
	return u.Host + ":443"
}

// Proxy is the host's, by which alone anything is reached.
func (w World) Proxy(r *http.Request) (*url.URL, error) {
	name := "HTTPS_PROXY"
	if r.URL.Scheme == "http" || r.URL.Scheme == "ws" {
		name = "HTTP_PROXY"
	}
	address := w.Getenv(name)
	if address == "" {
		return nil, errNoProxy
	}
	return url.Parse(address)
}

// Client calls services, always through the host's proxy. It follows no redirect.
func (w World) Client() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy: w.Proxy, TLSHandshakeTimeout: CallTime, MaxResponseHeaderBytes: maxHead, DisableKeepAlives: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Answer is what a service said.
type Answer struct {
	Status int
	Header http.Header
	Data   []byte
}

// Ask posts a form, where params are url.Values or a [Form], an [Attachment] as it is, or else JSON. Its error is [ErrUnreached] and says nothing of the request.
func Ask(ctx context.Context, client *http.Client, address string, header map[string]string, params any) (Answer, error) {
	return AskBy(ctx, client, http.MethodPost, address, header, params)
}

// AskBy is [Ask] by another method of HTTP; where params are nil, there is no body.
func AskBy(ctx context.Context, client *http.Client, method, address string, header map[string]string, params any) (Answer, error) {
	body, err := contentOf(ctx, params)
	if err != nil {
		return Answer{}, err
	}
	r, err := http.NewRequestWithContext(ctx, method, address, body.from)
	if err != nil {
		return Answer{}, ErrUnreached
	}
	r.ContentLength = body.bytes
	if body.kind != "" {
		r.Header.Set("Content-Type", body.kind)
	}
	answer, err := do(client, r, header, maxAnswer)
	if errors.Is(err, ErrTooLarge) {
		return Answer{}, ErrUnreached
	}
	return answer, err
}

// do asks once. Its error is [ErrUnreached], or [ErrTooLarge] of an answer with more than most bytes.
func do(client *http.Client, r *http.Request, header map[string]string, most int64) (Answer, error) {
	for name, value := range header {
		r.Header.Set(name, value)
	}
	resp, err := client.Do(r)
	if err != nil {
		return Answer{}, ErrUnreached
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	switch {
	case err != nil:
		return Answer{}, ErrUnreached
	case int64(len(data)) > most:
		return Answer{}, ErrTooLarge
	}
	return Answer{resp.StatusCode, resp.Header, data}, nil
}

// content is what is sent with a request, how much that is, and what of.
type content struct {
	from  io.Reader
	bytes int64
	kind  string
}

func contentOf(ctx context.Context, params any) (content, error) {
	switch p := params.(type) {
	case nil:
		return content{from: http.NoBody}, nil
	case Attachment:
		return content{p.Open(ctx), p.Bytes, "application/octet-stream"}, nil
	case url.Values:
		return inMemory([]byte(p.Encode()), "application/x-www-form-urlencoded"), nil
	case Form:
		return p.content(ctx)
	}
	body, err := json.Marshal(params)
	return inMemory(body, "application/json; charset=utf-8"), err
}

func inMemory(body []byte, kind string) content {
	return content{bytes.NewReader(body), int64(len(body)), kind}
}
