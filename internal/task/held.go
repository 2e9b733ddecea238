package task

import (
	"context"
	"fmt"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/repo"
)

// Held is what becomes of changes that programs of the host obey (M-67). Its zero value
// lets all of the work wait for a person.
type Held string

// What a person can say of them.
const (
	HeldWait     Held = ""
	HeldTake     Held = "take"
	HeldLeaveOut Held = "leave-out"
)

// ParseHeld reads what a person says; "" and "wait" are the zero value.
func ParseHeld(text string) (Held, error) {
	switch h := Held(text); h {
	case "wait":
		return HeldWait, nil
	case HeldWait, HeldTake, HeldLeaveOut:
		return h, nil
	}
	return HeldWait, fmt.Errorf("%.20q: write wait, %s or %s", text, HeldLeaveOut, HeldTake)
}

// obeyed are the changes that programs of the host obey.
func obeyed(changes []nacre.Change) (held []nacre.Change) {
	for _, c := range changes {
		if c.Held {
			held = append(held, c)
		}
	}
	return held
}

// waits says why verified work does not land before a person has looked at it.
func (h Held) waits(id nacre.SessionID, changes []nacre.Change) landing {
	held := obeyed(changes)
	if len(held) == 0 || h == HeldTake || h == HeldLeaveOut && len(held) < len(changes) {
		return landing{}
	}
	reason := fmt.Sprintf("it waits for a person to look at %.200q: %s", held[0].Path, held[0].Warning)
	if more := len(held) - 1; more > 0 {
		reason += fmt.Sprintf("; so it is with %d more", more)
	}
	return landing{Waits: true, Reason: reason, Next: fmt.Sprintf("nacre sessions diff %s, and then nacre sessions apply %s --held take, or --held leave-out", id, id)}
}

// landable is the tree that may land: without what is left out, it is another one than
// was verified, so that it is verified anew.
func (h Held) landable(ctx context.Context, project *repo.Project, result nacre.RunResult) (repo.Tree, error) {
	held := obeyed(result.Changes)
	if h != HeldLeaveOut || len(held) == 0 || len(held) == len(result.Changes) {
		return repo.Tree(result.Tree), nil
	}
	paths := make([]string, len(held))
	for i, c := range held {
		paths[i] = c.Path
	}
	return repo.Without(ctx, project, repo.Tree(result.Tree), paths)
}

// leftOut adds what did not land with the rest, with the reason.
func (h Held) leftOut(result *nacre.RunResult) {
	if h != HeldLeaveOut {
		return
	}
	for _, c := range obeyed(result.Changes) {
		result.Left = append(result.Left, c.Path+": a person has to look at it first: "+c.Warning)
	}
}
