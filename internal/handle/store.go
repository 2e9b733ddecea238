package handle

import (
	"cmp"
	"container/heap"
	"container/list"
	"encoding/hex"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
)

// ErrRefused is returned by Put for an entry that cannot be kept.
var ErrRefused = errors.New("result cannot be kept: it needs a principal, rows, random bytes and room")

// Store keeps results in memory. It is safe for concurrent use.
type Store struct {
	mu sync.Mutex
	// handles are all that are kept; inOrder has them from the oldest.
	handles map[string]*kept
	inOrder *list.List
	// sessions are those that have any; the one that takes most is on top.
	sessions map[nacre.SessionKey]*share
	top      shares
	bytes    int
}

// kept is a stored entry.
type kept struct {
	Entry

	id      string
	expires time.Time
	size    int
	// used counts the rows that were seen.
	used    int
	share   *share
	inOrder *list.Element
	inShare *list.Element
}

// New is an empty store.
func New() *Store {
	return &Store{handles: map[string]*kept{}, inOrder: list.New(), sessions: map[nacre.SessionKey]*share{}}
}

// Put keeps an entry under an id made of random bytes, which must be new ones
// from a cryptographic source, for TTL. What the store has no room for then is
// dropped: the oldest of the session that takes most of it. An error is
// ErrRefused.
func (s *Store) Put(e Entry, random [IDBytes]byte, now time.Time) (*nacre.Handle, error) {
	id := "h_" + hex.EncodeToString(random[:])
	if e.Principal == "" || e.Rows == nil || random == ([IDBytes]byte{}) {
		return nil, ErrRefused
	}
	size := e.Rows.Size()
	if size > MaxBytes {
		return nil, ErrRefused
	}
	e.Constraints = e.Constraints.Clone()
	k := &kept{Entry: e, id: id, expires: now.Add(TTL), size: size, used: max(e.Shown, 0)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handles[id] != nil {
		return nil, ErrRefused
	}
	s.sweep(now)
	s.add(k)
	for len(s.handles) > MaxHandles || s.bytes > MaxBytes {
		s.remove(s.top[0].oldest())
	}
	if s.handles[id] == nil { // larger than what others leave room for
		return nil, ErrRefused
	}
	return k.ticket(), nil
}

// ticket is what may be seen of a handle: not how many rows there are beyond
// the grant's cap.
func (k *kept) ticket() *nacre.Handle {
	rows := k.Rows.Len()
	if most := k.Constraints.MaxRows; most != nil {
		rows = min(rows, max(*most, 0))
	}
	return &nacre.Handle{ID: k.id, Rows: rows, Expires: k.expires, Label: k.Label}
}

// Expand gives the page that a query asks for, and counts its rows against the grant's cap, all at once. Pages that are
// asked for together share what is left of it. Any error is an *Error.
//
// A query gets what the cap leaves, at most its limit and MaxPage, or a page of the entry where it has no limit. The last
// page may be short, and one past the end is empty. A limit beyond the whole cap is refused, and so is a query once all
// rows of the cap were seen. Where there is a cap, a page that a filter or an offset leaves empty counts as one row: it
// tells something too.
func (s *Store) Expand(id string, q nacre.Query, principal string, now time.Time) (Page, error) {
	k, err := s.heldBy(id, principal, now)
	if err != nil {
		return Page{}, err
	}
	nothing := Page{Capability: k.Capability, Grant: k.Grant}
	if err := CheckQuery(q, k.Constraints); err != nil {
		return nothing, err
	}
	match, err := k.Rows.Matcher(q.Filter)
	if err != nil {
		return nothing, invalid("filter holds what is not JSON")
	}
	want, err := s.reserve(k, q)
	if err != nil {
		return nothing, err
	}
	page := k.page(q, want, match)
	used := len(page.Rows)
	if used == 0 && want > 0 && (q.Offset > 0 || len(q.Filter) > 0) {
		used = 1
	}
	page.More = s.settle(k, want-used) && page.More
	return page, nil
}

// Read gives what a handle stands for to whom it was given, for who reads inside of a
// row. What is shown of a row counts by [Store.Charge]. Any error is an *Error.
func (s *Store) Read(id, principal string, now time.Time) (Entry, *nacre.Handle, error) {
	k, err := s.heldBy(id, principal, now)
	if err != nil {
		return Entry{}, nil, err
	}
	return k.Entry, k.ticket(), nil
}

// Charge counts a row, by its number, against the cap of its grant. Any error is an *Error.
func (s *Store) Charge(id string, row int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.handles[id]
	switch {
	case k == nil:
		return unknown()
	case k.Constraints.MaxRows == nil:
		return nil
	case row >= *k.Constraints.MaxRows || k.used >= *k.Constraints.MaxRows:
		return violation("all %d rows of the grant have been seen, or row %d is none of them", *k.Constraints.MaxRows, row)
	}
	k.used++
	return nil
}

func (s *Store) heldBy(id, principal string, now time.Time) (*kept, error) {
	k := s.find(id, now)
	switch {
	case k == nil:
		return nil, unknown()
	case principal == "" || k.Principal != principal:
		return nil, &Error{Code: nacre.ReasonHandlePrincipal, Message: "handle was given to another principal"}
	}
	return k, nil
}

// CheckQuery checks a query by itself and against what a grant allows. Any error is an *Error.
func CheckQuery(q nacre.Query, c nacre.Constraints) error {
	if err := valid(q); err != nil {
		return err
	}
	return within(q, c)
}

// Return takes back rows of a page that were not shown after all.
func (s *Store) Return(id string, rows int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.handles[id]; k != nil {
		k.used = max(k.used-max(rows, 0), 0)
	}
}

func (s *Store) find(id string, now time.Time) *kept {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(now)
	if k := s.handles[id]; k != nil && now.Before(k.expires) {
		return k
	}
	return nil
}

// reserve counts the most rows that a query may see, before it is answered.
func (s *Store) reserve(k *kept, q nacre.Query) (int, error) {
	want := min(cmp.Or(k.PageRows, DefaultPage), MaxPage)
	if q.Limit != nil {
		want = min(*q.Limit, MaxPage)
	}
	most := k.Constraints.MaxRows
	if most == nil {
		return want, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	granted := max(*most, 0)
	left := max(granted-k.used, 0)
	switch {
	case q.Limit != nil && *q.Limit > granted:
		return 0, violation("limit %d is over the %d rows of the grant", *q.Limit, granted)
	case len(q.Filter) == 0 && k.Rows.Len() <= granted && q.Offset >= k.Rows.Len(): // the handle has told where the end is
		return 0, nil
	case left == 0 && k.used > 0 && want > 0:
		return 0, violation("all %d rows of the grant have been seen", *most)
	}
	want = min(want, left)
	k.used += want
	return want, nil
}

// settle gives back what was reserved and not used, and reports whether the
// grant still leaves rows.
func (s *Store) settle(k *kept, unused int) bool {
	most := k.Constraints.MaxRows
	if most == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k.used = max(k.used-max(unused, 0), 0)
	return k.used < *most
}

// page reads at most want rows.
func (k *kept) page(q nacre.Query, want int, match func(int) bool) Page {
	p := Page{Offset: q.Offset, Label: k.Label, Capability: k.Capability, Grant: k.Grant, Handle: *k.ticket()}
	p.Rows, p.Numbers = make([]json.RawMessage, 0, want), make([]int, 0, want)
	fields := q.Fields
	if fields == nil {
		fields = k.Constraints.AllowedFields
	}
	i, skip := 0, q.Offset
	if len(q.Filter) == 0 {
		i, skip = min(q.Offset, k.Rows.Len()), 0
	}
	for ; i < k.Rows.Len(); i++ {
		if !match(i) {
			continue
		}
		if skip > 0 {
			skip--
			continue
		}
		if len(p.Rows) == want {
			p.More = true
			break
		}
		p.Rows, p.Numbers = append(p.Rows, k.Rows.Row(i, fields)), append(p.Numbers, i)
	}
	return p
}

// PageOf is a page of rows that no cap counts, of at most most rows where the query has
// no limit. Any error is an *Error.
func PageOf(rows Rows, q nacre.Query, most int) (Page, error) {
	match, err := rows.Matcher(q.Filter)
	if err != nil {
		return Page{}, invalid("filter holds what is not JSON")
	}
	want := min(most, MaxPage)
	if q.Limit != nil {
		want = min(*q.Limit, MaxPage)
	}
	k := kept{Entry: Entry{Rows: rows}}
	return k.page(q, want, match), nil
}

// Drop removes the entries for which f is true, such as those of a session
// that ended or a grant that was revoked, and says how many there were.
func (s *Store) Drop(f func(Entry) bool) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.handles {
		if f(k.Entry) {
			s.remove(k)
			n++
		}
	}
	return n
}

// Len is how many handles are kept.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.handles)
}

// sweep drops what has expired, from the oldest on.
func (s *Store) sweep(now time.Time) {
	for e := s.inOrder.Front(); e != nil; e = s.inOrder.Front() {
		k := e.Value.(*kept)
		if now.Before(k.expires) {
			return
		}
		s.remove(k)
	}
}

func (s *Store) add(k *kept) {
	h := s.sessions[k.Session]
	if h == nil {
		h = &share{entries: list.New()}
		s.sessions[k.Session] = h
		heap.Push(&s.top, h)
	}
	k.share = h
	k.inOrder = s.inOrder.PushBack(k)
	k.inShare = h.entries.PushBack(k)
	s.handles[k.id] = k
	s.bytes += k.size
	h.bytes += k.size
	heap.Fix(&s.top, h.at)
}

func (s *Store) remove(k *kept) {
	h := k.share
	s.inOrder.Remove(k.inOrder)
	h.entries.Remove(k.inShare)
	delete(s.handles, k.id)
	s.bytes -= k.size
	h.bytes -= k.size
	if h.entries.Len() > 0 {
		heap.Fix(&s.top, h.at)
		return
	}
	heap.Remove(&s.top, h.at)
	delete(s.sessions, k.Session)
}
