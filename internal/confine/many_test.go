package confine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/confine"
)

// S-04: however many files a task's lists mean, the mounts are bounded, and what
// they do not hold any more is said: the verifier holds it.
func TestManyFilesAreBoundedMounts(t *testing.T) {
	dir := t.TempDir()
	var names []string
	for n := range 3 * confine.MaxMounts {
		names = append(names, fmt.Sprintf("open/%04d.gen", n), fmt.Sprintf("open/%04d.txt", n))
	}
	plant(t, dir, names...)
	layer, err := confine.Of(atoms(t, "scope::files-whitelist", "scope::files-denylist"),
		atom.Parameters{Whitelist: []string{"open/**"}, Denylist: []string{"open/*.gen"}}, dir, target, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(layer.Mounts) > confine.MaxMounts {
		t.Errorf("have %d mounts", len(layer.Mounts))
	}
	said := strings.Join(layer.Widened, "\n")
	if !strings.Contains(said, fmt.Sprintf("%d more files and folders are held by the verifier alone", 3*confine.MaxMounts+1-confine.MaxMounts)) {
		t.Errorf("have %q", said)
	}
	if !writable(layer, "open/0000.txt") || writable(layer, "open/0000.gen") || writable(layer, "other.txt") {
		t.Error("the first files are not held")
	}
}

// S-04: a whitelist of more folders than there may be mounts opens half of
// that, and says of how many it does not: what is not opened stays read-only.
func TestManyFoldersAreBoundedMounts(t *testing.T) {
	dir := t.TempDir()
	var globs []string
	for n := range confine.MaxMounts + 100 {
		globs = append(globs, fmt.Sprintf("pkg/%04d/**", n))
		plant(t, dir, fmt.Sprintf("pkg/%04d/x.txt", n))
	}
	layer, err := confine.Of(atoms(t, "scope::files-whitelist"), atom.Parameters{Whitelist: globs}, dir, target, nil)
	if err != nil {
		t.Fatal(err)
	}
	opened := 0
	for _, m := range layer.Mounts {
		if m.Kind == nacre.BindReadWrite {
			opened++
		}
	}
	if most := confine.MaxMounts / 2; opened != most || len(layer.Mounts) != most || len(layer.Make) != most {
		t.Errorf("have %d folders, %d mounts, %d to make", opened, len(layer.Mounts), len(layer.Make))
	}
	if said := strings.Join(layer.Widened, "\n"); !strings.Contains(said, "300 more folders stay read-only") {
		t.Errorf("have %q", said)
	}
	if !writable(layer, "pkg/0000/x.txt") || writable(layer, fmt.Sprintf("pkg/%04d/x.txt", confine.MaxMounts+99)) {
		t.Error("not what was said is writable")
	}
}
