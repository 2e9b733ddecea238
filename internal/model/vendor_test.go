package model_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/model"
)

// fate is what becomes of something that a vendor documents.
type fate int

const (
	allowed  fate = iota // always
	granted              // where the operator grants web_search and web_fetch
	withheld             // never
)

func (f fate) passes(grants bool) bool { return f == allowed || f == granted && grants }

// documented is all that the vendors document (autumn 2026) that runs, fetches
// or keeps something, with what becomes of it.
func documented() map[model.Dialect]map[string]fate {
	all := map[model.Dialect]map[string]fate{model.Anthropic: {}, model.Responses: {}, model.Chat: {}}
	tool := func(d model.Dialect, of fate, definitions ...string) {
		for _, definition := range definitions {
			all[d][`"tools":[`+definition+`],`] = of
		}
	}
	field := func(d model.Dialect, of fate, fields ...string) {
		for _, f := range fields {
			all[d][f+","] = of
		}
	}
	typed := func(kind string) string { return `{"type":"` + kind + `","name":"x"}` }
	const search = `"name":"web_search","max_uses":3`
	tool(model.Anthropic, allowed, `{"name":"x","input_schema":{}}`, `{"type":"custom","name":"x","input_schema":{}}`,
		typed("bash_20241022"), typed("bash_20250124"), typed("memory_20250818"),
		typed("text_editor_20241022"), typed("text_editor_20250124"), typed("text_editor_20250429"), `{"type":"text_editor_20250728","name":"x","max_characters":9}`)
	tool(model.Anthropic, granted, `{"type":"web_search_20250305",`+search+`}`,
		`{"type":"web_search_20250305","name":"web_search","max_uses":10,"allowed_domains":["a.test"],"user_location":{"type":"approximate","country":"DE"}}`,
		`{"type":"web_fetch_20250910","name":"web_fetch","max_uses":1,"max_content_tokens":9000,"citations":{"enabled":true}}`)
	tool(model.Anthropic, withheld, `{"type":"web_search_20260209",`+search+`}`, `{"type":"web_fetch_20260209","name":"x","max_uses":1,"max_content_tokens":9}`,
		`{"type":"web_search_20250305","name":"web_search"}`, `{"type":"web_search_20250305","name":"web_search","max_uses":11}`,
		`{"type":"web_search_20250305","max_uses":1e1,"name":"x"}`, `{"type":"web_search_20250305","max_uses":-1,"name":"x"}`,
		`{"type":"web_fetch_20250910","name":"x","max_uses":1}`, `{"type":"web_fetch_20250910","name":"x","max_uses":1,"max_content_tokens":100001}`,
		`{"type":"web_search_20250305",`+search+`,"allowed_callers":["code_execution_20250825"]}`, `{"type":"web_search",`+search+`}`, `{"type":"bash_20990101","name":"bash"}`,
		`{"type":"bash_20250124","name":"bash","container":"c"}`,
		typed("code_execution_20250522"), typed("code_execution_20250825"), typed("code_execution_20260120"), typed("bash_code_execution"), typed("text_editor_code_execution"),
		typed("computer_20241022"), typed("computer_20250124"), typed("computer_20251124"), typed("tool_search_tool_regex_20251119"), typed("tool_search_tool_bm25_20251119"),
		`{"type":"mcp_toolset","mcp_server_name":"x"}`, typed("advisor_20260301"))
	field(model.Anthropic, allowed, `"service_tier":"auto"`, `"service_tier":"standard_only"`, `"metadata":{"user_id":"u"}`,
		`"context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]}`, `"thinking":{"type":"adaptive"}`)
	field(model.Anthropic, withheld, `"service_tier":"priority"`, `"mcp_servers":[{"type":"url","url":"https://evil.test","name":"x"}]`, `"container":"c"`,
		`"container":{"id":"c","skills":[{"type":"anthropic","skill_id":"xlsx"}]}`, `"skills":[]`, `"betas":["files-api-2025-04-14"]`, `"store":true`, `"inference_geo":"us"`,
		`"context_management":{"edits":[{"type":"compact_20260112"}]}`, `"requests":[]`, `"Tools":[]`, `"tool_choice ":{}`, `"batch":true`)

	both := []string{
		"file_search", "code_interpreter", "computer", "computer_use_preview", "image_generation", "mcp", "tool_search", "web_search_2099_01_01",
		"web_fetch", "browser", "connector", "retrieval",
	}
	for _, kind := range both {
		tool(model.Responses, withheld, `{"type":"`+kind+`"}`)
		tool(model.Chat, withheld, `{"type":"`+kind+`"}`)
	}
	tool(model.Responses, allowed, `{"type":"function","name":"x","parameters":{},"strict":true}`, `{"type":"custom","name":"x"}`, `{"type":"local_shell"}`, `{"type":"apply_patch"}`,
		`{"type":"shell","environment":{"type":"local"}}`)
	tool(model.Responses, granted, `{"type":"web_search"}`, `{"type":"web_search_2025_08_26","filters":{"allowed_domains":["a.test"]}}`,
		`{"type":"web_search_preview","search_context_size":"low","user_location":{"type":"approximate"}}`, `{"type":"web_search_preview_2025_03_11"}`, `{"type":"web_search","external_web_access":true}`)
	tool(model.Responses, withheld, `{"type":"shell"}`, `{"type":"shell","environment":{"type":"container_auto"}}`, `{"type":"web_search","server_url":"https://evil.test"}`,
		`{"type":"web_search","filters":{"vector_store_ids":["x"]}}`, `{"type":"mcp","server_label":"x","connector_id":"connector_gmail"}`)
	field(model.Responses, allowed, `"store":false`, `"background":false`, `"previous_response_id":null`, `"include":["reasoning.encrypted_content"]`, `"max_tool_calls":3`)
	field(model.Responses, granted, `"include":["web_search_call.action.sources"]`, `"tool_choice":{"type":"web_search"}`)
	field(model.Responses, withheld, `"store":true`, `"background":true`, `"previous_response_id":"r"`, `"conversation":"c"`, `"prompt":{"id":"p"}`, `"max_tool_calls":11`,
		`"include":["file_search_call.results"]`, `"include":["code_interpreter_call.outputs"]`, `"include":["computer_call_output.output.image_url"]`, `"service_tier":"priority"`,
		`"tool_choice":{"type":"file_search"}`, `"tool_choice":{"type":"mcp","server_label":"x"}`, `"Store":false`, `"context_management":[]`, `"prompt_cache_retention":"24h"`)

	tool(model.Chat, allowed, `{"type":"function","function":{"name":"x"}}`, `{"type":"custom","custom":{"name":"x"}}`)
	tool(model.Chat, withheld, `{"type":"web_search"}`, `{"type":"builtin_function","function":{"name":"$web_search"}}`)
	field(model.Chat, allowed, `"store":false`, `"modalities":["text"]`)
	field(model.Chat, granted, `"web_search_options":{}`, `"web_search_options":{"search_context_size":"low"}`)
	field(model.Chat, withheld, `"store":true`, `"audio":{"voice":"alloy","format":"wav"}`, `"modalities":["audio"]`, `"prediction":{"type":"content","content":"x"}`, `"web_search_options":{"site":"x"}`,
		`"plugins":[{"id":"web"}]`, `"n":2`, `"service_tier":"priority"`, `"Tools":[]`)
	return all
}

