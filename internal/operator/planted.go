package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/planted"
	"github.com/nacre-dev/nacre/internal/planted/search"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/repo"
)

const (
	// kindPlanted records what a session left in its project for programs of the host.
	kindPlanted nacre.Kind = "sandbox.planted"
	// plantedChain is an operator's chain that says it of a session whose process was killed.
	plantedChain = "planted-"
	// plantedFile lists in a session's folder all that it planted.
	plantedFile = "planted.json"
	// clockStep is how far a file system's clock may be behind ours.
	clockStep = 10 * time.Millisecond
)

// Planted is what a session left in its project that programs of the host run, obey
// or trust (M-13). Nothing is held back for it: the files are there already.
type Planted struct {
	// Groups are those of a folder each, the worst first; each file counts in one.
	Groups []PlantedGroup `json:"groups,omitempty"`
	// Count is how many files that are, List the file that names them one by one.
	Count int    `json:"count,omitempty"`
	List  string `json:"list,omitempty"`
	// Unread says what could not be looked at, and why.
	Unread string `json:"unread,omitempty"`
}

// PlantedGroup is what was planted in one folder, and matters at one time.
type PlantedGroup struct {
	// Folder is ".", or a path below the project; of several folders it is the one around them.
	Folder string `json:"folder"`
	// Kind is that of the worst file, such as "git", "build" or "output".
	Kind  string `json:"kind"`
	Count int    `json:"count"`
	// Names are some of the files, the worst first, from the folder.
	Names   []string `json:"names"`
	Reasons []string `json:"reasons"`
	// Line says it to people.
	Line string `json:"line"`
}

// IsZero reports whether nothing was found, in all that there is.
func (p Planted) IsZero() bool { return p.Count == 0 && p.Unread == "" }

// Lines say it to people, the worst first.
func (p Planted) Lines() []string {
	var lines []string
	whole := 0
	for _, g := range p.Groups {
		lines = append(lines, g.Line)
		whole += len(g.Names)
	}
	if len(lines) > 0 && whole < p.Count {
		lines = append(lines, "all of them are listed in "+p.List)
	}
	if p.Unread != "" {
		lines = append(lines, "not all of the project could be looked at: "+p.Unread)
	}
	return lines
}

// LookAtEnd looks at a project that an agent had from a time on, and takes back what every
// user of the machine may write to since.
func LookAtEnd(ctx context.Context, project string, since time.Time, before planted.Top) (Planted, search.Report) {
	return look(ctx, project, search.Options{Since: since, Before: before, Close: true})
}

func look(ctx context.Context, project string, o search.Options) (Planted, search.Report) {
	o.Since, o.Configured = o.Since.Add(-clockStep), repo.Configured(project)
	report, err := search.Since(ctx, project, o)
	found := Planted{Count: len(report.Findings) + report.More}
	for _, g := range planted.Groups(report.Findings) {
		found.Groups = append(found.Groups, PlantedGroup{g.Folder, g.Kind.String(), g.Count, g.Names, g.Reasons, g.String()})
	}
	if err != nil {
		found.Unread = err.Error()
	}
	return found, report
}

// Save writes all findings to the session's folder.
func (p *Planted) Save(dir string, report search.Report) error {
	if p.Count == 0 {
		return nil
	}
	text, err := json.Marshal(report)
	if err != nil {
		return err
	}
	p.List = filepath.Join(dir, plantedFile)
	return disk.Write(p.List, append(text, '\n'), 0o600)
}

// Record says it in the audit.
func (p Planted) Record(id nacre.SessionID) nacre.Record {
	detail, _ := json.Marshal(p) // texts and numbers only
	return nacre.Record{Kind: kindPlanted, Session: id, Source: "core", Outcome: "found", Detail: detail}
}

// Killed is a session whose process was killed before it could say what it left.
type Killed struct {
	Session nacre.SessionID `json:"session"`
	Project string          `json:"project"`
	Planted Planted         `json:"planted"`
}

// worksInPlace tells the kinds of session that work in the folder of a project itself.
func worksInPlace(kind string) bool { return kind == "exec" || kind == "agent" }

// plantedBy looks for what a command left whose nacre was killed (F-01).
func plantedBy(ctx context.Context, inst *installation.Installation, s registry.Session, dir string) (*Killed, error) {
	if !worksInPlace(s.Kind) || s.Project == "" || s.Began.IsZero() || !isFolder(s.Project) {
		return nil, nil //nolint:nilnil // nothing was left, and nothing went wrong
	}
	// What is open since may be so by its owner's hand as well, and stays.
	found, report := look(ctx, s.Project, search.Options{Since: s.Began, Before: s.Before})
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
