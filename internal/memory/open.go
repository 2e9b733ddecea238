package memory

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/redact"
	"github.com/nacre-dev/nacre/internal/sqlitefile"
)

// DefaultPurge is how long what was superseded is kept (D-40).
const DefaultPurge = 90 * 24 * time.Hour

// Options of a store.
type Options struct {
	// Group is whose memory it is; required.
	Group nacre.Group
	// Now is the clock; required.
	Now func() time.Time
	// NewID makes the ids of entries; nil means "mem-" and 26 random letters and digits.
	NewID func() string
	// Embed, where set, makes the vectors of Model, by which entries are found
	// beside their words (D-42).
	Embed Embed
	Model string
	// PurgeAfter is how old a superseded entry is when Open removes it; zero means [DefaultPurge].
	PurgeAfter time.Duration
	// BriefEntries and BriefChars limit a brief; zero means [DefaultBriefEntries] and [DefaultBriefChars].
	BriefEntries, BriefChars int
	// Working makes the store that of a sub-agent.
	Working Working
	// Warn is told what the operator should know, such as an endpoint that does not
	// answer; nil means nobody is.
	Warn func(string)
}

// Store is one group's memory. It is safe for concurrent use, also by several
// processes on one file or one database.
type Store struct {
	base
	ranking *ranking
	newID   func() string
	purged  int
	seen    seen

	brief      struct{ entries, chars int } // limits
	purgeAfter time.Duration

	warm struct { // what Warm began
		mu     sync.Mutex
		closed bool
		end    func() // nil where it did not begin
	}
}

// base is what every part of a memory works with.
type base struct {
	at database.Tables
	// file is that of one machine's memory; nil in a store, whose tables hold all groups.
	file    *sqlitefile.File
	machine machine
	group   nacre.Group
	now     func() time.Time
	redact  *redact.Engine
	working Working
}

// Exists tells whether there is a group's file, as [sqlitefile.Exists] does.
func Exists(path string) (bool, error) { return sqlitefile.Exists(path) }

// Open opens the memory in a file, makes it where there is none, brings an older
// one forward and removes superseded entries that are old. Every error but the
// context's is a [*sqlitefile.UnusableError].
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	if err := o.check(); err != nil {
		return nil, &sqlitefile.UnusableError{Name: name, Path: path, Err: err}
	}
	file, err := sqlitefile.Open(ctx, path, format())
	if err != nil {
		return nil, err
	}
	s := o.open(base{at: database.InFile(file, sqlitefile.Classified), file: file})
	err = s.tidy(ctx)
	if err == nil {
		s.ranking.lastChange, err = file.DB().PrepareContext(ctx, lastChange)
	}
	if err != nil {
		err = errors.Join(err, file.Close())
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &sqlitefile.UnusableError{Name: name, Path: path, Err: sqlitefile.Classified(err)}
	}
	return s, nil
}

// oneAtATime is the advisory lock of whoever writes to memories in a store.
const oneAtATime = 0x6e636d65

// OpenOn opens a group's memory in the store that the machines of an installation share, and does what
// [Open] does. What a node writes to it comes before the end of its lease, or is refused. Sessions
// are those of the machine with the given id, of at least [machineLength] letters. Another one's are told
// by the beginning of its id, a slash and their names, and are named so, too.
func OpenOn(ctx context.Context, store *database.Store, id string, o Options) (*Store, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if len(id) < machineLength {
		return nil, errors.New("memory: a machine's id is required")
	}
	at, err := store.Tables(ctx, name, oneAtATime, Migrations)
	if err != nil {
		return nil, err
	}
	s := o.open(base{at: at, machine: machine(id[:machineLength])})
	if err := s.tidy(ctx); err != nil {
		return nil, errors.Join(at.Classified(err), at.Close())
	}
	return s, nil
}

