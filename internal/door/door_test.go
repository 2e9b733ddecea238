package door_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/door"
	"github.com/nacre-dev/nacre/internal/message"
	"github.com/nacre-dev/nacre/internal/wire"
)

// D-05: the response is built by the core, around a result that is untouched (D-10).
func TestResponse(t *testing.T) {
	c := dial(t, serve(t, crew(), config{}))
	e, refusal := ask(t, c, request("cases", "req-789"))
	if refusal != nil {
		t.Fatal(refusal)
	}
	want := `{"id":"id-2","version":1,"type":"response","topic":"tool.invoke.cases","source":"reminders","correlation":"req-789",` +
		`"timestamp":"2026-02-17T10:30:00.000Z","group":"family-chat","payload":{"result":{"ETag":1, "etag":12345678901234567890.0},"error":null}}`
	if have := string(e.Append(nil)); have != want {
		t.Errorf("have %s, want %s", have, want)
	}
}

// What the kernel is told comes from the session, but for what the agent owns.
func TestCallCarriesTheSessionsPrincipal(t *testing.T) {
	var have nacre.Call
	k := kernel{"echo": func(_ context.Context, call nacre.Call) (json.RawMessage, error) {
		have = call
		return call.Arguments, nil
	}}
	c := dial(t, serve(t, k, config{}))
	_, _ = ask(t, c, `{"topic":"tool.invoke.echo","correlation":"c","arguments":{"group":"admin"},"justification":"j","mode":"m","dry_run":true}`)
	if have.Principal.Group != "family-chat" || have.Principal.Session != "s-1" || have.ID == "" || have.Correlation != "c" {
		t.Errorf("have %+v, want the session's own", have)
	}
	if want := (nacre.Hints{Justification: "j", Mode: "m", DryRun: true}); have.Hints != want || string(have.Arguments) != `{"group":"admin"}` {
		t.Errorf("have %+v and %s, want what the agent said", have.Hints, have.Arguments)
	}
}

// D-06, D-14: what reaches the agent of each way to fail, and from whom.
func TestErrors(t *testing.T) {
	c := dial(t, serve(t, crew(), config{}))
	tests := []struct {
		tool, source string
		want         nacre.Refusal
	}{
		{"missing", "core", nacre.Refusal{Code: nacre.CodeUnknownTool, Stage: 2}},
		{"Echo", "core", nacre.Refusal{Code: nacre.CodeUnknownTool, Stage: 2}},
		{"refused", "reminders", nacre.Refusal{Code: nacre.CodeHandlerError, Retriable: true}},
		{"limited", "core", nacre.Refusal{Code: nacre.CodeRateLimited, Retriable: true, Stage: 4, RetryAfter: 12}},
		{"invented", "core", nacre.Refusal{Code: nacre.CodePluginError}},
		{"broken", "core", nacre.Refusal{Code: nacre.CodePluginError}},
		{"panics", "core", nacre.Refusal{Code: nacre.CodePluginError}},
		{"nothing", "core", nacre.Refusal{Code: nacre.CodePluginError}},
		{"notjson", "core", nacre.Refusal{Code: nacre.CodePluginError}},
		{"large", "reminders", nacre.Refusal{Code: nacre.CodeHandlerError}},
	}
	for _, test := range tests {
		t.Run(test.tool, func(t *testing.T) {
			e, have := ask(t, c, request(test.tool, "c-"+test.tool))
			if have == nil {
				t.Fatalf("have %s, want an error", e.Payload)
			}
			if strings.Contains(have.Message, "internal:") || strings.Contains(have.Message, "internals") || strings.Contains(have.Message, secret) {
				t.Errorf("have %q, want no detail and no secret", have.Message)
			}
			if have.Message == "" || e.Group != "family-chat" || e.Source != test.source || string(e.Correlation) != "c-"+test.tool {
				t.Errorf("have %+v, want it from %s", e, test.source)
			}
			have.Message = ""
			if *have != test.want {
				t.Errorf("have %+v, want %+v", have, test.want)
			}
		})
	}
}

