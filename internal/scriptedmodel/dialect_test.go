package scriptedmodel_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
)

// The three forms of one conversation: asked, answered with a call, and the result sent back.
var conversations = map[string][3]string{
	"/v1/messages": {
		`"tools":[{"name":"Bash"}],"messages":[{"role":"user","content":"do it"}`,
		`,{"role":"assistant","content":[{"type":"tool_use","id":"toolu_0_0","name":"Bash","input":{}}]}`,
		`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_0_0","is_error":true,"content":"error: beans"}]}`,
	},
	"/v1/responses": {
		`"instructions":"be brief","tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"Bash"}]}],"input":[{"role":"developer","content":"x"},{"role":"user","content":[{"type":"input_text","text":"do it"}]}`,
		`,{"type":"reasoning","summary":[]},{"type":"function_call","call_id":"call_0_0","name":"Bash","arguments":"{}"},{"type":"function_call","call_id":"call_0_1","name":"Bash","arguments":"{}"}`,
		`,{"type":"function_call_output","call_id":"call_0_0","output":"error: beans"},{"type":"function_call_output","call_id":"call_0_1","output":[{"type":"input_text","text":"fine"}]}`,
	},
	"/v1/chat/completions": {
		`"stream_options":{"include_usage":true},"tools":[{"type":"function","function":{"name":"Bash"}}],"messages":[{"role":"system","content":"x"},{"role":"user","content":[{"type":"text","text":"do it"}]}`,
		`,{"role":"assistant","content":null,"tool_calls":[{"id":"call_0_0","type":"function","function":{"name":"Bash","arguments":"{}"}}]}`,
		`,{"role":"tool","tool_call_id":"call_0_0","content":"error: beans"},{"role":"tool","tool_call_id":"call_0_1","content":"fine"}`,
	},
}

func TestOneScriptPlaysInEveryDialect(t *testing.T) {
	for path, said := range conversations {
		for _, stream := range []string{"false", "true"} {
			s := server(t, `{"turns":[
				{"expect":{"contains":["do it"],"tools":["Bash"],"no_tools":["Write"],"model":"m"},"thinking":"hm","text":"Looking.","tools":[{"name":"Bash","input":{"command":"ls"}}],
				 "usage":{"input_tokens":7,"output_tokens":9,"cache_read_input_tokens":3}},
				{"expect":{"contains":["beans"],"error":true},"text":"Done."}]}`)
			first := say(t, s, path, `{"model":"m","stream":`+stream+`,`+said[0]+`]}`)
			second := say(t, s, path, `{"model":"m","stream":`+stream+`,`+said[0]+said[1]+said[2]+`]}`)
			if have := s.Failures(); len(have) != 0 {
				t.Errorf("%s, stream %s: %v", path, stream, have)
			}
			for _, want := range []string{"Looking.", `_0_0"`, `"Bash"`, `command\":\"ls`} {
				if path == "/v1/messages" && stream == "false" && want == `command\":\"ls` {
					want = `"command":"ls"`
				}
				if !strings.Contains(first, want) {
					t.Errorf("%s, stream %s: want %q in %s", path, stream, want, first)
				}
			}
			if !strings.Contains(second, "Done.") {
				t.Errorf("%s, stream %s: have %s", path, stream, second)
			}
		}
	}
}

func say(t *testing.T, s *scriptedmodel.Server, path, body string) string {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
	if w.Code != http.StatusOK {
		t.Errorf("%s: %d", path, w.Code)
	}
	return w.Body.String()
}

