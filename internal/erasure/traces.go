// Package erasure finds what is left of a forgotten memory outside of it, and erases
// what can be erased: conversations, leavings of sessions, files that hold its text.
package erasure

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/conversation"
	"github.com/nacre-dev/nacre/internal/engine"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/operator"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/sqlitefile"
	"github.com/nacre-dev/nacre/internal/task"
)

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
	// elsewhere are sessions of other machines of the installation's.
	elsewhere []nacre.SessionID
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

// TracesOf looks for what is kept of sessions of a group. Nothing changes.
func TracesOf(ctx context.Context, inst *installation.Installation, group nacre.Group, sessions []nacre.SessionID) (MemoryTraces, error) {
	t := MemoryTraces{Conversations: []ConversationTrace{}, Checkpoints: []nacre.SessionID{}, Rows: []MemoryRow{}, group: group}
	entries, err := os.ReadDir(conversation.Conversations(inst, group))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	touched := slices.Clone(sessions)
	for _, entry := range entries {
		one, err := traceOf(filepath.Join(conversation.Conversations(inst, group), entry.Name()), sessions)
		if err != nil {
			return t, err
		}
		if len(one.Gone) > 0 {
			t.Conversations, touched = append(t.Conversations, one), append(touched, one.Gone...)
		}
	}
	err = withLedger(ctx, inst, func(l *ledger.Ledger) error {
		auditors, err := l.AuditorsOf(ctx, installation.AuditorRole, texts(touched))
		for _, id := range auditors { // who judges work has read what its agent said of it
			touched = append(touched, nacre.SessionID(id))
		}
		return err
	})
	if err != nil {
		return t, err
	}
	slices.Sort(touched)
	if err := sort(inst, slices.Compact(touched), &t); err != nil {
		return t, err
	}
	return t, errors.Join(traceWork(ctx, inst, &t), traceRows(ctx, inst, &t))
}

