package model_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/corpus"
	"github.com/nacre-dev/nacre/internal/model"
)

// FuzzRequest: whatever the body, what the upstream gets is what was checked,
// and it holds no tool type, block type or source that is not on the list.
func FuzzRequest(f *testing.F) {
	for _, body := range []string{
		hello, helloStream, with(`"tools":[{"name":"x","input_schema":{"a":[1,{"b":"\"]}"}]}}]`), with(`"tools":[{"type":"web_search_20250305"}]`),
		saying(`[{"type":"image","source":{"type":"base64","data":"A\\\\"}} , {"type":"text","text":"\\\"}"}]`),
		saying(`[{"type":"tool_result","content":[{"type":"image","source":{"type":"url","url":"u"}}]}]`), `{"a":`, ``, `[]`, `{"messages":[{"content":[{"type":"te\u0078t"}]}]}`,
	} {
		corpus.Add(f, []byte(body))
	}
	var got []byte
	up := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = make([]byte, r.ContentLength)
		n := 0
		for n < len(got) {
			m, err := r.Body.Read(got[n:])
			if n += m; err != nil {
				break
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"usage":{"input_tokens":1}}`))
	})
	upstream := &http.Client{Transport: &http.Transport{}}
	f.Cleanup(upstream.CloseIdleConnections)
	b := start(f, up, func(o *model.Options) { o.Budget, o.Client = 1<<60, upstream })
	f.Fuzz(func(t *testing.T, body []byte) {
		got = nil
		gateway, err := model.New(b.opts) // each has its own limit of refusals
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/v1/messages", bytes.NewReader(body))
		r.Header = http.Header{"X-Api-Key": {token}, "Content-Type": {"application/json"}}
		gateway.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			return
		}
		var have, want map[string]any
		if err := json.Unmarshal(got, &have); err != nil {
			t.Fatalf("the upstream got no JSON: %q", got)
		}
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatalf("what is no JSON was let through: %q", body)
		}
		want["max_tokens"] = have["max_tokens"]
		if !reflect.DeepEqual(have, want) {
			t.Fatalf("have %s\nwant %s", got, body)
		}
		checkSent(t, have)
	})
}

// checkSent reads a request by other means than the gateway does.
func checkSent(t *testing.T, sent map[string]any) {
	t.Helper()
	tools, _ := sent["tools"].([]any)
	for _, tool := range tools {
		if kind := tool.(map[string]any)["type"]; kind != nil && kind != "custom" {
			t.Fatalf("LET THROUGH: the tool type %v", kind)
		}
	}
	messages, _ := sent["messages"].([]any)
	for _, m := range messages {
		message, _ := m.(map[string]any)
		checkBlocks(t, message["content"])
	}
	checkBlocks(t, sent["system"])
}

func checkBlocks(t *testing.T, content any) {
	t.Helper()
	blocks, _ := content.([]any)
	for _, b := range blocks {
		block, _ := b.(map[string]any)
		source, _ := block["source"].(map[string]any)
		if source["type"] == "url" || source["type"] == "file" || block["type"] == "server_tool_use" || block["file_id"] != nil {
			t.Fatalf("LET THROUGH: %v", block)
		}
		checkBlocks(t, block["content"])
		checkBlocks(t, source["content"])
	}
}

// FuzzOpenAI: the same for Responses and Chat. What the gateway writes itself
// is the maximum, store and stream_options.
func FuzzOpenAI(f *testing.F) {
	for _, s := range speeches[1:] {
		chat := s.dialect == model.Chat
		for _, fields := range []string{
			"", `"stream":true,`, `"store":true,`, `"background":true,`, `"previous_response_id":"x",`, `"tools":[{"type":"web_search"}],`, `"max_tokens":5,`, `"max_output_tokens":5,`,
			`"tools":[{"type":"function","name":"x","parameters":{"a":[1,"\"]}"]}}],`, `"tools":[{"type":"function","function":{"name":"x"}}],`, `"tool_choice":{"type":"mcp"},`,
			`"tools":[{"type":"namespace","name":"n","tools":[{"type":"custom","name":"x","format":{"type":"text"}}]}],`, `"stream_options":{"include_usage":true},`, `"n":1,`,
		} {
			f.Add(chat, []byte(s.call(fields)))
		}
	}
	for _, item := range []string{
		`{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,AA"}]}`, `{"role":"user","content":[{"type":"input_image","image_url":"https://x"}]}`,
		`{"type":"function_call_output","call_id":"c","output":[{"type":"input_file","file_id":"f"}]}`, `{"type":"item_reference","id":"x"}`, `{"type":"reasoning","summary":[],"encrypted_content":"x"}`,
	} {
		f.Add(false, []byte(items(item)))
	}
	f.Add(true, []byte(`{"model":"gpt-5.1","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x"}}]}]}`))
	var got []byte
	b := start(f, http.NotFoundHandler(), func(o *model.Options) {
		everyDialect(o)
		o.Budget, o.Client = 1<<60, &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			got, _ = io.ReadAll(r.Body)
			header := http.Header{"Content-Type": {"application/json"}}
			return &http.Response{StatusCode: 200, Header: header, Body: io.NopCloser(strings.NewReader(`{"usage":{}}`)), Request: r}, nil
		})}
	})
	f.Fuzz(func(t *testing.T, chat bool, body []byte) {
		got = nil
		gateway, err := model.New(b.opts) // each has its own limit of refusals
		if err != nil {
			t.Fatal(err)
		}
		path := map[bool]string{true: "/v1/chat/completions", false: "/v1/responses"}[chat]
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
		r.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}}
		gateway.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			return
		}
		var have, want map[string]any
		if err := json.Unmarshal(got, &have); err != nil {
			t.Fatalf("the upstream got no JSON: %q", got)
		}
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatalf("what is no JSON was let through: %q", body)
		}
		if have["store"] != false || have["max_tokens"] == nil && have["max_completion_tokens"] == nil && have["max_output_tokens"] == nil {
			t.Fatalf("have %s", got)
		}
		checkSentOpenAI(t, have)
		for _, own := range []string{"store", "max_tokens", "max_completion_tokens", "max_output_tokens", "stream_options", "client_metadata"} {
			delete(have, own)
			delete(want, own)
		}
		if !reflect.DeepEqual(have, want) {
			t.Fatalf("have %s\nwant %s", got, body)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// checkSentOpenAI reads a request by other means than the gateway does.
func checkSentOpenAI(t *testing.T, sent map[string]any) {
	t.Helper()
	for _, on := range []string{"background", "previous_response_id", "conversation", "prompt", "web_search_options", "audio", "prediction"} {
		if v := sent[on]; v != nil && v != false {
			t.Fatalf("LET THROUGH: %s %v", on, v)
		}
	}
	tools, _ := sent["tools"].([]any)
	for _, tool := range tools {
		kind, _ := tool.(map[string]any)["type"].(string)
		if !slices.Contains([]string{"function", "custom", "namespace", "local_shell", "shell", "apply_patch"}, kind) {
			t.Fatalf("LET THROUGH: the tool type %q", kind)
		}
	}
	for _, part := range []string{"input", "messages", "instructions"} {
		checkInside(t, sent[part])
	}
}

// checkInside looks for what the vendor would have to fetch, at any depth.
func checkInside(t *testing.T, v any) {
	t.Helper()
	switch v := v.(type) {
	case []any:
		for _, inner := range v {
			checkInside(t, inner)
		}
	case map[string]any:
		for key, inner := range v {
			if key == "action" || key == "operation" {
				continue // what the client did itself
			}
			if strings.HasPrefix(key, "file_") && inner != nil {
				t.Fatalf("LET THROUGH: %s %v", key, inner)
			}
			address, isText := inner.(string)
			if isText && (key == "image_url" || key == "url") && !strings.HasPrefix(strings.ToLower(address), "data:image/") {
				t.Fatalf("LET THROUGH: %s %v", key, inner)
			}
			checkInside(t, inner)
		}
	}
}