// D-02: a bad message gets a structured error, and the next good one its answer.
func TestBadMessages(t *testing.T) {
	s := serve(t, crew(), config{})
	c := dial(t, s)
	tests := []struct{ name, message, field, correlation string }{
		{"null", `null`, "", ""},
		{"an array", `[{}]`, "", ""},
		{"nothing", ``, "", ""},
		{"bad UTF-8", "{\"topic\":\"\xff\"}", "", ""},
		{"an envelope of its own", `{"group":"admin","topic":"tool.invoke.echo","correlation":"c","arguments":{}}`, "group", "c"},
		{"a duplicate key", `{"topic":"tool.invoke.echo","correlation":"c","arguments":{"role":1,"Role":2}}`, "", "c"},
		{"a prototype key is a key", `{"__proto__":{},"topic":"tool.invoke.echo","correlation":"c","arguments":{}}`, "__proto__", "c"},
		{"depth 65", `{"topic":"tool.invoke.echo","correlation":"c","arguments":{"a":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}}`, "", "c"},
		{"a string over 100 KiB", `{"topic":"tool.invoke.echo","correlation":"c","arguments":{"a":"` + strings.Repeat("x", 100<<10+1) + `"}}`, "", "c"},
		{"a field of the envelope", `{"topic":"tool.invoke.echo","correlation":"c","arguments":{},"id":"i"}`, "id", "c"},
		{"a version", `{"version":1,"topic":"tool.invoke.echo","correlation":"c","arguments":{}}`, "version", "c"},
		{"a payload", `{"topic":"tool.invoke.echo","correlation":"c","payload":{"arguments":{}}}`, "payload", "c"},
		{"a topic in another case", `{"Topic":"tool.invoke.echo","correlation":"c","arguments":{}}`, "Topic", "c"},
		{"a topic in both cases", `{"topic":"tool.invoke.echo","TOPIC":"tool.invoke.echo","correlation":"c","arguments":{}}`, "", ""},
		{"a topic twice by an escape", `{"topic":"tool.invoke.echo","t\u006fpic":"tool.invoke.leaks","correlation":"c","arguments":{}}`, "", ""},
		{"a hint that is no text", `{"topic":"tool.invoke.echo","correlation":"c","arguments":{},"justification":{"role":"admin"}}`, "justification", "c"},
		{"a dry run that is no truth", `{"topic":"tool.invoke.echo","correlation":"c","arguments":{},"dry_run":"yes"}`, "dry_run", "c"},
		{"a mode that is null", `{"topic":"tool.invoke.echo","correlation":"c","arguments":{},"mode":null}`, "mode", "c"},
		{"a correlation that is a number", `{"topic":"tool.invoke.echo","correlation":1,"arguments":{}}`, "correlation", ""},
		{"a correlation of 129 bytes", `{"topic":"tool.invoke.echo","correlation":"` + strings.Repeat("c", 129) + `","arguments":{}}`, "correlation", ""},
		{"a correlation with a line's end", `{"topic":"tool.invoke.echo","correlation":"a\nb","arguments":{}}`, "correlation", ""},
		{"arguments that are null", `{"topic":"tool.invoke.echo","correlation":"c","arguments":null}`, "arguments", "c"},
		{"half a surrogate", `{"topic":"tool.invoke.echo","correlation":"c","arguments":{"a":"\ud800"}}`, "", "c"},
		{"a number without end", `{"topic":"tool.invoke.echo","correlation":"c","arguments":{"a":1e999999999}}`, "", "c"},
		{"NaN", `{"topic":"tool.invoke.echo","correlation":"c","arguments":{"a":NaN}}`, "", "c"},
		{"a byte-order mark", "\ufeff" + request("echo", "c"), "", ""},
		{"two messages in one", request("echo", "c") + request("echo", "d"), "", "c"},
		{"a comment", `{"topic":"tool.invoke.echo",/**/"correlation":"c","arguments":{}}`, "", ""},
		{"a string of 1 MiB", `{"topic":"tool.invoke.echo","correlation":"c","arguments":{"a":"` + strings.Repeat("x", wire.MaxMessage-80) + `"}}`, "", "c"},
		{"a depth bomb", strings.Repeat("[", wire.MaxMessage), "", ""},
		{"1 MiB and a byte", `{"topic":"` + strings.Repeat("x", wire.MaxMessage-9) + `"}`, "", ""},
		{"40 MB of arguments", `{"topic":"tool.invoke.echo","correlation":"c","arguments":{"a":"` + strings.Repeat("x", 40_000_000) + `"}}`, "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e, refusal := ask(t, c, test.message)
			if refusal == nil || refusal.Code != nacre.CodeValidationFailed || refusal.Stage != 1 || refusal.Field != test.field || refusal.Retriable {
				t.Errorf("have %+v, want VALIDATION_FAILED at stage 1 for %q", refusal, test.field)
			}
			if string(e.Correlation) != test.correlation || e.Source != "core" || e.Group != "family-chat" {
				t.Errorf("have %+v, want it to %q from the core", e, test.correlation)
			}
			if _, refusal := ask(t, c, request("echo", "next")); refusal != nil {
				t.Errorf("have %v, want the next message answered", refusal)
			}
		})
	}
	if have := len(s.records.all()); have != len(tests) {
		t.Errorf("have %d records, want one for each rejection", have)
	}
}

