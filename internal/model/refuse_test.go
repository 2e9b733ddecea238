package model_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/model"
)

// with puts fields into a plain call.
func with(fields string) string {
	return `{"model":"claude-opus-5-5","max_tokens":10,"messages":[{"role":"user","content":"hi"}],` + fields + `}`
}

// saying makes a call whose one message has the content.
func saying(content string) string {
	return `{"model":"claude-opus-5-5","max_tokens":10,"messages":[{"role":"user","content":` + content + `}]}`
}

// M-04: the gateway is an allow-list, not a tunnel.
func TestWhatIsNotOnTheListIsRefused(t *testing.T) {
	tests := map[string]struct {
		body string
		want model.Reason
	}{
		"web search":                     {with(`"tools":[{"type":"web_search_20250305","name":"web_search"}]`), model.ReasonVendorTool},
		"web fetch":                      {with(`"tools":[{"type":"web_fetch_20250910","name":"web_fetch"}]`), model.ReasonVendorTool},
		"code execution":                 {with(`"tools":[{"type":"code_execution_20250825","name":"code_execution"}]`), model.ReasonVendorTool},
		"a vendor's tool among others":   {with(`"tools":[{"name":"Bash","input_schema":{}},{"type":"web_search_20260209","name":"Bash2"}]`), model.ReasonVendorTool},
		"tool search at the vendor":      {with(`"tools":[{"type":"tool_search_tool_regex_20251119","name":"x"}]`), model.ReasonVendorTool},
		"an mcp toolset":                 {with(`"tools":[{"type":"mcp_toolset","mcp_server_name":"x"}]`), model.ReasonVendorTool},
		"computer use":                   {with(`"tools":[{"type":"computer_20250124","name":"computer"}]`), model.ReasonVendorTool},
		"the advisor":                    {with(`"tools":[{"type":"advisor_20260301","name":"advisor"}]`), model.ReasonVendorTool},
		"a tool type of another type":    {with(`"tools":[{"type":5,"name":"x"}]`), model.ReasonVendorTool},
		"a tool type in another case":    {with(`"tools":[{"type":"Custom","name":"x"}]`), model.ReasonVendorTool},
		"a tool called by vendor's code": {with(`"tools":[{"name":"x","allowed_callers":["code_execution_20250825"]}]`), model.ReasonField},
		"a tool without a name":          {with(`"tools":[{"input_schema":{}}]`), model.ReasonMalformed},
		"tools that are no array":        {with(`"tools":{"type":"web_search_20250305"}`), model.ReasonMalformed},
		"a vendor's tool added later": {saying(`[{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"type":"web_search_20250305","name":"w"}}}]`),
			model.ReasonVendorTool},
		"a tool added by another form": {saying(`[{"type":"tool_addition","tool":{"type":"web_search_20250305","name":"w"}}]`), model.ReasonField},
		"a definition behind a reference": {saying(`[{"type":"tool_removal","tool":{"type":"tool_reference","name":"x","definition":{"name":"x"}}}]`),
			model.ReasonField},
		"mcp servers":                  {with(`"mcp_servers":[{"type":"url","url":"https://evil.test"}]`), model.ReasonVendorTool},
		"an empty list of mcp servers": {with(`"mcp_servers":[]`), model.ReasonVendorTool},
		"a container":                  {with(`"container":"c1"`), model.ReasonVendorTool},
		"a field nobody knows":         {with(`"background":true`), model.ReasonField},
		"stored answers":               {with(`"store":true`), model.ReasonField},
		"the fast and dear mode":       {with(`"speed":"fast"`), model.ReasonField},
		"a dear service tier":          {with(`"service_tier":"priority"`), model.ReasonField},
		"a place":                      {with(`"inference_geo":"us"`), model.ReasonField},
		"fallback models":              {with(`"fallbacks":[{"model":"claude-mythos-5"}]`), model.ReasonField},
		"a field in another case":      {with(`"Mcp_servers":[]`), model.ReasonField},
		"compaction at the vendor":     {with(`"context_management":{"edits":[{"type":"compact_20260112"}]}`), model.ReasonField},
		"unknown output config":        {with(`"output_config":{"task_budget":{}}`), model.ReasonField},
		"an image by url":              {saying(`[{"type":"image","source":{"type":"url","url":"https://evil.test/x?secret"}}]`), model.ReasonRemoteSource},
		"an image by file":             {saying(`[{"type":"image","source":{"type":"file","file_id":"f1"}}]`), model.ReasonRemoteSource},
		"a url beside the data":        {saying(`[{"type":"image","source":{"type":"base64","data":"","url":"https://evil.test"}}]`), model.ReasonRemoteSource},
		"a source without a type":      {saying(`[{"type":"document","source":{"data":"x"}}]`), model.ReasonRemoteSource},
		"a source that is a text":      {saying(`[{"type":"document","source":"https://evil.test"}]`), model.ReasonMalformed},
		"a document by url":            {saying(`[{"type":"document","source":{"type":"url","url":"https://evil.test"}}]`), model.ReasonRemoteSource},
		"a url in a tool's result": {saying(`[{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"url","url":"u"}}]}]`),
			model.ReasonRemoteSource},
		"a url in a document's content": {saying(`[{"type":"document","source":{"type":"content","content":[{"type":"image","source":{"type":"url","url":"u"}}]}}]`),
			model.ReasonRemoteSource},
		"a url in the system prompt": {with(`"system":[{"type":"image","source":{"type":"url","url":"u"}}]`), model.ReasonRemoteSource},
		"a source in a text block":   {saying(`[{"type":"text","text":"x","source":{"type":"url","url":"u"}}]`), model.ReasonRemoteSource},
		"another vendor's image":     {saying(`[{"type":"image","image_url":{"url":"https://evil.test"}}]`), model.ReasonRemoteSource},
		"another vendor's file":      {saying(`[{"type":"text","text":"x","file":{"file_id":"f1"}}]`), model.ReasonRemoteSource},
		"a file id in a block":       {saying(`[{"type":"document","file_id":"f1"}]`), model.ReasonRemoteSource},
		"a source in another case":   {saying(`[{"type":"image","Source":{"type":"url","url":"https://evil.test"}}]`), model.ReasonField},
		"a source with a long s":     {saying(`[{"type":"image","\u017fource":{"type":"url","url":"https://evil.test"}}]`), model.ReasonField},
		"a url by a long s's friend": {saying(`[{"type":"tool_result","tool_use_id":"t","content":[{"type":"document","ſource":{"type":"url","url":"u"}}]}]`), model.ReasonField},
		"a source with a zero byte":  {saying(`[{"type":"image","source\u0000":{"type":"url","url":"https://evil.test"}}]`), model.ReasonField},
		"an upload to a container":   {saying(`[{"type":"container_upload","file_id":"f1"}]`), model.ReasonContentBlock},
		"work done at the vendor":    {saying(`[{"type":"server_tool_use","id":"x","name":"web_search","input":{}}]`), model.ReasonContentBlock},
		"an mcp call at the vendor":  {saying(`[{"type":"mcp_tool_use","id":"x"}]`), model.ReasonContentBlock},
		"a block nobody knows":       {saying(`[{"type":"hologram"}]`), model.ReasonContentBlock},
		"a block without a type":     {saying(`[{"text":"x"}]`), model.ReasonContentBlock},
		"a call by vendor's code":    {saying(`[{"type":"tool_use","id":"x","name":"y","input":{},"caller":{"type":"code_execution_20250825","tool_id":"z"}}]`), model.ReasonField},
		"blocks nested too deep":     {saying(strings.Repeat(`[{"type":"tool_result","content":`, 6) + `"x"` + strings.Repeat(`}]`, 6)), model.ReasonContentBlock},
		"a message's unknown field":  {`{"model":"claude-opus-5-5","messages":[{"role":"user","content":"hi","container":"x"}]}`, model.ReasonField},
		"a role nobody knows":        {`{"model":"claude-opus-5-5","messages":[{"role":"root","content":"hi"}]}`, model.ReasonField},
		"a key twice":                {with(`"tools":[],"tools":[{"type":"web_search_20250305","name":"w"}]`), model.ReasonMalformed},
		"a key twice by an escape":   {with(`"tools":[],"t\u006fols":[]`), model.ReasonMalformed},
		"a type twice in a tool":     {with(`"tools":[{"name":"x","type":"custom","type":"web_search_20250305"}]`), model.ReasonMalformed},
		"something after the object": {hello + `{}`, model.ReasonMalformed},
		"no object":                  {`[]`, model.ReasonMalformed},
		"nothing":                    {``, model.ReasonMalformed},
		"not UTF-8":                  {saying("\"\xff\""), model.ReasonMalformed},
		"no model":                   {`{"messages":[{"role":"user","content":"hi"}]}`, model.ReasonMalformed},
		"no messages":                {`{"model":"claude-opus-5-5","messages":[]}`, model.ReasonMalformed},
		"a model without a price":    {strings.Replace(hello, "opus-5-5", "opus-9", 1), model.ReasonNoPrice},
		"a model that is no text":    {`{"model":5,"messages":[{"role":"user","content":"hi"}]}`, model.ReasonMalformed},
		"max_tokens of nothing":      {strings.Replace(hello, "1000", "0", 1), model.ReasonMalformed},
		"max_tokens below nothing":   {strings.Replace(hello, "1000", "-5", 1), model.ReasonMalformed},
		"max_tokens as a fraction":   {strings.Replace(hello, "1000", "1e3", 1), model.ReasonMalformed},
		"max_tokens as a text":       {strings.Replace(hello, "1000", `"1000"`, 1), model.ReasonMalformed},
		"max_tokens without end":     {strings.Replace(hello, "1000", "99999999999999999999", 1), model.ReasonMalformed},
		"max_tokens of null":         {strings.Replace(hello, "1000", "null", 1), model.ReasonMalformed},
		"more than the budget":       {strings.Replace(hello, `"hi"`, `"`+strings.Repeat("x", 20<<20)+`"`, 1), model.ReasonBudget},
		"more than the limit":        {strings.Replace(hello, `"hi"`, `"`+strings.Repeat("x", 33<<20)+`"`, 1), model.ReasonTooLarge},
	}
	hits := 0
	b := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits++ }), nil)
	for name, test := range tests {
		before := len(b.log.all())
		resp, text := b.post(t, test.body, nil)
		records := b.log.all()
		if len(records) != before+1 || records[before].Reason != string(test.want) {
			t.Errorf("%s: want %s, have %d %.200s", name, test.want, resp.StatusCode, text)
		}
		if resp.StatusCode < 400 || !strings.Contains(text, `"type":"error"`) || !strings.Contains(text, "nacre: ") {
			t.Errorf("%s: have %d %.200s", name, resp.StatusCode, text)
		}
	}
	b.stop()
	if cost, _, _ := b.gateway.Spent(); hits != 0 || cost != 0 {
		t.Errorf("LET THROUGH: %d calls, %d spent", hits, cost)
	}
}

