package memory

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/database"
)

// Limits of a file to import; what is over them is refused as a whole.
const (
	MaxImport      = 100_000   // entries
	maxImportLinks = 200_000   // links
	maxImportLine  = 64 << 10  // bytes
	maxImportBytes = 256 << 20 // bytes
)

// transferVersion is the version of the format of exports.
const transferVersion = 1

// line is one line of an export: a header, then entries, then links.
type line struct {
	Version int    `json:"nacre_memory,omitempty"`
	Entry   *Entry `json:"entry,omitempty"`
	Link    *Link  `json:"link,omitempty"`
}

// Filter selects entries to list.
type Filter struct {
	Session    nacre.SessionID
	Type       string
	Superseded bool
	// Waiting selects what waits for the operator's review: see [Waiting].
	Waiting bool
	// Limit is how many, the latest first; less than 1 means all.
	Limit int
}

// List gives entries, the latest first, expired ones too.
func (s *Store) List(ctx context.Context, f Filter) ([]Entry, error) {
	if f.Limit < 1 {
		f.Limit = math.MaxInt32
	}
	query, args := `SELECT `+columns+`, 0.0 FROM memory_entries e WHERE e.group_name = ? AND (? = '' OR e.session_id = ?) AND (? = '' OR e.type = ?)
		AND (? OR e.superseded_by IS NULL)`, []any{string(s.group), s.machine.named(f.Session), s.machine.named(f.Session), f.Type, f.Type, f.Superseded}
	if f.Waiting {
		query, args = query+` AND `+waiting, append(args, string(s.group), stamp(s.now()))
	}
	hits, err := s.entries(ctx, query+` ORDER BY e.created_at DESC, e.seq DESC LIMIT ?`, append(args, f.Limit)...)
	list := make([]Entry, 0, len(hits))
	for _, h := range hits {
		list = append(list, h.Entry)
	}
	return list, err
}

// Export writes all of the group as lines of JSON, the oldest entry first.
func (s *Store) Export(ctx context.Context, to io.Writer) (entries int, err error) {
	out := lines{to}
	if err := out.write(line{Version: transferVersion}); err != nil {
		return 0, err
	}
	list, err := s.entries(ctx, `SELECT `+columns+`, 0.0 FROM memory_entries e WHERE e.group_name = ? ORDER BY e.seq`, string(s.group))
	if err != nil {
		return 0, err
	}
	for i := range list {
		if err := out.write(line{Entry: &list[i].Entry}); err != nil {
			return i, err
		}
	}
	links, err := s.linksOf(s.at.Reader().QueryContext(ctx, `SELECT l.from_id, l.to_id, l.kind FROM memory_edges l JOIN memory_entries e ON e.id = l.from_id WHERE e.group_name = ? ORDER BY l.created_at, l.from_id, l.to_id`, string(s.group)))
	for i := range links {
		if err := out.write(line{Link: &links[i]}); err != nil {
			return len(list), err
		}
	}
	return len(list), err
}

// lines writes JSON in which nothing moves a terminal's cursor or turns its text around.
type lines struct{ to io.Writer }

func (l lines) write(one line) error {
	raw, err := json.Marshal(one)
	if err != nil {
		return err
	}
	var safe bytes.Buffer
	for _, r := range string(raw) {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			for _, unit := range utf16.Encode([]rune{r}) {
				_, _ = fmt.Fprintf(&safe, `\u%04x`, unit) // a buffer takes everything
			}
			continue
		}
		_, _ = safe.WriteRune(r)
	}
	_, _ = safe.WriteRune('\n')
	_, err = l.to.Write(safe.Bytes())
	return err
}

func (s base) linksOf(rows *sql.Rows, err error) ([]Link, error) {
	if err != nil {
		return nil, s.at.Classified(err)
	}
	defer func() { _ = rows.Close() }() // Err below tells
	links := []Link{}
	for rows.Next() {
		var l Link
		if err := rows.Scan(&l.From, &l.To, &l.Kind); err != nil {
			return nil, err
		}
		links = append(links, l)
	}
	return links, s.at.Classified(rows.Err())
}

// Import stores what Export wrote: all of it, or nothing. Entries get ids of their own and the
// session of w as where they come from. They are trusted where w is an operator who says so, and
// only then. Errors name the line; [ErrInvalid] where it is none of an export's.
func (s *Store) Import(ctx context.Context, w Writer, from io.Reader) (entries int, err error) {
	p, err := parse(from)
	if err != nil {
		return 0, err
	}
	return len(p.drafts), s.at.Write(ctx, func(tx database.Session) error { return s.change(tx, w).store(ctx, p) })
}

// parsed is an export that was read.
type parsed struct {
	drafts []Draft
	place  map[string]int // in drafts, by the id in the file
	by     map[int]string // what superseded a draft
	links  []Link
}

