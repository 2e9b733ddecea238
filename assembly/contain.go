package assembly

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/session"
	"github.com/nacre-dev/nacre/internal/tripwire"
	"github.com/nacre-dev/nacre/kernel"
)

// Contained is why a session was ended: it touched a tripwire (M-58).
type Contained struct {
	Session nacre.SessionID `json:"session"`
	// Wire is the tripwire, What what was seen.
	Wire string `json:"tripwire"`
	What string `json:"what"`
	// Receipt is the session's, once it is closed.
	Receipt string `json:"receipt,omitempty"`
	// revoked says what became of taking its grants back.
	revoked string
}

func (c *Contained) Error() string {
	text := fmt.Sprintf("session %s is contained: %s (%s)\n       nothing of it runs, reaches out or is granted any more; nacre audit show %s",
		c.Session, c.What, c.Wire, c.Session)
	if c.Receipt != "" {
		text += "\n       receipt: nacre audit verify --receipt " + c.Receipt
	}
	return text
}

// contain ends the session for good, the most pressing first: everything that
// runs in it and every connection, then its grants; then it is recorded and told.
// The first alarm counts, later ones are recorded.
func (s *sealed) contain(a tripwire.Alarm) {
	t := s.trips
	c := &Contained{Session: s.ID(), Wire: string(a.Wire), What: a.What}
	t.mu.Lock()
	first := t.contained == nil
	if first {
		t.contained = c
	}
	t.mu.Unlock()
	if !first {
		return
	}
	defer close(t.done)
	s.Stop(c)
	until := s.runtime.options.Now().Add(kernel.MaxGrantTTL)
	revoked := "its grants are revoked"
	if err := s.runtime.revoked.Revoke("", principalID(s.Group(), s.ID()), until); err != nil {
		revoked = "its grants could not be revoked: " + err.Error()
	}
	t.mu.Lock()
	c.revoked = revoked
	t.mu.Unlock()
	s.noteAlarm(a, "contained")
	s.warn(nacre.Step{Kind: nacre.StepResult, Name: "tripwire", Text: "contained: " + a.What, IsError: true})
}

// containment is why the session is contained, or nil.
func (s *sealed) containment() *Contained {
	if s.trips == nil {
		return nil
	}
	s.trips.mu.Lock()
	defer s.trips.mu.Unlock()
	return s.trips.contained
}

// awaitContainment lets what contains finish before the chain is closed.
func (s *sealed) awaitContainment() {
	if s.containment() != nil {
		<-s.trips.done
	}
}

// cut is what ended the session before its end: "contained", "stopped" or "".
func (s *sealed) cut() string {
	switch {
	case s.containment() != nil:
		return "contained"
	case errors.Is(context.Cause(s.Context()), session.ErrStopped):
		return "stopped"
	}
	return ""
}

// finish closes a session whose work does not go on. One that was cut short gets
// a receipt of how far it came (M-16).
func (s *sealed) finish(ctx context.Context, outcome, task, project string) error {
	cut, chains := s.cut(), s.Chains()
	if cut != "" {
		outcome = cut
	}
	err := s.close(ctx, outcome, true)
	if cut == "" || len(chains) == 0 {
		return err
	}
	return errors.Join(err, s.cutReceipt(cut, task, project, chains))
}

// cutReceipt signs what a session that was cut short did, and what became of
// what was taken back.
func (s *sealed) cutReceipt(outcome, task, project string, chains []string) error {
	r := s.runtime
	counts, cost, err := r.count(chains)
	if err != nil {
		return err
	}
	facts := map[string]string{"ended": outcome}
	c := s.containment()
	if c != nil {
		facts["tripwire"], facts["what"], facts["revocation"] = c.Wire, c.What, c.revoked
	}
	receipt := audit.Receipt{
		Session: s.ID(), Group: s.Group(), Started: s.started, Finished: r.options.Now().Round(time.Nanosecond), TaskDigest: taskDigest(task),
		Outcome: outcome, Project: project, Brain: s.agent, Sandbox: "native", PolicyDigest: r.policy.Version(),
		Counts: counts, Cost: cost, Facts: facts,
	}
	path, err := r.writeReceipt(receipt, chains[len(chains)-1])
	if c != nil {
		c.Receipt = path
	}
	return err
}
