package work

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/task"
	"github.com/nacre-dev/nacre/internal/upstream"
)

// maxNamed is how many changed files an obstacle names.
const maxNamed = 5

// obstacles are what will keep the result of a run from landing as things are, so that
// they are said before the agent is paid (F-122).
func obstacles(ctx context.Context, inst *installation.Installation, spec task.Spec) (found []string, err error) {
	if spec.Audited != nil {
		return nil, nil // an audit lands nothing
	}
	if spec.Unverified() {
		found = append(found, task.NoCheck)
	}
	dir, err := os.MkdirTemp(inst.Registry.Paths().State, "inspect-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	project, err := repo.Open(ctx, spec.Project, repo.Options{StateDir: dir, Now: inst.Options.Now})
	if err != nil {
		return nil, err
	}
	dirty, err := project.Dirty(ctx)
	if err != nil {
		return nil, err
	}
	if !dirty.Clean() && !spec.Dirty {
		found = append(found, uncommitted(dirty))
	}
	shut, err := unwritable(spec.Project)
	if err != nil {
		return nil, err
	}
	if shut != "" {
		found = append(found, shut)
	}
	where, err := repo.HeldElsewhere(ctx, project)
	if err == nil && where != "" {
		found = append(found, "the branch "+project.Branch+" is checked out in "+where+", too: the result lands on a branch of its own")
	}
	return found, err
}

// unwritable says which folder of a project keeps a result from landing; "" is none. It looks
// at the folders that every landing writes to: on a file system that is read-only, or in a
// project of somebody else, it names the first of them.
func unwritable(project string) (string, error) {
	place, err := repo.Find(project)
	if err != nil {
		return "", err
	}
	shut := place.Writable()
	if shut == nil {
		return "", nil
	}
	return shut.Error() + ": the result cannot land; make it writable, or work on a clone of the project", nil
}

// confirm tells a person what will keep the work of a new run from landing, before
// anything is begun or paid for (U-20).
func confirm(ctx context.Context, inst *installation.Installation, run Run, spec task.Spec, agent brain.Brain) error {
	if _, going, err := interrupted(inst, run.Session); err != nil || going || run.Asking.Confirm == nil || run.startsNone() {
		return err
	}
	found, err := obstacles(ctx, inst, spec)
	if err != nil {
		return err
	}
	if agent.Name() != brain.ReplayName && spec.Model != "" {
		priced, err := upstream.Priced(inst, spec.Model)
		if err != nil {
			return err
		}
		if !priced {
			found = append(found, "the model "+spec.Model+" has no price, so that the gateway refuses its first call: add it to the price file")
		}
	}
	return run.Asking.Confirm(ctx, found)
}

// uncommitted says what becomes of changes that are in no commit.
func uncommitted(d repo.Dirty) string {
	named := d.Tracked[:min(len(d.Tracked), maxNamed)]
	more := ""
	if len(d.Tracked) > len(named) {
		more = " and others"
	}
	return "uncommitted changes in " + strings.Join(named, ", ") + more +
		": the agent does not see them, and where it changes these files too, the result lands on a branch of its own; commit or stash them, or add --dirty"
}
