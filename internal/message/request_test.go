package message_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/corpus"
	"github.com/nacre-dev/nacre/internal/message"
	"github.com/nacre-dev/nacre/internal/wire"
)

// D-02: every request that is not exactly one is refused at stage 1, by the name of its field.
func TestParseRequestRefuses(t *testing.T) {
	tests := []struct{ name, in, field, correlation string }{
		{"null", `null`, "", ""},
		{"an array", `[]`, "", ""},
		{"a string", `"x"`, "", ""},
		{"nothing", ``, "", ""},
		{"an empty object", `{}`, "topic", ""},
		{"no correlation", `{"topic":"tool.invoke.x","arguments":{}}`, "correlation", ""},
		{"no arguments", `{"topic":"tool.invoke.x","correlation":"c"}`, "arguments", "c"},
		{"arguments that are null", `{"topic":"t","correlation":"c","arguments":null}`, "arguments", "c"},
		{"arguments that are an array", `{"topic":"t","correlation":"c","arguments":[]}`, "arguments", "c"},
		{"a key of an envelope", `{"group":"admin","topic":"t","correlation":"c","arguments":{}}`, "group", "c"},
		{"a key in another case", `{"Topic":"t","correlation":"c","arguments":{}}`, "Topic", "c"},
		{"an escaped unknown key", `{"\u0067roup":"g","topic":"t","correlation":"c","arguments":{}}`, "group", "c"},
		{"a topic that is a number", `{"topic":1,"correlation":"c","arguments":{}}`, "topic", "c"},
		{"an empty topic", `{"topic":"","correlation":"c","arguments":{}}`, "topic", "c"},
		{"a topic with a line break", `{"topic":"a\nb","correlation":"c","arguments":{}}`, "topic", "c"},
		{"a topic of 129 bytes", `{"topic":"` + strings.Repeat("t", 129) + `","correlation":"c","arguments":{}}`, "topic", "c"},
		{"a correlation that is null", `{"topic":"t","correlation":null,"arguments":{}}`, "correlation", ""},
		{"a correlation of 129 bytes", `{"topic":"t","correlation":"` + strings.Repeat("c", 129) + `","arguments":{}}`, "correlation", ""},
		{"a mode that is a number", `{"topic":"t","correlation":"c","arguments":{},"mode":1}`, "mode", "c"},
		{"a dry_run that is a string", `{"topic":"t","correlation":"c","arguments":{},"dry_run":"true"}`, "dry_run", "c"},
		{"a duplicate deep inside keeps the correlation", `{"topic":"t","correlation":"c","arguments":{"a":1,"A":2}}`, "", "c"},
		{"two correlations", `{"correlation":"c","correlation":"d"}`, "", "c"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r, err := message.ParseRequest([]byte(test.in))
			var refusal *nacre.Refusal
			if !errors.As(err, &refusal) {
				t.Fatalf("have %v, want a refusal", err)
			}
			if refusal.Code != nacre.CodeValidationFailed || refusal.Stage != 1 || refusal.Field != test.field || refusal.Retriable {
				t.Errorf("have %+v, want VALIDATION_FAILED at stage 1 for %q", refusal, test.field)
			}
			if string(r.Correlation) != test.correlation {
				t.Errorf("have correlation %q, want %q", r.Correlation, test.correlation)
			}
		})
	}
}

func TestLongKeysAreShortenedInRefusals(t *testing.T) {
	in := `{"` + strings.Repeat("k", 90<<10) + `":1}`
	_, err := message.ParseRequest([]byte(in))
	if refusal := new(nacre.Refusal); !errors.As(err, &refusal) || len(refusal.Field) > 100 || len(refusal.Message) > 300 {
		t.Errorf("have %v with a field of %d and a message of %d bytes, want a refusal with both short", err, len(refusal.Field), len(refusal.Message))
	}
}

