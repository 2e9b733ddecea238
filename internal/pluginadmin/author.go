package pluginadmin

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre/internal/access"
	"github.com/nacre-dev/nacre/internal/handler"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/plugintest"
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

// PlacesOf are those of this installation.
func PlacesOf(inst *installation.Installation) PluginPlaces {
	return PluginPlaces{Folders: access.Folders(inst), Lock: access.LockFile(inst), Version: access.Compatible}
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
func TestPlugin(ctx context.Context, inst *installation.Installation, trial PluginTrial) (report PluginReport, err error) {
	box, err := inst.Backend("")
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
		Dir: trial.Dir, Scratch: scratch, Version: access.Compatible, Now: inst.Options.Now, Config: trial.Config, All: trial.All, Witness: box.HostTools(),
		Launch: func(ctx context.Context, spec pluginhost.LaunchSpec) (pluginhost.Process, error) {
			return handler.Try(ctx, box, spec, project)
		},
	})
	report = PluginReport{Plugin: found.Plugin, Version: found.Version, Passed: found.Passed, Checks: []PluginCheck{}}
	for _, c := range found.Checks {
		report.Checks = append(report.Checks, PluginCheck(c))
	}
	return report, err
}
