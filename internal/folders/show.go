package folders

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/deadline"
	"github.com/nacre-dev/nacre/internal/sandbox"
)

// recordLimit bounds the wait for the chain.
const recordLimit = 10 * time.Second

// lookAgain is how often the time of a folder is held against the clock: a machine that slept
// does not count the time that it was asleep.
const lookAgain = 5 * time.Second

// decided shows exactly the folder that was approved. Everything else leaves it away.
func (f *Folders) decided(e *folder, q nacre.Question, r nacre.Ruling, err error) {
	defer close(e.decided)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = nil
	if err != nil || r.Verdict != nacre.Allow || r.Digest != q.Digest {
		e.denied = err == nil && r.Verdict == nacre.Deny
		return
	}
	if r.For > 0 {
		e.until = f.inst.Options.Now().Add(r.For)
	}
	f.showApproved(e, map[string]any{"by": r.By, "question": q.ID, "digest": q.Digest})
}

// showApproved shows a folder that a person let be seen, or tells the agent and the operator that it could not
// be. detail says who let it. It is called with mu held.
func (f *Folders) showApproved(e *folder, detail map[string]any) {
	if err := f.show(e, detail); err != nil {
		e.failed = plainly(err)
		f.warn(nacre.Step{Kind: nacre.StepResult, Name: "folder", Text: fmt.Sprintf("%s is not shown: %v", e.Path(), err), IsError: true})
	}
}

// plainly is what the agent is told of a failure: nothing of the host's paths.
func plainly(err error) string {
	if errors.Is(err, sandbox.ErrReplaced) {
		return "it was removed or replaced after it was asked for"
	}
	return "nacre could not bring it in, and told the person why"
}

// show records who approved what until when, and then shows it. It is called with mu held.
func (f *Folders) show(e *folder, detail map[string]any) error {
	if f.closed {
		return errEnded
	}
	detail["folder"], detail["inside"], detail["access"] = e.Path(), sandbox.FoldersDir+"/"+e.place, readOnly
	if !e.until.IsZero() {
		detail["until"] = e.until.UTC().Format(time.RFC3339)
	}
	if err := f.record(nacre.KindMountGrant, nacre.OutcomeAllowed, "", detail); err != nil {
		return err
	}
	if err := f.each(func(p sandbox.Shown) error { return p.Show(e.Folder, e.place) }); err != nil {
		return errors.Join(err, f.hide(e, "it could not be shown"))
	}
	e.shown = true
	if !e.until.IsZero() {
		f.timers.Go(func() { f.endAt(e) })
	}
	return nil
}

// each does something in every sandbox that runs, and forgets those that have ended.
func (f *Folders) each(do func(sandbox.Shown) error) error {
	var running []sandbox.Shown
	var errs []error
	for _, p := range f.programs {
		err := do(p)
		if errors.Is(err, sandbox.ErrOver) {
			continue
		}
		running, errs = append(running, p), append(errs, err)
	}
	f.programs = running
	return errors.Join(errs...)
}

// Began shows in a sandbox in which the session's agent runs from now on what it is shown already.
func (f *Folders) Began(p sandbox.Process) error {
	able, ok := p.(sandbox.Shown)
	if f == nil || !ok {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.programs = append(f.programs, able)
	var errs []error
	for _, e := range f.known {
		if err := f.again(e, able); err != nil {
			errs = append(errs, fmt.Errorf("folder %s: %w", e.Path(), err))
		}
	}
	return errors.Join(errs...)
}

func (f *Folders) again(e *folder, p sandbox.Shown) error {
	if !e.shown || !e.until.IsZero() && deadline.Over(f.inst.Options.Now(), e.until) {
		return nil
	}
	if err := p.Show(e.Folder, e.place); err != nil && !errors.Is(err, sandbox.ErrOver) {
		return errors.Join(err, f.hide(e, "it could not be shown again"))
	}
	return nil
}

// endAt takes a folder away when its time is over, or what let everybody see it was taken back.
func (f *Folders) endAt(e *folder) {
	for {
		left := deadline.Left(f.inst.Options.Now(), e.until)
		if left <= 0 {
			break
		}
		if _, is := f.approval(e); e.standing && !is {
			break
		}
		timer := time.NewTimer(min(left, lookAgain))
		select {
		case <-timer.C:
		case <-f.session.Context().Done():
			timer.Stop()
			return // with everything that it was shown in
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	why := "its time is over"
	if deadline.Left(f.inst.Options.Now(), e.until) > 0 {
		why = "what let it be seen was taken back"
	}
	if err := f.hide(e, why); err != nil {
		f.session.Fail(fmt.Errorf("the folder %s could not be taken away: %w", e.Path(), err))
	}
}

// hide takes a folder away wherever it is, and records that. It is called with mu held.
func (f *Folders) hide(e *folder, why string) error {
	was := e.shown
	e.shown = false
	err := f.each(func(p sandbox.Shown) error { return p.Hide(e.place) })
	if !was {
		err = nil // in some it never was
	}
	detail := map[string]any{"folder": e.Path(), "inside": sandbox.FoldersDir + "/" + e.place}
	return errors.Join(err, f.record(nacre.KindMountEnd, "ended", why, detail))
}

// refused records a folder that is shown to nobody, and gives what the agent is told.
func (f *Folders) refused(name string, why, told error) error {
	if err := f.record(nacre.KindMountRefuse, nacre.OutcomeDenied, why.Error(), map[string]any{"asked": name}); err != nil {
		return err
	}
	return told
}

func (f *Folders) record(kind nacre.Kind, outcome, why string, detail any) error {
	text, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.session.Context()), recordLimit)
	defer cancel()
	return f.session.Recorder.Commit(ctx, nacre.Record{Kind: kind, Source: "folders", Outcome: outcome, Reason: why, Detail: text})
}

// Close lets go of all folders, when nothing runs in the session any more.
func (f *Folders) Close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.timers.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.known {
		if e != f.waiting {
			e.Close()
		}
	}
}
