package hosting

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/handler"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/plugin"
)

// WorkFolder is the folder that a session's agent works on, or why a plugin sees none.
type WorkFolder func() (string, error)

// Masks hide the credentials in git's configuration of a project that is shown at top. They are kept below a name.
type Masks func(ctx context.Context, project, top, name string) ([]nacre.Mount, error)

// lazyPlugin is a plugin that sees the session's project. Its handler starts with the first call,
// when the folder is there that the agent works on. That is a run's private clone, which each
// conversation makes anew, and never the operator's own folder. Where the folder was replaced
// since, the handler is started again.
type lazyPlugin struct {
	stage   *Stage
	folder  WorkFolder
	masks   Masks
	found   pluginhost.Found
	project plugin.Project

	mu   sync.Mutex
	host *pluginhost.Host // nil before the first call
	over os.FileInfo      // the folder that the host was started over
}

// Do implements nacre.Driver.
func (l *lazyPlugin) Do(ctx context.Context, in nacre.Invocation) (json.RawMessage, error) {
	host, err := l.running(ctx)
	if err != nil {
		return nil, err
	}
	for _, tool := range host.Tools() {
		if tool.Capability.Tool == in.Tool {
			return tool.Driver.Do(ctx, in)
		}
	}
	return nil, unavailable("plugin " + string(l.found.Name) + " could not be started")
}

// running is a host over the folder as it is now.
func (l *lazyPlugin) running(ctx context.Context) (*pluginhost.Host, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	dir, err := l.folder()
	if err != nil {
		return nil, unavailable(fmt.Sprintf("plugin %s: %s", l.found.Name, err))
	}
	folder, err := os.Lstat(dir)
	if err != nil {
		return nil, unavailable(fmt.Sprintf("plugin %s: the session's project is not there", l.found.Name))
	}
	if l.host != nil && os.SameFile(folder, l.over) {
		return l.host, nil
	}
	if l.host != nil {
		_ = l.host.Close(ctx) // how it ended is recorded
		l.host = nil
	}
	mounts, err := handler.ProjectMounts(dir, l.project)
	if err != nil {
		return nil, unavailable(err.Error())
	}
	masks, err := l.masks(ctx, dir, plugin.ProjectPath, string(l.found.Name))
	if err != nil {
		return nil, fmt.Errorf("git's configuration for plugin %s: %w", l.found.Name, err)
	}
	mounts = append(mounts, masks...)
	options, err := l.stage.Options(nil)
	if err != nil {
		return nil, err
	}
	options.Launch = func(ctx context.Context, spec pluginhost.LaunchSpec) (pluginhost.Process, error) {
		return l.stage.launch(ctx, spec, mounts)
	}
	l.host, err = pluginhost.Start(ctx, []pluginhost.Found{l.found}, options)
	l.over = folder
	return l.host, err
}

func (l *lazyPlugin) close(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.host == nil {
		return nil
	}
	return l.host.Close(ctx)
}

// health is what is known of the plugin: one that nobody called yet is well.
func (l *lazyPlugin) health() pluginhost.Health {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.host == nil {
		return pluginhost.Health{Healthy: []nacre.PluginName{l.found.Name}}
	}
	return l.host.Health()
}

// unavailable tells the kernel that there is no handler to ask: nothing was sent.
type unavailable string

func (u unavailable) Error() string { return string(u) }

// Unavailable tells the kernel to answer PLUGIN_UNAVAILABLE.
func (unavailable) Unavailable() bool { return true }
