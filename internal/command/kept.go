package command

import (
	"os"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
)

// StepKept names the notice of a file that is not kept from the command any more.
const StepKept = "kept"

// lookAgain is how often what is kept from a command is looked at.
const lookAgain = time.Second

// kept is what a command may not write in its project, as it was when the command began.
type kept map[string]os.FileInfo

// keptIn are those of a posture's mounts.
func keptIn(project string, mounts []nacre.Mount) kept {
	k := kept{}
	for _, m := range mounts {
		if m.Kind != nacre.BindReadOnly || project == "" || !strings.HasPrefix(m.Source, project+"/") {
			continue
		}
		if info, err := os.Lstat(m.Source); err == nil {
			k[m.Source] = info
		}
	}
	return k
}

// follow tells once of each that was replaced on the host, until end is called. The mount that keeps a file from being
// written goes with the file: what has its name since can be written inside (M-13).
func (k kept) follow(project string, tell func(nacre.Step)) (end func()) {
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
				k.look(project, tell)
			}
		}
	}()
	return func() { close(done); <-ended }
}

func (k kept) look(project string, tell func(nacre.Step)) {
	for path, was := range k {
		if now, err := os.Lstat(path); err == nil && os.SameFile(was, now) {
			continue
		}
		delete(k, path)
		tell(nacre.Step{Kind: nacre.StepResult, Name: StepKept, IsError: true, Text: strings.TrimPrefix(path, project+"/") +
			" was replaced on this machine, so the command can write it from now on"})
	}
}
