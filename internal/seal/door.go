package seal

import (
	"context"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/door"
	"github.com/nacre-dev/nacre/internal/tripwire"
	"github.com/nacre-dev/nacre/internal/watch"
)

// watchedKernel looks at the arguments of calls.
type watchedKernel struct{ session *Session }

// Door is the session's kernel as its door has it.
func (s *Session) Door() door.Kernel { return watchedKernel{s} }

// Has implements door.Kernel.
func (k watchedKernel) Has(tool nacre.ToolName) bool {
	return k.session.openCalls() == nil && k.session.Kernel.Has(tool)
}

// Source implements door.Kernel.
func (k watchedKernel) Source(tool nacre.ToolName) string {
	if k.session.openCalls() != nil {
		return ""
	}
	return k.session.Kernel.Source(tool)
}

// Call implements door.Kernel.
func (k watchedKernel) Call(ctx context.Context, call nacre.Call) (nacre.Outcome, error) {
	if k.session.Watch.Seen(call.Arguments, tripwire.InCall) && k.session.Watch.Containment() != nil {
		return nacre.Outcome{}, watch.ErrContained
	}
	if err := k.session.openCalls(); err != nil {
		return nacre.Outcome{}, err
	}
	if err := k.session.calls.kin.Holds(ctx, k.session.Basis, call); err != nil {
		return nacre.Outcome{}, err
	}
	return k.session.Kernel.Call(ctx, call)
}
