package work

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/operator"
	"github.com/nacre-dev/nacre/internal/receipt"
	"github.com/nacre-dev/nacre/internal/seal"
	"github.com/nacre-dev/nacre/internal/task"
	"github.com/nacre-dev/nacre/internal/verify"
)

// row is what the ledger calls a run.
type row struct{ agent, role, dna, specSHA, parent string }

// ofOrder is the row of an order.
func ofOrder(o *task.Order) row { return row{o.Agent, o.Role, o.DNA, o.SpecSHA, o.Parent} }

// rowOf is the row of a run. A run without an order gets one at its end: what it took and which powers it
// used count as those of others (M-51, M-54).
func rowOf(ctx context.Context, s *seal.Session, l *ledger.Ledger, spec task.Spec) (row, error) {
	if spec.Order != nil {
		return ofOrder(spec.Order), nil
	}
	entered, err := receipt.EnterWork(ctx, s.Inst, l, receipt.Worked{Session: s.ID(), Work: s.Work(), Chains: s.Chains(), Words: spec.Words()})
	return row{agent: entered.ID, role: entered.Role, dna: entered.DNA, specSHA: entered.SpecSHA}, err
}

// enter gives an order its row, with the record that it stands on (S-15). A
// run that goes on has its row already.
func enter(ctx context.Context, s *seal.Session, spec task.Spec) (err error) {
	order := spec.Order
	if order == nil {
		return nil
	}
	l, err := installation.LedgerOf(ctx, s.Inst)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	switch row, err := l.Show(ctx, order.DNA); {
	case err == nil && row.Status == ledger.Interrupted:
		return resume(ctx, s, l, order)
	case err == nil:
		return nil
	case !errors.Is(err, ledger.ErrNotFound):
		return err
	}
	anchor, err := anchor(ctx, s, ofOrder(order), "running", "")
	if err != nil {
		return err
	}
	return l.Begin(ctx, ledger.Start{
		ID: order.Agent, Role: order.Role, Parent: order.Parent, Branch: "nacre/" + string(s.ID()), Session: string(s.ID()),
		Task: []byte(order.Task), SpecSHA: order.SpecSHA, Prompt: spec.Task, DNA: order.DNA, Provider: spec.Brain, Model: spec.Model, Anchor: anchor,
	})
}

// resume says in its row that a session goes on with an order.
func resume(ctx context.Context, s *seal.Session, l *ledger.Ledger, order *task.Order) error {
	anchor, err := anchor(ctx, s, ofOrder(order), string(ledger.Running), "")
	if err != nil {
		return err
	}
	err = l.Resume(ctx, order.DNA, anchor)
	if errors.Is(err, ledger.ErrTaken) {
		return config.Errorf("%w: go on when that run has ended", err)
	}
	return err
}

// interrupt says in its row that no session works on an order any more (F-96). A run
// that has no row yet, or whose row has its end, stays as it is.
func interrupt(ctx context.Context, s *seal.Session, spec task.Spec, reason string) (err error) {
	order := spec.Order
	if order == nil || s.Session == nil {
		return nil
	}
	l, err := installation.LedgerOf(ctx, s.Inst)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	row, err := l.Show(ctx, order.DNA)
	switch {
	case errors.Is(err, ledger.ErrNotFound) || err == nil && row.Status != ledger.Running:
		return nil
	case err != nil:
		return err
	}
	anchor, err := anchor(ctx, s, ofOrder(order), string(ledger.Interrupted), reason)
	if err != nil {
		return err
	}
	return l.Interrupt(ctx, order.DNA, reason, anchor)
}

