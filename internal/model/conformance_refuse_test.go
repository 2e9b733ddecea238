package model_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/model"
)

// refusals sends bodies that must be refused, with the reason and the vendor's form of an error.
func refusals(t *testing.T, s speech, change func(*http.Request), tests map[string]refused) {
	t.Helper()
	hits := 0
	b := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits++ }), everyDialect)
	for name, test := range tests {
		before := len(b.log.all())
		resp, text := b.ask(t, s, test.body, change)
		records := b.log.all()
		if len(records) != before+1 || records[before].Reason != string(test.want) || records[before].Outcome != nacre.OutcomeDenied {
			t.Errorf("%s: want %s, have %d %.300s", name, test.want, resp.StatusCode, text)
		}
		if resp.StatusCode < 400 || !strings.Contains(text, s.failure) || !strings.Contains(text, "nacre: ") {
			t.Errorf("%s: have %d %.300s", name, resp.StatusCode, text)
		}
	}
	if hits != 0 {
		t.Errorf("LET THROUGH: %d calls", hits)
	}
	spent(t, b, 0, 0, 0)
}

type refused struct {
	body string
	want model.Reason
}

func malformed(t *testing.T, s speech) {
	deep := strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200)
	refusals(t, s, nil, map[string]refused{
		"nothing":                       {``, model.ReasonMalformed},
		"no object":                     {`[]`, model.ReasonMalformed},
		"null":                          {`null`, model.ReasonMalformed},
		"half an object":                {s.call("")[:20], model.ReasonMalformed},
		"two objects":                   {s.call("") + s.call(""), model.ReasonMalformed},
		"a key twice":                   {s.call(`"model":"x",`), model.ReasonMalformed},
		"a key twice by an escape":      {s.call(`"mod\u0065l":"x",`), model.ReasonMalformed},
		"a key twice within":            {s.call(`"metadata":{"user_id":"a","user_id":"b"},`), model.ReasonMalformed},
		"not UTF-8":                     {s.call("\"user\":\"\xff\","), model.ReasonMalformed},
		"a lone surrogate":              {s.call(`"user":"\ud800",`), model.ReasonMalformed},
		"a byte order mark":             {"\ufeff" + s.call(""), model.ReasonMalformed},
		"nested deep":                   {s.call(`"metadata":` + deep + `,`), model.ReasonMalformed},
		"no model":                      {`{` + s.body + `}`, model.ReasonMalformed},
		"a model that is no text":       {strings.Replace(s.call(""), `"`+s.model+`"`, `["`+s.model+`"]`, 1), model.ReasonMalformed},
		"a model beyond ASCII":          {strings.Replace(s.call(""), s.model, s.model+"\u200b", 1), model.ReasonMalformed},
		"nothing said":                  {`{"model":"` + s.model + `"}`, model.ReasonMalformed},
		"the most of nothing":           {s.call(`"` + s.max + `":0,`), model.ReasonMalformed},
		"the most below nothing":        {s.call(`"` + s.max + `":-1,`), model.ReasonMalformed},
		"the most as a fraction":        {s.call(`"` + s.max + `":1.5,`), model.ReasonMalformed},
		"the most as a text":            {s.call(`"` + s.max + `":"5",`), model.ReasonMalformed},
		"the most without end":          {s.call(`"` + s.max + `":99999999999999999999,`), model.ReasonMalformed},
		"a stream that is no truth":     {s.call(`"stream":"yes",`), model.ReasonMalformed},
		"more than the limit":           {strings.Replace(s.call(""), "WORD", strings.Repeat("x", 33<<20), 1), model.ReasonTooLarge},
		"a field nobody knows":          {s.call(`"hologram":1,`), model.ReasonField},
		"a field in another case":       {s.call(`"Tools":[],`), model.ReasonField},
		"tools that are no array":       {s.call(`"tools":{},`), model.ReasonMalformed},
		"a tool that is no object":      {s.call(`"tools":["x"],`), model.ReasonMalformed},
		"a stream twice by case within": {s.call(`"stream":true,"stream":false,`), model.ReasonMalformed},
	})
}

