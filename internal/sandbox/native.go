//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/sandbox/inside"
)

// Native starts sandboxes on this machine. It may be used concurrently.
type Native struct {
	*Mapper
	options  Options
	landlock int
	cgroups  cgroups
	ready    chan *first // at most one, and closed then
}

// Open begins to copy the init binary out of reach and returns. Whether this
// machine lets sandboxes run at all is tried by [Support], and by Start when it fails.
func Open(o Options) (*Native, error) {
	n := &Native{options: o, landlock: inside.LandlockVersion(), cgroups: findCgroups(hostCgroups())}
	if n.landlock == 0 && !o.WithoutLandlock {
		return nil, errors.New("this kernel has no Landlock, which the native sandbox wants (Linux 5.13, lsm=landlock): " +
			"use another backend, or allow it to run without")
	}
	var err error
	if n.Mapper, err = OpenMapper(o.Init, false); err != nil {
		return nil, err
	}
	n.ready = make(chan *first, 1)
	if !o.Ahead {
		close(n.ready)
		return n, nil
	}
	n.ahead.Go(func() {
		defer close(n.ready)
		if f, err := n.startFirst(""); err == nil { // who needs it tries again, and is told
			n.ready <- f
		}
	})
	return n, nil
}

// take returns a PID 1 that waits for its plan: the one made ahead, if it is still there.
func (n *Native) take(label string) (*first, error) {
	if f := <-n.ready; f != nil {
		if f.waits() && !f.broken() {
			return f, nil
		}
		f.end()
	}
	return n.startFirst(label)
}

// Close frees what Open took. Running sandboxes go on.
func (n *Native) Close() error {
	if f := <-n.ready; f != nil {
		f.end()
	}
	n.cgroups.sweep()
	return n.Mapper.Close()
}

// PeerUIDs are the host users that connections from inside come from: the
// agent's, and that of the forwarder of loopback ports.
func (n *Native) PeerUIDs() []int {
	if !n.users.privileged {
		return []int{os.Geteuid()}
	}
	return []int{n.users.agent(), n.users.first}
}

// sealed is a copy of a binary in memory that nobody can write to, so that
// what runs in a sandbox cannot reach the file on disk (CVE-2019-5736). The copy
// is made beside whatever its maker does meanwhile.
type sealed struct {
	done chan struct{}
	copy *os.File
	err  error
}

// sealCopy begins a copy; empty means this program.
func sealCopy(binary string) (*sealed, error) {
	if binary == "" {
		binary = "/proc/self/exe"
	} else if !filepath.IsAbs(binary) {
		return nil, fmt.Errorf("%s: the path must be absolute", binary)
	}
	source, err := os.Open(binary)
	if err != nil {
		return nil, err
	}
	s := &sealed{done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.copy, s.err = copySealed(source)
		_ = source.Close() // read-only
	}()
	return s, nil
}

// file waits for the copy.
func (s *sealed) file() (*os.File, error) {
	<-s.done
	return s.copy, s.err
}

func (s *sealed) close() error {
	if f, err := s.file(); err == nil {
		return f.Close()
	}
	return nil
}

func copySealed(source *os.File) (*os.File, error) {
	fd, err := unix.MemfdCreate(Init, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3 every memfd was executable
		fd, err = unix.MemfdCreate(Init, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd: %w", err)
	}
	target := os.NewFile(uintptr(fd), Init)
	if err := copyWithin(target, source); err != nil {
		_ = target.Close()
		return nil, err
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(target.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		_ = target.Close()
		return nil, fmt.Errorf("seal: %w", err)
	}
	return target, nil
}

// maxSent is how much the kernel copies at most in one call, in bytes.
const maxSent = 1 << 30

// copyWithin copies a file in the kernel. Through this process's memory each start of a sandbox
// would cost a millisecond more. It goes there where a file system cannot do without.
func copyWithin(target, source *os.File) error {
	for {
		n, err := unix.Sendfile(int(target.Fd()), int(source.Fd()), nil, maxSent)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
			_, err = target.ReadFrom(source) // from where both are
			return err
		case err != nil:
			return fmt.Errorf("copy: %w", err)
		case n == 0:
			return nil
		}
	}
}

// Name is "native".
func (n *Native) Name() string { return "native" }

// HostTools is true: a native sandbox has no image.
func (n *Native) HostTools() bool { return true }

// Main is what cmd/sandbox-init runs, and a program re-executed by Open.
func Main(args []string) int { return inside.Main(args) }
