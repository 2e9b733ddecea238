//go:build linux

package prove

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/layering"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/sandbox/probe"
)

// Installation plays escapes, egress bypasses, planted files and broken installations against
// this machine, this configuration and a project (U-41), and returns what became of
// each. progress is told of each stage. Where no sandbox starts the error is an
// [installation.NotReady], and the rows are of all that: nothing was tried of what needs a sandbox.
// Any other error says that nothing could be proved.
func Installation(ctx context.Context, inst *installation.Installation, project string, progress func(stage string)) ([]Row, error) {
	rules, err := rulesOf(inst)
	if err != nil {
		return nil, err
	}
	if project, err = filepath.Abs(project); err != nil {
		return nil, err
	}
	progress("the egress rules")
	egress, err := Rules(ctx, rules)
	if err != nil {
		return nil, err
	}
	sealed, stopped := inSandboxes(ctx, inst, Options{Program: inst.Program(probe.Name), Rules: rules, Progress: progress}, project)
	if sealed == nil {
		return nil, stopped
	}
	rows := append(sealed, egress...)
	if stopped != nil {
		return append(rows, notTried(ofBreakages())...), stopped
	}
	progress("installations of which a part is broken")
	broken, err := Broken(ctx, inst.Options.Executable, inst.Sandboxes())
	if err != nil {
		return nil, err
	}
	return append(rows, broken...), nil
}

// inSandboxes plays what is played in sandboxes: the probes, and then what changes files of the
// project. Where none starts the rows say so beside the error.
func inSandboxes(ctx context.Context, inst *installation.Installation, o Options, project string) ([]Row, error) {
	box, err := started(ctx, inst)
	if stopped := (*installation.NotReady)(nil); errors.As(err, &stopped) {
		return append(notTried(probe.All()), notTried(ofProject(existing(project)))...), err
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = box.Close() }() // nothing of it is kept
	o.begins("files of the project that programs of the host obey")
	files, err := Project(ctx, box, o, project)
	if err != nil {
		return nil, err
	}
	escapes, err := Backend(ctx, box, o)
	if err != nil {
		return nil, err
	}
	return append(escapes, files...), nil
}

// started is the backend of the configuration, which has started a sandbox.
func started(ctx context.Context, inst *installation.Installation) (sandbox.Backend, error) {
	box, err := inst.Backend("") //nolint:contextcheck // opening starts nothing
	if err != nil {
		return nil, err
	}
	if err := layering.Starts(ctx, layering.Of(box, inst.Registry.Paths(), inst.Options.Version, inst.Options.Now), nacre.Limits{}); err != nil {
		_ = box.Close() // nothing runs in it
		return nil, &installation.NotReady{What: "the " + box.Name() + " sandbox cannot start", Err: err}
	}
	return box, nil
}

func notTried(probes []probe.Probe) []Row {
	var rows []Row
	for _, p := range probes {
		rows = append(rows, Row{Class: p.Class, Probe: p.Name, Outcome: NotTried, Reason: "no sandbox starts here"})
	}
	return rows
}
