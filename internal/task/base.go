package task

import (
	"context"
	"errors"
	"slices"

	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/verify"
)

// ground is what the stages of one opening are layers over. The zero value is
// nothing: each stage gets a whole copy.
type ground struct {
	// dir has the bases; empty is none.
	dir  string
	base *repo.Base
}

// open gives the base that this opening's stages are layers over; nil means that
// each gets a whole copy.
func (g *ground) open(ctx context.Context, project *repo.Project) (*repo.Base, error) {
	if g.dir == "" || g.base != nil {
		return g.base, nil
	}
	base, err := repo.Overlays{Project: project}.OpenBase(ctx, g.dir)
	if errors.Is(err, repo.ErrNoBase) {
		g.dir = ""
		return nil, nil //nolint:nilnil // none, as the comment says
	}
	g.base = base
	return base, err
}

// release lets others remove the base.
func (g *ground) release() error {
	if g.base == nil {
		return nil
	}
	base := g.base
	g.base = nil
	return base.Release()
}

// under is a folder as what a stage works on.
func (g *ground) under(dir string) Workspace {
	if g.base == nil {
		return Workspace{Dir: dir}
	}
	return Workspace{Dir: dir, Base: g.base.Files}
}

// clone makes an agent's clone in dir.
func (g *ground) clone(ctx context.Context, project *repo.Project, dir string) error {
	base, err := g.open(ctx, project)
	switch {
	case err != nil:
	case base != nil:
		_, err = repo.Overlays{Project: project}.CloneOver(ctx, base, dir)
	default:
		_, err = project.Clone(ctx, dir)
	}
	return err
}

// takeOut makes exactly a tree in dir for a check, over the base where there is one. A base that
// was changed since it was made serves nobody, and dir gets a whole copy. It does so, too, where
// something of the host is shown below dir.
func (g *ground) takeOut(ctx context.Context, project *repo.Project, needs verify.Dependencies, tree repo.Tree, dir string) (Workspace, error) {
	base, err := g.open(ctx, project)
	if err != nil {
		return Workspace{}, err
	}
	shown := slices.ContainsFunc(needs.Modules, func(m verify.Module) bool { return m.Cache == "" })
	if base != nil && !shown {
		overlays := repo.Overlays{Project: project}
		if err = overlays.Layer(ctx, base, tree, dir); err == nil {
			err = overlays.LayerMatches(ctx, base, tree, dir)
		}
		if !errors.Is(err, repo.ErrUnsafe) {
			return Workspace{Dir: dir, Base: base.Files}, err
		}
		if err := registry.Discard(dir); err != nil {
			return Workspace{}, err
		}
	}
	if err := project.Checkout(ctx, tree, dir); err != nil {
		return Workspace{}, err
	}
	return Workspace{Dir: dir}, project.Matches(ctx, tree, dir)
}
