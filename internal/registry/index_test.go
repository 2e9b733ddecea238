package registry_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/registry"
)

// over is a session that began at a second and is over.
func over(t testing.TB, r *registry.Registry, id nacre.SessionID, second int64, change ...func(*registry.Held) error) {
	t.Helper()
	held, _, err := r.Take(registry.Session{SessionStatus: nacre.SessionStatus{ID: id, Kind: "run", State: nacre.SessionOpen, Started: time.Unix(second, 0)}})
	if err != nil {
		t.Fatal(err)
	}
	for _, do := range change {
		err = errors.Join(err, do(held))
	}
	if err := errors.Join(err, held.Update(func(s *registry.Session) { s.State = nacre.SessionDone }), held.Settled(), held.Release()); err != nil {
		t.Fatal(err)
	}
}

// listed is what the pages of a list name, in their order.
func listed(t *testing.T, r *registry.Registry) (names []string) {
	t.Helper()
	const most = 2
	for from, next := 0, 1; next > 0; from = next {
		var page []registry.Session
		var err error
		page, next, err = r.Page(from, most)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) > most {
			t.Errorf("%d sessions on a page of %d", len(page), most)
		}
		for _, s := range page {
			names = append(names, string(s.ID))
		}
	}
	return names
}

func wantNames(t *testing.T, have []string, want ...string) {
	t.Helper()
	if !slices.Equal(have, want) {
		t.Errorf("have %v, want %v", have, want)
	}
}

func namesOf(t *testing.T, list []registry.Session, err error) (names []string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		names = append(names, string(s.ID))
	}
	return names
}

// M-44: the pages of a list name each session that is over once, the newest first, also those that
// another process began meanwhile. They name none that was removed or that lives.
func TestPagesNameEachSessionThatIsOver(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	other := registry.New(r.Paths())
	wantNames(t, listed(t, r))
	for i, id := range []nacre.SessionID{"c", "a", "e", "b", "d"} {
		over(t, other, id, int64(100*i+100))
		if i == 2 {
			wantNames(t, listed(t, r), "e", "a", "c")
		}
	}
	wantNames(t, listed(t, r), "d", "b", "e", "a", "c")
	held, _, err := r.Take(registry.Session{SessionStatus: nacre.SessionStatus{ID: "live", State: nacre.SessionRunning, Started: time.Unix(9000, 0)}})
	if err != nil {
		t.Fatal(err)
	}
	removed := func(h *registry.Held) error {
		return h.Update(func(s *registry.Session) { s.State, s.Started = nacre.SessionRemoved, time.Time{} })
	}
	gone, err := r.Adopt("b")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(removed(gone), gone.Release()); err != nil {
		t.Fatal(err)
	}
	wantNames(t, listed(t, r), "d", "e", "a", "c")
	live, err := r.Live()
	wantNames(t, namesOf(t, live, err), "live")
	if err := held.Release(); err != nil {
		t.Fatal(err)
	}
	wantNames(t, listed(t, r), "live", "d", "e", "a", "c") // whose holder is gone
	over(t, other, "b", 9500)
	wantNames(t, listed(t, r), "b", "live", "d", "e", "a", "c") // a name that was given free is a new session's
}

// M-44: the index is never the truth: one that is missing, that was cut, or that holds what is
// no session's line, hides no session.
func TestAnIndexIsMadeAgain(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(t *testing.T, file string, whole []byte) error{
		"missing": func(_ *testing.T, file string, _ []byte) error { return os.Remove(file) },
		"empty":   func(_ *testing.T, file string, _ []byte) error { return os.Truncate(file, 0) },
		"cut":     func(_ *testing.T, file string, whole []byte) error { return os.Truncate(file, int64(len(whole)/2)) },
		"of other things": func(_ *testing.T, file string, _ []byte) error {
			return os.WriteFile(file, []byte("x\n\x00\n9 ../..\n99999999999999999999 a\n"), 0o600)
		},
		"of sessions that are not there": func(_ *testing.T, file string, whole []byte) error {
			return os.WriteFile(file, append(whole, "5000 nobody\n"...), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t)
			for i := range 5 {
				over(t, r, nacre.SessionID(fmt.Sprintf("s%d", i)), int64(100+i))
			}
			want := []string{"s4", "s3", "s2", "s1", "s0"}
			wantNames(t, listed(t, r), want...)
			file := filepath.Join(r.Paths().State, "sessions.index")
			whole, err := os.ReadFile(file)
			if err != nil || strings.Count(string(whole), "\n") != 5 {
				t.Fatalf("%q, %v", whole, err)
			}
			if err := harm(t, file, whole); err != nil {
				t.Fatal(err)
			}
			other := registry.New(r.Paths()) // as another process
			wantNames(t, listed(t, other), want...)
			over(t, r, "s5", 105)
			wantNames(t, listed(t, other), append([]string{"s5"}, want...)...)
		})
	}
}

// M-44: a session that cannot be read is named with its page, and hides no other.
func TestADamagedSessionHidesNoOtherOfItsPage(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	over(t, r, "first", 1)
	over(t, r, "second", 2)
	if err := os.WriteFile(filepath.Join(r.Paths().Session("second"), "session.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	page, next, err := r.Page(0, 5)
	if err == nil || !strings.Contains(err.Error(), "second") || len(page) != 1 || page[0].ID != "first" || next != 0 {
		t.Errorf("have %v, %d, %v", page, next, err)
	}
}

// M-44, M-67: the sessions that hold work are known without reading the others, from before
// there were markers, too, and until the work is gone.
func TestSessionsThatHoldWork(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	works := func(h *registry.Held) error { return os.Mkdir(filepath.Join(h.Dir(), registry.WorkDir), 0o700) }
	over(t, r, "none", 1)
	over(t, r, "some", 2, works)
	left, err := r.Unlanded()
	wantNames(t, namesOf(t, left, err), "some")
	if err := os.RemoveAll(filepath.Join(r.Paths().State, "unlanded")); err != nil { // as in an older installation
		t.Fatal(err)
	}
	over(t, r, "more", 3, works)
	left, err = r.Unlanded()
	wantNames(t, namesOf(t, left, err), "more", "some")
	held, err := r.Adopt("some")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(filepath.Join(held.Dir(), registry.WorkDir)), held.Settled(), held.Release()); err != nil {
		t.Fatal(err)
	}
	left, err = r.Unlanded()
	wantNames(t, namesOf(t, left, err), "more")
}
