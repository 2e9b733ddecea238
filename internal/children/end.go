package children

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/basis"
	"github.com/nacre-dev/nacre/internal/brain"
)

// Facts link the receipts of a parent and its children, whose outcomes are known by their
// sessions; nil where there is nothing to link.
func Facts(parent nacre.SessionID, outcomes map[string]string) map[string]string {
	var all []string
	for _, id := range slices.Sorted(maps.Keys(outcomes)) {
		all = append(all, id+" "+outcomes[id])
	}
	facts := map[string]string{basis.FactParent: string(parent), "children": strings.Join(all, ", ")}
	maps.DeleteFunc(facts, func(_, fact string) bool { return fact == "" })
	if len(facts) == 0 {
		return nil
	}
	return facts
}

// Brain is a brain whose turn has ended when its children have.
func Brain(b brain.Brain, f *Family) brain.Brain { return delegating{b, f} }

type delegating struct {
	brain.Brain
	family *Family
}

// Converse implements brain.Brain.
func (b delegating) Converse(ctx context.Context, p brain.Process, t brain.Turn, emit func(brain.Event)) error {
	err := b.Brain.Converse(ctx, p, t, emit)
	b.family.Await(ctx, err == nil)
	return err
}
