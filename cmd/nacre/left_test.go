package main_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nacre-dev/nacre"
)

// P-03: what did not land is there to be looked at, and what nacre says of the folder is true. Of a
// layer, that is the files that differ from a commit, which is named. Nothing is in it that only
// the kernel needed, which an ordinary user cannot look into.
func TestARunThatDoesNotLandSaysWhatItsFolderHolds(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("p/gone.txt", "gone\n")
	i.project()
	first := i.git("rev-parse", "--short=7", "HEAD")
	rec := i.recording("echo changed > greeting.txt; rm gone.txt")
	refused := func() string {
		r := i.nacre("run", "change", "--recording", rec, "--project", "p", "--session", "work", "--check", "false")
		r.want(t, 1, "not merged", "holds what the agent made")
		return r.stdout
	}
	said := refused()
	if text := fileText(filepath.Join(i.workspace("work"), "greeting.txt")); text != "changed\n" {
		t.Errorf("the agent's file holds %q", text)
	}
	if i.workspace("work") == i.state("sessions/work/work") {
		t.Skip("no layers on this machine, so the copy is whole")
	}
	has(t, said, i.workspace("work")+" holds what the agent made: the files that differ from "+first)
	if info, err := os.Lstat(filepath.Join(i.workspace("work"), "gone.txt")); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		t.Errorf("what the agent removed is %v, %v", info, err)
	}
	if isThere(filepath.Join(i.state("sessions/work/work"), nacre.LayerWork)) {
		t.Error("the kernel's own folder is left")
	}
	i.write("p/near.txt", "near\n")
	i.git("add", "-A")
	i.git("commit", "-q", "-m", "near")
	has(t, refused(), "the files that differ from "+first) // a layer over the base of the commit before
}
