package seal

import (
	"context"
	"errors"

	"github.com/nacre-dev/nacre/internal/basis"
	"github.com/nacre-dev/nacre/internal/hosting"
	"github.com/nacre-dev/nacre/internal/operator"
	"github.com/nacre-dev/nacre/internal/receipt"
)

// Close ends everything of the session, in the order in which it depends on itself.
func (s *Session) Close(ctx context.Context, outcome string, finished bool) error {
	ctx = context.WithoutCancel(ctx)
	s.door.End()
	s.Watch.Await()
	s.Account()
	var errs []error
	s.Plugins.Close(ctx)
	if s.Kernel != nil {
		errs = append(errs, s.waitForDrivers(ctx), s.ClosePins())
		s.request.Kin.Over(s.Tainted())
		s.OfferReview(ctx)
	}
	forgotten := s.Forget(ctx, s.Plugins.Idle())
	if s.Session != nil {
		errs = append(errs, s.Reach.Close(ctx), s.DropPackages(), s.Session.Close(ctx, outcome, finished))
	}
	s.Folders.Close()
	s.questions.Leave()
	s.door.Cancel()
	err := errors.Join(append(errs, <-forgotten)...)
	s.Keep()
	return err
}

// waitForDrivers lets what still runs for a call end before its chain does.
func (s *Session) waitForDrivers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, hosting.DriversLimit)
	defer cancel()
	return s.Kernel.Wait(ctx)
}

// Cut is what ended the session before its end: "contained", "stopped" or "".
func (s *Session) Cut() string {
	switch {
	case s.Watch.Containment() != nil:
		return "contained"
	case s.Stopped() != nil:
		return "stopped"
	}
	return ""
}

// Finish closes a session whose work does not go on. One that was cut short gets
// a receipt of how far it came (M-16).
func (s *Session) Finish(ctx context.Context, outcome, task, project string) error {
	cut, chains := s.Cut(), s.Chains()
	if cut != "" {
		outcome = cut
	}
	err := s.Close(ctx, outcome, true)
	if cut == "" || len(chains) == 0 {
		return err
	}
	return errors.Join(err, s.CutReceipt(ctx, cut, task, project, chains))
}

// CutReceipt signs what a session that was cut short did, what became of what was taken back, and by
// which commit its work had landed before.
func (s *Session) CutReceipt(ctx context.Context, outcome, task, project string, chains []string) error {
	commit, err := operator.Landed(context.WithoutCancel(ctx), s.Inst, s.ID())
	if err != nil {
		return err
	}
	facts := map[string]string{"ended": outcome}
	if parent := s.request.Kin.Parent; parent != "" {
		facts[basis.FactParent] = string(parent)
	}
	c := s.Watch.Containment()
	if c != nil {
		facts["tripwire"], facts["what"], facts["revocation"] = c.Wire, c.What, c.Revoked
	}
	path, _, err := receipt.WriteSession(s.Inst, receipt.Session{
		ID: s.ID(), Group: s.Group(), Started: s.Started, Outcome: outcome, Task: task, Project: project, Brain: s.Agent, Sandbox: s.Sandbox().Name(), Commit: commit, Facts: facts, Chains: chains,
	})
	if c != nil {
		c.Receipt = path
	}
	return err
}
