package handler

import (
	"context"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/process"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/plugin"
)

// Try seals a handler that is only tried, in no session and with no way out. It sees
// the project as far as its manifest asks for.
func Try(ctx context.Context, box sandbox.Backend, spec pluginhost.LaunchSpec, project string) (pluginhost.Process, error) {
	mounts := []nacre.Mount{{Kind: nacre.BindReadWrite, Source: spec.DataDir, Target: dataPath}}
	switch plugin.Project(spec.Project) {
	case plugin.ProjectRead:
		mounts = append(mounts, nacre.Mount{Kind: nacre.BindReadOnly, Source: project, Target: plugin.ProjectPath})
	case plugin.ProjectWrite:
		mounts = append(mounts, nacre.Mount{Kind: nacre.BindReadWrite, Source: project, Target: plugin.ProjectPath})
	default: // it sees no project
	}
	p, err := posture.Compute(posture.Input{
		Project: spec.Dir, ReadOnlyProject: true, Offline: true, System: installation.SystemMounts(box), Env: spec.Env, Mounts: mounts,
		Limits: nacre.Limits{Wall: wall, Output: output},
	})
	if err != nil {
		return pluginhost.Process{}, err
	}
	started, err := process.Start(ctx, unowned{box}, sandbox.Command{Posture: p, Argv: spec.Argv, Secrets: spec.Secrets, Label: "plugin-test"})
	if err != nil {
		return pluginhost.Process{}, err
	}
	return pluginhost.Process{
		Stdin: started.Input, Stdout: started.Out(), Stderr: started.Complaints(), DataDir: dataPath, Kill: started.Kill,
		Wait: func() error { return endOf(started.Wait()) },
	}, nil
}

// unowned starts sandboxes that belong to no session. Their context ends them.
type unowned struct{ sandbox.Backend }

// Wait implements launcher.
func (unowned) Wait(_ context.Context, p sandbox.Process) (sandbox.Exit, error) { return p.Wait() }
