package seal

import (
	"context"
	"slices"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/access"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/leasing"
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

// unlocked are the powers of a session, for the credentials that are locked without: those that were
// unlocked, where it is a run's, and those that a person gives it. A sub-agent has none.
func (r reach) unlocked(req Request) []string {
	if req.Kin.Handed != nil {
		return nil
	}
	return slices.Concat(r.Unlocked(), req.Powers)
}

// leaseAll opens the session's credentials. One that is there for a power alone that was unlocked
// is withheld from a session that has listened to an outsider.
func (s *Session) leaseAll(ctx context.Context, req Request, o opening) (err error) {
	s.leases, err = leasing.Open(ctx, s.Inst, s.Session, leasing.Asked{
		Rules: s.Rules, Opened: o.opened, Uses: o.uses, Patience: s.Inst.Config.Hold(req.Asking.Watched), Powers: s.Powers,
		Withheld: func(power string) bool {
			return !slices.Contains(req.Powers, power) && (s.Kernel == nil || s.Kernel.Tainted(nacre.KeyOf(s.Group(), s.ID())))
		},
	})
	return err
}

// Locked are the credentials that the session does not have, each with its power, which is locked.
func (s *Session) Locked() []string { return leasing.Locked(s.Inst, s.Group(), s.Powers) }

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
