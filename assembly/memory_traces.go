package assembly

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/engine"
	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/sqlitefile"
	"github.com/nacre-dev/nacre/internal/task"
)

// forgottenTitle stands for the title of a session that was forgotten.
const forgottenTitle = "(forgotten)"

// MemoryTraces are what is kept of sessions beside their memories, as far as it may
// hold the words that are to be forgotten (M-57), and can go.
type MemoryTraces struct {
	// Conversations are those in which one of the sessions took a turn.
	Conversations []ConversationTrace `json:"conversations"`
	// Checkpoints are sessions of which durable work, or what was written for their
	// agent or by it, is kept.
	Checkpoints []nacre.SessionID `json:"checkpoints"`
	// Rows are runs of the ledger whose texts go.
	Rows []MemoryRow `json:"rows"`

	group nacre.Group
	// over are the sessions, and those that audited them; open are those that go on.
	over, open []registry.Session
}

// MemoryRow is a row of the ledger.
type MemoryRow struct {
	Agent   string `json:"agent"`
	DNA     string `json:"dna"`
	Session string `json:"session"`
}

// ConversationTrace is what of a conversation goes.
type ConversationTrace struct {
	Key string `json:"key"`
	// Gone are the sessions whose turns go: the first that holds what is to be
	// forgotten, and all after it, since they had heard it.
	Gone []nacre.SessionID `json:"gone"`
	// Left is how many turns before those stay.
	Left int `json:"left"`

	dir string
}

// Empty tells that there is nothing to erase.
func (t MemoryTraces) Empty() bool {
	return len(t.Conversations) == 0 && len(t.Checkpoints) == 0 && len(t.Rows) == 0
}

// MemoryTraces looks for what is kept of sessions of a group. Nothing changes.
func (r *Runtime) MemoryTraces(ctx context.Context, group nacre.Group, sessions []nacre.SessionID) (MemoryTraces, error) {
	t := MemoryTraces{Conversations: []ConversationTrace{}, Checkpoints: []nacre.SessionID{}, Rows: []MemoryRow{}, group: group}
	entries, err := os.ReadDir(r.conversations(group))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	touched := slices.Clone(sessions)
	for _, entry := range entries {
		one, err := traceOf(filepath.Join(r.conversations(group), entry.Name()), sessions)
		if err != nil {
			return t, err
		}
		if len(one.Gone) > 0 {
			t.Conversations, touched = append(t.Conversations, one), append(touched, one.Gone...)
		}
	}
	err = r.withLedger(ctx, func(l *ledger.Ledger) error {
		auditors, err := l.AuditorsOf(ctx, auditorRole, texts(touched))
		for _, id := range auditors { // who judges work has read what its agent said of it
			touched = append(touched, nacre.SessionID(id))
		}
		return err
	})
	if err != nil {
		return t, err
	}
	slices.Sort(touched)
	if err := r.sort(slices.Compact(touched), &t); err != nil {
		return t, err
	}
	return t, errors.Join(r.traceWork(ctx, &t), r.traceRows(ctx, &t))
}

func traceOf(dir string, sessions []nacre.SessionID) (ConversationTrace, error) {
	c, err := readConversation(dir, "")
	if err != nil {
		return ConversationTrace{}, err
	}
	first := slices.IndexFunc(c.Sessions, func(id nacre.SessionID) bool { return slices.Contains(sessions, id) })
	if first < 0 {
		return ConversationTrace{}, nil
	}
	return ConversationTrace{Key: c.Key, Gone: c.Sessions[first:], Left: first, dir: dir}, nil
}

// sort finds which of the sessions are the group's, and over.
func (r *Runtime) sort(sessions []nacre.SessionID, t *MemoryTraces) error {
	for _, id := range sessions {
		if _, err := nacre.ParseSessionID(string(id)); err != nil {
			continue // an import, or the operator
		}
		s, err := r.registry.Show(id)
		switch {
		case errors.Is(err, registry.ErrUnknown):
			continue
		case err != nil:
			return err
		case s.Group != t.group:
			continue
		case s.Live() || s.Resumable:
			t.open = append(t.open, s)
		default:
			t.over = append(t.over, s)
		}
	}
	return nil
}

// traceWork finds what sessions left in their own folders and in the store of durable work.
func (r *Runtime) traceWork(ctx context.Context, t *MemoryTraces) error {
	return r.withWork(ctx, func(client *engine.Client) error {
		for _, s := range t.over {
			left := s.Title != forgottenTitle || slices.ContainsFunc(r.leavings(s.ID), isThere)
			if client != nil && !left {
				works, err := client.Works(ctx, string(s.ID))
				if err != nil {
					return err
				}
				left = len(works) > 0
			}
			if left {
				t.Checkpoints = append(t.Checkpoints, s.ID)
			}
		}
		return nil
	})
}

// traceRows finds the rows of sessions in the ledger that have texts.
func (r *Runtime) traceRows(ctx context.Context, t *MemoryTraces) error {
	return r.withLedger(ctx, func(l *ledger.Ledger) error {
		rows, err := l.Written(ctx, namesOf(t.over))
		for _, row := range rows {
			t.Rows = append(t.Rows, MemoryRow{row.ID, row.DNA, row.Session})
		}
		return err
	})
}

// withWork opens the store of durable work; nil is none, where none was ever done.
func (r *Runtime) withWork(ctx context.Context, do func(*engine.Client) error) error {
	client, err := engine.OpenClient(ctx, r.registry.Paths().Engine(), nil)
	if errors.Is(err, engine.ErrNoStore) {
		return do(nil)
	}
	if err != nil {
		return err
	}
	return errors.Join(do(client), client.Close())
}

