package task

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/repo"
)

// ErrNothingLeft is a session whose folder holds no files of an agent that could be taken.
var ErrNothingLeft = errors.New("no files of an agent are left to take")

// IsLeft tells whether a session's folder holds files of an agent that did not land.
func IsLeft(dir string) bool { return registry.HoldsWork(dir) }

// DiscardLeft removes what a session's work left in its folder. Nothing may run in the
// session any more.
func DiscardLeft(dir string) error {
	entries, err := os.ReadDir(dir)
	err = errors.Join(err, repo.RemoveClone(filepath.Join(dir, WorkDir)))
	for _, e := range entries {
		if name := e.Name(); strings.HasPrefix(name, VaultPrefix) || strings.HasPrefix(name, CheckPrefix) || name == JudgeDir || name == EvidenceDir {
			err = errors.Join(err, registry.Discard(filepath.Join(dir, name)))
		}
	}
	return err
}

// Leftover is the work of a session that did not land, as its agent's files hold it.
type Leftover struct {
	// Branch is what the agent worked from, and where its work would land; Base is the commit.
	Branch, Base string
	// Changes are what differs from Base, and what cannot land.
	Changes repo.Changes

	handover handover
	spec     Spec
	tree     repo.Tree
}

// LeftBy names the work that left something in a session's folder.
type LeftBy struct {
	Session nacre.SessionID
	// Work is its name, and Dir the session's folder.
	Work, Dir string
	Spec      Spec
	// Unmarked says that it was finished by a release that did not write beside a clone what
	// that was made of. Its base is then that of its snapshot, and its branch is not known.
	Unmarked bool
	Now      func() time.Time
	// Record writes to a chain before and after something of the project moves.
	Record func(ctx context.Context, rec nacre.Record, detail map[string]any) error
}

// OpenLeft reads what a session's work left. Nothing may run in the session, and the
// caller holds it. The errors it wraps: ErrNothingLeft, and those of [repo.Open] and of a
// snapshot.
func OpenLeft(ctx context.Context, by LeftBy) (*Leftover, error) {
	origin, err := by.origin(ctx)
	if err == nil && (origin == (repo.Origin{}) || !IsLeft(by.Dir)) {
		err = ErrNothingLeft
	}
	if err != nil {
		return nil, err
	}
	project, err := repo.Open(ctx, by.Spec.Project, repo.Options{StateDir: stateDir(by.Dir, by.Work), Base: origin.Commit, Now: by.Now})
	if err != nil {
		return nil, err
	}
	tree, changes, err := readBack(ctx, project, filepath.Join(by.Dir, WorkDir))
	if err != nil {
		return nil, err
	}
	if at := by.Spec.touchesOwn(changes.Listed()); at != "" {
		return nil, errors.New(at + isOwn)
	}
	return &Leftover{
		Branch: origin.Branch, Base: string(origin.Commit), Changes: changes, spec: by.Spec, tree: tree,
		handover: handover{
			project: project, branch: origin.Branch, session: by.Session, message: by.Spec.message(by.Session, by.Work),
			author: authorOf(by.Spec.Brain), record: by.Record,
		},
	}, nil
}

// origin is what the clone was made of; zero where no whole clone is.
func (by LeftBy) origin(ctx context.Context) (repo.Origin, error) {
	origin, err := repo.OriginOf(filepath.Join(by.Dir, WorkDir))
	if err != nil || origin != (repo.Origin{}) || !by.Unmarked || !IsLeft(by.Dir) {
		return origin, err
	}
	project, err := repo.Open(ctx, by.Spec.Project, repo.Options{StateDir: stateDir(by.Dir, by.Work), Now: by.Now})
	if err != nil {
		return repo.Origin{}, err
	}
	return repo.Origin{Commit: repo.SnapshotBase(ctx, project)}, nil
}

// Diff is the text of what changed, at most [repo.MaxDiff] bytes; cut tells whether
// there was more. It holds whatever the agent wrote.
func (l *Leftover) Diff(ctx context.Context) (text []byte, cut bool, err error) {
	from, err := l.handover.project.TreeOf(ctx, repo.Commit(l.Base))
	if err != nil {
		return nil, false, err
	}
	return l.handover.project.Diff(ctx, from, l.tree)
}

// Taken is where the files of a leftover went.
type Taken struct {
	Branch string `json:"branch"`
	// Commit is empty where the branch had all of it already.
	Commit string `json:"commit,omitempty"`
	// Stayed says why they are on a branch of their own and not where they should have
	// landed, and Next the command that takes them.
	Stayed string `json:"stayed,omitempty"`
	Next   string `json:"next,omitempty"`
}

// Land lands the files on the branch that they were made from, as a run does, except for
// those that are named, which stay as the base has them.
func (l *Leftover) Land(ctx context.Context, except []string) (Taken, error) {
	if l.Branch == "" {
		return Taken{}, fmt.Errorf("the release that made this work did not keep which branch it was made from: nacre sessions branch %s puts it on a branch of its own", l.handover.session)
	}
	tree, err := l.without(ctx, except)
	if err != nil {
		return Taken{}, err
	}
	for range maxMerges {
		merged, err := l.handover.merge(ctx, tree)
		if err == nil && merged.Conflict != "" {
			err = fmt.Errorf("%s: nacre sessions branch %s keeps the work on a branch, which git merges", merged.Conflict, l.handover.session)
		}
		if err != nil {
			return Taken{}, err
		}
		target, err := l.handover.project.TreeOf(ctx, repo.Commit(merged.Target))
		if err != nil || string(target) == merged.Tree {
			return Taken{Branch: l.Branch}, err
		}
		landed, _, err := l.handover.land(ctx, merged)
		if err != nil || !landed.Moved {
			return Taken{Branch: l.Branch, Commit: merged.Commit, Stayed: landed.Reason, Next: landed.Next}, err
		}
	}
	return Taken{}, fmt.Errorf("%s moves faster than work can be put on it: try again when it rests", l.Branch)
}

// Keep puts the files on a branch of the session's own, as a commit on top of the base.
func (l *Leftover) Keep(ctx context.Context) (Taken, error) {
	branch, commit, err := l.handover.keep(ctx, l.tree)
	return Taken{Branch: branch, Commit: string(commit)}, err
}

// without is the tree in which the named paths are as the base has them.
func (l *Leftover) without(ctx context.Context, paths []string) (repo.Tree, error) {
	if len(paths) == 0 {
		return l.tree, nil
	}
	return repo.Without(ctx, l.handover.project, l.tree, paths)
}
