package container

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/sandbox/inside"
)

// Sizes of the tmpfs of every container, in bytes, as the native sandbox has them.
const (
	tmpSize     = 256 << 20
	homeSize    = 256 << 20
	runSize     = 16 << 20
	shmSize     = 64 << 20
	defaultSize = 64 << 20
	emptySize   = 4 << 10
)

type kind uint8

const (
	kindBind kind = iota
	kindTmpfs
)

// entry is one mount of the container. No two have the same target.
type entry struct {
	kind     kind
	target   string
	source   *sandbox.Source
	readOnly bool
	noExec   bool
	size     int64
	mode     uint32
}

// layout turns a posture's mounts, of which a later one covers an earlier one,
// into mounts that an engine makes in the order of their depth.
type layout struct {
	sources *sandbox.Sources
	boot    bootDir
	engine  string // the path of the engine's socket
	apart   bool
	entries []entry
	masked  []string // paths of the image
	links   []inside.Mount
}

// newLayout is closed by closing its sources.
func newLayout(c sandbox.Command, boot bootDir, o Options) (*layout, error) {
	l := &layout{sources: sandbox.OpenSources(o.StateDir), boot: boot, engine: o.Socket, apart: o.Apart}
	err := l.fill(c, o)
	if err != nil {
		l.sources.Close()
		return nil, err
	}
	return l, nil
}

func (l *layout) fill(c sandbox.Command, o Options) error {
	l.entries = []entry{
		{kind: kindTmpfs, target: "/tmp", size: tmpSize, mode: 0o1777},
		{kind: kindTmpfs, target: "/run", size: runSize, mode: 0o755, noExec: true},
		{kind: kindTmpfs, target: "/sys", size: emptySize, mode: 0o555, readOnly: true},
		{kind: kindTmpfs, target: "/sys/fs/cgroup", size: emptySize, mode: 0o555, readOnly: true},
		{kind: kindTmpfs, target: "/home/agent", size: homeSize, mode: 0o700},
	}
	for _, m := range c.Posture.Mounts {
		if err := sandbox.CheckTarget(m.Target); err != nil {
			return fmt.Errorf("mount %s at %s: %w", m.Source, m.Target, err)
		}
		if err := l.add(m); err != nil {
			return fmt.Errorf("mount %s at %s: %w", m.Source, m.Target, err)
		}
	}
	for name, file := range l.boot.etc {
		if err := l.add(nacre.Mount{Source: file, Target: "/etc/" + name}); err != nil {
			return err
		}
	}
	if err := l.add(nacre.Mount{Source: o.Init, Target: inside.Program}); err != nil || o.Apart {
		return err
	}
	if err := l.add(nacre.Mount{Source: l.boot.control, Target: path.Dir(inside.ControlSocket), NoExec: true}); err != nil {
		return err
	}
	return l.addSockets(c.SocketDir)
}

func (l *layout) addSockets(dir string) error {
	if dir == "" {
		return nil
	}
	s, err := l.sources.OpenSockets(dir)
	if err != nil {
		return err
	}
	return l.place(entry{target: nacre.SocketDir, source: s, readOnly: true, noExec: true})
}

func (l *layout) add(m nacre.Mount) error {
	target := path.Clean(m.Target)
	switch m.Kind {
	case nacre.BindReadOnly, nacre.BindReadWrite:
		return l.bind(m, target)
	case nacre.Tmpfs:
		e := entry{kind: kindTmpfs, target: target, size: m.Size, mode: 0o755, noExec: m.NoExec}
		if e.size == 0 {
			e.size = defaultSize
		}
		if target == "/tmp" || target == "/dev/shm" {
			e.mode = 0o1777
		}
		return l.place(e)
	case nacre.Mask:
		return l.mask(target)
	case nacre.SymlinkTo:
		if above := l.above(target); above == nil || above.kind != kindTmpfs || above.readOnly {
			return errors.New("a container's root is read-only: put the link into the image")
		}
		l.links = append(l.links, inside.Mount{Kind: inside.Symlink, Source: m.Source, Target: target})
		return nil
	case nacre.Overlay:
		return errors.New("an engine's container cannot lay a private layer over a folder: use the native backend for it")
	default:
		return fmt.Errorf("kind %d is unknown", m.Kind)
	}
}

func (l *layout) bind(m nacre.Mount, target string) error {
	s, err := l.sources.Open(m)
	if err != nil || s == nil {
		return err
	}
	if within(s.Path(), l.engine) {
		return fmt.Errorf("%s holds the engine's socket (%s): refused", s.Path(), l.engine)
	}
	return l.place(entry{target: target, source: s, readOnly: m.Kind == nacre.BindReadOnly, noExec: m.NoExec})
}

