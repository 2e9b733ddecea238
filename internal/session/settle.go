package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/registry"
)

// Settle ends and completes what a session left whose process is gone: its
// sandboxes, its sockets, its chain, and what complete knows of. Its work stays
// as it is, to go on with. It fails with [registry.ErrHeld] where the session
// lives.
func Settle(ctx context.Context, o Options, id nacre.SessionID, complete func(s registry.Session, dir string) error) error {
	held, err := o.Registry.Adopt(id)
	if err != nil {
		return err
	}
	return errors.Join(settle(ctx, o, held, complete), held.Release())
}

func settle(ctx context.Context, o Options, held *registry.Held, complete func(s registry.Session, dir string) error) error {
	if _, err := o.EndOrphans(held.Dir()); err != nil {
		return fmt.Errorf("end what an earlier run left: %w", err)
	}
	if held.Sockets != "" {
		if err := os.RemoveAll(held.Sockets); err != nil {
			return err
		}
	}
	if err := sealLeft(ctx, o, held); err != nil {
		return err
	}
	if err := complete(held.Session, held.Dir()); err != nil {
		return err
	}
	if held.State == "" { // it was killed before it wrote what it is
		return held.Settled()
	}
	if held.Chain == "" && held.Sockets == "" && held.Began.IsZero() && !held.Live() { // nothing was left open: a full disk does not matter
		return held.Settled()
	}
	err := held.Update(func(s *registry.Session) {
		s.Chain, s.Sockets, s.Began = "", "", time.Time{}
		if s.Live() {
			s.State, s.Outcome, s.Finished = nacre.SessionInterrupted, "interrupted", o.Now()
		}
	})
	if err != nil {
		return err
	}
	return held.Settled()
}
