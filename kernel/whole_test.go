package kernel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/kernel"
)

// shows is a house whose only tool returns result, with limits as an operator sets them.
func shows(t *testing.T, limits nacre.ResultLimits, result json.RawMessage) (*house, nacre.Frame) {
	t.Helper()
	h := open(t, func(c *kernel.Config) {
		c.OutputBudget = 500_000
		c.ResultLimits = func(nacre.Group, nacre.ToolName) nacre.ResultLimits { return limits }
	})
	h.add(t, reading(nil), func(context.Context, nacre.Invocation) (json.RawMessage, error) { return result, nil })
	grant := h.grant(t, kernel.GrantRequest{Capability: "notes.note_read"})
	frame, err := h.Invoke(t.Context(), grant, writer, kernel.Input{Arguments: with.Arguments})
	if err != nil || frame.Handle == nil {
		t.Fatalf("have %+v, %v", frame, err)
	}
	return h, frame
}

func agentLimits() nacre.ResultLimits {
	return nacre.ResultLimits{Rows: 200, Fields: 100, Chars: 96 << 10, Depth: 10}
}

// part is the row of a page of a text.
type part struct {
	Text     string
	Unit     string
	From, Of int
	Next     *int
	Continue *struct{ From int }
}

func (h *house) part(t *testing.T, id string, q nacre.Query) part {
	t.Helper()
	frame, err := h.Expand(t.Context(), id, q, writer)
	if err != nil || len(frame.Rows) != 1 {
		t.Fatalf("have %+v, %v", frame, err)
	}
	var p part
	if err := json.Unmarshal(frame.Rows[0], &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// K-31, F-28: a text of a MiB is read whole, in at most 20 calls, by characters and by
// lines, wherever it stands.
func TestALongTextIsReadWhole(t *testing.T) {
	var b strings.Builder
	for i := 0; b.Len() < 1<<20; i++ {
		fmt.Fprintf(&b, "line %d says “something” & <more>\n", i)
	}
	for path, c := range map[string]struct {
		around, unit string
		size         int
	}{
		"":                           {"%s", "lines", 200_000},
		"text":                       {`{"text":%s}`, "lines", 1 << 20},
		"content[0].text":            {`{"content":[{"type":"text","text":%s}]}`, "characters", 1 << 20},
		`items[1]["a b"].deep[0][0]`: {`{"items":[{"n":1},{"a b":{"deep":[[%s]]}}]}`, "characters", 200_000},
	} {
		text := strings.ToValidUTF8(b.String()[:c.size], "")
		quoted, _ := json.Marshal(text)
		h, frame := shows(t, agentLimits(), json.RawMessage(fmt.Sprintf(c.around, quoted)))
		if len(frame.Cut) != 1 || frame.Cut[0].Path != path {
			t.Errorf("%s: the frame names %v as cut", path, frame.Cut)
		}
		var whole strings.Builder
		calls := 1
		for next := new(int); next != nil; calls++ {
			p := h.part(t, frame.Handle.ID, nacre.Query{Path: path, From: *next, Unit: c.unit})
			whole.WriteString(p.Text)
			if next = p.Next; calls > 20 || p.Unit != c.unit {
				t.Fatalf("%s: call %d: %+v", path, calls, p)
			}
		}
		if whole.String() != text {
			t.Errorf("%s by %s: %d of %d bytes are the same text", path, c.unit, whole.Len(), len(text))
		}
	}
}

// K-31: 2,000 rows that are nested are read whole in at most 20 calls.
func TestALongNestedResultIsReadWhole(t *testing.T) {
	rows := make([]json.RawMessage, 2000)
	for i := range rows {
		rows[i] = json.RawMessage(fmt.Sprintf(`{"id":%d,"author":{"name":"n%d","of":{"team":{"lead":{"name":"l%d"}}}},"labels":["a","b",{"c":[1,2,[3]]}]}`, i, i, i))
	}
	all, _ := json.Marshal(rows)
	for path, result := range map[string]string{"": string(all), "issues": `{"issues":` + string(all) + `,"total":2000}`, "data.issues": `{"data":{"issues":` + string(all) + `}}`} {
		h, frame := shows(t, agentLimits(), json.RawMessage(result))
		var have []json.RawMessage
		calls := 1
		for ; len(have) < len(rows) && calls <= 20; calls++ {
			page, err := h.Expand(t.Context(), frame.Handle.ID, nacre.Query{Path: path, Offset: len(have)}, writer)
			if err != nil {
				t.Fatal(err)
			}
			have = append(have, page.Rows...)
		}
		if read, _ := json.Marshal(have); string(read) != string(all) {
			t.Errorf("%q: %d rows of %d bytes in %d calls", path, len(have), len(read), calls)
		}
		one, err := h.Expand(t.Context(), frame.Handle.ID, nacre.Query{Path: path + "[3].author.of.team.lead.name"}, writer)
		if err != nil || !strings.Contains(string(one.Rows[0]), `"text":"l3"`) {
			t.Errorf("%q: have %s, %v", path, one.Rows, err)
		}
		past, err := h.Expand(t.Context(), frame.Handle.ID, nacre.Query{Path: path, Offset: 5000}, writer)
		if err != nil || len(past.Rows) != 0 {
			t.Errorf("%q: a page past the end: %+v, %v", path, past, err)
		}
	}
}

// K-31, F-41: what a page cuts is named with the path that shows it.
func TestACutSaysHowItIsSeen(t *testing.T) {
	long := strings.Repeat("word ", 400)
	h, frame := shows(t, nacre.ResultLimits{}, json.RawMessage(`[{"id":1,"a":{"b":{"c":{"d":{"e":1}}}}},{"id":2,"body":"`+long+`"}]`))
	paths := map[string]bool{}
	for _, cut := range frame.Cut {
		paths[cut.Path] = true
		if page, err := h.Expand(t.Context(), frame.Handle.ID, nacre.Query{Path: cut.Path}, writer); err != nil || len(page.Rows) != 1 {
			t.Errorf("%s: %+v, %v", cut.Path, page, err)
		}
	}
	if !paths["[0].a.b.c"] || !paths["[1].body"] {
		t.Errorf("have %v", frame.Cut)
	}
}

// K-31: nobody reads by a path what the pages of rows do not show. A secret stays hidden by the
// name that it stands under and where a page ends inside of it, and the cap on rows counts.
func TestAPathShowsNoMoreThanPagesDo(t *testing.T) {
	secret := "AKIA" + "Q3EGRZ5LT7XKM2PN"
	text := strings.Repeat("x ", 60_000) + secret + strings.Repeat(" y", 60_000)
	h, frame := shows(t, agentLimits(), json.RawMessage(`{"password":"only its name tells","text":"`+text+`"}`))
	if p := h.part(t, frame.Handle.ID, nacre.Query{Path: "password"}); strings.Contains(p.Text, "name") {
		t.Errorf("have %q", p.Text)
	}
	for from := 120_000 - 5; from < 120_000+len(secret); from += 4 {
		if p := h.part(t, frame.Handle.ID, nacre.Query{Path: "text", From: from, Limit: some(10)}); strings.Contains(p.Text, secret[4:9]) {
			t.Fatalf("from %d: %q", from, p.Text)
		}
	}
	h, _, id := handed(t, nacre.Constraints{MaxRows: some(3), AllowedFields: []string{"id", "status"}})
	for query, want := range map[string]string{"[3].id": "rows of the grant", "[0].api_key": "leads to nothing", "[0": "cannot be read", "nothing": "leads to nothing"} {
		if frame, err := h.Expand(t.Context(), id, nacre.Query{Path: query}, writer); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v", query, frame, err)
		}
	}
	seen := 0
	for range 10 {
		if _, err := h.Expand(t.Context(), id, nacre.Query{Path: "[0].id"}, writer); err == nil {
			seen++
		}
	}
	if seen > 3 {
		t.Errorf("%d rows of 3 were read by path", seen)
	}
}
