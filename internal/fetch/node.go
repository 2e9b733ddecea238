package fetch

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/nacre-dev/nacre/internal/basis"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/toolchain"
	"github.com/nacre-dev/nacre/internal/verify"
)

// npmCache is where npm keeps what it has fetched: inside, and in the state folder,
// where each month has its own, because npm itself forgets nothing.
const npmCache, npmCacheDir, npmMonth = "/var/cache/npm", "npm", "2006-01"

// npmCommand installs exactly what the lock file pins, and runs nothing of it. npm
// is not told another registry than the file's: what is listed is what it asks.
func npmCommand() []string {
	return []string{
		"npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--no-progress", "--loglevel=error", "--logs-max=0",
		"--prefer-offline", "--fetch-retries=2", "--fetch-retry-mintimeout=500", "--fetch-retry-maxtimeout=2000", "--fetch-timeout=60000", "--replace-registry-host=never", "--git=false", "--globalconfig=/dev/null", "--cache=" + npmCache,
	}
}

// fetchNode lays out what a lock file of npm's names. It is kept for the session,
// and npm's own cache for longer.
func fetchNode(ctx context.Context, s *basis.Basis, p verify.Packages) (verify.Fetched, error) {
	rules, absent := listed(s, p.Sources)
	if absent != "" {
		return verify.Fetched{Absent: absent}, nil
	}
	dir := filepath.Join(s.Dir(), registry.PackagesDir, digestOf(p))
	if toolchain.IsDir(dir) {
		return verify.Fetched{Dir: dir}, nil
	}
	now, all := s.Inst.Options.Now(), filepath.Join(s.Inst.Registry.Paths().State, npmCacheDir)
	room, cache := dir+".part", filepath.Join(all, now.UTC().Format(npmMonth))
	if err := errors.Join(registry.Discard(room), os.MkdirAll(room, 0o700), os.MkdirAll(cache, 0o700), used(cache, now), forget(all, now), lay(room, p.Files)); err != nil {
		return verify.Fetched{}, err
	}
	got, err := fetch(ctx, s, fetching{
		language: "node", from: p.Sources, room: room, cache: cache, inside: npmCache, rules: rules, steps: []fetchStep{{argv: npmCommand()}},
	})
	if err != nil || got != (verify.Fetched{}) {
		return got, err
	}
	return verify.Fetched{Dir: dir}, errors.Join(toolCaches(room, p.Folders), os.Rename(room, dir))
}

// toolCaches makes the folders that a sandbox lays its own over, because nothing
// can be made in a folder that is shown read-only.
func toolCaches(dir string, folders []string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	for _, folder := range folders {
		for _, name := range verify.Scratch() {
			made := root.Mkdir(path.Join(folder, "node_modules", name), 0o755)
			if !errors.Is(made, fs.ErrExist) && !errors.Is(made, fs.ErrNotExist) { // a workspace may have none of its own
				err = errors.Join(err, made)
			}
		}
	}
	return errors.Join(err, root.Close())
}
