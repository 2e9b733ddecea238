// Package scheduling is what an installation does with schedules: keep them, claim
// what is due, and know what became of it. It starts nothing itself.
package scheduling

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/calendar"
	"github.com/nacre-dev/nacre/internal/inbox"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/node"
	"github.com/nacre-dev/nacre/internal/schedule"
)

const (
	// SchedulePoll is how often the schedules are looked at: by how much a tick may
	// be late, and how soon the clock's jumps are seen.
	SchedulePoll = time.Second
	// maxTicks is how many ticks one process deals with at once.
	maxTicks = 64
	// maxMisses is how often in a row the schedules may fail to be read or written before the
	// process gives them up. They may fail so on a disk that is full for a while.
	maxMisses = 30
)

// Schedules opens the installation's schedules: those of its [store], where it has one.
func Schedules(ctx context.Context, inst *installation.Installation) (*schedule.Store, error) {
	return schedules(ctx, inst, nil)
}

// Place says where they are kept: a path, or that it is the [store]. kept is false where
// there are none, as before the first.
func Place(inst *installation.Installation) (place string, kept bool) {
	if inst.Config.Store.URLEnv != "" {
		return "the [store]", true
	}
	path := file(inst)
	return path, installation.IsThere(path)
}

func file(inst *installation.Installation) string {
	return filepath.Join(inst.Registry.Paths().State, schedule.FileName)
}

// schedules opens them for a node, or for nil.
func schedules(ctx context.Context, inst *installation.Installation, n *node.Node) (store *schedule.Store, err error) {
	shared := inst.Config.Store
	switch {
	case n != nil:
		store, err = schedule.OpenOn(ctx, n, inst.Options.Now)
	case shared.URLEnv != "":
		store, err = schedule.OpenShared(ctx, inst.Options.Getenv(shared.URLEnv), shared.Installation, inst.Options.Now)
	default:
		store, err = schedule.Open(ctx, file(inst), inst.Options.Now)
	}
	if err != nil && ctx.Err() == nil {
		return nil, &installation.NotReady{What: "the schedules", Err: err}
	}
	return store, err
}

// Check opens the schedules as nacre serve does, where there are any of this machine's own.
func Check(ctx context.Context, inst *installation.Installation) []installation.Finding {
	if inst.Config.Store.URLEnv != "" || !installation.IsThere(file(inst)) {
		return nil
	}
	store, err := Schedules(ctx, inst)
	if err == nil {
		err = store.Close()
	}
	if err != nil {
		return []installation.Finding{{Name: "schedules", Status: "fail", Text: err.Error(), Fix: "nacre serve does not start until then"}}
	}
	return nil
}

// ScheduleHooks are what the scheduler calls. All are required, and may be called
// concurrently.
type ScheduleHooks struct {
	// Serving is told once others see that this process serves the schedules; it may be nil.
	Serving func()
	// Start deals with a tick and returns when that is over. An outcome of
	// schedule.NothingToDo says that its gate found nothing to do; an error, that the
	// task failed.
	Start func(ctx context.Context, c schedule.Claim) (outcome string, err error)
	// Created is told of each new schedule once, whichever process made it.
	Created func(ctx context.Context, s schedule.Schedule)
	// Ended tells what became of the session of a tick whose process died before it
	// could say so.
	Ended schedule.Ended
	// Left is told of each tick whose process died while it ran, or before it could
	// say what came of it. One that is waiting is carried on.
	Left func(ctx context.Context, t schedule.Tick)
}

