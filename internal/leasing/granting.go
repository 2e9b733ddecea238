package leasing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/lease"
	"github.com/nacre-dev/nacre/internal/question"
)

// grantLimit bounds the wait for the record of what was granted.
const grantLimit = 10 * time.Second

// errDenied says that a person does not want the credential to be used in this session.
var errDenied = errors.New("a person denied it for this session")

// granting is what a person is asked of one credential, and answered (M-30). The lock of its
// hold guards it.
type granting struct {
	budget *lease.Budget // what is granted; nil where nothing is
	asked  chan struct{} // closed when the question that waits is decided; nil where none waits
	id     string        // of that question
	denied bool
}

// granted waits until a person granted the credential, as long as a request may wait. A
// denial holds until the session ends, and is not asked again.
func (h *hold) granted(ctx context.Context) error {
	h.mu.Lock()
	decided, err := h.ask() //nolint:contextcheck // the question outlives the request that asks it
	id := h.id
	h.mu.Unlock()
	if err != nil {
		return err
	}
	timer := time.NewTimer(h.of.asked.Patience)
	defer timer.Stop()
	select {
	case <-decided:
	case <-timer.C:
	case <-ctx.Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.budget != nil:
		return nil
	case h.denied:
		return errDenied
	}
	return fmt.Errorf("a person is asked for it: nacre approvals approve %s", id)
}

// ask opens the question, once for all requests that wait. It is called with the hold's lock.
func (h *hold) ask() (<-chan struct{}, error) {
	switch {
	case h.ended:
		return nil, lease.ErrEnded
	case h.denied:
		return nil, errDenied
	case h.asked != nil:
		return h.asked, nil
	}
	decided := make(chan struct{})
	if h.budget != nil {
		close(decided)
		return decided, nil // another request was faster
	}
	q, err := h.question()
	if err != nil {
		return nil, err
	}
	s := h.of.session
	detail, err := json.Marshal(map[string]any{"capability": q.Capability, "credential": h.config.Name, "digest": q.Digest})
	if err != nil {
		return nil, err
	}
	if err := s.Recorder.Commit(s.Context(), nacre.Record{Kind: nacre.KindApprovalAsk, Source: "credentials", Reason: q.Why, Detail: detail}); err != nil {
		return nil, err // what cannot be recorded is not asked
	}
	h.asked = decided
	h.id, err = s.Approvals.Propose(s.Context(), q, h.decided)
	if err != nil {
		h.asked = nil
	}
	return decided, err
}

// question says what would be minted, for where, and for how long.
func (h *hold) question() (nacre.Question, error) {
	c := h.config
	rule := c.Rule(nil)
	var asked any = h.loginAsked()
	if !c.OverSSH() {
		asked = question.Budget{
			Credential: c.Name, Minted: c.Mint.Kind + " for " + c.Mint.Scope(), Host: c.Host, Methods: lease.Methods(rule.Methods), Paths: rule.Paths,
			Hours: c.Mint.Budget.Hours, Renewals: c.Mint.Budget.Renewals,
		}
	}
	arguments, err := json.Marshal(asked)
	return nacre.Question{
		Capability: question.Lease, Arguments: arguments, Digest: question.Digest(question.Lease, arguments), Safety: nacre.Write,
		Why: "a request needs it, and nobody granted it, or what was granted is used up",
	}, err
}

// decided keeps what was granted, once that is recorded. Everything else grants nothing.
func (h *hold) decided(q nacre.Question, r nacre.Ruling, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer close(h.asked)
	defer func() { h.asked, h.id = nil, "" }()
	if err != nil || r.Verdict != nacre.Allow || r.Digest != q.Digest {
		h.denied = err == nil && r.Verdict == nacre.Deny
		return
	}
	budget := h.budgeting().Granted(h.of.inst.Options.Now(), r.For, r.Times)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.of.session.Context()), grantLimit)
	defer cancel()
	grant := struct {
		Credential string `json:"credential"`
		By         string `json:"by"`
		Question   string `json:"question"`
		lease.Budget
	}{h.config.Name, r.By, q.ID, budget}
	if h.of.record(ctx, recordGranted, grant) == nil {
		h.budget = &budget
	}
}
