//go:build linux

package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/nacre-dev/nacre/internal/brain"
)

// Limits of fetch.
const (
	fetchTime      = 60 * time.Second
	maxFetchBody   = 16 << 20
	maxFetchRead   = 16 << 20
	maxHeaders     = 64
	maxRedirects   = 5
	maxProxyAnswer = 4 << 10
)

// request is the input of fetch.
type request struct {
	url, method, body, bodyFile string
	headers                     map[string]string
}

// fetch makes one HTTP request, through the proxy of the environment for
// every host: the sandbox has no other way out.
func (t Tools) fetch(ctx context.Context, input json.RawMessage) (Result, error) {
	in := request{method: http.MethodGet}
	err := brain.Fields(input, map[string]any{
		"url": &in.url, "method": &in.method, "body": &in.body, "body_file": &in.bodyFile, "headers": &in.headers,
	})
	if err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	req, err := t.request(ctx, in)
	if err != nil {
		return Result{}, err
	}
	var refused proxyAnswer
	transport := t.transport(&refused)
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return fmt.Errorf("more than %d redirects", maxRedirects)
		}
		return nil
	}}
	res, err := client.Do(req)
	if err != nil {
		return Result{}, errors.Join(err, refused.err())
	}
	defer func() { _ = res.Body.Close() }() // only read
	return answer(res)
}

func (t Tools) request(ctx context.Context, in request) (*http.Request, error) {
	target, err := url.Parse(in.url)
	switch {
	case err != nil:
		return nil, err
	case target.Scheme != "http" && target.Scheme != "https" || target.Host == "":
		return nil, fmt.Errorf("url %.200q: use http:// or https:// and a host", in.url)
	case in.body != "" && in.bodyFile != "":
		return nil, errors.New(`use one of "body" and "body_file"`)
	case len(in.headers) > maxHeaders:
		return nil, fmt.Errorf("%d headers: at most %d", len(in.headers), maxHeaders)
	}
	body := []byte(in.body)
	if in.bodyFile != "" {
		if body, err = t.wholeFile(in.bodyFile); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, in.method, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range in.headers {
		if strings.EqualFold(name, "host") {
			req.Host = value
			continue
		}
		req.Header.Set(name, value)
	}
	return req, nil
}

func (t Tools) wholeFile(name string) ([]byte, error) {
	f, err := t.open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(f, maxFetchBody+1))
	if err == nil && len(data) > maxFetchBody {
		err = fmt.Errorf("%s has more than %d bytes", f.Name(), maxFetchBody)
	}
	return data, err
}

// transport asks the proxy for every host, loopback included.
func (t Tools) transport(refused *proxyAnswer) *http.Transport {
	dialer := net.Dialer{}
	return &http.Transport{
		Proxy:             func(r *http.Request) (*url.URL, error) { return t.proxy(r.URL.Scheme) },
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err == nil {
				err = conn.SetDeadline(time.Now().Add(fetchTime))
			}
			return conn, err
		},
		OnProxyConnectResponse: refused.read,
	}
}

func (t Tools) proxy(scheme string) (*url.URL, error) {
	upper := strings.ToUpper(scheme) + "_PROXY"
	for _, name := range []string{upper, strings.ToLower(upper)} {
		if value := t.Getenv(name); value != "" {
			return url.Parse(value)
		}
	}
	return nil, nil
}

// proxyAnswer is what the proxy said when it refused a connection: why, and
// how to ask for it.
type proxyAnswer struct{ text string }

func (p *proxyAnswer) read(_ context.Context, _ *url.URL, _ *http.Request, res *http.Response) error {
	if res.StatusCode == http.StatusOK {
		return nil
	}
	said, err := io.ReadAll(io.LimitReader(res.Body, maxProxyAnswer))
	p.text = strings.TrimSpace(strings.ToValidUTF8(string(said), "\uFFFD"))
	return err
}

func (p *proxyAnswer) err() error {
	if p.text == "" {
		return nil
	}
	return errors.New(p.text)
}

// answer is the status, the type and the body. A refusing status is an error.
func answer(res *http.Response) (Result, error) {
	var body clipped
	limited := io.LimitReader(res.Body, maxFetchRead+1)
	read, err := io.Copy(&body, limited)
	if err != nil {
		return Result{}, fmt.Errorf("%s, and then: %w", res.Status, err)
	}
	text := "HTTP " + res.Status + "\n"
	if kind := res.Header.Get("Content-Type"); kind != "" {
		text += "Content-Type: " + kind + "\n"
	}
	text += "\n" + body.String()
	if read > maxFetchRead {
		text = joinLines(text, fmt.Sprintf("[more than %d bytes: the rest was not read]", maxFetchRead))
	}
	return Result{Text: text, IsError: res.StatusCode >= http.StatusBadRequest}, nil
}
