// Package pins copies the files that a call names to where the agent that named
// them cannot change them any more: what was approved is what runs.
package pins

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/overlay"
	"github.com/nacre-dev/nacre/internal/planted"
)

const (
	// maxPinned is how much the copies of one session can hold at once, in bytes.
	maxPinned = 256 << 20
)

const (
	// maxPinName is the longest name of a file, in bytes.
	maxPinName = 4096
)

const (
	// maxReopened is how often a file is opened while somebody moves folders about.
	maxReopened = 8
)

// Pinner copies files of a workspace to where its agent cannot reach them
// (D-13). The zero value has no workspace and copies nothing.
type Pinner struct {
	workspace string // a path without symbolic links
	dir       string
	base      string // what the workspace is a layer over; empty where it is none

	mu   sync.Mutex
	kept map[string]int64
	held int64
}

// Close removes every copy.
func (p *Pinner) Close() error { return os.RemoveAll(p.dir) }

// New keeps copies in dir of files of a workspace, a path without symbolic links.
func New(workspace, dir string) *Pinner {
	return &Pinner{workspace: workspace, dir: dir, kept: map[string]int64{}}
}

// Over says what the workspace is a layer over; empty where it is none.
func (p *Pinner) Over(base string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.base = base
}

// Pin implements kernel.Pinner.
func (p *Pinner) Pin(ctx context.Context, _ nacre.Principal, name string, limit int64) (nacre.FilePin, error) {
	if err := checkPinName(name); err != nil {
		return nacre.FilePin{}, err
	}
	if p.workspace == "" {
		return nacre.FilePin{}, badFile("this session has no project, so there are no files to name")
	}
	file, size, err := p.open(name)
	if err != nil {
		return nacre.FilePin{}, err
	}
	defer func() { _ = file.Close() }() // only read from
	if size > limit {
		return nacre.FilePin{}, badFile("the file has %d bytes, and there is room for %d: the files of one call are copied", size, limit)
	}
	if err := ctx.Err(); err != nil {
		return nacre.FilePin{}, err
	}
	return p.copy(file, size)
}

// Unpin implements kernel.Pinner.
func (p *Pinner) Unpin(pin nacre.FilePin) {
	p.mu.Lock()
	defer p.mu.Unlock()
	size, ok := p.kept[pin.Path]
	if !ok {
		return
	}
	if os.Remove(pin.Path) == nil { // else it goes with the session, and counts until then
		p.held -= size
	}
	delete(p.kept, pin.Path)
}

func badFile(format string, values ...any) *nacre.Refusal {
	return &nacre.Refusal{Code: nacre.CodeValidationFailed, Message: fmt.Sprintf(format, values...)}
}

func checkPinName(name string) error {
	switch {
	case name == "", strings.ContainsRune(name, 0), len(name) > maxPinName:
		return badFile("a file's name has 1–%d bytes, none of them zero", maxPinName)
	case filepath.IsAbs(name), slices.Contains(strings.Split(name, "/"), ".."):
		return badFile("name the file by its path from the project's folder, without ..")
	case slices.ContainsFunc(strings.Split(name, "/"), planted.IsGitName): // the agent's own has no credentials, and the host's may
		return badFile("what is in git's own folder is not handed over: copy the file to another place")
	}
	return nil
}

// open opens a regular file of the workspace. Its agent can put anything there at any time, so the kernel
// resolves the name without following a link. What was opened is looked at, not what the name says.
func (p *Pinner) open(name string) (*os.File, int64, error) {
	root, err := disk.Open(unix.AT_FDCWD, p.workspace, disk.LookOnly|unix.O_DIRECTORY, false)
	if err != nil {
		return nil, 0, fmt.Errorf("workspace: %w", err)
	}
	defer func() { _ = unix.Close(root) }() // only looked at
	fd, err := p.openShown(root, name)
	if err != nil {
		return nil, 0, whyNotOpened(err)
	}
	file := os.NewFile(uintptr(fd), name)
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = badFile("it is no regular file")
	}
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}