func traceOf(dir string, sessions []nacre.SessionID) (ConversationTrace, error) {
	c, err := conversation.Read(dir, "")
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
func sort(inst *installation.Installation, sessions []nacre.SessionID, t *MemoryTraces) error {
	for _, id := range sessions {
		if strings.Contains(string(id), "/") {
			t.elsewhere = append(t.elsewhere, id)
			continue
		}
		if _, err := nacre.ParseSessionID(string(id)); err != nil {
			continue // an import, or the operator
		}
		s, err := inst.Registry.Show(id)
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
func traceWork(ctx context.Context, inst *installation.Installation, t *MemoryTraces) error {
	return withWork(ctx, inst, func(client *engine.Client) error {
		for _, s := range t.over {
			left := s.Title != registry.ForgottenTitle || slices.ContainsFunc(leavings(inst, s.ID), installation.IsThere)
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
func traceRows(ctx context.Context, inst *installation.Installation, t *MemoryTraces) error {
	return withLedger(ctx, inst, func(l *ledger.Ledger) error {
		rows, err := l.Written(ctx, namesOf(t.over))
		for _, row := range rows {
			t.Rows = append(t.Rows, MemoryRow{row.ID, row.DNA, row.Session})
		}
		return err
	})
}

// withWork opens the store of durable work; nil is none, where none was ever done.
func withWork(ctx context.Context, inst *installation.Installation, do func(*engine.Client) error) error {
	client, err := engine.OpenClient(ctx, inst.Registry.Paths().Engine(), nil)
	if errors.Is(err, engine.ErrNoStore) {
		return do(nil)
	}
	if err != nil {
		return err
	}
	return errors.Join(do(client), client.Close())
}

// withLedger opens the ledger, where there is one.
func withLedger(ctx context.Context, inst *installation.Installation, do func(*ledger.Ledger) error) error {
	if !installation.IsThere(filepath.Join(inst.Registry.Paths().State, ledger.FileName)) {
		return nil
	}
	l, err := installation.LedgerOf(ctx, inst)
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

// roleFolder is where what a session's agent was given is written: its brief, too.
func roleFolder(inst *installation.Installation, id nacre.SessionID) string {
	return filepath.Join(inst.Registry.Paths().Session(id), registry.RoleDir)
}

// leavings are what a session that is over keeps and nobody needs. They are what it was asked, what
// its agent was given, what it was judged by, and what an auditor said of it. Work that did not
// land is not among them: it is a person's to look at.
func leavings(inst *installation.Installation, id nacre.SessionID) []string {
	dir := inst.Registry.Paths().Session(id)
	list := []string{roleFolder(inst, id), inst.Registry.Paths().Events(id)}
	for _, name := range []string{registry.SpecFile, registry.AuditFile, registry.CheckFile, registry.ResultFile, task.EvidenceDir, task.JudgeDir, registry.PackagesDir} {
		list = append(list, filepath.Join(dir, name))
	}
	checks, _ := filepath.Glob(filepath.Join(dir, task.CheckPrefix+"*")) // the pattern is ours
	return append(list, checks...)
}

// EraseMemoryTraces erases what [TracesOf] found, and the search index of
// the audit, which is built anew from what is recorded. It waits for turns that are
// being taken. Whoever is interrupted asks again. What others keep in a file's bytes
// is no error here: [FinishErasures] tells of it.
func EraseMemoryTraces(ctx context.Context, inst *installation.Installation, t MemoryTraces) error {
	for _, c := range t.Conversations {
		if err := cut(ctx, inst, t.group, c); err != nil {
			return fmt.Errorf("conversation %q: %w", c.Key, err)
		}
	}
	for _, id := range t.Checkpoints {
		if err := eraseLeavings(inst, id); err != nil {
			return err
		}
	}
	for _, erase := range []func() error{
		func() error { return eraseWork(ctx, inst, t) },
		func() error { return eraseRows(ctx, inst, t) },
	} {
		if err := erase(); err != nil && !errors.Is(err, sqlitefile.ErrLingers) {
			return err
		}
	}
	if len(t.over) == 0 {
		return nil
	}
	return eraseCatalog(inst)
}

// eraseLeavings erases what a session keeps in its folder, and its title, which is the
// beginning of what it was asked. A session that was opened again meanwhile is refused.
func eraseLeavings(inst *installation.Installation, id nacre.SessionID) error {
	held, err := inst.Registry.Adopt(id)
	if err != nil {
		return err
	}
	err = held.Update(func(s *registry.Session) { s.Title = registry.ForgottenTitle })
	for _, path := range leavings(inst, id) {
		err = errors.Join(err, registry.Discard(path)) // an agent or a check may have made it
	}
	return errors.Join(err, held.Release())
}

func eraseWork(ctx context.Context, inst *installation.Installation, t MemoryTraces) error {
	for _, id := range t.Checkpoints {
		if err := operator.ForgetRun(ctx, inst, id); err != nil {
			return err
		}
	}
	return withWork(ctx, inst, func(client *engine.Client) error {
		if client == nil {
			return nil
		}
		return client.Erase(ctx, texts(t.Checkpoints))
	})
}

func eraseRows(ctx context.Context, inst *installation.Installation, t MemoryTraces) error {
	if len(t.Rows) == 0 {
		return nil
	}
	return withLedger(ctx, inst, func(l *ledger.Ledger) error { return l.Forget(ctx, namesOf(t.over)) })
}

// eraseCatalog removes what is copied from the chains to be searched.
func eraseCatalog(inst *installation.Installation) error {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(audit.CatalogPath(inst.AuditRoot()) + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// FinishErasures ends what erasures have left that were killed, or that others were in
// the way of. It gives the files, beside the memories themselves, in whose bytes traces
// stay, since others use them still.
func FinishErasures(ctx context.Context, inst *installation.Installation) ([]string, error) {
	if err := operator.SettleOperators(ctx, inst); err != nil {
		return nil, err
	}
	var list []string
	err := withWork(ctx, inst, func(client *engine.Client) error {
		if client == nil {
			return nil
		}
		left, err := client.Traces(ctx)
		if left {
			list = append(list, inst.Registry.Paths().Engine())
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	err = withLedger(ctx, inst, func(l *ledger.Ledger) error {
		left, err := l.Traces(ctx)
		if left {
			list = append(list, filepath.Join(inst.Registry.Paths().State, ledger.FileName))
		}
		return err
	})
	return list, err
}

// cut takes turns out of a conversation, and with them all that the brain itself
// keeps of it: its transcript is one text.
func cut(ctx context.Context, inst *installation.Installation, group nacre.Group, t ConversationTrace) error {
	leave, err := conversation.Take(ctx, inst, group, t.Key)
	if err != nil {
		return err
	}
	defer leave()
	c, err := conversation.Read(t.dir, t.Key)
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
	c.Exchanges = slices.DeleteFunc(c.Exchanges, func(e conversation.Exchange) bool { return !slices.Contains(stays, e.Session) })
	c.Dir, c.Sessions, c.Resume = t.dir, stays, ""
	return errors.Join(registry.Discard(filepath.Join(t.dir, conversation.BrainFolder)), c.Write())
}
