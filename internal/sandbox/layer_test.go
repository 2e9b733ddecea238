package sandbox_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/sandbox"
)

// layered is a command at /workspace over a base of some files, and the folder
// that keeps what it writes.
func layered(t *testing.T, script string) (c sandbox.Command, base, layer string) {
	t.Helper()
	base, layer = t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"kept": "kept\n", "edited": "before\n", "gone": "gone\n", "dir/a": "a\n", "dir/b": "b\n"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(base, name)), 0o755), os.WriteFile(filepath.Join(base, name), []byte(text), 0o644)); err != nil { //nolint:gosec // a project's
			t.Fatal(err)
		}
	}
	for _, name := range []string{nacre.LayerUpper, nacre.LayerWork} {
		if err := os.Mkdir(filepath.Join(layer, name), 0o755); err != nil { //nolint:gosec // as above
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { // the kernel shuts its own folders there, and an ordinary user could not remove them
		_ = registry.Discard(filepath.Join(layer, nacre.LayerWork)) // what stays, TempDir tells of
	})
	c = shell(script)
	c.Posture.Mounts = append(c.Posture.Mounts, nacre.Mount{Kind: nacre.Overlay, Source: base, Layer: layer, Target: "/workspace"})
	return c, base, layer
}

// P-03: what is written over a base is kept in the layer's folder, and the base
// stays as it was.
func TestALayerOfTheHostKeepsWhatWasWritten(t *testing.T) {
	c, base, layer := layered(t, "cd /workspace && cat kept && echo after >edited && echo new >new && rm gone && rm -r dir && mkdir dir && echo c >dir/c && cat edited dir/*")
	have := run(t, open(t), c)
	if have.stdout != "kept\nafter\nc\n" || have.Code != 0 {
		t.Fatalf("have %+v", have)
	}
	upper := filepath.Join(layer, nacre.LayerUpper)
	for name, want := range map[string]string{"edited": "after\n", "new": "new\n", "dir/c": "c\n"} {
		if text, err := os.ReadFile(filepath.Join(upper, name)); err != nil || string(text) != want {
			t.Errorf("%s: have %q, %v", name, text, err)
		}
	}
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(upper, "gone"), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != 0 {
		t.Errorf("gone: have %+v, %v", st, err)
	}
	value := make([]byte, 8)
	if n, err := unix.Lgetxattr(filepath.Join(upper, "dir"), "user.overlay.opaque", value); err != nil || string(value[:n]) != "y" {
		t.Errorf("dir: have %q, %v", value[:max(n, 0)], err)
	}
	if _, err := os.Lstat(filepath.Join(upper, "kept")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("kept: have %v", err)
	}
	for name, want := range map[string]string{"kept": "kept\n", "edited": "before\n", "gone": "gone\n", "dir/a": "a\n"} {
		if text, err := os.ReadFile(filepath.Join(base, name)); err != nil || string(text) != want {
			t.Errorf("base %s: have %q, %v", name, text, err)
		}
	}
}

// Issue 12: an agent cannot write what only an overlay itself writes into its layer.
func TestAnAgentForgesNothingInItsLayer(t *testing.T) {
	c, _, layer := layered(t, "cd /workspace && mknod dir/a2 c 0 0; mknod kept2 c 0 0; ls dir kept2; echo done")
	if have := run(t, open(t), c); !strings.Contains(have.stdout, "done") {
		t.Fatalf("have %+v", have)
	}
	for _, name := range []string{"dir/a2", "kept2"} {
		if _, err := os.Lstat(filepath.Join(layer, nacre.LayerUpper, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: have %v", name, err)
		}
	}
}

// M-12: what an agent writes over a base counts as what it adds to the disk.
func TestTheDiskOfALayerIsWatched(t *testing.T) {
	c, _, layer := layered(t, "true")
	watch := sandbox.NewDiskWatch(c.Posture.Mounts, 1<<20)
	if err := os.WriteFile(filepath.Join(layer, nacre.LayerUpper, "big"), make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	why := watch.Run(t.Context())
	if !strings.Contains(why, "added more than 1 MiB") {
		t.Errorf("have %q", why)
	}
}

// A layer that is no folder, or not the layer's folder, is refused, and nothing runs.
func TestALayerThatCannotBeIsRefused(t *testing.T) {
	n := open(t)
	for name, change := range map[string]func(layer string) error{
		"missing":      func(layer string) error { return os.RemoveAll(layer) },
		"without work": func(layer string) error { return os.Remove(filepath.Join(layer, nacre.LayerWork)) },
		"a file": func(layer string) error {
			return errors.Join(os.RemoveAll(layer), os.WriteFile(layer, nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, layer := layered(t, "true")
			if err := change(layer); err != nil {
				t.Fatal(err)
			}
			if p, err := n.Start(t.Context(), c); err == nil {
				_, _ = p.Wait()
				t.Error("it started")
			}
		})
	}
}
