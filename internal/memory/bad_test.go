package memory_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/sqlitefile"
)

const eraserVariable = "NACRE_TEST_ERASER"

// eraseUntilKilled stores pairs, one derived from the other, and erases each second pair.
func eraseUntilKilled(path string) int {
	ctx := context.Background()
	s, err := memory.Open(ctx, path, memory.Options{Group: "main", Now: time.Now})
	for i := 0; err == nil; i++ {
		err = pairAndErase(ctx, s, i)
		fmt.Println(i)
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func pairAndErase(ctx context.Context, s *memory.Store, i int) error {
	added, err := s.AddAll(ctx, operator, []memory.Draft{{Type: "fact", Content: fmt.Sprintf("parent%dx", i)}, {Type: "fact", Content: fmt.Sprintf("child%dx", i)}})
	if err != nil {
		return err
	}
	if err := s.Link(ctx, operator, memory.Link{From: added[1].ID, To: added[0].ID, Kind: memory.EdgeDerivedFrom}); err != nil {
		return err
	}
	f := memory.Forget{ID: added[0].ID}
	e, err := s.Doom(ctx, f)
	if err != nil || i%2 == 0 {
		return err
	}
	return s.Forget(ctx, f, e)
}

// D-45, M-57: kill -9 during writes and erasures leaves whole entries, and of
// what was told to be erased nothing.
func TestKilled(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "main.sqlite")
	done := -1
	for round := range 4 {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), eraserVariable+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; n <= 2+round && lines.Scan(); n++ {
			_, _ = fmt.Sscan(lines.Text(), &done)
		}
		_, _ = cmd.Process.Kill(), cmd.Wait()
		s := open(t, path, memory.Options{Group: "main", Now: time.Now})
		list, err := s.List(t.Context(), memory.Filter{})
		if err != nil || len(list)%2 != 0 {
			t.Errorf("%d entries: half a pair is left, %v", len(list), err)
		}
		for i := 1; i <= done; i += 2 {
			if have := holds(t, path, fmt.Sprintf("parent%dx", i), fmt.Sprintf("child%dx", i)); len(have) != 0 && round == 0 {
				t.Errorf("the file holds %v", have)
			}
		}
		_ = s.Close()
	}
	if done < 1 {
		t.Error("nothing was erased before the end")
	}
}

// D-45: a file that cannot be trusted or used is refused with what to do.
func TestBadFiles(t *testing.T) {
	valid := func(t *testing.T, path string) {
		t.Helper()
		s := open(t, path, options(newClock()))
		for i := range 30 {
			add(t, s, operator, "fact", fmt.Sprint(i, strings.Repeat(" words", 200)))
		}
		_ = s.Close()
	}
	for name, c := range map[string]struct {
		spoil func(t *testing.T, path string)
		want  error
		text  string
	}{
		"others may write to it": {func(t *testing.T, p string) { chmod(t, p, 0o666) }, sqlitefile.ErrExposed, "chmod 600"},
		"its group may write":    {func(t *testing.T, p string) { chmod(t, p, 0o620) }, sqlitefile.ErrExposed, "chmod 600"},
		"it is empty":            {func(t *testing.T, p string) { truncate(t, p, 0) }, sqlitefile.ErrDamaged, "backup"},
		"half of it is missing":  {func(t *testing.T, p string) { truncate(t, p, 0.5) }, sqlitefile.ErrDamaged, "backup"},
		"its last bytes are":     {func(t *testing.T, p string) { truncate(t, p, 0.99) }, sqlitefile.ErrDamaged, "backup"},
		"a link to another place": {func(t *testing.T, p string) {
			if err := os.Rename(p, p+".real"); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(p+".real", p); err != nil {
				t.Fatal(err)
			}
		}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "main.sqlite")
			valid(t, path)
			c.spoil(t, path)
			_, err := memory.Open(t.Context(), path, options(newClock()))
			var unusable *sqlitefile.UnusableError
			if !errors.As(err, &unusable) || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("have %v", err)
			}
		})
	}
	t.Run("others may read it", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "main.sqlite")
		valid(t, path)
		chmod(t, path, 0o644)
		open(t, path, options(newClock()))
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("have %v, %v", info, err)
		}
	})
	t.Run("a folder that cannot be written", func(t *testing.T) {
		if os.Geteuid() == 0 {
			t.Skip("root may write everywhere")
		}
		path := filepath.Join(t.TempDir(), "main.sqlite")
		valid(t, path)
		chmod(t, path, 0o400)
		if _, err := memory.Open(t.Context(), path, options(newClock())); !errors.Is(err, sqlitefile.ErrReadOnly) {
			t.Errorf("have %v", err)
		}
	})
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func truncate(t *testing.T, path string, part float64) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(float64(info.Size())*part)); err != nil {
		t.Fatal(err)
	}
}
