package work

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/task"
	"github.com/nacre-dev/nacre/internal/upstream"
)

// obstacles are what will keep the result of a run from landing as things are, so that they are said
// before the agent is paid (F-122). unseen are files that git does not track, without which the
// agent works.
type obstacles struct {
	found  []string
	unseen string
}

func obstaclesOf(ctx context.Context, inst *installation.Installation, spec task.Spec) (o obstacles, err error) {
	if spec.Audited != nil {
		return o, nil // an audit lands nothing
	}
	if spec.Unverified() {
		o.found = append(o.found, task.NoCheck)
	}
	dir, err := os.MkdirTemp(inst.Registry.Paths().State, "inspect-")
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	project, err := repo.Open(ctx, spec.Project, repo.Options{StateDir: dir, Now: inst.Options.Now})
	if err != nil {
		return o, err
	}
	dirty, err := project.Dirty(ctx)
	if err != nil {
		return o, err
	}
	found, unseen := spec.Unseen(dirty)
	o.found, o.unseen = append(o.found, found...), unseen
	shut, err := unwritable(spec.Project, project.Branch)
	if err != nil {
		return o, err
	}
	o.found = append(o.found, shut...)
	where, err := repo.HeldElsewhere(ctx, project)
	if err == nil && where != "" {
		o.found = append(o.found, "the branch "+project.Branch+" is checked out in "+where+", too: the result lands on a branch of its own")
	}
	return o, err
}

// unwritable says what of a project keeps a result from landing on a branch. That is a lock of git's
// that stands, and the first of the folders which every landing writes to that cannot be written, as
// on a read-only file system.
func unwritable(project, branch string) (found []string, err error) {
	place, err := repo.Find(project)
	if err != nil {
		return nil, err
	}
	for _, lock := range []string{filepath.Join(place.GitDir, "index.lock"), filepath.Join(place.GitDir, "HEAD.lock"), filepath.Join(place.CommonDir, "refs/heads", branch+".lock")} {
		if held, err := os.Stat(lock); err == nil && time.Since(held.ModTime()) > time.Minute {
			found = append(found, lock+" is there, as a git command leaves it that was killed: the result does not land on your branch; remove it if no git command runs")
		}
	}
	if shut := place.Writable(); shut != nil {
		found = append(found, shut.Error()+": the result cannot land; make it writable, or work on a clone of the project")
	}
	return found, nil
}

// confirm tells a person what will keep the work of a new run from landing, before
// anything is begun or paid for (U-20).
func confirm(ctx context.Context, inst *installation.Installation, run *Run, spec task.Spec, agent brain.Brain) error {
	if _, going, err := interrupted(inst, run.Session); err != nil || going || run.Asking.Confirm == nil || run.startsNone() {
		return err
	}
	known, err := run.standing()
	if err != nil {
		return err
	}
	found := slices.Clone(known.found)
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
