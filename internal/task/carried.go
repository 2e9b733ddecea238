package task

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/repo"
)

const (
	// PackFile is, in the folder of a session that carries a run on, the snapshot which that had.
	PackFile = "carried.pack"
	// MaxPack is the largest snapshot that is kept for other machines, in bytes as git packs it.
	MaxPack = 32 << 20
)

// Reached is how far a run came. Its zero value is one whose agent has not begun.
type Reached struct {
	// Base is the commit that it works from, and Branch where it lands.
	Base   string `json:"base,omitempty"`
	Branch string `json:"branch,omitempty"`
	// Talk is how its agent's last turn ended, and Work what came back of it.
	Talk *conversation `json:"talk,omitempty"`
	Work *worktree     `json:"work,omitempty"`
	// Times is how often another machine has carried it on.
	Times int `json:"times,omitempty"`
}

// Carried is how far a run had come on a machine that is lost.
type Carried struct {
	Reached
	// From is its session there, as other machines name it.
	From string `json:"from"`
	// Landing is the commit that was landing there last; empty where none was.
	Landing string `json:"landing,omitempty"`
}

// KeepPack keeps in a session's folder the snapshot of a run that it carries on; nil is of no such run.
func KeepPack(dir string, pack []byte) error {
	if pack == nil {
		return nil
	}
	return os.WriteFile(filepath.Join(dir, PackFile), pack, 0o600)
}

// Landings follow what the records of a piece of work say of its landing.
type Landings struct{ last merging }

// Add takes the next record.
func (l *Landings) Add(rec nacre.Record) error { return l.last.add(rec) }

// Commit is what was landing last; empty where nothing was.
func (l *Landings) Commit() string { return l.last.commit }

// Carriable says why a run that reached so far cannot go on in the project as this machine has it. state is a
// folder that it may write to and empty.
func Carriable(ctx context.Context, project string, at Reached, state string, now func() time.Time) error {
	if at.Base == "" {
		return Inspect(ctx, project, state, now)
	}
	p, err := repo.Open(ctx, project, repo.Options{StateDir: state, Base: repo.Commit(at.Base), Now: now})
	if err == nil {
		_, err = p.Head(ctx, at.Branch)
	}
	return err
}

// keepAside tells other machines how far the run came.
func (r *run) keepAside(ctx context.Context, at Reached, pack []byte) error {
	if r.Kept.Aside == nil {
		return nil
	}
	return r.Kept.Aside(ctx, at, pack)
}

// keepSnapshot gives other machines the agent's files. Where they are too large, a machine that carries the run
// on has what was kept before.
func (r *run) keepSnapshot(ctx context.Context, project *repo.Project, at Reached) error {
	if r.Kept.Aside == nil {
		return nil
	}
	pack, err := repo.Pack(ctx, project)
	if err != nil || len(pack) > MaxPack {
		r.Progress(nacre.Step{Kind: nacre.StepStage, Name: "snapshot", Text: fmt.Sprintf("it takes more than %d MiB: where this machine is lost, the agent begins again on another one", MaxPack>>20)})
		return ctx.Err()
	}
	return r.keepAside(ctx, at, pack)
}

// carried is what the run's lost machine had of the agent's first try; nil where that has to work here.
func (r *run) carried(try int) *Carried {
	if c := r.spec.Carried; try == 1 && c != nil && c.Talk != nil && c.Work != nil {
		return c
	}
	return nil
}

// cloneCarried makes the agent's clone as its snapshot is: of the commit that the run began from.
func (r *run) cloneCarried(ctx context.Context, c *Carried) (baseline, error) {
	base := baseline{c.Base, c.Branch}
	project, err := r.project(ctx, c.Base)
	if err != nil {
		return baseline{}, err
	}
	project.Branch = c.Branch // whatever is checked out here
	if err := r.fresh(ctx, project); err != nil || c.Work == nil || len(c.Work.Changes) == 0 {
		return base, err
	}
	pack, err := os.Open(filepath.Join(r.Session.Dir(), PackFile))
	if err != nil {
		return baseline{}, err
	}
	if err := errors.Join(repo.Take(ctx, project, pack, MaxPack), pack.Close()); err != nil {
		return baseline{}, fmt.Errorf("the snapshot of %s: %w", c.From, err)
	}
	return base, r.restore(ctx, project, repo.Tree(c.Work.Tree))
}

// restore puts a tree's files in the place of those of the clone.
func (r *run) restore(ctx context.Context, project *repo.Project, tree repo.Tree) error {
	files := r.workDir() + ".restored"
	if err := registry.Discard(files); err != nil {
		return err
	}
	if err := project.Checkout(ctx, tree, files); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(r.workDir(), ".git"), filepath.Join(files, ".git")); err != nil {
		return err
	}
	return errors.Join(registry.Discard(r.workDir()), os.Rename(files, r.workDir()))
}

// landedBefore tells of work that its lost machine had landed, in a project that both of them have.
func (m *merger) landedBefore() (bool, error) {
	c := m.spec.Carried
	if c == nil || c.Landing == "" {
		return false, nil
	}
	landed, err := step(m.opening, "landed-before", func(ctx context.Context) (bool, error) {
		project, err := m.project(ctx, m.base.Commit)
		if err != nil {
			return false, err
		}
		head, err := project.Head(ctx, m.base.Branch)
		return err == nil && project.Contains(ctx, head, repo.Commit(c.Landing)), err
	})
	if landed {
		m.result.Landed, m.result.Commit = true, c.Landing
	}
	return landed, err
}
