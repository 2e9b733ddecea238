package work

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/operator"
	"github.com/nacre-dev/nacre/internal/receipt"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/seal"
	"github.com/nacre-dev/nacre/internal/task"
)

// maxCarried is how often a run is carried on: what ends each machine that takes it does not end all of them.
const maxCarried = 2

// carries tells whether another machine could carry a run on, where all stores are there. What is of this
// machine's disk alone, as uncommitted edits and other sessions are, no other one has.
func carries(s *seal.Session, spec task.Spec) bool {
	return s.Inst.Registry.Store() != nil && spec.Parent == "" && spec.Audited == nil && !spec.Dirty
}

// keep lets other machines carry the run on from where it is, if this one is lost.
func keep(ctx context.Context, s *seal.Session, spec task.Spec) (err error) {
	if !carries(s, spec) {
		return nil
	}
	var at task.Reached
	var pack []byte
	if spec.Carried != nil {
		at = spec.Carried.Reached
		if pack, err = os.ReadFile(filepath.Join(s.Dir(), task.PackFile)); err != nil {
			return err
		}
	}
	return put(ctx, s, spec, at, pack, true)
}

// aside gives what a run's stages tell other machines by; nil where they tell none.
func aside(s *seal.Session, spec task.Spec) func(context.Context, task.Reached, []byte) error {
	if !carries(s, spec) {
		return nil
	}
	return func(ctx context.Context, at task.Reached, pack []byte) error {
		return put(ctx, s, spec, at, pack, false)
	}
}

func put(ctx context.Context, s *seal.Session, spec task.Spec, at task.Reached, pack []byte, anew bool) error {
	if spec.Carried != nil {
		at.Times = spec.Carried.Times
	}
	spec.Carried = nil
	kept := operator.KeptRun{Session: s.ID(), Work: s.Work(), Pack: append([]byte{}, pack...)} // no NULL
	kept.Spec, _ = json.Marshal(spec)                                                          // texts and numbers,
	kept.Reached, _ = json.Marshal(at)                                                         // and so is this
	return operator.KeepRun(ctx, s.Inst, s.Recorder, kept, anew)
}

// Carry goes on with a run of a machine that is lost, in a session of its own, from the last snapshot that the
// store has. The project is at the same place here, and has the commit that the run began from.
func Carry(ctx context.Context, inst *installation.Installation, lost operator.KeptRun, telling Telling) (Report, error) {
	id := registry.OrNew("")
	var before receipt.Tally
	taken, landing, err := operator.TakeRun(ctx, inst, lost, id, before.Add)
	if err != nil {
		return Report{}, err
	}
	before.EndChain()
	spec, at, err := read(ctx, inst, taken) // which its own machine wrote
	if err != nil {
		err = fmt.Errorf("it cannot go on here: %w", err)
	}
	if err == nil {
		err = leave(inst, &spec, before.Cost.MicroUSD)
	}
	var report Report
	if err == nil {
		at.Times++
		spec.Carried = &task.Carried{Reached: at, From: taken.Name(), Landing: landing}
		report, err = Do(ctx, inst, Run{Session: id, Group: taken.Group, Telling: telling, behalf: behalf{carried: &spec, packed: taken.Pack}})
	}
	if err != nil {
		err = operator.LeaveRun(ctx, inst, id, fmt.Errorf("the run of %s: %w", taken.Name(), err))
	}
	return report, err
}

// read is a kept run that can go on here.
func read(ctx context.Context, inst *installation.Installation, kept operator.KeptRun) (spec task.Spec, at task.Reached, err error) {
	if err = errors.Join(json.Unmarshal(kept.Spec, &spec), json.Unmarshal(kept.Reached, &at)); err == nil {
		err = carriable(ctx, inst, kept, &spec, at)
	}
	return spec, at, err
}

// carriable says why a run cannot go on here, and finds what of its project is nacre's own here.
func carriable(ctx context.Context, inst *installation.Installation, lost operator.KeptRun, spec *task.Spec, at task.Reached) error {
	if at.Times >= maxCarried {
		return fmt.Errorf("each of %d machines was lost with it: look at what they record of it, and begin it anew", at.Times+1)
	}
	if _, err := inst.Group(lost.Group); err != nil {
		return err
	}
	project, err := installation.ProjectFolder(spec.Project)
	if err != nil {
		return err
	}
	if project != spec.Project {
		return fmt.Errorf("%s is %s here", spec.Project, project)
	}
	if spec.Own, err = installation.OwnBelow(inst, project); err != nil {
		return err
	}
	if spec.Recording != "" {
		if _, err := readRecording(spec.Recording); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp(inst.Registry.Paths().State, "inspect-")
	if err != nil {
		return err
	}
	return errors.Join(task.Carriable(ctx, project, at, dir, inst.Options.Now), os.RemoveAll(dir))
}

// leave lowers what a run may cost to what its lost machine had left.
func leave(inst *installation.Installation, spec *task.Spec, spent int64) error {
	most, err := inst.Config.Budget()
	if err != nil {
		return err
	}
	if spec.Budget = cmp.Or(spec.Budget, most) - spent; spec.Budget <= 0 {
		return errors.New("its budget is spent: begin it anew with a larger --budget")
	}
	return nil
}
