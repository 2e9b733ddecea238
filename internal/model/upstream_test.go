package model_test

import (
	"bufio"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/budget"
	"github.com/nacre-dev/nacre/internal/model"
)

// M-04: each upstream gets its own key and no other; the model and the dialect choose.
func TestUpstreamsAreChosenByDialectAndModel(t *testing.T) {
	var srvs []*httptest.Server
	var hits []string
	for _, name := range []string{"local", "openai", "claude"} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			hits = append(hits, name+" "+r.URL.Path+" "+r.Header.Get("Authorization")+r.Header.Get("X-Api-Key"))
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"usage":{"input_tokens":1,"output_tokens":1}}`)
		}))
		defer srv.Close()
		srvs = append(srvs, srv)
	}
	at := func(i int, path string) *url.URL { u, _ := url.Parse(srvs[i].URL + path); return u }
	b := start(t, http.NotFoundHandler(), func(o *model.Options) {
		o.Upstreams = []model.Upstream{
			{URL: at(0, "/v1"), Dialects: []model.Dialect{model.Chat}, Models: []string{"qwen3:8b", "gpt-5.2"}, Prices: budget.Table{"qwen3:8b": {Free: true}}},
			{URL: at(1, "/prefix/v1/"), Key: nacre.NewSecret("sk-openai"), Dialects: []model.Dialect{model.Chat, model.Responses}},
			{URL: at(2, ""), Key: nacre.NewSecret("sk-claude"), Dialects: []model.Dialect{model.Anthropic}},
		}
	})
	for _, test := range []struct {
		s    speech
		id   string
		want string
	}{
		{inChat, "qwen3:8b", "local /v1/chat/completions "},
		{inChat, "gpt-5.1", "openai /prefix/v1/chat/completions Bearer sk-openai"},
		{inResponses, "gpt-5.1", "openai /prefix/v1/responses Bearer sk-openai"},
		{speeches[0], "claude-opus-5-5", "claude /v1/messages sk-claude"},
		{inChat, "gpt-5.2", ""},       // named for an upstream that has no price for it
		{inResponses, "qwen3:8b", ""}, // free here is not free there
	} {
		hits = nil
		resp, text := b.ask(t, test.s, strings.Replace(test.s.call(""), test.s.model, test.id, 1), nil)
		if test.want == "" {
			if len(hits) != 0 || resp.StatusCode != 400 {
				t.Errorf("%s: have %d %s %v", test.id, resp.StatusCode, text, hits)
			}
		} else if !slices.Equal(hits, []string{test.want}) {
			t.Errorf("%s: have %v %s, want %s", test.id, hits, text, test.want)
		}
	}
	b.stop()
	if cost, _, _ := b.gateway.Spent(); cost == 0 {
		t.Error("nothing was charged")
	}
}

// M-04: what an upstream was named for is asked nowhere else where its key is missing.
func TestAnUpstreamThatLacksItsKeyIsNotReplaced(t *testing.T) {
	var asked []string
	b := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, string(body))
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"usage":{"input_tokens":1,"output_tokens":1}}`)
	}), func(o *model.Options) {
		o.Upstreams = []model.Upstream{
			{URL: o.Upstreams[0].URL, Dialects: []model.Dialect{model.Anthropic}, Models: []string{"claude-opus-5-5"}, Lacks: "CORP_KEY is not set"},
			{URL: o.Upstreams[0].URL, Dialects: []model.Dialect{model.Chat}, Lacks: "OTHER_KEY is not set"},
			o.Upstreams[0],
		}
	})
	resp, text := b.post(t, hello, nil)
	if resp.StatusCode != http.StatusNotFound || !strings.Contains(text, "CORP_KEY is not set") || len(asked) != 0 {
		t.Errorf("have %d %s, asked %q", resp.StatusCode, text, asked)
	}
	if resp, text := b.ask(t, inChat, inChat.call(""), nil); resp.StatusCode != http.StatusNotFound || len(asked) != 0 {
		t.Errorf("have %d %s, asked %q", resp.StatusCode, text, asked)
	}
	if resp, text := b.post(t, strings.Replace(hello, "claude-opus-5-5", "claude-haiku-4-5", 1), nil); resp.StatusCode != http.StatusOK || len(asked) != 1 {
		t.Errorf("another model: have %d %s, asked %q", resp.StatusCode, text, asked)
	}
}

