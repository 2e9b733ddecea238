package sandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox"
)

// M-12, P-02: nothing waits until a tree is counted, and what was written before
// it was is counted all the same.
func TestWhatIsAddedBeforeTheFirstLookCounts(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "nacre-disk") //nolint:usetesting // a file system that little else writes to
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	old := make([]byte, 16<<20)
	if err := os.WriteFile(filepath.Join(dir, "old"), old, 0o600); err != nil {
		t.Fatal(err)
	}
	mounts := []nacre.Mount{{Kind: nacre.BindReadWrite, Source: dir, Target: "/workspace"}}
	watch := sandbox.NewDiskWatch(mounts, 8<<20)
	if err := os.WriteFile(filepath.Join(dir, "new"), make([]byte, 64<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if why := watch.Run(t.Context()); !strings.Contains(why, "it added more than 8 MiB") {
		t.Errorf("have %q", why)
	}
}

// M-12: what was there and is written over was not added.
func TestWhatIsWrittenOverIsNotAdded(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "nacre-disk") //nolint:usetesting // a file system that little else writes to
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "old")
	if err := os.WriteFile(file, make([]byte, 64<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	looks := sandbox.DiskLooks(t.Context(), []nacre.Mount{{Kind: nacre.BindReadWrite, Source: dir}}, func() {
		for range 3 {
			if err := os.WriteFile(file, make([]byte, 64<<20), 0o600); err != nil {
				t.Error(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "new"), make([]byte, 4<<20), 0o600); err != nil {
			t.Error(err)
		}
	})
	if looks < 3<<20 || looks > 6<<20 {
		t.Errorf("have %d bytes added, want 4 MiB", looks)
	}
}
