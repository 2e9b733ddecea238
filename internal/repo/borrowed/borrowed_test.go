package borrowed_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nacre-dev/nacre/internal/repo/borrowed"
)

// S-11, M-12: a git directory that shows what lies elsewhere is refused, and says where; one that does not is none.
func TestObjectsOfElsewhereAreFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make func(objects, elsewhere string) error
		says string
	}{
		"its own":       {func(objects, _ string) error { return os.WriteFile(objects+"/pack/a.pack", nil, 0o400) }, ""},
		"an empty list": {func(objects, _ string) error { return os.WriteFile(objects+"/info/alternates", []byte("\n"), 0o600) }, ""},
		"a list": {func(objects, _ string) error {
			return os.WriteFile(objects+"/info/alternates", []byte("\n/a/b\n/c\n"), 0o600)
		}, `"/a/b"`},
		"a linked list":         {func(objects, at string) error { return os.Symlink(at, objects+"/info/alternates") }, "cannot be read"},
		"a list that is a pipe": {func(objects, _ string) error { return syscall.Mkfifo(objects+"/info/alternates", 0o600) }, "cannot be read"},
		"all of it":             {func(objects, at string) error { return errors.Join(os.RemoveAll(objects), os.Symlink(at, objects)) }, "objects is a link"},
		"a folder":              {func(objects, at string) error { return os.Symlink(at, objects+"/ab") }, "/ab is a link"},
		"one file":              {func(objects, at string) error { return os.Symlink(at+"/x", objects+"/pack/b.pack") }, "/pack/b.pack is a link"},
		"a deeper one": {func(objects, at string) error {
			return errors.Join(os.Mkdir(objects+"/info/commit-graphs", 0o700), os.Symlink(at, objects+"/info/commit-graphs/x"))
		}, "commit-graphs/x is a link"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, elsewhere := t.TempDir(), t.TempDir()
			objects := filepath.Join(dir, "objects")
			for _, below := range []string{"info", "pack"} {
				if err := os.MkdirAll(filepath.Join(objects, below), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.make(objects, elsewhere); err != nil {
				t.Fatal(err)
			}
			err := borrowed.Check(dir)
			if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, borrowed.ErrBorrowed) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("have %v, want %q", err, c.says)
			}
		})
	}
}
