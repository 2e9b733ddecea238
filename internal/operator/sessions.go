// Package operator is what the operator does beside the sessions that work: list
// and stop them, answer their questions, take grants back, change memory. Each is
// recorded on a chain of the operator's own.
package operator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/machines"
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
func Sessions(inst *installation.Installation) ([]nacre.SessionStatus, error) {
	list, err := inst.Registry.List()
	return statusesOf(list), err
}

// Live are the sessions at work, the newest first: with an error, those that can be read.
func Live(inst *installation.Installation) ([]nacre.SessionStatus, error) {
	list, err := inst.Registry.Live()
	return statusesOf(list), err
}

// Over is a part of the sessions that are over, as [registry.Registry.Page] gives it.
func Over(inst *installation.Installation, from, most int) (page []nacre.SessionStatus, next int, err error) {
	list, next, err := inst.Registry.Page(from, most)
	return statusesOf(list), next, err
}

func statusesOf(list []registry.Session) []nacre.SessionStatus {
	statuses := make([]nacre.SessionStatus, 0, len(list))
	for _, s := range list {
		statuses = append(statuses, s.SessionStatus)
	}
	return statuses
}

// SessionNamed is one session, with the check that its latest work failed at.
func SessionNamed(inst *installation.Installation, id nacre.SessionID) (nacre.SessionStatus, error) {
	s, err := inst.Registry.Show(id)
	if err != nil {
		return s.SessionStatus, err
	}
	s.FailedCheck, err = registry.FailedCheck(inst.Registry.Paths().Session(id))
	return s.SessionStatus, err
}

// Stop ends everything that runs in a session that another process holds, and
// returns when it is gone. Of a session whose process is gone it ends what that
// left; nothing of it runs then either.
// killed is told what a session left whose process was killed.
func Stop(ctx context.Context, inst *installation.Installation, id nacre.SessionID, killed func(Killed)) (nacre.SessionStatus, error) {
	s, err := inst.Registry.Show(id)
	if err != nil {
		return nacre.SessionStatus{}, err
	}
	if !s.Live() {
		if err := settle(ctx, inst, id, killed); err != nil {
			return s.SessionStatus, err
		}
		s, err = inst.Registry.Show(id)
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
		if s, err = inst.Registry.Show(id); err != nil {
			return s.SessionStatus, err
		}
	}
	return s.SessionStatus, nil
}

// SettleAll ends and completes what dead processes left (M-16, S-12). What fails
// for one session is tried again at the next start, and stops only a session on
// the same project. killed is told what was planted by those that were killed.
func SettleAll(ctx context.Context, inst *installation.Installation, project string, killed func(Killed)) error {
	_ = SettleOperators(ctx, inst) // tried again at the next start, too; nacre audit verify tells of it
	ids, err := inst.Registry.Unsettled()
	if err != nil {
		return err
	}
	for _, id := range ids {
		err := settle(ctx, inst, id, killed)
		if err == nil || errors.Is(err, registry.ErrHeld) {
			continue
		}
		if left, showErr := inst.Registry.Show(id); project != "" && showErr == nil && left.Project == project {
			return fmt.Errorf("settle session %s, which was interrupted here: %w", id, err)
		}
	}
	return ctx.Err()
}

// Interrupted lists the sessions whose process was killed, and whose chains the
// next start will seal.
func Interrupted(inst *installation.Installation) ([]nacre.SessionID, error) {
	ids, err := inst.Registry.Unsettled()
	var killed []nacre.SessionID
	for _, id := range ids {
		if s, err := inst.Registry.Show(id); errors.Is(err, registry.ErrUnknown) || err == nil && s.State == nacre.SessionInterrupted {
			killed = append(killed, id)
		}
	}
	return killed, err
}

// Settle ends and completes what a session left whose process is gone. It fails with
// [registry.ErrHeld] where the session lives. killed is told what was planted.
func Settle(ctx context.Context, inst *installation.Installation, id nacre.SessionID, killed func(Killed)) error {
	return settle(ctx, inst, id, killed)
}

func settle(ctx context.Context, inst *installation.Installation, id nacre.SessionID, killed func(Killed)) error {
	options := session.Options{Registry: inst.Registry, EndOrphans: installation.EndOrphans, Keys: inst.Keys, Now: inst.Options.Now, Elsewhere: inst.Elsewhere}
	err := session.Settle(ctx, options, id, func(s registry.Session, dir string) error {
		if err := os.RemoveAll(filepath.Join(dir, registry.PinsDir)); err != nil {
			return err
		}
		left, err := plantedBy(ctx, inst, s, dir)
		if err != nil {
			return err
		}
		if left != nil {
			killed(*left)
		}
		if s.Kind != "run" {
			return nil
		}
		// A nacre that was not killed said itself what its run came to. One that was left at a
		// stage keeps its agent's id.
		if s.State == "" || s.Live() {
			if err := interruptRuns(ctx, inst, id); err != nil {
				return err
			}
		}
		if s.Works == 0 {
			return nil
		}
		if err := task.Recover(ctx, dir, s.LatestWork(), s.Project, inst.Options.Now); err != nil || s.Parent == "" {
			return err
		}
		return endUnfinished(ctx, inst, s, orphaned)
	})
	if err != nil {
		return err
	}
	return errors.Join(closeChild(inst, id), tellEnded(ctx, inst, id))
}

// tellEnded tells other machines of a session that was settled here.
func tellEnded(ctx context.Context, inst *installation.Installation, id nacre.SessionID) error {
	s, err := inst.Registry.Show(id)
	if err != nil {
		return nil //nolint:nilerr // it was killed before anybody was told of it
	}
	return machines.SessionsOf(inst.Registry, inst.Keys).Ended(ctx, s.SessionStatus)
}

// orphaned is why nobody goes on with the work of a sub-agent.
const orphaned = "its parent has ended, or stopped it"

// closeChild says of a sub-agent's session, whose work has ended for good, that it has.
func closeChild(inst *installation.Installation, id nacre.SessionID) error {
	if s, err := inst.Registry.Show(id); err != nil || s.Parent == "" || s.Work == "" || s.Live() {
		return nil //nolint:nilerr // it is nobody's child that is known
	}
	held, err := inst.Registry.Adopt(id)
	if err != nil {
		return err
	}
	return errors.Join(closed(inst, held, "stopped"), held.Release())
}
