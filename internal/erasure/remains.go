package erasure

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/engine"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/scheduling"
	"github.com/nacre-dev/nacre/internal/task"
)

// MemoryRemain is a place that an erasure does not reach and that is there (M-57).
type MemoryRemain struct {
	// What it is, and Where: a file, or a folder with all below it.
	What  string `json:"what"`
	Where string `json:"where"`
	// Session is whose it is, where that is known.
	Session nacre.SessionID `json:"session,omitempty"`
	// Holds says that the words were found in it. Else it is of a session that knew
	// them, which may have put them in words of its own.
	Holds bool `json:"holds"`
	// Next is what removes it.
	Next string `json:"next"`

	loose bool // files in it are named one by one, where the words are found
}

// MemoryLook says what is looked for.
type MemoryLook struct {
	// Words are the texts that were, or are to be, forgotten.
	Words []string
	// Again is the command that finishes this erasure later.
	Again string
	// Erased says that what can go is gone. Until then it is left out.
	Erased bool
}

// MemoryRemains looks for what is left of sessions, and goes through all files of the
// installation's state for the words themselves. Nothing changes.
func MemoryRemains(ctx context.Context, inst *installation.Installation, t MemoryTraces, o MemoryLook) ([]MemoryRemain, error) {
	l := &look{runtime: inst, t: t, o: o, words: newPhrases(o.Words), at: map[string]int{}, named: map[string]int{}, list: []MemoryRemain{}}
	for _, find := range []func(context.Context) error{l.sessions, l.elsewhere, l.schedules, l.shared, l.files} {
		if err := find(ctx); err != nil {
			return nil, err
		}
	}
	return l.list, nil
}

// look is one look for what remains.
type look struct {
	runtime *installation.Installation
	t       MemoryTraces
	o       MemoryLook
	words   *phrases
	list    []MemoryRemain
	at      map[string]int // what is in the list, by where it is
	named   map[string]int // how many files below a folder are in it
}

func (l *look) add(m MemoryRemain) {
	same := func(known MemoryRemain) bool {
		return known.Where == m.Where && known.What == m.What && known.Session == m.Session
	}
	first, known := l.at[m.Where]
	if known && slices.ContainsFunc(l.list[first:], same) {
		return
	}
	if !known {
		l.at[m.Where] = len(l.list)
	}
	l.list = append(l.list, m)
}

// found says of all that is in a place that the words are in there.
func (l *look) found(where string) {
	for i := l.at[where]; i < len(l.list); i++ {
		if l.list[i].Where == where {
			l.list[i].Holds = true
		}
	}
}

func (l *look) state() string { return l.runtime.Registry.Paths().State }

// sessions names what is kept of the sessions themselves.
func (l *look) sessions(ctx context.Context) error {
	if err := l.open(ctx); err != nil {
		return err
	}
	for _, s := range slices.Concat(l.t.open, l.t.over) {
		chains, err := filepath.Glob(filepath.Join(l.runtime.AuditRoot(), string(s.ID)+".*"))
		if err != nil {
			return err
		}
		for _, dir := range chains {
			l.add(l.chain(filepath.Base(dir), s.ID))
		}
		if path := l.runtime.ReceiptPath(s.ID); installation.IsThere(path) {
			l.add(MemoryRemain{What: "receipt, with a digest of the task", Where: path, Session: s.ID, Next: "rm " + quotedPath(path)})
		}
	}
	for _, s := range l.t.over {
		l.work(s)
	}
	return nil
}

// elsewhere names the sessions of other machines, whose disks are not looked at from here.
func (l *look) elsewhere(context.Context) error {
	for _, id := range l.t.elsewhere {
		machine, session, _ := strings.Cut(string(id), "/")
		if strings.HasPrefix(session, importPrefix) {
			continue // of which nothing else is kept
		}
		l.add(MemoryRemain{
			What: "session on another machine", Where: machine, Session: id,
			Next: "on that machine, which nacre store machines names: nacre memory forget --group " + string(l.t.group) + " --session " + session,
		})
	}
	return nil
}

// importPrefix begins the names under which nacre memory import stores entries.
const importPrefix = "import-"

