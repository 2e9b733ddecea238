package repo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"

	"github.com/nacre-dev/nacre/internal/repo/git"
)

// openIgnorer asks git whether the base commit's .gitignore files, and the user's
// info/exclude, ignore a path. They are laid out alone in a directory of the
// host's, so that what the agent wrote into a .gitignore hides nothing.
func (p *Project) openIgnorer(ctx context.Context, base map[string]entry) (*git.Ignorer, error) {
	dir, err := os.MkdirTemp(p.vault.scratch(), "ignore-")
	if err != nil {
		return nil, fmt.Errorf("ignore rules: %w", err)
	}
	rules := make(map[string]entry)
	for name, e := range base {
		if path.Base(name) == ".gitignore" && (e.mode == modeFile || e.mode == modeExec) {
			rules[name] = e
		}
	}
	var ig *git.Ignorer
	if err = p.layOut(ctx, dir, rules); err == nil {
		ig, err = p.git.Ignoring(ctx, p.vault.dir, dir)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ignore rules: %w", err), os.RemoveAll(dir))
	}
	return ig, nil
}

func (o *objects) layOut(ctx context.Context, dir string, rules map[string]entry) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	return errors.Join(o.writeEntries(ctx, root, rules), root.Close())
}