func TestAnswersOfOpenAI(t *testing.T) {
	tests := map[string]struct {
		path, turn, tools string
		want              []string
	}{
		"usage of Responses": {"/v1/responses", `{"text":"x","usage":{"input_tokens":7,"output_tokens":9,"cache_read_input_tokens":3,"reasoning_tokens":4}}`, ``,
			[]string{`"input_tokens":10`, `"cached_tokens":3`, `"output_tokens":9`, `"reasoning_tokens":4`, `"total_tokens":19`, "response.completed"}},
		"usage of Chat": {"/v1/chat/completions", `{"text":"x","usage":{"input_tokens":7,"output_tokens":9,"cache_read_input_tokens":3}}`, ``,
			[]string{`"prompt_tokens":10`, `"cached_tokens":3`, `"completion_tokens":9`, `"choices":[]`, "data: [DONE]"}},
		"the end of the output in Responses": {"/v1/responses", `{"text":"x","stop":"max_tokens"}`, ``, []string{"response.incomplete", "max_output_tokens"}},
		"the end of the output in Chat":      {"/v1/chat/completions", `{"text":"x","stop":"max_tokens"}`, ``, []string{`"finish_reason":"length"`}},
		"a freeform tool":                    {"/v1/responses", `{"tools":[{"name":"patch","input":"*** Begin"}]}`, `{"type":"custom","name":"patch"}`, []string{`"custom_tool_call"`, `"input":"*** Begin"`}},
		"a freeform tool in Chat":            {"/v1/chat/completions", `{"tools":[{"name":"patch","input":"*** Begin"}]}`, `{"type":"custom","custom":{"name":"patch"}}`, []string{`"type":"custom"`, `"input":"*** Begin"`}},
		"a tool of a namespace":              {"/v1/responses", `{"tools":[{"name":"exec","input":"text(1)"}]}`, `{"type":"namespace","name":"functions","tools":[{"type":"custom","name":"exec"}]}`, []string{`"custom_tool_call"`, `"namespace":"functions"`}},
		"the local shell":                    {"/v1/responses", `{"tools":[{"name":"local_shell","input":{"type":"exec","command":["ls"]}}]}`, `{"type":"local_shell"}`, []string{`"local_shell_call"`, `"command":["ls"]`}},
		"malformed input":                    {"/v1/responses", `{"tools":[{"name":"Bash","raw":"{\"a\": "}]}`, ``, []string{`"arguments":"{\"a\": "`}},
		"malformed input in Chat":            {"/v1/chat/completions", `{"tools":[{"name":"Bash","raw":"{\"a\": "}]}`, ``, []string{`"arguments":"{\"a\": "`}},
		"no usage":                           {"/v1/chat/completions", `{"text":"x","fault":{"no_usage":true}}`, ``, []string{`"usage":null`, "[DONE]"}},
		"an error in a stream of Responses":  {"/v1/responses", `{"text":"x","fault":{"error_after":2}}`, ``, []string{"event: response.failed", "server_error"}},
		"an error in a stream of Chat":       {"/v1/chat/completions", `{"text":"x","fault":{"error_after":1}}`, ``, []string{`data: {"error":`}},
	}
	for name, test := range tests {
		s := server(t, `{"turns":[`+test.turn+`]}`)
		have := say(t, s, test.path, `{"model":"m","stream":true,"stream_options":{"include_usage":true},"tools":[`+test.tools+`],"input":"do it","messages":[]}`)
		for _, want := range test.want {
			if !strings.Contains(have, want) {
				t.Errorf("%s: want %q in %s", name, want, have)
			}
		}
		for line := range strings.Lines(have) {
			if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok && data != "[DONE]" && !json.Valid([]byte(data)) {
				t.Errorf("%s: no JSON: %s", name, data)
			}
		}
	}
}

func TestFaultsHaveTheFormOfTheDialect(t *testing.T) {
	for path, want := range map[string]string{"/v1/messages": `"type":"error"`, "/v1/responses": `"param":null`, "/v1/chat/completions": `"param":null`} {
		srv := httptest.NewServer(server(t, `{"turns":[{"fault":{"status":429}}]}`))
		resp, err := http.Post(srv.URL+path, "application/json", strings.NewReader(`{"model":"m"}`))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		srv.Close()
		if resp.StatusCode != 429 || !strings.Contains(string(body), want) {
			t.Errorf("%s: have %d %s", path, resp.StatusCode, body)
		}
	}
}

func FuzzAsked(f *testing.F) {
	for path, said := range conversations {
		f.Add(path, `{"model":"m","stream":true,`+said[0]+said[1]+said[2]+`]}`)
	}
	f.Add("/v1/responses", `{"input":{"type":[]}}`)
	f.Fuzz(func(t *testing.T, path, body string) {
		r, err := http.NewRequest(http.MethodPost, "http://x", strings.NewReader(body))
		if err != nil {
			t.Skip()
		}
		r.URL.Path = path
		w := httptest.NewRecorder()
		server(t, `{"turns":[{"text":"x","thinking":"y","tools":[{"name":"Bash"}]}]}`).ServeHTTP(w, r)
		if w.Code == 0 {
			t.Fatal("no answer")
		}
	})
}
