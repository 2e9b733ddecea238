package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox/inside"
)

// newPodOrder resolves and checks all that the command names.
func newPodOrder(o PodOptions, c Command) (inside.PodOrder, error) {
	limits := c.Posture.Limits.WithDefaults()
	order := podOrder{inside.PodOrder{Settings: o.Settings, Label: c.Label, Owner: podOwner(), Sockets: c.SocketDir, Disk: limits.Disk}}
	sources := OpenSources(o.StateDir)
	defer sources.Close()
	for _, m := range c.Posture.Mounts {
		if err := order.add(sources, m); err != nil {
			return inside.PodOrder{}, fmt.Errorf("mount %s at %s: %w", m.Source, m.Target, err)
		}
	}
	if c.SocketDir != "" {
		if _, err := sources.OpenSockets(c.SocketDir); err != nil {
			return inside.PodOrder{}, err
		}
	}
	forwards, err := c.Forwards()
	if err != nil {
		return inside.PodOrder{}, err
	}
	order.Work = inside.Container{
		Forwards: forwards, Routed: true,
		Agent: inside.Agent{
			Argv: c.Argv, Env: c.Environ(), Dir: c.Posture.Dir, Writable: order.writable(),
			Limits: inside.Limits{OpenFiles: uint64(limits.OpenFiles), FileSize: uint64(limits.FileSize), Data: uint64(limits.Memory)}, //nolint:gosec // checked: none is below zero
		},
	}
	return order.PodOrder, nil
}

// podOwner is whoever asks for the sandbox, for people who find it in their cluster.
func podOwner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s pid %d", host, os.Getpid())
}

// podOrder is an order that is being made.
type podOrder struct{ inside.PodOrder }

func (o *podOrder) add(sources *Sources, m nacre.Mount) error {
	if err := CheckTarget(m.Target); err != nil {
		return err
	}
	target := path.Clean(m.Target)
	switch m.Kind {
	case nacre.Tmpfs:
		o.Entries = append(o.Entries, inside.PodEntry{Kind: inside.PodFolder, Target: target, Dir: true})
	case nacre.Mask:
		o.Entries = append(o.Entries, inside.PodEntry{Kind: inside.PodHidden, Target: target})
	case nacre.SymlinkTo:
		o.Entries = append(o.Entries, inside.PodEntry{Kind: inside.PodLink, Target: target, Source: m.Source})
	case nacre.BindReadOnly, nacre.BindReadWrite:
		s, err := sources.Open(m)
		if err != nil || s == nil {
			return err
		}
		e := inside.PodEntry{Kind: inside.PodCopy, Target: target, Source: s.Path(), Dir: s.Dir(), Returns: m.Kind == nacre.BindReadWrite}
		e.Dev, e.Ino = s.File()
		o.Entries = append(o.Entries, e)
	case nacre.Overlay:
		return errors.New("a pod cannot lay a private layer over a folder of this machine: use the native backend for it")
	default:
		return fmt.Errorf("kind %d is unknown", m.Kind)
	}
	return nil
}

// writable are the places where the agent may write, where the pod's kernel has Landlock.
func (o *podOrder) writable() []string {
	list := []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/pts", "/dev/shm", "/tmp", "/home/agent"}
	for _, e := range o.Entries {
		if e.Kind == inside.PodFolder || e.Returns {
			list = append(list, e.Target)
		}
	}
	return list
}