// RunSchedules starts what is due until ctx ends, and then waits for what it
// started. Where it cannot go on, it ends with an error. n is the node among those that share
// a [store]; nil without one.
func RunSchedules(ctx context.Context, inst *installation.Installation, n *node.Node, hooks ScheduleHooks) (err error) {
	store, err := schedules(ctx, inst, n)
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	defer func() {
		running.Wait()
		err = errors.Join(err, store.Close())
	}()
	if err := store.Serve(ctx); err != nil {
		return &installation.NotReady{What: "the schedules", Err: err}
	}
	if hooks.Serving != nil {
		hooks.Serving()
	}
	room := make(chan struct{}, maxTicks)
	poll := time.NewTicker(SchedulePoll)
	defer poll.Stop()
	rings, end := inst.Registry.Store().Listen(schedule.Topic)
	defer end()
	for misses := 0; ; {
		switch err := beat(ctx, store, hooks, &running, room); {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			misses = 0
		default:
			if misses++; misses == maxMisses {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-poll.C:
		case <-rings:
		}
	}
}

// beat looks once at the schedules, and starts all that is due as far as there is room.
func beat(ctx context.Context, store *schedule.Store, hooks ScheduleHooks, running *sync.WaitGroup, room chan struct{}) error {
	fresh, err := store.Announce(ctx)
	if err != nil {
		return err
	}
	for _, s := range fresh {
		hooks.Created(ctx, s)
	}
	left, err := store.Recover(ctx, hooks.Ended)
	if err != nil {
		return err
	}
	for _, t := range left {
		hooks.Left(ctx, t)
	}
	for len(room) < cap(room) {
		claim, ok, err := store.Claim(ctx)
		if err != nil || !ok {
			return err
		}
		room <- struct{}{}
		running.Go(func() {
			defer func() { <-room }()
			runTick(ctx, store, hooks, claim)
		})
	}
	return nil
}

// TickEnd tells what became of the session of a tick: a state and an outcome as its
// own process would have written them. It says nothing of one that has not ended, or
// that nobody can read: that goes on where it was.
func TickEnd(inst *installation.Installation, t schedule.Tick) (schedule.State, string) {
	s, err := inst.Registry.Show(t.Session)
	if err != nil || s.State != nacre.SessionDone {
		return "", ""
	}
	switch s.Outcome {
	case OutcomeDone:
		return schedule.Done, s.Outcome
	case OutcomeIdle:
		return schedule.NothingToDo, ""
	}
	why := s.Outcome
	_ = installation.EachRecord(inst, s.Chains, func(e nacre.Record) error { // what cannot be read says no more than the registry
		if e.Kind == nacre.KindOutcome && e.Reason != "" {
			why = e.Reason
		}
		return nil
	})
	return schedule.Failed, why
}

// runTick takes a claimed tick to its end. What cannot be written of it before the
// process ends is found by the next one to serve, which sees that this one is gone.
func runTick(ctx context.Context, store *schedule.Store, hooks ScheduleHooks, claim schedule.Claim) {
	writing := context.WithoutCancel(ctx)
	if ctx.Err() != nil {
		_ = store.Release(writing, claim.Tick)
		return
	}
	if !Persist(ctx, func() error { return store.Start(writing, claim.Tick) }) {
		return // it is another's, or its schedule was removed
	}
	outcome, err := hooks.Start(ctx, claim)
	state := schedule.Done
	switch {
	case ctx.Err() != nil && err != nil:
		_ = store.Interrupt(writing, claim.Tick, "nacre serve was ended") // else the next one to serve finds it
		return
	case err != nil:
		state, outcome = schedule.Failed, err.Error()
	case outcome == string(schedule.NothingToDo):
		state, outcome = schedule.NothingToDo, ""
	}
	Persist(ctx, func() error { return store.Finish(writing, claim.Tick, state, outcome) })
}

// Persist writes a step of a tick or a message, again and again while the disk does not take it. A
// tick that stays as it was would hold its schedule up. It reports whether the step was taken.
func Persist(ctx context.Context, write func() error) bool {
	for {
		err := write()
		if err == nil || errors.Is(err, schedule.ErrLost) || errors.Is(err, inbox.ErrUnknown) {
			return err == nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(SchedulePoll):
		}
	}
}

// LocalZone is the machine's time zone by its name; UTC where it has none.
func LocalZone(inst *installation.Installation) string {
	name := strings.TrimPrefix(inst.Options.Getenv("TZ"), ":")
	if name == "" {
		target, err := filepath.EvalSymlinks("/etc/localtime")
		if err != nil {
			target = ""
		}
		if _, after, ok := strings.Cut(target, "/zoneinfo/"); ok {
			name = after
		} else if text, err := os.ReadFile("/etc/timezone"); err == nil {
			name = strings.TrimSpace(string(text))
		}
	}
	if _, err := calendar.Zone(name); err != nil {
		return "UTC"
	}
	return name
}

// What the registry says of a visit that did not fail.
const (
	OutcomeDone = "done"
	OutcomeIdle = "nothing to do"
)
