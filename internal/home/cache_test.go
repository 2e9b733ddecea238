package home_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/home"
)

func caches(t *testing.T, h *home.Home) *home.Caches {
	t.Helper()
	c, err := h.OpenCaches(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// pip is where a cache of the test lies.
func pip(t *testing.T, c *home.Caches) string {
	t.Helper()
	mounts, err := c.Mounts([]string{".cache/pip"})
	if err != nil || len(mounts) != 1 || mounts[0].Target != home.Inside+"/.cache/pip" || mounts[0].Kind != nacre.BindReadWrite {
		t.Fatalf("mounts %+v, %v", mounts, err)
	}
	return filepath.Join(mounts[0].Source, "x")
}

func closed(t *testing.T, c *home.Caches) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// U-03: one session at a time has the caches, and what it leaves is there for the next. Of
// caches in which nothing was left nothing stays.
func TestCachesLast(t *testing.T) {
	homes := t.TempDir()
	h := opened(t, homes)
	first := caches(t, h)
	write(t, pip(t, first), "kept")
	if _, err := h.OpenCaches(t.Context()); !errors.Is(err, disk.ErrLocked) {
		t.Errorf("a second session beside the first: %v", err)
	}
	closed(t, first)
	second := caches(t, h)
	at := pip(t, second)
	if have := read(t, at); have != "kept" {
		t.Errorf("the cache has %q", have)
	}
	if kept, err := home.List(t.Context(), homes); err != nil || len(kept) != 1 || kept[0].Files != 1 {
		t.Errorf("the list has %+v, %v", kept, err)
	}
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	closed(t, second)
	if kept, err := home.List(t.Context(), homes); err != nil || len(kept) != 0 {
		t.Errorf("the list has %+v, %v", kept, err)
	}
}

// U-03: a layer over a cache of the host's lasts, unless its session was cut short.
func TestALayerLastsUnlessItsSessionWasCutShort(t *testing.T) {
	h := opened(t, t.TempDir())
	leave := func(text string) (*home.Caches, string) {
		c := caches(t, h)
		layer, err := c.Layer("/host/mod")
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(layer, nacre.LayerUpper, "x")
		if text != "" {
			write(t, at, text)
		}
		return c, at
	}
	c, _ := leave("kept")
	closed(t, c)
	c, at := leave("")
	if have := read(t, at); have != "kept" {
		t.Errorf("the layer has %q", have)
	}
	work := filepath.Join(filepath.Dir(filepath.Dir(at)), nacre.LayerWork, "work")
	closed(t, c)
	write(t, filepath.Join(work, "incompat"), "")
	c, at = leave("")
	if _, err := os.Lstat(at); err == nil {
		t.Error("a layer that was cut short lasts")
	}
	closed(t, c)
}

// U-03: caches beyond their quota are emptied before the next session, and what agents
// said stays.
func TestCachesBeyondTheirQuotaAreEmptied(t *testing.T) {
	h := opened(t, t.TempDir())
	_, mounts, _ := begin(t, h)
	talk := filepath.Join(mounts[1].Source, "talk")
	write(t, talk, "said")
	c := caches(t, h)
	at := pip(t, c)
	write(t, at, "more than three")
	if err := c.Measure(t.Context(), 1<<20); err != nil {
		t.Fatal(err)
	}
	closed(t, c)
	c = caches(t, h)
	if read(t, at); c.Measure(t.Context(), 3) != nil {
		t.Error("what is within its quota is gone, or was not measured")
	}
	closed(t, c)
	c = caches(t, h)
	if _, err := os.Lstat(at); err == nil {
		t.Error("caches beyond their quota last")
	}
	closed(t, c)
	if have := read(t, talk); have != "said" || h.Check(t.Context(), 4) == nil {
		t.Errorf("the home has %q, or is within a quota of 4 bytes", have)
	}
}

// U-03: caches that an agent made so deep that they cannot be counted are emptied as well.
func TestCachesThatCannotBeCountedAreEmptied(t *testing.T) {
	h := opened(t, t.TempDir())
	c := caches(t, h)
	at := pip(t, c)
	write(t, at, "kept")
	deep, err := os.OpenRoot(filepath.Dir(at))
	for range 600 {
		if err != nil || deep.Mkdir("d", 0o700) != nil {
			t.Fatal(err)
		}
		below, inner := deep.OpenRoot("d")
		err = errors.Join(inner, deep.Close())
		deep = below
	}
	if err := errors.Join(err, deep.Close(), c.Measure(t.Context(), 1<<20)); err != nil {
		t.Fatal(err)
	}
	closed(t, c)
	c = caches(t, h)
	if _, err := os.Lstat(at); err == nil {
		t.Error("caches that cannot be counted last")
	}
	closed(t, c)
}
