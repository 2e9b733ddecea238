//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path"
	"syscall"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox/inside"
	"github.com/nacre-dev/nacre/internal/sandbox/loopback"
)

// Sizes of the tmpfs that every sandbox has, in bytes, unless the posture
// mounts its own at the same place.
const (
	tmpSize  = 256 << 20
	homeSize = 256 << 20
	shmSize  = 64 << 20
	runSize  = 16 << 20
)

// plan is the posture as PID 1 carries it out, with the mount trees it inherits.
type plan struct {
	inside.Plan
	confined inside.Confined
	trees    []*os.File
	sources  *Sources
}

func (p *plan) close() {
	for _, t := range p.trees {
		_ = t.Close() // the sandbox has its own copies
	}
	p.sources.Close()
}

// newPlan resolves and checks all that the command names. On error nothing stays open.
func (n *Native) newPlan(c Command) (*plan, error) {
	limits := c.Posture.Limits.WithDefaults()
	p := &plan{sources: OpenSources(n.options.StateDir), Plan: inside.Plan{
		Devices:      c.Terminal,
		InnerUID:     n.users.inner(),
		KeepOverride: n.users.privileged,
		Agent: inside.Agent{
			Argv: c.Argv, Env: c.Environ(), Dir: c.Posture.Dir,
			Limits: inside.Limits{
				Processes: uint64(limits.Processes), OpenFiles: uint64(limits.OpenFiles), FileSize: uint64(limits.FileSize),
			},
			Landlock: n.landlock,
			Writable: []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/pts"},
		},
	}}
	p.Mounts = baseMounts(c.Posture.Mounts)
	for _, m := range p.Mounts {
		p.Agent.Writable = append(p.Agent.Writable, m.Target)
	}
	err := n.addPosture(p, c)
	if err == nil && c.SocketDir != "" {
		err = n.addSockets(p, c.SocketDir)
	}
	if err == nil {
		p.Forwards, err = c.Forwards()
	}
	if err == nil && c.Network != nil {
		err = p.addNetwork(c.Network)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// addNetwork sends PID 1 the socket over which it is asked for sockets.
func (p *plan) addNetwork(n *loopback.Network) error {
	theirs, err := n.HandOver()
	if err != nil {
		return err
	}
	p.trees = append(p.trees, theirs) // closed with the others once PID 1 has its own
	p.Network = len(p.trees)
	return nil
}

// baseMounts are the scratch places of every sandbox.
func baseMounts(posture []nacre.Mount) []inside.Mount {
	own := map[string]bool{}
	for _, m := range posture {
		if m.Kind == nacre.Tmpfs {
			own[path.Clean(m.Target)] = true
		}
	}
	var base []inside.Mount
	for _, m := range []inside.Mount{
		{Kind: inside.Tmpfs, Target: "/tmp", Size: tmpSize, Mode: 0o1777},
		{Kind: inside.Tmpfs, Target: "/run", Size: runSize, NoExec: true},
		{Kind: inside.Tmpfs, Target: "/dev/shm", Size: shmSize, Mode: 0o1777, NoExec: true},
		{Kind: inside.Tmpfs, Target: "/home/agent", Size: homeSize, Mode: 0o700},
	} {
		if !own[m.Target] {
			base = append(base, m)
		}
	}
	return base
}

func (n *Native) addPosture(p *plan, c Command) error {
	b := binder{native: n, plan: p}
	for _, m := range c.Posture.Mounts {
		if err := b.add(m); err != nil {
			err = fmt.Errorf("mount %s at %s: %w", m.Source, m.Target, err)
			if errors.Is(err, syscall.EPERM) {
				return explain(err) // root without root's rights, as in a container, meets it here first
			}
			return err
		}
	}
	return nil
}

// binder turns mounts of a posture into steps of a plan.
type binder struct {
	native *Native
	plan   *plan
}

func (b *binder) add(m nacre.Mount) error {
	target := path.Clean(m.Target)
	if err := CheckTarget(m.Target); err != nil {
		return err
	}
	step := inside.Mount{Target: target, NoExec: m.NoExec, Optional: m.Optional, Size: m.Size}
	switch m.Kind {
	case nacre.Tmpfs:
		step.Kind = inside.Tmpfs
		if target == "/tmp" || target == "/dev/shm" {
			step.Mode = 0o1777
		}
		b.plan.Agent.Writable = append(b.plan.Agent.Writable, target)
	case nacre.Mask:
		step.Kind = inside.Mask
	case nacre.SymlinkTo:
		step.Kind, step.Source = inside.Symlink, m.Source
	case nacre.BindReadOnly, nacre.BindReadWrite, nacre.Overlay:
		return b.bind(m, step)
	default:
		return fmt.Errorf("kind %d is unknown", m.Kind)
	}
	b.plan.Mounts = append(b.plan.Mounts, step)
	return nil
}

func (b *binder) bind(m nacre.Mount, step inside.Mount) error {
	s, err := b.plan.sources.Open(m)
	if err != nil || s == nil {
		return err
	}
	step.Kind, step.Dir, step.ReadOnly = inside.Tree, s.dir(), m.Kind != nacre.BindReadWrite
	if m.Kind == nacre.Overlay {
		return b.overlay(m, s, step)
	}
	if !step.ReadOnly {
		b.plan.Agent.Writable = append(b.plan.Agent.Writable, step.Target)
	}
	return b.native.attach(b.plan, s, step, s.mapping)
}

// overlay lays what can be written over a source.
func (b *binder) overlay(m nacre.Mount, s *Source, step inside.Mount) error {
	if !step.Dir {
		return errors.New("an overlay is made over a folder")
	}
	step.Overlay = true
	b.plan.Agent.Writable = append(b.plan.Agent.Writable, step.Target)
	if m.Layer != "" {
		layer, err := b.plan.sources.Open(nacre.Mount{Kind: nacre.BindReadWrite, Source: m.Layer, Target: m.Target})
		if err != nil {
			return fmt.Errorf("layer %s: %w", m.Layer, err)
		}
		if !layer.dir() {
			return fmt.Errorf("layer %s is not a folder", m.Layer)
		}
		tree, err := b.native.named(b.plan, layer, inside.Mount{Kind: inside.Tree, Target: step.Target, Dir: true}, mapRequired)
		if err != nil {
			return fmt.Errorf("layer %s: %w", m.Layer, err)
		}
		step.Layer = &tree
	}
	return b.native.attach(b.plan, s, step, mapRequired)
}

// addSockets binds the session's socket directory, the one place from which
// the sandbox reaches the host.
func (n *Native) addSockets(p *plan, dir string) error {
	s, err := p.sources.OpenSockets(dir)
	if err != nil {
		return err
	}
	step := inside.Mount{Kind: inside.Tree, Target: nacre.SocketDir, Dir: true, ReadOnly: true, NoExec: true}
	return n.attach(p, s, step, mapRequired)
}
