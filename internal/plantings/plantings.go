// Package plantings tells what a session left in its project that programs of the host run, obey
// or trust: for people, for the audit, and in the session's folder.
package plantings

import (
	"context"
	"encoding/json"
	"path/filepath"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/planted"
	"github.com/nacre-dev/nacre/internal/planted/search"
	"github.com/nacre-dev/nacre/internal/repo"
)

const (
	// kind records what a session left in its project for programs of the host.
	kind nacre.Kind = "sandbox.planted"
	// listFile lists in a session's folder all that it planted.
	listFile = "planted.json"
	// clockStep is how far a file system's clock may be behind ours.
	clockStep = 10 * time.Millisecond
)

// Found is what a session left in its project that programs of the host run, obey
// or trust (M-13). Nothing is held back for it: the files are there already.
type Found struct {
	// Groups are those of a folder each, the worst first; each file counts in one.
	Groups []Group `json:"groups,omitempty"`
	// Count is how many files that are, List the file that names them one by one.
	Count int    `json:"count,omitempty"`
	List  string `json:"list,omitempty"`
	// Unread says what could not be looked at, and why.
	Unread string `json:"unread,omitempty"`
}

// Group is what was planted in one folder, and matters at one time.
type Group struct {
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
func (f Found) IsZero() bool { return f.Count == 0 && f.Unread == "" }

// Lines say it to people, the worst first.
func (f Found) Lines() []string {
	var lines []string
	whole := 0
	for _, g := range f.Groups {
		lines = append(lines, g.Line)
		whole += len(g.Names)
	}
	if len(lines) > 0 && whole < f.Count {
		lines = append(lines, "all of them are listed in "+f.List)
	}
	if f.Unread != "" {
		lines = append(lines, "not all of the project could be looked at: "+f.Unread)
	}
	return lines
}

// AtEnd looks at a project that an agent had from a time on, and takes back what every
// user of the machine may write to since.
func AtEnd(ctx context.Context, project string, since time.Time, before planted.Top) (Found, search.Report) {
	return look(ctx, project, search.Options{Since: since, Before: before, Close: true})
}

// Since looks at a project that an agent had from a time on, whose process was killed. What every
// user of the machine may write to since may be so by its owner's hand as well, and stays.
func Since(ctx context.Context, project string, since time.Time, before planted.Top) (Found, search.Report) {
	return look(ctx, project, search.Options{Since: since, Before: before})
}

func look(ctx context.Context, project string, o search.Options) (Found, search.Report) {
	o.Since, o.Configured = o.Since.Add(-clockStep), repo.Configured(project)
	report, err := search.Since(ctx, project, o)
	found := Found{Count: len(report.Findings) + report.More}
	for _, g := range planted.Groups(report.Findings) {
		found.Groups = append(found.Groups, Group{g.Folder, g.Kind.String(), g.Count, g.Names, g.Reasons, g.String()})
	}
	if err != nil {
		found.Unread = err.Error()
	}
	return found, report
}

// Save writes all findings to the session's folder.
func (f *Found) Save(dir string, report search.Report) error {
	if f.Count == 0 {
		return nil
	}
	text, err := json.Marshal(report)
	if err != nil {
		return err
	}
	f.List = filepath.Join(dir, listFile)
	return disk.Write(f.List, append(text, '\n'), 0o600)
}

// Record says it in the audit.
func (f Found) Record(id nacre.SessionID) nacre.Record {
	detail, _ := json.Marshal(f) // texts and numbers only
	return nacre.Record{Kind: kind, Session: id, Source: "core", Outcome: "found", Detail: detail}
}
