package assembly

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/task"
	"github.com/nacre-dev/nacre/plugin"
)

// late is a plugin that sees the session's project. Its handler starts with the
// first call, when the folder is there that the agent works on: a run's private
// clone, which each conversation makes anew, and never the operator's own folder.
// Where the folder was replaced since, the handler is started again.
type late struct {
	session *sealed
	found   pluginhost.Found
	project plugin.Project

	mu     sync.Mutex
	host   *pluginhost.Host // nil before the first call
	folder os.FileInfo      // that the host was started over
}

// partLate takes the plugins out that see the project, and gives their tools.
// What the kernel would refuse is left to the start that reports it.
func (s *sealed) partLate(used []pluginhost.Found) (now []pluginhost.Found, tools []nacre.Tool) {
	for _, f := range used {
		to := s.runtime.reachOf(f)
		refused := slices.ContainsFunc(f.Manifest.Provides.Tools, func(t plugin.ToolSpec) bool {
			return s.runtime.checkCapability(t.Capability(f.Name, f.Hash)) != nil
		})
		if to.project == plugin.ProjectNone || f.Err != nil || refused {
			now = append(now, f)
			continue
		}
		l := &late{session: s, found: f, project: to.project}
		s.late = append(s.late, l)
		for _, t := range f.Manifest.Provides.Tools {
			tools = append(tools, nacre.Tool{Capability: t.Capability(f.Name, f.Hash), Driver: l})
		}
	}
	return now, s.stage.discreet(tools)
}

// Do implements nacre.Driver.
func (l *late) Do(ctx context.Context, in nacre.Invocation) (json.RawMessage, error) {
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
func (l *late) running(ctx context.Context) (*pluginhost.Host, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	dir, err := l.session.workFolder()
	if err != nil {
		return nil, unavailable(fmt.Sprintf("plugin %s: %s", l.found.Name, err))
	}
	folder, err := os.Lstat(dir)
	if err != nil {
		return nil, unavailable(fmt.Sprintf("plugin %s: the session's project is not there", l.found.Name))
	}
	if l.host != nil && os.SameFile(folder, l.folder) {
		return l.host, nil
	}
	if l.host != nil {
		_ = l.host.Close(ctx) // how it ended is recorded
		l.host = nil
	}
	mounts, err := l.session.projectMounts(dir, l.project)
	if err != nil {
		return nil, err
	}
	options, err := l.session.stage.options(nil)
	if err != nil {
		return nil, err
	}
	options.Launch = func(ctx context.Context, spec pluginhost.LaunchSpec) (pluginhost.Process, error) {
		return l.session.stage.launch(ctx, spec, mounts)
	}
	l.host, err = pluginhost.Start(ctx, []pluginhost.Found{l.found}, options)
	l.folder = folder
	return l.host, err
}

func (l *late) close(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.host == nil {
		return nil
	}
	return l.host.Close(ctx)
}

// health is what is known of the plugin: one that nobody called yet is well.
func (l *late) health() pluginhost.Health {
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

// workFolder is the folder that the session's agent works on. What a role keeps
// from its agent cannot be kept from a handler, which therefore sees nothing.
func (s *sealed) workFolder() (string, error) {
	if s.confined {
		return "", errors.New("the role of this session confines its agent to a part of the project, of which plugins see nothing")
	}
	if s.kind != "run" {
		if s.project == "" {
			return "", errors.New("this session has no project")
		}
		return s.project, nil
	}
	dir, err := filepath.EvalSymlinks(s.Dir())
	return filepath.Join(dir, task.WorkDir), err
}

// projectMounts shows a folder to a handler, with what makes the host run code
// later as it is. In a folder that can be written the sandbox follows no link.
func (s *sealed) projectMounts(dir string, may plugin.Project) ([]nacre.Mount, error) {
	if may != plugin.ProjectWrite {
		return []nacre.Mount{{Kind: nacre.BindReadOnly, Source: dir, Target: plugin.ProjectPath}}, nil
	}
	mounts := []nacre.Mount{{Kind: nacre.BindReadWrite, Source: dir, Target: plugin.ProjectPath}}
	for _, name := range existing(dir, posture.LateExecution()) {
		path := filepath.Join(dir, name)
		if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeSymlink != 0 {
			return nil, unavailable(fmt.Sprintf("%s is a link, which cannot be kept from being written to", name))
		}
		mounts = append(mounts, nacre.Mount{Kind: nacre.BindReadOnly, Source: path, Target: plugin.ProjectPath + "/" + name})
	}
	return mounts, nil
}
