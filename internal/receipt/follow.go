package receipt

import (
	"context"
	"errors"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/installation"
)

const (
	// followEvery is how often a chain is read for new records, at most.
	followEvery = 300 * time.Millisecond
	// followShare is how many times as long as a reading took the next one waits: a long
	// chain takes no more of a core than that.
	followShare = 20
)

// FollowAudit gives each record of a session's latest work to fn, in order and as it is
// written. It returns when the session is over, when ctx ends, or with an error of fn.
func FollowAudit(ctx context.Context, inst *installation.Installation, session nacre.SessionID, fn func(audit.Entry) error) error {
	next := map[string]uint64{} // the record of each chain that comes next
	for {
		known, err := inst.Registry.Show(session)
		if err != nil {
			return err
		}
		began := time.Now()
		for _, chain := range known.Chains {
			var failed error
			err := audit.Read(inst.AuditRoot(), chain, func(e audit.Entry) error {
				if e.Seq < next[chain] {
					return nil
				}
				next[chain] = e.Seq + 1
				failed = fn(e)
				return failed
			})
			if failed != nil || errors.Is(err, audit.ErrTampered) || err != nil && !known.Live() {
				return err // a chain of a session that lives may be about to be made
			}
		}
		if !known.Live() {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(max(followEvery, followShare*time.Since(began))):
		}
	}
}
