package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/engine"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/verify"
)

// baseline is what a run works from; it is recorded once and never moves.
type baseline struct {
	Commit string `json:"commit"`
	Branch string `json:"branch"`
}

// worktree is what came back.
type worktree struct {
	Tree    string         `json:"tree"`
	Changes []nacre.Change `json:"changes"`
	Left    []string       `json:"left"`
	// Skipped are the paths of Left.
	Skipped []string `json:"skipped,omitempty"`
	// Refused says why what came back cannot be taken at all.
	Refused string `json:"refused,omitempty"`
}

// mergedTree is the change on top of the target as it was then.
type mergedTree struct {
	Target   string `json:"target"`
	Commit   string `json:"commit"`
	Tree     string `json:"tree"`
	Conflict string `json:"conflict,omitempty"`
}

// landing is what became of the verified commit.
type landing struct {
	Landed bool `json:"landed"`
	Moved  bool `json:"moved"`
	// Waits says that a person has to look at the work first.
	Waits  bool   `json:"waits,omitempty"`
	Reason string `json:"reason,omitempty"`
	Next   string `json:"next,omitempty"`
}

// What a run keeps in its session's folder.
const (
	// WorkDir holds the agent's private clone.
	WorkDir = registry.WorkDir
	// VaultPrefix begins the names of the host's own git folders.
	VaultPrefix = "repo-"
	// JudgeDir holds what verifiers judge, and CheckPrefix begins the names of what
	// the operator's checks run on.
	JudgeDir    = "judge"
	CheckPrefix = "verify-"
)

func (r *run) workDir() string { return filepath.Join(r.Session.Dir(), WorkDir) }

// project opens the repository with the host's own git folder for this work.
func (r *run) project(ctx context.Context, base string) (*repo.Project, error) {
	o := repo.Options{StateDir: stateDir(r.Session.Dir(), r.Session.Work()), Base: repo.Commit(base), Now: r.Now}
	if r.spec.Audited != nil {
		o.Reading = r.spec.Audited.State
	}
	return repo.Open(ctx, r.spec.Project, o)
}

var errDetached = errors.New("HEAD is detached: check a branch out, so that there is one to land on")

// Inspect says whether a run could work on this project, before anything is
// begun. state is a folder that it may write to and empty.
func Inspect(ctx context.Context, project, state string, now func() time.Time) error {
	p, err := repo.Open(ctx, project, repo.Options{StateDir: state, Now: now})
	if err == nil && p.Branch == "" {
		err = errDetached
	}
	return err
}

// clone makes the agent's private copy. What an interrupted clone left is made anew.
func (r *run) clone(ctx context.Context) (baseline, error) {
	if r.spec.Audited != nil {
		return r.cloneAudited(ctx)
	}
	if c := r.spec.Carried; c != nil && c.Base != "" {
		return r.cloneCarried(ctx, c)
	}
	project, err := r.project(ctx, "")
	if err != nil {
		return baseline{}, err
	}
	if project.Branch == "" {
		return baseline{}, errDetached
	}
	if r.spec.Dirty {
		if err := repo.WithEdits(ctx, project); err != nil {
			return baseline{}, err
		}
	}
	if err := r.fresh(ctx, project); err != nil {
		return baseline{}, err
	}
	base := baseline{string(project.Base), project.Branch}
	return base, r.keepAside(ctx, Reached{Base: base.Commit, Branch: base.Branch}, nil)
}

// fresh makes the agent's clone anew, which no agent has touched then.
func (r *run) fresh(ctx context.Context, project *repo.Project) error {
	err := repo.RemoveClone(r.workDir())
	if err == nil {
		err = r.ground.clone(ctx, project, r.workDir())
	}
	if err == nil && r.spec.Audited == nil {
		err = repo.KeepOrigin(project, r.workDir())
	}
	r.untouched = err == nil
	return err
}

