package assembly

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"sync"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/revocation"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/kernel"
)

// findings are what a session needs to know of the machine. They are looked up
// while the session opens; wait before reading them.
type findings struct {
	wait sync.WaitGroup
	// system are the mounts of the system folders; it does not wait.
	system     func() []nacre.Mount
	toolchains []posture.Toolchain
	plugins    []pluginhost.Found
	err        error // of plugins
}

// look does not look for plugins where that is for later.
func (r *Runtime) look(ctx context.Context, group nacre.Group, later bool) *findings {
	f := &findings{system: sync.OnceValue(sandbox.SystemMounts)}
	f.wait.Go(func() {
		f.toolchains = toolchains(ctx, openMemo(r.options.Getenv, filepath.Join(r.registry.Paths().State, "toolchains.json"), f.system))
	})
	if !later {
		f.wait.Go(func() { f.plugins, f.err = r.pluginsOf(group) })
	}
	return f
}

// openKernel registers everything a call can reach: the core's own tools,
// memory and plugins. The tools of a plugin that the session's group may not
// use are known, so that they are refused for what they are, and not started.
func (s *sealed) openKernel(ctx context.Context) error {
	if s.found.err != nil {
		return s.found.err
	}
	s.openStage()
	s.warnOfAccess()
	own, err := s.ownTools()
	if err != nil {
		return err
	}
	if err := s.checkPins(own); err != nil {
		return err
	}
	plugins, shared := s.shared.part(s.found.plugins)
	used, unused := s.split(plugins)
	used, late := s.partLate(used)
	others := slices.Concat(own, shared, late, unused)
	if err := s.startPlugins(ctx, used, others); err != nil {
		return err
	}
	k, err := s.runtime.newKernel(s.Approvals, words{s.Recorder, s.runtime.redact}, s.pins)
	if err != nil {
		return err
	}
	for _, tool := range slices.Concat(others, s.stage.discreet(s.host.Tools())) {
		tool.Capability = s.runtime.config.Tools[string(tool.Capability.Tool)].apply(tool.Capability)
		if err := k.Register(tool); err != nil {
			return badConfig("tool %s: %w", tool.Capability.ID, err)
		}
	}
	s.kernel, s.idle = k, len(used)+len(s.late) == 0
	return s.shared.attach(s)
}

func (r *Runtime) newKernel(approver nacre.Approver, recorder nacre.Recorder, pins *pinner) (*kernel.Kernel, error) {
	k, err := kernel.New(kernel.Config{
		Policy: r.policy, Groups: r.config.groups(), Approver: approver, Pinner: pins, Recorder: recorder, Now: r.options.Now,
		Random: rand.Reader, TokenKey: r.grants.Current.Secret, TokenKeyID: r.grants.Current.ID, RetiredKeys: retired(r.grants),
		Revocations: r.revoked, AskTTL: r.config.askTTL(), OutputBudget: r.config.OutputTokens,
	})
	if err != nil {
		return nil, &ConfigError{err}
	}
	return k, nil
}

func retired(keys revocation.Keys) []kernel.RetiredKey {
	var list []kernel.RetiredKey
	for _, key := range keys.Previous {
		list = append(list, kernel.RetiredKey(key))
	}
	return list
}

// checkPins refuses a pin of a tool that is nowhere: a name that was mistyped
// would leave the tool that was meant as its author declares it (D-20). Where a
// plugin could not be read, nobody knows what its tools would have been.
func (s *sealed) checkPins(own []nacre.Tool) error {
	known := map[string]bool{}
	for _, tool := range own {
		known[string(tool.Capability.Tool)] = true
	}
	unread := false
	for _, f := range s.found.plugins {
		unread = unread || f.Err != nil
		for _, tool := range f.Manifest.Provides.Tools {
			known[string(tool.Name)] = true
		}
	}
	for name := range s.runtime.config.Tools {
		if !known[name] && !unread {
			return badConfig("[tools.%s]: no plugin has a tool of this name, so nothing would be pinned", name)
		}
	}
	return nil
}

// ownTools are what the core itself brings: the intrinsics, schedules and memory.
func (s *sealed) ownTools() ([]nacre.Tool, error) {
	tools, err := memory.Tools(s.memory)
	return slices.Concat(s.intrinsics(), s.scheduleTools(), tools), err
}

// split keeps the plugins that the session starts, and gives the tools of the
// others. Channels and events are for those that are shared: a session alone has
// neither.
func (s *sealed) split(found []pluginhost.Found) (used []pluginhost.Found, unused []nacre.Tool) {
	for _, f := range found {
		if s.runtime.starts(s.Group(), f) {
			used = append(used, f)
			continue
		}
		for _, t := range f.Manifest.Provides.Tools {
			unused = append(unused, nacre.Tool{Capability: t.Capability(f.Name, f.Hash), Driver: nacre.DriverFunc(notStarted)})
		}
	}
	return used, unused
}

// notStarted stands for a plugin that the group may not use: no call gets here.
func notStarted(context.Context, nacre.Invocation) (json.RawMessage, error) {
	return nil, errors.New("plugin is not started for this group")
}

// checkCapability refuses what the kernel would not take, so that one plugin
// fails and not the session (D-23).
func (r *Runtime) checkCapability(c nacre.Capability) error {
	k, err := r.newKernel(nil, audit.Memory(0), &pinner{})
	if err != nil {
		return err
	}
	c = r.config.Tools[string(c.Tool)].apply(c)
	return k.Register(nacre.Tool{Capability: c, Driver: nacre.DriverFunc(notStarted)})
}

// startPlugins starts plugins, each sealed. others are tools that exist beside theirs.
func (s *sealed) startPlugins(ctx context.Context, used []pluginhost.Found, others []nacre.Tool) error {
	taken := map[nacre.ToolName]string{}
	for _, tool := range others {
		taken[tool.Capability.Tool] = string(tool.Capability.ID)
	}
	options, err := s.stage.options(taken)
	if err != nil {
		return err
	}
	s.host, err = pluginhost.Start(ctx, used, options)
	if err != nil && ctx.Err() == nil {
		return &ConfigError{err}
	}
	return err
}

func (r *Runtime) pluginConfig() (map[nacre.PluginName]json.RawMessage, error) {
	config := map[nacre.PluginName]json.RawMessage{}
	for name, values := range r.config.Plugins {
		raw, err := json.Marshal(values)
		if err != nil {
			return nil, badConfig("[plugins.%s]: %w", name, err)
		}
		config[nacre.PluginName(name)] = raw
	}
	return config, nil
}

// pluginDirs are where plugins lie: the user's own win over the built-in ones (D-20).
func (r *Runtime) pluginDirs() []string {
	return []string{filepath.Join(r.registry.Paths().Data, "plugins"), r.builtIn()}
}

// builtIn is where the plugins lie that came with nacre.
func (r *Runtime) builtIn() string {
	return filepath.Join(filepath.Dir(r.options.Executable), "plugins")
}
