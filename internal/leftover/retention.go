package leftover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/hostpath"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/machines"
	"github.com/nacre-dev/nacre/internal/operator"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/task"
)

const (
	// listBudget is how many files a listing looks at for the room that they take.
	listBudget = 50_000
	// retainedFile says when old sessions were removed last, and retainEvery how often
	// that is done.
	retainedFile = "retained"
	retainEvery  = 24 * time.Hour
)

// Listed is a session in a list.
type Listed struct {
	nacre.SessionStatus
	// Unlanded says that it holds work of an agent that did not land.
	Unlanded bool `json:"unlanded,omitempty"`
	// DiskBytes is how much room its folder takes, at least; DiskWhole says that all of it
	// was counted.
	DiskBytes int64 `json:"disk_bytes"`
	DiskWhole bool  `json:"disk_whole"`
	// Machine is that of a session of another one, whose id is MACHINE/SESSION then.
	Machine string `json:"machine,omitempty"`
}

// List is all sessions, the newest first, with the room that they take: with an error,
// those that can be read.
func List(ctx context.Context, inst *installation.Installation) ([]Listed, error) {
	sessions, err := inst.Registry.List()
	list := make([]Listed, 0, len(sessions))
	budget := listBudget
	for _, s := range sessions {
		dir := inst.Registry.Paths().Session(s.ID)
		usage := registry.UsageOf(dir, &budget)
		list = append(list, Listed{SessionStatus: s.SessionStatus, Unlanded: unlanded(ctx, inst, s), DiskBytes: usage.Bytes, DiskWhole: usage.Whole})
	}
	return list, err
}

// unlanded tells whether a session holds work that did not land. One that was killed after its
// work had landed has the files of it still.
func unlanded(ctx context.Context, inst *installation.Installation, s registry.Session) bool {
	if !task.IsLeft(inst.Registry.Paths().Session(s.ID)) {
		return false
	}
	if !s.Resumable {
		return true
	}
	commit, err := operator.Landed(ctx, inst, s.ID)
	return err != nil || commit == ""
}

// Rule says which sessions are removed: those that ended longer ago than Older, but for
// the newest Keep. Its zero value is refused.
type Rule struct {
	Older time.Duration
	Keep  int
	// Dry removes nothing.
	Dry bool
}

// Pruned is what became of old sessions.
type Pruned struct {
	Removed []nacre.SessionID `json:"removed"`
	// Unlanded are old enough, and hold work that did not land or is not finished.
	Unlanded []nacre.SessionID `json:"unlanded"`
}

// Prune removes old sessions, and forgets projects that are gone. What fails for one hides no other.
func Prune(ctx context.Context, inst *installation.Installation, rule Rule) (Pruned, error) {
	pruned := Pruned{Removed: []nacre.SessionID{}, Unlanded: []nacre.SessionID{}}
	if rule.Older <= 0 && rule.Keep <= 0 {
		return pruned, config.Errorf("nothing says which sessions are old: name an age with --older, or how many to keep with --keep")
	}
	list, err := inst.Registry.List()
	errs := []error{err}
	for _, s := range list[min(max(rule.Keep, 0), len(list)):] {
		switch {
		case ctx.Err() != nil:
			return pruned, errors.Join(append(errs, ctx.Err())...)
		case s.Live() || inst.Options.Now().Sub(ended(s)) < rule.Older:
		case s.Resumable || task.IsLeft(inst.Registry.Paths().Session(s.ID)):
			pruned.Unlanded = append(pruned.Unlanded, s.ID)
		default:
			if !rule.Dry {
				err := remove(ctx, inst, s.ID, func(operator.Killed) {})
				if errors.Is(err, registry.ErrHeld) || errors.Is(err, errUnlanded) {
					continue // it was taken up meanwhile
				}
				if err != nil {
					errs = append(errs, fmt.Errorf("session %s: %w", s.ID, err))
					continue
				}
			}
			pruned.Removed = append(pruned.Removed, s.ID)
		}
	}
	if !rule.Dry {
		errs = append(errs, hostpath.ForgetWorked(inst.Registry.Paths().State))
	}
	return pruned, errors.Join(append(errs, sweep(inst, rule.Dry))...)
}