// open is a memory in some tables.
func (o Options) open(b base) *Store {
	if o.NewID == nil {
		o.NewID = func() string { return "mem-" + rand.Text() }
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	b.group, b.now, b.redact, b.working = o.Group, o.Now, redact.New(), o.Working
	s := &Store{base: b, ranking: &ranking{base: b, embed: o.Embed, model: o.Model, warn: o.Warn}, newID: o.NewID, purgeAfter: o.PurgeAfter}
	s.brief.entries, s.brief.chars = o.BriefEntries, o.BriefChars
	return s
}

// machineLength is how many letters of its id name a machine.
const machineLength = 12

// machine tells one machine's sessions from those of others in a store, which may have the same
// names; empty in a file.
type machine string

// named is a session's name in the tables. One with a slash is another machine's.
func (m machine) named(session nacre.SessionID) string {
	if m == "" || session == "" || strings.Contains(string(session), "/") {
		return string(session)
	}
	return string(m) + "/" + string(session)
}

// ours is a session's name to this machine.
func (m machine) ours(named string) nacre.SessionID {
	if m == "" {
		return nacre.SessionID(named)
	}
	return nacre.SessionID(strings.TrimPrefix(named, string(m)+"/"))
}

// check refuses what is missing or cannot be, and fills in what was left open.
func (o *Options) check() error {
	if _, err := nacre.ParseGroup(string(o.Group)); err != nil || o.Now == nil {
		return errors.Join(err, errors.New("a group and a clock are required"))
	}
	if o.PurgeAfter < 0 || o.BriefEntries < 0 || o.BriefChars < 0 {
		return errors.New("limits are not below zero")
	}
	o.PurgeAfter = cmp.Or(o.PurgeAfter, DefaultPurge)
	o.BriefEntries, o.BriefChars = cmp.Or(o.BriefEntries, DefaultBriefEntries), cmp.Or(o.BriefChars, DefaultBriefChars)
	return nil
}

// lastChange asks for the number of the file's last change.
const lastChange = `SELECT coalesce(max(change), 0) FROM memory_changes`

// tidy removes what is old, and what an erasure that was interrupted has left.
func (s *Store) tidy(ctx context.Context) (err error) {
	if s.file == nil { // nobody waits for others' writes where there is nothing to do
		if due, err := s.due(ctx); err != nil || !due {
			return err
		}
	}
	if s.purged, err = s.purge(ctx); err != nil {
		return err
	}
	if s.working.is() {
		if err := purgeWorking(ctx, s); err != nil {
			return err
		}
	}
	return s.scrubLeft(ctx)
}

// due tells whether there is something for tidy to do.
func (s *Store) due(ctx context.Context) (is bool, err error) {
	err = s.at.Reader().QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM memory_scrub)
		OR EXISTS (SELECT 1 FROM memory_entries WHERE superseded_by IS NOT NULL AND created_at < ?1 AND group_name = ?2)
		OR EXISTS (SELECT 1 FROM memory_entries WHERE expires_at <= ?3 AND instr(tags, '"`+workingTag+`') > 0 AND group_name = ?2)
		OR (SELECT coalesce(max(change) - min(change), 0) FROM memory_changes) >= 2 * CAST(?4 AS bigint)`,
		stamp(s.now().Add(-s.purgeAfter)), string(s.group), stamp(s.now()), maxChanges).Scan(&is)
	return is, err
}

// purge removes superseded entries that are old enough, but none that a
// younger one still points to.
func (s *Store) purge(ctx context.Context) (int, error) {
	before := stamp(s.now().Add(-s.purgeAfter))
	var n int64
	err := s.at.Write(ctx, func(tx database.Session) error {
		r, err := tx.ExecContext(ctx, `DELETE FROM memory_entries WHERE superseded_by IS NOT NULL AND created_at < ?1 AND group_name = ?2
			AND id NOT IN (SELECT superseded_by FROM memory_entries WHERE superseded_by IS NOT NULL AND created_at >= ?1)`, before, string(s.group))
		if err != nil {
			return err
		}
		if n, err = r.RowsAffected(); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM memory_changes WHERE change <= (SELECT max(change) FROM memory_changes) - ?`, maxChanges)
		return err
	})
	return int(n), err
}

// Rests tells until when Open would find nothing to remove, as long as nobody changes
// the file; the zero time where it would now.
func (s *Store) Rests(ctx context.Context) (time.Time, error) {
	left, err := s.Traces(ctx)
	if err != nil || left {
		return time.Time{}, err
	}
	var first sql.NullString
	err = s.at.Reader().QueryRowContext(ctx, `SELECT min(created_at) FROM memory_entries WHERE superseded_by IS NOT NULL AND group_name = ?`, string(s.group)).Scan(&first)
	if err != nil || !first.Valid {
		return s.now().Add(s.purgeAfter), s.at.Classified(err)
	}
	made, err := time.Parse(stampForm, first.String)
	return made.Add(s.purgeAfter), err
}

// Purged is how many superseded entries Open removed.
func (s *Store) Purged() int { return s.purged }

// Warm begins to build what searches rank by, which takes as long as a second for
// 50,000 entries, so that the first search need not. What goes wrong with it, that
// search finds again. A second call does nothing; Close ends it.
func (s *Store) Warm() {
	s.warm.mu.Lock()
	defer s.warm.mu.Unlock()
	if s.warm.closed || s.warm.end != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	s.warm.end = func() { cancel(); <-done }
	go func() {
		defer close(done)
		_ = s.ranking.follow(ctx)
	}()
}

// Close ends the use of the memory.
func (s *Store) Close() error {
	s.warm.mu.Lock()
	s.warm.closed = true
	end := s.warm.end
	s.warm.mu.Unlock()
	if end != nil {
		end()
	}
	return s.at.Close()
}

const stampForm = "2006-01-02T15:04:05.000Z"

// stamp is ISO 8601 in UTC, of one width so that text order is time order.
func stamp(t time.Time) string { return t.UTC().Format(stampForm) }

// Recheck has the next Open read all of a file, even where nothing has written to it.
func Recheck(path string) { sqlitefile.Recheck(path) }
