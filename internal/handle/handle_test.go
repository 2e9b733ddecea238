package handle_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/firewall"
	"github.com/nacre-dev/nacre/internal/handle"
	"github.com/nacre-dev/nacre/internal/redact"
)

const (
	us = "p1"
	// six are six rows, of two regions in turn.
	six = `[{"id":0,"region":"us","note":"n0"},{"id":1,"region":"eu","note":"n1"},{"id":2,"region":"us","note":"n2"},
	{"id":3,"region":"eu","note":"n3"},{"id":4,"region":"us","note":"n4"},{"id":5,"region":"eu","note":"n5"}]`
)

func start() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

func random(n int) (id [handle.IDBytes]byte) {
	binary.BigEndian.PutUint64(id[:], uint64(n)+1)
	return id
}

func entry(t testing.TB, raw string, c nacre.Constraints) handle.Entry {
	t.Helper()
	rows, err := firewall.Read(json.RawMessage(raw), c)
	if err != nil {
		t.Fatal(err)
	}
	return handle.Entry{Principal: us, Session: nacre.KeyOf("main", "s"), Capability: "notes.list", Grant: "g", Constraints: c, Rows: rows}
}

func put(t testing.TB, s *handle.Store, n int, e handle.Entry) string {
	t.Helper()
	h, err := s.Put(e, random(n), start())
	if err != nil {
		t.Fatal(err)
	}
	return h.ID
}