// M-04: each tool and field that a vendor documents is allowed, granted or
// refused, and who is refused reads why in the vendor's own form.
func TestWhatVendorsDocument(t *testing.T) {
	for _, grants := range [][]string{nil, {"web_search", "web_fetch"}} {
		var last []byte
		b := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			last, _ = io.ReadAll(r.Body)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"type":"message","object":"response","usage":{"input_tokens":1,"output_tokens":1,"prompt_tokens":1,"completion_tokens":1}}`)
		}), func(o *model.Options) { everyDialect(o); o.VendorTools = grants; o.Budget = 1 << 40 })
		for _, s := range speeches {
			for fields, of := range documented()[s.dialect] {
				last = nil
				resp, text := b.ask(t, s, s.call(fields), nil)
				passed := resp.StatusCode == http.StatusOK && len(last) > 0
				if want := of.passes(len(grants) > 0); passed != want {
					t.Errorf("%s %v: %s: passed %t, want %t: %.200s", s.dialect, grants, fields, passed, want, text)
				}
				if !passed && (len(last) > 0 || !strings.Contains(text, s.failure) || !strings.Contains(text, "nacre: ")) {
					t.Errorf("%s: %s: LET THROUGH or unexplained: %.200s", s.dialect, fields, text)
				}
			}
		}
		b.stop()
	}
}

// M-04: what a granted search costs is reserved, bounded, counted and paid.
func TestAGrantedSearchIsPaid(t *testing.T) {
	for name, test := range map[string]struct {
		s            speech
		fields, body string
		in, fees     int64
	}{
		"by Anthropic's account": {
			speeches[0], `"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":5}],`,
			`{"type":"message","usage":{"input_tokens":100,"output_tokens":0,"server_tool_use":{"web_search_requests":2}}}`, 100, 20_000,
		},
		"by what was seen of Anthropic's": {
			speeches[0], `"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":5}],`,
			`{"type":"message","content":[{"type":"server_tool_use","name":"web_search"},{"type":"server_tool_use","name":"web_fetch"}],"usage":{"input_tokens":100}}`, 100, 10_000,
		},
		"by what was seen of OpenAI's": {
			speeches[1], `"tools":[{"type":"web_search"}],`,
			`{"object":"response","output":[{"type":"web_search_call"},{"type":"web_search_call"}],"usage":{"input_tokens":100}}`, 100, 50_000,
		},
		"one for each call of Chat": {
			speeches[2], `"web_search_options":{},`, `{"choices":[],"usage":{"prompt_tokens":100}}`, 100, 25_000,
		},
		"one that nobody granted and that was done": {
			speeches[0], ``, `{"type":"message","usage":{"input_tokens":100,"server_tool_use":{"web_search_requests":1}}}`, 100, 10_000,
		},
	} {
		var sent map[string]any
		b := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = json.NewDecoder(r.Body).Decode(&sent)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, test.body)
		}), func(o *model.Options) { everyDialect(o); o.VendorTools = model.VendorTools() })
		if resp, text := b.ask(t, test.s, test.s.call(test.fields), nil); resp.StatusCode != 200 {
			t.Errorf("%s: have %d %s", name, resp.StatusCode, text)
		}
		b.stop()
		want := test.s.cost(test.in, 0) + test.fees
		if cost, _, _ := b.gateway.Spent(); cost != want {
			t.Errorf("%s: have %d, want %d", name, cost, want)
		}
		if test.s.dialect == model.Responses && sent["max_tool_calls"] != 10.0 {
			t.Errorf("%s: the searches have no bound: %v", name, sent)
		}
	}
}

// What a search leaves in a conversation goes back where it is granted, and only there.
func TestWhatASearchFoundIsSentBack(t *testing.T) {
	for _, test := range []struct{ path, body string }{
		{"/v1/messages", saying(`[{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"x"}},
			{"type":"web_search_tool_result","tool_use_id":"s","content":[{"type":"web_search_result","url":"https://a.test","title":"t","encrypted_content":"e"}]}]`)},
		{"/v1/responses", items(`{"type":"web_search_call","id":"s","status":"completed","action":{"type":"search","query":"x"}}`)},
		{"/v1/responses", items(`{"role":"assistant","content":[{"type":"output_text","text":"x","annotations":[{"type":"url_citation","url":"https://a.test","title":"t"}]}]}`)},
		{"/v1/chat/completions", `{"model":"gpt-5.1","messages":[{"role":"assistant","content":"x","annotations":[{"type":"url_citation","url_citation":{"url":"https://a.test"}}]}]}`},
	} {
		for _, grants := range [][]string{nil, {"web_fetch"}, {"web_search"}} {
			b := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{}`)
			}), func(o *model.Options) { everyDialect(o); o.VendorTools = grants })
			resp, text := b.post(t, test.body, func(r *http.Request) { r.URL.Path, r.URL.RawQuery = test.path, "" })
			b.stop()
			if want := slices.Contains(grants, "web_search"); (resp.StatusCode == 200) != want {
				t.Errorf("%v: %s: have %d %s", grants, test.body, resp.StatusCode, text)
			}
		}
	}
}

