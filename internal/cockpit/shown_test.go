package cockpit_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/cockpit"
)

// M-47: the cards of a process that is gone are taken by one other, whole. Those that are over and
// those of a process that lives are not. What is no card, or was cut, hides none.
func TestCardsOfAProcessThatIsGone(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	first, left, err := cockpit.OpenShown(state)
	if err != nil || len(left) > 0 {
		t.Fatalf("have %v, %v", left, err)
	}
	long := strings.Repeat("é", 1000)
	if err := errors.Join(first.Shows("a", "pay\n<b>1</b>"), first.Shows("b", "x"), first.Shows("c", long), first.Ends("b"), first.Ends("unknown")); err != nil {
		t.Fatal(err)
	}
	second, left, err := cockpit.OpenShown(state)
	if err != nil || len(left) > 0 {
		t.Fatalf("of a process that lives: %v, %v", left, err)
	}
	files, err := os.ReadDir(filepath.Join(state, "cards"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		path := filepath.Join(state, "cards", file.Name())
		text, err := os.ReadFile(path)
		if err == nil && len(text) > 0 {
			err = os.WriteFile(path, []byte("\x00\n{}\n[1]\n"+string(text)+`{"id":"d","to":"teleg`), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := errors.Join(os.WriteFile(outside, []byte(`{"id":"e","to":"telegram:1"}`+"\n"), 0o600), os.Symlink(outside, filepath.Join(state, "cards", "link")), first.Close()); err != nil {
		t.Fatal(err)
	}
	want := []string{"a telegram:42 pay\n<b>1</b>", "c telegram:42 " + strings.Repeat("é", 150)}
	third, left, err := cockpit.OpenShown(state)
	if err != nil || !slices.Equal(left, want) {
		t.Fatalf("have %q, %v", left, err)
	}
	if _, left, err := cockpit.OpenShown(state); err != nil || len(left) > 0 {
		t.Errorf("taken twice: %q, %v", left, err)
	}
	if err := errors.Join(third.Ends("a"), third.Close(), second.Close()); err != nil {
		t.Fatal(err)
	}
	if _, left, err := cockpit.OpenShown(state); err != nil || !slices.Equal(left, want[1:]) {
		t.Errorf("have %q, %v", left, err)
	}
	if _, err := os.Lstat(outside); err != nil {
		t.Error(err)
	}
}
