package firewall_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/corpus"
	"github.com/nacre-dev/nacre/internal/firewall"
	"github.com/nacre-dev/nacre/internal/redact"
	"pgregory.net/rapid"
)

func readAll(t testing.TB, raw string, c nacre.Constraints) *firewall.Result {
	t.Helper()
	r, err := firewall.Read(json.RawMessage(raw), c)
	if err != nil {
		t.Fatalf("%.80s: %v", raw, err)
	}
	return r
}

func request(mode nacre.Mode) firewall.Request {
	return firewall.Request{Mode: mode, Limits: firewall.DefaultLimits()}
}

func framed(t testing.TB, raw string, c nacre.Constraints, q firewall.Request) firewall.View {
	t.Helper()
	v, err := readAll(t, raw, c).Frame(q, redact.New())
	if err != nil {
		t.Fatal(err)
	}
	bounded(t, v, q.Limits.Chars)
	return v
}

// bounded checks that a view is one frame within its bound, whoever encodes it.
func bounded(t interface {
	Helper()
	Fatalf(string, ...any)
}, v firewall.View, chars int) {
	t.Helper()
	if n := utf8.RuneCount(v.Result); n > max(chars, firewall.MinChars) || !json.Valid(v.Result) || !utf8.Valid(v.Result) {
		t.Fatalf("%d characters, %v: %s", n, json.Valid(v.Result), v.Result)
	}
	if v.Frame == nil {
		return
	}
	again, err := json.Marshal(v.Frame)
	if err != nil || utf8.RuneCount(again) > max(chars, firewall.MinChars) {
		t.Fatalf("encoded again: %d characters %v: %s", utf8.RuneCount(again), err, again)
	}
	var f nacre.Frame
	if err := json.Unmarshal(v.Result, &f); err != nil || f.Mode != v.Frame.Mode || len(f.Rows) != len(v.Frame.Rows) || !slices.Equal(f.Facts, v.Frame.Facts) {
		t.Fatalf("another frame: %v %s", err, v.Result)
	}
}

func keep() *nacre.Handle {
	return &nacre.Handle{ID: "h_" + strings.Repeat("0f", 31), Rows: math.MinInt, Expires: time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)}
}

// K-14: raw is for the role admin, and not beyond the budget.
func TestRawIsForAdmin(t *testing.T) {
	large := array(60, `{"s":"`+strings.Repeat("x", 100)+`"}`)
	for name, test := range map[string]struct {
		raw   string
		admin bool
		mode  nacre.Mode
		want  nacre.Mode
		warn  string
	}{
		"raw of a reader":       {`{"a":1}`, false, nacre.ModeRaw, nacre.ModeSummary, "raw mode requires admin role; falling back to summary."},
		"raw of an admin":       {`{"a":1}`, true, nacre.ModeRaw, nacre.ModeRaw, ""},
		"raw that is too large": {large, true, nacre.ModeRaw, nacre.ModeSummary, "larger than what raw mode shows"},
		"a table of anybody":    {`[{"a":1}]`, false, nacre.ModeTable, nacre.ModeTable, ""},
		"the handle alone":      {`[{"a":1}]`, true, nacre.ModeHandleOnly, nacre.ModeHandleOnly, "Not all"},
		"no mode at all":        {`[{"a":1}]`, true, nacre.Mode(9), nacre.ModeHandleOnly, "Not all"},
	} {
		q := request(test.mode)
		q.Admin, q.Keep = test.admin, keep
		v := framed(t, test.raw, nacre.Constraints{}, q)
		if v.Frame.Mode != test.want || !strings.Contains(strings.Join(v.Frame.Warnings, " "), test.warn) {
			t.Errorf("%s: have %s", name, v.Result)
		}
		if test.want == nacre.ModeRaw && string(v.Frame.Raw) != test.raw || test.want != nacre.ModeRaw && v.Frame.Raw != nil {
			t.Errorf("%s: raw %s", name, v.Frame.Raw)
		}
	}
}

func TestAModeIsPermittedOrLess(t *testing.T) {
	for admin, want := range map[bool][]nacre.Mode{
		false: {nacre.ModeSummary, nacre.ModeTable, nacre.ModeHandleOnly, nacre.ModeSummary, nacre.ModeHandleOnly},
		true:  {nacre.ModeSummary, nacre.ModeTable, nacre.ModeHandleOnly, nacre.ModeRaw, nacre.ModeHandleOnly},
	} {
		for mode, want := range want {
			if have := firewall.Permitted(nacre.Mode(mode), admin); have != want {
				t.Errorf("%d of an admin, %v: have %v, want %v", mode, admin, have, want)
			}
		}
	}
}