// A call that met a stranger was not made.
func TestAnUpstreamWithAStrangeCertificateIsNotPaid(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	u, _ := url.Parse(srv.URL)
	b := start(t, http.NotFoundHandler(), func(o *model.Options) {
		everyDialect(o)
		o.Upstreams[0].URL = u
	})
	if resp, text := b.ask(t, inChat, inChat.call(""), nil); resp.StatusCode != 502 {
		t.Errorf("have %d %s", resp.StatusCode, text)
	}
	spent(t, b, 0, 0, 0)
}

func TestUpstreamsThatAreRefused(t *testing.T) {
	u := func(s string) *url.URL { u, _ := url.Parse(s); return u }
	chat := []model.Dialect{model.Chat}
	for name, up := range map[string]model.Upstream{
		"nothing":                   {},
		"no dialect":                {URL: u("https://a.test")},
		"a dialect nobody knows":    {URL: u("https://a.test"), Dialects: []model.Dialect{"gopher"}},
		"in the clear":              {URL: u("http://a.test"), Dialects: chat},
		"in the clear, by a trick":  {URL: u("http://127.0.0.1.a.test"), Dialects: chat},
		"in the clear, by a number": {URL: u("http://2130706433"), Dialects: chat},
		"another scheme":            {URL: u("ftp://localhost"), Dialects: chat},
		"a user":                    {URL: u("https://u:p@a.test"), Dialects: chat},
		"a query":                   {URL: u("https://a.test?x=1"), Dialects: chat},
		"the session's token":       {URL: u("https://a.test"), Dialects: chat, Key: nacre.NewSecret(token)},
		"an empty model":            {URL: u("https://a.test"), Dialects: chat, Models: []string{""}},
		"a model with a space":      {URL: u("https://a.test"), Dialects: chat, Models: []string{"a b"}},
	} {
		b := start(t, http.NotFoundHandler(), nil)
		opts := b.opts
		opts.Upstreams = []model.Upstream{up}
		if _, err := model.New(opts); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// M-04: what models there are is answered here, out of the prices.
func TestModelsAreListedAndNeverAskedFor(t *testing.T) {
	hits := 0
	b := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits++ }), func(o *model.Options) {
		everyDialect(o)
		o.Prices = budget.Table{"b": {Free: true}, "a": {Input: 1, Output: 1}, "bad": {Input: 1}}
		o.Upstreams = append(o.Upstreams, model.Upstream{URL: o.Upstreams[0].URL, Dialects: []model.Dialect{model.Chat}, Models: []string{"c", "none"}, Prices: budget.Table{"c": {Free: true}}})
	})
	get := func(change func(*http.Request)) (answer, string) {
		return b.ask(t, inChat, "", func(r *http.Request) {
			r.Method, r.URL.Path, r.Body, r.ContentLength = http.MethodGet, "/v1/models", nil, 0
			change(r)
		})
	}
	for _, query := range []string{"", "client_version=1", "limit=1000"} {
		resp, text := get(func(r *http.Request) { r.URL.RawQuery = query })
		var list struct {
			Object string
			Data   []struct{ ID, Object, Type string }
		}
		if err := json.Unmarshal([]byte(text), &list); err != nil || resp.StatusCode != 200 || list.Object != "list" || len(list.Data) != 3 {
			t.Fatalf("have %d %s %v", resp.StatusCode, text, err)
		}
		for i, want := range []string{"a", "b", "c"} {
			if d := list.Data[i]; d.ID != want || d.Object != "model" || d.Type != "model" {
				t.Errorf("have %+v, want %s", d, want)
			}
		}
	}
	if resp, _ := get(func(r *http.Request) { r.Header.Del("Authorization") }); resp.StatusCode != 401 {
		t.Errorf("without the token: have %d", resp.StatusCode)
	}
	for _, path := range []string{"/v1/models/", "/v1/models/a", "/v1/%6dodels", "/v1/models/../files"} {
		if resp, text := get(func(r *http.Request) { r.URL.Opaque = path }); resp.StatusCode != 404 {
			t.Errorf("%s: have %d %s", path, resp.StatusCode, text)
		}
	}
	b.stop()
	if hits != 0 {
		t.Errorf("LET THROUGH: %d", hits)
	}
}

