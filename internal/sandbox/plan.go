package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox/inside"
)

// Sizes of the tmpfs that every sandbox has, in bytes, unless the posture
// mounts its own at the same place.
const (
	tmpSize  = 256 << 20
	homeSize = 256 << 20
	shmSize  = 64 << 20
	runSize  = 16 << 20
)

// maxMounts of a posture.
const maxMounts = 512

// plan is the posture as PID 1 carries it out, with the mount trees it inherits.
type plan struct {
	inside.Plan
	trees   []*os.File
	sources []*source
	null    *os.File
}

func (p *plan) close() {
	for _, t := range p.trees {
		_ = t.Close() // the sandbox has its own copies
	}
	for _, s := range p.sources {
		s.close()
	}
	if p.null != nil {
		_ = p.null.Close()
	}
}

// newPlan resolves and checks all that the command names. On error nothing stays open.
func (n *Native) newPlan(c Command) (*plan, error) {
	limits := c.Posture.Limits.WithDefaults()
	p := &plan{Plan: inside.Plan{
		Devices:      c.Terminal,
		InnerUID:     n.users.inner(),
		KeepOverride: n.users.privileged,
		Agent: inside.Agent{
			Argv: c.Argv, Env: c.Posture.Env, Dir: c.Posture.Dir,
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
		err = p.addForwards(c)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
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
	if len(c.Posture.Mounts) > maxMounts {
		return fmt.Errorf("posture with %d mounts: the limit is %d", len(c.Posture.Mounts), maxMounts)
	}
	b := binder{native: n, plan: p, guard: newGuard(n.options.StateDir)}
	for _, m := range c.Posture.Mounts {
		if err := b.add(m); err != nil {
			return fmt.Errorf("mount %s at %s: %w", m.Source, m.Target, err)
		}
	}
	return nil
}

// binder turns mounts of a posture into steps of a plan.
type binder struct {
	native   *Native
	plan     *plan
	guard    guard
	writable []writableBind
}

type writableBind struct {
	source *source
	target string
}

func (b *binder) add(m nacre.Mount) error {
	target := path.Clean(m.Target)
	if err := checkTarget(m.Target); err != nil {
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

func checkTarget(target string) error {
	if !path.IsAbs(target) || strings.ContainsRune(target, 0) || path.Clean(target) == "/" {
		return errors.New("the target must be an absolute path below /")
	}
	clean := path.Clean(target)
	if contains("/proc", clean) || contains("/sys", clean) || clean == "/dev" ||
		contains("/dev", clean) && !contains("/dev/shm", clean) {
		return errors.New("the target is the sandbox's own: refused")
	}
	return nil
}

func (b *binder) bind(m nacre.Mount, step inside.Mount) error {
	s, err := b.open(m.Source)
	if m.Optional && errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	b.plan.sources = append(b.plan.sources, s)
	if err := b.guard.check(s, m.Kind); err != nil {
		return err
	}
	step.Kind, step.Dir, step.ReadOnly = inside.Tree, s.dir(), m.Kind != nacre.BindReadWrite
	if m.Kind == nacre.Overlay {
		if !step.Dir {
			return errors.New("an overlay is made over a folder")
		}
		step.Overlay = true
		b.plan.Agent.Writable = append(b.plan.Agent.Writable, step.Target)
		return b.native.attach(b.plan, s, step, mapRequired)
	}
	if !step.ReadOnly {
		b.writable = append(b.writable, writableBind{s, step.Target})
		b.plan.Agent.Writable = append(b.plan.Agent.Writable, step.Target)
	}
	return b.native.attach(b.plan, s, step, b.mapOwner(s, step))
}

// open resolves a source; below one that is writable it follows no links.
func (b *binder) open(name string) (*source, error) {
	clean := filepath.Clean(name)
	for _, w := range b.writable {
		if w.source.dir() && clean != w.source.path && contains(w.source.path, clean) {
			return w.source.openBelow(strings.TrimPrefix(clean, w.source.path+"/"))
		}
	}
	return openSource(name)
}

// mapOwner says whether the source's owner must appear as the agent.
func (b *binder) mapOwner(s *source, step inside.Mount) mapping {
	if !step.ReadOnly {
		return mapRequired
	}
	for _, w := range b.writable {
		if contains(w.target, step.Target) {
			return mapRequired
		}
	}
	if !readableByAll(s) {
		return mapRequired
	}
	if isSystem(s.path) {
		return mapNever
	}
	return mapWhere
}

// isSystem is true for what the host's packages own. It is shown as it is, so
// that what only root may read stays so.
func isSystem(name string) bool {
	for _, dir := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix", "/var"} {
		if contains(dir, name) {
			return true
		}
	}
	return false
}

func readableByAll(s *source) bool {
	if s.dir() {
		return s.stat.Mode&0o005 == 0o005
	}
	return s.stat.Mode&0o004 != 0
}

// addSockets binds the session's socket directory, the one place from which
// the sandbox reaches the host.
func (n *Native) addSockets(p *plan, dir string) error {
	s, err := openSource(dir)
	if err != nil {
		return fmt.Errorf("socket directory: %w", err)
	}
	p.sources = append(p.sources, s)
	if !s.dir() {
		return fmt.Errorf("socket directory %s is not a directory", dir)
	}
	if int(s.stat.Uid) != os.Geteuid() || s.stat.Mode&0o022 != 0 {
		return fmt.Errorf("socket directory %s: it must be owned by this user and not writable by others", dir)
	}
	step := inside.Mount{Kind: inside.Tree, Target: nacre.SocketDir, Dir: true, ReadOnly: true, NoExec: true}
	return n.attach(p, s, step, mapRequired)
}

func (p *plan) addForwards(c Command) error {
	for _, f := range c.Posture.Forwards {
		if f.Port == 0 || f.Socket == "" || f.Socket != path.Base(f.Socket) || f.Socket == ".." || f.Socket == "." {
			return fmt.Errorf("forward %d to %q: name a port and a socket in the socket directory", f.Port, f.Socket)
		}
		if c.SocketDir == "" {
			return fmt.Errorf("forward %d: there is no socket directory", f.Port)
		}
		p.Forwards = append(p.Forwards, inside.Forward{Port: f.Port, Path: path.Join(nacre.SocketDir, f.Socket)})
	}
	return nil
}
