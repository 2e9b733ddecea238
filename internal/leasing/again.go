package leasing

import (
	"encoding/json"
	"slices"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/lease"
)

const (
	recordGranted   = "granted"
	recordAcquired  = "acquired"
	recordMinted    = "minted"
	recordExhausted = "exhausted"
	recordRefused   = "refused"
)

// grantedBefore are the budgets, by their credentials, that a person granted in openings of the
// session that were interrupted, less what was minted of them (M-55). No credential is
// kept: what was minted is taken back, and what is minted next counts as a renewal.
func grantedBefore(inst *installation.Installation, chains []string) (map[string]lease.Budget, error) {
	budgets := map[string]lease.Budget{}
	err := installation.EachRecord(inst, chains, func(e nacre.Record) error {
		if e.Kind != lease.Kind || !slices.Contains([]string{recordGranted, recordAcquired, recordMinted, recordExhausted}, e.Outcome) {
			return nil
		}
		var d struct {
			Credential string
			lease.Budget
		}
		if err := json.Unmarshal(e.Detail, &d); err != nil {
			return err
		}
		left, granted := budgets[d.Credential]
		switch {
		case e.Outcome == recordGranted:
			budgets[d.Credential] = d.Budget
		case granted && e.Outcome != recordExhausted && left.Renewals > 0:
			left.Renewals--
			budgets[d.Credential] = left
		default:
			delete(budgets, d.Credential)
		}
		return nil
	})
	now := inst.Options.Now()
	for name, budget := range budgets {
		if !now.Before(budget.Until) {
			delete(budgets, name)
		}
	}
	return budgets, err
}