// What two servers could read in two ways is refused, or read in one way and written anew.
func TestRequestsCannotBeSmuggled(t *testing.T) {
	good := inChat.call("")
	length := func(n string) string { return "Content-Length: " + n + "\r\n" }
	head := "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer " + token + "\r\n"
	inner := "POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
	chunk := func(s string) string { return strconv.FormatInt(int64(len(s)), 16) + "\r\n" + s + "\r\n0\r\n\r\n" }
	for name, test := range map[string]struct {
		raw  string
		hits int
	}{
		"a length and chunks":            {head + length("5") + "Transfer-Encoding: chunked\r\n\r\n" + chunk(good) + inner, 1},
		"two lengths":                    {head + length("5") + length("6") + "\r\n" + good, 0},
		"a length with a sign":           {head + length("+5") + "\r\n" + good, 0},
		"two codings":                    {head + "Transfer-Encoding: chunked, chunked\r\n\r\n" + chunk(good), 0},
		"a coding nobody knows":          {head + "Transfer-Encoding: gzip, chunked\r\n\r\n" + chunk(good), 0},
		"a coding with a tab":            {head + "Transfer-Encoding:\tchunked\r\n\r\n" + chunk(good), 1},
		"a space before the colon":       {head + "Transfer-Encoding : chunked\r\n\r\n" + chunk(good), 0},
		"a folded header":                {head + "X-A: b\r\n c\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(good), 1},
		"an absolute target":             {strings.Replace(head, "/v1/chat", "http://evil.test/v1/chat", 1) + "Transfer-Encoding: chunked\r\n\r\n" + chunk(good), 0},
		"a target with a line feed":      {strings.Replace(head, " HTTP", "\n HTTP", 1) + "\r\n", 0},
		"HTTP/2 without being asked":     {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0},
		"an upgrade":                     {head + "Connection: Upgrade\r\nUpgrade: websocket\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(good), 1},
		"a tunnel":                       {"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test\r\nAuthorization: Bearer " + token + "\r\n\r\n", 0},
		"a trailer":                      {head + "Trailer: Authorization\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.TrimSuffix(chunk(good), "\r\n") + "X-Evil: 1\r\n\r\n", 1},
		"a body after the request's end": {head + length("2") + "\r\n{}" + inner, 0},
		"headers without end":            {head + "X-A: " + strings.Repeat("x", 100_000) + "\r\n\r\n", 0},
	} {
		var paths []string
		b := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			paths = append(paths, r.URL.Path)
			if !json.Valid(body) || r.ContentLength != int64(len(body)) || r.Header.Get("Upgrade") != "" || r.Header.Get("X-Evil") != "" || len(r.Trailer) > 0 {
				t.Errorf("%s: the upstream got %v %s", name, r.Header, body)
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"usage":{}}`)
		}), everyDialect)
		conn, err := net.Dial("unix", b.socket)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, test.raw)
		r := bufio.NewReader(conn)
		var first []byte
		if resp, err := http.ReadResponse(r, nil); err == nil {
			first, _ = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
		}
		_ = conn.(*net.UnixConn).CloseWrite() // a client that is half gone has left
		rest, _ := io.ReadAll(r)
		answers := append(first, rest...)
		_ = conn.Close()
		b.stop()
		for _, p := range paths {
			if p != "/v1/chat/completions" {
				t.Errorf("%s: LET THROUGH %s", name, p)
			}
		}
		if len(paths) != test.hits {
			t.Errorf("%s: have %d calls, want %d: %.400s", name, len(paths), test.hits, answers)
		}
	}
}

func parse(t testing.TB, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
