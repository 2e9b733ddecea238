// Package toolset is what the agent of a sealed session may call: the kernel over nacre's own tools
// and those of plugins, with what its calls are judged by.
package toolset

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/basis"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/intrinsic"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/pins"
	"github.com/nacre-dev/nacre/internal/receipt"
	"github.com/nacre-dev/nacre/internal/scheduling"
	"github.com/nacre-dev/nacre/kernel"
)

// Options say what a session's calls are for.
type Options struct {
	Project  string // the folder that the agent works on
	Kind     string
	Confined bool     // by a role, to parts of the project
	Words    []string // that the operator typed
	Kin      basis.Kin
	// Health tells how the plugins are, once they were started.
	Health func() any
}

// Toolset is what a session's agent may call.
type Toolset struct {
	// Kernel is nil until the toolset is open.
	Kernel *kernel.Kernel
	// Refused is what the door refused.
	Refused intrinsic.Refusals

	on   *basis.Basis
	o    Options
	pins *pins.Pinner
}

// New is a toolset that is not open.
func New(on *basis.Basis, o Options) *Toolset { return &Toolset{on: on, o: o} }

// Plugins are the tools of others.
type Plugins interface {
	// Start gives the tools of the plugins that the session's group may use, which may take no
	// name of nacre's own.
	Start(ctx context.Context, own []nacre.Tool) ([]nacre.Tool, error)
	// Attach lets the plugins ask for what is the session's, once all tools can be called.
	Attach() error
}

// Open opens the kernel over everything that a call can reach, and tells it what the session has
// been told. That is the task, what the operator typed, and what was read before it was resumed.
func (t *Toolset) Open(ctx context.Context, with *memory.Store, plugins Plugins, task string) error {
	if err := t.openKernel(ctx, with, plugins); err != nil {
		return err
	}
	if h := t.o.Kin.Handed; h != nil {
		task = h.Principal.Justification // its own is an agent's words
		if err := t.Kernel.Resume(t.on.Key(), h.Told.And(nacre.Unvouched), "what its parent had been told"); err != nil {
			return err
		}
	}
	if err := t.Kernel.Observe(t.on.Key(), nacre.Source{Provenance: nacre.SeenOperator, Name: "the task"}, task); err != nil {
		return err
	}
	if err := t.observeWords(); err != nil {
		return err
	}
	return t.resume()
}

// openKernel registers everything a call can reach: the core's own tools,
// memory and plugins. The tools of a plugin that the session's group may not
// use are known, so that they are refused for what they are, and not started.
func (t *Toolset) openKernel(ctx context.Context, with *memory.Store, plugins Plugins) error {
	own, err := t.ownTools(with)
	if err != nil {
		return err
	}
	if err := t.checkPins(own); err != nil {
		return err
	}
	others, err := plugins.Start(ctx, own)
	if err != nil {
		return err
	}
	k, err := t.newKernel()
	if err != nil {
		return err
	}
	for _, tool := range slices.Concat(own, others) {
		if !t.o.Kin.Has(tool.Capability) {
			continue
		}
		tool.Capability = t.on.Inst.Config.Pinned(tool.Capability)
		if err := k.Register(tool); err != nil {
			return config.Errorf("tool %s: %w", tool.Capability.ID, err)
		}
	}
	t.Kernel = k
	return plugins.Attach()
}

// maxWords is how long the operator's words may be that are looked for in calls, in bytes.
// Beyond that a person is asked as if they had not been said.
const maxWords = 256 << 10

// observeWords tells the kernel what the operator typed: what calls take from there was
// not chosen by an outsider (K-26).
func (t *Toolset) observeWords() error {
	text := strings.Join(t.o.Words, "\n")
	if text == "" || len(text) > maxWords {
		return nil
	}
	return t.Kernel.Observe(t.on.Key(), nacre.Source{Provenance: nacre.SeenOperator, Name: "the command"}, text)
}