func TestOtherRequestsAreRefused(t *testing.T) {
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	path := func(s string) func(*http.Request) {
		return func(r *http.Request) { r.URL.Opaque = "//gateway" + s; r.URL.RawQuery = "" }
	}
	tests := map[string]struct {
		change func(*http.Request)
		want   model.Reason
	}{
		"no token":              {func(r *http.Request) { r.Header.Del("X-Api-Key") }, model.ReasonToken},
		"an empty token":        {set("X-Api-Key", ""), model.ReasonToken},
		"the beginning of it":   {set("X-Api-Key", token[:10]), model.ReasonToken},
		"the real key":          {set("X-Api-Key", realKey), model.ReasonToken},
		"another bearer":        {func(r *http.Request) { r.Header.Del("X-Api-Key"); r.Header.Set("Authorization", "Bearer x") }, model.ReasonToken},
		"another method":        {func(r *http.Request) { r.Method = http.MethodPut }, model.ReasonPath},
		"batches":               {path("/v1/messages/batches"), model.ReasonPath},
		"files":                 {path("/v1/files"), model.ReasonPath},
		"models":                {path("/v1/models"), model.ReasonPath},
		"another query":         {path("/v1/messages?beta=true&x=1"), model.ReasonPath},
		"dots in the path":      {path("/v1/messages/../files"), model.ReasonPath},
		"an escape in the path": {path("/v1/message%73"), model.ReasonPath},
		"a slash at the end":    {path("/v1/messages/"), model.ReasonPath},
		"two slashes":           {path("/v1//messages"), model.ReasonPath},
		"another content type":  {set("Content-Type", "text/plain"), model.ReasonMalformed},
		"a form":                {set("Content-Type", "multipart/form-data; boundary=x"), model.ReasonMalformed},
		"a compressed body":     {set("Content-Encoding", "gzip"), model.ReasonMalformed},
		"another version":       {set("Anthropic-Version", "2099-01-01"), model.ReasonMalformed},
	}
	hits := 0
	b := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits++ }), nil)
	for name, test := range tests {
		before := len(b.log.all())
		resp, text := b.post(t, hello, test.change)
		records := b.log.all()
		if len(records) != before+1 || records[before].Reason != string(test.want) {
			t.Errorf("%s: want %s, have %d %.200s", name, test.want, resp.StatusCode, text)
		}
	}
	b.stop()
	if hits != 0 {
		t.Errorf("LET THROUGH: %d calls", hits)
	}
}

