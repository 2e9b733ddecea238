package registry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// portsDir holds a file for each port of this machine that nacre listens on.
const portsDir = "ports"

func (p Paths) port(port uint16) string {
	return filepath.Join(p.Runtime, portsDir, strconv.Itoa(int(port)))
}

// ClaimPort says, until ctx ends or this process does, that nacre listens on a port of
// this machine, or is about to: it is claimed before it is listened on. Several
// processes may claim one.
func (p Paths) ClaimPort(ctx context.Context, port uint16) error {
	name := p.port(port)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH); err != nil { // whoever asks whose it is has it for a moment
		return errors.Join(fmt.Errorf("lock %s: %w", name, err), f.Close())
	}
	context.AfterFunc(ctx, func() { _ = f.Close() }) // which gives up the lock
	return nil
}

// OwnsPort reports whether nacre claims a port of this machine. What cannot be told is
// an error.
func (p Paths) OwnsPort(port uint16) (bool, error) {
	f, err := os.OpenFile(p.port(port), os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	defer func() { _ = f.Close() }() // which gives up the lock
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return err != nil, err
}
