package receipt

import (
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/installation"
)

// Session is what is known of a session whose work nothing verified: a visit, or one that was cut short.
type Session struct {
	ID            nacre.SessionID
	Group         nacre.Group
	Started       time.Time
	Outcome       string
	Task, Project string
	Brain         string // with its version
	Sandbox       string // the backend
	// Commit is that by which its work had landed; empty where it had not.
	Commit string
	Facts  map[string]string
	// Chains are those of its openings, at least one.
	Chains []string
}

// WriteSession signs what a session did by its records, and says where that is kept (M-16).
func WriteSession(inst *installation.Installation, s Session) (string, error) {
	counts, cost, err := Count(inst, s.Chains)
	if err != nil {
		return "", err
	}
	return WriteReceipt(inst, audit.Receipt{
		Session: s.ID, Group: s.Group, Started: s.Started, Finished: inst.Options.Now().Round(time.Nanosecond), TaskDigest: TaskDigest(s.Task),
		Outcome: s.Outcome, Project: s.Project, MergeCommit: s.Commit, Brain: s.Brain, Sandbox: s.Sandbox, PolicyDigest: inst.Policy.Version(),
		Counts: counts, Cost: cost, Facts: s.Facts,
	}, s.Chains[len(s.Chains)-1])
}