func parse(from io.Reader) (parsed, error) {
	p := parsed{place: map[string]int{}, by: map[int]string{}}
	in := bufio.NewScanner(io.LimitReader(from, maxImportBytes+1))
	in.Buffer(nil, maxImportLine)
	read := 0
	for n := 1; in.Scan(); n++ {
		if read += len(in.Bytes()) + 1; read > maxImportBytes {
			return p, fmt.Errorf("%w: more than %d MiB", ErrInvalid, maxImportBytes>>20)
		}
		if err := p.line(n, in.Bytes()); err != nil {
			return p, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := in.Err(); errors.Is(err, bufio.ErrTooLong) {
		return p, fmt.Errorf("%w: a line is longer than %d KiB", ErrInvalid, maxImportLine>>10)
	} else if err != nil {
		return p, err
	}
	if len(p.drafts) == 0 {
		return p, fmt.Errorf("%w: no entries: what nacre memory export wrote is wanted", ErrInvalid)
	}
	return p, p.check()
}

func (p *parsed) line(n int, raw []byte) error {
	var l line
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	switch {
	case n == 1 && l.Version == transferVersion:
		return nil
	case n == 1:
		return fmt.Errorf("%w: it begins with {\"nacre_memory\":%d} where nacre memory export wrote it", ErrInvalid, transferVersion)
	case l.Entry != nil && l.Link == nil && l.Version == 0:
		return p.entry(*l.Entry)
	case l.Link != nil && l.Entry == nil && l.Version == 0:
		if p.links = append(p.links, *l.Link); len(p.links) > maxImportLinks {
			return fmt.Errorf("%w: more than %d links", ErrInvalid, maxImportLinks)
		}
		return nil
	}
	return fmt.Errorf("%w: neither an entry nor a link", ErrInvalid)
}

func (p *parsed) entry(e Entry) (err error) {
	d := Draft{Type: e.Type, Content: e.Content, Tags: e.Tags}
	if d.Created, err = time.Parse(time.RFC3339, e.CreatedAt); err != nil {
		return fmt.Errorf("%w: created_at: %w", ErrInvalid, err)
	}
	if e.ExpiresAt != "" {
		if d.Expires, err = time.Parse(time.RFC3339, e.ExpiresAt); err != nil {
			return fmt.Errorf("%w: expires_at: %w", ErrInvalid, err)
		}
	}
	if _, twice := p.place[e.ID]; e.ID == "" || twice {
		return fmt.Errorf("%w: id %.80q is missing or there twice", ErrInvalid, e.ID)
	}
	if err := d.check(); err != nil {
		return err
	}
	if len(p.drafts) == MaxImport {
		return fmt.Errorf("%w: more than %d entries", ErrInvalid, MaxImport)
	}
	p.place[e.ID] = len(p.drafts)
	if e.SupersededBy != "" {
		p.by[len(p.drafts)] = e.SupersededBy
	}
	p.drafts = append(p.drafts, d)
	return nil
}

// check refuses what points outside of the file, or in a circle.
func (p *parsed) check() error {
	sound := make([]bool, len(p.drafts))
	for start := range p.drafts {
		seen := map[int]bool{}
		for i := start; !sound[i] && p.by[i] != ""; {
			next, there := p.place[p.by[i]]
			if seen[i] = true; !there || seen[next] {
				return fmt.Errorf("%w: superseded_by %.80q is not in the file, or leads back", ErrInvalid, p.by[i])
			}
			i = next
		}
		for i := range seen {
			sound[i] = true
		}
	}
	for _, l := range p.links {
		_, from := p.place[l.From]
		_, to := p.place[l.To]
		if !from || !to || l.check() != nil {
			return fmt.Errorf("%w: a link from %.80q to %.80q, %.20q", ErrInvalid, l.From, l.To, l.Kind)
		}
	}
	return nil
}

// store puts a whole export into the file.
func (c change) store(ctx context.Context, p parsed) error {
	for i := range p.drafts {
		p.drafts[i].untrusted = !c.by.Operator
	}
	c.by.Operator = true // no limits of a session hold here
	added, err := c.addAll(ctx, p.drafts)
	if err != nil {
		return err
	}
	for i, by := range p.by {
		old, successor := added[i].ID, added[p.place[by]].ID
		if _, err := c.tx.ExecContext(ctx, `UPDATE memory_entries SET superseded_by = ? WHERE id = ?`, successor, old); err != nil {
			return err
		}
		if err := derive(ctx, c.tx, successor, old, trailSupersedes); err != nil {
			return err
		}
	}
	for _, l := range p.links {
		l.From, l.To = added[p.place[l.From]].ID, added[p.place[l.To]].ID
		if err := c.link(ctx, l); err != nil {
			return err
		}
	}
	return nil
}
