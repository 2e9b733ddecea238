package command

import (
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
)

// StepKept names the notice of a file that is not kept from the command any more.
const StepKept = "kept"

// lookAgain is how often what is kept from a command is looked at.
const lookAgain = time.Second

// kept is what a command may not write in its project, by its path there, as it was when the command began.
type kept map[string]os.FileInfo

// keptIn is what lies in the project where a posture mounts something over it. Of what the posture opens for
// writing there is nothing to keep.
func keptIn(project string, mounts []nacre.Mount) kept {
	k := kept{}
	at := slices.IndexFunc(mounts, func(m nacre.Mount) bool { return m.Source == project })
	if project == "" || at < 0 {
		return k
	}
	for _, m := range mounts {
		below, is := strings.CutPrefix(m.Target, mounts[at].Target+"/")
		if !is || m.Kind == nacre.BindReadWrite && strings.HasPrefix(m.Source, project+"/") {
			continue
		}
		if info, err := os.Lstat(project + "/" + below); err == nil {
			k[below] = info
		}
	}
	return k
}

// follow tells once of each that was replaced on the host, until end is called. A mount goes with what it lies
// on: what has the name since can be written inside (M-13). Where that is .git, lost is told.
func (k kept) follow(project string, tell func(nacre.Step), lost func(error)) (end func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(lookAgain)
		defer tick.Stop()
		for len(k) > 0 {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			for _, name := range k.replaced(project) {
				if name == ".git" {
					lost(errGit)
				}
				tell(nacre.Step{Kind: nacre.StepResult, Name: StepKept, IsError: true, Text: name + " was replaced on this machine, so the command can write it from now on"})
			}
		}
	}()
	return func() { close(done); <-ended }
}

// errGit ends a command that could write what git on the host runs.
var errGit = errors.New("the project's .git was replaced on this machine while the command ran, so it was not kept from the command any more: look at its hooks and its config before you use it")

// replaced are those that are not what they were, and forgets them.
func (k kept) replaced(project string) (names []string) {
	for name, was := range k {
		if now, err := os.Lstat(project + "/" + name); err != nil || !os.SameFile(was, now) {
			names = append(names, name)
			delete(k, name)
		}
	}
	return names
}
