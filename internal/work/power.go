package work

import (
	"context"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/graduation"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/seal"
	"github.com/nacre-dev/nacre/internal/task"
)

// usesOf are the powers that a run used, and takes them back at once where it failed (M-51).
func usesOf(ctx context.Context, s *seal.Session, spec task.Spec, failed bool) (ledger.Uses, error) {
	uses, err := graduation.Used(s.Inst, s.Chains(), spec.Words(), s.Kernel == nil || s.Kernel.Tainted(nacre.KeyOf(s.Group(), s.ID())))
	uses.Failed = failed
	if err != nil || !failed {
		return uses, err
	}
	demoted, err := graduation.Demote(ctx, s.Inst, uses.Powers)
	if len(demoted) > 0 {
		s.Tell(nacre.Step{Kind: nacre.StepStage, Name: "power", Text: strings.Join(demoted, ", ") + " is locked again, since a run that used it failed"})
	}
	return uses, err
}

// demoteUsed takes back the powers that a run used whose work a person refuses.
func demoteUsed(ctx context.Context, inst *installation.Installation, l *ledger.Ledger, dna string) error {
	powers, err := ledger.UsedBy(ctx, l, dna)
	if err == nil {
		_, err = graduation.Demote(ctx, inst, powers)
	}
	return err
}

// tellLocked tells which credentials the run does not have, since their powers are locked.
func tellLocked(s *seal.Session) {
	if locked := s.Locked(); len(locked) > 0 {
		s.Tell(nacre.Step{Kind: nacre.StepStage, Name: "power", Text: "locked credentials: " + strings.Join(locked, ", ") + " (nacre power list)"})
	}
}

// tellProposals tells of the powers that a run used and that a person may unlock by now. What cannot be
// told is found again by nacre power list.
func tellProposals(ctx context.Context, s *seal.Session, uses ledger.Uses) {
	if len(uses.Powers) == 0 {
		return
	}
	all, err := graduation.Standings(ctx, s.Inst)
	if err != nil {
		return
	}
	for _, p := range all {
		if p.State == graduation.Proposed && slices.Contains(uses.Powers, p.Name) {
			s.Tell(nacre.Step{Kind: nacre.StepStage, Name: "power", Text: p.Name + " may be unlocked for runs: nacre power show " + p.Name})
		}
	}
}
