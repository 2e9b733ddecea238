package assembly

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/task"
)

// suspend closes a session whose work is not finished: it can go on later. Where
// somebody stopped it, a receipt says how far it came; that of its end replaces
// it (M-16).
func (s *sealed) suspend(ctx context.Context, spec task.Spec) error {
	cut, chains := s.cut(), s.Chains()
	if cut != "stopped" || len(chains) == 0 {
		return s.close(ctx, "interrupted", false)
	}
	err := s.close(ctx, cut, false)
	return errors.Join(err, s.cutReceipt(cut, spec.Task, spec.Project, chains))
}

// conclude closes the session and signs what it did. The counts come from the
// chain, not from what the run says of itself.
func (s *sealed) conclude(ctx context.Context, report Report, spec task.Spec) (Report, error) {
	outcome := "not landed"
	switch {
	case report.Landed:
		outcome = "landed"
	case report.Delivered:
		outcome = "delivered"
	}
	chains := s.Chains()
	if err := errors.Join(s.tidy(&report), s.close(ctx, outcome, true)); err != nil {
		return report, err
	}
	r := s.runtime
	counts, cost, err := r.count(chains)
	if err != nil {
		return report, err
	}
	report.Denied, report.Asked, report.Redacted = int(counts.Denied), int(counts.Asked), int(counts.Redacted)
	report.Duration = r.options.Now().Sub(s.started)
	receipt := audit.Receipt{
		Session: s.ID(), Group: s.Group(), Started: s.started, Finished: r.options.Now(), TaskDigest: taskDigest(spec.Task),
		Outcome: outcome, Project: spec.Project, BaseCommit: report.Base, MergeCommit: report.Commit, Brain: s.agent,
		Sandbox: s.Sandbox().Name(), PolicyDigest: r.policy.Version(), Verdicts: verdicts(report.RunResult), Counts: counts, Cost: cost,
	}
	report.Receipt, err = r.writeReceipt(receipt, chains[len(chains)-1])
	return report, err
}

// tidy removes what a landed run worked on. What did not land stays, for a
// person to look at, until the session's next run.
func (s *sealed) tidy(report *Report) error {
	work := filepath.Join(s.Dir(), task.WorkDir)
	if !report.Landed && !report.Delivered {
		report.Work = work
		return nil
	}
	vaults, err := filepath.Glob(filepath.Join(s.Dir(), task.VaultPrefix+"*"))
	for _, dir := range append(vaults, work, filepath.Join(s.Dir(), task.EvidenceDir)) {
		err = errors.Join(err, registry.Discard(dir))
	}
	return err
}

func verdicts(result nacre.RunResult) []audit.ReceiptVerdict {
	var list []audit.ReceiptVerdict
	for _, a := range result.Atoms {
		list = append(list, audit.ReceiptVerdict{Check: a.Capability, Passed: a.Passed, Tree: result.Tree, Detail: a.Strength})
	}
	for _, c := range result.Checks {
		list = append(list, audit.ReceiptVerdict{Check: c.Command, Passed: c.Passed(), Tree: result.Tree, Detail: c.Strength})
	}
	return list
}

// writeReceipt adds the heads, signs the whole and writes it where it is found again.
func (r *Runtime) writeReceipt(receipt audit.Receipt, chain string) (string, error) {
	var err error
	public := r.keys.Public()
	if receipt.Heads.Chain, err = audit.ReadHead(r.AuditRoot(), chain, public); err != nil {
		return "", err
	}
	if receipt.Heads.Index, err = audit.ReadHead(r.AuditRoot(), audit.IndexChain, public); err != nil {
		return "", err
	}
	signed, err := audit.SignReceipt(receipt, r.keys)
	if err != nil {
		return "", err
	}
	path := r.ReceiptPath(receipt.Session)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	return path, audit.WriteReceipt(path, signed)
}

// count goes through the chains of a piece of work: all of its openings.
func (r *Runtime) count(chains []string) (audit.ReceiptCounts, audit.ReceiptCost, error) {
	var counts audit.ReceiptCounts
	var cost audit.ReceiptCost
	var errs []error
	for _, chain := range chains {
		held := map[nacre.Correlation]int64{}
		errs = append(errs, audit.Read(r.AuditRoot(), chain, func(e audit.Entry) error {
			add(&counts, e)
			return addCost(&cost, held, e)
		}))
		for _, reserved := range held { // a crash came between: the vendor may have charged it
			cost.ModelCalls++
			cost.MicroUSD += reserved
		}
	}
	return counts, cost, errors.Join(errs...)
}

// addCost adds what the gateway metered for one call to the model. Until its
// end is recorded, a call holds what was reserved for it.
func addCost(cost *audit.ReceiptCost, held map[nacre.Correlation]int64, e audit.Entry) error {
	begun := e.Kind == nacre.KindModelBegin && e.Outcome == nacre.OutcomeAllowed
	if !begun && e.Kind != nacre.KindModelEnd {
		return nil
	}
	var d struct {
		In       int64 `json:"input_tokens"`
		Out      int64 `json:"output_tokens"`
		Micro    int64 `json:"micro_usd"`
		Reserved int64 `json:"reserved_micro_usd"`
	}
	if err := json.Unmarshal(e.Detail, &d); err != nil {
		return fmt.Errorf("record %d, %s: %w", e.Seq, e.Kind, err)
	}
	if begun {
		held[e.Correlation] = d.Reserved
		return nil
	}
	delete(held, e.Correlation)
	cost.ModelCalls++
	cost.MicroUSD += d.Micro
	cost.InputTokens += d.In
	cost.OutputTokens += d.Out
	return nil
}

func add(counts *audit.ReceiptCounts, e audit.Entry) {
	switch e.Kind {
	case nacre.KindCallBegin:
		counts.Allowed++
	case nacre.KindCallReject:
		counts.Denied++
	case nacre.KindApprovalAsk:
		counts.Asked++
	case nacre.KindEgress, nacre.KindModelBegin:
		if e.Outcome == nacre.OutcomeDenied {
			counts.Denied++
		}
	case nacre.KindCallEnd:
		if e.Outcome == nacre.OutcomeSanitized {
			counts.Redacted++
		}
	}
}

// ReadAudit gives each record of a session's latest work to fn, in order.
func (r *Runtime) ReadAudit(session nacre.SessionID, fn func(audit.Entry) error) error {
	known, err := r.registry.Show(session)
	if err != nil {
		return err
	}
	for _, chain := range known.Chains {
		if err := audit.Read(r.AuditRoot(), chain, fn); err != nil {
			return err
		}
	}
	return nil
}
