package command

import (
	"context"
	"errors"
	"path/filepath"
	"time"

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
	l, err := ledger.Open(ctx, filepath.Join(paths.State, ledger.FileName), time.Now)
	if err != nil {
		return err
	}
	return errors.Join(use(l), l.Close())
}
