package assembly

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/session"
	"github.com/nacre-dev/nacre/internal/task"
)

const (
	// stopWait is how long Stop waits to see that nothing runs any more.
	stopWait = 10 * time.Second
	stopPoll = 10 * time.Millisecond
)

// ErrStopped is what a run or a command ends with when somebody stops its session.
var ErrStopped = session.ErrStopped

// Sessions are all sessions, the newest first: with an error, those that can be read.
func (r *Runtime) Sessions() ([]nacre.SessionStatus, error) {
	list, err := r.registry.List()
	statuses := make([]nacre.SessionStatus, 0, len(list))
	for _, s := range list {
		statuses = append(statuses, s.SessionStatus)
	}
	return statuses, err
}

// Session is one session.
func (r *Runtime) Session(id nacre.SessionID) (nacre.SessionStatus, error) {
	s, err := r.registry.Show(id)
	return s.SessionStatus, err
}

// Stop ends everything that runs in a session that another process holds, and
// returns when it is gone. Of a session whose process is gone it ends what that
// left; nothing of it runs then either.
func (r *Runtime) Stop(ctx context.Context, id nacre.SessionID) (nacre.SessionStatus, error) {
	s, err := r.registry.Show(id)
	if err != nil {
		return nacre.SessionStatus{}, err
	}
	if !s.Live() {
		if err := r.settle(ctx, id); err != nil {
			return s.SessionStatus, err
		}
		s, err = r.registry.Show(id)
		return s.SessionStatus, err
	}
	remote, err := session.Dial(s)
	if err != nil {
		return s.SessionStatus, err
	}
	if err := remote.Stop(ctx); err != nil {
		return s.SessionStatus, err
	}
	ctx, cancel := context.WithTimeout(ctx, stopWait)
	defer cancel()
	for s.Live() {
		select {
		case <-ctx.Done():
			return s.SessionStatus, fmt.Errorf("session %s was told to stop and is still %s after %s", id, s.State, stopWait)
		case <-time.After(stopPoll):
		}
		if s, err = r.registry.Show(id); err != nil {
			return s.SessionStatus, err
		}
	}
	return s.SessionStatus, nil
}

// settleAll ends and completes what dead processes left (M-16, S-12). What fails
// for one session is tried again at the next start, and stops only a session on
// the same project.
func (r *Runtime) settleAll(ctx context.Context, project string) error {
	_ = r.settleOperators(ctx) // tried again at the next start, too; nacre audit verify tells of it
	ids, err := r.registry.Unsettled()
	if err != nil {
		return err
	}
	for _, id := range ids {
		err := r.settle(ctx, id)
		if err == nil || errors.Is(err, registry.ErrHeld) {
			continue
		}
		if left, showErr := r.registry.Show(id); project != "" && showErr == nil && left.Project == project {
			return fmt.Errorf("settle session %s, which was interrupted here: %w", id, err)
		}
	}
	return ctx.Err()
}

// Interrupted lists the sessions whose process was killed, and whose chains the
// next start will seal.
func (r *Runtime) Interrupted() ([]nacre.SessionID, error) {
	ids, err := r.registry.Unsettled()
	var killed []nacre.SessionID
	for _, id := range ids {
		if s, err := r.registry.Show(id); errors.Is(err, registry.ErrUnknown) || err == nil && s.State == nacre.SessionInterrupted {
			killed = append(killed, id)
		}
	}
	return killed, err
}

func (r *Runtime) settle(ctx context.Context, id nacre.SessionID) error {
	options := session.Options{Registry: r.registry, EndOrphans: endOrphans, Keys: r.keys, Now: r.options.Now}
	return session.Settle(ctx, options, id, func(s registry.Session, dir string) error {
		if err := os.RemoveAll(filepath.Join(dir, pinsDir)); err != nil {
			return err
		}
		if s.Kind != "run" || s.Work == "" {
			return nil
		}
		return task.Recover(ctx, dir, s.Work, s.Project, r.options.Now)
	})
}

// Approvals are the questions that wait for a person, in all live sessions: with an
// error, those of the sessions that can be read.
func (r *Runtime) Approvals(ctx context.Context) ([]nacre.Question, error) {
	var all []nacre.Question
	err := r.eachLive(func(remote *session.Remote) {
		if questions, err := remote.Approvals(ctx); err == nil { // else it ended meanwhile
			all = append(all, questions...)
		}
	})
	return all, err
}

// Answer decides the one waiting question that has this id.
func (r *Runtime) Answer(ctx context.Context, id string, ruling nacre.Ruling) error {
	var found []*session.Remote
	err := r.eachLive(func(remote *session.Remote) {
		questions, err := remote.Approvals(ctx)
		for _, q := range questions {
			if err == nil && q.ID == id {
				found = append(found, remote)
			}
		}
	})
	switch {
	case len(found) == 0 && err != nil:
		return fmt.Errorf("no question %.80q waits where it can be looked for: %w", id, err)
	case len(found) == 0:
		return fmt.Errorf("no question %.80q is waiting: it was answered, it expired, or its session ended; nacre approvals list", id)
	case len(found) > 1:
		return fmt.Errorf("question %q waits in %d sessions: stop one of them", id, len(found))
	}
	return found[0].Answer(ctx, id, ruling)
}

// eachLive does something with each live session. The error names the sessions of
// which nobody knows whether they live.
func (r *Runtime) eachLive(do func(*session.Remote)) error {
	list, err := r.registry.List()
	for _, s := range list {
		if remote, err := session.Dial(s); err == nil { // else it is not live
			do(remote)
		}
	}
	return err
}
