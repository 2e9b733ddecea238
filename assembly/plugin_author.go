package assembly

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/plugintest"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/plugin"
)

// PluginPlaces are where plugins and what was agreed to about them lie.
type PluginPlaces struct {
	// Folders hold plugins; the first is the user's own.
	Folders []string
	// Lock is the record of what was agreed to.
	Lock string
	// Version is what app_compat is held against.
	Version string
}

// PluginPlaces are those of this installation.
func (r *Runtime) PluginPlaces() PluginPlaces {
	return PluginPlaces{Folders: r.pluginDirs(), Lock: r.lockFile(), Version: compatible}
}

// PluginTrial is a conformance run of a plugin that need not be installed (D-22).
type PluginTrial struct {
	Dir string
	// Config is what [plugins.NAME] would hold.
	Config json.RawMessage
	// All calls the tools that destroy or ask a person, too.
	All bool
}

// PluginReport is what a conformance run found.
type PluginReport struct {
	Plugin  string        `json:"plugin"`
	Version string        `json:"version"`
	Passed  bool          `json:"passed"`
	Checks  []PluginCheck `json:"checks"`
}

// PluginCheck is one thing that was looked at.
type PluginCheck struct {
	Name string `json:"name"`
	// Status is "passed", "failed" or "skipped".
	Status string `json:"status"`
	Text   string `json:"text,omitempty"`
	Fix    string `json:"fix,omitempty"`
}

// TestPlugin runs a plugin in the sandbox that sessions give it, without a
// network, on data of its own, and looks whether it keeps the protocol.
func (r *Runtime) TestPlugin(ctx context.Context, trial PluginTrial) (report PluginReport, err error) {
	box, err := r.backend("")
	if err != nil {
		return report, err
	}
	scratch, err := os.MkdirTemp("", "nacre-plugin-test-")
	if err != nil {
		return report, errors.Join(err, box.Close())
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch), box.Close()) }()
	project := filepath.Join(scratch, "project")
	if err := errors.Join(os.Mkdir(project, 0o755), os.WriteFile(filepath.Join(project, "README.md"), []byte("# A project\n"), 0o600)); err != nil {
		return report, err
	}
	found, err := plugintest.Run(ctx, plugintest.Options{
		Dir: trial.Dir, Scratch: scratch, Version: compatible, Now: r.options.Now, Config: trial.Config, All: trial.All, Witness: box.HostTools(),
		Launch: func(ctx context.Context, spec pluginhost.LaunchSpec) (pluginhost.Process, error) {
			return launchTrial(ctx, box, spec, project)
		},
	})
	report = PluginReport{Plugin: found.Plugin, Version: found.Version, Passed: found.Passed, Checks: []PluginCheck{}}
	for _, c := range found.Checks {
		report.Checks = append(report.Checks, PluginCheck(c))
	}
	return report, err
}

// launchTrial seals a handler as a stage does, with no way out.
func launchTrial(ctx context.Context, box sandbox.Backend, spec pluginhost.LaunchSpec, project string) (pluginhost.Process, error) {
	mounts := []nacre.Mount{{Kind: nacre.BindReadWrite, Source: spec.DataDir, Target: pluginData}}
	switch plugin.Project(spec.Project) {
	case plugin.ProjectRead:
		mounts = append(mounts, nacre.Mount{Kind: nacre.BindReadOnly, Source: project, Target: plugin.ProjectPath})
	case plugin.ProjectWrite:
		mounts = append(mounts, nacre.Mount{Kind: nacre.BindReadWrite, Source: project, Target: plugin.ProjectPath})
	}
	p, err := posture.Compute(posture.Input{
		Project: spec.Dir, ReadOnlyProject: true, Offline: true, System: systemMounts(box), Env: spec.Env, Mounts: mounts,
		Limits: nacre.Limits{Wall: pluginWall, Output: pluginOutput},
	})
	if err != nil {
		return pluginhost.Process{}, err
	}
	started, err := startPiped(ctx, unowned{box}, sandbox.Command{Posture: p, Argv: spec.Argv, Secrets: spec.Secrets, Label: "plugin-test"})
	if err != nil {
		return pluginhost.Process{}, err
	}
	return pluginhost.Process{
		Stdin: started.stdin, Stdout: started.out(), Stderr: started.complaints(), DataDir: pluginData, Kill: started.Kill,
		Wait: func() error { return handlerEnd(started.Wait()) },
	}, nil
}

// unowned starts sandboxes that belong to no session. Their context ends them.
type unowned struct{ sandbox.Backend }

// Wait implements launcher.
func (unowned) Wait(_ context.Context, p sandbox.Process) (sandbox.Exit, error) { return p.Wait() }
