package graduation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/learned"
	"github.com/nacre-dev/nacre/internal/ledger"
)

// Used are the powers that a run used, as the audit says: each of which it reached a host or used a credential.
func Used(inst *installation.Installation, chains []string, words string, tainted bool) (ledger.Uses, error) {
	powers, err := Load(inst)
	if err != nil || len(powers) == 0 {
		return ledger.Uses{}, err
	}
	uses := ledger.Uses{Task: taskOf(words), Tainted: tainted}
	for _, chain := range chains {
		err := audit.Read(inst.AuditRoot(), chain, func(e audit.Entry) error {
			if e.Kind != nacre.KindEgress || e.Outcome != nacre.OutcomeAllowed {
				return nil
			}
			var to reached
			if err := json.Unmarshal(e.Detail, &to); err != nil {
				return fmt.Errorf("record %d: %w", e.Seq, err)
			}
			for _, p := range powers {
				if p.uses(to) && !slices.Contains(uses.Powers, p.Name) {
					uses.Powers = append(uses.Powers, p.Name)
				}
			}
			return nil
		})
		if err != nil {
			return ledger.Uses{}, err
		}
	}
	return uses, nil
}

// taskOf tells tasks apart by their words, whatever their case and spaces.
func taskOf(words string) string {
	sum := sha256.Sum256([]byte(strings.Join(strings.Fields(strings.ToLower(words)), " ")))
	return hex.EncodeToString(sum[:16])
}

// drift is how far the time of evidence and that of its record may lie apart.
const drift = 10 * time.Minute

// records looks evidence up in the audit: the record must be there, with its hash, be of the
// same run, and from the same time.
func records(inst *installation.Installation) func(ledger.Evidence) error {
	return func(e ledger.Evidence) error {
		found := false
		err := audit.Read(inst.AuditRoot(), e.Anchor.Chain, func(r audit.Entry) error {
			if r.Seq != e.Anchor.Seq {
				return nil
			}
			found = hex.EncodeToString(r.RecordHash[:]) == e.Anchor.Hash && r.Time.Sub(e.At).Abs() < drift
			return errFound
		})
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return errors.New("its record was pruned")
		case err != nil && !errors.Is(err, errFound):
			return err
		case !found:
			return errors.New("the audit does not hold its record")
		}
		return nil
	}
}

// errFound ends the reading of a chain.
var errFound = errors.New("found")

// Standings are where all powers stand, in the order of the operator's file.
func Standings(ctx context.Context, inst *installation.Installation) (all []Standed, err error) {
	powers, err := Load(inst)
	if err != nil {
		return nil, err
	}
	approvals, err := learned.Load(inst.Registry.Paths().Config)
	if err != nil {
		return nil, config.Errorf("%w", err)
	}
	l, err := installation.LedgerOf(ctx, inst)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	all = []Standed{}
	for _, p := range powers {
		evidence, err := ledger.EvidenceOf(ctx, l, p.Name)
		if err != nil {
			return nil, err
		}
		s := Judge(evidence, inst.Options.Now(), records(inst))
		if s.State == Unlocked && !slices.ContainsFunc(approvals, func(a learned.Approval) bool { return a.Power == p.Name }) {
			s.State, s.Until, s.Missing = Locked, time.Time{}, []string{"what unlocked it is gone from learned.toml: nacre power lock " + p.Name + " begins anew"}
		}
		all = append(all, Standed{p, s})
	}
	return all, nil
}

// Standed is a power, and where it stands.
type Standed struct {
	Power
	Standing
}
