package sessioncmd

import (
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
)

// branch is one of a list of sessions, under the one whose agent asked for it.
type branch[T any] struct {
	session T
	depth   int
}

// asTree puts sub-agents under the sessions whose agents asked for them, the latest last (M-69).
// Others keep their order, and so do those whose parent is not in the list.
func asTree[T any](list []T, of func(T) nacre.SessionStatus) []branch[T] {
	listed, below := map[nacre.SessionID]bool{}, map[nacre.SessionID][]T{}
	for _, s := range list {
		listed[of(s).ID] = true
	}
	var tops []T
	for _, s := range slices.Backward(list) { // the list has the newest first
		if parent := of(s).Parent; listed[parent] {
			below[parent] = append(below[parent], s)
		} else {
			tops = append(tops, s)
		}
	}
	slices.Reverse(tops)
	tree := make([]branch[T], 0, len(list))
	var grow func(all []T, depth int)
	grow = func(all []T, depth int) {
		for _, s := range all {
			tree = append(tree, branch[T]{s, depth})
			grow(below[of(s).ID], depth+1)
		}
	}
	grow(tops, 0)
	return tree
}

// name is the session's, as far to the right as it is deep.
func (b branch[T]) name(id nacre.SessionID) string {
	if b.depth == 0 {
		return string(id)
	}
	return strings.Repeat("  ", b.depth-1) + "└ " + string(id)
}
