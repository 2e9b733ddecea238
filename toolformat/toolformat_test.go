package toolformat_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/corpus"
	"github.com/nacre-dev/nacre/toolformat"
)

var providers = map[string][]toolformat.Provider{
	"openai":    {toolformat.OpenAIResponses, toolformat.OpenAIChat},
	"anthropic": {toolformat.Anthropic},
	"mcp":       {toolformat.MCP},
}

const nothing = `{"type":"object","additionalProperties":false}`

func capability(id string) nacre.Capability {
	return nacre.Capability{ID: nacre.CapabilityID(id), Tool: nacre.ToolName(strings.ReplaceAll(id, ".", "_")), Description: "Does it.",
		Safety: nacre.Read, Sensitivity: nacre.SensitiveNone, Schema: json.RawMessage(nothing)}
}

func format(t testing.TB, p toolformat.Provider, ids ...string) *toolformat.Format {
	t.Helper()
	var all []nacre.Capability
	for _, id := range ids {
		all = append(all, capability(id))
	}
	f, err := toolformat.New(p, all, toolformat.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestNames(t *testing.T) { // K-22
	for _, c := range []struct {
		id, want string
		mcp      string
	}{
		{"billing.list_invoices", "billing__list_invoices", "billing.list_invoices"},
		{"a.b.c", "a__b__c", "a.b.c"},
		{"list", "list", "list"},
		{"a._b", "a___b", "a._b"},
		{"a_.b", "", "a_.b"}, // would be the name of a._b
		{"a__b", "", ""},
		{"", "", ""},
		{"a b", "", ""},
		{"é.b", "", ""},
		{"a.b\n", "", ""},
		{strings.Repeat("x", 61) + ".a", strings.Repeat("x", 61) + "__a", strings.Repeat("x", 61) + ".a"},
		{strings.Repeat("x", 62) + ".a", "", strings.Repeat("x", 62) + ".a"},
		{strings.Repeat("x", 129), "", ""},
	} {
		for _, p := range []toolformat.Provider{toolformat.OpenAIResponses, toolformat.OpenAIChat, toolformat.Anthropic, toolformat.MCP} {
			want := c.want
			if p == toolformat.MCP {
				want = c.mcp
			}
			if have, err := p.Name(nacre.CapabilityID(c.id)); have != want || (err == nil) != (want != "") {
				t.Errorf("%d: %q: have %q, %v; want %q", p, c.id, have, err, want)
			}
		}
	}
	if _, err := toolformat.Provider(0).Name("a.b"); err == nil {
		t.Error("nobody's provider has names")
	}
}

func TestSetsThatAreRefused(t *testing.T) { // K-22
	odd := capability("a.b")
	odd.Schema = json.RawMessage(`{"properties":{"_justification":{}}}`)
	none := capability("a.b")
	none.Schema = nil
	for name, all := range map[string][]nacre.Capability{
		"one capability twice":           {capability("a.b"), capability("a.b")},
		"names that would collide":       {capability("a._b"), capability("a_.b")},
		"an argument that is the hook's": {odd},
		"no schema":                      {none},
		"a name too long":                {capability("a." + strings.Repeat("b", 64))},
	} {
		if _, err := toolformat.New(toolformat.Anthropic, all, toolformat.Options{}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := toolformat.New(0, nil, toolformat.Options{}); err == nil {
		t.Error("nobody's provider was accepted")
	}
}

func TestDefinitions(t *testing.T) { // K-22
	pii := capability("crm.find")
	pii.Sensitivity, pii.Description = nacre.SensitivePII, "Finds <people> & firms."
	all := []nacre.Capability{capability("a.b"), pii}
	const plain, suffixed = `"description":"Does it. [safety=READ]"`, `"description":"Finds <people> & firms. [safety=READ] [sensitivity=PII]"`
	for _, c := range []struct {
		provider toolformat.Provider
		options  toolformat.Options
		want     string
	}{
		{toolformat.OpenAIResponses, toolformat.Options{CacheControl: true}, `[{` + plain + `,"name":"a__b","parameters":` + nothing + `,"type":"function"},{` + suffixed + `,"name":"crm__find","parameters":` + nothing + `,"type":"function"}]`},
		{toolformat.OpenAIChat, toolformat.Options{}, `[{"function":{` + plain + `,"name":"a__b","parameters":` + nothing + `},"type":"function"},{"function":{` + suffixed + `,"name":"crm__find","parameters":` + nothing + `},"type":"function"}]`},
		{toolformat.Anthropic, toolformat.Options{}, `[{` + plain + `,"input_schema":` + nothing + `,"name":"a__b"},{` + suffixed + `,"input_schema":` + nothing + `,"name":"crm__find"}]`},
		{toolformat.Anthropic, toolformat.Options{CacheControl: true}, `[{` + plain + `,"input_schema":` + nothing + `,"name":"a__b"},{"cache_control":{"type":"ephemeral"},` + suffixed + `,"input_schema":` + nothing + `,"name":"crm__find"}]`},
		{toolformat.MCP, toolformat.Options{}, `[{"annotations":{"destructiveHint":false,"readOnlyHint":true},` + plain + `,"inputSchema":` + nothing + `,"name":"a.b"},{"annotations":{"destructiveHint":false,"readOnlyHint":true},` + suffixed + `,"inputSchema":` + nothing + `,"name":"crm.find"}]`},
	} {
		f, err := toolformat.New(c.provider, all, c.options)
		if err != nil {
			t.Fatal(err)
		}
		if have, err := f.Definitions(); string(have) != c.want || err != nil {
			t.Errorf("%d:\nhave %s, %v\nwant %s", c.provider, have, err, c.want)
		}
	}
}

func TestCalls(t *testing.T) { // K-22
	raw, err := os.ReadFile("testdata/calls.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name, Provider, Capability, ID, Why string
		In, Args                            json.RawMessage
		Error, Skipped                      bool
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			for _, p := range providers[c.Provider] {
				calls, err := format(t, p).Parse(c.In)
				if err != nil {
					t.Fatal(err)
				}
				if c.Skipped != (len(calls) == 0) {
					t.Fatalf("have %+v", calls)
				}
				if c.Skipped {
					continue
				}
				have := calls[0]
				if (have.Err != nil) != c.Error || string(have.Capability) != c.Capability || have.ID != c.ID || have.Justification != c.Why {
					t.Errorf("have %+v", have)
				}
				if !c.Error && string(have.Arguments) != strings.ReplaceAll(string(c.Args), " ", "") {
					t.Errorf("have %s, want %s", have.Arguments, c.Args)
				}
			}
		})
	}
}

func TestWholeResponses(t *testing.T) { // K-22
	const function = `{"type":"function_call","id":"fc","call_id":"1","name":"a__b","arguments":"{}"}`
	const chat = `{"id":"1","type":"function","function":{"name":"a__b","arguments":"{}"}}`
	const use = `{"type":"tool_use","id":"1","name":"a__b","input":{}}`
	for _, c := range []struct {
		name     string
		provider toolformat.Provider
		body     string
		want     int // -1 means an error
	}{
		{"responses", toolformat.OpenAIResponses, `{"id":"r","output":[{"type":"reasoning","summary":[]},` + function + `]}`, 1},
		{"a list of items", toolformat.OpenAIResponses, ` [` + function + `]`, 1},
		{"a chat completion", toolformat.OpenAIChat, `{"choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[` + chat + `]}}]}`, 1},
		{"a chat's message", toolformat.OpenAIChat, `{"role":"assistant","tool_calls":[` + chat + `]}`, 1},
		{"a chat without calls", toolformat.OpenAIChat, `{"choices":[{"message":{"role":"assistant","content":"hi"}}]}`, 0},
		{"two choices", toolformat.OpenAIChat, `{"choices":[{"message":{}},{"message":{}}]}`, -1},
		{"no choice", toolformat.OpenAIChat, `{"choices":[]}`, -1},
		{"a choice without a message", toolformat.OpenAIChat, `{"choices":[{}]}`, -1},
		{"a message of Anthropic's", toolformat.Anthropic, `{"role":"assistant","content":[{"type":"text","text":"x"},` + use + `]}`, 1},
		{"text alone", toolformat.Anthropic, `{"role":"assistant","content":"hi"}`, 0},
		{"something in the list that is no object", toolformat.Anthropic, `[7]`, 1},
		{"nothing", toolformat.Anthropic, ``, -1},
		{"a key twice", toolformat.Anthropic, `{"content":[],"content":[` + use + `]}`, -1},
		{"a number", toolformat.Anthropic, `7`, -1},
		{"too deep", toolformat.Anthropic, strings.Repeat("[", 100) + strings.Repeat("]", 100), -1},
		{"too many", toolformat.Anthropic, `[` + strings.Repeat(use+",", toolformat.MaxCalls) + use + `]`, -1},
		{"too large", toolformat.Anthropic, `["` + strings.Repeat("x", toolformat.MaxResponse) + `"]`, -1},
	} {
		calls, err := format(t, c.provider).Parse([]byte(c.body))
		if have := len(calls); err != nil && c.want != -1 || err == nil && have != c.want {
			t.Errorf("%s: have %d calls, %v; want %d", c.name, have, err, c.want)
		}
	}
}

func TestMessages(t *testing.T) { // K-22
	result := nacre.Outcome{Result: json.RawMessage(`{"b":"é<","a":1}`), Redacted: []string{"x.y"}, Handle: &nacre.Handle{ID: "h", Rows: 7}}
	const shown = `{\"capability_id\":\"c.d\",\"handle\":{\"handle_id\":\"h\",\"total_rows\":7},\"label\":\"untrusted\",\"redacted\":[\"x.y\"],\"result\":{\"b\":\"é<\",\"a\":1}}`
	const failed = `{\"capability_id\":\"c.d\",\"error\":true,\"message\":\"Policy denied: m\"}`
	for p, want := range map[toolformat.Provider][2]string{
		toolformat.OpenAIResponses: {`{"call_id":"1","output":"` + shown + `","type":"function_call_output"}`, `{"call_id":"1","output":"` + failed + `","type":"function_call_output"}`},
		toolformat.OpenAIChat:      {`{"content":"` + shown + `","role":"tool","tool_call_id":"1"}`, `{"content":"` + failed + `","role":"tool","tool_call_id":"1"}`},
		toolformat.Anthropic:       {`{"content":[{"text":"` + shown + `","type":"text"}],"tool_use_id":"1","type":"tool_result"}`, `{"content":[{"text":"` + failed + `","type":"text"}],"is_error":true,"tool_use_id":"1","type":"tool_result"}`},
		toolformat.MCP:             {`{"id":1,"jsonrpc":"2.0","result":{"content":[{"text":"` + shown + `","type":"text"}]}}`, `{"id":1,"jsonrpc":"2.0","result":{"content":[{"text":"` + failed + `","type":"text"}],"isError":true}}`},
	} {
		f, call := format(t, p), toolformat.Call{ID: "1", Capability: "c.d"}
		if have, err := f.Outcome(call, result); string(have) != want[0] || err != nil {
			t.Errorf("%d:\nhave %s, %v\nwant %s", p, have, err, want[0])
		}
		if have, err := f.Error(call, &nacre.Refusal{Code: nacre.CodeUnauthorized, Message: "m"}); string(have) != want[1] || err != nil {
			t.Errorf("%d:\nhave %s, %v\nwant %s", p, have, err, want[1])
		}
		if _, err := f.Error(toolformat.Call{}, errors.New("x")); err == nil {
			t.Errorf("%d: a call without an id was answered", p)
		}
	}
}

func TestFrames(t *testing.T) { // K-22
	f := format(t, toolformat.OpenAIResponses)
	for want, frame := range map[string]nacre.Frame{
		`{\"action_id\":\"act\",\"capability_id\":\"c.d\",\"facts\":[],\"handle\":null,\"response_mode\":\"summary\",\"table_preview\":[],\"warnings\":[]}`:                                                    {},
		`{\"action_id\":\"act\",\"capability_id\":\"c.d\",\"facts\":[\"f\"],\"handle\":{\"handle_id\":\"h\",\"total_rows\":2},\"response_mode\":\"table\",\"table_preview\":[{\"a\":1}],\"warnings\":[\"w\"]}`: {Mode: nacre.ModeTable, Facts: []string{"f"}, Rows: []json.RawMessage{json.RawMessage(`{"a":1}`)}, Warnings: []string{"w"}, Handle: &nacre.Handle{ID: "h", Rows: 2}},
	} {
		have, err := f.Frame(toolformat.Call{ID: "1", Capability: "c.d"}, "act", frame)
		if !strings.Contains(string(have), want) || err != nil {
			t.Errorf("have %s, %v\nwant %s", have, err, want)
		}
	}
}

// caller stands for a kernel.
type caller func(c nacre.Call) (nacre.Outcome, error)

func (f caller) Call(_ context.Context, c nacre.Call) (nacre.Outcome, error) { return f(c) }

func dispatcher(t *testing.T, f caller, hooks ...toolformat.CallHook) *toolformat.Dispatcher {
	t.Helper()
	n := 0
	return &toolformat.Dispatcher{
		Format: format(t, toolformat.Anthropic, "a.b", "a.c"), Caller: f, Principal: nacre.Principal{ID: "family/s1"}, Hooks: hooks,
		NewID: func() (string, error) { n++; return fmt.Sprint("call-", n), nil },
	}
}

func use(id, name, input string) string {
	return fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":%s}`, id, name, input)
}

func TestDispatch(t *testing.T) { // K-22
	var have []nacre.Call
	d := dispatcher(t, func(c nacre.Call) (nacre.Outcome, error) {
		have = append(have, c)
		if c.Tool == "a_c" {
			return nacre.Outcome{}, fmt.Errorf("wrapped: %w", &nacre.Refusal{Code: nacre.CodeHandlerError, Message: "no such note"})
		}
		return nacre.Outcome{Result: json.RawMessage(`"done"`), Label: nacre.Trusted}, nil
	})
	body := `[` + strings.Join([]string{
		use("1", "a__b", `{"x":1,"_justification":"because"}`), use("2", "a__c", `{}`), use("3", "a__gone", `{}`), use("4", "a__b", `[]`),
		use("1", "a__b", `{}`), use("", "a__b", `{}`), use("5", "a__b", `{"principal":"admin"}`),
	}, ",") + `]`
	messages, err := d.Dispatch(context.Background(), []byte(body))
	if err == nil || !strings.Contains(err.Error(), "call 5") || !strings.Contains(err.Error(), "call 6") {
		t.Errorf("the calls that cannot be answered: %v", err)
	}
	for i, want := range []string{`"result\":\"done\"`, `Driver error: no such note`, `Capability not found: a.gone`, `Argument validation failed: `, `"result\":\"done\"`} {
		if i >= len(messages) || !strings.Contains(string(messages[i]), want) {
			t.Fatalf("message %d: have %s, want %s", i, messages, want)
		}
	}
	if len(have) != 3 || have[0].Hints.Justification != "because" || string(have[0].Arguments) != `{"x":1}` || have[0].ID != "call-1" || have[0].Correlation != "1" {
		t.Errorf("have %+v", have)
	}
	for _, c := range have {
		if c.Principal.ID != "family/s1" || c.Principal.Justification != "" {
			t.Errorf("have %+v", c.Principal)
		}
	}
}

func TestErrorsThatAreTheHostsOwn(t *testing.T) {
	d := dispatcher(t, func(nacre.Call) (nacre.Outcome, error) {
		return nacre.Outcome{}, errors.New("dial /run/secret.sock: password hunter2")
	})
	messages, err := d.Dispatch(context.Background(), []byte(use("1", "a__b", `{}`)))
	if err != nil || len(messages) != 1 || strings.Contains(string(messages[0]), "hunter2") || !strings.Contains(string(messages[0]), "Kernel error: ") {
		t.Errorf("have %s, %v", messages, err)
	}
}

func TestEveryCodeHasItsWords(t *testing.T) { // K-22
	f := format(t, toolformat.OpenAIChat)
	for code, want := range map[nacre.Code]string{
		nacre.CodeUnauthorized: "Policy denied: m", nacre.CodeRateLimited: "Policy denied: m", nacre.CodeConfirmationDenied: "Policy denied: m",
		nacre.CodeConfirmationTimeout: "Policy denied: m", nacre.CodeUnknownTool: "Capability not found: m", nacre.CodeValidationFailed: "Argument validation failed: m",
		nacre.CodePluginTimeout: "Driver error: m", nacre.CodePluginUnavailable: "Driver error: m", nacre.CodePluginError: "Driver error: m",
		nacre.CodeHandlerError: "Driver error: m", "NEW": "Kernel error: m",
	} {
		if have, err := f.Error(toolformat.Call{ID: "1"}, &nacre.Refusal{Code: code, Message: "m"}); !strings.Contains(string(have), want) || err != nil {
			t.Errorf("%s: have %s, %v", code, have, err)
		}
	}
}

func TestHooks(t *testing.T) { // K-22
	for _, c := range []struct {
		name string
		hook toolformat.CallHook
		want string // in the message
		runs bool
	}{
		{"one that changes arguments", func(_ context.Context, c nacre.Call) (nacre.Call, error) {
			c.Arguments = json.RawMessage(`{"hooked":true}`)
			return c, nil
		}, `done`, true},
		{"one that refuses", func(context.Context, nacre.Call) (nacre.Call, error) {
			return nacre.Call{}, &nacre.Refusal{Message: "not on Sundays"}
		}, "Aborted by pre-invocation hook: not on Sundays", false},
		{"one that fails", func(_ context.Context, c nacre.Call) (nacre.Call, error) { return c, errors.New("hunter2") }, "Pre-invocation hook raised: the call", false},
		{"one that panics", func(context.Context, nacre.Call) (nacre.Call, error) { panic("hunter2") }, "Pre-invocation hook raised: the call", false},
		{"one that is not there", nil, "Pre-invocation hook raised: the call", false},
		{"one that would be another", func(_ context.Context, c nacre.Call) (nacre.Call, error) {
			c.Principal.ID, c.ID, c.Arguments = "admin", "mine", json.RawMessage(`{"hooked":true}`)
			return c, nil
		}, `done`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ran := false
			d := dispatcher(t, func(call nacre.Call) (nacre.Outcome, error) {
				ran = true
				if string(call.Arguments) != `{"hooked":true}` || call.Principal.ID != "family/s1" || call.ID != "call-1" {
					t.Errorf("have %+v", call)
				}
				return nacre.Outcome{Result: json.RawMessage(`"done"`)}, nil
			}, c.hook)
			messages, err := d.Dispatch(context.Background(), []byte(use("1", "a__b", `{}`)))
			if err != nil || ran != c.runs || !strings.Contains(string(messages[0]), c.want) || strings.Contains(string(messages[0]), "hunter2") {
				t.Errorf("ran %v; have %s, %v", ran, messages, err)
			}
		})
	}
}

func TestADispatcherThatIsNotWhole(t *testing.T) { // K-24
	whole := dispatcher(t, func(nacre.Call) (nacre.Outcome, error) { t.Error("called"); return nacre.Outcome{}, nil })
	for name, change := range map[string]func(*toolformat.Dispatcher){
		"no format":    func(d *toolformat.Dispatcher) { d.Format = nil },
		"no caller":    func(d *toolformat.Dispatcher) { d.Caller = nil },
		"no principal": func(d *toolformat.Dispatcher) { d.Principal = nacre.Principal{} },
		"no ids":       func(d *toolformat.Dispatcher) { d.NewID = nil },
	} {
		d := *whole
		change(&d)
		if _, err := d.Dispatch(context.Background(), []byte(use("1", "a__b", `{}`))); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	failing := *whole
	failing.NewID = func() (string, error) { return "", errors.New("no randomness") }
	if messages, err := failing.Dispatch(context.Background(), []byte(use("1", "a__b", `{}`))); err != nil || !strings.Contains(string(messages[0]), "Kernel error") {
		t.Errorf("have %s, %v", messages, err)
	}
}

func FuzzParse(f *testing.F) {
	raw, err := os.ReadFile("testdata/calls.json")
	if err != nil {
		f.Fatal(err)
	}
	var cases []struct{ In json.RawMessage }
	if err := json.Unmarshal(raw, &cases); err != nil {
		f.Fatal(err)
	}
	for _, c := range cases {
		corpus.Add(f, []byte(c.In))
		corpus.Add(f, []byte(`{"choices":[{"message":{"tool_calls":[`+string(c.In)+`]}}]}`))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for p := toolformat.OpenAIResponses; p <= toolformat.MCP; p++ {
			made := format(t, p)
			calls, err := made.Parse(body)
			if err != nil && calls != nil || len(calls) > toolformat.MaxCalls {
				t.Fatalf("%d calls, %v", len(calls), err)
			}
			for _, c := range calls {
				if c.Err == nil && (c.ID == "" || c.Capability == "" || !json.Valid(c.Arguments) || c.Arguments[0] != '{') {
					t.Errorf("%+v", c)
				}
				if c.ID == "" {
					continue
				}
				if message, err := made.Error(c, errors.New("x")); err != nil || !json.Valid(message) {
					t.Errorf("%s, %v", message, err)
				}
			}
		}
	})
}
