package repo_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/repo"
)

// S-12, S-19: git's lock is held for a moment by every git command and by every
// other landing, and is waited for.
func TestALockThatIsHeldForAMomentIsWaitedFor(t *testing.T) {
	t.Parallel()
	r, m := worked(t, project, map[string]string{"README.md": "agent\n"})
	u := r.user
	lock := filepath.Join(u.dir, ".git/index.lock")
	u.write(map[string]string{".git/index.lock": ""})
	var released sync.WaitGroup
	released.Go(func() {
		time.Sleep(100 * time.Millisecond)
		if err := os.Remove(lock); err != nil {
			t.Error(err)
		}
	})
	_, err := r.land(m.Commit, r.project.Base)
	released.Wait()
	if err != nil || u.head("main") != m.Commit {
		t.Fatalf("have %v, main at %s", err, u.head("main"))
	}
}

// S-19: of two landings in the same moment one lands and the other is told that
// the branch has moved, so that it merges and verifies again.
func TestTwoLandingsInTheSameMomentDoNotLoseEachOther(t *testing.T) {
	t.Parallel()
	u := withFiles(t, project)
	first, second := openCopy(t, u), openCopy(t, u)
	requests := map[*run]repo.LandRequest{}
	for r, text := range map[*run]string{first: "one\n", second: "two\n"} {
		r.agent(map[string]string{"new-" + text[:3]: text})
		tree, _ := r.snapshot()
		requests[r] = r.request(r.merge(tree, r.project.Base).Commit, r.project.Base)
	}
	errs := map[*run]error{first: nil, second: nil}
	var mu sync.Mutex
	var landing sync.WaitGroup
	for r, request := range requests {
		landing.Go(func() {
			_, err := r.project.Land(t.Context(), request)
			mu.Lock()
			defer mu.Unlock()
			errs[r] = err
		})
	}
	landing.Wait()
	landed := 0
	for r, err := range errs {
		var moved *repo.MovedError
		switch {
		case err == nil:
			landed++
			if u.head("main") != requests[r].Commit {
				t.Error("what landed is not on the branch")
			}
		case !errors.As(err, &moved):
			t.Errorf("have %v, want that the branch moved", err)
		}
	}
	if landed != 1 || u.git("status", "--porcelain") != "" {
		t.Errorf("%d landed, status %q", landed, u.git("status", "--porcelain"))
	}
}
