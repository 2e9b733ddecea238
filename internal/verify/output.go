package verify

import (
	"context"

	"github.com/nacre-dev/nacre/internal/atom"
)

func reportFormat(context.Context, Subject, atom.Atom, Runner) (Verdict, error) {
	return Verdict{}, nil
}

func severityGrade(context.Context, Subject, atom.Atom, Runner) (Verdict, error) {
	return Verdict{}, nil
}

func ledgerRow(_ context.Context, s Subject, _ atom.Atom, _ Runner) (Verdict, error) {
	if !s.Ledger {
		return failed("the run has no row in the ledger", ""), nil
	}
	return passed(), nil
}
