package tree_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/tree"
)

// seen are the entries that a walk came by, by their paths.
type seen struct {
	mu      sync.Mutex
	entries map[string]tree.Entry
	errs    map[string]error
	twice   []string
}

func walked(ctx context.Context, dir string, o tree.Options) (*seen, error) {
	s := &seen{entries: map[string]tree.Entry{}, errs: map[string]error{}}
	if o.Entries == 0 {
		o.Entries = 1 << 20
	}
	if o.Depth == 0 {
		o.Depth = 1000
	}
	err := tree.Walk(ctx, dir, o, func(f tree.Folder) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if f.Err != nil {
			s.errs[f.Path] = f.Err
		}
		for _, e := range f.Entries {
			at := f.PathOf(e)
			if _, before := s.entries[at]; before {
				s.twice = append(s.twice, at)
			}
			s.entries[at] = e
		}
	})
	return s, err
}

func (s *seen) paths(keep func(tree.Entry) bool) (paths []string) {
	for name, e := range s.entries {
		if keep(e) {
			paths = append(paths, name)
		}
	}
	slices.Sort(paths)
	return paths
}

func write(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// afterNow is a time that what was made so far is before, and what is made from
// now on is not: the clock of files goes in steps.
func afterNow(t *testing.T) time.Time {
	t.Helper()
	probe := filepath.Join(t.TempDir(), "probe")
	changed := func() time.Time {
		if err := os.WriteFile(probe, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		var s unix.Stat_t
		if err := unix.Lstat(probe, &s); err != nil {
			t.Fatal(err)
		}
		return time.Unix(s.Ctim.Unix())
	}
	for began := changed(); ; {
		if now := changed(); now.After(began) {
			return now
		}
	}
}

func TestEveryEntryIsSeenOnce(t *testing.T) { // P-02
	dir := t.TempDir()
	var want []string
	for i := range 40 {
		for k := range 30 {
			want = append(want, filepath.Join("d"+strconv.Itoa(i), "e"+strconv.Itoa(k%3), "f"+strconv.Itoa(k)))
		}
	}
	write(t, dir, want...)
	slices.Sort(want)
	for _, workers := range []int{0, 1, 2, 16} {
		s, err := walked(t.Context(), dir, tree.Options{Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		have := s.paths(func(e tree.Entry) bool { return e.Mode.IsRegular() })
		if !slices.Equal(have, want) || len(s.twice) > 0 {
			t.Errorf("%d workers: have %d files, want %d; twice: %v", workers, len(have), len(want), s.twice)
		}
	}
}

func TestNewIsWhatChangedSince(t *testing.T) { // P-02, M-13
	dir := t.TempDir()
	write(t, dir, "old", "edited", "dated", "moved/inner/file", "attic/file", "reached/file", "full/file")
	since := afterNow(t)
	write(t, dir, "edited", "made", "full/made")
	past := since.Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "dated"), past, past); err != nil { // what an agent can set
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "moved"), filepath.Join(dir, "renamed")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "reached", "file"), 0o640); err != nil {
		t.Fatal(err)
	}
	s, err := walked(t.Context(), dir, tree.Options{Since: since, Births: true})
	if err != nil {
		t.Fatal(err)
	}
	if have := s.paths(func(e tree.Entry) bool { return e.Born }); len(have) > 0 && !slices.Equal(have, []string{"full/made", "made"}) { // none where files have no birth
		t.Errorf("born: have %v", have)
	}
	have := s.paths(func(e tree.Entry) bool { return e.New })
	want := []string{"dated", "edited", "full", "full/made", "made", "reached/file", "renamed", "renamed/inner", "renamed/inner/file"}
	if !slices.Equal(have, want) {
		t.Errorf("have %v\nwant %v", have, want)
	}
}

func TestNoLinkIsFollowed(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write(t, outside, "secret")
	write(t, dir, "in/file")
	for name, target := range map[string]string{"out": outside, "loop": ".", "gone": "nowhere"} {
		if err := os.Symlink(target, filepath.Join(dir, "in", name)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := walked(t.Context(), dir, tree.Options{})
	if err != nil || len(s.errs) > 0 {
		t.Fatal(err, s.errs)
	}
	want := []string{"in", "in/file", "in/gone", "in/loop", "in/out"}
	if have := s.paths(func(tree.Entry) bool { return true }); !slices.Equal(have, want) {
		t.Errorf("have %v, want %v", have, want)
	}
}

func TestLimitsOfATreeHold(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a/b/c/d/file", "beside/file", "file")
	s, err := walked(t.Context(), dir, tree.Options{Depth: 2})
	if !errors.Is(err, tree.ErrTooBig) || !strings.Contains(err.Error(), "too deep") {
		t.Errorf("have %v, want too deep", err)
	}
	if _, seen := s.entries["beside/file"]; !seen {
		t.Error("what is not too deep was not looked at")
	}
	if _, err := walked(t.Context(), dir, tree.Options{Entries: 3}); !errors.Is(err, tree.ErrTooBig) {
		t.Errorf("have %v, want too many", err)
	}
	if err := tree.Walk(t.Context(), dir, tree.Options{}, func(tree.Folder) {}); !errors.Is(err, tree.ErrTooBig) {
		t.Errorf("have %v: no limit was given, which allows nothing", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	if _, err := walked(ctx, dir, tree.Options{}); !errors.Is(err, cause) {
		t.Errorf("have %v, want the cause", err)
	}
	if _, err := walked(t.Context(), filepath.Join(dir, "gone"), tree.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("have %v, want that there is none", err)
	}
}

// A tree deeper than a path may be long, and wider than files may be open, is
// looked at whole.
func TestDeepAndWideTrees(t *testing.T) {
	dir := t.TempDir()
	at, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("x", 100)
	for range 60 {
		if err := at.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
		below, err := at.OpenRoot(name)
		if err != nil {
			t.Fatal(err)
		}
		_ = at.Close()
		at = below
	}
	_ = at.Close()
	for i := range 1500 {
		if err := os.MkdirAll(filepath.Join(dir, "wide", strconv.Itoa(i), "in"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s, err := walked(t.Context(), dir, tree.Options{})
	if err != nil || len(s.errs) > 0 {
		t.Fatal(err, s.errs)
	}
	if have, want := len(s.entries), 60+1+2*1500; have != want {
		t.Errorf("have %d entries, want %d", have, want)
	}
}

func TestAFolderThatCannotBeListedIsVisitedWithItsError(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may list every folder")
	}
	dir := t.TempDir()
	write(t, dir, "closed/file", "open/file")
	if err := os.Chmod(filepath.Join(dir, "closed"), 0o300); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "closed"), 0o700) }) //nolint:gosec // a folder of the test
	s, err := walked(t.Context(), dir, tree.Options{})
	if err != nil || !errors.Is(s.errs["closed"], fs.ErrPermission) {
		t.Errorf("have %v and %v", err, s.errs)
	}
}

func BenchmarkWalk(b *testing.B) { // P-02
	for _, files := range []int{60, 20_000, 60_000} {
		b.Run(strconv.Itoa(files), func(b *testing.B) {
			dir := b.TempDir()
			for i := range files {
				at := filepath.Join(dir, strconv.Itoa(i%97), strconv.Itoa(i%11))
				if err := os.MkdirAll(at, 0o755); err != nil {
					b.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(at, strconv.Itoa(i)), nil, 0o600); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if err := tree.Walk(b.Context(), dir, tree.Options{Since: time.Now(), Entries: 1 << 20, Depth: 100}, func(tree.Folder) {}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*files), "ns/file")
		})
	}
}