// openShown opens what the agent sees by a name, in a layer or under it.
func (p *Pinner) openShown(root int, name string) (int, error) {
	p.mu.Lock()
	base := p.base
	p.mu.Unlock()
	if base == "" {
		return p.openIn(root, name)
	}
	under, err := disk.Open(unix.AT_FDCWD, base, disk.LookOnly|unix.O_DIRECTORY, false)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(under) }() // only looked at
	return overlay.Open(name, func(side overlay.Side, name string) (int, error) {
		if side == overlay.Base {
			return p.openIn(under, name)
		}
		fd, err := p.openIn(root, name)
		if (errors.Is(err, unix.ENXIO) || errors.Is(err, unix.EACCES)) && removed(root, name) {
			err = errRemoved
		}
		return fd, err
	})
}

// errRemoved says that a layer has a mark in the place of a file of its base.
var errRemoved = errors.New("the file was removed")

// removed tells such a mark, which cannot be opened and which nobody but root may read, from a socket and
// from a file that may not be read.
func removed(root int, name string) bool {
	fd, err := disk.Open(root, name, disk.LookOnly|unix.O_NOFOLLOW, true)
	if err != nil {
		return false
	}
	mark := os.NewFile(uintptr(fd), name)
	info, err := mark.Stat()
	return errors.Join(err, mark.Close()) == nil && overlay.IsGone(info)
}

// openIn opens what is below root, with no more rights than its owner has: a
// host that is root can read what the agent it serves cannot.
func (p *Pinner) openIn(root int, name string) (fd int, err error) {
	// Not waiting keeps a FIFO, or a file under a lease, from holding the call up.
	const flags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY
	err = disk.AsOwner(root, func() error {
		for range maxReopened {
			if fd, err = disk.Open(root, name, flags, true); !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
				break
			}
		}
		return err
	})
	return fd, err
}

// whyNotOpened says to an agent what it can mend.
func whyNotOpened(err error) error {
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, errRemoved):
		return badFile("there is no such file in the project's folder")
	case errors.Is(err, unix.ELOOP):
		return badFile("it is a symbolic link, or lies behind one: name the file itself")
	case errors.Is(err, unix.EXDEV):
		return badFile("it lies outside the project's folder")
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return badFile("the file may not be read")
	case errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV):
		return badFile("it is no regular file")
	case errors.Is(err, unix.ENAMETOOLONG):
		return badFile("its name is too long")
	case errors.Is(err, unix.EAGAIN):
		return &nacre.Refusal{Message: "it is being changed: name it again when that is done", Retriable: true}
	}
	return fmt.Errorf("open a file of the workspace: %w", err)
}

// copy keeps exactly size bytes, and digests what it has written.
func (p *Pinner) copy(from io.Reader, size int64) (pin nacre.FilePin, err error) {
	if err := p.reserve(size); err != nil {
		return pin, err
	}
	pin.Bytes = size
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if err == nil {
			p.kept[pin.Path] = size
			return
		}
		p.held -= size
	}()
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return pin, err
	}
	to, err := os.CreateTemp(p.dir, "") // 0600
	if err != nil {
		return pin, err
	}
	pin.Path = to.Name()
	digest := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, digest), io.LimitReader(from, size+1))
	if err == nil && n != size {
		err = &nacre.Refusal{Message: "it changed while it was read: name it again when that is done", Retriable: true}
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return nacre.FilePin{}, errors.Join(err, os.Remove(pin.Path))
	}
	pin.SHA256 = hex.EncodeToString(digest.Sum(nil))
	return pin, nil
}

func (p *Pinner) reserve(size int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if size > maxPinned-p.held {
		return &nacre.Refusal{Message: "calls that wait hold too many files: try again when one has ended", Retriable: true}
	}
	p.held += size
	return nil
}