// K-14: each mode shows what it is for.
func TestModesShowWhatTheyAreFor(t *testing.T) {
	raw := array(60, `{"id":1,"s":"x"}`)
	for mode, want := range map[nacre.Mode][2]int{nacre.ModeSummary: {3, 10}, nacre.ModeTable: {1, 50}, nacre.ModeHandleOnly: {0, 0}} {
		q := request(mode)
		q.Keep, q.Label = keep, nacre.Trusted
		f := framed(t, raw, nacre.Constraints{}, q).Frame
		if len(f.Facts) != want[0] || len(f.Rows) != want[1] || f.Omitted.Rows != 60-want[1] || f.Handle == nil || f.Handle.Label != nacre.Trusted || f.Label != nacre.Trusted {
			t.Errorf("%v: have %+v", mode, f)
		}
	}
}

// K-14: one row has all the room that there is, so that a long text can be read.
func TestARowThatIsAloneHasAllTheRoom(t *testing.T) {
	text := strings.Repeat("some words of a note. ", 600)
	for name, raw := range map[string]string{
		"a text": `"` + text + `"`, "an object": `{"id":7,"text":"` + text + `","after":1}`, "one row": `[{"id":7,"text":"` + text + `","after":1}]`,
	} {
		v := framed(t, raw, nacre.Constraints{}, request(nacre.ModeTable))
		if n := utf8.RuneCount(v.Result); n < 1800 || len(v.Frame.Rows) != 1 || name != "a text" && !strings.Contains(string(v.Frame.Rows[0]), `"after":1`) {
			t.Errorf("%s: %d characters: %s", name, n, v.Result)
		}
	}
}

