package memory

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/database"
)

// Limits of an entry (the seed's).
const (
	MaxContent = 2000 // characters
	MaxTags    = 10
	MaxTag     = 50 // characters
)

// Limits of one session, kept over a reconnect (D-41).
const (
	MaxStores     = 20
	MaxSupersedes = 5
	MaxDeletes    = 5
	MaxLinks      = 20
)

// The kinds of edge between entries.
const (
	// EdgePrevents leads from a fix to the failure it prevents (M-53).
	EdgePrevents    = "prevents"
	EdgeDerivedFrom = "derived_from"
)

// Writer is on whose behalf something is written. It comes from the host.
type Writer struct {
	Session nacre.SessionID
	// Operator writes are trusted and count against no limit.
	Operator bool
	// Label is the trust of what the session had been told when it wrote.
	Label nacre.Label
}

// Draft is an entry before it is stored.
type Draft struct {
	Type       string
	Content    string
	Tags       []string
	Supersedes string // id of the entry it replaces, or ""
	// Expires is when it stops being found; zero means never.
	Expires time.Time
	// Created is when it was first written, where that was elsewhere; zero means now.
	Created time.Time
	// untrusted: the operator brings it in without vouching for it.
	untrusted bool
}

// Entry is one memory.
type Entry struct {
	ID         string   `json:"id"`
	Type       string   `json:"type"`
	Content    string   `json:"content"`
	Tags       []string `json:"tags"`
	Behavioral bool     `json:"behavioral"`
	// Trust is trusted when an operator vouches for the entry.
	Trust nacre.Label `json:"trust"`
	// Label is trusted where no outsider's words had entered the session that wrote it,
	// and the operator has not declined it since.
	Label        nacre.Label `json:"label"`
	CreatedAt    string      `json:"created_at"`
	SupersededBy string      `json:"superseded_by,omitempty"`
	ExpiresAt    string      `json:"expires_at,omitempty"`
	Provenance   Provenance  `json:"provenance"`
	// Redacted tells, of an entry that was just stored, that something in it
	// looked like a secret and was taken out.
	Redacted bool `json:"redacted,omitempty"`
}

// Told is the label of what an agent is told of the entry: what a session wrote
// before it had listened to an outsider taints nobody, and vouches for nothing.
func (e Entry) Told() nacre.Label {
	switch {
	case e.Trust == nacre.Trusted:
		return nacre.Trusted
	case e.Label == nacre.Trusted:
		return nacre.Unvouched
	}
	return nacre.Untrusted
}

// Provenance is set by the host, never by the agent.
type Provenance struct {
	Session   nacre.SessionID `json:"session_id"`
	Group     nacre.Group     `json:"group"`
	Timestamp string          `json:"timestamp"`
}

// Link is an edge to or from an entry.
type Link struct {
	From string `json:"from"`
	To   string `json:"to"`
	Kind string `json:"kind"`
}

// Why an operation was refused. Each reaches the agent in words.
var (
	ErrNotFound = errors.New("no such entry")
	ErrLimit    = errors.New("this session has used up its limit")
	ErrTrusted  = errors.New("the operator trusts this entry: ask them to change it")
	ErrInvalid  = errors.New("invalid entry")
	ErrQuery    = errors.New("invalid search")
)

// behavioral says, for each type, whether entries of it influence how an agent acts.
func behavioral(kind string) (is, known bool) {
	switch kind {
	case "preference", "instruction", "correction":
		return true, true
	case "fact", "context":
		return false, true
	}
	return false, false
}

func (d Draft) check() error {
	_, known := behavioral(d.Type)
	switch {
	case !known:
		return fmt.Errorf("%w: type %.40q", ErrInvalid, d.Type)
	case strings.TrimSpace(d.Content) == "":
		return fmt.Errorf("%w: content is empty", ErrInvalid)
	case !utf8.ValidString(d.Content) || strings.ContainsRune(d.Content, 0):
		return fmt.Errorf("%w: content holds bytes that are no text", ErrInvalid)
	case utf8.RuneCountInString(d.Content) > MaxContent:
		return fmt.Errorf("%w: content has more than %d characters", ErrInvalid, MaxContent)
	case len(d.Tags) > MaxTags:
		return fmt.Errorf("%w: more than %d tags", ErrInvalid, MaxTags)
	}
	for _, tag := range d.Tags {
		if tag == "" || utf8.RuneCountInString(tag) > MaxTag || !utf8.ValidString(tag) || strings.ContainsRune(tag, 0) {
			return fmt.Errorf("%w: tag %.60q: use 1–%d characters", ErrInvalid, tag, MaxTag)
		}
	}
	return nil
}

