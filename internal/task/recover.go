package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nacre-dev/nacre/internal/engine"
	"github.com/nacre-dev/nacre/internal/repo"
)

// Recover completes a landing that was interrupted after its branch had moved,
// and cleans up after one whose branch had not (S-12). dir is the folder of the
// session, project and work what it worked on. Without such a landing it does
// nothing.
func Recover(ctx context.Context, dir, work, project string, now func() time.Time) error {
	state := stateDir(dir, work)
	data, err := os.ReadFile(filepath.Join(state, repo.JournalFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var intent repo.Intent
	if err := json.Unmarshal(data, &intent); err != nil {
		return fmt.Errorf("%s is damaged: %w; look at `git status` in %s, then remove it", filepath.Join(state, repo.JournalFile), err, project)
	}
	p, err := repo.Open(ctx, project, repo.Options{StateDir: state, Base: intent.New, Now: now})
	if err != nil {
		return fmt.Errorf("complete a landing in %s: %w", project, err)
	}
	_, err = p.Recover(ctx)
	return err
}

// begunBefore refuses to begin anew what has begun (M-55). The host's git folder of the work is
// there, and the engine knows nothing of it: its file was cut, replaced or taken away.
func begunBefore(ctx context.Context, e *engine.Engine, s Opened) error {
	has, err := HasBegun(s.Dir(), s.Work())
	if has {
		_, err = e.Get(ctx, s.Work())
	}
	if errors.Is(err, engine.ErrNotFound) {
		return fmt.Errorf("the work of session %s has begun, and the durable engine's file knows nothing of it: it was cut, replaced or taken away. "+
			"Put it back, or give the work up: nacre sessions give-up %s", s.ID(), s.ID())
	}
	return err
}

// HasBegun tells whether a session's folder holds anything of a piece of its work.
func HasBegun(dir, work string) (bool, error) {
	_, err := os.Stat(stateDir(dir, work))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// End ends a session's durable work for good: nobody goes on with it. Work that is not
// there, or has ended, stays as it is.
func End(ctx context.Context, path, work string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || work == "" {
		return nil
	}
	c, err := engine.OpenClient(ctx, path, nil)
	if err != nil {
		return err
	}
	err = c.Cancel(ctx, work)
	if errors.Is(err, engine.ErrNotFound) {
		err = nil
	}
	return errors.Join(err, c.Close())
}

// stateDir is the host's own git folder for one piece of a session's work.
func stateDir(dir, work string) string { return filepath.Join(dir, VaultPrefix+work) }
