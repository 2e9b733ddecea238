package task

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/repo"
)

// LandedIn names the work that is asked about in [HasLanded].
type LandedIn struct {
	// Dir is the session's folder, Work the name of its work, and Project what it worked on.
	Dir, Work, Project string
	Now                func() time.Time
}

// HasLanded gives the commit by which a work has landed; empty where it has not, or where that
// cannot be told. The last record of a landing says it. Where that was the intent, nacre was ended
// between the two, and git says whether the branch holds the commit. each gives the work's records in
// their order.
func HasLanded(ctx context.Context, in LandedIn, each func(take func(nacre.Record) error) error) (commit string, err error) {
	var last merging
	if err := each(last.add); err != nil || last.commit == "" || last.done {
		return last.commit, err
	}
	begun, err := HasBegun(in.Dir, in.Work)
	if err != nil || !begun {
		return "", err
	}
	project, err := repo.Open(ctx, in.Project, repo.Options{StateDir: stateDir(in.Dir, in.Work), Base: repo.Commit(last.commit), Now: in.Now})
	if err != nil {
		return "", ctx.Err() // without the project nothing is known of it
	}
	head, err := project.Head(ctx, last.branch)
	if err != nil || !project.Contains(ctx, head, repo.Commit(last.commit)) {
		return "", ctx.Err()
	}
	return last.commit, nil
}

// merging is the latest landing that records tell of.
type merging struct {
	branch, commit string
	done           bool
}

// add takes the next record.
func (m *merging) add(rec nacre.Record) error {
	if rec.Kind != nacre.KindMergeIntent && rec.Kind != nacre.KindMergeDone {
		return nil
	}
	var d struct{ Branch, Ref, To string }
	if err := json.Unmarshal(rec.Detail, &d); err != nil {
		return err
	}
	done := rec.Kind == nacre.KindMergeDone
	if done && rec.Outcome != "landed" || !done && d.Ref != "refs/heads/"+d.Branch {
		d.To = "" // it did not move, or another branch did
	}
	*m = merging{branch: d.Branch, commit: d.To, done: done && d.To != ""}
	return nil
}