// D-10: what is within budget in rows, fields, characters and depth is passed on; else it is not.
func TestForwardIsWholeOrAFrame(t *testing.T) {
	wide := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"f%d":0`, i))
		}
		return "{" + strings.Join(all, ",") + "}"
	}
	two := 2
	for name, test := range map[string]struct {
		raw   string
		c     nacre.Constraints
		whole bool
	}{
		"50 rows":                     {array(50, `{"a":1}`), nacre.Constraints{}, true},
		"51 rows":                     {array(51, `{"a":1}`), nacre.Constraints{}, false},
		"51 wrapped rows":             {`{"total":51,"rows":` + array(51, `{"a":1}`) + `}`, nacre.Constraints{}, false},
		"20 fields":                   {wide(20), nacre.Constraints{}, true},
		"21 fields":                   {wide(21), nacre.Constraints{}, false},
		"4,000 characters":            {`"` + strings.Repeat("é", 3998) + `"`, nacre.Constraints{}, true},
		"4,001 characters":            {`"` + strings.Repeat("é", 3999) + `"`, nacre.Constraints{}, false},
		"depth 3":                     {`{"a":{"b":[1]}}`, nacre.Constraints{}, true},
		"depth 3 in rows":             {`[{"a":{"b":[1]}}]`, nacre.Constraints{}, true},
		"depth 4":                     {`{"a":{"b":[[1]]}}`, nacre.Constraints{}, false},
		"more rows than are granted":  {`[{"a":1},{"a":2},{"a":3}]`, nacre.Constraints{MaxRows: &two}, false},
		"as many rows as are granted": {`[{"a":1},{"a":2}]`, nacre.Constraints{MaxRows: &two}, true},
		"an empty array":              {`[]`, nacre.Constraints{}, true},
		"an empty object":             {`{}`, nacre.Constraints{}, true},
	} {
		v, err := readAll(t, test.raw, test.c).Forward(request(nacre.ModeSummary), bees{})
		if err != nil || v.Framed == test.whole || test.whole && string(v.Result) != test.raw || (v.Frame == nil) != test.whole {
			t.Errorf("%s: have %.200s %v", name, v.Result, err)
		}
		bounded(t, v, firewall.FrameChars)
	}
	if v, _ := readAll(t, `1`, nacre.Constraints{}).Forward(request(nacre.ModeTable), bees{}); !v.Framed {
		t.Errorf("a table that was asked for: have %s", v.Result)
	}
}

// K-14: a redactor whose marks are longer than the secrets does not break the bound.
func TestTheBoundHoldsAfterRedaction(t *testing.T) {
	for _, raw := range []string{
		array(50, `{"pin":"1","cvv":2,"password":"a"}`), array(2000, `{"password":"a"}`), array(700, `"s"`), `{"password":{"a":"b","c":"d"}}`,
		`{` + strings.TrimSuffix(strings.Repeat(`"password":"x",`, 260), ",") + `}`,
	} {
		for _, mode := range []nacre.Mode{nacre.ModeSummary, nacre.ModeTable, nacre.ModeHandleOnly, nacre.ModeRaw} {
			q := request(mode)
			q.Admin, q.Keep = true, keep
			v, err := readAll(t, raw, nacre.Constraints{}).Forward(q, redact.New())
			if err != nil {
				t.Fatal(err)
			}
			bounded(t, v, firewall.FrameChars)
		}
	}
}

// K-15: what is secret by its field's name is not told by a fact either.
func TestFactsTellNoSecret(t *testing.T) {
	for name, raw := range map[string]string{
		"a distribution":         array(6, `{"password":"hunter2"},{"password":"swordfish"}`),
		"statistics":             array(60, `{"cvv":731},{"cvv":732}`),
		"a value":                `{"password":"hunter2","n":1}`,
		"a value in a list":      `[1,{"password":"hunter2"}]`,
		"a value in two objects": `{"credentials":{"password":"hunter2"},"b":{"c":{"d":{"e":1}}}}`,
		"a name":                 `[{"ghp_0123456789abcdefghijklmnopqrstuvwxyz":1}]`,
		"a value in words":       array(6, `{"s":"swordfish"},{"s":"ghp_0123456789abcdefghijklmnopqrstuvwxyz"}`),
		"a text":                 `"` + strings.Repeat("x ", 247) + `ghp_0123456789abcdefghijklmnopqrstuvwxyz` + strings.Repeat(" y", 900) + `"`,
	} {
		v := framed(t, raw, nacre.Constraints{}, request(nacre.ModeSummary))
		for _, secret := range []string{"hunter2", "731", "swordfish\"=", "password distribution", "ghp_"} {
			if strings.Contains(string(v.Result), secret) {
				t.Errorf("%s: %q in %s", name, secret, v.Result)
			}
		}
	}
}

// K-15: wherever a text is cut, no half of a secret is left.
func TestNoCutLeavesHalfASecret(t *testing.T) {
	const token = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
	for _, limit := range []int{64, 80, 100, 300, 500, 1088, 1524} {
		for n := limit - 45; n < limit+3; n += 5 {
			text := strings.Repeat("x", n-1) + " " + token + " " + strings.Repeat("y ", 2000)
			for _, raw := range []string{`"` + text + `"`, `{"a":"` + text + `"}`, `[{"a":"` + text + `"},{"a":"b"}]`, `[1,"` + text + `"]`, `{"` + text + `":1}`} {
				v := framed(t, raw, nacre.Constraints{}, request(nacre.ModeSummary))
				if strings.Contains(string(v.Result), "ghp_") {
					t.Fatalf("%d at %d: %.300s", n, limit, v.Result)
				}
			}
		}
	}
}

// K-05, K-10: what a grant hides changes nothing in what is seen.
func TestWhatIsHiddenLeavesNoTrace(t *testing.T) {
	two := 2
	for name, test := range map[string]struct {
		c    nacre.Constraints
		a, b string
	}{
		"rows out of scope":   {nacre.Constraints{Scope: map[string]string{"r": "eu"}}, `[{"r":"eu","n":1},{"r":"us","n":7}]`, `[{"r":"us","m":8},{"r":"eu","n":1},{"r":"us"},3,null]`},
		"a total beside them": {nacre.Constraints{Scope: map[string]string{"r": "eu"}}, `{"total":9,"rows":[{"r":"eu"},{"r":"us"}]}`, `{"total":"x","rows":[{"r":"eu"}]}`},
		"an object":           {nacre.Constraints{Scope: map[string]string{"r": "eu"}}, `{"r":"us","a":1}`, `{"r":"no","b":"2"}`},
		"no object":           {nacre.Constraints{Scope: map[string]string{"r": "eu"}}, `"eu"`, `1234567`},
		"another type":        {nacre.Constraints{Scope: map[string]string{"r": "1"}}, `[{"r":1}]`, `[{"r":true},{"r":["1"]}]`},
		"said twice":          {nacre.Constraints{Scope: map[string]string{"r": "eu"}}, `[{"r":"eu","r":"us","n":1}]`, `[{"r":"us","\u0072":"eu"}]`},
		"a field":             {nacre.Constraints{AllowedFields: []string{"a"}}, `[{"a":1,"b":2}]`, `[{"c":[1,2,3],"a":1,"d":"long, longer"}]`},
		"no field":            {nacre.Constraints{AllowedFields: []string{}}, `[{"a":1,"b":2}]`, `[{"c":[1,2,3]}]`},
		"what has no fields":  {nacre.Constraints{AllowedFields: []string{"a"}}, `["x",[{"a":1}]]`, `[7,8]`},
		"rows past the cap":   {nacre.Constraints{MaxRows: &two}, `[{"a":1},{"a":2},{"a":3,"b":1},7]`, `[{"a":1},{"a":2},{"zz":[[[[1]]]]}]`},
		"all fields but one":  {nacre.Constraints{AllowedFields: []string{"id"}}, `{"rows":[{"id":1,"ssn":2}],"ssn":3}`, `{"rows":[{"ssn":4,"id":1}],"x":3}`},
	} {
		for _, mode := range []nacre.Mode{nacre.ModeSummary, nacre.ModeTable, nacre.ModeHandleOnly, nacre.ModeRaw} {
			q := request(mode)
			q.Admin = true
			a, b := framed(t, test.a, test.c, q), framed(t, test.b, test.c, q)
			if string(a.Result) != string(b.Result) {
				t.Errorf("%s, %v:\n%s\n%s", name, mode, a.Result, b.Result)
			}
		}
	}
}

// K-10: rows that hide in another shape than an array count against the cap too.
func TestTheCapReachesRowsInOtherShapes(t *testing.T) {
	two := 2
	row := `{"id":"hush"}`
	for name, raw := range map[string]string{
		"an array": array(9, row), "an envelope": `{"any":` + array(9, row) + `,"n":9}`, "two arrays": `{"a":` + array(9, row) + `,"b":[]}`,
		"deeper": `{"data":{"rows":` + array(9, row) + `}}`, "rows of rows": `[` + array(9, row) + `]`, "beside others": `[1,` + array(9, row) + `]`,
	} {
		v := framed(t, raw, nacre.Constraints{MaxRows: &two}, request(nacre.ModeTable))
		if n := strings.Count(string(v.Result), "hush"); n > 2 || n == 0 && name != "deeper" {
			t.Errorf("%s: %d rows in %s", name, n, v.Result)
		}
	}
}

// K-05, K-14: an object is one row, and a value too: where none is granted, no
// fact tells of it.
func TestWhatIsNotGrantedIsNotTold(t *testing.T) {
	none := 0
	for _, raw := range []string{`{"id":"hush","n":1}`, `"hush"`, `["hush"]`, array(3, `{"id":"hush"}`), `[["hush"]]`, `{"hush":{"a":1}}`} {
		for _, mode := range []nacre.Mode{nacre.ModeSummary, nacre.ModeTable, nacre.ModeHandleOnly, nacre.ModeRaw} {
			v := framed(t, raw, nacre.Constraints{MaxRows: &none}, request(mode))
			if strings.Contains(string(v.Result), "hush") {
				t.Errorf("%s as %v: %s", raw, mode, v.Result)
			}
		}
	}
}

// K-14: hostile shapes cost time and memory in line with their length: this
// test takes seconds where one of them does not.
func TestHostileShapesAreLinear(t *testing.T) {
	two := 2
	for _, unit := range []string{`[],`, `{},`, `1,`, `"a",`, `{"a":1},`, `"\u0041",`, `{"a":{"a":"1"}},`} {
		list := strings.TrimSuffix(strings.Repeat(unit, (1<<18)/len(unit)), ",")
		nested := strings.Repeat("[", firewall.MaxNesting-2) + list + strings.Repeat("]", firewall.MaxNesting-2)
		objects := strings.Repeat(`{"a":`, firewall.MaxNesting-3) + "[" + list + "]" + strings.Repeat("}", firewall.MaxNesting-3)
		for _, raw := range []string{"[" + list + "]", `{"rows":[` + list + `],"n":1}`, nested, objects} {
			for _, c := range []nacre.Constraints{{}, {MaxRows: &two}, {AllowedFields: []string{"a"}}, {Scope: map[string]string{"a": "1"}}} {
				r, err := firewall.Read(json.RawMessage(raw), c)
				if err != nil {
					continue // deeper than is read
				}
				if r.Size() > 8*len(raw) {
					t.Errorf("%s: %d bytes of memory for %d", unit, r.Size(), len(raw))
				}
				v, err := r.Forward(request(nacre.ModeSummary), bees{})
				if err != nil {
					t.Fatal(err)
				}
				bounded(t, v, firewall.FrameChars)
			}
		}
	}
}

func TestABadResultIsAnError(t *testing.T) {
	for _, raw := range []string{
		``, ` `, `{`, `[1,]`, `{"a":1,}`, `{"a"}`, `{a:1}`, `NaN`, `-Infinity`, `[nan]`, `nul`, `truex`, `01`, `1.`, `.5`, `-`, `1e`, `+1`, `1 2`, `"a`, `"\x"`, `"\u12g4"`, `"\`,
		"\"\x01\"", "\"\xff\"", "\"aaaaaaaaaaaa\xc3\"", "\xef\xbb\xbf1", `[1 2]`, `{"a":1 "b":2}`, `]`, "\x00", "1\x00", strings.Repeat("[", 1<<20), strings.Repeat(`{"a":`, 1<<18),
		strings.Repeat("[", firewall.MaxNesting+1) + strings.Repeat("]", firewall.MaxNesting+1), `{"rows":[{}],"n":01}`,
	} {
		for _, c := range []nacre.Constraints{{}, {AllowedFields: []string{"a"}}, {Scope: map[string]string{"a": "b"}}} {
			if _, err := firewall.Read(json.RawMessage(raw), c); !errors.Is(err, firewall.ErrNotJSON) {
				t.Errorf("%.40q: have %v", raw, err)
			}
		}
	}
}

// What encoding/json takes and what the cursor takes is the same, and so is the bound.
func FuzzFrame(f *testing.F) {
	for _, seed := range []string{`{"rows":[{"a":1,"a":2}],"n":1e999}`, `[1,"two",null,3.5,{"a":[[[[]]]]}]`, `"\ud800\u0000<&>"`, `[{"":""},{}]`, `-0.0e-0`, `[[],{},[{}]]`} {
		for cut := range corpus.Cuts(seed) {
			f.Add([]byte(cut), uint8(1), 400)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte, how uint8, chars int) {
		n := int(how >> 4)
		c := nacre.Constraints{}
		if how&4 != 0 {
			c.MaxRows = &n
		}
		if how&8 != 0 {
			c.AllowedFields = []string{"a"}
		}
		r, err := firewall.Read(raw, c)
		if (err == nil) != (json.Valid(raw) && utf8.Valid(raw)) && len(raw) < firewall.MaxNesting {
			t.Fatalf("%q: %v", raw, err)
		}
		if err != nil {
			return
		}
		q := firewall.Request{Mode: nacre.Mode(how & 3), Admin: true, Limits: firewall.DefaultLimits(), Keep: keep}
		q.Limits.Chars = max(firewall.MinChars, min(chars, 5000))
		v, err := r.Forward(q, redact.New())
		if err != nil {
			t.Fatal(err)
		}
		bounded(t, v, q.Limits.Chars)
		if how&8 == 0 && r.Len() > 0 {
			if row := r.Row(r.Len()-1, nil); !json.Valid(row) {
				t.Fatalf("row %q", row)
			}
		}
	})
}

// value makes any JSON, with what costs most to show in it.
func value(t *rapid.T, depth int) any {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return rapid.Float64Range(-1e20, 1e20).Draw(t, "number")
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		text := rapid.SampledFrom([]string{"<", "\u2028", "\x00", "é😀", "a", `"`, "password: ", "\ufffd"}).Draw(t, "text")
		return strings.Repeat(text, rapid.SampledFrom([]int{0, 1, 10, 301, 2000}).Draw(t, "times"))
	case 3:
		return nil
	case 4:
		list := []any{}
		of := value(t, depth-1)
		for range rapid.SampledFrom([]int{0, 1, 2, 60}).Draw(t, "elements") {
			list = append(list, of)
		}
		return append(list, value(t, depth-1))
	default:
		object := map[string]any{}
		for i := range rapid.SampledFrom([]int{0, 1, 3, 30}).Draw(t, "members") {
			object[fmt.Sprint(rapid.SampledFrom([]string{"a", "password", "rows", strings.Repeat("<", 100)}).Draw(t, "name"), i)] = value(t, depth-1)
		}
		return object
	}
}

// K-14: for any JSON, in any mode, within any limit, all that is seen is within it, twice the same.
func TestAnyResultIsWithinTheBound(t *testing.T) {
	engine, room := redact.New(), new(firewall.Room)
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(value(t, rapid.IntRange(0, 3).Draw(t, "depth")))
		if err != nil {
			t.Fatal(err)
		}
		q := firewall.Request{
			Mode: nacre.Mode(rapid.IntRange(0, 3).Draw(t, "mode")), Admin: rapid.Bool().Draw(t, "admin"), Keep: keep,
			Limits:   firewall.Limits{Rows: 50, Fields: 20, Depth: 3, Chars: rapid.SampledFrom([]int{0, 400, 450, 1000, 4000}).Draw(t, "chars")},
			Warnings: rapid.SampledFrom([][]string{nil, {strings.Repeat("<", 500), "\xff", "a", "b", "c", "d"}}).Draw(t, "warnings"),
		}
		r, err := firewall.Read(raw, nacre.Constraints{})
		if err != nil {
			t.Fatal(err)
		}
		v, err := r.Forward(q, engine)
		if err != nil {
			t.Fatal(err)
		}
		bounded(t, v, q.Limits.Chars)
		another, err := firewall.Read(invoices(12), nacre.Constraints{})
		if err != nil {
			t.Fatal(err)
		}
		q.Room = room
		again, _ := r.Forward(q, engine)
		first := string(again.Result)
		if first != string(v.Result) || !reflect.DeepEqual(again.Frame, v.Frame) || !slices.Equal(again.Redacted, v.Redacted) {
			t.Fatalf("not the same twice")
		}
		if _, err := another.Frame(q, engine); err != nil { // in the same room
			t.Fatal(err)
		}
		if string(again.Result) != first || !reflect.DeepEqual(again.Frame, v.Frame) || !slices.Equal(again.Redacted, v.Redacted) {
			t.Fatalf("a frame was changed by the next one")
		}
	})
}

