package seal

import (
	"slices"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/access"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/installation"
)

// opening is what a session is opened with beside its request.
type opening struct {
	// opened is what hosts are asked nothing else than.
	opened []egress.Credential
	// uses are what credentials may be used for by what was learned.
	uses []egress.Use
	// powers are the rules that hold while the session has listened to no outsider.
	powers []nacre.EgressRule
	// later says that what its calls reach is opened with the first of them.
	later bool
}

// reach is what a session may reach, and what it may without the powers that were unlocked.
type reach struct {
	config.Egress
	plain config.Egress
}

// reachOf is what a session that begins at a moment may reach. Powers are for runs, whose
// work is verified: no other session has them (M-51).
func reachOf(inst *installation.Installation, req Request, started time.Time) (r reach, err error) {
	r.Egress, r.plain, err = access.ReachAt(inst, started)
	if req.Kind != runKind {
		r.Egress = r.plain
	}
	return r, err
}

// runKind is what the request of a run says that it is.
const runKind = "run"

// powers are those of the rules that are there for a power alone.
func (r reach) powers(rules []nacre.EgressRule, more []string) ([]nacre.EgressRule, error) {
	plain, err := r.plain.Rules(more)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(rules), func(rule nacre.EgressRule) bool { return slices.Contains(plain, rule) }), nil
}

// withheld tells of a rule that it is a power's, and that the session has listened to an
// outsider; nil where the session has no power.
func withheld(s *Session, powers []nacre.EgressRule) func(nacre.EgressRule) bool {
	if len(powers) == 0 {
		return nil
	}
	return func(rule nacre.EgressRule) bool {
		return slices.Contains(powers, rule) && s.Kernel.Tainted(nacre.KeyOf(s.Group(), s.ID()))
	}
}
