package pluginhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
)

// do carries out one call through the handler. A *nacre.Refusal is either the
// handler's ToolError, an answer that is too large (both HANDLER_ERROR) or
// PLUGIN_UNAVAILABLE; a deadline is context.DeadlineExceeded; all else is a
// plain error, of which the agent learns nothing (D-14).
func (u *unit) do(ctx context.Context, in nacre.Invocation) (json.RawMessage, error) {
	c, err := u.enter()
	if err != nil {
		return nil, err
	}
	defer u.leave()
	ctx, cancel := context.WithTimeout(ctx, u.opts.Limits.Request)
	defer cancel()
	name := newTicket()
	c.issue(name, u.forRequest(ctx, Scope{u.found.Name, in.Principal.Group, in.Principal.Session, in.Correlation}))
	defer c.revoke(name)
	result, err := c.request(ctx, plugin.MethodHandleRequest, requestParams(ctx, name, in))
	return result, u.refusal(err)
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
		return nil, u.unavailable("is shutting down", false)
	}
	if u.conn == nil {
		return nil, u.unavailable("is not running", u.failed == "")
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

func (u *unit) unavailable(why string, retriable bool) error {
	return &nacre.Refusal{
		Code: nacre.CodePluginUnavailable, Message: fmt.Sprintf("plugin %s %s", u.found.Name, why), Retriable: retriable, Stage: 6,
	}
}

func (u *unit) refusal(err error) error {
	var tool *plugin.ToolError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &tool):
		return &nacre.Refusal{Code: nacre.CodeHandlerError, Message: tool.Message, Retriable: tool.Retriable, Original: tool.Code}
	case errors.Is(err, errTooBig):
		return &nacre.Refusal{Code: nacre.CodeHandlerError, Message: "Response exceeded maximum size", Original: "RESPONSE_TOO_LARGE"}
	case errors.Is(err, errGone):
		return u.unavailable("is not running", true)
	case errors.Is(err, errBusy):
		return u.unavailable("has too many requests in flight", true)
	}
	return fmt.Errorf("plugin %s: %w", u.found.Name, err)
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
	u.record(ctx, "plugin.stopped", outcome, nil)
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

func (u *unit) shutdown(ctx context.Context, c *conn) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, u.opts.Limits.Shutdown)
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