func TestWhatABrainNeedsIsLetThrough(t *testing.T) {
	tests := map[string]string{
		"custom tools":         with(`"tools":[{"name":"Bash","type":"custom","input_schema":{"type":"object"},"defer_loading":true},{"name":"B","type":null}],"tool_choice":{"type":"auto"}`),
		"no tools":             with(`"tools":null`),
		"an image":             saying(`[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]`),
		"a document":           saying(`[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"x"},"title":"t"}]`),
		"a search result":      saying(`[{"type":"search_result","source":"https://a.test","title":"t","content":[{"type":"text","text":"x"}]}]`),
		"a tool's round":       `{"model":"claude-haiku-4-5-20251001","messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"a","name":"Bash","input":{"url":"https://x.test","file_id":1},"caller":{"type":"direct"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"x","is_error":true}]}]}`,
		"tools added later":    `{"model":"claude-opus-5-5","messages":[{"role":"system","content":[{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"name":"x","input_schema":{}}}},{"type":"tool_removal","tool":{"type":"tool_reference","name":"y"}}],"output_config":{"effort":"low"},"clear_at":"next_user_message"},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"tool_reference","tool_name":"x"}]}]}]}`,
		"a system prompt":      with(`"system":[{"type":"text","text":"x","cache_control":{"type":"ephemeral","ttl":"1h"}}]`),
		"adaptive thinking":    with(`"thinking":{"type":"adaptive","display":"updates"},"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},"output_config":{"effort":"medium"},"metadata":{"user_id":"u"}`),
		"sampling":             with(`"temperature":0.5,"top_p":0.9,"top_k":5,"stop_sequences":["x"]`),
		"keys by case in data": with(`"tools":[{"name":"x","input_schema":{"properties":{"a":{},"A":{}}}}]`),
	}
	hits := 0
	b := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		hits++
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"type":"message","usage":{"input_tokens":1,"output_tokens":1}}`))
	}), nil)
	for name, body := range tests {
		if resp, text := b.post(t, body, nil); resp.StatusCode != 200 {
			t.Errorf("%s: have %d %s", name, resp.StatusCode, text)
		}
	}
	b.stop()
	if hits != len(tests) {
		t.Errorf("have %d calls, want %d", hits, len(tests))
	}
}