// K-17: there is no handle where there is nothing more to see.
func TestAFrameThatShowsItAllHasNoHandle(t *testing.T) {
	two := 2
	for _, test := range []struct {
		name, raw string
		mode      nacre.Mode
		rows      *int
		want      bool
	}{
		{"all rows and fields", `[{"a":1},{"a":2}]`, nacre.ModeSummary, nil, false},
		{"all rows, as a table", array(50, `{"a":1}`), nacre.ModeTable, nil, false},
		{"every row that is granted", array(9, `{"a":1}`), nacre.ModeSummary, &two, false},
		{"an object with all of its fields", `{"a":1,"b":[1,2]}`, nacre.ModeSummary, nil, false},
		{"a secret is not shown later either", `[{"password":"hunter2-hunter2"}]`, nacre.ModeSummary, nil, false},
		{"raw, whole", `[{"a":1}]`, nacre.ModeRaw, nil, false},
		{"a row too many", array(11, `{"a":1}`), nacre.ModeSummary, nil, true},
		{"a row too many for a table", array(51, `{"a":1}`), nacre.ModeTable, nil, true},
		{"a text that is cut", `[{"a":1},{"a":"` + strings.Repeat("x", 400) + `"}]`, nacre.ModeSummary, nil, true},
		{"what is nested too deep", `[{"a":{"b":{"c":{"d":1}}}}]`, nacre.ModeSummary, nil, true},
		{"rows that do not fit", array(10, `{"a":"`+strings.Repeat("x", 290)+`","b":"`+strings.Repeat("x", 290)+`"}`), nacre.ModeSummary, nil, true},
		{"nothing is shown", `[{"a":1}]`, nacre.ModeHandleOnly, nil, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			kept := 0
			r, err := firewall.Read(json.RawMessage(test.raw), nacre.Constraints{MaxRows: test.rows})
			if err != nil {
				t.Fatal(err)
			}
			q := firewall.Request{Mode: test.mode, Admin: true, Limits: firewall.DefaultLimits(), Keep: func() *nacre.Handle {
				kept++
				return keep()
			}}
			v, err := r.Frame(q, redact.New())
			if err != nil || (v.Frame.Handle != nil) != test.want || (kept == 1) != test.want || kept > 1 {
				t.Errorf("kept %d times, handle %v, %v, want one: %v\n%s", kept, v.Frame.Handle, err, test.want, v.Result)
			}
			q.Handle, q.Keep = keep(), nil // of a page it is always told
			if v, err := r.Frame(q, redact.New()); err != nil || v.Frame.Handle == nil {
				t.Errorf("a page lost its handle: %v", err)
			}
		})
	}
}

