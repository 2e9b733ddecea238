package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/installation"
)

// CheckKilled looks for sessions whose process was killed: their landings, rows and
// chains are left open until somebody completes them (F-105).
func CheckKilled(inst *installation.Installation) installation.Finding {
	killed, err := Interrupted(inst)
	if err != nil {
		return installation.Finding{Name: "sessions", Status: "fail", Text: err.Error()}
	}
	if len(killed) == 0 {
		return installation.Finding{Name: "sessions", Status: "ok", Text: "none was killed and left open"}
	}
	return installation.Finding{
		Name: "sessions", Status: "warn", Text: "killed, and what was left is open: " + listed(killed),
		Fix:   "the next nacre run or exec completes it, and so does nacre doctor --fix",
		Offer: "complete the landings, rows and records that sessions left which were killed",
		Repair: func(ctx context.Context, tell func(string)) error {
			return completeAll(ctx, inst, killed, TellKilled(tell))
		},
	}
}

func completeAll(ctx context.Context, inst *installation.Installation, ids []nacre.SessionID, killed func(Killed)) error {
	errs := []error{SettleOperators(ctx, inst)}
	for _, id := range ids {
		if err := Settle(ctx, inst, id, killed); err != nil {
			errs = append(errs, fmt.Errorf("session %s: %w; nacre sessions give-up %s ends its work", id, err, id))
		}
	}
	return errors.Join(errs...)
}

// maxListed is how many sessions a line names.
const maxListed = 5

func listed(ids []nacre.SessionID) string {
	names := make([]string, 0, maxListed)
	for _, id := range ids[:min(len(ids), maxListed)] {
		names = append(names, string(id))
	}
	if more := len(ids) - maxListed; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
