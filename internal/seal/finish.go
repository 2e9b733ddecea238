package seal

import (
	"context"
	"errors"
	"time"

	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/basis"
	"github.com/nacre-dev/nacre/internal/receipt"
	"github.com/nacre-dev/nacre/internal/session"
)

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

// Stopped is [session.ErrStopped] where somebody stopped the session, and nil otherwise: what fails
// on the way says that a context ended, or a program, and not who wanted it. It tells so until
// Close, which ends what runs like a stop.
func (s *Session) Stopped() error {
	if s.Session == nil || !errors.Is(context.Cause(s.Context()), session.ErrStopped) {
		return nil
	}
	return session.ErrStopped
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
	return errors.Join(err, s.CutReceipt(cut, task, project, chains))
}

// CutReceipt signs what a session that was cut short did, and what became of
// what was taken back.
func (s *Session) CutReceipt(outcome, task, project string, chains []string) error {
	r := s.Inst
	counts, cost, err := receipt.Count(r, chains)
	if err != nil {
		return err
	}
	facts := map[string]string{"ended": outcome}
	if parent := s.calls.kin.Parent; parent != "" {
		facts[basis.FactParent] = string(parent)
	}
	c := s.Watch.Containment()
	if c != nil {
		facts["tripwire"], facts["what"], facts["revocation"] = c.Wire, c.What, c.Revoked
	}
	written := audit.Receipt{
		Session: s.ID(), Group: s.Group(), Started: s.Started, Finished: r.Options.Now().Round(time.Nanosecond), TaskDigest: receipt.TaskDigest(task),
		Outcome: outcome, Project: project, Brain: s.Agent, Sandbox: "native", PolicyDigest: r.Policy.Version(),
		Counts: counts, Cost: cost, Facts: facts,
	}
	path, err := receipt.WriteReceipt(r, written, chains[len(chains)-1])
	if c != nil {
		c.Receipt = path
	}
	return err
}