// Add stores an entry and, in the same transaction, marks what it supersedes.
// What looks like a secret is taken out of its text first.
// Errors: [ErrInvalid], [ErrLimit], [ErrNotFound] and [ErrTrusted] for what it supersedes.
func (s *Store) Add(ctx context.Context, w Writer, d Draft) (Entry, error) {
	added, err := s.AddAll(ctx, w, []Draft{d})
	if err != nil {
		return Entry{}, err
	}
	return added[0], nil
}

// AddAll stores all of the drafts or none of them.
func (s *Store) AddAll(ctx context.Context, w Writer, drafts []Draft) ([]Entry, error) {
	var added []Entry
	for i, d := range drafts {
		if err := d.check(); err != nil {
			return nil, draftError(err, i, len(drafts))
		}
	}
	err := s.at.Write(ctx, func(tx database.Session) (err error) {
		added, err = s.change(tx, w).addAll(ctx, drafts)
		return err
	})
	return added, err
}

// change is what one writer changes in one transaction.
type change struct {
	base
	newID func() string
	tx    database.Session
	by    Writer
	// session is the writer's, as it is called in the tables.
	session string
}

func (s *Store) change(tx database.Session, by Writer) change {
	return change{s.base, s.newID, tx, by, s.machine.named(by.Session)}
}

// atOnce is how many rows one statement adds.
const atOnce = 100

func (c change) addAll(ctx context.Context, drafts []Draft) ([]Entry, error) {
	added := make([]Entry, 0, len(drafts))
	for part := range slices.Chunk(drafts, atOnce) {
		first := len(added)
		for i, d := range part {
			e, err := c.begin(ctx, d)
			if err != nil {
				return nil, draftError(err, first+i, len(drafts))
			}
			added = append(added, e)
		}
		if err := c.insert(ctx, added[first:]); err != nil {
			return nil, err
		}
		for i, d := range part {
			if err := c.follow(ctx, d, added[first+i].ID); err != nil {
				return nil, draftError(err, first+i, len(drafts))
			}
		}
	}
	return added, nil
}

// draftError says which of several drafts it was.
func draftError(err error, i, of int) error {
	if of == 1 {
		return err
	}
	return fmt.Errorf("entry %d: %w", i+1, err)
}

// begin is an entry that its writer may store.
func (c change) begin(ctx context.Context, d Draft) (Entry, error) {
	if err := checkTags(c.by, d.Tags); err != nil {
		return Entry{}, err
	}
	return c.entry(d), c.use(ctx, "store", MaxStores)
}

// insert adds entries.
func (c change) insert(ctx context.Context, entries []Entry) error {
	const row = `,(?,?,?,?,?,?,?,?,?,?,?)`
	args := make([]any, 0, len(entries)*strings.Count(row, "?"))
	for _, e := range entries {
		tags, err := json.Marshal(e.Tags)
		if err != nil {
			return err
		}
		args = append(args, e.ID, e.Type, e.Content, string(tags), e.Behavioral, c.session, string(c.group), e.CreatedAt,
			e.Trust.String(), e.Label.String(), sql.NullString{String: e.ExpiresAt, Valid: e.ExpiresAt != ""})
	}
	_, err := c.tx.ExecContext(ctx, `INSERT INTO memory_entries
		(id, type, content, tags, behavioral, session_id, group_name, created_at, trust, label, expires_at) VALUES `+strings.Repeat(row, len(entries))[1:], args...)
	return err
}

// follow keeps where a new entry comes from, and what it replaces.
func (c change) follow(ctx context.Context, d Draft, id string) error {
	if err := c.trace(ctx, id); err != nil || d.Supersedes == "" {
		return err
	}
	return c.supersede(ctx, d.Supersedes, id)
}

