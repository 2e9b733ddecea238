package operator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/session"
)

// Chains of what operators do, which belong to no session.
const (
	memoryChain   = "memory-"
	DecisionChain = "decision-"
	// operatingDir holds a file for each that is being written, locked while its
	// writer lives: of one that was killed, the next start closes the chain.
	operatingDir = "operating"
	// markTime is how long making such a file may take.
	markTime = time.Minute
)

// Chain opens a chain of an operator's own. close ends it.
func Chain(ctx context.Context, inst *installation.Installation, kind string) (chain *audit.Chain, closed func() error, err error) {
	name := kind + installation.RandomHex()[:16]
	options, err := session.ChainOptions(ctx, chainOf(inst), name)
	if err != nil {
		return nil, nil, err
	}
	_ = SettleOperators(ctx, inst) // as before a session: nacre audit verify tells of what stays
	unmark, err := markOperating(inst, name)
	if err != nil {
		return nil, nil, err
	}
	chain, err = audit.Open(ctx, options)
	if err != nil {
		return nil, nil, errors.Join(err, unmark(installation.IsThere(filepath.Join(inst.AuditRoot(), name))))
	}
	return chain, func() error {
		err := chain.Close(context.WithoutCancel(ctx))
		return errors.Join(err, unmark(err != nil))
	}, nil
}

// chainOf are a session's options, as far as its chain needs them.
func chainOf(inst *installation.Installation) session.Options {
	return session.Options{Registry: inst.Registry, Keys: inst.Keys, Now: inst.Options.Now, Elsewhere: inst.Elsewhere}
}

// markOperating notes that a chain is being written. unmark takes that back, unless it
// is left to be closed by the next start.
func markOperating(inst *installation.Installation, name string) (unmark func(left bool) error, err error) {
	path := filepath.Join(inst.Registry.Paths().State, operatingDir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	// It has its name only once it is locked: what is there unlocked was left.
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), os.Rename(f.Name(), path)); err != nil {
		return nil, errors.Join(err, os.Remove(f.Name()), f.Close())
	}
	return func(left bool) error {
		var err error
		if !left {
			err = os.Remove(path)
		}
		return errors.Join(err, f.Close()) // which gives the lock up
	}, nil
}

// SettleOperators closes the chains of operators' processes that were killed, so that
// they are proven to their last record from now on.
func SettleOperators(ctx context.Context, inst *installation.Installation) error {
	dir := filepath.Join(inst.Registry.Paths().State, operatingDir)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var errs []error
	for _, entry := range entries {
		if err := settleOperator(ctx, inst, filepath.Join(dir, entry.Name())); err != nil {
			errs = append(errs, fmt.Errorf("close audit chain %s, whose writer was killed: %w", entry.Name(), err))
		}
	}
	return errors.Join(errs...)
}

func settleOperator(ctx context.Context, inst *installation.Installation, path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // its writer came to its end
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // which gives the lock up
	info, err := f.Stat()
	if err != nil || strings.HasPrefix(info.Name(), ".") && inst.Options.Now().Sub(info.ModTime()) < markTime {
		return err // it is being made just now
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil // its writer lives
	}
	name := filepath.Base(path)
	head, err := audit.ReadHead(inst.AuditRoot(), name, inst.Keys.Public())
	closed := err == nil && head.State == audit.HeadClosed
	if !closed && !strings.HasPrefix(name, ".") && installation.IsThere(filepath.Join(inst.AuditRoot(), name)) {
		options, err := session.ChainOptions(ctx, chainOf(inst), name)
		if err == nil {
			err = audit.Seal(ctx, options)
		}
		if errors.Is(err, audit.ErrLocked) {
			return nil // another process does it
		}
		if err != nil {
			return err
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
