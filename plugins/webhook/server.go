package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/net/netutil"

	"github.com/nacre-dev/nacre/plugin"
)

// Limits of a request.
const (
	maxConnections = 128
	maxHead        = 16 << 10 // bytes of a request's headers
	maxBody        = 64 << 10 // bytes
	maxText        = 8192     // characters of a message; more is cut off
	maxMessage     = 40 << 10 // bytes of a message, so that it fits an event as JSON
	headTime       = 5 * time.Second
	requestTime    = 10 * time.Second
	idleTime       = 30 * time.Second
	publishTime    = 10 * time.Second
)

// server takes the connections that the host hands over.
type server struct {
	http    *http.Server
	serving sync.WaitGroup
}

// listen takes over the socket. The process before this one, if it still runs,
// keeps the connections it has.
func listen(ctx context.Context, path string, h *handler) (*server, error) {
	l, err := plugin.Listen(ctx, path)
	if err != nil {
		return nil, err
	}
	s := &server{http: &http.Server{
		Handler: http.HandlerFunc(h.answer), MaxHeaderBytes: maxHead,
		ReadHeaderTimeout: headTime, ReadTimeout: requestTime, WriteTimeout: requestTime + publishTime, IdleTimeout: idleTime,
	}}
	s.serving.Go(func() { _ = s.http.Serve(netutil.LimitListener(l, maxConnections)) }) // it ends with close
	return s, nil
}

func (s *server) close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	s.serving.Wait()
	return err
}

// answer says no more than a status.
func (h *handler) answer(w http.ResponseWriter, r *http.Request) {
	status := h.take(w, r)
	switch status {
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "10")
	case http.StatusUnauthorized:
		w.Header().Set("Www-Authenticate", "Signature")
	}
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(status)
}

// take is the whole way of a request: where to? may it be read? who signed it,
// when, and was it here before? is it a message? Only then it is published.
func (h *handler) take(w http.ResponseWriter, r *http.Request) int {
	name, ok := strings.CutPrefix(r.URL.EscapedPath(), "/hook/")
	k := h.hooks[name]
	if !ok || k == nil || r.URL.RawQuery != "" {
		return http.StatusNotFound
	}
	if r.Method != http.MethodPost {
		return http.StatusMethodNotAllowed
	}
	media, ok := contentType(r.Header)
	if !ok {
		return http.StatusUnsupportedMediaType
	}
	shown, ok := parseSignature(k.preset, r.Header)
	if !ok {
		return http.StatusUnauthorized
	}
	body, status := readBody(w, r)
	if status != 0 {
		return status
	}
	if !shown.matches(k.secret, body) {
		return http.StatusUnauthorized
	}
	if !shown.fresh(h.world.now()) {
		return http.StatusForbidden
	}
	if !utf8.Valid(body) || media == mediaJSON && !isStrictJSON(body) {
		return http.StatusBadRequest
	}
	return h.accept(r, k, shown, message(k, media, body, r.Header))
}

// readBody gives the body, or why there is none.
func readBody(w http.ResponseWriter, r *http.Request) (body []byte, status int) {
	if r.ContentLength > maxBody {
		return nil, http.StatusRequestEntityTooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		return body, 0
	case errors.As(err, &tooLarge):
		return nil, http.StatusRequestEntityTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, http.StatusRequestTimeout
	}
	return nil, http.StatusBadRequest
}

// The kinds of bodies.
const (
	mediaJSON = "application/json"
	mediaText = "text/plain"
)

// contentType is the kind of a body that can be read.
func contentType(h http.Header) (string, bool) {
	if len(h.Values("Content-Encoding")) > 0 || len(h.Values("Content-Type")) != 1 {
		return "", false
	}
	media, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if charset := strings.ToLower(params["charset"]); err != nil || charset != "" && charset != "utf-8" && charset != "us-ascii" {
		return "", false
	}
	if strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json") {
		media = mediaJSON
	}
	return media, media == mediaJSON || media == mediaText
}

// inbound is the payload of message.inbound (D-33).
type inbound struct {
	Channel     string   `json:"channel"`
	Sender      string   `json:"sender"`
	ContentType string   `json:"content_type"`
	Body        string   `json:"body"`
	Metadata    metadata `json:"metadata"`
}

type metadata struct {
	Bytes     int  `json:"bytes"` // of the body as it came
	Truncated bool `json:"truncated"`
	// Event is what the sender says it is about, where its preset has that. It is
	// not signed.
	Event string `json:"event,omitempty"`
}

func message(k *hook, media string, body []byte, h http.Header) inbound {
	m := inbound{Channel: "webhook", Sender: k.name, ContentType: media, Metadata: metadata{Bytes: len(body), Event: event(k.preset, h)}}
	text := string(body)
	cut, count := len(text), 0
	for i := range text {
		if count == maxText || i > maxMessage {
			cut, m.Metadata.Truncated = i, true
			break
		}
		count++
	}
	m.Body = text[:cut]
	return m
}

func event(preset string, h http.Header) string {
	name := ""
	switch preset {
	case presetGitHub:
		name = one(h, "X-Github-Event")
	case presetGitea:
		name = one(h, "X-Gitea-Event")
	}
	if len(name) > 64 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
		return ""
	}
	return name
}

// accept publishes a message that is good, once.
func (h *handler) accept(r *http.Request, k *hook, shown signature, m inbound) int {
	if !k.rate.take(h.world.now()) {
		return http.StatusTooManyRequests
	}
	id := sha256.Sum256(append([]byte(k.name+"\n"), shown.mac...))
	name := hex.EncodeToString(id[:])
	fresh, err := h.seen.take(name)
	if err != nil {
		return http.StatusServiceUnavailable
	}
	if !fresh {
		return http.StatusForbidden
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), publishTime) // a sender that goes away changes nothing any more
	defer cancel()
	if err := h.setup.Publish(ctx, plugin.TopicInbound, m); err != nil {
		_ = h.seen.giveBack(name) // where that fails too, it cannot come again: better lost than twice
		if errors.Is(err, plugin.ErrDropped) {
			return http.StatusNotFound
		}
		return http.StatusServiceUnavailable
	}
	return http.StatusAccepted
}
