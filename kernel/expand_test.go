package kernel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/handle"
	"github.com/nacre-dev/nacre/kernel"
)

// invoices are n rows with a secret in each.
func invoices(n int) json.RawMessage {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,{"id":%d,"status":"%s","api_key":"k-%032d"}`, i, []string{"paid", "open"}[i%2], i)
	}
	return json.RawMessage("[" + b.String()[1:] + "]")
}

// handed is a house that has shown a summary of a hundred invoices, and the handle to the rest.
func handed(t *testing.T, c nacre.Constraints) (*house, nacre.Token, string) {
	t.Helper()
	h := open(t, nil)
	h.add(t, reading(nil), func(context.Context, nacre.Invocation) (json.RawMessage, error) { return invoices(100), nil })
	grant := h.grant(t, kernel.GrantRequest{Capability: "notes.note_read", Constraints: c})
	frame, err := h.Invoke(t.Context(), grant, writer, kernel.Input{Arguments: with.Arguments, Mode: nacre.ModeHandleOnly})
	if err != nil || frame.Handle == nil {
		t.Fatalf("have %+v, %v", frame, err)
	}
	return h, grant, frame.Handle.ID
}

func some(n int) *int { return &n }

// K-17: a page is redacted, recorded and traced.
func TestAPageIsRedactedAndRecorded(t *testing.T) {
	h, _, id := handed(t, nacre.Constraints{})
	frame, err := h.Expand(t.Context(), id, nacre.Query{Offset: 40, Limit: some(2), Filter: map[string]json.RawMessage{"status": json.RawMessage(`"open"`)}}, writer)
	if err != nil || len(frame.Rows) != 2 || string(frame.Rows[0]) != `{"id":81,"status":"open","api_key":"[REDACTED]"}` {
		t.Fatalf("have %s, %v", frame.Rows, err)
	}
	if have := h.chain.told(); !strings.HasSuffix(have, "handle.expand/sanitized/") {
		t.Errorf("have %s", have)
	}
	traces, err := h.QueryTraces(kernel.TraceQuery{Event: kernel.EventExpand})
	if err != nil || len(traces) != 1 || traces[0].HandleID != id || traces[0].Summary.Rows != 2 || traces[0].Capability != "notes.note_read" {
		t.Errorf("have %+v, %v", traces, err)
	}
	if s := h.Stats(); s.Expansions != 1 || s.HandleStores != 1 || s.Redactions != 1 { // K-23: of the page; handle_only showed nothing
		t.Errorf("have %+v", s)
	}
}

// K-17: a handle is for whom it was given to, and as long as its grant holds.
func TestAHandleIsForItsHolderAlone(t *testing.T) {
	change := func(change func(*nacre.Principal)) nacre.Principal { p := writer; change(&p); return p }
	for name, c := range map[string]struct {
		as     nacre.Principal
		before func(*house, nacre.Token)
		id     func(string) string
		want   nacre.ReasonCode
	}{
		"another principal":            {as: change(func(p *nacre.Principal) { p.ID = "main/s2" }), want: nacre.ReasonHandlePrincipal},
		"another session":              {as: change(func(p *nacre.Principal) { p.Session = "s2" }), want: nacre.ReasonHandlePrincipal},
		"another group":                {as: change(func(p *nacre.Principal) { p.Group = "family" }), want: nacre.ReasonHandlePrincipal},
		"nobody":                       {as: change(func(p *nacre.Principal) { p.ID = "" }), want: nacre.ReasonHandlePrincipal},
		"nobody, of nowhere":           {as: nacre.Principal{}, want: nacre.ReasonNoSession},
		"no session":                   {as: change(func(p *nacre.Principal) { p.Session = "" }), want: nacre.ReasonNoSession},
		"a forged handle":              {as: writer, id: func(string) string { return "h_" + strings.Repeat("0", 32) }, want: nacre.ReasonHandleUnknown},
		"no handle":                    {as: writer, id: func(string) string { return "" }, want: nacre.ReasonHandleUnknown},
		"a megabyte":                   {as: writer, id: func(string) string { return strings.Repeat("h", 1<<20) }, want: nacre.ReasonHandleUnknown},
		"a revoked grant":              {as: writer, before: func(h *house, t nacre.Token) { _ = h.Revoke(t.ID) }, want: nacre.ReasonHandleUnknown},
		"a revoked principal":          {as: writer, before: func(h *house, _ nacre.Token) { _ = h.RevokeAll("main/s1", time.Time{}) }, want: nacre.ReasonHandleUnknown},
		"a session that was forgotten": {as: writer, before: func(h *house, _ nacre.Token) { h.Forget(in("s1")) }, want: nacre.ReasonHandleUnknown},
		"too late":                     {as: writer, before: func(h *house, _ nacre.Token) { h.clock.pass(handle.TTL) }, want: nacre.ReasonHandleUnknown},
	} {
		h, grant, id := handed(t, nacre.Constraints{})
		if c.before != nil {
			c.before(h, grant)
		}
		if c.id != nil {
			id = c.id(id)
		}
		frame, err := h.Expand(t.Context(), id, nacre.Query{}, c.as)
		if have := refusal(t, err).Reason; have != c.want || frame.Rows != nil {
			t.Errorf("%s: have %s with %d rows, want %s", name, have, len(frame.Rows), c.want)
		}
		if have := h.chain.told(); !strings.Contains(have, "call.reject/rejected/"+string(c.want)) {
			t.Errorf("%s: not recorded: %s", name, have)
		}
	}
}

// K-17: a page that is refused is recorded and traced with the handle it was
// asked of and, to whom the handle was given, with what that came from.
func TestAPageThatIsRefusedIsRecordedWithItsHandle(t *testing.T) {
	stranger := writer
	stranger.ID = "main/s2"
	for name, c := range map[string]struct {
		as                nacre.Principal
		topic, capability string
	}{
		"its holder asks for too much": {writer, "tool.invoke.note_read", "notes.note_read"},
		"a stranger":                   {stranger, "handle.expand", ""},
	} {
		h, _, id := handed(t, nacre.Constraints{MaxRows: some(7)})
		if page, err := h.Expand(t.Context(), id, nacre.Query{Limit: some(8)}, c.as); err == nil {
			t.Fatalf("%s: have %v, want a refusal", name, page)
		}
		records := h.chain.all()
		last := records[len(records)-1]
		var detail struct{ Handle, Capability string }
		if err := json.Unmarshal(last.Detail, &detail); err != nil || detail.Handle != id || detail.Capability != c.capability || last.Topic != c.topic {
			t.Errorf("%s: have %s %s, %v", name, last.Topic, last.Detail, err)
		}
		traces, err := h.QueryTraces(kernel.TraceQuery{Event: kernel.EventDeny})
		if err != nil || len(traces) != 1 || traces[0].HandleID != id || string(traces[0].Capability) != c.capability {
			t.Errorf("%s: have %+v, %v", name, traces, err)
		}
	}
}

// K-17: whoever takes one row at a time gets no more rows than the grant allows.
func TestPageByPageGivesNoMoreThanTheGrant(t *testing.T) {
	h, _, id := handed(t, nacre.Constraints{MaxRows: some(7)})
	seen := 0
	for offset := range 100 {
		frame, err := h.Expand(t.Context(), id, nacre.Query{Offset: offset, Limit: some(1)}, writer)
		if err != nil {
			if refusal(t, err).Reason != nacre.ReasonHandleConstraint {
				t.Fatal(err)
			}
			break
		}
		seen += len(frame.Rows)
	}
	if seen != 7 {
		t.Errorf("%d rows were seen, want 7", seen)
	}
}

// K-17: a field that the grant does not allow can neither be seen nor asked for.
func TestAFilterIsNoOracle(t *testing.T) {
	h, _, id := handed(t, nacre.Constraints{AllowedFields: []string{"id", "status"}})
	for name, q := range map[string]nacre.Query{
		"a filter": {Filter: map[string]json.RawMessage{"api_key": json.RawMessage(fmt.Sprintf(`"k-%032d"`, 1))}},
		"a field":  {Fields: []string{"id", "api_key"}},
	} {
		frame, err := h.Expand(t.Context(), id, q, writer)
		if refusal(t, err).Code != nacre.CodeUnauthorized || frame.Rows != nil {
			t.Errorf("%s: have %s, %v", name, frame.Rows, err)
		}
	}
	frame, err := h.Expand(t.Context(), id, nacre.Query{Limit: some(1)}, writer)
	if err != nil || string(frame.Rows[0]) != `{"id":0,"status":"paid"}` {
		t.Errorf("have %s, %v", frame.Rows, err)
	}
}

// K-15, K-17: what is redacted where it is shown cannot be guessed by asking
// for the row that has it, and asking costs nothing of what the grant leaves.
func TestAFilterTellsNothingThatIsRedacted(t *testing.T) {
	h, _, id := handed(t, nacre.Constraints{MaxRows: some(1)})
	for field, value := range map[string]string{
		"api_key": fmt.Sprintf(`"k-%032d"`, 1), "cvv": `123`, "note": `"write to bob@example.com"`, "card": `{"number":"4111 1111 1111 1111"}`, "status\u0000": `"ghp_` + strings.Repeat("a", 36) + `"`,
	} {
		frame, err := h.Expand(t.Context(), id, nacre.Query{Filter: map[string]json.RawMessage{field: json.RawMessage(value)}}, writer)
		if refusal(t, err).Reason != nacre.ReasonHandleConstraint || frame.Rows != nil {
			t.Errorf("%s: have %s, %v", field, frame.Rows, err)
		}
	}
	frame, err := h.Expand(t.Context(), id, nacre.Query{Filter: map[string]json.RawMessage{"id": json.RawMessage(`7`)}}, writer)
	if err != nil || len(frame.Rows) != 1 {
		t.Errorf("have %s, %v", frame.Rows, err)
	}
}

// K-17, K-21: a page that cannot be recorded is not shown, and counts.
func TestAPageThatCannotBeRecordedIsNotShown(t *testing.T) {
	h, _, id := handed(t, nacre.Constraints{})
	h.chain.fail = func(r nacre.Record) bool { return r.Kind == kernel.KindExpand }
	frame, err := h.Expand(t.Context(), id, nacre.Query{}, writer)
	if refusal(t, err).Reason != nacre.ReasonAuditFailed || frame.Rows != nil {
		t.Errorf("have %+v, %v", frame, err)
	}
}

// K-25: an expansion carries the label of what it expands, and taints like it.
func TestAPageCarriesItsLabel(t *testing.T) {
	h := open(t, nil)
	h.add(t, reading(func(c *nacre.Capability) { c.Returns = nacre.Untrusted }), func(context.Context, nacre.Invocation) (json.RawMessage, error) { return invoices(100), nil })
	h.add(t, note(nil), nil)
	grant := h.grant(t, kernel.GrantRequest{Capability: "notes.note_read"})
	first, err := h.Invoke(t.Context(), grant, writer, with)
	if err != nil || first.Label != nacre.Untrusted || first.Handle.Label != nacre.Untrusted {
		t.Fatalf("have %+v, %v", first, err)
	}
	frame, err := h.Expand(t.Context(), first.Handle.ID, nacre.Query{}, writer)
	if err != nil || frame.Label != nacre.Untrusted {
		t.Errorf("have %v, %v", frame.Label, err)
	}
}

// K-17, K-18: who left sees no page, and pays for none.
func TestACallerThatLeftGetsNoPage(t *testing.T) {
	h, grant, id := handed(t, nacre.Constraints{MaxRows: some(1)})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Expand(ctx, id, nacre.Query{}, writer); err == nil {
		t.Error("a page was shown")
	}
	if _, err := h.Invoke(ctx, grant, writer, with); err == nil || len(h.called()) != 1 {
		t.Errorf("have %v, %d ran", err, len(h.called()))
	}
	if _, err := h.Grant(ctx, kernel.GrantRequest{Capability: "notes.note_read"}, writer, ""); err == nil {
		t.Error("a grant was made")
	}
	if frame, err := h.Expand(t.Context(), id, nacre.Query{}, writer); err != nil || len(frame.Rows) != 1 {
		t.Errorf("have %+v, %v", frame, err)
	}
}

// F-51: what only its neighbours tell from harmless text is hidden on each page
// of a handle: the lines of a private key, and rows below the names of columns.
func TestNoPageShowsWhatItsNeighboursGiveAway(t *testing.T) {
	const body, password = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj", "qZ8vR3nT6kW1xB9m"
	lines := []map[string]string{{"line": "-----BEGIN PRIVATE KEY-----"}}
	for range 70 {
		lines = append(lines, map[string]string{"line": body})
	}
	lines = append(lines, map[string]string{"line": "-----END PRIVATE KEY-----"})
	table := [][]string{{"user", "password"}}
	for range 70 {
		table = append(table, []string{"ann", password})
	}
	for name, result := range map[string]any{"a key": lines, "a table": table} {
		h := open(t, nil)
		h.add(t, reading(nil), func(context.Context, nacre.Invocation) (json.RawMessage, error) { return json.Marshal(result) })
		shown, err := h.Call(t.Context(), nacre.Call{Tool: "note_read", Arguments: json.RawMessage(milk), Principal: writer, Hints: nacre.Hints{Mode: "handle_only"}})
		if err != nil || shown.Handle == nil {
			t.Fatalf("%s: have %+v, %v, want a handle", name, shown, err)
		}
		frame, err := h.Expand(t.Context(), shown.Handle.ID, nacre.Query{Offset: 10, Limit: some(20)}, writer)
		if err != nil || len(frame.Rows) == 0 {
			t.Fatalf("%s: have %d rows, %v", name, len(frame.Rows), err)
		}
		for _, row := range frame.Rows {
			if text := string(row); strings.Contains(text, body) || strings.Contains(text, password) {
				t.Errorf("%s: a page shows %s", name, text)
			}
		}
	}
}
