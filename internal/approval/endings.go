package approval

import "slices"

// endings say what became of the latest questions that do not wait any more, the oldest first.
type endings []ending

type ending struct{ id, what string }

func (e *endings) add(id, what string) {
	if len(*e) == maxFinished {
		*e = slices.Delete(*e, 0, 1)
	}
	*e = append(*e, ending{id, what})
}

// of is what became of a question; empty where that is not known.
func (e endings) of(id string) string {
	for _, one := range slices.Backward(e) {
		if one.id == id {
			return one.what
		}
	}
	return ""
}
