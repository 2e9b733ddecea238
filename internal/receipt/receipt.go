// Package receipt counts what a session's chain records, writes the signed
// receipt of it, and gives runs and visits their rows in the ledger. A receipt and a row
// are projections of records, and say nothing else.
package receipt

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/installation"
)

// Verdicts are those of a result, as a receipt lists them.
func Verdicts(result nacre.RunResult) []audit.ReceiptVerdict {
	var list []audit.ReceiptVerdict
	for _, a := range result.Atoms {
		list = append(list, audit.ReceiptVerdict{Check: a.Capability, Passed: a.Passed, Tree: result.Tree, Detail: a.Strength})
	}
	for _, c := range result.Checks {
		list = append(list, audit.ReceiptVerdict{Check: c.Command, Passed: c.Passed(), Tree: result.Tree, Detail: c.Strength})
	}
	return list
}

// WriteReceipt adds the heads, signs the whole and writes it where it is found again.
func WriteReceipt(inst *installation.Installation, receipt audit.Receipt, chain string) (string, error) {
	var err error
	public := inst.Keys.Public()
	if receipt.Heads.Chain, err = audit.ReadHead(inst.AuditRoot(), chain, public); err != nil {
		return "", err
	}
	if receipt.Heads.Index, err = audit.ReadHead(inst.AuditRoot(), audit.IndexChain, public); err != nil {
		return "", err
	}
	signed, err := audit.SignReceipt(receipt, inst.Keys)
	if err != nil {
		return "", err
	}
	path := inst.ReceiptPath(receipt.Session)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	return path, audit.WriteReceipt(path, signed)
}

// Count goes through the chains of a piece of work: all of its openings.
func Count(inst *installation.Installation, chains []string) (audit.ReceiptCounts, audit.ReceiptCost, error) {
	var t Tally
	var errs []error
	for _, chain := range chains {
		errs = append(errs, audit.Read(inst.AuditRoot(), chain, t.Add))
		t.EndChain()
	}
	return t.Counts, t.Cost, errors.Join(errs...)
}

// Tally counts what records tell. Its zero value has counted nothing.
type Tally struct {
	Counts audit.ReceiptCounts
	Cost   audit.ReceiptCost
	// held is what was reserved for the calls to the model that have not ended.
	held map[nacre.Correlation]int64
	// lent is what was set aside for sub-agents that have not ended.
	lent map[nacre.Correlation]int64
}

// Add counts the next record of a chain.
func (t *Tally) Add(e audit.Entry) error {
	if err := add(&t.Counts, e); err != nil {
		return err
	}
	if t.held == nil {
		t.held, t.lent = map[nacre.Correlation]int64{}, map[nacre.Correlation]int64{}
	}
	if e.Kind == nacre.KindChild {
		return addChild(&t.Cost, t.lent, e)
	}
	return addCost(&t.Cost, t.held, e)
}

// EndChain is told that a chain has no further records. What was reserved for a call that has
// no end counts: a crash came between, and the vendor may have charged it.
func (t *Tally) EndChain() {
	for _, reserved := range t.held {
		t.Cost.ModelCalls++
		t.Cost.MicroUSD += reserved
	}
	for _, lent := range t.lent {
		t.Cost.MicroUSD += lent
	}
	t.held, t.lent = nil, nil
}

// The outcomes of a record of kind child.
const (
	ChildAsked   = "asked"
	ChildRefused = "refused"
	ChildEnded   = "ended"
)

// addChild adds what a sub-agent cost, which is its parent's to pay: until it has ended, all
// that was set aside for it.
func addChild(cost *audit.ReceiptCost, lent map[nacre.Correlation]int64, e audit.Entry) error {
	var d struct {
		Micro    int64 `json:"micro_usd"`
		Reserved int64 `json:"reserved_micro_usd"`
	}
	if err := json.Unmarshal(e.Detail, &d); err != nil {
		return fmt.Errorf("record %d, %s: %w", e.Seq, e.Kind, err)
	}
	switch e.Outcome {
	case ChildAsked:
		lent[e.Correlation] = d.Reserved
	case ChildEnded:
		delete(lent, e.Correlation)
		cost.MicroUSD += d.Micro
	}
	return nil
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

func add(counts *audit.ReceiptCounts, e audit.Entry) error {
	switch e.Kind {
	case nacre.KindCallBegin:
		counts.Allowed++
	case nacre.KindCallReject:
		counts.Denied++
	case nacre.KindApprovalAsk:
		counts.Asked++
	case nacre.KindEgress:
		return addBytes(counts, e)
	case nacre.KindModelBegin:
		if e.Outcome == nacre.OutcomeDenied {
			counts.Denied++
		}
	case nacre.KindCallEnd:
		if e.Outcome == nacre.OutcomeSanitized {
			counts.Redacted++
		}
	case nacre.KindGateRefuse:
		counts.Denied++
	case nacre.KindBrainEvent: // what the brain's own program refused is heard of here alone
		var d struct{ Denied bool }
		if json.Unmarshal(e.Detail, &d) == nil && d.Denied { // what cannot be read denied nothing
			counts.Denied++
		}
	default: // the other kinds stand in no receipt's counts
	}
	return nil
}

// addBytes adds what a connection came to, when it has ended.
func addBytes(counts *audit.ReceiptCounts, e audit.Entry) error {
	var d struct {
		Sent     int64 `json:"bytes_sent"`
		Received int64 `json:"bytes_received"`
	}
	switch e.Outcome {
	case nacre.OutcomeDenied:
		counts.Denied++
		return nil
	case nacre.OutcomeAllowed: // its end says how much it was
		return nil
	}
	if err := json.Unmarshal(e.Detail, &d); err != nil {
		return fmt.Errorf("record %d, %s: %w", e.Seq, e.Kind, err)
	}
	counts.BytesOut += d.Sent
	counts.BytesIn += d.Received
	return nil
}

// ReadAudit gives each record of a session's latest work to fn, in order.
func ReadAudit(inst *installation.Installation, session nacre.SessionID, fn func(audit.Entry) error) error {
	known, err := inst.Registry.Show(session)
	if err != nil {
		return err
	}
	for _, chain := range known.Chains {
		if err := audit.Read(inst.AuditRoot(), chain, fn); err != nil {
			return err
		}
	}
	return nil
}

// TaskDigest is the SHA-256 of a task's text, in hexadecimal.
func TaskDigest(text string) string {
	digest := sha256.Sum256([]byte(text))
	return hex.EncodeToString(digest[:])
}
