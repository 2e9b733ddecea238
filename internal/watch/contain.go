package watch

import (
	"fmt"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/installation"
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
	// Revoked says what became of taking its grants back.
	Revoked string `json:"-"`
}

func (c *Contained) Error() string {
	text := fmt.Sprintf("session %s is contained: %s (%s)\n       nothing of it runs, reaches out or is granted any more; nacre audit show %s",
		c.Session, c.What, c.Wire, c.Session)
	if c.Receipt != "" {
		text += "\n       receipt: nacre audit verify --receipt " + c.Receipt
	}
	return text
}

// contain ends the session for good, the most pressing first: everything that runs in it and every
// connection, then its grants. Then it is recorded and told. The first alarm counts, later ones are
// recorded.
func (w *Watch) contain(a tripwire.Alarm) {
	c := &Contained{Session: w.session.ID(), Wire: string(a.Wire), What: a.What}
	w.mu.Lock()
	first := w.contained == nil
	if first {
		w.contained = c
	}
	w.mu.Unlock()
	if !first {
		return
	}
	defer close(w.done)
	w.session.Stop(c)
	until := w.inst.Options.Now().Add(kernel.MaxGrantTTL)
	revoked := "its grants are revoked"
	if err := w.inst.Revoked.Revoke("", installation.PrincipalID(w.session.Group(), w.session.ID()), until); err != nil {
		revoked = "its grants could not be revoked: " + err.Error()
	}
	w.mu.Lock()
	c.Revoked = revoked
	w.mu.Unlock()
	w.noteAlarm(a, "contained")
	w.warn(nacre.Step{Kind: nacre.StepResult, Name: "tripwire", Text: "contained: " + a.What, IsError: true})
}

// Revoked tells whether the session may do nothing any more. Where nobody can tell, it
// may not (F-18).
func (w *Watch) Revoked() bool {
	gone, err := w.inst.Revoked.Revoked("", installation.PrincipalID(w.session.Group(), w.session.ID()), w.inst.Options.Now())
	return gone || err != nil
}

// Containment is why the session is contained, or nil.
func (w *Watch) Containment() *Contained {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.contained
}

// Await lets what contains finish before the chain is closed.
func (w *Watch) Await() {
	if w.Containment() != nil {
		<-w.done
	}
}