func (c change) entry(d Draft) Entry {
	now := stamp(c.now())
	if !d.Created.IsZero() {
		now = stamp(d.Created)
	}
	e := Entry{
		ID: c.newID(), Type: d.Type, CreatedAt: now, Tags: []string{},
		Provenance: Provenance{c.by.Session, c.group, now},
	}
	e.Content, e.Redacted = c.redact.String(d.Content)
	for _, tag := range d.Tags {
		clean, found := c.redact.String(tag)
		e.Tags, e.Redacted = append(e.Tags, clean), e.Redacted || found
	}
	e.Behavioral, _ = behavioral(d.Type)
	if c.by.Label != nacre.Untrusted && !d.untrusted {
		e.Label = nacre.Trusted
	}
	if c.by.Operator && !d.untrusted {
		e.Trust, e.Label = nacre.Trusted, nacre.Trusted
	}
	if !d.Expires.IsZero() {
		e.ExpiresAt = stamp(d.Expires)
	}
	c.working.mark(&e, c.now())
	return e
}

func (c change) supersede(ctx context.Context, old, by string) error {
	if err := c.use(ctx, "supersede", MaxSupersedes); err != nil {
		return err
	}
	successor, err := c.mayChange(ctx, old)
	if err != nil {
		return err
	}
	if successor != "" {
		return fmt.Errorf("%w: %s was superseded already, by %s", ErrInvalid, old, successor)
	}
	_, err = c.tx.ExecContext(ctx, `UPDATE memory_entries SET superseded_by = ? WHERE id = ?`, by, old)
	if err != nil {
		return err
	}
	return derive(ctx, c.tx, by, old, trailSupersedes)
}

// mayChange refuses what is not there, and to an agent what the operator
// trusts: an injected agent must not unlearn the operator's instructions.
func (c change) mayChange(ctx context.Context, id string) (successor string, err error) {
	var trust string
	var by sql.NullString
	err = c.tx.QueryRowContext(ctx, `SELECT trust, superseded_by FROM memory_entries WHERE id = ? AND group_name = ?`, id, string(c.group)).Scan(&trust, &by)
	if errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("%w: %.80q", ErrNotFound, id)
	}
	if err == nil && trust == nacre.Trusted.String() && !c.by.Operator {
		return "", fmt.Errorf("%w: %.80q", ErrTrusted, id)
	}
	if err == nil {
		err = c.working.mayChangeOf(ctx, c.tx, c.by, id)
	}
	return by.String, err
}

// use counts one use of a limit by the writer's session.
func (c change) use(ctx context.Context, what string, limit int) error {
	if c.by.Operator {
		return nil
	}
	var n int
	err := c.tx.QueryRowContext(ctx, `INSERT INTO memory_used(session_id, what, count) VALUES (?, ?, 1)
		ON CONFLICT (session_id, what) DO UPDATE SET count = memory_used.count + 1 RETURNING count`, c.session, what).Scan(&n)
	if err == nil && n > limit {
		return fmt.Errorf("%w: %d × %s", ErrLimit, limit, what)
	}
	return err
}

