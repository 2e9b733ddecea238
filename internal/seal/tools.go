package seal

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/access"
	"github.com/nacre-dev/nacre/internal/approval"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/hosting"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/intrinsic"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/pins"
	"github.com/nacre-dev/nacre/internal/schedule"
	"github.com/nacre-dev/nacre/internal/scheduling"
	"github.com/nacre-dev/nacre/internal/task"
	"github.com/nacre-dev/nacre/kernel"
)

// openKernel registers everything a call can reach: the core's own tools,
// memory and plugins. The tools of a plugin that the session's group may not
// use are known, so that they are refused for what they are, and not started.
func (t *toolset) openKernel(ctx context.Context) error {
	if t.Found.Err != nil {
		return t.Found.Err
	}
	t.plugins = hosting.Open(t.Inst, t.Session, hosting.Options{
		Guest: hosting.Guest{ID: t.ID(), Group: t.Group(), Tools: t.catalog, Info: func() map[string]any { return t.intrinsic().Info() }},
		Found: t.calls.kin.Needed(t.Found.Plugins), Shared: t.shared, Folder: t.workFolder, Warn: t.Warn,
	})
	own, err := t.ownTools()
	if err != nil {
		return err
	}
	if err := t.checkPins(own); err != nil {
		return err
	}
	others, err := t.plugins.Start(ctx, own)
	if err != nil {
		return err
	}
	k, err := newKernel(t.Inst, t.Started, t.Approvals, installation.Words{Recorder: t.Recorder, Redact: t.Inst.Redact}, t.pins)
	if err != nil {
		return err
	}
	for _, tool := range slices.Concat(own, others) {
		if !t.calls.kin.Has(tool.Capability) {
			continue
		}
		tool.Capability = t.Inst.Config.Pinned(tool.Capability)
		if err := k.Register(tool); err != nil {
			return config.Errorf("tool %s: %w", tool.Capability.ID, err)
		}
	}
	t.Kernel = k
	return t.plugins.Attach()
}

// catalog is what the session's group may use.
func (t *toolset) catalog() []nacre.Capability {
	return t.Kernel.Catalog(t.Inst.Principal(t.Group(), t.ID(), ""))
}

// usable is what a principal's group may use. Where all of it rests until a first call, no
// plugin is started for the group, and what the core itself brings is what there is.
func (t *toolset) usable(principal nacre.Principal) []nacre.Capability {
	if t.Kernel != nil {
		return t.Kernel.Catalog(principal)
	}
	var all []nacre.Capability
	for _, tool := range slices.Concat(t.intrinsic().Tools(), t.scheduleTools()) {
		if t.Inst.Config.ToolGroups().Allows(principal.Group, tool.Capability) {
			all = append(all, tool.Capability)
		}
	}
	slices.SortFunc(all, func(a, b nacre.Capability) int { return strings.Compare(string(a.Tool), string(b.Tool)) })
	return all
}

// workFolder is the folder that the session's agent works on. What a role keeps
// from its agent cannot be kept from a handler, which therefore sees nothing.
func (t *toolset) workFolder() (string, error) {
	if t.confined {
		return "", errors.New("the role of this session confines its agent to a part of the project, of which plugins see nothing")
	}
	if t.kind != "run" {
		if t.project == "" {
			return "", errors.New("this session has no project")
		}
		return t.project, nil
	}
	dir, err := filepath.EvalSymlinks(t.Dir())
	return filepath.Join(dir, task.WorkDir), err
}

func newKernel(inst *installation.Installation, started time.Time, approver *approval.Desk, recorder nacre.Recorder, pins *pins.Pinner) (*kernel.Kernel, error) {
	keys := kernel.Keys{Current: kernel.Key(inst.Grants.Current)}
	for _, key := range inst.Grants.Previous {
		keys.Retired = append(keys.Retired, kernel.Key(key))
	}
	k, err := kernel.New(kernel.Config{
		Policy: inst.Policy, Groups: access.ToolGroups(inst, started), Approver: approver, Pinner: pins, Recorder: recorder, Now: inst.Options.Now,
		Random: rand.Reader, Keys: keys,
		Shared: kernel.Shared{Revocations: inst.Revoked, Limiter: inst.Calls}, AskTTL: approver.TTL(), OutputBudget: cmp.Or(inst.Config.OutputTokens, config.DefaultOutputTokens),
		ResultLimits: inst.Config.ResultLimits,
	})
	if err != nil {
		return nil, &config.Error{Err: err}
	}
	return k, nil
}

// checkPins refuses a pin of a tool that is nowhere: a name that was mistyped
// would leave the tool that was meant as its author declares it (D-20). Where a
// plugin could not be read, nobody knows what its tools would have been.
func (t *toolset) checkPins(own []nacre.Tool) error {
	known := map[string]bool{}
	for _, tool := range own {
		known[string(tool.Capability.Tool)] = true
	}
	unread := false
	for _, f := range t.Found.Plugins {
		unread = unread || f.Err != nil
		for _, tool := range f.Manifest.Provides.Tools {
			known[string(tool.Name)] = true
		}
	}
	for name := range t.Inst.Config.Tools {
		if !known[name] && !unread {
			return config.Errorf("[tools.%s]: no plugin has a tool of this name, so nothing would be pinned", name)
		}
	}
	return nil
}

// ownTools are what the core itself brings: the intrinsics, schedules and memory.
func (t *toolset) ownTools() ([]nacre.Tool, error) {
	tools, err := memory.Tools(t.Memory)
	return slices.Concat(t.intrinsic().Tools(), t.calls.kin.Tools(), t.scheduleTools(), tools), err
}

// intrinsic is what the core's own tools read of the session.
func (t *toolset) intrinsic() intrinsic.Session {
	return intrinsic.Session{
		Group: t.Group(), Started: t.Started, Refusals: &t.refusals,
		Kernel: func() *kernel.Kernel { return t.Kernel }, Plugins: func() any { return t.plugins.Health() },
	}
}

// scheduleTools let the session's agent make schedules for its group.
func (t *toolset) scheduleTools() []nacre.Tool {
	return schedule.Tools(schedule.Access{
		Open: func(ctx context.Context) (*schedule.Store, error) { return scheduling.Schedules(ctx, t.Inst) }, Zone: scheduling.LocalZone(t.Inst),
		Label: func(id nacre.SessionID) nacre.Label {
			if t.Kernel.Tainted(nacre.KeyOf(t.Group(), id)) {
				return nacre.Untrusted
			}
			return nacre.Trusted
		},
	})
}
