package hostpath_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nacre-dev/nacre/internal/hostpath"
)

// U-04: of a folder that keeps one out, and of one on the way to it, is said which it is, whose, and what to do.
func TestAFolderThatKeepsOneOutIsNamed(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	below := filepath.Join(top, "shut", "below")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(top, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, fine := range []string{below, filepath.Join(top, "nowhere"), "/", file, filepath.Join(file, "below")} {
		if err := hostpath.Readable(fine); err != nil {
			t.Errorf("%s: %v", fine, err)
		}
	}
	if err := hostpath.Writable(below, filepath.Join(top, "nowhere")); err != nil {
		t.Error(err)
	}
	if os.Geteuid() == 0 {
		t.Skip("no mode stops root")
	}
	shut := filepath.Join(top, "shut")
	t.Cleanup(func() { _ = os.Chmod(shut, 0o700) })
	for mode, dirs := range map[os.FileMode][]string{0: {shut, below}, 0o400: {shut, below}, 0o100: {shut}} {
		if err := os.Chmod(shut, mode); err != nil {
			t.Fatal(err)
		}
		for _, dir := range dirs {
			err := hostpath.Readable(dir)
			if err == nil || !strings.Contains(err.Error(), shut+" may not be read by you: it belongs to you, with mode d") || !strings.Contains(err.Error(), "chmod u+rwx "+shut) {
				t.Errorf("%s at %o: %v", dir, mode, err)
			}
		}
		if err := hostpath.Writable(shut); err == nil || !strings.Contains(err.Error(), shut+" cannot be written (it belongs to you") {
			t.Errorf("writable at %o: %v", mode, err)
		}
	}
	others := "/root"
	if info, err := os.Stat(others); err != nil || info.Mode().Perm()&0o5 != 0 || info.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Skip(others + " is not root's alone here")
	}
	if err := hostpath.Readable(filepath.Join(others, "project")); err == nil || !strings.Contains(err.Error(), "/root may not be read by you: it belongs to root, with mode d") || !strings.Contains(err.Error(), "ask its owner") {
		t.Error(err)
	}
}
