package kernel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/kernel"
	"github.com/nacre-dev/nacre/policy"
)

// K-19: what is exported is stable, field by field.
func TestATracesJSONIsStable(t *testing.T) {
	h := open(t, nil)
	h.add(t, note(nil), func(context.Context, nacre.Invocation) (json.RawMessage, error) { return rows(60), nil })
	h.clock.pass(250 * time.Millisecond)
	c := call(`{"text":"password=hunter2hunter2"}`)
	if _, err := h.Call(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	trace, err := h.Explain("e-1")
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"version":1,"action_id":"e-1","event_type":"invoke","capability_id":"notes.note_add","principal_id":"main/s1",` +
		`"group":"main","session":"s1","token_id":"TOKEN","invoked_at":"2026-03-01T12:00:00.25Z","sensitivity":"NONE",` +
		`"args":{"list":"Personal","text":"password=[REDACTED]"},"response_mode":"summary","driver_id":"notes.note_add",` +
		`"handle_id":"HANDLE","correlation":"c-1","tool":"note_add","outcome":"routed","reason_code":"rule_allow",` +
		`"result_summary":{"fact_count":FACTS,"row_count":ROWS,"warning_count":1,"has_handle":true}}`
	have, err := json.Marshal(trace)
	wanted := strings.NewReplacer("TOKEN", trace.TokenID, "HANDLE", trace.HandleID,
		"FACTS", fmt.Sprint(trace.Summary.Facts), "ROWS", fmt.Sprint(trace.Summary.Rows)).Replace(want)
	if err != nil || string(have) != wanted {
		t.Errorf("have %s\nwant %s", have, wanted)
	}
}

// K-19: a trace that was exported, with every field, is read and written as it was.
func TestATraceThatWasExportedIsWrittenAsItWas(t *testing.T) {
	const exported = `{"version":1,"action_id":"e-1","event_type":"invoke","capability_id":"notes.note_add","principal_id":"main/s1",` +
		`"group":"main","session":"s1","token_id":"0f","invoked_at":"2026-03-01T12:00:00.25Z","sensitivity":"PII","args":{"text":"milk"},` +
		`"response_mode":"table","driver_id":"notes.second","attempts":[{"driver_id":"notes.note_add","cause":"deadline"}],"handle_id":"h",` +
		`"correlation":"c-1","tool":"note_add","outcome":"error","stage":6,"code":"HANDLER_ERROR","original_code":"NO_LIST","took_ns":1500,` +
		`"error":"no such list","reason_code":"rule_allow","result_summary":{"fact_count":1,"row_count":2,"warning_count":3,"has_handle":true}}`
	var trace kernel.Trace
	if err := json.Unmarshal([]byte(exported), &trace); err != nil {
		t.Fatal(err)
	}
	if have, err := json.Marshal(trace); err != nil || string(have) != exported {
		t.Errorf("have %s, %v\nwant %s", have, err, exported)
	}
	if trace.Tool != "note_add" || trace.Took != 1500 || trace.Mode != nacre.ModeTable || trace.Summary.Rows != 2 {
		t.Errorf("have %+v", trace)
	}
}

// K-19: the numbers of OCSF.
func TestATraceIsAnEventOfOCSF(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		trace kernel.Trace
		want  string
	}{
		"invoke":            {kernel.Trace{Event: kernel.EventInvoke}, "6003 6 600399 99 1 1"},
		"invoke that fails": {kernel.Trace{Event: kernel.EventInvoke, TraceResult: kernel.TraceResult{Error: "x"}}, "6003 6 600399 99 1 2"},
		"expand":            {kernel.Trace{Event: kernel.EventExpand}, "6003 6 600302 2 1 1"},
		"deny":              {kernel.Trace{Event: kernel.EventDeny}, "6003 6 600399 99 3 2"},
	} {
		c.trace.InvokedAt, c.trace.Arguments = at, json.RawMessage("{}")
		encoded, err := c.trace.OCSF()
		var e struct {
			Class    int   `json:"class_uid"`
			Category int   `json:"category_uid"`
			Type     int   `json:"type_uid"`
			Activity int   `json:"activity_id"`
			Severity int   `json:"severity_id"`
			Status   int   `json:"status_id"`
			Time     int64 `json:"time"`
			Metadata struct {
				Version string `json:"version"`
			} `json:"metadata"`
		}
		if err != nil || json.Unmarshal(encoded, &e) != nil {
			t.Fatal(err)
		}
		have := fmt.Sprint(e.Class, e.Category, e.Type, e.Activity, e.Severity, e.Status)
		if have != c.want || e.Time != at.UnixMilli() || e.Metadata.Version != "1.3.0" {
			t.Errorf("%s: have %s, %+v, want %s", name, have, e, c.want)
		}
	}
}

// K-19: what happened, event by event, and in which order.
func TestEveryKindOfEventIsTraced(t *testing.T) {
	h := open(t, nil)
	h.add(t, note(risky), func(context.Context, nacre.Invocation) (json.RawMessage, error) { return rows(60), nil })
	outcome, err := h.Call(t.Context(), call(milk))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Expand(t.Context(), outcome.Handle.ID, nacre.Query{}, writer); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Call(t.Context(), call(`{}`)); err == nil {
		t.Fatal("it was not denied")
	}
	all, err := h.QueryTraces(kernel.TraceQuery{Session: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, trace := range all {
		have = append(have, fmt.Sprint(trace.Event, " ", trace.Reason))
	}
	slices.Sort(have)
	want := []string{"approve approved", "ask high_risk_ask", "deny invalid_arguments", "expand ", "invoke high_risk_ask"}
	if !slices.Equal(have, want) {
		t.Errorf("have %q, want %q", have, want)
	}
}

// K-19: an embedder that names no call still has each of them.
func TestCallsWithoutANameAreTracedApart(t *testing.T) {
	h := open(t, nil)
	h.add(t, note(func(c *nacre.Capability) { c.Returns = nacre.Trusted }), nil)
	for range 3 {
		c := call(milk)
		c.ID = ""
		if _, err := h.Call(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := h.QueryTraces(kernel.TraceQuery{}); err != nil || len(all) != 3 {
		t.Errorf("have %d, %v", len(all), err)
	}
	names := map[string]int{}
	for _, r := range h.chain.all() {
		var detail struct{ Call string }
		if err := json.Unmarshal(r.Detail, &detail); err != nil || detail.Call == "" {
			t.Fatalf("have %s, %v", r.Detail, err)
		}
		names[detail.Call]++
	}
	if len(names) != 3 {
		t.Errorf("begin and end are not of one name: %v", names)
	}
}

// K-19: filters, and pages that are disjoint and complete.
func TestTracesAreQueriedInPages(t *testing.T) {
	h := open(t, nil)
	h.add(t, note(func(c *nacre.Capability) {
		c.Returns, c.Rate = nacre.Trusted, nacre.RateLimit{Calls: 100, Window: time.Minute}
	}), nil)
	begun := h.clock.now()
	for i := range 20 {
		c := call(milk)
		c.ID = fmt.Sprintf("e-%02d", 19-i) // in one instant each two, not in the order of their names
		if i%5 == 4 {
			c.Arguments = nil
		}
		_, _ = h.Call(t.Context(), c)
		h.clock.pass(time.Duration(i%2) * time.Second)
	}
	var paged []string
	for offset := 0; offset < 20; offset += 3 {
		page, err := h.QueryTraces(kernel.TraceQuery{Offset: offset, Limit: some(3)})
		if err != nil {
			t.Fatal(err)
		}
		for _, trace := range page {
			paged = append(paged, trace.ActionID)
		}
	}
	all, err := h.QueryTraces(kernel.TraceQuery{})
	var whole []string
	for _, trace := range all {
		whole = append(whole, trace.ActionID)
	}
	if err != nil || !slices.Equal(paged, whole) || len(whole) != 20 {
		t.Errorf("have %q in pages, %q whole, %v", paged, whole, err)
	}
	at := begun.Add(time.Second)
	for name, c := range map[string]struct {
		query kernel.TraceQuery
		want  int
	}{
		"since is inclusive":       {kernel.TraceQuery{Since: at}, 18},
		"until is exclusive":       {kernel.TraceQuery{Until: at}, 2},
		"an instant, both":         {kernel.TraceQuery{Since: at, Until: at}, 0},
		"failed":                   {kernel.TraceQuery{Outcome: "failed"}, 4},
		"succeeded":                {kernel.TraceQuery{Outcome: "succeeded"}, 16},
		"a reason":                 {kernel.TraceQuery{Reason: nacre.ReasonInvalidArguments}, 4},
		"a principal":              {kernel.TraceQuery{Principal: "main/s1"}, 20},
		"another principal":        {kernel.TraceQuery{Principal: "main"}, 0},
		"a capability":             {kernel.TraceQuery{Capability: "notes.note_add", Event: kernel.EventInvoke}, 16},
		"another session":          {kernel.TraceQuery{Session: "s2"}, 0},
		"a limit of zero":          {kernel.TraceQuery{Limit: some(0)}, 0},
		"an offset beyond the end": {kernel.TraceQuery{Offset: 1000}, 0},
	} {
		if have, err := h.QueryTraces(c.query); err != nil || len(have) != c.want {
			t.Errorf("%s: have %d, %v, want %d", name, len(have), err, c.want)
		}
	}
	for name, q := range map[string]kernel.TraceQuery{
		"a negative limit": {Limit: some(-1)}, "a negative offset": {Offset: -1}, "an unknown outcome": {Outcome: "ok"},
	} {
		if _, err := h.QueryTraces(q); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

// K-19: what a memory keeps never stands in a trace, however it is nested or spelled.
func TestAMemorysPayloadIsNotTraced(t *testing.T) {
	h := open(t, nil)
	schema := `{"type":"object","additionalProperties":false,"properties":{"key":{"type":"string"},"Content":{"type":"string"},
		"items":{"type":"array","items":{"type":"object","additionalProperties":false,"properties":{"value":{"type":"string"},"tag":{"type":"string"}}}}}}`
	h.add(t, note(func(c *nacre.Capability) {
		c.ID, c.Tool, c.Schema, c.Safety = "memory.write", "memory_write", json.RawMessage(schema), nacre.Read
	}), nil)
	c := call(`{"key":"k","Content":"my diary","items":[{"value":"my thoughts","tag":"x"}]}`)
	c.Tool = "memory_write"
	if _, err := h.Call(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	trace, err := h.Explain("e-1")
	const want = `{"Content":"[REDACTED]","items":[{"tag":"x","value":"[REDACTED]"}],"key":"k"}`
	if err != nil || string(trace.Arguments) != want {
		t.Errorf("have %s, %v", trace.Arguments, err)
	}
}

// K-19: the newest are kept, the first that goes is told, and all are counted.
func TestTracesAreBounded(t *testing.T) {
	h := open(t, func(c *kernel.Config) { c.Recorder, c.OutputBudget = discard{}, 1<<40 })
	h.add(t, note(func(c *nacre.Capability) {
		c.Returns, c.Rate = nacre.Trusted, nacre.RateLimit{Calls: 60_000, Window: time.Minute}
	}), nil)
	for i := range kernel.MaxTraces + 3 {
		c := call(milk)
		c.ID = fmt.Sprint("e-", i)
		if _, err := h.Call(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	all, err := h.QueryTraces(kernel.TraceQuery{})
	if err != nil || len(all) != kernel.MaxTraces || h.EvictedTraces() != 3 || len(h.Warnings()) != 1 {
		t.Errorf("have %d, %v, %d evicted, warned %q", len(all), err, h.EvictedTraces(), h.Warnings())
	}
	if _, err := h.Explain("e-2"); err == nil {
		t.Error("the third is still there")
	}
	if _, err := h.Explain("e-3"); err != nil {
		t.Error(err)
	}
}

// K-22: a hook sees a result before it is redacted; one that fails refuses it.
func TestAResultHookThatFailsRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		hook kernel.ResultHook
		want string
	}{
		"one that changes": {func(_ context.Context, _ nacre.Invocation, raw json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(strings.ReplaceAll(string(raw), "milk", "cheese")), nil
		}, `{"text":"cheese","password":"[REDACTED]"}`},
		"one that fails": {func(context.Context, nacre.Invocation, json.RawMessage) (json.RawMessage, error) {
			return nil, errors.New("no")
		}, ""},
		"one that panics": {func(context.Context, nacre.Invocation, json.RawMessage) (json.RawMessage, error) { panic("hook") }, ""},
		"one that returns rot": {func(context.Context, nacre.Invocation, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`{`), nil
		}, ""},
		"one that is too large": {func(context.Context, nacre.Invocation, json.RawMessage) (json.RawMessage, error) {
			return make([]byte, kernel.MaxResult+1), nil
		}, ""},
	} {
		h := open(t, func(k *kernel.Config) { k.ResultHooks = []kernel.ResultHook{c.hook} })
		h.add(t, note(nil), func(context.Context, nacre.Invocation) (json.RawMessage, error) {
			return json.RawMessage(`{"text":"milk","password":"hunter2hunter2"}`), nil
		})
		outcome, err := h.Call(t.Context(), call(milk))
		if string(outcome.Result) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: have %s, %v", name, outcome.Result, err)
		}
		if have := h.chain.told(); c.want == "" && !strings.Contains(have, "call.end/error/") {
			t.Errorf("%s: recorded %s", name, have)
		}
	}
}

// K-23: the nine counters, and back to zero.
func TestTheNineCounters(t *testing.T) {
	h := open(t, func(c *kernel.Config) { c.OutputBudget = 1000 })
	h.add(t, reading(nil), func(context.Context, nacre.Invocation) (json.RawMessage, error) { return nil, errors.New("down") })
	err := h.AddRoute("notes.note_read", "second", nacre.DriverFunc(func(context.Context, nacre.Invocation) (json.RawMessage, error) { return invoices(100), nil }))
	if err != nil {
		t.Fatal(err)
	}
	h.add(t, note(nil), func(context.Context, nacre.Invocation) (json.RawMessage, error) { return nil, errors.New("down") })
	grant := h.grant(t, kernel.GrantRequest{Capability: "notes.note_read"})
	frame, err := h.Invoke(t.Context(), grant, writer, kernel.Input{Arguments: with.Arguments, Mode: nacre.ModeHandleOnly})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Expand(t.Context(), frame.Handle.ID, nacre.Query{Limit: some(50)}, writer); err != nil {
		t.Fatal(err)
	}
	_, _ = h.Call(t.Context(), call(milk))
	if _, err := h.Invoke(t.Context(), grant, writer, kernel.Input{Arguments: with.Arguments, Mode: nacre.ModeRaw}); err != nil && refusal(t, err).Reason != nacre.ReasonBudgetExhausted {
		t.Fatal(err)
	}
	_, _ = h.Call(t.Context(), call(`{}`))
	s := h.Stats()
	if s.Grants != 1 || s.Invocations < 2 || s.InvocationFailures != 1 || s.Fallbacks < 1 || s.HandleStores < 1 || s.Expansions != 1 ||
		s.Denials[nacre.ReasonInvalidArguments] != 1 || s.Redactions < 0 {
		t.Errorf("have %+v", s)
	}
	s.Denials["mine"] = 1 // a copy
	if h.Stats().Denials["mine"] != 0 {
		t.Error("a caller changed the counters")
	}
	h.ResetStats()
	if s := h.Stats(); s.Grants != 0 || s.Invocations != 0 || len(s.Denials) != 0 {
		t.Errorf("after a reset: %+v", s)
	}
}

// K-06: what is recorded of a request is what another policy is held against.
func TestARequestIsRecordedForAReplay(t *testing.T) {
	h := open(t, nil)
	h.add(t, note(func(c *nacre.Capability) { c.Sinks = []string{"text"}; c.AllowedFields = []string{"id"} }), nil)
	c := call(`{"text":"p\"ässword=hunter2hunter2","count":3}`)
	c.Principal.Attributes = map[string]string{"tenant": "a", "b<c": "d"}
	c.Principal.Scope = map[string]string{"project": "x"}
	c.Principal.Intent, c.Principal.Channel, c.Principal.Justification = "tidy", "terminal", "because"
	if _, err := h.Call(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	begin := h.chain.all()[0]
	var detail struct {
		Request   policy.Recorded `json:"request"`
		Principal string          `json:"principal"`
		Arguments struct {
			Bytes  int
			SHA256 string
		} `json:"arguments"`
	}
	if err := json.Unmarshal(begin.Detail, &detail); err != nil {
		t.Fatalf("%v: %s", err, begin.Detail)
	}
	r := detail.Request
	if r.Tool != "note_add" || r.Safety != nacre.Write || r.Sensitivity != nacre.SensitiveNone || r.Justification != 7 || r.Intent != "tidy" ||
		r.Channel != "terminal" || r.Scope["project"] != "x" || len(r.Attributes) != 2 || len(r.Arguments) != 3 || !slices.Equal(r.Roles, []string{"writer"}) ||
		r.Provenance["text"] != nacre.SeenNowhere || !slices.Equal(r.AllowedFields, []string{"id"}) {
		t.Errorf("have %+v\nof %s", r, begin.Detail)
	}
	if strings.Contains(string(begin.Detail), "hunter2") || detail.Arguments.Bytes == 0 || len(detail.Arguments.SHA256) != 64 {
		t.Errorf("have %s", begin.Detail)
	}
}
