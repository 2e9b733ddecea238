package mcp

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/mcptool"
	"github.com/nacre-dev/nacre/plugin"
)

// trips carries requests with the operator's credential, cuts answers that are
// too long, and notes why the last one failed.
type trips struct {
	next   http.RoundTripper
	bearer nacre.Secret
	// unreached and refused are about the last request.
	unreached, refused atomic.Bool
}

// RoundTrip implements http.RoundTripper.
func (t *trips) RoundTrip(request *http.Request) (*http.Response, error) {
	own := request.Clone(request.Context())
	if !t.bearer.Empty() {
		own.Header.Set("Authorization", "Bearer "+t.bearer.Reveal())
	}
	own.Header.Set("Accept-Encoding", "identity") // a short answer must not unfold into a long one
	response, err := t.next.RoundTrip(own)
	status := 0
	if err == nil {
		status = response.StatusCode
	}
	t.unreached.Store(err != nil && request.Context().Err() == nil || status >= http.StatusInternalServerError || status == http.StatusTooManyRequests)
	t.refused.Store(status == http.StatusUnauthorized || status == http.StatusForbidden)
	if err != nil {
		return nil, err
	}
	if encoding := response.Header.Get("Content-Encoding"); response.Uncompressed || encoding != "" && encoding != "identity" {
		_ = response.Body.Close() // the encoding is the error
		return nil, fmt.Errorf("the answer is encoded as %.20q, which was not asked for", encoding)
	}
	response.Body = mcptool.Bounded(response.Body, MaxMessage)
	return response, nil
}

// explain gives an error the category that the last request tells of (D-23).
func (t *trips) explain(err error) error {
	category := ""
	switch {
	case t.refused.Load():
		category = plugin.CategoryAuth
	case t.unreached.Load():
		category = plugin.CategoryNetwork
	default:
		return err
	}
	return &categorised{category, err}
}

// categorised is an error of a known category. It is a ToolError only where a
// start fails: no agent is to read it.
type categorised struct {
	category string
	err      error
}

func (c *categorised) Error() string { return c.err.Error() }

func (c *categorised) Unwrap() error { return c.err }

func refuseRedirect(*http.Request, []*http.Request) error {
	return errors.New("the server redirects: name its new address in mcp.url")
}
