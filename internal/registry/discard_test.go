package registry_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/nacre-dev/nacre/internal/registry"
)

// S-12: what an agent could write to is removed whatever rights it left there,
// and nothing that its links lead to changes.
func TestFoldersThatTheirOwnerMayNotChangeAreDiscarded(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	outside, dir := filepath.Join(home, "outside"), filepath.Join(home, "dir")
	deep := filepath.Join(dir, "a", "b")
	err := errors.Join(
		os.MkdirAll(outside, 0o700), os.WriteFile(filepath.Join(outside, "mine"), nil, 0o600), os.MkdirAll(deep, 0o700),
		os.WriteFile(filepath.Join(deep, "file"), nil, 0o600), os.Symlink(outside, filepath.Join(dir, "a", "link")),
		os.Chmod(outside, 0o500), os.Chmod(deep, 0o000), os.Chmod(filepath.Dir(deep), 0o500), os.Chmod(dir, 0o500),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(outside, 0o700) }) //nolint:gosec // so that it can be removed
	if err := registry.Discard(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if info, err := os.Stat(outside); err != nil || info.Mode().Perm() != 0o500 {
		t.Errorf("have %v, %v", info, err)
	}
	if _, err := os.Stat(filepath.Join(outside, "mine")); err != nil {
		t.Error(err)
	}
	if err := registry.Discard(dir); err != nil {
		t.Errorf("what is missing: %v", err)
	}
}
