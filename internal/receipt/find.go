package receipt

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/ledger"
)

// Work is one piece of a session's work: a run, a visit, a command or a task.
type Work struct {
	Session nacre.SessionID
	// Name is that of its first chain, and Kind what it is, such as run.
	Name, Kind string
	// Chains are those of its openings, in order.
	Chains []string
	// TaskDigest is that of what was asked.
	TaskDigest string
}

// ErrUnknown is a name that no session and no row of the ledger has.
var ErrUnknown = errors.New("no session and no row of the ledger has this name")

// Find gives the work that a name means: a session's, then its latest work, or a row's of
// the ledger, by its id or its name in full.
func Find(ctx context.Context, inst *installation.Installation, name string) (Work, error) {
	id, chain, err := locate(ctx, inst, name)
	if err != nil {
		return Work{}, err
	}
	works, err := worksOf(inst, nil, id)
	if err != nil {
		return Work{}, err
	}
	if len(works) == 0 {
		return Work{}, fmt.Errorf("session %s has no records: they were pruned, or its work has not begun", id)
	}
	at := len(works) - 1
	if chain != "" {
		if at = slices.IndexFunc(works, func(w *work) bool { return slices.Contains(w.chains, chain) }); at < 0 {
			return Work{}, fmt.Errorf("the records of %s were pruned", name)
		}
	}
	w := works[at]
	title := ""
	if s, err := inst.Registry.Show(id); err == nil && s.LatestWork() == w.name {
		title = s.Title
	}
	return Work{Session: id, Name: w.name, Kind: w.opened.Kind, Chains: w.chains, TaskDigest: TaskDigest(title)}, nil
}

// locate gives a name's session, and a chain of the work where it means no session's latest.
func locate(ctx context.Context, inst *installation.Installation, name string) (nacre.SessionID, string, error) {
	if c, is := parseChain(name); is {
		return c.session, c.text, nil
	}
	if id, err := nacre.ParseSessionID(name); err == nil {
		if _, err := inst.Registry.Show(id); err == nil {
			return id, "", nil
		}
	}
	l, err := installation.LedgerOf(ctx, inst)
	if err != nil {
		return "", "", err
	}
	row, err := l.Show(ctx, name)
	if err = errors.Join(err, l.Close()); errors.Is(err, ledger.ErrNotFound) || err == nil && (row.Session == "" || len(row.Changes) == 0) {
		return "", "", fmt.Errorf("%s: %w: nacre sessions list and nacre ledger list show those there are", name, ErrUnknown)
	} else if err != nil {
		return "", "", err
	}
	return nacre.SessionID(row.Session), row.Changes[0].Anchor.Chain, nil
}