// above is the mount that a target would lie in, nil for the image.
func (l *layout) above(target string) *entry {
	var best *entry
	for i, e := range l.entries {
		if e.target != target && within(e.target, target) && (best == nil || len(e.target) > len(best.target)) {
			best = &l.entries[i]
		}
	}
	return best
}

// place adds a mount. What lies below its target was mounted earlier, and is covered.
func (l *layout) place(e entry) error {
	above := l.above(e.target)
	if above != nil && above.kind == kindTmpfs && !above.readOnly {
		l.lead(*above, e.target)
	} else if above != nil && above.kind == kindBind {
		dir, err := l.lookBelow(*above, e.target)
		if err != nil {
			return err
		}
		if isDir := e.kind == kindTmpfs || e.source.Dir(); isDir != dir {
			return fmt.Errorf("%s: a folder can only be mounted on a folder, and a file on a file", e.target)
		}
		if err := l.pin(*above, e.target); err != nil {
			return err
		}
	}
	l.entries = slices.DeleteFunc(l.entries, func(old entry) bool { return within(e.target, old.target) })
	l.entries = append(l.entries, e)
	return nil
}

// lead makes each folder between a tmpfs and a target a tmpfs like it: the engine would
// make it as root's, and the agent could keep nothing beside the target.
func (l *layout) lead(above entry, target string) {
	for dir := path.Dir(target); dir != above.target; dir = path.Dir(dir) {
		like := above
		like.target = dir
		l.entries = append(l.entries, like)
	}
}

// lookBelow looks at a target on the host, through the bind it lies in. The
// engine would make what is missing, and would follow what a project planted.
func (l *layout) lookBelow(above entry, target string) (dir bool, err error) {
	s, err := l.sources.Below(above.source, strings.TrimPrefix(target, above.target+"/"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("%s %w", target, errNoPlace)
	}
	if err != nil {
		return false, err
	}
	return s.Dir(), nil
}

// pin makes each folder between a writable bind and a target a mount of its
// own, which cannot be renamed.
func (l *layout) pin(above entry, target string) error {
	if above.readOnly {
		return nil
	}
	for dir := path.Dir(target); dir != above.target; dir = path.Dir(dir) {
		if slices.ContainsFunc(l.entries, func(e entry) bool { return e.target == dir }) {
			continue
		}
		s, err := l.sources.Below(above.source, strings.TrimPrefix(dir, above.target+"/"))
		if err != nil {
			return err
		}
		l.entries = append(l.entries, entry{target: dir, source: s, noExec: above.noExec})
	}
	return nil
}

// mask hides what is at a target; where there is nothing, nothing needs hiding.
func (l *layout) mask(target string) error {
	above := l.above(target)
	if above == nil {
		if strings.Contains(target, ":") {
			return errors.New("a path of an image with a colon cannot be masked: podman divides its list of them by colons")
		}
		l.masked = append(l.masked, target)
		return nil
	}
	if above.kind != kindBind {
		return nil
	}
	dir, err := l.lookBelow(*above, target)
	if errors.Is(err, errNoPlace) {
		return nil
	}
	if err != nil {
		return err
	}
	empty := l.boot.emptyFile
	if dir {
		empty = l.boot.emptyDir
	}
	s, err := l.sources.Open(nacre.Mount{Source: empty, Target: target})
	if err != nil {
		return err
	}
	return l.place(entry{target: target, source: s, readOnly: true, noExec: true})
}

// writable are the places where the agent may write.
func (l *layout) writable() []string {
	list := []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/pts", "/dev/shm"}
	for _, e := range l.entries {
		if !e.readOnly && (!l.apart || !within(e.target, nacre.SocketDir)) { // PID 1 makes the sockets itself there
			list = append(list, e.target)
		}
	}
	return list
}

// binds are what PID 1 looks at again. A kernel of the runtime's own shows other numbers than the
// host's, and no flags; a machine of the engine's own shows other numbers.
func (l *layout) binds(flags, numbers bool) []inside.Bind {
	var list []inside.Bind
	for _, e := range l.entries {
		if e.kind != kindBind {
			continue
		}
		b := inside.Bind{Target: e.target}
		b.ReadOnly = flags && e.readOnly
		if numbers {
			b.Dev, b.Ino = e.source.File()
		}
		list = append(list, b)
	}
	return list
}