// resume tells the kernel what the session had been told when its process was killed. What an
// outsider told it then stands in its home and its memory, and counts (M-52).
func (t *Toolset) resume() error {
	earlier := t.on.Earlier()
	if len(earlier) == 0 {
		return nil
	}
	told, err := receipt.Told(t.on.Inst, earlier)
	if err != nil {
		return fmt.Errorf("what the session had been told before it was killed: %w", err)
	}
	ruled, err := receipt.Ruled(t.on.Inst, earlier)
	if err != nil {
		return fmt.Errorf("what was answered before the session was interrupted: %w", err)
	}
	return t.Kernel.Resume(t.on.Key(), told, "what was read before the session was resumed", ruled...)
}

// Tainted tells whether the session has listened to an outsider; before the toolset is open
// nobody can tell.
func (t *Toolset) Tainted() bool { return t.Kernel == nil || t.Kernel.Tainted(t.on.Key()) }

// Opened is the kernel, once the toolset is open.
func (t *Toolset) Opened() *kernel.Kernel { return t.Kernel }

// Catalog is what the session's group may use.
func (t *Toolset) Catalog() []nacre.Capability {
	return t.Kernel.Catalog(t.on.Inst.Principal(t.on.Group(), t.on.ID(), ""))
}

// Usable is what a principal's group may use. Where all of it rests until a first call, no
// plugin is started for the group, and what the core itself brings is what there is.
func (t *Toolset) Usable(principal nacre.Principal) []nacre.Capability {
	if t.Kernel != nil {
		return t.Kernel.Catalog(principal)
	}
	var all []nacre.Capability
	for _, tool := range slices.Concat(t.intrinsic().Tools(), []nacre.Tool{t.on.Folders.Tool()}, t.scheduleTools()) {
		if t.on.Inst.Config.ToolGroups().Allows(principal.Group, tool.Capability) {
			all = append(all, tool.Capability)
		}
	}
	slices.SortFunc(all, func(a, b nacre.Capability) int { return strings.Compare(string(a.Tool), string(b.Tool)) })
	return all
}

// Recall says what the session may see of a text of its group's memory (K-27).
func (t *Toolset) Recall(text string) (string, error) {
	if t.Kernel == nil { // what is sealed stays so
		return text, nil
	}
	return t.Kernel.Recall(t.on.Inst.Principal(t.on.Group(), t.on.ID(), ""), text)
}

// About is what plugins and the session's agent are told of the session.
func (t *Toolset) About() map[string]any { return t.intrinsic().Info() }

// checkPins refuses a pin of a tool that is nowhere: a name that was mistyped
// would leave the tool that was meant as its author declares it (D-20). Where a
// plugin could not be read, nobody knows what its tools would have been.
func (t *Toolset) checkPins(own []nacre.Tool) error {
	known := map[string]bool{}
	for _, tool := range own {
		known[string(tool.Capability.Tool)] = true
	}
	unread := false
	for _, f := range t.on.Found.Plugins {
		unread = unread || f.Err != nil
		for _, tool := range f.Manifest.Provides.Tools {
			known[string(tool.Name)] = true
		}
	}
	for name := range t.on.Inst.Config.Tools {
		if !known[name] && !unread {
			return config.Errorf("[tools.%s]: no plugin has a tool of this name, so nothing would be pinned", name)
		}
	}
	return nil
}

// ownTools are what the core itself brings: the intrinsics, schedules and memory.
func (t *Toolset) ownTools(with *memory.Store) ([]nacre.Tool, error) {
	tools, err := memory.Tools(with)
	return slices.Concat(t.intrinsic().Tools(), []nacre.Tool{t.on.Folders.Tool()}, t.o.Kin.Tools(), t.scheduleTools(), tools), err
}

// intrinsic is what the core's own tools read of the session.
func (t *Toolset) intrinsic() intrinsic.Session {
	return intrinsic.Session{
		Group: t.on.Group(), Started: t.on.Started, Refusals: &t.Refused,
		Kernel: func() *kernel.Kernel { return t.Kernel }, Plugins: t.o.Health,
	}
}

// scheduleTools let the session's agent make schedules for its group.
func (t *Toolset) scheduleTools() []nacre.Tool {
	return scheduling.Tools(t.on.Inst, func(id nacre.SessionID) nacre.Label {
		if t.Kernel.Tainted(nacre.KeyOf(t.on.Group(), id)) {
			return nacre.Untrusted
		}
		return nacre.Trusted
	})
}
