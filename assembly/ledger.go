package assembly

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/task"
	"github.com/nacre-dev/nacre/internal/verify"
)

// ledger opens the installation's ledger.
func (r *Runtime) ledger(ctx context.Context) (*ledger.Ledger, error) {
	l, err := ledger.Open(ctx, filepath.Join(r.registry.Paths().State, ledger.FileName), r.options.Now)
	if err != nil {
		return nil, &NotReady{What: "the ledger", err: err}
	}
	return l, nil
}

// enter gives an order its row, with the record that it stands on (S-15). A
// run that goes on has its row already.
func (s *sealed) enter(ctx context.Context, spec task.Spec) (err error) {
	order := spec.Order
	if order == nil {
		return nil
	}
	l, err := s.runtime.ledger(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	switch _, err := l.Show(ctx, order.DNA); {
	case err == nil:
		return nil
	case !errors.Is(err, ledger.ErrNotFound):
		return err
	}
	anchor, err := s.anchor(ctx, order, "running", "")
	if err != nil {
		return err
	}
	return l.Begin(ctx, ledger.Start{
		ID: order.Agent, Role: order.Role, Parent: order.Parent, Branch: "nacre/" + string(s.ID()), Session: string(s.ID()),
		Task: []byte(order.Task), SpecSHA: order.SpecSHA, Prompt: spec.Task, DNA: order.DNA, Provider: spec.Brain, Model: spec.Model, Anchor: anchor,
	})
}

// entered tells whether a run has its row.
func (r *Runtime) entered(ctx context.Context, dna string) (found bool, err error) {
	l, err := r.ledger(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	_, err = l.Show(ctx, dna)
	if errors.Is(err, ledger.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// account writes into its row what became of an order. It may be called again
// after a crash: a row that is further already stays as it is.
func (s *sealed) account(ctx context.Context, spec task.Spec, result nacre.RunResult) (err error) {
	order := spec.Order
	if order == nil {
		return nil
	}
	l, err := s.runtime.ledger(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	end := ledger.End{
		Status: ledger.Failed, Summary: result.Reason, CostMicroUSD: result.Cost, Outcome: outcomeOf(result),
		TokensIn: s.earlier.InputTokens, TokensOut: s.earlier.OutputTokens,
	}
	if result.Passed {
		end.Status = ledger.Done
	}
	if end.Summary == "" {
		end.Summary = result.Report
	}
	if s.gateway != nil {
		_, in, out := s.gateway.Spent()
		end.TokensIn, end.TokensOut = end.TokensIn+in, end.TokensOut+out
	}
	if end.Anchor, err = s.anchor(ctx, order, string(end.Status), result.Reason); err != nil {
		return err
	}
	if err := l.Finish(ctx, order.DNA, end); err != nil && !errors.Is(err, ledger.ErrTransition) {
		return err
	}
	switch {
	case result.Landed:
		return s.settleRow(ctx, l, order, ledger.Merged, s.passedBy())
	case end.Status == ledger.Done && !result.Delivered && result.Next == "": // what can be taken by hand is not rejected
		return s.settleRow(ctx, l, order, ledger.Rejected, result.Reason)
	}
	return nil
}

// passedBy says which auditor passed the work, where one did.
func (s *sealed) passedBy() string {
	if a, there, err := s.runtime.auditOf(s.ID()); err == nil && there && a.Work == s.Work() {
		return "the auditor " + a.Auditor + " passed it, as " + a.DNA
	}
	return ""
}

// settleRow says what became of work that was done.
func (s *sealed) settleRow(ctx context.Context, l *ledger.Ledger, order *task.Order, status ledger.Status, reason string) error {
	anchor, err := s.anchor(ctx, order, string(status), reason)
	if err != nil {
		return err
	}
	move := l.Reject
	if status == ledger.Merged {
		move = l.Merge
	}
	if err := move(ctx, order.DNA, ledger.Landing{Reason: reason, Anchor: anchor}); err != nil && !errors.Is(err, ledger.ErrTransition) {
		return err
	}
	return nil
}

// Decide keeps what a person decided of a run that has ended, with a record in
// a chain of its own (M-50). ref is an agent's id, for its latest run, or a DNA.
func (r *Runtime) Decide(ctx context.Context, ref string, held bool, who, reason string) (err error) {
	l, err := r.ledger(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	run, err := l.Show(ctx, ref)
	if err != nil {
		return badConfig("%w", err)
	}
	chain, closed, err := r.operatorChain(ctx, decisionChain)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closed()) }()
	outcome := "refused"
	if held {
		outcome = "accepted"
	}
	detail, err := json.Marshal(map[string]string{"agent": run.ID, "dna": run.DNA, "by": who})
	if err != nil {
		return err
	}
	record := nacre.Record{Time: r.options.Now(), Kind: nacre.KindLedger, Source: "operator", Outcome: outcome, Reason: reason, Detail: detail}
	if err := chain.Commit(ctx, record); err != nil {
		return err
	}
	head, err := chain.Head(ctx)
	if err != nil {
		return err
	}
	err = l.Decide(ctx, run.DNA, ledger.Landing{
		Reason: reason, Outcome: ledger.PersonDecision(held, who),
		Anchor: ledger.Anchor{Chain: head.Chain, Seq: head.Seq, Hash: hex.EncodeToString(head.RecordHash[:])},
	})
	if errors.Is(err, ledger.ErrTransition) {
		return badConfig("%w: stop its session, or let it end", err)
	}
	return err
}

// outcomeOf is what signals say that the agent cannot forge (M-50).
func outcomeOf(result nacre.RunResult) ledger.Outcome {
	strength, held := result.Verified, true
	for _, a := range result.Atoms {
		if !a.Passed {
			strength, held = a.Strength, false
		}
	}
	for _, c := range result.Checks {
		if !c.Passed() {
			strength, held = c.Strength, false
		}
	}
	switch strength {
	case verify.Strong:
		return ledger.StrongCheck(held)
	case verify.Weak:
		return ledger.WeakCheck(held)
	}
	return ledger.Outcome{}
}

// anchor records a change of a row, and says which record of the chain it
// stands on: that one, or one soon after it.
func (s *sealed) anchor(ctx context.Context, order *task.Order, status, reason string) (ledger.Anchor, error) {
	detail, err := json.Marshal(map[string]string{
		"agent": order.Agent, "role": order.Role, "dna": order.DNA, "spec_sha": order.SpecSHA, "parent": order.Parent,
	})
	if err != nil {
		return ledger.Anchor{}, err
	}
	head, err := s.Anchor(ctx, nacre.Record{Kind: nacre.KindLedger, Source: "core", Outcome: status, Reason: reason, Detail: detail})
	if err != nil {
		return ledger.Anchor{}, fmt.Errorf("anchor the ledger's row: %w", err)
	}
	return ledger.Anchor{Chain: head.Chain, Seq: head.Seq, Hash: hex.EncodeToString(head.RecordHash[:])}, nil
}
