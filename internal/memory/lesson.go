package memory

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/recall"
)

// The kinds of lesson.
const (
	lessonFailure = "failure"
	lessonFix     = "fix"
)

const (
	// MaxTaskWords is how much of a task's words a lesson keeps, in characters.
	MaxTaskWords = 600
	// MaxLesson is how much a lesson says beside them, in characters.
	MaxLesson = 1300
	// maxLessons is how many of a project's failures are looked at, the latest.
	maxLessons = 500
	// similar is the least likeness of two tasks of which one teaches the other.
	similar = 0.5
)

// Lesson is what the host learned of a task. Each of its texts comes from the host or the
// operator, never from an agent: it is trusted, and told to agents.
type Lesson struct {
	// Project is where the task was worked on, and Task its words as the operator wrote
	// them; at most [MaxTaskWords] of them count.
	Project, Task string
	// Cause names what failed, such as a check's command; empty for a fix.
	Cause string
	// Source names the run, so that what is learned of it twice is kept once.
	Source string
	// Content is what is told behind the task's words; at most [MaxLesson] characters.
	Content string
}

// Failure is a task's failure that is known, and what was seen to fix it.
type Failure struct {
	Entry
	Task, Cause string
	// Fix is the entry that prevents it; nil where no verified one is known.
	Fix *Entry
}