// open names sessions that are not over, with their work and their rows.
func (l *look) open(ctx context.Context) error {
	if len(l.t.open) == 0 {
		return nil
	}
	paths, next := l.runtime.Registry.Paths(), map[nacre.SessionID]string{}
	for _, s := range l.t.open {
		end := "nacre sessions stop " + string(s.ID)
		if s.Resumable {
			end = "nacre run --session " + string(s.ID) // which carries it to its end
		}
		next[s.ID] = end + "; then " + l.o.Again
		l.add(MemoryRemain{What: "session that is not over", Where: paths.Session(s.ID), Session: s.ID, Next: next[s.ID]})
	}
	err := withWork(ctx, l.runtime, func(client *engine.Client) error {
		for _, s := range l.t.open {
			if client == nil {
				break
			}
			works, err := client.Works(ctx, string(s.ID))
			if err != nil {
				return err
			}
			if len(works) > 0 {
				l.add(MemoryRemain{What: "durable work", Where: paths.Engine(), Session: s.ID, Next: next[s.ID]})
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return withLedger(ctx, l.runtime, func(book *ledger.Ledger) error {
		rows, err := book.Of(ctx, namesOf(l.t.open))
		for _, row := range rows {
			id := nacre.SessionID(row.Session)
			l.add(MemoryRemain{What: "row of " + row.ID + " in the ledger", Where: filepath.Join(paths.State, ledger.FileName), Session: id, Next: next[id]})
		}
		return err
	})
}

// work names what a session worked on.
func (l *look) work(s registry.Session) {
	dir := l.runtime.Registry.Paths().Session(s.ID)
	vaults, _ := filepath.Glob(filepath.Join(dir, task.VaultPrefix+"*")) // the pattern is ours
	for _, path := range append([]string{filepath.Join(dir, task.WorkDir)}, vaults...) {
		if installation.IsThere(path) {
			l.add(MemoryRemain{What: "work that did not land", Where: path, Session: s.ID, Next: "rm -r " + quotedPath(path)})
		}
	}
	if s.Project != "" && installation.IsThere(s.Project) && (s.Outcome == "landed" || s.Kind == "exec" || s.Kind == "agent") {
		l.add(MemoryRemain{What: "project, with changes and git's history", Where: s.Project, Session: s.ID, Next: "git -C " + quotedPath(s.Project) + " log --stat"})
	}
}

// chain is a chain of the audit. It is evidence, and goes as a whole under a signed checkpoint.
func (l *look) chain(name string, id nacre.SessionID) MemoryRemain {
	m := MemoryRemain{What: "audit chain", Where: filepath.Join(l.runtime.AuditRoot(), name), Session: id}
	head, err := audit.ReadHead(l.runtime.AuditRoot(), name, l.runtime.Keys.Public())
	at, timeErr := time.Parse(time.RFC3339Nano, head.Time)
	switch {
	case name == audit.IndexChain:
		m.Next = "nothing removes it: it vouches for all chains"
	case err != nil || timeErr != nil || head.State != audit.HeadClosed:
		m.Next = "nacre audit prune --before DATE, once the chain is closed: nacre audit verify tells"
	default:
		m.Next = "nacre audit prune --before " + at.Add(time.Second).UTC().Truncate(time.Second).Format(time.RFC3339) + ", with all that is as old"
	}
	return m
}

// schedules names those that the sessions made.
func (l *look) schedules(ctx context.Context) (err error) {
	place, kept := scheduling.Place(l.runtime)
	if !kept {
		return nil
	}
	store, err := scheduling.Schedules(ctx, l.runtime)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	list, err := store.List(ctx, l.t.group)
	for _, s := range list {
		if slices.Contains(namesOf(slices.Concat(l.t.open, l.t.over)), s.CreatedBy) {
			l.add(MemoryRemain{
				What: "schedule " + s.ID, Where: place, Session: nacre.SessionID(s.CreatedBy), Next: "nacre schedule remove " + s.ID,
			})
		}
	}
	return err
}

// shared names the folders that sessions share, where they can have left something:
// the group's workspace, and the data of plugins as far as it changed since.
func (l *look) shared(context.Context) error {
	all := slices.Concat(l.t.open, l.t.over)
	if len(all) == 0 {
		return nil
	}
	began := slices.MinFunc(all, func(a, b registry.Session) int { return a.Started.Compare(b.Started) }).Started
	workspace := filepath.Join(l.runtime.Registry.Paths().Group(l.t.group), "workspace")
	if touchedSince(workspace, time.Time{}) { // an agent can set its files' times
		l.add(MemoryRemain{What: "workspace, with files that agents wrote", Where: workspace, loose: true, Next: "look through the files, and remove those that tell of it"})
	}
	plugins, err := os.ReadDir(l.runtime.Registry.Paths().PluginData())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, plugin := range plugins {
		if path := filepath.Join(l.runtime.Registry.Paths().PluginData(), plugin.Name()); touchedSince(path, began) {
			l.add(MemoryRemain{
				What: "data of the plugin " + plugin.Name(), Where: path, loose: true,
				Next: "look through the files, and remove those that tell of it while no nacre runs",
			})
		}
	}
	return nil
}

// touchedSince tells whether a folder has a file that changed at a time or later.
func touchedSince(dir string, at time.Time) bool {
	found := false
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil //nolint:nilerr // what cannot be read has no file that is known of
		}
		info, err := entry.Info()
		if found = err == nil && !info.ModTime().Before(at.Truncate(time.Second)); found {
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// quotedPath is a path as a shell takes it.
func quotedPath(path string) string {
	plain := func(c rune) bool {
		return c != '/' && c != '.' && c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	}
	if !strings.ContainsFunc(path, plain) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
