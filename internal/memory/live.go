package memory

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/recall"
)

const (
	// maxIndexed is how many entries are ranked in memory, at about 1 KB each.
	// Beyond, the database's own full-text index ranks them, without neighbours.
	maxIndexed = 250_000
	// maxChanges is how far an index may lag behind before it is built anew.
	maxChanges = 10_000
)

// What of a hit's relevance passes on to what it is linked to.
const (
	shareOfFailure  = 0.9 // to the fix that prevents it (M-53)
	shareOfFix      = 0.5 // to the failure it prevents
	shareOfDerived  = 0.4 // either way
	shareOfReplaced = 0.8 // to what took its place
)

// An entry of now counts up to fresh more than an old one; half of it after halfLife.
const (
	fresh    = 0.1
	halfLife = 30 * 24 * time.Hour
)

// live is the group's entries as the ranking wants them. It follows the file:
// every change, by whichever process, is in memory_changes.
type live struct {
	mu      sync.RWMutex
	loaded  bool
	tooMany bool
	change  int64 // the last one that was followed
	index   *recall.Index
	entries []indexed        // by slot
	slots   map[string]int32 // by id
	bySeq   map[int64]int32
	fixes   map[int32][]int32 // by failure: what prevents it
	// tagged and typed are the slots of each tag and type, ascending: at least those
	// that have it now.
	tagged, typed map[string][]int32
	// vectors are those of the model, by seq; nil before they were asked for.
	vectors   map[int64]vector
	restUntil time.Time // after the endpoint failed
}

// ranking follows the file, and puts a group's entries in order.
type ranking struct {
	base
	live  live
	embed Embed // nil for none
	model string
	warn  func(string)
	// lastChange asks for the number of the file's last change; nil in a store.
	lastChange *sql.Stmt
}

// indexed is what filters and ranking ask of an entry.
type indexed struct {
	seq        int64
	id         string
	kind       string
	tags       []string
	trusted    bool
	created    int64  // Unix seconds
	expires    int64  // or 0 for never
	superseded string // by which entry
	gone       bool
}

const indexedColumns = `e.seq, e.id, e.type, e.content, e.tags, e.trust, e.session_id, e.created_at, coalesce(e.expires_at, ''), coalesce(e.superseded_by, '')`

// follow brings the index up to what the file says now.
func (s *ranking) follow(ctx context.Context) error {
	s.live.mu.RLock()
	loaded, known := s.live.loaded, s.live.change
	s.live.mu.RUnlock()
	if loaded {
		last, err := s.last(ctx)
		if err != nil {
			return s.at.Classified(err)
		}
		if last == known {
			return nil
		}
	}
	change, data, err := bring(ctx, s)
	if data != nil {
		keep(ctx, s, change, data)
	}
	return s.at.Classified(err)
}

// last is the number of the last change.
func (s *ranking) last(ctx context.Context) (int64, error) {
	if s.lastChange != nil {
		return scanned[int64](s.lastChange.QueryRowContext(ctx))
	}
	return scanned[int64](s.at.Reader().QueryRowContext(ctx, lastChange))
}

// bring follows the file, and gives an index that was built anew as it is to be kept.
func bring(ctx context.Context, s *ranking) (change int64, data []byte, err error) {
	l := &s.live
	l.mu.Lock()
	defer l.mu.Unlock()
	err = s.at.View(ctx, func(tx database.Session) error {
		if l.loaded {
			if caughtUp, err := s.catchUp(ctx, tx); err != nil || caughtUp {
				return err
			}
		} else {
			l.empty()
			if whole, err := loadKept(ctx, s, tx); err != nil || whole {
				return err
			}
		}
		if err := s.load(ctx, tx); err != nil {
			return err
		}
		change, data = l.change, l.pack()
		return nil
	})
	return change, data, err
}

// empty forgets all that was read.
func (l *live) empty() {
	l.loaded, l.index, l.entries, l.tooMany = false, recall.New(), nil, false
	l.vectors = nil
	l.slots, l.bySeq, l.fixes = map[string]int32{}, map[int64]int32{}, map[int32][]int32{}
	l.tagged, l.typed = map[string][]int32{}, map[string][]int32{}
}

