// Package launch starts what runs in an open session: its agent and scripts, and, apart from
// them, checks and verifiers, which reach nothing.
package launch

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/basis"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/process"
	"github.com/nacre-dev/nacre/internal/sandbox"
)

// Inside is what a program finds inside, beside what its session gives each.
type Inside = posture.Input

// GroupDir is where a group's own folder is inside (D-36).
const GroupDir = posture.Workspace + "/group"

// Program is one that was started.
type Program struct{ *process.Process }

// Start starts a program of a session's own. limit, where it is not nil, keeps for which limit it
// was ended, a string, which is recorded and told.
func Start(ctx context.Context, s *basis.Basis, p nacre.Posture, argv []string, limit *atomic.Value) (*Program, error) {
	started, err := process.Start(ctx, s, sandbox.Command{Posture: p, SocketDir: s.SocketDir(), Argv: argv})
	if err != nil {
		return nil, err
	}
	if limit != nil {
		started.Limited = func(why string) { s.NoteLimit(ctx, why); limit.Store(why) }
	}
	return &Program{started}, nil
}

// End ends a program that heard nothing yet, and waits for it.
func (p *Program) End() error {
	killed := p.Kill()
	_, _, err := p.Collect(0)
	return errors.Join(killed, err)
}

// TimedOut tells whether its time ended it.
func (p *Program) TimedOut() bool { return p.Process.TimedOut.Load() }
