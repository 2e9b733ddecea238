package prove

import (
	"context"
	"path/filepath"

	"github.com/nacre-dev/nacre/internal/access"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/sandbox/probe"
)

// Installation plays escapes, egress bypasses, planted files and broken installations against
// this machine, this configuration and a project (U-41), and returns what became of
// each. progress is told of each stage. An error says that nothing could be proved.
func Installation(ctx context.Context, inst *installation.Installation, project string, progress func(stage string)) ([]Row, error) {
	reach, err := access.EgressAt(inst, inst.Options.Now())
	if err != nil {
		return nil, &config.Error{Err: err}
	}
	rules, err := reach.Rules(nil)
	if err != nil {
		return nil, &config.Error{Err: err}
	}
	if project, err = filepath.Abs(project); err != nil {
		return nil, err
	}
	box, err := inst.Backend("") //nolint:contextcheck // opening starts nothing
	if err != nil {
		return nil, err
	}
	defer func() { _ = box.Close() }() // nothing of it is kept
	o := Options{Program: inst.Program(probe.Name), Rules: rules, Progress: progress}
	progress("installations of which a part is broken")
	rows, err := Broken(ctx, inst.Options.Executable)
	if err != nil {
		return nil, err
	}
	progress("the egress rules")
	egress, err := Rules(ctx, rules)
	if err != nil {
		return nil, err
	}
	progress("files of the project that programs of the host obey")
	files, err := Project(ctx, box, o, project)
	if err != nil {
		return nil, err
	}
	escapes, err := Backend(ctx, box, o)
	if err != nil {
		return nil, err
	}
	return append(append(append(escapes, files...), egress...), rows...), nil
}