// ended is when a session came to its end, as far as it is known.
func ended(s registry.Session) time.Time {
	if s.Finished.IsZero() {
		return s.Started
	}
	return s.Finished
}

// sweep removes what is left of sessions whose removal was interrupted.
func sweep(inst *installation.Installation, dry bool) error {
	removed, err := inst.Registry.Removed()
	errs := []error{err}
	for _, s := range removed {
		if !dry {
			errs = append(errs, sweepOne(inst, s.ID))
		}
	}
	return errors.Join(errs...)
}

func sweepOne(inst *installation.Installation, id nacre.SessionID) error {
	held, err := inst.Registry.Adopt(id)
	if errors.Is(err, registry.ErrHeld) {
		return nil // it is removed now, or its name is used again
	}
	if err != nil {
		return err
	}
	if held.State == nacre.SessionRemoved {
		err = wipe(held.Dir())
	}
	return errors.Join(err, held.Release())
}

// Retain removes old sessions as the operator's config says, once a day. With none said
// it does nothing.
func Retain(ctx context.Context, inst *installation.Installation) (Pruned, error) {
	kept := inst.Config.Retention
	stamp := filepath.Join(inst.Registry.Paths().State, retainedFile)
	if info, err := os.Stat(stamp); !kept.IsSet() || err == nil && inst.Options.Now().Sub(info.ModTime()) < retainEvery {
		return Pruned{}, nil
	}
	age, err := kept.Age()
	if err != nil {
		return Pruned{}, err
	}
	if err := os.WriteFile(stamp, nil, 0o600); err != nil {
		return Pruned{}, err
	}
	pruned, err := Prune(ctx, inst, Rule{Older: age, Keep: kept.Keep})
	if age > 0 {
		err = errors.Join(err, machines.SessionsOf(inst.Registry, inst.Keys).RemoveOlder(ctx, age))
	}
	return pruned, err
}

// errUnlanded is a session that may not be removed.
var errUnlanded = errors.New("its work did not land")

// Remove removes a session with all that it left. Its records, its receipt and its row in
// the ledger stay.
func Remove(ctx context.Context, inst *installation.Installation, id nacre.SessionID, killed func(operator.Killed)) error {
	err := remove(ctx, inst, id, killed)
	if errors.Is(err, errUnlanded) {
		return config.Errorf("session %s: %w: nacre sessions diff %s shows it, and nacre sessions discard %s throws it away", id, err, id, id)
	}
	return err
}

// remove holds a session while it goes. What stays is its name, and where its records
// are: a session of the same name goes on counting its chains.
func remove(ctx context.Context, inst *installation.Installation, id nacre.SessionID, killed func(operator.Killed)) (err error) {
	held, err := hold(ctx, inst, id, killed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held.Release()) }()
	if isUnfinished(held) || task.IsLeft(held.Dir()) {
		return errUnlanded
	}
	if err := machines.SessionsOf(inst.Registry, inst.Keys).Remove(ctx, id); err != nil {
		return err
	}
	gone := func(s *registry.Session) {
		s.State, s.Title, s.Project, s.Work, s.Started = nacre.SessionRemoved, "", "", "", time.Time{}
	}
	err = held.Update(gone)
	if errors.Is(err, syscall.ENOSPC) { // what goes makes room for the mark that it is gone
		err = errors.Join(wipe(held.Dir()), held.Update(gone))
	}
	if err != nil {
		return err
	}
	return wipe(held.Dir())
}

// wipe empties the folder of a session that was removed.
func wipe(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if name := e.Name(); !registry.IsOwnFile(name) {
			errs = append(errs, registry.Discard(filepath.Join(dir, name)))
		}
	}
	return errors.Join(errs...)
}