// entered tells whether a run has its row.
func entered(ctx context.Context, inst *installation.Installation, dna string) (found bool, err error) {
	l, err := installation.LedgerOf(ctx, inst)
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

// knownParent refuses a task on behalf of an agent that the ledger has no run of.
func knownParent(ctx context.Context, inst *installation.Installation, order *task.Order) error {
	if order == nil || order.Parent == "" {
		return nil
	}
	known, err := entered(ctx, inst, order.Parent)
	if err == nil && !known {
		return config.Errorf("task.parent-agent is %q, and the ledger knows no such agent: nacre ledger list names those there are; leave it out where there is none", order.Parent)
	}
	return err
}

// account writes into its row what became of a run. It may be called again
// after a crash: a row that is further already stays as it is. tries is how often the agent worked
// until the run came to a result of its own; 0 where it did not.
func account(ctx context.Context, s *seal.Session, spec task.Spec, result nacre.RunResult, tries int) (err error) {
	l, err := installation.LedgerOf(ctx, s.Inst)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	row, err := rowOf(ctx, s, l, spec)
	if err != nil {
		return err
	}
	end := ledger.End{
		Status: ledger.Failed, Summary: result.Reason, CostMicroUSD: result.Cost, Outcome: outcomeOf(result),
		Project: spec.Project, Tries: tries, Provider: spec.Brain, Model: spec.Model,
		TokensIn: s.Model.Earlier.InputTokens, TokensOut: s.Model.Earlier.OutputTokens,
	}
	if result.Passed || result.Landed { // what has landed has, even where its session was contained after it
		end.Status = ledger.Done
	}
	if end.Summary == "" {
		end.Summary = result.Report
	}
	if s.Model.Gateway != nil {
		_, in, out := s.Model.Gateway.Spent()
		end.TokensIn, end.TokensOut = end.TokensIn+in, end.TokensOut+out
	}
	if end.Uses, err = usesOf(ctx, s, spec, !result.Passed); err != nil {
		return err
	}
	if end.Anchor, err = anchor(ctx, s, row, string(end.Status), result.Reason); err != nil {
		return err
	}
	if err := l.Finish(ctx, row.dna, end); err != nil && !errors.Is(err, ledger.ErrTransition) {
		return err
	}
	tellProposals(ctx, s, end.Uses)
	switch {
	case result.Landed:
		return settleRow(ctx, s, l, row, ledger.Merged, passedBy(s))
	case spec.Order != nil && end.Status == ledger.Done && !result.Delivered && result.Next == "": // what can be taken by hand is not rejected
		return settleRow(ctx, s, l, row, ledger.Rejected, result.Reason)
	}
	return nil
}

// passedBy says which auditor passed the work, where one did.
func passedBy(s *seal.Session) string {
	if a, there, err := auditOf(s.Inst, s.ID()); err == nil && there && a.Work == s.Work() {
		return "the auditor " + a.Auditor + " passed it, as " + a.DNA
	}
	return ""
}

// settleRow says what became of work that was done.
func settleRow(ctx context.Context, s *seal.Session, l *ledger.Ledger, of row, status ledger.Status, reason string) error {
	anchor, err := anchor(ctx, s, of, string(status), reason)
	if err != nil {
		return err
	}
	move := l.Reject
	if status == ledger.Merged {
		move = l.Merge
	}
	if err := move(ctx, of.dna, ledger.Landing{Reason: reason, Anchor: anchor}); err != nil && !errors.Is(err, ledger.ErrTransition) {
		return err
	}
	return nil
}

// DecideWork keeps what a person decided of a run that has ended, with a record in
// a chain of its own (M-50). ref is an agent's id, for its latest run, or a DNA.
func DecideWork(ctx context.Context, inst *installation.Installation, ref string, held bool, who, reason string) (err error) {
	l, err := installation.LedgerOf(ctx, inst)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	run, err := l.Show(ctx, ref)
	if err != nil {
		return config.Errorf("%w", err)
	}
	chain, closed, err := operator.Chain(ctx, inst, operator.DecisionChain)
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
	record := nacre.Record{Time: inst.Options.Now(), Kind: nacre.KindLedger, Source: "operator", Outcome: outcome, Reason: reason, Detail: detail}
	if err := chain.Commit(ctx, record); err != nil {
		return err
	}
	head, err := chain.Head(ctx)
	if err != nil {
		return err
	}
	if !held {
		if err := demoteUsed(ctx, inst, l, run.DNA); err != nil {
			return err
		}
	}
	err = l.Decide(ctx, run.DNA, ledger.Landing{
		Reason: reason, Outcome: ledger.PersonDecision(held, who),
		Anchor: ledger.Anchor{Chain: head.Chain, Seq: head.Seq, Hash: hex.EncodeToString(head.RecordHash[:])},
	})
	if errors.Is(err, ledger.ErrTransition) {
		return config.Errorf("%w: let it end, or give its work up: nacre sessions give-up %s", err, run.Session)
	}
	if err != nil {
		return err
	}
	return learnDecision(ctx, inst, run.Run, held, reason)
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
func anchor(ctx context.Context, s *seal.Session, of row, status, reason string) (ledger.Anchor, error) {
	detail, err := json.Marshal(map[string]string{
		"agent": of.agent, "role": of.role, "dna": of.dna, "spec_sha": of.specSHA, "parent": of.parent,
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
