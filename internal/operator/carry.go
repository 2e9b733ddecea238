package operator

import (
	"context"
	"errors"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/machines"
	"github.com/nacre-dev/nacre/internal/task"
)

// KeptRun is a run as the machines of an installation keep it for each other.
type KeptRun = machines.Run

// ErrNotLost says that nobody can take a run any more.
var ErrNotLost = machines.ErrNotTaken

// KeepRun keeps a run of this machine where others find it, after the session's chain says so: where anew is true,
// unless they have one of the same work already. Without a store it does nothing.
func KeepRun(ctx context.Context, inst *installation.Installation, chain nacre.Recorder, r KeptRun, anew bool) error {
	sessions := machines.SessionsOf(inst.Registry, inst.Keys)
	if sessions == nil {
		return nil
	}
	if err := chain.Commit(ctx, r.Kept(inst.Options.Now())); err != nil {
		return err
	}
	return sessions.KeepRun(ctx, r, anew)
}

// ForgetRun ends that other machines could carry on what a session worked on.
func ForgetRun(ctx context.Context, inst *installation.Installation, id nacre.SessionID) error {
	return machines.SessionsOf(inst.Registry, inst.Keys).ForgetRun(ctx, id)
}

// LostRuns are those of other machines that could be carried on here, without their snapshots.
func LostRuns(ctx context.Context, inst *installation.Installation) ([]KeptRun, error) {
	return machines.SessionsOf(inst.Registry, inst.Keys).LostRuns(ctx)
}

// TakeRun makes a lost run that of a session here, which has not begun yet. It gives its records to take after
// they were verified, and says what they tell of its landing. Where its own machine did not write what the store
// has of it, nothing is taken.
func TakeRun(ctx context.Context, inst *installation.Installation, r KeptRun, as nacre.SessionID, take func(audit.Entry) error) (taken KeptRun, landing string, err error) {
	sessions := machines.SessionsOf(inst.Registry, inst.Keys)
	taken, err = sessions.TakeRun(ctx, r, as)
	switch {
	case errors.Is(err, ErrNotLost):
		return taken, "", err
	case err != nil: // it may be taken all the same, where the answer is lost
		return taken, "", LeaveRun(ctx, inst, as, err)
	}
	var landings task.Landings
	err = machines.Of(inst.Registry, inst.Keys).Told(ctx, taken, func(e audit.Entry) error { return errors.Join(landings.Add(e.Record), take(e)) })
	if err != nil {
		return taken, "", LeaveRun(ctx, inst, as, err)
	}
	return taken, landings.Commit(), nil
}

// LeaveRun gives a lost run back that a session here could not begin, and joins why.
func LeaveRun(ctx context.Context, inst *installation.Installation, as nacre.SessionID, why error) error {
	return errors.Join(why, machines.SessionsOf(inst.Registry, inst.Keys).LeaveRun(context.WithoutCancel(ctx), as))
}