// load reads all of the group.
func (s *ranking) load(ctx context.Context, tx database.Session) error {
	l := &s.live
	l.empty()
	var count int
	if err := tx.QueryRowContext(ctx, `SELECT (`+lastChange+`), count(*) FROM memory_entries WHERE group_name = ?`, string(s.group)).Scan(&l.change, &count); err != nil {
		return err
	}
	if count > maxIndexed {
		l.loaded, l.tooMany = true, true
		return nil
	}
	l.entries = make([]indexed, 0, count)
	if err := s.take(ctx, tx, `SELECT `+indexedColumns+` FROM memory_entries e WHERE e.group_name = ? ORDER BY e.seq`, string(s.group)); err != nil {
		return err
	}
	if err := takeAllLinks(ctx, s, tx); err != nil {
		return err
	}
	l.loaded = true
	return nil
}

// takeAllLinks links all entries that were put in.
func takeAllLinks(ctx context.Context, s *ranking, tx database.Session) error {
	for slot := range s.live.entries {
		s.live.linkReplaced(int32(slot))
	}
	return s.takeLinks(ctx, tx, `SELECT g.from_id, g.to_id, g.kind FROM memory_edges g JOIN memory_entries e ON e.id = g.from_id WHERE +e.group_name = ?`, string(s.group))
}

// catchUp reads what has changed; false means that too much has.
func (s *ranking) catchUp(ctx context.Context, tx database.Session) (bool, error) {
	l := &s.live
	var first, last, behind int64
	err := tx.QueryRowContext(ctx, `SELECT coalesce(min(change), 0), coalesce(max(change), 0), (SELECT count(*) FROM (SELECT 1 FROM memory_changes WHERE change > ?1 LIMIT ?2) AS behind)
		FROM memory_changes`, l.change, maxChanges).Scan(&first, &last, &behind)
	if err != nil || last < l.change || first > l.change+1 || behind == maxChanges || l.tooMany || l.index.Dropped() > l.index.Len()/2+1000 {
		return false, err
	}
	var seqs []int64
	rows, err := tx.QueryContext(ctx, `SELECT DISTINCT seq FROM memory_changes WHERE change > ? ORDER BY seq`, l.change)
	if err != nil {
		return false, err
	}
	defer func() { _ = rows.Close() }() // Err below tells
	for rows.Next() {
		var seq int64
		if err := rows.Scan(&seq); err != nil {
			return false, err
		}
		seqs = append(seqs, seq)
	}
	if err := rows.Err(); err != nil {
		return false, err
	}
	l.loaded = false // half followed is not followed
	if err := s.renew(ctx, tx, seqs); err != nil {
		return false, err
	}
	l.loaded, l.change = true, last
	return true, nil
}

// renew reads entries and their links again.
func (s *ranking) renew(ctx context.Context, tx database.Session, seqs []int64) error {
	l := &s.live
	list, err := json.Marshal(seqs)
	if err != nil {
		return err
	}
	for _, seq := range seqs {
		if slot, ok := l.bySeq[seq]; ok {
			l.entries[slot].gone = true // until it is seen
			l.index.Unlink(int(slot))
			delete(l.fixes, slot)
		}
	}
	if err := s.take(ctx, tx, `SELECT `+indexedColumns+` FROM memory_entries e WHERE e.group_name = ?2 AND e.seq IN (SELECT CAST(value AS bigint) FROM json_each(?1)) ORDER BY e.seq`, string(list), string(s.group)); err != nil {
		return err
	}
	for _, seq := range seqs {
		slot, ok := l.bySeq[seq]
		if !ok {
			continue
		}
		if e := &l.entries[slot]; e.gone {
			l.index.Drop(int(slot))
			delete(l.bySeq, seq)
			delete(l.vectors, seq)
			delete(l.slots, e.id)
			*e = indexed{gone: true}
			continue
		}
		l.linkReplaced(slot)
	}
	return s.takeLinks(ctx, tx, `SELECT from_id, to_id, kind FROM memory_edges WHERE from_id IN (SELECT id FROM memory_entries WHERE seq IN (SELECT CAST(value AS bigint) FROM json_each(?1)))
		OR to_id IN (SELECT id FROM memory_entries WHERE seq IN (SELECT CAST(value AS bigint) FROM json_each(?1)))`, string(list))
}

// take puts entries into the index, or what has changed about them.
func (s *ranking) take(ctx context.Context, tx database.Session, query string, args ...any) error {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err below tells
	for rows.Next() {
		var e indexed
		var content, tags, trust, session, created, expires string
		if err := rows.Scan(&e.seq, &e.id, &e.kind, &content, &tags, &trust, &session, &created, &expires, &e.superseded); err != nil {
			return err
		}
		_ = json.Unmarshal([]byte(tags), &e.tags) // what does not decode is no tags
		e.kind, e.trusted, e.created, e.expires = typeName(e.kind), trust == nacre.Trusted.String(), unix(created), unix(expires)
		s.live.put(e, recall.Doc{Text: content, Tags: e.tags, Thread: session})
	}
	return rows.Err()
}

