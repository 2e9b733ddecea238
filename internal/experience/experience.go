// Package experience is what earlier tasks teach those that are like them: how they failed,
// and what was seen to fix it (M-53).
//
// It promises that all it tells comes from the host and the operator: the operator's words of a
// task, and what the host itself found of the work. Nothing that an agent or the code under
// test printed, reported or stored in memory is passed on, and what an agent's memory says
// was fixed counts for nothing.
package experience

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/memory"
)

const (
	// maxTold is how many failures an agent is told of, and maxChars in how many characters.
	maxTold  = 5
	maxChars = 6000
	// maxNamed is how many changed files a fix names.
	maxNamed = 8
	// maxPath is the longest path of them, in bytes.
	maxPath = 120
	// maxCommand is how much of a check's command is told, in characters.
	maxCommand = 200
)

// Task is what was asked for, and where.
type Task struct {
	// Project is its folder.
	Project string
	// Words are the operator's.
	Words string
}

// End is what the host found of a task's work.
type End struct {
	Task
	// Source names the run, and no other.
	Source string
	// Before are the tries that did not hold, Result the last one.
	Before []nacre.RunResult
	Result nacre.RunResult
	// Verified says that the work holds by a signal that counts: a strong check, or a person (M-50).
	Verified bool
}

// Writer is the host, on behalf of a session: what it learns of it goes where the session is
// forgotten.
func Writer(id nacre.SessionID) memory.Writer { return memory.Writer{Session: id} }

// Learned are the ids of what was kept of a task.
type Learned struct {
	Failures []string `json:"failures,omitempty"`
	Fix      string   `json:"fix,omitempty"`
	Prevents []string `json:"prevents,omitempty"`
}

// None tells whether nothing was kept.
func (l Learned) None() bool { return len(l.Failures) == 0 && l.Fix == "" }

// Learn keeps what a task's end teaches, as the host's own word on behalf of w's session.
// It may be called again for the same run.
func Learn(ctx context.Context, store *memory.Store, w memory.Writer, end End) (learned Learned, err error) {
	failures := []memory.Lesson{}
	for _, try := range append(end.Before, end.Result) {
		for _, f := range findings(try) {
			if !f.held {
				failures = append(failures, end.lesson(f.cause, f.says))
			}
		}
	}
	if learned.Failures, err = memory.LearnFailures(ctx, store, w, failures); err != nil || !end.Verified {
		return learned, err
	}
	holds := []string{refusedByPerson}
	for _, f := range findings(end.Result) {
		if f.held {
			holds = append(holds, f.cause)
		}
	}
	learned.Fix, learned.Prevents, err = memory.LearnFix(ctx, store, w, end.lesson("", fix(end.Result)), holds)
	return learned, err
}

// refusedByPerson is the cause of a failure that a person decided on.
const refusedByPerson = "person"

// Refused keeps that a person refused a task's work, and why, in their words. A fix that the
// work was taken for is none.
func Refused(ctx context.Context, store *memory.Store, w memory.Writer, end End, why string) (Learned, error) {
	says := "a person refused its work"
	if why != "" {
		says += ": " + quoted(why)
	}
	if err := memory.Unlearn(ctx, store, end.Source); err != nil {
		return Learned{}, err
	}
	ids, err := memory.LearnFailures(ctx, store, w, []memory.Lesson{end.lesson(refusedByPerson, says)})
	return Learned{Failures: ids}, err
}

func (e End) lesson(cause, says string) memory.Lesson {
	return memory.Lesson{Project: e.Project, Task: e.Words, Cause: cause, Source: e.Source, Content: says}
}

// finding is what one check or atom says of the work.
type finding struct {
	cause, says string
	held        bool
}

// findings are what the host found of a try. Of what a check printed and an atom explained, which
// the work's author could have written, nothing is taken.
func findings(result nacre.RunResult) []finding {
	var all []finding
	for _, c := range result.Checks {
		f := finding{cause: "check " + c.Command, held: c.Passed(), says: fmt.Sprintf("the check %s ended with %d", quoted(c.Command), c.ExitCode)}
		if c.TimedOut {
			f.says = fmt.Sprintf("the check %s did not end in time", quoted(c.Command))
		}
		all = append(all, f)
	}
	for _, a := range result.Atoms {
		if !a.NotRun {
			all = append(all, finding{cause: "atom " + a.Capability, held: a.Passed, says: a.Capability + " did not hold"})
		}
	}
	return all
}

// isPlain tells of a path that can say nothing but where it leads.
func isPlain(path string) bool {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+/-"
	return path != "" && len(path) <= maxPath && !strings.ContainsFunc(path, func(r rune) bool { return !strings.ContainsRune(plain, r) })
}

// fix says what held then.
func fix(result nacre.RunResult) string {
	var files []string
	for _, c := range result.Changes {
		if isPlain(c.Path) && len(files) < maxNamed {
			files = append(files, c.Path)
		}
	}
	says := "work that was verified"
	if result.Commit != "" {
		says = "commit " + result.Commit[:min(12, len(result.Commit))]
	}
	if len(files) > 0 {
		says += " changed " + strings.Join(files, ", ")
	}
	if more := len(result.Changes) - len(files); more > 0 {
		says += fmt.Sprintf(" and %d other files", more)
	}
	return says + ", and what had failed held"
}

func quoted(text string) string {
	runes := []rune(strings.ToValidUTF8(text, " "))
	if len(runes) > maxCommand {
		runes = append(runes[:maxCommand], '…')
	}
	return "`" + strings.ReplaceAll(string(runes), "`", "'") + "`"
}

// Warning is what an agent is told before it starts on a task.
type Warning struct {
	// Text is in Markdown; empty where there is nothing to tell.
	Text string
	// IDs are those of the entries that it tells.
	IDs []string
	// Failures is how many it tells of, and Fixed of how many a verified fix is known.
	Failures, Fixed int
}

const heading = "\n## Earlier failures of tasks like this one\n\nThe host found these itself, in this project. Do not repeat them.\n\n"

// Warn gives what earlier tasks like this one teach.
func Warn(ctx context.Context, store *memory.Store, task Task, now time.Time) (Warning, error) {
	known, err := memory.Failures(ctx, store, task.Project, task.Words)
	if err != nil {
		return Warning{}, err
	}
	var w Warning
	var out strings.Builder
	for _, f := range known[:min(len(known), maxTold)] {
		line := told(f, now)
		if utf8.RuneCountInString(out.String())+utf8.RuneCountInString(line) > maxChars {
			continue
		}
		out.WriteString(line)
		w.IDs = append(w.IDs, f.ID)
		w.Failures++
		if f.Fix != nil {
			w.IDs = append(w.IDs, f.Fix.ID)
			w.Fixed++
		}
	}
	if w.Failures > 0 {
		w.Text = heading + out.String()
	}
	return w, nil
}

func told(f memory.Failure, now time.Time) string {
	line := "- " + memory.Line(f.Content)
	if at, err := time.Parse(time.RFC3339, f.CreatedAt); err == nil {
		line += fmt.Sprintf(" (%dd ago)", max(0, int(now.Sub(at)/(24*time.Hour))))
	}
	if f.Fix == nil {
		return line + "\n  No verified fix is known.\n"
	}
	return line + "\n  The verified fix: " + memory.Line(f.Fix.Content) + "\n"
}
