package container

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/sandbox/inside"
)

const (
	// recordDir holds a folder per container, below the state directory.
	recordDir = "containers"
	// bindsDir holds root's mapped binds while a container starts. It is never
	// removed with what is below it: that would be the person's own files.
	bindsDir = "/run/nacre-binds"
)

// bootDir is the host's folder for one container.
type bootDir struct {
	dir       string
	name      string // of the container
	control   string // mounted inside, holds the control socket only
	emptyDir  string
	emptyFile string
	etc       map[string]string // name in /etc to file
	listener  *net.UnixListener
}

// newBoot makes the folder and listens for the container's PID 1.
func newBoot(o Options, name string, uid, gid int) (b bootDir, err error) {
	stateDir := o.StateDir
	b.name = name
	if stateDir == "" {
		b.dir, err = os.MkdirTemp("", name)
	} else {
		b.dir = filepath.Join(stateDir, recordDir, name)
		err = os.MkdirAll(b.dir, 0o700)
	}
	if err != nil {
		return b, err
	}
	if b.dir, err = filepath.EvalSymlinks(b.dir); err != nil {
		return b, err
	}
	err = b.fill(uid, gid)
	if err == nil && !o.Apart {
		err = b.listen()
	}
	if err != nil {
		return b, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bootDir) fill(uid, gid int) error {
	b.control, b.emptyDir, b.emptyFile = filepath.Join(b.dir, "control"), filepath.Join(b.dir, "empty"), filepath.Join(b.dir, "none")
	etc := filepath.Join(b.dir, "etc")
	for _, dir := range []string{b.control, etc} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if err := os.Mkdir(b.emptyDir, 0o555); err != nil {
		return err
	}
	if err := os.WriteFile(b.emptyFile, nil, 0o444); err != nil {
		return err
	}
	b.etc = map[string]string{}
	for name, text := range inside.EtcFiles(uid, gid) {
		b.etc[name] = filepath.Join(etc, name)
		if err := os.WriteFile(b.etc[name], []byte(text), 0o444); err != nil {
			return err
		}
	}
	return nil
}

// listen goes through a descriptor of the folder: a socket's own path may be
// no longer than 107 bytes.
func (b *bootDir) listen() error {
	dir, err := os.Open(b.control)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // the socket stays
	path := fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(inside.ControlSocket))
	b.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	b.listener.SetUnlinkOnClose(false) // that path is gone by then; the folder goes as a whole
	return nil
}

// deafen takes no PID 1 any more.
func (b *bootDir) deafen() {
	if b.listener != nil {
		_ = b.listener.Close() // it may be closed
	}
}

// close removes the folder. Nothing is mounted in it.
func (b *bootDir) close() error {
	b.deafen()
	return os.RemoveAll(b.dir)
}

// stage makes root's binds where the engine can see them: with the owner's
// files as the agent's. It returns the path of each entry's source for the engine.
func (l *layout) stage(m *sandbox.Mapper, name string) (map[string]string, error) {
	paths := map[string]string{}
	if !m.Maps() {
		for _, e := range l.entries {
			if e.kind == kindBind {
				paths[e.target] = e.source.Path()
			}
		}
		return paths, nil
	}
	dir := filepath.Join(bindsDir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	for i, e := range l.entries {
		if e.kind != kindBind {
			continue
		}
		place := filepath.Join(dir, strconv.Itoa(i))
		if err := makePlace(place, e.source.Dir()); err != nil {
			return nil, err
		}
		if err := m.Mount(e.source, e.readOnly, e.noExec, place); err != nil {
			return nil, fmt.Errorf("mount %s at %s: %w", e.source.Path(), e.target, err)
		}
		paths[e.target] = place
	}
	return paths, nil
}

func makePlace(name string, dir bool) error {
	if dir {
		return os.Mkdir(name, 0o700)
	}
	return os.WriteFile(name, nil, 0o600)
}

// unstage takes root's binds down; the container has its own by then.
func unstage(name string) error {
	dir := filepath.Join(bindsDir, name)
	places, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || os.Geteuid() != 0 { // only root has any
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range places {
		place := filepath.Join(dir, p.Name())
		err := unmount(place)
		if err != nil && !errors.Is(err, unix.EINVAL) { // it was not mounted
			errs = append(errs, fmt.Errorf("unmount %s: %w", place, err))
			continue
		}
		errs = append(errs, os.Remove(place)) // an empty file or folder, or it fails
	}
	return errors.Join(append(errs, os.Remove(dir))...)
}
