package operator

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/plantings"
	"github.com/nacre-dev/nacre/internal/registry"
)

// plantedChain is an operator's chain that says what a session planted whose process was killed.
const plantedChain = "planted-"

// Killed is a session whose process was killed before it could say what it left.
type Killed struct {
	Session nacre.SessionID `json:"session"`
	Project string          `json:"project"`
	Planted plantings.Found `json:"planted"`
}

// worksInPlace tells the kinds of session that work in the folder of a project itself.
func worksInPlace(kind string) bool { return kind == "exec" || kind == "agent" }

// plantedBy looks for what a command left whose nacre was killed (F-01).
func plantedBy(ctx context.Context, inst *installation.Installation, s registry.Session, dir string) (*Killed, error) {
	if !worksInPlace(s.Kind) || s.Project == "" || s.Began.IsZero() || !isFolder(s.Project) {
		return nil, nil //nolint:nilnil // nothing was left, and nothing went wrong
	}
	found, report := plantings.Since(ctx, s.Project, s.Began, s.Before)
	if found.IsZero() {
		return nil, nil //nolint:nilnil // as above
	}
	if err := found.Save(dir, report); err != nil {
		return nil, err
	}
	chain, closed, err := Chain(ctx, inst, plantedChain)
	if err != nil {
		return nil, err
	}
	err = errors.Join(chain.Commit(ctx, found.Record(s.ID)), closed())
	return &Killed{Session: s.ID, Project: s.Project, Planted: found}, err
}

// Lines say it to people.
func (k Killed) Lines() []string {
	lines := k.Planted.Lines()
	for i, line := range lines {
		lines[i] = fmt.Sprintf("%s (in %s, since session %s began, which was killed)", line, k.Project, k.Session)
	}
	return lines
}

// TellKilled says in texts what was left by sessions whose process was killed; tell
// may be nil.
func TellKilled(tell func(text string)) func(Killed) {
	return func(k Killed) {
		for _, line := range k.Lines() {
			if tell != nil {
				tell(line)
			}
		}
	}
}

// StepLook names steps that tell of what was planted, and are not to be cut.
const StepLook = "look"

// TellSteps is TellKilled for the first of those who take steps that is there.
func TellSteps(first, second func(nacre.Step)) func(Killed) {
	if first == nil {
		first = second
	}
	if first == nil {
		return TellKilled(nil)
	}
	return TellKilled(func(text string) {
		first(nacre.Step{Kind: nacre.StepResult, Name: StepLook, Text: text, IsError: true})
	})
}

func isFolder(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.IsDir()
}