func TestAGrantThatNobodyKnowsIsRefused(t *testing.T) {
	b := start(t, http.NotFoundHandler(), nil)
	for _, name := range []string{"", "code_execution", "Web_search", "mcp", "web_search_20250305"} {
		opts := b.opts
		opts.VendorTools = []string{name}
		if _, err := model.New(opts); err == nil {
			t.Errorf("%q was granted", name)
		}
	}
}

// M-04: beta features go by brain and version; what is dropped is recorded by name.
func TestBetasGoByBrainAndVersion(t *testing.T) {
	const asked = "claude-code-20250219,effort-2025-11-24,files-api-2025-04-14,web-fetch-2025-09-10,Not a Name"
	for agent, want := range map[string]string{
		"claude 2.1.329":  "claude-code-20250219,effort-2025-11-24",
		"claude 2.1.1000": "claude-code-20250219,effort-2025-11-24",
		"claude 3.0.0":    "claude-code-20250219,effort-2025-11-24",
		"claude 2.1.328":  "claude-code-20250219",
		"claude 2.1":      "claude-code-20250219",
		"claude":          "claude-code-20250219",
		"claude x.y":      "claude-code-20250219",
		"acp":             "claude-code-20250219,effort-2025-11-24",
		"claudette 9.9.9": "",
		"codex 0.169.0":   "",
		"":                "",
	} {
		up := scripted(t, `{"turns":[{"text":"x"}]}`)
		b := start(t, up, func(o *model.Options) { o.Agent = agent })
		resp, text := b.post(t, hello, func(r *http.Request) { r.Header.Set("Anthropic-Beta", asked) })
		b.stop()
		if resp.StatusCode != 200 {
			t.Fatalf("%s: have %d %s", agent, resp.StatusCode, text)
		}
		if have := up.Requests()[0].Header.Get("Anthropic-Beta"); have != want {
			t.Errorf("%s: have %q, want %q", agent, have, want)
		}
		detail := string(b.log.all()[0].Detail)
		if !strings.Contains(detail, `"files-api-2025-04-14"`) || strings.Contains(detail, "Not a Name") {
			t.Errorf("%s: have %s", agent, detail)
		}
	}
	up := scripted(t, `{"turns":[{"text":"x"}]}`)
	b := start(t, up, func(o *model.Options) { o.VendorTools = []string{"web_fetch"} })
	_, _ = b.post(t, hello, func(r *http.Request) { r.Header.Set("Anthropic-Beta", asked) })
	if have := up.Requests()[0].Header.Get("Anthropic-Beta"); !strings.Contains(have, "web-fetch-2025-09-10") {
		t.Errorf("a granted tool has not its feature: %q", have)
	}
}

// M-04: more output than a model writes is refused, and where nothing is asked
// for, no more is set.
func TestMoreThanAModelWritesIsRefused(t *testing.T) {
	up := scripted(t, `{"turns":[{"text":"x"},{"text":"x"}]}`)
	b := start(t, up, func(o *model.Options) { o.Budget = 1 << 40 })
	ask := func(most string) (answer, string) {
		return b.post(t, `{"model":"claude-3-5-haiku-20241022",`+most+`"messages":[{"role":"user","content":"hi"}]}`, nil)
	}
	if resp, text := ask(`"max_tokens":8193,`); resp.StatusCode != 400 || !strings.Contains(text, "writes at most 8192 tokens") {
		t.Errorf("have %d %s", resp.StatusCode, text)
	}
	for _, most := range []string{`"max_tokens":8192,`, ``} {
		if resp, text := ask(most); resp.StatusCode != 200 {
			t.Errorf("have %d %s", resp.StatusCode, text)
		}
	}
	for _, r := range up.Requests() {
		if !strings.Contains(string(r.Body), `"max_tokens":8192`) {
			t.Errorf("have %s", r.Body)
		}
	}
}
