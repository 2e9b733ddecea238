package scriptedmodel_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func server(t *testing.T, script string) *scriptedmodel.Server {
	t.Helper()
	s, err := scriptedmodel.Read(strings.NewReader(script))
	if err != nil {
		t.Fatal(err)
	}
	return scriptedmodel.New(s)
}

func ask(s *scriptedmodel.Server, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/messages", strings.NewReader(body)))
	return w
}

const user = `{"role":"user","content":"do it"}`

func history(messages ...string) string {
	return `{"model":"claude-x","tools":[{"name":"Bash"}],"messages":[` + strings.Join(messages, ",") + `]}`
}

func TestTheHistoryDecidesTheTurn(t *testing.T) {
	s := server(t, `{"turns":[{"text":"first"},{"text":"second"},{"text":"third"}]}`)
	said := `{"role":"assistant","content":"x"}`
	tests := map[string]struct {
		body, want string
	}{
		"no answer yet":                   {history(user), "first"},
		"the same again, as in a retry":   {history(user), "first"},
		"one answer":                      {history(user, said, user), "second"},
		"two answers":                     {history(user, said, user, said, user), "third"},
		"an answer in two messages":       {history(user, said, said, user), "second"},
		"the system between two messages": {history(user, said, `{"role":"system","content":"x"}`, said, user), "second"},
	}
	for name, test := range tests {
		if have := ask(s, test.body).Body.String(); !strings.Contains(have, test.want) {
			t.Errorf("%s: have %s", name, have)
		}
	}
	if have := s.Failures(); len(have) != 0 {
		t.Errorf("failures: %v", have)
	}
	ask(s, history(user, said, user, said, user, said, user))
	if have := s.Failures(); len(have) != 1 || !strings.Contains(have[0], "turn 3") {
		t.Errorf("after the last turn: %v", have)
	}
}

func TestWhatIsNotExpectedIsKept(t *testing.T) {
	result := func(content string) string {
		return `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":` + content + `}]}`
	}
	tests := map[string]struct {
		expect, body, want string
	}{
		"a text that is there":        {`{"contains":["do"]}`, history(user), ""},
		"a text that is not":          {`{"contains":["undo"]}`, history(user), "undo"},
		"a pattern that fits":         {`{"matches":["^d.* it$"]}`, history(user), ""},
		"a pattern that does not":     {`{"matches":["^x"]}`, history(user), "^x"},
		"a tool's result":             {`{"contains":["beans"]}`, history(result(`"beans"`)), ""},
		"a tool's result in blocks":   {`{"contains":["beans"]}`, history(result(`[{"type":"text","text":"beans"}]`)), ""},
		"an offered tool":             {`{"tools":["Bash"],"no_tools":["Write"]}`, history(user), ""},
		"a tool that is not offered":  {`{"tools":["Write"]}`, history(user), "Write"},
		"a tool that must not be":     {`{"no_tools":["Bash"]}`, history(user), "Bash"},
		"another model":               {`{"model":"gpt"}`, history(user), "gpt"},
		"an error that is not one":    {`{"error":true}`, history(result(`"x"`)), "error"},
		"an error":                    {`{"error":true}`, history(`{"role":"user","content":[{"type":"tool_result","is_error":true,"content":"x"}]}`), ""},
		"the last word is the user's": {`{"contains":["do it"]}`, history(user, `{"role":"system","content":"notes"}`), ""},
	}
	for name, test := range tests {
		s := server(t, `{"turns":[{"text":"x","expect":`+test.expect+`}]}`)
		ask(s, test.body)
		have := strings.Join(s.Failures(), "\n")
		if (test.want == "") != (have == "") || !strings.Contains(have, test.want) {
			t.Errorf("%s: have %q, want %q", name, have, test.want)
		}
	}
}

func TestForbiddenAndWantedHeaders(t *testing.T) {
	s := server(t, `{"forbid":["sk-real"],"want_header":{"X-Api-Key":"dummy"},"turns":[{"text":"x"}]}`)
	r := httptest.NewRequest(http.MethodPost, "/v1/messages", strings.NewReader(history(`{"role":"user","content":"sk-real"}`)))
	r.Header.Set("Authorization", "Bearer sk-real")
	s.ServeHTTP(httptest.NewRecorder(), r)
	if have := s.Failures(); len(have) != 3 {
		t.Errorf("have %v", have)
	}
	for _, f := range s.Failures() {
		if strings.Contains(f, "sk-real") {
			t.Errorf("a failure repeats the secret: %s", f)
		}
	}
}

