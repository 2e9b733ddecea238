// Package overlay promises that bases, the checkouts that many sessions work over, are whole. What
// an overlay of the kernel's leaves in a layer over one is read as what it is, and not as what
// somebody made it look like. It knows nothing of git, and mounts nothing.
package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
)

// ErrForeign says that something has no place in a base or a layer.
var ErrForeign = errors.New("not an overlay's own")

// Kind is what a name of a layer does to what is below it.
type Kind uint8

// The kinds.
const (
	File   Kind = iota + 1
	Folder      // what the base has in it is there as well
	Opaque      // a folder that hides what the base has in it
	Gone
)

// Shape is what a layer has.
type Shape map[string]Kind

// Hides tells whether a file of the base is covered by something of the layer.
func (s Shape) Hides(name string) bool {
	if s[name] != 0 {
		return true
	}
	for i, c := range []byte(name) {
		if kind := s[name[:i]]; c == '/' && kind != 0 && kind != Folder {
			return true
		}
	}
	return s["."] == Opaque
}

// IsGone tells what the kernel puts into a layer for a file that is gone. An agent
// cannot make one: in what it is shown the kernel refuses to.
func IsGone(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode()&fs.ModeCharDevice != 0 && st.Rdev == 0
}

// layerMarks begin the names of what the kernel notes of a layer's files. An agent
// that sets one of its own gets it under agentMarks.
const (
	layerMarks = "user.overlay."
	agentMarks = layerMarks + "overlay."
	opaqueMark = layerMarks + "opaque"
	// maxMarks is how long the names of a file's attributes may be in all, in bytes:
	// the kernel's own limit.
	maxMarks = 64 << 10
)

// hidesBase tells whether an opened folder of a layer hides what the base has in
// it. What cannot be read hides it.
func hidesBase(folder int) bool {
	size, err := unix.Fgetxattr(folder, opaqueMark, make([]byte, 8))
	return size > 0 || err != nil && !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.ENOTSUP)
}

// harmlessMarks say nothing of what a file holds.
func harmlessMarks(name string) bool {
	switch strings.TrimPrefix(name, layerMarks) {
	case "origin", "impure", "nlink", "upper", "uuid", "protattr":
		return true
	}
	return !strings.HasPrefix(name, layerMarks) || strings.HasPrefix(name, agentMarks)
}

// Marks reads what the kernel has noted of a file or folder of a layer. What would
// make the file another than it reads, such as one whose content is elsewhere, was
// not asked of the kernel, and is refused.
func Marks(f *os.File) (opaque bool, err error) {
	names := make([]byte, maxMarks)
	n, err := unix.Flistxattr(int(f.Fd()), names)
	if errors.Is(err, unix.ENOTSUP) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("attributes: %w", err)
	}
	for _, name := range strings.Split(strings.TrimSuffix(string(names[:n]), "\x00"), "\x00") {
		switch {
		case name == "":
		case name == opaqueMark:
			value := make([]byte, 8)
			size, err := unix.Fgetxattr(int(f.Fd()), name, value)
			if err != nil || string(value[:size]) != "y" {
				return false, errors.Join(fmt.Errorf("attribute %s: %w", name, ErrForeign), err)
			}
			opaque = true
		case !harmlessMarks(name):
			return false, fmt.Errorf("attribute %.80q: %w", name, ErrForeign)
		}
	}
	return opaque, nil
}

// Open opens what is seen by a name below a layer over a base: the layer's own, and
// the base's where the layer neither has nor hides it. open opens below one of both.
func Open(name string, open func(below Side, name string) (int, error)) (int, error) {
	fd, err := open(Layer, path.Join(nacre.LayerUpper, name))
	if !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	parts := strings.Split(path.Clean(name), "/")
	for i := 1; i < len(parts); i++ {
		folder, err := open(Layer, path.Join(nacre.LayerUpper, path.Join(parts[:i]...)))
		if errors.Is(err, unix.ENOENT) {
			break // the folder is the base's alone
		}
		if err != nil {
			return -1, err
		}
		hides := hidesBase(folder)
		if err := unix.Close(folder); err != nil || hides {
			return -1, errors.Join(err, unix.ENOENT)
		}
	}
	return open(Base, name)
}

// Side is one of the two that an overlay shows as one.
type Side uint8

// The sides.
const (
	Layer Side = iota
	Base
)
