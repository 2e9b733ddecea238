//go:build linux

package prove

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/sandbox/probe"
)

// ownProject is the class of rows about the project that was given.
const ownProject = "project"

// Project tries to change, in a sandbox of the backend, every file of the given
// project that programs of the host obey (M-13). They are empty files of the same
// names, in a project that is thrown away: of the given one only names are read.
func Project(ctx context.Context, b sandbox.Backend, o Options, project string) ([]Row, error) {
	names := existing(project)
	if len(names) == 0 {
		return nil, nil
	}
	o.Keep = func(probe.Probe) bool { return false }
	g, err := Lay(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("lay the decoys: %w", err)
	}
	defer g.Lift()
	try := append([]string{probe.Overwriting}, names...)
	sealed, err := g.stand(project, names)
	if err != nil {
		return nil, err
	}
	inside, _, err := g.run(ctx, b, sealed, try)
	if err != nil {
		return nil, err
	}
	loose, err := g.stand(project, names)
	if err != nil {
		return nil, err
	}
	outside, err := g.Control(ctx, loose, false, try...)
	if err != nil {
		return nil, err
	}
	var rows []Row
	for _, p := range ofProject(names) {
		rows = append(rows, judge(p, inside[p.Name], outside[p.Name], trial{root: g.root}))
	}
	return rows, nil
}

// ofProject are the probes that change the named files.
func ofProject(names []string) []probe.Probe {
	var probes []probe.Probe
	for _, name := range names {
		probes = append(probes, probe.Probe{Class: ownProject, Name: name, Control: probe.Always})
	}
	return probes
}

// stand is a throw-away project that has a file or folder for each of the names, as
// the given project has.
func (g *Ground) stand(project string, names []string) (probe.Target, error) {
	t, err := g.Fresh(true)
	if err != nil {
		return t, err
	}
	for _, name := range posture.LateExecution() {
		if err := os.RemoveAll(filepath.Join(t.Project, name)); err != nil {
			return t, err
		}
	}
	for _, name := range names {
		info, err := os.Stat(filepath.Join(project, name)) // a link stands for what it leads to
		path := filepath.Join(t.Project, name)
		if err == nil && info.IsDir() {
			err = os.Mkdir(path, 0o755)
		} else {
			err = put(path, "")
		}
		if err != nil {
			return t, err
		}
	}
	return t, nil
}
