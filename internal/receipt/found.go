package receipt

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/task"
)

// landed is the outcome of work that is on its project's branch.
const landed = "landed"

// account is what the chains of a piece of work say of it.
type account struct {
	// outcome is what the work came to, and reason why; closed is how its session was
	// closed, empty where nothing closed it.
	outcome, reason, closed string
	// tree is what was verified last; strong says that every check of it was.
	tree            string
	checked, strong bool
	failed          bool

	cost audit.ReceiptCost
	last ledger.Anchor
	at   time.Time
}

// read goes through the chains of the work. What had landed has landed, whatever ended its session
// before it said so.
func (w *work) read(ctx context.Context, inst *installation.Installation) (a account, err error) {
	for _, chain := range w.chains {
		a.outcome, a.reason, a.closed = "", "", "" // an earlier opening's end was none
		err := audit.Read(inst.AuditRoot(), chain, func(e audit.Entry) error {
			a.last, a.at = anchorOf(chain, e), e.Time
			return a.add(e)
		})
		if err != nil {
			return a, err
		}
	}
	if _, a.cost, err = Count(inst, w.chains); err != nil || a.outcome != "" {
		return a, err
	}
	commit, err := task.HasLanded(ctx, task.LandedIn{
		Dir: inst.Registry.Paths().Session(w.session), Work: w.name, Project: w.project, Now: inst.Options.Now,
	}, func(take func(nacre.Record) error) error { return installation.EachRecord(inst, w.chains, take) })
	if commit != "" {
		a.outcome, a.reason = landed, "its work had landed before its session ended"
	}
	return a, err
}

// add takes one record into account.
func (a *account) add(e audit.Entry) error {
	switch e.Kind {
	case nacre.KindOutcome:
		a.outcome, a.reason = e.Outcome, e.Reason
	case nacre.KindSessionClose:
		a.closed = e.Outcome
	case nacre.KindVerify:
		var d struct{ Tree, Strength string }
		if err := json.Unmarshal(e.Detail, &d); err != nil {
			return fmt.Errorf("record %d, %s: %w", e.Seq, e.Kind, err)
		}
		if !a.checked || d.Tree != a.tree { // what held of another tree holds of none
			a.checked, a.strong, a.failed, a.tree = true, true, false, d.Tree
		}
		a.strong = a.strong && d.Strength == "strong"
		a.failed = a.failed || e.Outcome != "passed"
	default: // the other kinds say nothing of what it came to
	}
	return nil
}

// held tells whether the work ended well.
func (a account) held() bool {
	switch a.outcome {
	case landed, "delivered", "done", "nothing to do":
		return true
	case "not landed":
		return a.checked && !a.failed
	}
	return a.outcome == "" && (a.closed == "exit 0" || a.closed == "done")
}

// why is the reason of an end that is none, or how the work ended.
func (a account) why() string {
	switch {
	case a.reason != "":
		return a.reason
	case a.closed == "":
		return killedWhy
	case a.outcome != "":
		return a.outcome
	}
	return a.closed
}

// verdict is what the host's own checks said of the work (M-50).
func (a account) verdict() ledger.Outcome {
	switch {
	case !a.checked:
		return ledger.Outcome{}
	case a.strong:
		return ledger.StrongCheck(!a.failed)
	}
	return ledger.WeakCheck(!a.failed)
}