// K-14: rows that are passed on as they are written are what would be printed of them.
func TestRowsAreTheSameHoweverTheyAreSpaced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(value(t, rapid.IntRange(0, 4).Draw(t, "depth")))
		if err != nil {
			t.Fatal(err)
		}
		var spaced bytes.Buffer
		if err := json.Indent(&spaced, raw, "", " "); err != nil {
			t.Fatal(err)
		}
		rows := func(raw []byte) []json.RawMessage {
			r, err := firewall.Read(raw, nacre.Constraints{})
			if err != nil {
				t.Fatal(err)
			}
			q := firewall.Request{Mode: nacre.ModeTable, Limits: firewall.DefaultLimits()}
			q.Limits.Chars = 1 << 22
			v, err := r.Frame(q, bare{})
			if err != nil {
				t.Fatal(err)
			}
			if len(v.Result) > 1<<21 {
				t.Skip("what is cut hangs on more than the rows")
			}
			return v.Frame.Rows
		}
		if have, want := rows(raw), rows(spaced.Bytes()); !reflect.DeepEqual(have, want) {
			t.Errorf("have %s\nwant %s", have, want)
		}
	})
}

func FuzzCost(f *testing.F) {
	for _, seed := range []string{"", "abcdefgh", "abcdefgh<ijklmnop", "<&>", "1234567\u2028", "\u2029", "\u2027é😀", "0123456789abcde\xe2\x80", "&bcdefgh>"} {
		corpus.Add(f, []byte(seed))
	}
	f.Fuzz(func(t *testing.T, encoded []byte) {
		want := 0
		for i, b := range encoded {
			switch {
			case b == '<' || b == '>' || b == '&', bytes.HasPrefix(encoded[i:], []byte("\u2028")), bytes.HasPrefix(encoded[i:], []byte("\u2029")):
				want += 6
			case utf8.RuneStart(b):
				want++
			}
		}
		if have := firewall.Cost(encoded); have != want {
			t.Errorf("%q: have %d, want %d", encoded, have, want)
		}
		if have, want := firewall.Runes(encoded), utf8.RuneCount(encoded); have != want {
			t.Errorf("%q: have %d characters, want %d", encoded, have, want)
		}
	})
}

