package selfhost_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
)

// check is what must hold outside before anything lands. The name is the new
// test's: a run without it fails the check. It finds compiled what it imports, and leaves what vet
// says to the run that has it for a check.
const check = `go test -trimpath -vet=off -count=1 -v -run TestWhatIsShippedDoesNotAllowByDefault ./policy | tee out.txt && grep -q "^--- PASS" out.txt`

// groups lets the group of these runs write its memory, besides what every group may.
const groups = "[groups.main]\ntools = [\"memory_store\"]\n"

func recording(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("testdata/replay.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// The main job on real input: a brain adds a test and a line of documentation
// to this repository, its tests run sealed, what was verified lands.
func TestARecordedBrainWorksOnThisRepository(t *testing.T) {
	t.Parallel()
	h := newHouseWithHistory(t)
	h.config(t, groups)
	base := h.git(t, "rev-parse", "HEAD")
	done := h.run(t, "run", "test the default", "--project", h.project, "--recording", recording(t), "--check", check, "--check", "go vet ./policy", "--json")
	r := h.landed(t, done, base)
	if have := h.git(t, "diff", "--name-status", base, "HEAD"); have != "M\tdocs/recording.md\nA\tpolicy/selfhost_test.go" {
		t.Errorf("landed: %s", have)
	}
	if n := len(h.records(t, r.Session, nacre.KindCallEnd)); n != 1 {
		t.Errorf("have %d calls through the door, want 1", n)
	}
	if r.Cost != 0 {
		t.Errorf("a recording cost %d", r.Cost)
	}
	for i, e := range h.records(t, r.Session, nacre.KindBrainEvent) {
		if e.Outcome == "tool_result" && strings.Contains(string(e.Detail), `"is_error":true`) {
			t.Errorf("event %d: %s", i, e.Detail)
		}
	}
}

// A check that does not hold keeps everything off the branch.
func TestWhatIsNotVerifiedDoesNotLand(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	base := h.git(t, "rev-parse", "HEAD")
	done := h.run(t, "run", "test the default", "--project", h.project, "--recording", recording(t), "--check", "go test -trimpath -vet=off ./policy && false", "--json")
	if r := done.report(t); done.code != 1 || r.Landed || !strings.Contains(r.Reason, "ended with 1") {
		t.Errorf("exit %d: %+v", done.code, r)
	}
	h.untouched(t, base)
}
