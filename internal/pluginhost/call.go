package pluginhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
)

// degradedAfter is how many late answers in a row make a plugin degraded (D-30).
const degradedAfter = 3

// unavailable is the error while there is no process to ask: nothing was sent.
type unavailable string

func (u unavailable) Error() string { return string(u) }

// Unavailable tells the kernel to answer PLUGIN_UNAVAILABLE.
func (unavailable) Unavailable() bool { return true }

// do carries out one call through the handler. A *nacre.Refusal is the handler's ToolError or an
// answer that is too large. A deadline is context.DeadlineExceeded, and no process to ask is an
// error with Unavailable. All else is a plain error, of which the agent learns nothing (D-14).
func (u *unit) do(ctx context.Context, in nacre.Invocation) (json.RawMessage, error) {
	c, err := u.enter()
	if err != nil {
		return nil, err
	}
	defer u.leave()
	files, err := u.files(in)
	if err != nil {
		return nil, err
	}
	if _, timed := ctx.Deadline(); !timed { // the kernel's is the tool's own
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, u.opts.Limits.Request)
		defer cancel()
	}
	name := newTicket()
	c.issue(name, u.forRequest(ctx, Scope{
		Plugin: u.found.Name, Group: in.Principal.Group, Session: in.Principal.Session, Correlation: in.Correlation,
	}, in.Files))
	defer c.revoke(name)
	params := requestParams(ctx, name, in)
	params.Files = files
	result, err := c.request(ctx, plugin.MethodHandleRequest, params)
	u.clock(err)
	u.explain(ctx, c, in, err)
	return result, u.refusal(err)
}

// maxSaid is how much of what a handler said of a failed call is recorded, in bytes.
const maxSaid = 2 << 10

// explain records what a handler said of a call that it failed. The agent learns
// nothing of it (D-14), so this is where its author finds it.
func (g *guest) explain(ctx context.Context, c *conn, in nacre.Invocation, err error) {
	var failed *handlerError
	if !errors.As(err, &failed) {
		return
	}
	said := g.redacted(failed.Error()) // whole: half of a secret would not be known as one
	g.record(ctx, "plugin.error", nacre.OutcomeError, withStderr(g, c, stderrGrace, detail{
		"tool": string(in.Tool), "correlation": g.redacted(string(in.Correlation)), "error": strings.ToValidUTF8(said[:min(len(said), maxSaid)], ""),
	}))
}

// withStderr adds what the handler printed for people and nobody has kept yet.
func withStderr(g *guest, c *conn, wait time.Duration, d detail) detail {
	if text := c.tail.take(wait); text != "" {
		d["stderr"] = strings.ToValidUTF8(g.redacted(text), "")
	}
	return d
}

// clock counts answers that came too late, up to one that came in time (D-30).
func (u *unit) clock(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		u.late++
	case !errors.Is(err, context.Canceled):
		u.late = 0
	}
}

func (u *unit) degraded() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.late >= degradedAfter
}

func requestParams(ctx context.Context, ticket string, in nacre.Invocation) plugin.RequestParams {
	deadline, _ := ctx.Deadline()
	payload := append([]byte(`{"arguments":`), in.Arguments...)
	return plugin.RequestParams{
		Ticket: ticket, TimeoutMS: time.Until(deadline).Milliseconds(),
		Envelope: plugin.Envelope{
			ID: in.ID, Version: plugin.ProtocolVersion, Type: "request", Topic: "tool.invoke." + string(in.Tool),
			Source: string(in.Principal.Session), Correlation: &in.Correlation, Timestamp: in.Time,
			Group: in.Principal.Group, Payload: append(payload, '}'),
		},
	}
}

// enter counts a call in, or refuses it while there is no process.
func (u *unit) enter() (*conn, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.draining {
		return nil, u.unavailable("is shutting down")
	}
	if u.conn == nil {
		return nil, u.unavailable("is not running")
	}
	u.inFlight++
	return u.conn, nil
}

func (u *unit) leave() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.inFlight--; u.inFlight == 0 && u.draining {
		close(u.idle)
	}
}

func (g *guest) unavailable(why string) error {
	return unavailable(fmt.Sprintf("plugin %s %s", g.found.Name, why))
}

func (g *guest) refusal(err error) error {
	var tool *plugin.ToolError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &tool):
		return &nacre.Refusal{Code: nacre.CodeHandlerError, Message: tool.Message, Retriable: tool.Retriable, Original: tool.Code}
	case errors.Is(err, errTooBig):
		return &nacre.Refusal{Code: nacre.CodeHandlerError, Message: "Response exceeded maximum size", Original: "RESPONSE_TOO_LARGE"}
	case errors.Is(err, errGone):
		return g.unavailable("is not running")
	case errors.Is(err, errBusy):
		return g.unavailable("has too many requests in flight")
	}
	return fmt.Errorf("plugin %s: %w", g.found.Name, err)
}

// The outcomes of a shutdown (D-24).
const (
	shutdownClean  = "clean"
	shutdownForced = "forced"
	shutdownError  = "error"
)

// close drains, shuts down and ends the plugin (D-24). A plugin that failed
// or is between two processes has nothing to shut down.
func (u *unit) close(ctx context.Context) error {
	u.drain(ctx)
	return u.end(ctx)
}

// end is close without the drain.
func (u *unit) end(ctx context.Context) error {
	u.stop()
	u.supervised.Wait()
	u.mu.Lock()
	c := u.conn
	u.conn = nil
	u.mu.Unlock()
	if c == nil {
		return nil
	}
	outcome, err := u.shutdown(ctx, c)
	u.record(ctx, "plugin.stopped", outcome, withStderr(&u.guest, c, 0, detail{}))
	return err
}

func (u *unit) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, u.opts.Limits.Drain)
	defer cancel()
	u.mu.Lock()
	u.draining = true
	if u.inFlight == 0 {
		close(u.idle)
	}
	u.mu.Unlock()
	select {
	case <-u.idle:
	case <-ctx.Done():
	}
}

func (g *guest) shutdown(ctx context.Context, c *conn) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, g.opts.Limits.Shutdown)
	defer cancel()
	_, err := c.request(ctx, plugin.MethodShutdown, struct{}{})
	if err == nil {
		_ = c.proc.Stdin.Close() // the end of its input tells a handler that missed the word
		select {
		case <-c.dead:
			return shutdownClean, nil
		case <-ctx.Done():
		}
	}
	c.kill()
	if err == nil || ctx.Err() != nil {
		return shutdownForced, errors.New("did not shut down in time and was ended")
	}
	return shutdownError, fmt.Errorf("shutdown: %w", err)
}