// K-14: errors are redacted and bounded too.
func TestAnErrorIsBoundedAndClean(t *testing.T) {
	const token = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
	for _, text := range []string{
		"", "no such note", token, strings.Repeat("x ", 990) + token + strings.Repeat(" x", 5000), strings.Repeat("<", 9000), strings.Repeat("\x00", 9000),
		strings.Repeat("é😀", 5000), "\xff\xfe", strings.Repeat("a", 1999) + "é", strings.Repeat(token+" ", 400), strings.Repeat(token+" ", 71) + "ghp_012",
	} {
		have := firewall.ShowError(text, redact.New())
		encoded, err := json.Marshal(have)
		if err != nil || utf8.RuneCount(encoded) > 2002 || strings.Contains(have, token) || !utf8.ValidString(have) || have == "" && text != "" && text != "\xff\xfe" {
			t.Errorf("%.20q: %d characters: %.100q", text, utf8.RuneCount(encoded), have)
		}
	}
	if have := firewall.ShowError("no such note", bees{}); have != "no such note" {
		t.Errorf("have %q", have)
	}
}

// K-17: a filter's values are equal as JSON, and nothing else is.
func TestEqualityIsThatOfJSON(t *testing.T) {
	for _, test := range []struct {
		row, filter string
		want        bool
	}{
		{`1`, `1.0`, true}, {`1`, `1e0`, true}, {`10`, `1E+1`, true}, {`0.1`, `1e-1`, true}, {`-0`, `0.0`, true}, {`0e5`, `0`, true}, {`100`, `1e2`, true},
		{`1`, `true`, false}, {`1`, `"1"`, false}, {`0`, `false`, false}, {`null`, `false`, false}, {`null`, `null`, true}, {`""`, `null`, false},
		{`9007199254740993`, `9007199254740992`, false}, {`1e999999999`, `1e999999998`, false}, {`1e99999999999999999999`, `1e99999999999999999999`, true},
		{`1e1000`, `1e1000`, true}, {`1e1000`, `2`, false}, {`0.1e999`, `1e998`, true}, {`5.50`, `55e-1`, true}, {`"\ud800"`, `"\ufffd"`, false},
		{`"a"`, `"\u0061"`, true}, {`"\\u0061"`, `"\u0061"`, false}, {`"é"`, `"\u00e9"`, true}, {`"a"`, `"A"`, false}, {`"a"`, `"a "`, false}, {`"\/"`, `"/"`, true},
		{`{"a":1,"b":[2]}`, ` { "b" : [2.0], "\u0061" : 1 } `, true}, {`{"a":1}`, `{"a":1,"b":2}`, false}, {`[1,2]`, `[2,1]`, false}, {`[]`, `{}`, false}, {`[[]]`, `[]`, false},
	} {
		r := readAll(t, `[{"x":`+test.row+`},{"y":1},7]`, nacre.Constraints{})
		match, err := r.Matcher(map[string]json.RawMessage{"x": json.RawMessage(test.filter)})
		if err != nil || match(0) != test.want || match(1) || match(2) {
			t.Errorf("%s and %s: have %v %v", test.row, test.filter, match(0), err)
		}
	}
	r := readAll(t, `[{"x":1,"x":2}]`, nacre.Constraints{})
	for _, x := range []string{"1", "2"} { // a field that is there twice must be it twice
		if match, err := r.Matcher(map[string]json.RawMessage{"x": json.RawMessage(x)}); err != nil || match(0) {
			t.Errorf("%s matches a row with two", x)
		}
	}
	if _, err := r.Matcher(map[string]json.RawMessage{"x": json.RawMessage(`{`)}); err == nil {
		t.Error("a filter that is not JSON")
	}
}