// D-02, D-10: what is within the limits passes as it is written.
func TestValuesPassUnchanged(t *testing.T) {
	c := dial(t, serve(t, crew(), config{}))
	for name, arguments := range map[string]string{
		"integers beyond 64 bits":  `{"a":9223372036854775808,"b":-9223372036854775809,"c":18446744073709551616,"d":123456789012345678901234567890}`,
		"floats beyond 64 bits":    `{"a":1e400,"b":-1E-400,"c":0.1000000000000000055511151231257827021181583404541015625}`,
		"zeros":                    `{"a":-0,"b":0.0,"c":-0.0e0,"d":0}`,
		"numbers in their own way": `{"a":1.50,"b":1E+2,"c":100e-2}`,
		"prototype keys":           `{"__proto__":{"admin":true},"constructor":{"prototype":{}},"toString":1,"hasOwnProperty":null}`,
		"escapes and scripts":      `{"a":"\u0000\ud83d\ude00\/é<script>&\u2028"}`,
		"an empty key":             `{"":"","a":[[],{},[{}]]}`,
		"white space":              "{ \"a\" :\t[ 1 ,2 ]\r\n}",
		"depth 63 inside":          `{"a":` + strings.Repeat("[", 62) + strings.Repeat("]", 62) + `}`,
		"a string of 100 KiB":      `{"a":"` + strings.Repeat("é", 50<<10) + `"}`,
		"the words of an envelope": `{"id":1,"group":"admin","source":"core","version":2,"result":null,"error":{"code":"X"}}`,
	} {
		e, refusal := ask(t, c, `{"topic":"tool.invoke.echo","correlation":"c","arguments":`+arguments+`}`)
		if want := `{"result":` + arguments + `,"error":null}`; refusal != nil || string(e.Payload) != want {
			t.Errorf("%s: have %.200s, %v, want %.200s", name, e.Payload, refusal, want)
		}
	}
}

// D-16: the door records what it rejects, by stage and reason, without values.
func TestRejectionsAreRecorded(t *testing.T) {
	s := serve(t, crew(), config{})
	c := dial(t, s)
	_, _ = ask(t, c, `{"`+secret+`":1,"topic":"tool.invoke.echo","correlation":"c-1","arguments":{}}`)
	_, _ = ask(t, c, request("missing", "c-2"))
	_, _ = ask(t, c, request("echo", "c-3"))
	_, _ = ask(t, c, request("refused", "c-4"))
	records := s.records.all()
	if len(records) != 3 {
		t.Fatalf("have %+v, want the two rejections and what was sanitized", records)
	}
	for i, want := range []nacre.Record{
		{Kind: nacre.KindCallReject, Stage: 1, Correlation: "c-1", Topic: "tool.invoke.echo", Outcome: "rejected", Reason: "malformed_request", Source: "s-1"},
		{Kind: nacre.KindCallReject, Stage: 2, Correlation: "c-2", Topic: "tool.invoke.missing", Outcome: "rejected", Reason: "unknown_tool", Source: "s-1"},
		{Kind: door.KindCallSanitize, Stage: 6, Correlation: "c-4", Topic: "tool.invoke.refused", Outcome: "sanitized", Reason: "credentials", Source: "reminders"},
	} {
		have := records[i]
		if strings.Contains(string(have.Detail), secret) || !json.Valid(have.Detail) {
			t.Errorf("have detail %s, want JSON without the secret", have.Detail)
		}
		want.Time, want.Group, want.Session, want.Detail = have.Time, "family-chat", "s-1", have.Detail
		if fmt.Sprint(have) != fmt.Sprint(want) {
			t.Errorf("have %+v, want %+v", have, want)
		}
	}
}