// LearnFailures keeps the failures of a task. Of those that stand open, word for word and for
// the same cause, none is kept again. It gives the ids of what is new.
func LearnFailures(ctx context.Context, s *Store, w Writer, failures []Lesson) (ids []string, err error) {
	err = s.at.Write(ctx, func(tx database.Session) error {
		ids = nil
		for _, f := range failures {
			f.Task, f.Source = taskWords(s, f.Task), s.machine.named(nacre.SessionID(f.Source))
			known, err := scanned[int](tx.QueryRowContext(ctx, `SELECT count(*) FROM memory_lessons l JOIN memory_entries e ON e.id = l.id
				WHERE l.kind = 'failure' AND l.cause = ?1 AND (l.source = ?2 OR l.project = ?3 AND l.task = ?4 AND e.group_name = ?5 AND `+open+`)`,
				f.Cause, f.Source, f.Project, f.Task, string(s.group)))
			if err != nil {
				return err
			}
			if known > 0 {
				continue
			}
			id, err := keepLesson(ctx, tx, s, w, lessonFailure, f)
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return nil
	})
	return ids, err
}

// open are failures l that no fix is known to prevent.
const open = `NOT EXISTS (SELECT 1 FROM memory_edges g JOIN memory_lessons x ON x.id = g.from_id AND x.kind = 'fix'
	JOIN memory_entries y ON y.id = x.id AND y.trust = 'trusted' AND y.superseded_by IS NULL WHERE g.to_id = l.id AND g.kind = 'prevents' AND g.verified = 1)`

// LearnFix keeps what was seen to fix open failures of tasks like its own, for one of some causes that hold now.
// It draws the edge from that to each of the failures. Where there is no such failure nothing is kept, and the
// id is empty.
func LearnFix(ctx context.Context, s *Store, w Writer, fix Lesson, holds []string) (id string, prevents []string, err error) {
	fix.Task, fix.Cause, fix.Source = taskWords(s, fix.Task), "", s.machine.named(nacre.SessionID(fix.Source))
	err = s.at.Write(ctx, func(tx database.Session) error {
		id, prevents = "", nil
		known, err := scanned[int](tx.QueryRowContext(ctx, `SELECT count(*) FROM memory_lessons WHERE source = ? AND kind = 'fix'`, fix.Source))
		if err != nil || known > 0 {
			return err
		}
		causes := map[string]bool{}
		for _, c := range holds {
			causes[c] = true
		}
		failures, err := failuresLike(ctx, tx, s, fix.Project, fix.Task, ` AND `+open)
		if err != nil {
			return err
		}
		for _, f := range failures {
			if causes[f.Cause] {
				prevents = append(prevents, f.ID)
			}
		}
		if len(prevents) == 0 {
			return nil
		}
		if id, err = keepLesson(ctx, tx, s, w, lessonFix, fix); err != nil {
			return err
		}
		for _, failure := range prevents {
			_, err := tx.ExecContext(ctx, `INSERT INTO memory_edges(from_id, to_id, kind, session_id, created_at, verified) VALUES (?, ?, 'prevents', ?, ?, 1)`,
				id, failure, s.machine.named(w.Session), stamp(s.now()))
			if err != nil {
				return err
			}
		}
		return nil
	})
	return id, prevents, err
}

// Unlearn takes the fix back that was learned of a run, whose work a person has refused since. What it prevented
// stands open again.
func Unlearn(ctx context.Context, s *Store, source string) error {
	return s.at.Write(ctx, func(tx database.Session) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM memory_entries WHERE id IN (SELECT id FROM memory_lessons WHERE source = ? AND kind = 'fix')`, s.machine.named(nacre.SessionID(source)))
		return err
	})
}

// Failures are those of tasks in a project that a task is like, the most alike first, with
// what was seen to fix them. Only what the host wrote counts, of entries and of edges.
func Failures(ctx context.Context, s *Store, project, task string) (failures []Failure, err error) {
	err = s.at.View(ctx, func(tx database.Session) error { // one view of both tables
		failures, err = failuresLike(ctx, tx, s, project, taskWords(s, task), "")
		if err != nil {
			return err
		}
		return withFixes(ctx, tx, s, failures)
	})
	return failures, s.at.Classified(err)
}

// withFixes finds what prevents each of some failures.
func withFixes(ctx context.Context, tx database.Session, s *Store, failures []Failure) error {
	for i := range failures {
		fixes, err := s.machine.hits(tx.QueryContext(ctx, `SELECT `+columns+`, 0.0 FROM memory_edges g JOIN memory_lessons x ON x.id = g.from_id AND x.kind = 'fix'
			JOIN memory_entries e ON e.id = x.id WHERE g.to_id = ? AND g.kind = 'prevents' AND g.verified = 1 AND `+standing+` ORDER BY e.seq DESC LIMIT 1`,
			failures[i].ID, string(s.group)))
		if err != nil {
			return err
		}
		if len(fixes) > 0 {
			failures[i].Fix = &fixes[0].Entry
		}
	}
	return nil
}

// standing are entries e of a group that nobody has taken back.
const standing = `e.group_name = ? AND e.trust = 'trusted' AND e.superseded_by IS NULL`

// failuresLike are those of a project's tasks that a task is like, the most alike first.
func failuresLike(ctx context.Context, tx database.Session, s *Store, project, task, where string) ([]Failure, error) {
	rows, err := tx.QueryContext(ctx, `SELECT e.id, l.task, l.cause, e.content, e.created_at FROM memory_lessons l JOIN memory_entries e ON e.id = l.id
		WHERE l.project = ? AND l.kind = 'failure' AND `+standing+where+` ORDER BY e.seq DESC LIMIT ?`, project, string(s.group), maxLessons)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err below tells
	asked := recall.Sketch(task)
	var found []Failure
	likeness := map[string]float64{}
	for rows.Next() {
		var f Failure
		if err := rows.Scan(&f.ID, &f.Task, &f.Cause, &f.Content, &f.CreatedAt); err != nil {
			return nil, err
		}
		if like := asked.Likeness(recall.Sketch(f.Task)); like >= similar {
			likeness[f.ID] = like
			found = append(found, f)
		}
	}
	slices.SortStableFunc(found, func(a, b Failure) int { return cmp.Compare(likeness[b.ID], likeness[a.ID]) })
	return found, rows.Err()
}

// keepLesson stores one, as the host's own word.
func keepLesson(ctx context.Context, tx database.Session, s *Store, w Writer, kind string, l Lesson) (string, error) {
	if l.Project == "" || l.Task == "" || l.Source == "" || utf8.RuneCountInString(l.Content) > MaxLesson {
		return "", fmt.Errorf("%w: a lesson is of a task, in a project, from a run, of at most %d characters", ErrInvalid, MaxLesson)
	}
	w.Operator = true // of the host: an agent has no way here
	draft := Draft{Type: "context", Content: "The task “" + l.Task + "”: " + l.Content, Tags: []string{kind}}
	if err := draft.check(); err != nil {
		return "", err
	}
	added, err := s.change(tx, w).addAll(ctx, []Draft{draft})
	if err != nil {
		return "", err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO memory_lessons(id, kind, project, task, cause, source) VALUES (?, ?, ?, ?, ?, ?)`,
		added[0].ID, kind, l.Project, l.Task, l.Cause, l.Source)
	return added[0].ID, err
}

// taskWords are what is kept of a task's words and compared: without secrets, in one line.
func taskWords(s *Store, task string) string {
	clean, _ := s.redact.String(singleLine(strings.ToValidUTF8(task[:min(len(task), 16*MaxTaskWords)], " ")))
	runes := []rune(clean)
	return string(runes[:min(len(runes), MaxTaskWords)])
}

// Line is a text in one line, with no sign in it that a reader does not see.
func Line(text string) string { return singleLine(text) }

func scanned[T any](row *sql.Row) (value T, err error) {
	err = row.Scan(&value)
	return value, err
}
