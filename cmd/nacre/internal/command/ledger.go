package command

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/registry"
)

// WithLedger opens the ledger for one use. A ledger that is not there yet is made:
// what is asked of it has the answer that nothing ran.
func (e *Env) WithLedger(ctx context.Context, use func(*ledger.Ledger) error) error {
	paths, err := registry.ResolvePaths(e.Getenv)
	if err != nil {
		return ExitWith(ExitNotReady, err)
	}
	l, err := e.ledger(ctx, paths)
	if err != nil {
		return err
	}
	return errors.Join(use(l), l.Close())
}

// ledger opens that of the installation's store, where it has one.
func (e *Env) ledger(ctx context.Context, paths registry.Paths) (*ledger.Ledger, error) {
	c, err := config.Load(paths.Config)
	if err != nil {
		return nil, &config.Error{Err: err}
	}
	if c.Store.URLEnv == "" {
		return ledger.Open(ctx, filepath.Join(paths.State, ledger.FileName), time.Now)
	}
	keys, err := audit.LoadKeys(paths.Keys())
	if err != nil {
		return nil, err
	}
	name, err := registry.MachineName(paths, keys.Public())
	if err != nil {
		return nil, err
	}
	return ledger.OpenOn(ctx, database.NewStore(func() string { return e.Getenv(c.Store.URLEnv) }, c.Store.Installation), registry.MachineID(name), time.Now)
}
