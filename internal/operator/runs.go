package operator

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/task"
)

// endedChain is an operator's chain for the ends of runs whose own process could not
// say that they had ended.
const endedChain = "ended-"

// SettleRuns completes what runs left whose process was killed, landings, rows and
// chains, and closes the chains of operators' commands that were. The errors name those that could not be completed (F-105).
func SettleRuns(ctx context.Context, inst *installation.Installation) error {
	ids, err := inst.Registry.Unsettled()
	errs := []error{err}
	for _, id := range ids {
		s, err := inst.Registry.Show(id)
		early := errors.Is(err, registry.ErrUnknown) // it was killed before it wrote what it is
		if !early && (err != nil || s.Kind != "run" || s.Live()) {
			continue
		}
		if err := settle(ctx, inst, id, func(Killed) {}); err != nil && !errors.Is(err, registry.ErrHeld) {
			errs = append(errs, fmt.Errorf("session %s was interrupted, and could not be completed: %w", id, err))
		}
	}
	return errors.Join(append(errs, SettleOperators(ctx, inst))...)
}

// interruptRuns says of the runs of a session whose process is gone that nobody works
// on them. The caller holds the session.
func interruptRuns(ctx context.Context, inst *installation.Installation, id nacre.SessionID) (err error) {
	l, err := installation.LedgerOf(ctx, inst)
	if err != nil {
		return err
	}
	const why = "the nacre that ran it was killed"
	return errors.Join(l.InterruptSession(ctx, string(id), why, Anchored(ctx, inst, "interrupted", why)), l.Close())
}

// Anchored gives what records a change of a row on a chain of its own, and says where.
func Anchored(ctx context.Context, inst *installation.Installation, status, reason string) func(agent, dna string) (chain string, seq uint64, hash string, err error) {
	return func(agent, dna string) (_ string, _ uint64, _ string, err error) {
		chain, closed, err := Chain(ctx, inst, endedChain)
		if err != nil {
			return "", 0, "", err
		}
		defer func() { err = errors.Join(err, closed()) }()
		detail, err := json.Marshal(map[string]string{"agent": agent, "dna": dna})
		if err != nil {
			return "", 0, "", err
		}
		record := nacre.Record{Time: inst.Options.Now(), Kind: nacre.KindLedger, Source: "core", Outcome: status, Reason: reason, Detail: detail}
		if err := chain.Commit(ctx, record); err != nil {
			return "", 0, "", err
		}
		head, err := chain.Head(ctx)
		return head.Chain, head.Seq, hex.EncodeToString(head.RecordHash[:]), err
	}
}

// GiveUp ends the unfinished work of a session for good: nobody goes on with it, and
// its agent's id is free (F-96). Its files stay for a person to look at.
func GiveUp(ctx context.Context, inst *installation.Installation, id nacre.SessionID, who string, killed func(Killed)) error {
	s, err := inst.Registry.Show(id)
	switch {
	case err != nil:
		return err
	case s.Live():
		return fmt.Errorf("session %s is %s: nacre sessions stop %s ends it first", id, s.State, id)
	case !s.Resumable:
		return fmt.Errorf("session %s has no unfinished work: it is %s", id, s.State)
	}
	if err := settle(ctx, inst, id, killed); err != nil { // what was landing is completed, or the error says why not
		return err
	}
	held, err := inst.Registry.Adopt(id)
	if err != nil {
		return err
	}
	return errors.Join(EndWork(ctx, inst, held, "given up", "given up by "+who), held.Release())
}

// EndWork ends a session's unfinished work for good, where it has some: its rows in the
// ledger, and the durable work itself. outcome is what the session came to, and why is
// said in the rows. The caller holds the session.
func EndWork(ctx context.Context, inst *installation.Installation, held *registry.Held, outcome, why string) error {
	if err := endUnfinished(ctx, inst, held.Session, why); err != nil {
		return err
	}
	return closed(inst, held, outcome)
}

// endUnfinished ends the rows of a session's unfinished work, and the durable work itself. What had
// landed before is merged, and what had not failed.
func endUnfinished(ctx context.Context, inst *installation.Installation, s registry.Session, why string) error {
	if s.Work == "" {
		return nil
	}
	l, err := installation.LedgerOf(ctx, inst)
	if err != nil {
		return err
	}
	commit, err := Landed(ctx, inst, s.ID)
	status := "failed"
	if commit != "" {
		status = "merged"
	}
	if err == nil {
		err = l.GiveUpSession(ctx, string(s.ID), why, commit != "", Anchored(ctx, inst, status, why))
	}
	if err = errors.Join(err, l.Close()); err != nil {
		return err
	}
	return errors.Join(task.End(ctx, inst.Registry.Paths().Engine(), s.Work), ForgetRun(ctx, inst, s.ID))
}

// Landed gives the commit by which the latest work of a session has landed, whatever became of the
// session; empty where it has not.
func Landed(ctx context.Context, inst *installation.Installation, id nacre.SessionID) (commit string, err error) {
	s, err := inst.Registry.Show(id)
	if err != nil {
		return "", err
	}
	return task.HasLanded(ctx, task.LandedIn{
		Dir: inst.Registry.Paths().Session(id), Work: s.LatestWork(), Project: s.Project, Now: inst.Options.Now,
	}, func(take func(nacre.Record) error) error { return installation.EachRecord(inst, s.Chains, take) })
}

// closed says that a session's work has ended.
func closed(inst *installation.Installation, held *registry.Held, outcome string) error {
	return held.Update(func(s *registry.Session) {
		s.State, s.Work, s.Outcome, s.Finished = nacre.SessionDone, "", outcome, inst.Options.Now()
	})
}