func notOnTheList(t *testing.T, s speech) {
	hits := 0
	b := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits++ }), everyDialect)
	for _, target := range []string{
		s.path + "/", "/" + s.path, s.path + "/x", s.path + "?x=1", s.path + "?beta=true&x=1", s.path + "%2f", s.path + "/..", "/x/.." + s.path, s.path + ";a", s.path + "#a",
		strings.ToUpper(s.path), strings.Replace(s.path, "v1", "v2", 1), strings.TrimPrefix(s.path, "/v1"), "/v1/files", "/v1/batches", "/v1/messages/batches", "/v1/uploads",
		"/v1/responses/resp_1", "/v1/responses/resp_1/cancel", "/v1/responses/compact", "/v1/conversations", "/v1/vector_stores", "/v1/containers", "/v1/assistants", "/v1/threads",
		"/v1/embeddings", "/v1/images/generations", "/v1/audio/speech", "/v1/realtime", "/v1/completions", "/v1/chat/completions/x/messages", "/v1/models/" + s.model,
		"/v1/organization/usage", "/api/generate", "/api/pull", "/metrics", "*", "/",
	} {
		before := len(b.log.all())
		resp, text := b.ask(t, s, s.call(""), func(r *http.Request) { r.URL.Opaque = target; r.URL.Path = "" })
		if records := b.log.all(); resp.StatusCode != 404 && resp.StatusCode != 400 || len(records) > before && records[before].Reason != string(model.ReasonPath) {
			t.Errorf("%s: have %d %.200s", target, resp.StatusCode, text)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodHead, http.MethodOptions, "post", "BREW"} {
		if resp, text := b.ask(t, s, s.call(""), func(r *http.Request) { r.Method = method }); resp.StatusCode != 404 {
			t.Errorf("%s: have %d %.200s", method, resp.StatusCode, text)
		}
	}
	for name, change := range map[string]func(*http.Request){
		"no token":         func(r *http.Request) { r.Header.Del("Authorization"); r.Header.Del("X-Api-Key") },
		"the real key":     func(r *http.Request) { r.Header.Del("X-Api-Key"); r.Header.Set("Authorization", "Bearer "+realKey) },
		"basic":            func(r *http.Request) { r.Header.Del("X-Api-Key"); r.Header.Set("Authorization", "Basic "+token) },
		"a token and more": func(r *http.Request) { r.Header.Del("X-Api-Key"); r.Header.Set("Authorization", "Bearer "+token+"x") },
		"the token in the query": func(r *http.Request) {
			r.Header.Del("X-Api-Key")
			r.Header.Del("Authorization")
			r.URL.RawQuery = "key=" + token
		},
	} {
		if resp, text := b.ask(t, s, s.call(""), change); resp.StatusCode != 401 || !strings.Contains(text, s.failure) {
			t.Errorf("%s: have %d %.200s", name, resp.StatusCode, text)
		}
	}
	if hits != 0 {
		t.Errorf("LET THROUGH: %d calls", hits)
	}
	spent(t, b, 0, 0, 0)
}

func headers(t *testing.T, s speech) {
	up := scripted(t, `{"want_header":{"`+s.header+`":"`+map[bool]string{true: "", false: "Bearer "}[s.header == "X-Api-Key"]+realKey+`"},"forbid":["`+token+`"],"turns":[{"text":"x"}]}`)
	b := start(t, up, everyDialect)
	_, _ = b.ask(t, s, s.call(""), func(r *http.Request) {
		for name, value := range map[string]string{
			"OpenAI-Organization": "org-evil", "OpenAI-Project": "proj-evil", "OpenAI-Beta": "assistants=v2", "Api-Key": "evil", "Cookie": "a=b",
			"X-Forwarded-For": "1.2.3.4", "X-Codex-Turn-Metadata": "{}", "Proxy-Authorization": "Basic x", "X-Stainless-Lang": "js", "Originator": "x",
			"Anthropic-Beta": "files-api-2025-04-14", "X-Goog-Api-Key": "evil", "Forwarded": "for=x", "Te": "trailers", "User-Agent": "brain/1.2.3 (AKIADECOYDECOYDECOY; x)", "X-App": "AKIADECOYDECOYDECOY2",
		} {
			r.Header.Set(name, value)
		}
	})
	b.stop()
	want := map[string]bool{s.header: true, "User-Agent": true, "Content-Type": true, "Content-Length": true, "Accept-Encoding": true, "Anthropic-Version": s.dialect == model.Anthropic}
	for name := range up.Requests()[0].Header {
		if !want[name] {
			t.Errorf("the upstream saw %s", name)
		}
	}
	if have := up.Requests()[0].Header.Get("User-Agent"); have != "brain/1.2.3" {
		t.Errorf("the upstream saw the client %q", have)
	}
	if d := detailOf(t, b.log.all()[0]); d.Dropped == 0 {
		t.Error("nothing was said to be left out")
	}
}

