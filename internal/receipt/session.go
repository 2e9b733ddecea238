package receipt

import (
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/installation"
)

// Session is what is known of a session at its end: of a run, of a visit, or of one that was cut short.
type Session struct {
	ID            nacre.SessionID
	Group         nacre.Group
	Started       time.Time
	Outcome       string
	Task, Project string
	Brain         string // with its version
	Sandbox       string // the backend
	// Base is the commit that its work began from, and Commit that by which it had landed; empty
	// where there is none.
	Base, Commit string
	// Verdicts are those on its work, if it was verified.
	Verdicts []audit.ReceiptVerdict
	Facts    map[string]string
	// Chains are those of its openings, at least one.
	Chains []string
}

// WriteSession signs what a session did by its records, and says where that is kept (M-16) and
// what it counted.
func WriteSession(inst *installation.Installation, s Session) (path string, counts audit.ReceiptCounts, err error) {
	counts, cost, err := Count(inst, s.Chains)
	if err != nil {
		return "", counts, err
	}
	path, err = WriteReceipt(inst, audit.Receipt{
		Session: s.ID, Group: s.Group, Started: s.Started, Finished: inst.Options.Now().Round(time.Nanosecond), TaskDigest: TaskDigest(s.Task),
		Outcome: s.Outcome, ReceiptWork: audit.ReceiptWork{Project: s.Project, BaseCommit: s.Base, MergeCommit: s.Commit, Brain: s.Brain, Sandbox: s.Sandbox, PolicyDigest: inst.Policy.Version()},
		Verdicts: s.Verdicts, Counts: counts, Cost: cost, Facts: s.Facts,
	}, s.Chains[len(s.Chains)-1])
	return path, counts, err
}
