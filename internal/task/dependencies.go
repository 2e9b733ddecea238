package task

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/manifest"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/verify"
)

// dependencies are what checks find installed: what the lock files of the commit
// name that the tree builds on, or the tree's own where the task lets them change.
// They are fetched before a check runs, which reaches nothing (S-13).
func (e *examination) dependencies(ctx context.Context) (d verify.Dependencies, err error) {
	if len(e.spec.Checks) == 0 || e.Fetch == nil {
		return d, nil
	}
	base, err := e.project.TreeOf(ctx, e.on)
	if err != nil {
		return d, err
	}
	// Where the work removed its lock files, its checks go without: no tree need be
	// taken out of git.
	if locked, err := e.project.Holds(ctx, repo.Tree(e.tree), manifest.IsLock); err != nil || !locked {
		return d, err
	}
	dir := filepath.Join(e.Session.Dir(), CheckPrefix+"needs")
	if err := errors.Join(registry.Discard(dir), os.Mkdir(dir, 0o700)); err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, registry.Discard(dir)) }()
	s := verify.Subject{Base: filepath.Join(dir, "base"), Tree: filepath.Join(dir, "tree"), Fetch: e.Fetch, Task: e.parameters()}
	if err := errors.Join(e.project.Checkout(ctx, repo.Tree(e.tree), s.Tree), e.project.Checkout(ctx, base, s.Base)); err != nil {
		return d, err
	}
	return s.Dependencies(ctx)
}

// parameters are those of the run's order, if it has one.
func (e *examination) parameters() atom.Parameters {
	if e.spec.Order == nil {
		return atom.Parameters{}
	}
	return e.spec.Order.Parameters
}

// check runs one check beside what it needs. A check that needs what cannot be had
// has failed, and one that failed says what was not there.
func (e *examination) check(ctx context.Context, needs verify.Dependencies, code Workspace, command string) (nacre.CheckResult, error) {
	if needs.Broken != "" {
		return nacre.CheckResult{
			Command: command, ExitCode: 1, Strength: verify.Weak, Tail: "the dependencies could not be fetched: " + e.clean(needs.Broken, maxDetail),
		}, nil
	}
	shown, err := verify.Prepare(code.Dir, needs.Modules)
	if err != nil {
		return nacre.CheckResult{}, err
	}
	result, err := e.Check(ctx, code, command, shown)
	if err == nil && !result.Passed() && needs.Absent != "" {
		result.Tail += "\n" + e.clean(needs.Absent, maxDetail)
	}
	return result, err
}