func query(t testing.TB, raw string) nacre.Query {
	t.Helper()
	q, err := handle.ParseQuery(json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func code(err error) nacre.ReasonCode {
	var e *handle.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func ids(t testing.TB, p handle.Page) []int {
	t.Helper()
	all := []int{}
	for _, row := range p.Rows {
		var r struct{ ID int }
		if err := json.Unmarshal(row, &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r.ID)
	}
	return all
}

// K-17: paging, fields, filters and what a grant forbids, case by case.
func TestExpandGoesAsFarAsTheGrant(t *testing.T) {
	type expansion struct {
		Constraints nacre.Constraints
		Query       json.RawMessage
		Principal   *string
		IDs         []int
		Rows        *int
		Row0        json.RawMessage
		Error       nacre.ReasonCode
	}
	data, err := os.ReadFile("testdata/expand.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []expansion
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		s := handle.New()
		id := put(t, s, 0, entry(t, six, c.Constraints))
		principal := us
		if c.Principal != nil {
			principal = *c.Principal
		}
		q, err := handle.ParseQuery(c.Query)
		var page handle.Page
		if err == nil {
			page, err = s.Expand(id, q, principal, start())
		}
		if code(err) != c.Error || (err == nil) != (c.Error == "") {
			t.Errorf("%s within %+v: have %v, want %q", c.Query, c.Constraints, err, c.Error)
			continue
		}
		if c.Error != "" {
			continue
		}
		if c.IDs != nil && !slices.Equal(ids(t, page), c.IDs) || c.Rows != nil && len(page.Rows) != *c.Rows {
			t.Errorf("%s within %+v: have %s", c.Query, c.Constraints, page.Rows)
		}
		if c.Row0 != nil && string(page.Rows[0]) != strings.ReplaceAll(string(c.Row0), " ", "") {
			t.Errorf("%s: have %s, want %s", c.Query, page.Rows[0], c.Row0)
		}
	}
}

func most(n int) nacre.Constraints { return nacre.Constraints{MaxRows: &n} }

// K-17: whatever way the rows are asked for, no more are had than the grant allows.
func TestTheCapCountsOverAllPages(t *testing.T) {
	tests := map[string]struct {
		shown   int
		queries []string
		want    []string
	}{
		"page by page":           {0, []string{`{"limit":2}`, `{"offset":2,"limit":2}`, `{"offset":4,"limit":2}`}, []string{"2", "1", "no"}}, // F-37: the last page is short
		"all there is":           {0, []string{`{"limit":9}`}, []string{"no"}},
		"page by page, no limit": {0, []string{`{}`, `{"offset":3}`, `{"offset":5}`}, []string{"3", "no", "no"}},
		"the same page again":    {0, []string{`{}`, `{}`}, []string{"3", "no"}},
		"one by one":             {0, []string{`{"limit":1}`, `{"limit":1,"offset":1}`, `{"limit":1,"offset":2}`, `{"limit":1,"offset":3}`}, []string{"1", "1", "1", "no"}},
		"after the frame":        {2, []string{`{"offset":2}`, `{"offset":3}`}, []string{"1", "no"}},
		"after all of it":        {3, []string{`{}`}, []string{"no"}},
		"by a filter that fails": {0, []string{`{"filter":{"id":9}}`, `{"filter":{"id":8}}`, `{"filter":{"id":7}}`, `{"filter":{"id":1}}`}, []string{"0", "0", "0", "no"}},
		"past the end":           {0, []string{`{"offset":6}`, `{"offset":5}`, `{"offset":6}`, `{"offset":4}`}, []string{"0", "1", "0", "no"}},
		"by a field at a time":   {0, []string{`{"fields":["id"]}`, `{"fields":["note"]}`}, []string{"3", "no"}},
		"with a limit of none":   {0, []string{`{"limit":0}`, `{"limit":0,"offset":5}`, `{}`}, []string{"0", "0", "3"}},
	}
	for name, test := range tests {
		s := handle.New()
		e := entry(t, six, most(3))
		e.Shown = test.shown
		id := put(t, s, 0, e)
		for i, q := range test.queries {
			page, err := s.Expand(id, query(t, q), us, start())
			have := fmt.Sprint(len(page.Rows))
			if err != nil {
				have = "no"
			}
			if have != test.want[i] || err != nil && code(err) != nacre.ReasonHandleConstraint {
				t.Errorf("%s, %s: have %s %v, want %s", name, q, have, err, test.want[i])
			}
		}
	}
}

// K-17: pages that are asked for at once share the cap.
func TestTheCapHoldsUnderConcurrency(t *testing.T) {
	s := handle.New()
	id := put(t, s, 0, entry(t, six, most(4)))
	var all sync.WaitGroup
	var mu sync.Mutex
	seen := 0
	for i := range 64 {
		all.Go(func() {
			q := nacre.Query{Offset: i % 6}
			page, err := s.Expand(id, q, us, start())
			if err == nil {
				mu.Lock()
				seen += len(page.Rows)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if seen > 4 || seen == 0 {
		t.Errorf("%d rows of 4", seen)
	}
}

func TestRowsThatWereNotShownAreTakenBack(t *testing.T) {
	s := handle.New()
	id := put(t, s, 0, entry(t, six, most(3)))
	if _, err := s.Expand(id, nacre.Query{}, us, start()); err != nil {
		t.Fatal(err)
	}
	s.Return(id, 1)
	s.Return(id, -5)
	page, err := s.Expand(id, nacre.Query{Offset: 2}, us, start())
	if err != nil || len(page.Rows) != 1 {
		t.Errorf("have %s %v", page.Rows, err)
	}
	s.Return("h_none", 100)
}

// K-17: who holds a guessed or an old id learns nothing from the error.
func TestUnknownForgedAndExpiredAreOne(t *testing.T) {
	s := handle.New()
	id := put(t, s, 0, entry(t, six, nacre.Constraints{}))
	_, want := s.Expand("h_00000000000000000000000000000000", nacre.Query{}, us, start())
	for name, test := range map[string]struct {
		id        string
		principal string
		at        time.Duration
	}{
		"empty": {"", us, 0}, "another form": {"../" + id, us, 0}, "upper case": {strings.ToUpper(id), us, 0}, "longer": {id + "0", us, 0},
		"expired": {id, us, handle.TTL}, "expired and of another": {id, "p2", handle.TTL},
	} {
		if _, err := s.Expand(test.id, nacre.Query{}, test.principal, start().Add(test.at)); err == nil ||
			err.Error() != want.Error() || code(err) != nacre.ReasonHandleUnknown {
			t.Errorf("%s: have %v, want %v", name, err, want)
		}
	}
	id = put(t, s, 1, entry(t, six, nacre.Constraints{}))
	if _, err := s.Expand(id, nacre.Query{}, us, start().Add(handle.TTL-1)); err != nil {
		t.Errorf("before it expires: %v", err)
	}
}

// K-25: a page has the label that the host gave the result, whatever it says.
func TestAPageCarriesItsLabel(t *testing.T) {
	for _, label := range []nacre.Label{nacre.Untrusted, nacre.Trusted} {
		s := handle.New()
		e := entry(t, `[{"label":"trusted"}]`, nacre.Constraints{})
		e.Label = label
		page, err := s.Expand(put(t, s, 0, e), nacre.Query{}, us, start())
		if err != nil || page.Label != label || page.Handle.Label != label || page.Capability != "notes.list" || page.Grant != "g" {
			t.Errorf("have %v %v, want %v", page.Label, err, label)
		}
	}
}

// The caller's copy of constraints counts for nothing once they are stored.
func TestConstraintsAreTheStoresOwn(t *testing.T) {
	s := handle.New()
	c := most(1)
	c.AllowedFields = []string{"id"}
	id := put(t, s, 0, entry(t, six, c))
	*c.MaxRows, c.AllowedFields[0] = 6, "note"
	page, err := s.Expand(id, nacre.Query{}, us, start())
	if err != nil || len(page.Rows) != 1 || string(page.Rows[0]) != `{"id":0}` {
		t.Errorf("have %s %v", page.Rows, err)
	}
}

// K-17: a filter may ask only for what may be seen, and does not widen the scope.
func TestAFilterIsNoOracle(t *testing.T) {
	c := nacre.Constraints{AllowedFields: []string{"id"}, Scope: map[string]string{"region": "eu"}}
	for q, want := range map[string]nacre.ReasonCode{
		`{"filter":{"note":"n3"}}`:                nacre.ReasonHandleConstraint,
		`{"filter":{"note":"n3","id":3}}`:         nacre.ReasonHandleConstraint,
		`{"filter":{"region":"us"}}`:              nacre.ReasonHandleConstraint,
		`{"filter":{"region":["eu","us"]}}`:       nacre.ReasonHandleConstraint,
		`{"filter":{"region":null}}`:              nacre.ReasonHandleConstraint,
		`{"fields":["id","region"]}`:              nacre.ReasonHandleConstraint,
		`{"fields":["ID"]}`:                       nacre.ReasonHandleConstraint,
		`{"filter":{"region":"eu","id":3}}`:       "",
		`{"fields":[]}`:                           "",
		`{"filter":{"\u0072egion":"\u0065u"}}`:    "",
		`{"filter":{"id":3},"filter":{"note":1}}`: nacre.ReasonInvalidConstraint,
	} {
		s := handle.New()
		parsed, err := handle.ParseQuery(json.RawMessage(q))
		var page handle.Page
		if err == nil {
			page, err = s.Expand(put(t, s, 0, entry(t, six, c)), parsed, us, start())
		}
		if code(err) != want || strings.Contains(fmt.Sprintf("%s", page.Rows), "note") {
			t.Errorf("%s: have %s %v, want %q", q, page.Rows, err, want)
		}
	}
}

func TestAQueryIsReadStrictly(t *testing.T) {
	for _, raw := range []string{
		``, `null`, `[]`, `{`, `{}{}`, `{"limit":1.5}`, `{"limit":true}`, `{"offset":null}`, `{"fields":null}`, `{"fields":[1]}`,
		`{"filter":"x"}`, `{"Offset":1}`, `{"principal":"p1"}`, `{"limit":1,"limit":2}`, `{"limit":99999999999999999999}`, `{"offset":-1}`,
		`{"filter":{"a":}}`, `{"filter":{"a":"` + strings.Repeat("x", handle.MaxQuery) + `"}}`, `{"fields":[` + strings.Repeat(`"a",`, handle.MaxNamed) + `"a"]}`,
	} {
		if q, err := handle.ParseQuery(json.RawMessage(raw)); code(err) != nacre.ReasonInvalidConstraint {
			t.Errorf("%.80s: have %+v %v", raw, q, err)
		}
	}
	minus := -1
	s := handle.New()
	id := put(t, s, 0, entry(t, six, nacre.Constraints{}))
	for _, q := range []nacre.Query{{Offset: -1}, {Limit: &minus}, {Filter: map[string]json.RawMessage{"a": nil}}, {Filter: map[string]json.RawMessage{"a": []byte("{")}}} {
		if _, err := s.Expand(id, q, us, start()); code(err) != nacre.ReasonInvalidConstraint {
			t.Errorf("%+v: have %v", q, err)
		}
	}
	if page, err := s.Expand(id, nacre.Query{Offset: 1 << 62}, us, start()); err != nil || len(page.Rows) != 0 {
		t.Errorf("a long way out: %s %v", page.Rows, err)
	}
}

// sized are rows that only have a size.
type sized int

func (sized) Len() int                          { return 1 }
func (n sized) Size() int                       { return int(n) }
func (sized) Row(int, []string) json.RawMessage { return json.RawMessage(`{}`) }
func (sized) Matcher(map[string]json.RawMessage) (func(int) bool, error) {
	return func(int) bool { return true }, nil
}

func small(session nacre.SessionID, size int) handle.Entry {
	return handle.Entry{Principal: us, Session: nacre.KeyOf("main", session), Rows: sized(size)}
}

// K-17: 10,000 are kept, and the oldest goes first.
func TestTheOldestGoesWhenThereAreTooMany(t *testing.T) {
	s := handle.New()
	first := put(t, s, 0, small("s", 1))
	second := put(t, s, 1, small("s", 1))
	for i := 2; i <= handle.MaxHandles; i++ {
		put(t, s, i, small("s", 1))
	}
	_, gone := s.Expand(first, nacre.Query{}, us, start())
	_, kept := s.Expand(second, nacre.Query{}, us, start())
	if s.Len() != handle.MaxHandles || code(gone) != nacre.ReasonHandleUnknown || kept != nil {
		t.Errorf("%d kept, the oldest: %v, the next: %v", s.Len(), gone, kept)
	}
}

// A session that floods the store pushes out its own handles, not those of others.
func TestAFloodHurtsTheOneWhoFloods(t *testing.T) {
	for name, size := range map[string]int{"by number": 1, "by bytes": 1 << 20} {
		s := handle.New()
		quiet := put(t, s, 0, small("quiet", 1000))
		for i := 1; i < handle.MaxHandles+100; i++ {
			put(t, s, i, small("loud", size))
		}
		if _, err := s.Expand(quiet, nacre.Query{}, us, start()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if want := min(handle.MaxHandles, handle.MaxBytes/size); s.Len() > want || s.Len() < want-1 {
			t.Errorf("%s: %d kept, want %d", name, s.Len(), want)
		}
	}
}

func TestWhatCannotBeKeptIsRefused(t *testing.T) {
	s := handle.New()
	good := put(t, s, 0, small("s", 1))
	for name, test := range map[string]struct {
		e      handle.Entry
		random [handle.IDBytes]byte
	}{
		"nobody's":             {handle.Entry{Rows: sized(1)}, random(1)},
		"nothing":              {handle.Entry{Principal: us}, random(1)},
		"without randomness":   {small("s", 1), [handle.IDBytes]byte{}},
		"an id twice":          {small("s", 1), random(0)},
		"larger than the room": {small("s", handle.MaxBytes+1), random(1)},
	} {
		if h, err := s.Put(test.e, test.random, start()); !errors.Is(err, handle.ErrRefused) {
			t.Errorf("%s: have %v %v", name, h, err)
		}
	}
	if _, err := s.Expand(good, nacre.Query{}, us, start()); err != nil || s.Len() != 1 {
		t.Errorf("what was there: %v", err)
	}
}

func TestExpiredAndDroppedHandlesTakeNoRoom(t *testing.T) {
	s := handle.New()
	for i := range 10 {
		put(t, s, i, small(nacre.SessionID(fmt.Sprint("s", i%3)), 1))
	}
	if n := s.Drop(func(e handle.Entry) bool { return e.Session == nacre.KeyOf("main", "s1") }); n != 3 || s.Len() != 7 {
		t.Errorf("dropped %d, left %d", n, s.Len())
	}
	if _, err := s.Put(small("s", 1), random(99), start().Add(handle.TTL)); err != nil || s.Len() != 1 {
		t.Errorf("left %d %v", s.Len(), err)
	}
}

// The number of rows on a ticket does not tell how many there are beyond the cap.
func TestATicketDoesNotCountBeyondTheCap(t *testing.T) {
	h, err := handle.New().Put(entry(t, six, most(2)), random(0), start())
	if err != nil || h.Rows != 2 || h.Expires != start().Add(handle.TTL) || len(h.ID) != 2+2*handle.IDBytes {
		t.Errorf("have %+v %v", h, err)
	}
}

// An id is not taken for a secret on its way out, or it could not be used.
func TestAnIDSurvivesRedaction(t *testing.T) {
	engine := redact.New()
	for i := range 1000 {
		sum := sha256.Sum256([]byte{byte(i), byte(i >> 8)})
		h, err := handle.New().Put(small("s", 1), [handle.IDBytes]byte(sum[:]), start())
		if err != nil {
			t.Fatal(err)
		}
		frame, _ := json.Marshal(nacre.Frame{Handle: h})
		if _, found, err := engine.JSON(frame); err != nil || len(found) > 0 {
			t.Fatalf("%s: redacted %v %v", frame, found, err)
		}
	}
}

// Whatever is asked in whatever order, the cap and the fields hold.
func FuzzQuery(f *testing.F) {
	f.Add([]byte(`{"offset":1,"limit":1}`), []byte(`{"filter":{"id":3}}`))
	f.Add([]byte(`{"fields":["note"]}`), []byte(`{"filter":{"region":"us"}}`))
	f.Add([]byte(`{"filter":{"id":1.0e0}}`), []byte(`{}`))
	c := most(3)
	c.AllowedFields, c.Scope = []string{"id", "note"}, map[string]string{"region": "eu"}
	f.Fuzz(func(t *testing.T, one, two []byte) {
		s := handle.New()
		id := put(t, s, 0, entry(t, six, c))
		seen := 0
		for _, raw := range [][]byte{one, two, one, two, []byte(`{}`)} {
			q, err := handle.ParseQuery(raw)
			if err != nil {
				if code(err) != nacre.ReasonInvalidConstraint {
					t.Fatal(err)
				}
				continue
			}
			page, err := s.Expand(id, q, us, start())
			seen += len(page.Rows)
			if err != nil && code(err) == "" || seen > 3 || strings.Contains(fmt.Sprintf("%s", page.Rows), "us") {
				t.Fatalf("%s: %d rows, %s %v", raw, seen, page.Rows, err)
			}
		}
	})
}

func BenchmarkExpand(b *testing.B) {
	var rows strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&rows, `,{"id":%d,"region":"eu","status":"unpaid","amount":%d.5,"note":"row number %d"}`, i, i, i)
	}
	raw := "[" + rows.String()[1:] + "]"
	s := handle.New()
	id := put(b, s, 0, entry(b, raw, nacre.Constraints{}))
	for name, q := range map[string]string{
		"page": `{"offset":500,"limit":50}`, "fields": `{"offset":500,"limit":50,"fields":["id","amount"]}`, "filter": `{"filter":{"id":999}}`,
	} {
		parsed := query(b, q)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Expand(id, parsed, us, start()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("floor", func(b *testing.B) { // reading the rows once
		for b.Loop() {
			if !json.Valid([]byte(raw)) {
				b.Fatal("invalid")
			}
		}
	})
}

// F-37: a page past the last row is short or empty, as often as it is asked for.
func TestAPagePastTheEndIsShort(t *testing.T) {
	s := handle.New()
	id := put(t, s, 0, entry(t, six, most(6)))
	for i, c := range []struct {
		query string
		want  int
	}{{`{"limit":4}`, 4}, {`{"offset":4,"limit":4}`, 2}, {`{"offset":6,"limit":4}`, 0}, {`{"offset":600,"limit":4}`, 0}} {
		page, err := s.Expand(id, query(t, c.query), us, start())
		if err != nil || len(page.Rows) != c.want || i > 0 && page.More {
			t.Errorf("%s: have %d rows, more %v, %v, want %d", c.query, len(page.Rows), page.More, err, c.want)
		}
	}
}