// K-17: rows are read on their own, with the fields that are asked for.
func TestRowsOfAnyShape(t *testing.T) {
	for raw, want := range map[string][]string{
		`[{"a":1, "b":2},null,"x"]`:                         {`{"a":1}`, `null`, `null`},
		`{"total":3,"items":[{"a":1},{"b":2,"a":{"c":1}}]}`: {`{"a":1}`, `{"a":{"c":1}}`},
		`{"a":[1],"b":[2]}`:                                 {`{"a":[1]}`},
		` {"a":[{"b":1}],"c":{}} `:                          {`{"a":[{"b":1}]}`},
		`[]`:                                                {},
		`7`:                                                 {`null`},
	} {
		r := readAll(t, raw, nacre.Constraints{})
		have := []string{}
		for i := range r.Len() {
			have = append(have, string(r.Row(i, []string{"a"})))
		}
		if !slices.Equal(have, want) {
			t.Errorf("%s: have %q, want %q", raw, have, want)
		}
	}
	page, err := firewall.FromRows([]json.RawMessage{[]byte(`{"a":1}`), []byte(`2`)})
	if err != nil || page.Len() != 2 || page.Rows() != 2 || string(page.Row(1, nil)) != "2" {
		t.Errorf("a page: %v", err)
	}
}

