// Package basis is what a sealed session and whoever works in one stand on: the open session
// and its installation, what was found of the machine, what its agent may reach, whom it tells,
// and its place among agents that asked for one another. It opens and serves nothing.
package basis

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/access"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/planted"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/session"
	"github.com/nacre-dev/nacre/internal/toolchain"
)

// Basis is what all parts of a session stand on.
type Basis struct {
	*session.Session // nil until it is open
	Inst             *installation.Installation
	Agent            string // the brain with its version
	Found            *Findings
	Started          time.Time
	// Before is what stood at the top of its project before the agent had it.
	Before     planted.Top
	Tell, Warn func(nacre.Step)
	// Rules are all that the session's agent may reach.
	Rules []nacre.EgressRule
	// Powers are those that it has: of credentials that are locked without.
	Powers []string
}

// NoteLimit records and tells that a sandbox was ended for a limit. The
// recorder itself stops the session where it fails.
func (b *Basis) NoteLimit(ctx context.Context, why string) {
	if why == "" {
		return
	}
	_ = b.Recorder.Commit(context.WithoutCancel(ctx), nacre.Record{Kind: installation.KindLimit, Source: "core", Outcome: "ended", Reason: why})
	b.Warn(nacre.Step{Kind: nacre.StepResult, Name: "limit", Text: "the sandbox was ended: " + why, IsError: true})
}

// Findings are what a session needs to know of the machine. They are looked up
// while the session opens; wait before reading them.
type Findings struct {
	Wait sync.WaitGroup
	// System are the mounts of the system folders; it does not wait.
	System     func() []nacre.Mount
	Toolchains []posture.Toolchain
	Plugins    []pluginhost.Found
	Err        error // of plugins
}

// LookAround does not look for plugins where that is for later.
func LookAround(ctx context.Context, inst *installation.Installation, group nacre.Group, later bool) *Findings {
	f := &Findings{System: sync.OnceValue(sandbox.SystemMounts)}
	f.Wait.Go(func() {
		f.Toolchains = toolchain.Find(ctx, toolchain.OpenMemo(inst.Options.Getenv, filepath.Join(inst.Registry.Paths().State, "toolchains.json"), f.System))
	})
	if !later {
		f.Wait.Go(func() { f.Plugins, f.Err = access.PluginsOf(inst, group) })
	}
	return f
}