func TestRequestSurvivesTheWire(t *testing.T) {
	want := message.Request{
		Topic: "tool.invoke.x", Correlation: "c-1", Arguments: json.RawMessage(`{"n":12345678901234567890.50}`),
		Hints: nacre.Hints{Justification: "because \"I\"\n must", Mode: "summary", DryRun: true},
	}
	have, err := message.ParseRequest(want.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	if have.Topic != want.Topic || have.Correlation != want.Correlation || have.Hints != want.Hints || string(have.Arguments) != string(want.Arguments) {
		t.Errorf("have %+v, want %+v", have, want)
	}
}

// D-05: the envelope has nine fields, in the seed's order, whatever is in them.
func TestEnvelope(t *testing.T) {
	at := time.Date(2026, 2, 17, 11, 30, 0, 5e6, time.FixedZone("", 3600))
	e := message.Envelope{
		ID: "i", Version: 1, Type: message.TypeResponse, Topic: "tool.invoke.x", Source: "core",
		Timestamp: at, Group: "family-chat", Payload: json.RawMessage(`{"result":{"a":1,"A":2},"error":null}`),
	}
	want := `{"id":"i","version":1,"type":"response","topic":"tool.invoke.x","source":"core","correlation":null,` +
		`"timestamp":"2026-02-17T10:30:00.005Z","group":"family-chat","payload":{"result":{"a":1,"A":2},"error":null}}`
	data := e.Append(nil)
	if string(data) != want {
		t.Errorf("have %s, want %s", data, want)
	}
	back, err := message.ParseEnvelope(data)
	if err != nil || back.Group != "family-chat" || back.Correlation != "" || !back.Timestamp.Equal(at) {
		t.Errorf("have %+v, %v, want the same back", back, err)
	}
	for name, broken := range map[string]string{
		"another version":  strings.Replace(want, `"version":1`, `"version":2`, 1),
		"another type":     strings.Replace(want, `"response"`, `"command"`, 1),
		"a missing field":  strings.Replace(want, `"id":"i",`, ``, 1),
		"an unknown field": strings.Replace(want, `{"id"`, `{"x":1,"id"`, 1),
		"a null id":        strings.Replace(want, `"id":"i"`, `"id":null`, 1),
		"no payload":       strings.Replace(want, `{"result":{"a":1,"A":2},"error":null}`, `null`, 1),
		"a bad time":       strings.Replace(want, `2026-02-17T`, `2026-02-17`, 1),
	} {
		if _, err := message.ParseEnvelope([]byte(broken)); err == nil {
			t.Errorf("%s: have it accepted", name)
		}
	}
}

// A result at the depth limit still fits the envelope around it.
func TestEnvelopeHoldsTheDeepestResult(t *testing.T) {
	result := strings.Repeat("[", wire.MaxDepth) + strings.Repeat("]", wire.MaxDepth)
	e := message.Envelope{Version: 1, Type: message.TypeResponse, Payload: message.AppendResult(nil, json.RawMessage(result))}
	back, err := message.ParseEnvelope(e.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	if have, _, err := message.Payload(back.Payload); err != nil || string(have) != result {
		t.Errorf("have %s, %v, want the result back", have, err)
	}
}

// D-06: the error object as the seed writes it.
func TestAppendError(t *testing.T) {
	tests := []struct {
		refusal nacre.Refusal
		want    string
	}{
		{nacre.Refusal{Code: nacre.CodeValidationFailed, Message: `additionalProperties "priority" not allowed`, Stage: 3, Field: "priority"},
			`{"code":"VALIDATION_FAILED","message":"additionalProperties \"priority\" not allowed","retriable":false,"stage":3,"field":"priority"}`},
		{nacre.Refusal{Code: nacre.CodeRateLimited, Message: "m", Retriable: true, Stage: 4, RetryAfter: 12, Reason: "hidden", Original: "hidden"},
			`{"code":"RATE_LIMITED","message":"m","retriable":true,"stage":4,"retry_after":12}`},
		{nacre.Refusal{Code: nacre.CodeHandlerError, Message: "503\x00\xff", Retriable: true},
			`{"code":"HANDLER_ERROR","message":"503\u0000` + "\ufffd" + `","retriable":true}`},
	}
	for _, test := range tests {
		payload := message.AppendError(nil, &test.refusal)
		if want := `{"result":null,"error":` + test.want + `}`; string(payload) != want {
			t.Errorf("have %s, want %s", payload, want)
		}
		if result, failure, err := message.Payload(payload); err != nil || result != nil || string(failure) != test.want {
			t.Errorf("have %s, %s, %v, want the error back", result, failure, err)
		}
	}
}

func TestPayloadRefuses(t *testing.T) {
	for _, in := range []string{`{}`, `{"result":1}`, `{"result":1,"error":null,"x":1}`, `[]`, `{"result":1,"Error":null}`} {
		if _, _, err := message.Payload([]byte(in)); err == nil {
			t.Errorf("%s: have it accepted", in)
		}
	}
}

// FuzzParseRequest looks for anything but a request or a refusal of stage 1.
func FuzzParseRequest(f *testing.F) {
	for _, seed := range []string{
		`{"topic":"tool.invoke.x","correlation":"c","arguments":{},"justification":"j","mode":"m","dry_run":false}`,
		`{"topic":"x"}`, `null`, `[{}]`, `{"arguments":{"a":{"b":1,"B":2}}}`, "{\"topic\":\"\xff\"}",
	} {
		corpus.Add(f, []byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := message.ParseRequest(data)
		if err != nil {
			refusal, ok := errors.AsType[*nacre.Refusal](err)
			if !ok || refusal.Stage != 1 || refusal.Code != nacre.CodeValidationFailed || len(refusal.Message) > 1024 {
				t.Fatalf("have %v, want a short refusal of stage 1", err)
			}
			if !json.Valid(message.AppendError(nil, refusal)) {
				t.Fatalf("the refusal of %q is not JSON", data)
			}
			return
		}
		back, err := message.ParseRequest(r.Append(nil))
		if err != nil || back.Topic != r.Topic || back.Correlation != r.Correlation || back.Hints != r.Hints {
			t.Fatalf("have %+v, %v, want %+v", back, err, r)
		}
	})
}