// K-16: callers at once do not spend more than there is, and each pays what it showed.
func TestTheBudgetIsNotOverspent(t *testing.T) {
	budget := firewall.NewBudget(10_000)
	var all sync.WaitGroup
	var mu sync.Mutex
	spent := 0
	for range 100 {
		all.Go(func() {
			r, err := budget.Reserve(nacre.ModeSummary, firewall.FrameChars)
			if err != nil {
				if !errors.Is(err, firewall.ErrExhausted) {
					t.Error(err)
				}
				return
			}
			shown := min(r.Chars, 1234)
			mu.Lock()
			spent += shown
			mu.Unlock()
			r.Settle(shown)
			r.Settle(0) // counts once
		})
	}
	all.Wait()
	if have := budget.Remaining(); spent > 40_000 || have != (40_000-spent)/4 {
		t.Errorf("spent %d characters, left %d tokens", spent, have)
	}
}

func TestAnEmptyBudgetShowsNothing(t *testing.T) {
	for _, budget := range []*firewall.Budget{{}, firewall.NewBudget(0), firewall.NewBudget(-5), firewall.NewBudget(firewall.MinChars/4 - 1)} {
		if r, err := budget.Reserve(nacre.ModeHandleOnly, 1); !errors.Is(err, firewall.ErrExhausted) {
			t.Errorf("have %+v %v", r, err)
		}
	}
	budget := firewall.NewBudget(1000)
	r, err := budget.Reserve(nacre.ModeRaw, firewall.FrameChars)
	if err != nil || r.Mode != nacre.ModeRaw || r.Chars != 4000 || budget.Remaining() != 0 {
		t.Fatalf("have %+v %v", r, err)
	}
	if _, err := budget.Reserve(nacre.ModeRaw, 1); !errors.Is(err, firewall.ErrExhausted) {
		t.Errorf("what is reserved is spent twice: %v", err)
	}
	r.Settle(3600)
	if r, err = budget.Reserve(nacre.ModeRaw, firewall.FrameChars); err != nil || r.Mode != nacre.ModeSummary || r.Chars != 400 {
		t.Errorf("have %+v %v", r, err)
	}
	r.Settle(1 << 40)
	if budget.Remaining() != 0 {
		t.Errorf("left %d", budget.Remaining())
	}
}
