package verify

import (
	"context"

	"github.com/nacre-dev/nacre/internal/atom"
)

func constructorPattern(context.Context, Subject, atom.Atom, Runner) (Verdict, error) {
	return Verdict{}, nil
}