func TestOthersAnswerSideRequests(t *testing.T) {
	s := server(t, `{"turns":[{"text":"main"}],"others":[
		{"match":{"model":"haiku"},"turns":[{"text":"small"}]}, {"match":{"no_tools":true,"contains":"title"},"turns":[{"text":"a title"}]}]}`)
	for body, want := range map[string]string{
		history(user): "main",
		`{"model":"haiku","messages":[` + user + `]}`:                           "small",
		`{"model":"m","system":"write a title","messages":[` + user + `]}`:      "a title",
		`{"model":"m","system":[{"type":"text","text":"title"}],"messages":[]}`: "a title",
		`{"model":"m","messages":[` + user + `]}`:                               "main",
	} {
		if have := ask(s, body).Body.String(); !strings.Contains(have, `"`+want+`"`) {
			t.Errorf("%s: have %s, want %s", body, have, want)
		}
	}
}

func TestFaults(t *testing.T) {
	srv := httptest.NewServer(server(t, `{"turns":[{"text":"late","fault":{"status":529,"times":2,"retry_after":3}}]}`))
	defer srv.Close()
	for i, want := range []int{529, 529, 200} {
		resp, err := http.Post(srv.URL+"/v1/messages", "application/json", strings.NewReader(history(user)))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want || (want == 529) != (resp.Header.Get("Retry-After") == "3") {
			t.Errorf("request %d: have %s", i, resp.Status)
		}
	}
}

func TestStreamsAndTheirFaults(t *testing.T) {
	tests := map[string]struct {
		turn string
		want []string
		cut  bool
	}{
		"text and a tool": {`{"thinking":"hm","text":"hello","tools":[{"name":"Bash","input":{"command":"ls"}}]}`,
			[]string{"event: message_start", "thinking_delta", `"text":"hello"`, `{\"command\":\"ls\"}`, `"toolu_0_0"`, `"stop_reason":"tool_use"`, "event: message_stop"}, false},
		"malformed input":  {`{"tools":[{"name":"Bash","raw":"{\"command\": "}]}`, []string{`"partial_json":"{\"command\": "`, "message_stop"}, false},
		"cut":              {`{"text":"x","fault":{"cut_after":2}}`, []string{"message_start", "content_block_start"}, true},
		"an error event":   {`{"text":"x","fault":{"error_after":1}}`, []string{"message_start", "event: error", "overloaded_error"}, false},
		"a huge line":      {`{"text":"y","fault":{"huge":200000}}`, []string{strings.Repeat("x", 200_000), "message_stop"}, false},
		"slow":             {`{"text":"x","fault":{"delay_ms":1}}`, []string{"message_stop"}, false},
		"a stop of choice": {`{"text":"x","stop":"max_tokens","usage":{"input_tokens":7,"output_tokens":9}}`, []string{`"max_tokens"`, `"input_tokens":7`, `"output_tokens":9`}, false},
	}
	for name, test := range tests {
		srv := httptest.NewServer(server(t, `{"turns":[`+test.turn+`]}`))
		resp, err := http.Post(srv.URL+"/v1/messages", "application/json", strings.NewReader(`{"stream":true,`+history(user)[1:]))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		srv.Close()
		if (err != nil) != test.cut {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range test.want {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: want %.80q in %.2000s", name, want, text)
			}
		}
	}
}

func TestAHangEndsWithTheClient(t *testing.T) {
	s := server(t, `{"turns":[{"fault":{"hang":true}}]}`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/messages", strings.NewReader(history(user))))
}

func TestScriptsThatCannotBePlayedAreRefused(t *testing.T) {
	for _, script := range []string{
		``, `{}`, `[]`, `{"turns":[]}`, `{"turns":[{}]}`, `{"turns":[{"text":"x"}],"unknown":1}`, `{"turns":[{"text":"x","expect":{"matches":["("]}}]}`,
		`{"turns":[{"text":"x"}]} {}`, `{"turns":[{"tools":[{"input":{}}]}]}`, `{"turns":[{"tools":[{"name":"x","input":{},"raw":"y"}]}]}`,
		`{"turns":[{"text":"x"}],"others":[{"match":{},"turns":[{"text":"y"}]}]}`, `{"turns":[{"text":"x"}],"others":[{"match":{"model":"("},"turns":[{"text":"y"}]}]}`,
	} {
		if _, err := scriptedmodel.Read(strings.NewReader(script)); err == nil {
			t.Errorf("accepted: %s", script)
		}
	}
	if _, err := scriptedmodel.Load(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there was loaded")
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "script.json")
	if err := os.WriteFile(path, []byte(`{"turns":[{"text":"hello"},{"fault":{"hang":true}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	script, err := scriptedmodel.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- scriptedmodel.New(script).Serve(ctx, l) }()
	client := &http.Client{Transport: &http.Transport{}, Timeout: 20 * time.Second}
	resp, err := client.Post("http://"+l.Addr().String()+"/v1/messages", "application/json", strings.NewReader(history(user)))
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	client.CloseIdleConnections()
	cancel()
	if err := <-done; err != nil || !strings.Contains(string(text), "hello") {
		t.Errorf("have %v %s", err, text)
	}
}
