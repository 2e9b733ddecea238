package task

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/verify"
)

// dependencies are what checks find installed: what the lock files of the commit
// name that the tree builds on, or the tree's own where the task lets them change.
// They are fetched before a check runs, which reaches nothing (S-13).
func (r *run) dependencies(ctx context.Context, project *repo.Project, on repo.Commit, tree string) (d verify.Dependencies, err error) {
	if len(r.spec.Checks) == 0 || r.Fetch == nil {
		return d, nil
	}
	base, err := project.TreeOf(ctx, on)
	if err != nil {
		return d, err
	}
	dir := filepath.Join(r.Session.Dir(), CheckPrefix+"needs")
	if err := errors.Join(registry.Discard(dir), os.Mkdir(dir, 0o700)); err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, registry.Discard(dir)) }()
	s := verify.Subject{Base: filepath.Join(dir, "base"), Tree: filepath.Join(dir, "tree"), Fetch: r.Fetch, Task: r.parameters()}
	if err := project.Checkout(ctx, repo.Tree(tree), s.Tree); err != nil {
		return d, err
	}
	if !locked(s.Tree) {
		return d, nil
	}
	if err := project.Checkout(ctx, base, s.Base); err != nil {
		return d, err
	}
	return s.Dependencies(ctx)
}

// locked says that there is a lock file in a folder: other trees need not be taken
// out of git. Where the work removed it, its checks go without.
func locked(dir string) bool {
	found := false
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && verify.IsLock(d.Name()) {
			found = true
			return fs.SkipAll
		}
		return err
	})
	return found || err != nil
}

// parameters are those of the run's order, if it has one.
func (r *run) parameters() atom.Parameters {
	if r.spec.Order == nil {
		return atom.Parameters{}
	}
	return r.spec.Order.Parameters
}

// check runs one check beside what it needs. A check that needs what cannot be had
// has failed, and one that failed says what was not there.
func (r *run) check(ctx context.Context, needs verify.Dependencies, dir, command string) (nacre.CheckResult, error) {
	if needs.Broken != "" {
		return nacre.CheckResult{
			Command: command, ExitCode: 1, Strength: verify.Weak, Tail: "the dependencies could not be fetched: " + r.clean(needs.Broken, maxDetail),
		}, nil
	}
	shown, err := verify.Prepare(dir, needs.Modules)
	if err != nil {
		return nacre.CheckResult{}, err
	}
	result, err := r.Check(ctx, dir, command, shown)
	if err == nil && !result.Passed() && needs.Absent != "" {
		result.Tail += "\n" + r.clean(needs.Absent, maxDetail)
	}
	return result, err
}