// snapshot reads the agent's files back into the host's own git folder.
func (r *run) snapshot(ctx context.Context, base baseline, talk conversation) (worktree, error) {
	project, err := r.project(ctx, base.Commit)
	if err != nil {
		return worktree{}, err
	}
	tree, changes, err := readBack(ctx, project, r.workDir())
	if errors.Is(err, repo.ErrTooBig) || errors.Is(err, repo.ErrUnsafe) {
		return worktree{Refused: err.Error()}, nil
	}
	if err != nil {
		return worktree{}, err
	}
	work := worktree{Tree: string(tree), Changes: changes.Listed()}
	if at := r.spec.touchesOwn(work.Changes); at != "" {
		return worktree{Refused: at + isOwn}, nil
	}
	for _, skipped := range changes.Skipped {
		work.Left = append(work.Left, skipped.Path+": "+skipped.Reason)
		work.Skipped = append(work.Skipped, skipped.Path)
	}
	listing, err := json.Marshal(work)
	if len(listing) > maxListing {
		return worktree{Refused: fmt.Sprintf("%d changed files and %d that are left out: their names are too much to be kept", len(work.Changes), len(work.Left))}, nil
	}
	if err == nil {
		err = r.keepSnapshot(ctx, project, Reached{Base: base.Commit, Branch: base.Branch, Talk: &talk, Work: &work})
	}
	return work, err
}

// readBack is the tree of an agent's files in dir, on top of the project's base.
func readBack(ctx context.Context, project *repo.Project, dir string) (repo.Tree, repo.Changes, error) {
	clone, err := project.ExistingClone(dir)
	if err != nil {
		return "", repo.Changes{}, err
	}
	return clone.Snapshot(ctx)
}

// isOwn follows the path of a file that no work can change.
const isOwn = " is nacre's own configuration or program, which no agent may change"

// touchesOwn gives the first change of a path that is nacre's own, of what is below
// it, or of a folder around it; "" for none.
func (s Spec) touchesOwn(changes []nacre.Change) string {
	isIn := func(dir, name string) bool { return dir == name || strings.HasPrefix(name, dir+"/") }
	for _, c := range changes {
		if slices.ContainsFunc(s.Own, func(own string) bool { return isIn(own, c.Path) || isIn(c.Path, own) }) {
			return c.Path
		}
	}
	return ""
}

// maxListing is how much the names of what came back may take, in bytes as JSON. A step that cannot
// be kept would fail for good, so what else a run's result holds must fit beside it.
const maxListing = engine.MaxPayload * 3 / 4

// verify is pass 1: the agent's tree on the commit that it began from, or on top of what its
// sub-agents have landed.
func (r *run) verify(ctx context.Context, base baseline, delegated bool, result nacre.RunResult) (verification, error) {
	if delegated {
		merged, err := r.mergeOnto(ctx, base, result)
		if err != nil || merged.Conflict != "" {
			return verification{Conflict: merged.Conflict}, err
		}
		return r.verifyMerged(ctx, base, merged, result)
	}
	project, err := r.project(ctx, base.Commit)
	if err != nil {
		return verification{}, err
	}
	e := examination{run: r, project: project, on: repo.Commit(base.Commit), tree: result.Tree, subject: verify.Subject{Report: []byte(result.Report), Left: r.skipped}}
	return e.examine(ctx)
}

// verifyMerged is pass 2: the same of the tree that would land, on its target.
func (r *run) verifyMerged(ctx context.Context, base baseline, merged mergedTree, result nacre.RunResult) (verification, error) {
	project, err := r.project(ctx, base.Commit)
	if err != nil {
		return verification{}, err
	}
	e := examination{run: r, project: project, on: repo.Commit(merged.Target), tree: merged.Tree, subject: verify.Subject{Report: []byte(result.Report), Left: r.skipped, Merged: true}}
	return e.examine(ctx)
}

// mergeOnto puts the change on top of the branch as it is now.
func (r *run) mergeOnto(ctx context.Context, base baseline, result nacre.RunResult) (mergedTree, error) {
	project, err := r.project(ctx, base.Commit)
	if err != nil {
		return mergedTree{}, err
	}
	tree, err := r.spec.Held.landable(ctx, project, result)
	if err != nil {
		return mergedTree{}, err
	}
	return r.handover(project, base.Branch).merge(ctx, tree)
}

func (r *run) handover(project *repo.Project, branch string) handover {
	return handover{
		project: project, branch: branch, session: r.Session.ID(), message: r.spec.message(r.Session.ID(), r.Session.Work()),
		author: authorOf(r.Brain.Name()), record: r.record,
	}
}
