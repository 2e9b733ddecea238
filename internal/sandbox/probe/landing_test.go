package probe_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nacre-dev/nacre/internal/prove"
	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/sandbox/probe"
)

// M-13: what an agent leaves in its private clone either does not land, or is
// named before it does, or does not run.
func TestWhatLandsIsNamedBeforeItDoes(t *testing.T) {
	ground, err := prove.Lay(t.Context(), prove.Options{Program: helper(t)})
	must(t, err)
	t.Cleanup(ground.Lift)
	outcomes := map[string]int{}
	for _, p := range probe.All() {
		if p.Class != "late" || p.Name == "late-survivor" || !probe.IsPlant(p.Name) || probe.Unborn(p.Name) {
			continue
		}
		outcome := landed(t, ground, p.Name)
		outcomes[outcome]++
		if outcome == "ran" {
			t.Errorf("%s: it landed, nobody was told, and the host ran it", p.Name)
		}
	}
	t.Log(outcomes)
	if outcomes["named"] < 20 || outcomes["held back"] < 10 {
		t.Errorf("the probes do not reach what they are for: %v", outcomes)
	}
}

// landed plants in a clone as an agent would that nothing held, lands what came
// of it, and lets the host act.
func landed(t *testing.T, ground *prove.Ground, name string) string {
	t.Helper()
	ctx := context.Background()
	target, err := ground.Fresh(false)
	must(t, err)
	p, err := repo.Open(ctx, target.Project, repo.Options{StateDir: t.TempDir()})
	must(t, err)
	clone, err := p.Clone(ctx, filepath.Join(t.TempDir(), "clone"))
	must(t, err)
	inClone := target
	inClone.Project = clone.Dir
	_, err = ground.Control(ctx, inClone, false, name)
	must(t, err)
	tree, changes, err := clone.Snapshot(ctx)
	must(t, err)
	merged, err := p.Merge(ctx, repo.MergeRequest{Target: p.Base, Tree: tree, Message: "x", Author: repo.Author{Name: "u", Email: "u@example.com"}})
	must(t, err)
	_, err = p.Land(ctx, repo.LandRequest{
		Session: "probe", Branch: "main", Expect: p.Base, Commit: merged.Commit,
		Intent: func(context.Context, repo.Intent) error { return nil },
	})
	must(t, err)
	switch later := probe.Later(ctx, name, target); {
	case len(changes.Sensitive()) > 0:
		return "named"
	case later.Verdict == probe.Escaped:
		return "ran"
	case len(changes.Skipped) > 0 || slices.Contains([]string{"", string(probe.Blocked)}, string(later.Verdict)):
		return "held back"
	}
	return "not tried"
}
