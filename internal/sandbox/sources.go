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
)

// Sources are the host's sides of a posture's binds, opened and checked in the
// order in which the posture names them. Not for concurrent use.
type Sources struct {
	guard  guard
	bound  []bound
	opened []*Source
}

type bound struct {
	source   *Source
	target   string
	writable bool
}

// OpenSources begins with none; nothing may show stateDir. They are closed together.
func OpenSources(stateDir string) *Sources { return &Sources{guard: newGuard(stateDir)} }

// Close closes what was opened.
func (o *Sources) Close() {
	for _, s := range o.opened {
		s.close()
	}
	o.opened = nil
}

// Open resolves and checks a bind's source. It returns nil where the mount is
// optional and there is none.
func (o *Sources) Open(m nacre.Mount) (*Source, error) {
	s, err := o.resolve(m)
	if m.Optional && errors.Is(err, unix.ENOENT) {
		return nil, nil //nolint:nilnil // absent, as the comment says
	}
	if err != nil {
		return nil, err
	}
	o.opened = append(o.opened, s)
	if err := o.guard.check(s, m.Kind); err != nil {
		return nil, err
	}
	s.mapping = o.mapOwner(s, m)
	o.bound = append(o.bound, bound{s, path.Clean(m.Target), m.Kind == nacre.BindReadWrite})
	return s, nil
}

// Below opens what is below a source, without following any symbolic link.
func (o *Sources) Below(s *Source, rel string) (*Source, error) {
	below, err := s.openBelow(rel)
	if err == nil {
		below.mapping = s.mapping
		o.opened = append(o.opened, below)
	}
	return below, err
}

// OpenSockets opens a session's socket directory, the one place from which a
// sandbox reaches the host.
func (o *Sources) OpenSockets(dir string) (*Source, error) {
	s, err := openSource(dir)
	if err != nil {
		return nil, fmt.Errorf("socket directory: %w", err)
	}
	o.opened = append(o.opened, s)
	if !s.dir() {
		return nil, fmt.Errorf("socket directory %s is not a directory", dir)
	}
	if int(s.stat.Uid) != os.Geteuid() || s.stat.Mode&0o022 != 0 {
		return nil, fmt.Errorf("socket directory %s: it must be owned by this user and not writable by others", dir)
	}
	return s, nil
}

// CheckTarget refuses places that are not a posture's to mount at.
func CheckTarget(target string) error {
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

// resolve opens a source. Below one that is writable it follows no links. Nor does it where what is below one
// that can be read becomes writable: another session's agent may put a link in a folder's place (S-09).
func (o *Sources) resolve(m nacre.Mount) (*Source, error) {
	clean := filepath.Clean(m.Source)
	for _, b := range o.bound {
		if (b.writable || m.Kind == nacre.BindReadWrite) && b.source.dir() && clean != b.source.path && contains(b.source.path, clean) {
			return b.source.openBelow(strings.TrimPrefix(clean, b.source.path+"/"))
		}
	}
	return openSource(m.Source)
}

// mapOwner says whether the source's owner must appear as the agent.
func (o *Sources) mapOwner(s *Source, m nacre.Mount) mapping {
	if m.Kind == nacre.BindReadWrite || m.Kind == nacre.Overlay {
		return mapRequired
	}
	for _, w := range o.bound {
		if w.writable && contains(w.target, path.Clean(m.Target)) {
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

func readableByAll(s *Source) bool {
	if s.dir() {
		return s.stat.Mode&0o005 == 0o005
	}
	return s.stat.Mode&0o004 != 0
}

// mapping says whether a bind shows the files of its owner as the agent's.
// It matters for root only: an ordinary user's files are the agent's anyway.
type mapping uint8

const (
	mapRequired mapping = iota
	mapWhere            // where the file system can
	mapNever
)

type owner struct{ uid, gid int }
