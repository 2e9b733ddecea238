// Command handler is the webhook plugin: a channel that takes signed HTTP
// requests, and a tool that sends some.
//
// It promises that a message is published once, and only if its sender holds the hook's secret.
// Where the signature says when it was made, that was within five minutes. Whoever does not hold
// the secret learns nothing. TLS and the address are the operator's: the host hands connections to
// a socket.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
)

func main() {
	out := os.Stdout
	os.Stdout = os.Stderr // standard output belongs to the protocol
	if err := serve(os.Stdin, out, world{now: time.Now, getenv: os.Getenv, wait: wait}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// world is what the handler takes from outside.
type world struct {
	now    func() time.Time
	getenv func(string) string
	wait   func(ctx context.Context, d time.Duration) error
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// serve speaks the protocol. Where the host serves channels, which the first
// line says, the handler listens; the handler of a single session does not.
func serve(in io.Reader, out io.Writer, w world) error {
	lines := bufio.NewReader(in)
	first, err := lines.ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	h := &handler{world: w, listens: hasChannels(first), client: &http.Client{
		Transport: transport(w.getenv), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	return plugin.ServeOn(plugin.Handler{
		Initialize: h.initialize,
		Tools:      map[nacre.ToolName]plugin.ToolFunc{"send_webhook": plugin.Tool(h.send)},
		Verify:     h.verify,
		Shutdown:   h.shutdown,
	}, io.MultiReader(bytes.NewReader(first), lines), out)
}

func hasChannels(line []byte) bool {
	var m plugin.Message
	var p plugin.InitializeParams
	return json.Unmarshal(line, &m) == nil && m.Method == plugin.MethodInitialize && json.Unmarshal(m.Params, &p) == nil && p.ChannelTicket != ""
}

// handler is the plugin as it runs.
type handler struct {
	world   world
	listens bool
	client  *http.Client
	hooks   map[string]*hook
	seen    *seen
	setup   plugin.Setup
	server  *server
}

func (h *handler) initialize(ctx context.Context, s plugin.Setup) error {
	hooks, err := readHooks(s.Config)
	if err != nil {
		return err
	}
	for _, k := range hooks {
		if err := k.readSecret(ctx, s); err != nil {
			return err
		}
		k.rate.last = h.world.now()
	}
	h.setup, h.hooks = s, hooks
	if !h.listens || len(hooks) == 0 {
		return nil
	}
	if h.seen, err = openSeen(filepath.Join(s.DataDir, "seen")); err != nil {
		return err
	}
	h.server, err = listen(ctx, filepath.Join(s.DataDir, plugin.ListenSocket), h)
	return err
}

// verify tells whether every hook has its secret (D-29).
func (h *handler) verify(ctx context.Context, s plugin.Setup) error {
	for _, k := range h.hooks {
		again := hook{name: k.name, key: k.key}
		if err := again.readSecret(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (h *handler) shutdown(ctx context.Context) error {
	if h.server == nil {
		return nil
	}
	return errors.Join(h.server.close(ctx), h.seen.close())
}
