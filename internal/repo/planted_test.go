package repo_test

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/repo"
)

// M-13: with a direct bind, what an agent left for the host's tools to run is named.
func TestWhatAnAgentPlantedIsFoundByItsTimeOfChange(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{".envrc", "old/.git/config", "Makefile", "node_modules/a/package.json", "fixture/HEAD", "fixture/refs/x", "fixture/objects/x"} {
		write(name)
	}
	info, err := os.Stat(filepath.Join(dir, "fixture"))
	if err != nil {
		t.Fatal(err)
	}
	start := nextTick(t, dir, info.ModTime())
	for _, name := range []string{
		"Makefile", "src/.vscode/tasks.json", "sub/.git/hooks/pre-commit", "bare/HEAD", "bare/config", "bare/objects/x", "bare/refs/x",
		"-rf", "main.go", "node_modules/b/package.json", ".git/config",
	} {
		write(name)
	}
	for link, target := range map[string]string{"out": "/etc/passwd", "in": "main.go"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "README"), 0o600); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "Makefile"), long, long); err != nil {
		t.Fatal(err)
	}
	found, more, err := repo.Since(dir, start)
	if err != nil || more != 0 {
		t.Fatal(err, more)
	}
	var have []string
	for _, f := range found {
		have = append(have, f.Path)
		if f.Reason == "" {
			t.Errorf("%s without a reason", f.Path)
		}
	}
	slices.Sort(have)
	have = slices.Compact(have)
	want := []string{
		"-rf", "Makefile", "README", "bare", "node_modules/", "out", "src/.vscode/tasks.json", "sub/.git", "sub/.git/hooks", "sub/.git/hooks/pre-commit",
	}
	if !slices.Equal(have, want) {
		t.Errorf("have %q\nwant %q", have, want)
	}
}

// nextTick waits until the file system's clock has moved on, and gives its time.
func nextTick(t *testing.T, dir string, from time.Time) time.Time {
	t.Helper()
	name := filepath.Join(dir, "tick")
	for {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.ModTime().After(from.Add(time.Millisecond)) {
			return info.ModTime()
		}
		time.Sleep(time.Millisecond)
	}
}

func TestAFolderThatIsGoneIsAnError(t *testing.T) {
	if _, _, err := repo.Since(filepath.Join(t.TempDir(), "gone"), time.Now()); err == nil {
		t.Error("no error")
	}
}
