package model_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

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
		f.Add([]byte(body))
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