// Delete removes an entry for good. What it superseded becomes current again,
// or superseded by what superseded the entry; those ids are returned.
// Errors: [ErrNotFound], [ErrLimit], [ErrTrusted].
func (s *Store) Delete(ctx context.Context, w Writer, id string) (restored []string, err error) {
	err = s.at.Write(ctx, func(tx database.Session) error {
		c := s.change(tx, w)
		if err := c.use(ctx, "delete", MaxDeletes); err != nil {
			return err
		}
		successor, err := c.mayChange(ctx, id)
		if err != nil {
			return err
		}
		ids, err := texts(tx.QueryContext(ctx, `UPDATE memory_entries SET superseded_by = ? WHERE superseded_by = ? RETURNING id`,
			sql.NullString{String: successor, Valid: successor != ""}, id))
		if err != nil {
			return err
		}
		if successor == "" {
			restored = ids
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM memory_entries WHERE id = ?`, id)
		return err
	})
	return restored, err
}

func texts(rows *sql.Rows, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err below tells
	var all []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, rows.Err()
}

// Trust records that the operator vouches for an entry, or does not: only what is
// trusted may enter the brief (D-43). What the operator does not vouch for counts
// from then on as an outsider's words, whoever wrote it, and waits for no review.
func (s *Store) Trust(ctx context.Context, id string, trust nacre.Label) error {
	return s.at.Write(ctx, func(tx database.Session) error {
		r, err := tx.ExecContext(ctx, `UPDATE memory_entries SET trust = ?1, label = CASE WHEN ?1 = 'trusted' THEN label ELSE 'untrusted' END WHERE id = ?2 AND group_name = ?3`, trust.String(), id, string(s.group))
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, fmt.Errorf("%w: %.80q", ErrNotFound, id))
		}
		return nil
	})
}

// Link joins two entries of the group; a link that exists is no error.
// Errors: [ErrNotFound], [ErrLimit], [ErrInvalid].
func (s *Store) Link(ctx context.Context, w Writer, l Link) error {
	if err := l.check(); err != nil {
		return err
	}
	return s.at.Write(ctx, func(tx database.Session) error { return s.change(tx, w).link(ctx, l) })
}

func (l Link) check() error {
	if l.Kind != EdgePrevents && l.Kind != EdgeDerivedFrom || l.From == l.To {
		return fmt.Errorf("%w: link two different entries by %s or %s", ErrInvalid, EdgePrevents, EdgeDerivedFrom)
	}
	return nil
}

func (c change) link(ctx context.Context, l Link) error {
	if err := c.use(ctx, "link", MaxLinks); err != nil {
		return err
	}
	var found int
	err := c.tx.QueryRowContext(ctx, `SELECT count(*) FROM memory_entries WHERE id IN (?, ?) AND group_name = ?`, l.From, l.To, string(c.group)).Scan(&found)
	if err != nil {
		return err
	}
	if found != 2 {
		return fmt.Errorf("%w: %.80q or %.80q", ErrNotFound, l.From, l.To)
	}
	_, err = c.tx.ExecContext(ctx, `INSERT INTO memory_edges(from_id, to_id, kind, session_id, created_at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		l.From, l.To, l.Kind, c.session, stamp(c.now()))
	if err != nil || l.Kind != EdgeDerivedFrom {
		return err
	}
	return derive(ctx, c.tx, l.From, l.To, trailDerived)
}

const columns = `e.id, e.type, e.content, e.tags, e.behavioral, e.trust, e.label, e.created_at,
	coalesce(e.superseded_by, ''), coalesce(e.expires_at, ''), e.session_id, e.group_name`

// Get returns an entry, superseded or not, with its links. Error: [ErrNotFound].
func (s *Store) Get(ctx context.Context, id string) (Entry, []Link, error) {
	found, err := s.entries(ctx, `SELECT `+columns+`, 0.0 FROM memory_entries e WHERE e.id = ? AND e.group_name = ?`, id, string(s.group))
	if err != nil {
		return Entry{}, nil, err
	}
	if len(found) == 0 {
		return Entry{}, nil, fmt.Errorf("%w: %.80q", ErrNotFound, id)
	}
	links, err := s.links(ctx, id)
	return found[0].Entry, links, err
}

func (s base) links(ctx context.Context, id string) ([]Link, error) {
	return s.linksOf(s.at.Reader().QueryContext(ctx, `SELECT from_id, to_id, kind FROM memory_edges WHERE from_id = ?1 OR to_id = ?1 ORDER BY created_at, from_id, to_id LIMIT 100`, id))
}

// entries runs a query for columns and a rank.
func (s base) entries(ctx context.Context, query string, args ...any) ([]Hit, error) {
	hits, err := s.machine.hits(s.at.Reader().QueryContext(ctx, query, args...))
	return hits, s.at.Classified(err)
}

func (m machine) hits(rows *sql.Rows, err error) ([]Hit, error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err below tells
	hits := []Hit{}
	for rows.Next() {
		var h Hit
		var tags, trust, label, session string
		err := rows.Scan(&h.ID, &h.Type, &h.Content, &tags, &h.Behavioral, &trust, &label, &h.CreatedAt,
			&h.SupersededBy, &h.ExpiresAt, &session, &h.Provenance.Group, &h.Relevance)
		if err != nil {
			return nil, err
		}
		// What does not decode stays at the strictest value: no tags, untrusted.
		_, _, _ = json.Unmarshal([]byte(tags), &h.Tags), h.Trust.UnmarshalText([]byte(trust)), h.Label.UnmarshalText([]byte(label))
		if h.Tags == nil {
			h.Tags = []string{}
		}
		h.Provenance.Session, h.Provenance.Timestamp = m.ours(session), h.CreatedAt
		hits = append(hits, h)
	}
	return hits, rows.Err()
}
