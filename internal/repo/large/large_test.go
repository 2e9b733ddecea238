package large_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nacre-dev/nacre/internal/repo/large"
)

// sum is the SHA-256 of a text.
func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

// place is where git LFS keeps a file below a git directory.
func place(t *testing.T, gitDir, name string) string {
	t.Helper()
	at := filepath.Join(gitDir, "lfs/objects", name[:2], name[2:4])
	must(t, os.MkdirAll(at, 0o755))
	return filepath.Join(at, name)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// U-04: of the files that an agent's git LFS kept, those are taken that are what their names
// say. What leads elsewhere, waits for a reader, or is too much is refused, and nothing else of
// its folder is read.
func TestOnlyFilesThatAreWhatTheyAreCalledAreTaken(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("of the host"), 0o600))
	for name, c := range map[string]struct {
		leave func(t *testing.T, dir string) error
		most  int64
		fails string
		taken []string
	}{
		"a file": {
			leave: func(t *testing.T, dir string) error {
				return os.WriteFile(place(t, dir, sum("text")), []byte("text"), 0o600)
			}, taken: []string{"text"},
		},
		"no folder":             {leave: func(*testing.T, string) error { return nil }},
		"a file for the folder": {leave: func(_ *testing.T, dir string) error { return os.WriteFile(filepath.Join(dir, "lfs"), nil, 0o600) }},
		"another text": {
			leave: func(t *testing.T, dir string) error {
				return os.WriteFile(place(t, dir, sum("text")), []byte("forged"), 0o600)
			}, fails: "not what its name says",
		},
		"a pipe": {
			leave: func(t *testing.T, dir string) error { return syscall.Mkfifo(place(t, dir, sum("text")), 0o600) }, fails: "not what its name says",
		},
		"a link out of the folder": {
			leave: func(t *testing.T, dir string) error { return os.Symlink(secret, place(t, dir, sum("of the host"))) }, fails: "escapes",
		},
		"a folder that is a link out": {
			leave: func(_ *testing.T, dir string) error {
				return os.Symlink(filepath.Dir(secret), filepath.Join(dir, "lfs"))
			}, fails: "escapes",
		},
		"too many bytes": {
			leave: func(t *testing.T, dir string) error {
				return os.WriteFile(place(t, dir, sum("text")), []byte("text"), 0o600)
			}, most: 3, fails: "too many bytes",
		},
		"names of other forms": {
			leave: func(t *testing.T, dir string) error {
				at := filepath.Dir(place(t, dir, sum("text")))
				return os.WriteFile(filepath.Join(at, strings.Repeat("x", 64)), []byte("text"), 0o600)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agents, hosts := t.TempDir(), t.TempDir()
			must(t, c.leave(t, agents))
			if c.most == 0 {
				c.most = 1 << 20
			}
			err := large.Take(t.Context(), agents, hosts, c.most)
			if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("the error is %v, want %q", err, c.fails)
			}
			var have []string
			must(t, filepath.WalkDir(hosts, func(path string, e os.DirEntry, err error) error {
				if err != nil || e.IsDir() {
					return err
				}
				text, err := os.ReadFile(path)
				if have = append(have, string(text)); filepath.Base(path) != sum(string(text)) {
					t.Errorf("%s is left", path)
				}
				return err
			}))
			if fmt.Sprint(have) != fmt.Sprint(c.taken) {
				t.Errorf("%q were taken, want %q", have, c.taken)
			}
		})
	}
}

// U-04: what the host has already is not written again.
func TestAFileThatIsThereStays(t *testing.T) {
	t.Parallel()
	agents, hosts := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(place(t, agents, sum("text")), []byte("forged"), 0o600))
	must(t, os.WriteFile(place(t, hosts, sum("text")), []byte("text"), 0o600))
	must(t, large.Take(t.Context(), agents, hosts, 1<<20))
	if text, err := os.ReadFile(place(t, hosts, sum("text"))); err != nil || string(text) != "text" {
		t.Errorf("it holds %q, %v", text, err)
	}
}

// U-04: a file is the one that a pointer stands for by size and SHA-256, and no other text is
// a pointer.
func TestAPointerStandsForOneFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, []byte("text"), 0o600))
	pointer := func(text string, size int) string {
		return fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", sum(text), size)
	}
	for text, want := range map[string]bool{
		pointer("text", 4): true, pointer("text", 5): false, pointer("next", 4): false, "": false, "text": false, pointer("text", 4) + "more\n": false,
	} {
		if have, err := large.Is(file, []byte(text)); have != want || err != nil {
			t.Errorf("%q: %t, %v", text, have, err)
		}
	}
}
