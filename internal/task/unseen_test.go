package task_test

import (
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/task"
)

// U-20: a file that git does not track is asked about where the task or a check names it, and only told
// where neither does.
func TestAnUntrackedFileThatTheTaskNamesIsAskedAbout(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text, check, untracked string
		asked                  bool
	}{
		"by its path":                     {"fix pkg/new.go, please", "", "pkg/new.go", true},
		"by its last element":             {"Write tests for new.go.", "", "pkg/new.go", true},
		"a folder":                        {"test services/shop", "", "services/shop/", true},
		"a file in it":                    {"test shop/price.go", "", "services/shop/", true},
		"a folder here":                   {"test ./shop", "", "shop/", true},
		"a word":                          {"fix the build", "make build", "build/", false},
		"a folder in a check":             {"finish it", "go test ./shop/...", "shop/", true},
		"in another script":               {"prüfe größe.go", "", "größe.go", true},
		"not at all":                      {"fix the date", "go test ./...", "notes.txt", false},
		"another one of the same name":    {"fix cmd/new.go", "", "pkg/new.go", false},
		"as a part of a word":             {"renew.go and new.gohtml and new.go-old", "", "new.go", false},
		"as a part of a word, then alone": {"renew.go and new.go", "", "new.go", true},
		"nothing of it":                   {"", "", "new.go", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := task.Spec{Task: c.text, Checks: []string{c.check}}
			dirty := repo.Dirty{Untracked: []string{c.untracked}}
			asked, unseen := s.Unseen(dirty)
			if want := map[bool]string{false: c.untracked}[c.asked]; unseen != want {
				t.Errorf("it is told that %q is not seen, want %q", unseen, want)
			}
			if have := strings.Contains(strings.Join(asked, "\n"), "git does not track "+c.untracked); have != c.asked {
				t.Errorf("asked about: %q", asked)
			}
			s.Dirty = true
			if asked, unseen := s.Unseen(dirty); len(asked) > 0 || unseen != "" {
				t.Errorf("with --dirty: %q, %q", asked, unseen)
			}
		})
	}
}