// An agent that does nothing but err cannot fill its audit.
func TestRepeatedRejectionsAreAggregated(t *testing.T) {
	s := serve(t, crew(), config{})
	c := dial(t, s)
	const sent = 1000
	for range sent {
		_, _ = ask(t, c, `null`)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	records := s.records.all()
	if len(records) > 200 {
		t.Errorf("have %d records of %d rejections", len(records), sent)
	}
	last := records[len(records)-1]
	if want := fmt.Sprintf(`{"omitted_before":%d}`, sent-(len(records)-1)); string(last.Detail) != want {
		t.Errorf("have %s at the end, want %s", last.Detail, want)
	}
}

// D-16: what only refuses is counted, a secret in the refusal or not; what was
// carried out has its record each time.
func TestSanitizedRefusalsAreAggregated(t *testing.T) {
	k := crew()
	k["picky"] = func(context.Context, nacre.Call) (json.RawMessage, error) {
		return nil, &nacre.Refusal{Code: nacre.CodeValidationFailed, Stage: 3, Field: secret, Message: "not allowed"}
	}
	s := serve(t, k, config{})
	c := dial(t, s)
	const sent = 300
	for i := range sent {
		_, _ = ask(t, c, request("picky", fmt.Sprint(i)))
	}
	if have := len(s.records.all()); have > 130 {
		t.Errorf("have %d records of %d refusals", have, sent)
	}
	before := len(s.records.all())
	for i := range sent {
		_, _ = ask(t, c, request("leaks", fmt.Sprint(i)))
	}
	if have := len(s.records.all()) - before; have != sent {
		t.Errorf("have %d records of %d results that leaked", have, sent)
	}
}

// D-16: every crossing has its record with stage, outcome and reason, where the
// kernel or the redaction fails too.
func TestEveryReplacedAnswerIsRecorded(t *testing.T) {
	s := serve(t, crew(), config{redact: func(document []byte) ([]byte, []string) {
		if strings.Contains(string(document), "password") {
			return []byte("{"), []string{"password"}
		}
		return document, nil
	}})
	c := dial(t, s)
	for _, tool := range []string{"large", "notjson", "nothing", "panics", "leaks"} {
		_, _ = ask(t, c, request(tool, tool))
	}
	have := map[string]bool{}
	for _, r := range s.records.all() {
		if r.Stage == 0 || r.Outcome == "" || r.Reason == "" || !json.Valid(r.Detail) {
			t.Errorf("have %+v, want stage, outcome, reason and detail", r)
		}
		have[string(r.Correlation)+" "+r.Reason] = true
	}
	for _, want := range []string{"large result_too_large", "notjson result_not_json", "nothing result_not_json", "panics panic", "leaks redaction_broke_payload"} {
		if !have[want] {
			t.Errorf("have %v, want %q", have, want)
		}
	}
}

// D-15: a response that needed sanitizing is forwarded without the secret, and
// not at all where that cannot be recorded.
func TestSanitize(t *testing.T) {
	s := serve(t, crew(), config{})
	e, refusal := ask(t, dial(t, s), request("leaks", "c"))
	if refusal != nil || string(e.Payload) != `{"result":{"password":"[redacted]"},"error":null}` {
		t.Errorf("have %s, %v", e.Payload, refusal)
	}
	broken := serve(t, crew(), config{records: &recorder{err: os.ErrClosed}})
	if _, refusal := ask(t, dial(t, broken), request("leaks", "c")); refusal == nil || refusal.Code != nacre.CodePluginError {
		t.Errorf("have %v, want nothing forwarded unrecorded", refusal)
	}
	if err := broken.close(); err == nil {
		t.Error("have no error of Serve, want the recorder's")
	}
}

func TestRedactionThatBreaksThePayloadForwardsNothing(t *testing.T) {
	for name, to := range map[string]string{"no JSON": `{"result":`, "another payload": `{"result":1,"error":null,"x":1}`, "nothing": ``} {
		s := serve(t, crew(), config{redact: func(document []byte) ([]byte, []string) {
			if strings.Contains(string(document), "password") {
				return []byte(to), nil
			}
			return document, nil
		}})
		if _, refusal := ask(t, dial(t, s), request("leaks", "c")); refusal == nil || refusal.Code != nacre.CodePluginError {
			t.Errorf("%s: have %v, want PLUGIN_ERROR", name, refusal)
		}
	}
}

func TestPanicInRedactionIsAnswered(t *testing.T) {
	s := serve(t, crew(), config{redact: func(document []byte) ([]byte, []string) {
		if strings.Contains(string(document), "password") {
			panic("redaction")
		}
		return document, nil
	}})
	c := dial(t, s)
	for range 100 { // more than there are places in flight
		if _, refusal := ask(t, c, request("leaks", "c")); refusal == nil || refusal.Code != nacre.CodePluginError {
			t.Fatalf("have %v, want PLUGIN_ERROR", refusal)
		}
	}
}

func TestAResultAtTheLimitIsForwardedWhole(t *testing.T) {
	e, refusal := ask(t, dial(t, serve(t, crew(), config{})), request("whole", "c"))
	if refusal != nil || len(e.Payload) != wire.MaxMessage+len(`{"result":,"error":null}`) {
		t.Errorf("have %d bytes, %v, want 1 MiB", len(e.Payload), refusal)
	}
}

// D-07: a client that asked for events is told that a person is asked, once and
// before the answer; never after it.
func TestPendingEvent(t *testing.T) {
	var late func(time.Time)
	answer := make(chan struct{})
	expires := time.Date(2026, 2, 17, 10, 35, 0, 1, time.UTC)
	k := kernel{"ask": func(_ context.Context, call nacre.Call) (json.RawMessage, error) {
		late = call.OnAsk
		call.OnAsk(expires)
		<-answer
		return call.Arguments, nil
	}, "echo": echo}
	c := dial(t, serve(t, k, config{}))
	e, _ := ask(t, c, request("ask", "c"))
	if e.Type != message.TypeEvent || e.Topic != message.TopicPending || e.Correlation != "c" || string(e.Payload) != `{"expires":"2026-02-17T10:35:00Z","seconds":301}` {
		t.Errorf("have %+v, want the event", e)
	}
	close(answer)
	if e, refusal := receive(t, c); e.Type != message.TypeResponse || refusal != nil {
		t.Errorf("have %+v, want the response", e)
	}
	late(expires)
	if e, _ := ask(t, c, request("echo", "next")); e.Correlation != "next" {
		t.Errorf("have %+v, want no event after the response", e)
	}
}

func TestServeRefuses(t *testing.T) {
	good := door.Session{ID: "s", Group: "g", PeerUID: []uint32{0}, Principal: nacre.Principal{Session: "s", Group: "g"}}
	deps := door.Deps{Recorder: &recorder{}, Now: time.Now, NewID: func() string { return "" }, Redact: redact, Sanitize: redact}
	for name, change := range map[string]func(*door.Session, *door.Deps){
		"no id":                    func(s *door.Session, _ *door.Deps) { s.ID = "" },
		"another session's caller": func(s *door.Session, _ *door.Deps) { s.Principal.Session = "t" },
		"another group's caller":   func(s *door.Session, _ *door.Deps) { s.Principal.Group = "h" },
		"nobody who may connect":   func(s *door.Session, _ *door.Deps) { s.PeerUID = nil },
		"no recorder":              func(_ *door.Session, d *door.Deps) { d.Recorder = nil },
		"no redaction":             func(_ *door.Session, d *door.Deps) { d.Redact = nil },
		"no clock":                 func(_ *door.Session, d *door.Deps) { d.Now = nil },
		"no ids":                   func(_ *door.Session, d *door.Deps) { d.NewID = nil },
	} {
		s, d := good, deps
		change(&s, &d)
		ln, path := listen(t)
		if err := door.Serve(context.Background(), ln, s, crew(), d); err == nil {
			t.Errorf("%s: have no error", name)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: the listener is still there", name)
		}
	}
}

// A listener that ends without being told to is an error.
func TestServeTellsThatTheListenerIsGone(t *testing.T) {
	ln, _ := listen(t)
	_ = ln.Close() // the point of the test
	s := door.Session{ID: "s", Group: "g", PeerUID: []uint32{0}, Principal: nacre.Principal{Session: "s", Group: "g"}}
	deps := door.Deps{Recorder: &recorder{}, Now: time.Now, NewID: func() string { return "" }, Redact: redact, Sanitize: redact}
	if err := door.Serve(context.Background(), ln, s, crew(), deps); err == nil {
		t.Error("have no error")
	}
}