// withLedger opens the ledger, where there is one.
func (r *Runtime) withLedger(ctx context.Context, do func(*ledger.Ledger) error) error {
	if !isThere(filepath.Join(r.registry.Paths().State, ledger.FileName)) {
		return nil
	}
	l, err := r.ledger(ctx)
	if err != nil {
		return err
	}
	return errors.Join(do(l), l.Close())
}

func texts(ids []nacre.SessionID) []string {
	list := make([]string, 0, len(ids))
	for _, id := range ids {
		list = append(list, string(id))
	}
	return list
}

func namesOf(sessions []registry.Session) []string {
	list := make([]string, 0, len(sessions))
	for _, s := range sessions {
		list = append(list, string(s.ID))
	}
	return list
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// roleFolder is where what a session's agent was given is written: its brief, too.
func (r *Runtime) roleFolder(id nacre.SessionID) string {
	return filepath.Join(r.registry.Paths().Session(id), roleDir)
}

// leavings are what a session that is over keeps and nobody needs: what it was asked,
// what its agent was given, what it was judged by, and what an auditor said of it.
// Work that did not land is not among them: it is a person's to look at.
func (r *Runtime) leavings(id nacre.SessionID) []string {
	dir := r.registry.Paths().Session(id)
	list := []string{r.roleFolder(id)}
	for _, name := range []string{specFile, auditFile, task.EvidenceDir, task.JudgeDir, packagesDir} {
		list = append(list, filepath.Join(dir, name))
	}
	checks, _ := filepath.Glob(filepath.Join(dir, task.CheckPrefix+"*")) // the pattern is ours
	return append(list, checks...)
}

// EraseMemoryTraces erases what [Runtime.MemoryTraces] found, and the search index of
// the audit, which is built anew from what is recorded. It waits for turns that are
// being taken. Whoever is interrupted asks again. What others keep in a file's bytes
// is no error here: [Runtime.FinishErasures] tells of it.
func (r *Runtime) EraseMemoryTraces(ctx context.Context, t MemoryTraces) error {
	for _, c := range t.Conversations {
		if err := r.cut(ctx, t.group, c); err != nil {
			return fmt.Errorf("conversation %q: %w", c.Key, err)
		}
	}
	for _, id := range t.Checkpoints {
		if err := r.eraseLeavings(id); err != nil {
			return err
		}
	}
	for _, erase := range []func() error{
		func() error { return r.eraseWork(ctx, t) },
		func() error { return r.eraseRows(ctx, t) },
	} {
		if err := erase(); err != nil && !errors.Is(err, sqlitefile.ErrLingers) {
			return err
		}
	}
	if len(t.over) == 0 {
		return nil
	}
	return r.eraseCatalog()
}

// eraseLeavings erases what a session keeps in its folder, and its title, which is the
// beginning of what it was asked. A session that was opened again meanwhile is refused.
func (r *Runtime) eraseLeavings(id nacre.SessionID) error {
	held, err := r.registry.Adopt(id)
	if err != nil {
		return err
	}
	err = held.Update(func(s *registry.Session) { s.Title = forgottenTitle })
	for _, path := range r.leavings(id) {
		err = errors.Join(err, registry.Discard(path)) // an agent or a check may have made it
	}
	return errors.Join(err, held.Release())
}

func (r *Runtime) eraseWork(ctx context.Context, t MemoryTraces) error {
	return r.withWork(ctx, func(client *engine.Client) error {
		if client == nil {
			return nil
		}
		return client.Erase(ctx, texts(t.Checkpoints))
	})
}

func (r *Runtime) eraseRows(ctx context.Context, t MemoryTraces) error {
	if len(t.Rows) == 0 {
		return nil
	}
	return r.withLedger(ctx, func(l *ledger.Ledger) error { return l.Forget(ctx, namesOf(t.over)) })
}

// eraseCatalog removes what is copied from the chains to be searched.
func (r *Runtime) eraseCatalog() error {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(audit.CatalogPath(r.AuditRoot()) + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// FinishErasures ends what erasures have left that were killed, or that others were in
// the way of. It gives the files, beside the memories themselves, in whose bytes traces
// stay, since others use them still.
func (r *Runtime) FinishErasures(ctx context.Context) ([]string, error) {
	if err := r.settleOperators(ctx); err != nil {
		return nil, err
	}
	var list []string
	err := r.withWork(ctx, func(client *engine.Client) error {
		if client == nil {
			return nil
		}
		left, err := client.Traces(ctx)
		if left {
			list = append(list, r.registry.Paths().Engine())
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	err = r.withLedger(ctx, func(l *ledger.Ledger) error {
		left, err := l.Traces(ctx)
		if left {
			list = append(list, filepath.Join(r.registry.Paths().State, ledger.FileName))
		}
		return err
	})
	return list, err
}

// cut takes turns out of a conversation, and with them all that the brain itself
// keeps of it: its transcript is one text.
func (r *Runtime) cut(ctx context.Context, group nacre.Group, t ConversationTrace) error {
	leave, err := r.takeConversation(ctx, group, t.Key)
	if err != nil {
		return err
	}
	defer leave()
	c, err := readConversation(t.dir, t.Key)
	if err != nil {
		return err
	}
	first := slices.IndexFunc(c.Sessions, func(id nacre.SessionID) bool { return slices.Contains(t.Gone, id) })
	if first < 0 {
		return nil // it began anew meanwhile
	}
	if first == 0 {
		return registry.Discard(t.dir)
	}
	stays := c.Sessions[:first]
	c.Exchanges = slices.DeleteFunc(c.Exchanges, func(e exchange) bool { return !slices.Contains(stays, e.Session) })
	c.dir, c.Sessions, c.Resume = t.dir, stays, ""
	return errors.Join(registry.Discard(filepath.Join(t.dir, brainFolder)), c.write())
}