func noRecord(t *testing.T, s speech) {
	hits := 0
	b := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits++ }), everyDialect)
	b.log.mu.Lock()
	b.log.fail = true
	b.log.mu.Unlock()
	if resp, text := b.ask(t, s, s.call(""), nil); resp.StatusCode != 403 || hits != 0 || !strings.Contains(text, s.failure) {
		t.Errorf("have %d %s, %d calls", resp.StatusCode, text, hits)
	}
	spent(t, b, 0, 0, 0)
}

func observed(t *testing.T, s speech) {
	var seen []string
	b := start(t, scripted(t, `{"turns":[{"text":"x"}]}`), func(o *model.Options) {
		everyDialect(o)
		o.Observe = func(body []byte) { seen = append(seen, string(body)) }
	})
	_, _ = b.ask(t, s, s.call(""), nil)
	_, _ = b.ask(t, s, s.call(`"hologram":1,`), nil)
	b.stop()
	if len(seen) != 1 || seen[0] != s.call("") {
		t.Errorf("have %q", seen)
	}
}

func compressed(t *testing.T, s speech) {
	var zipped strings.Builder
	w := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(w, s.call(""))
	_ = w.Close()
	for _, encoding := range []string{"gzip", "zstd", "br", "deflate", "identity", ""} {
		refusals(t, s, func(r *http.Request) { r.Header["Content-Encoding"] = []string{encoding} }, map[string]refused{
			"zipped " + encoding: {zipped.String(), model.ReasonMalformed}, "plain " + encoding: {s.call(""), model.ReasonMalformed},
		})
	}
	refusals(t, s, nil, map[string]refused{"zipped and not said": {zipped.String(), model.ReasonMalformed}})
	for _, kind := range []string{"", "text/plain", "application/json, text/plain", "multipart/form-data; boundary=x", "application/x-ndjson"} {
		refusals(t, s, func(r *http.Request) { r.Header.Set("Content-Type", kind) }, map[string]refused{kind: {s.call(""), model.ReasonMalformed}})
	}
}

func noPrice(t *testing.T, s speech) {
	tests := map[string]refused{}
	for _, id := range []string{"gpt-9", s.model + "-preview", s.model + ":online", strings.ToUpper(s.model), "ft:" + s.model + ":org::x", s.model + "/", "openrouter/auto", "-2025-01-01"} {
		tests[id] = refused{strings.Replace(s.call(""), s.model, id, 1), model.ReasonNoPrice}
	}
	refusals(t, s, nil, tests)
}

func stored(t *testing.T, s speech) {
	want := model.ReasonStored
	if s.dialect == model.Anthropic {
		want = model.ReasonField
	}
	refusals(t, s, nil, map[string]refused{"store": {s.call(`"store":true,`), want}})
}

// A client is named with its version, released or not, and with nothing else.
func TestAClientIsNamedWithItsVersion(t *testing.T) {
	s := speeches[0]
	for given, want := range map[string]string{
		"codex_cli_rs/0.46.0-alpha.1 (Linux; x86_64) xterm": "codex_cli_rs/0.46.0-alpha.1", "OpenAI/Python 1.55.0": "OpenAI/Python 1.55.0",
		"AsyncOpenAI/Python 2.0.0rc1": "AsyncOpenAI/Python 2.0.0rc1", "Anthropic/JS 0.60.0 (x)": "Anthropic/JS 0.60.0", "claude-cli/2.0.1 (external, cli)": "claude-cli/2.0.1",
		"tool/1.0-nightly.20261122": "tool/1.0-nightly.20261122", "tool": "tool", "tool/1.2b3": "tool/1.2b3",
		"tool/1.0-AKIADECOY": "nacre", "OpenAI/Python AKIADECOY": "nacre", "tool/1.0-alphaAKIA": "nacre", "OpenAI/AKIA 1.2": "nacre", "tool/alpha/beta": "nacre", "": "nacre",
		"tool/1234567890.1234567890.1234": "nacre",
	} {
		up := scripted(t, `{"turns":[{"text":"x"}]}`)
		b := start(t, up, everyDialect)
		_, _ = b.ask(t, s, s.call(""), func(r *http.Request) { r.Header.Set("User-Agent", given) })
		b.stop()
		if have := up.Requests()[0].Header.Get("User-Agent"); have != want {
			t.Errorf("%q: have %q, want %q", given, have, want)
		}
	}
}
