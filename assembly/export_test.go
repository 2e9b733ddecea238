package assembly

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/hosting"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/seal"
	"github.com/nacre-dev/nacre/internal/session"
)

// Shared are plugins that several sessions use, started on a session of their own.
type Shared struct {
	*hosting.Shared
	held *session.Session
	inst *installation.Installation
}

// StartShared starts them as a long-lived process does. told gets what they publish.
func (r *Runtime) StartShared(ctx context.Context, told func(group nacre.Group, topic string)) (*Shared, error) {
	held, err := hosting.Holder(ctx, r.inst, "serve", "test", nil)
	if err != nil {
		return nil, err
	}
	shared, err := hosting.StartShared(ctx, r.inst, held, nil, hosting.Channels{Publish: func(_ context.Context, s pluginhost.Scope, topic string, _ json.RawMessage) error {
		told(s.Group, topic)
		return nil
	}})
	if err != nil {
		return nil, errors.Join(err, held.Close(ctx, "failed", true))
	}
	return &Shared{shared, held, r.inst}, nil
}

// End ends them and their session.
func (s *Shared) End(ctx context.Context) error {
	return errors.Join(s.Close(ctx), s.held.Close(ctx, "done", true))
}

// With opens a session that uses the plugins, and lets it call tools.
func (s *Shared) With(ctx context.Context, id nacre.SessionID, group nacre.Group, work func(call func(tool nacre.ToolName, arguments string) string)) error {
	r := s.inst
	opened, err := seal.Open(ctx, r, seal.Request{ID: id, Group: group, Kind: "exec", Title: "test", Shared: s.Shared})
	if err != nil {
		return err
	}
	work(func(tool nacre.ToolName, arguments string) string {
		out, err := opened.Kernel.Call(ctx, nacre.Call{
			ID: installation.RandomHex(), Principal: r.Principal(group, id, ""), Tool: tool, Arguments: json.RawMessage(arguments), Correlation: "c",
		})
		if err != nil {
			return err.Error()
		}
		return string(out.Result)
	})
	return opened.Finish(ctx, "done", "", "")
}

// Command is an open session as a command has it.
type Command struct{ s *seal.Session }

// OpenCommand opens one in which nothing runs yet.
func (r *Runtime) OpenCommand(ctx context.Context, id nacre.SessionID, group nacre.Group) (*Command, error) {
	s, err := seal.Open(ctx, r.inst, seal.Request{ID: id, Group: group, Kind: "exec", Title: "test"})
	return &Command{s}, err
}

// SettleAtOnce holds files to be the same by their times however young they are.
func (r *Runtime) SettleAtOnce() { r.inst.Settled = 0 }

// Late tells whether what calls reach is still to be opened.
func (c *Command) Late() bool { return !c.s.Door().Reaches() }

// Has asks as the door does.
func (c *Command) Has(tool nacre.ToolName) bool { return c.s.Door().Has(tool) }

// Failure is why the session was ended.
func (c *Command) Failure() error { return c.s.Failure() }

// End closes the session.
func (c *Command) End(ctx context.Context) error { return c.s.Finish(ctx, "done", "", "") }