// typeName is one string for all entries of a type.
func typeName(kind string) string {
	if i := slices.Index(typeNames[:], kind); i >= 0 {
		return typeNames[i]
	}
	return kind
}

var typeNames = [...]string{"preference", "fact", "instruction", "context", "correction"}

func (l *live) put(e indexed, d recall.Doc) {
	if slot, known := l.bySeq[e.seq]; known {
		if was := l.entries[slot]; was.id == e.id && was.kind == e.kind && slices.Equal(was.tags, e.tags) { // content never changes
			l.entries[slot] = e
			return
		}
		l.index.Drop(int(slot))
		delete(l.vectors, e.seq)
		delete(l.slots, l.entries[slot].id)
		l.entries[slot] = indexed{gone: true}
	}
	if _, ok := l.index.Put(d); ok { // or more changes than slots: Dropped makes the next search build anew
		l.enter(e)
	}
}

// enter gives an entry the next slot, which is that of its text in the index.
func (l *live) enter(e indexed) {
	slot := len(l.entries)
	l.entries = append(l.entries, e)
	l.slots[e.id], l.bySeq[e.seq] = int32(slot), int32(slot)
	l.typed[e.kind] = append(l.typed[e.kind], int32(slot))
	for i, tag := range e.tags {
		if !slices.Contains(e.tags[:i], tag) {
			l.tagged[tag] = append(l.tagged[tag], int32(slot))
		}
	}
}

// among is the shortest list that holds all slots that a query may find; nil where
// any may be one. It wants the lock held. Where all entries have the words and few
// the tag, asking each entry for its tags would take longer than all the rest.
func (l *live) among(q Query) []int32 {
	var lists [][]int32
	if q.Type != "" {
		lists = append(lists, l.typed[q.Type])
	}
	for _, tag := range q.Tags {
		lists = append(lists, l.tagged[tag])
	}
	if len(lists) == 0 {
		return nil
	}
	shortest := slices.MinFunc(lists, func(a, b []int32) int { return cmp.Compare(len(a), len(b)) })
	if shortest == nil {
		return []int32{} // nobody has it
	}
	return shortest
}

// linkReplaced lets what took an entry's place be found by the entry's words.
func (l *live) linkReplaced(slot int32) {
	if by, ok := l.slots[l.entries[slot].superseded]; ok {
		l.index.Link(int(slot), int(by), shareOfReplaced)
	}
}

func (s *ranking) takeLinks(ctx context.Context, tx database.Session, query string, args ...any) error {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err below tells
	for rows.Next() {
		var link Link
		if err := rows.Scan(&link.From, &link.To, &link.Kind); err != nil {
			return err
		}
		s.live.link(link)
	}
	return rows.Err()
}

func (l *live) link(link Link) {
	from, known := l.slots[link.From]
	to, also := l.slots[link.To]
	switch {
	case !known || !also:
	case link.Kind == EdgePrevents:
		l.index.Link(int(to), int(from), shareOfFailure)
		l.index.Link(int(from), int(to), shareOfFix)
		if !slices.Contains(l.fixes[to], from) {
			l.fixes[to] = append(l.fixes[to], from)
		}
	default:
		l.index.Link(int(to), int(from), shareOfDerived)
		l.index.Link(int(from), int(to), shareOfDerived)
	}
}

// unix is a stamp in seconds; 0 for none, or for one that cannot be read.
func unix(stamp string) int64 {
	t, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return 0
	}
	return t.Unix()
}

// keep is the filter of a query of whoever works with w; it wants the lock held.
func (l *live) keep(q Query, w Working, now time.Time) func(slot int) bool {
	at := now.Unix()
	return func(slot int) bool {
		e := &l.entries[slot]
		if e.gone || e.superseded != "" && !q.Superseded || e.expires != 0 && e.expires <= at || q.Type != "" && e.kind != q.Type || q.Own && !w.sees(e.tags) {
			return false
		}
		for _, tag := range q.Tags {
			if !slices.Contains(e.tags, tag) {
				return false
			}
		}
		return true
	}
}

// prior prefers what is newer, a little.
func (l *live) prior(now time.Time) func(slot int) float64 {
	return func(slot int) float64 {
		age := max(now.Sub(time.Unix(l.entries[slot].created, 0)), 0)
		p := 1 + fresh*math.Exp2(-float64(age)/float64(halfLife))
		if l.entries[slot].trusted {
			p += 1e-9 // between equals, what the operator vouches for
		}
		return p
	}
}
