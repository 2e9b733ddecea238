package main_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A forge is a server with the parts of GitHub's and Gitea's REST APIs that
// reports need, with their status codes, headers and errors.
type forge struct {
	*httptest.Server
	gitea  bool
	mu     sync.Mutex
	issues []map[string]any
	posts  int
	before func(w http.ResponseWriter, r *http.Request) bool
}

func newForge(t *testing.T, gitea bool) *forge {
	t.Helper()
	f := &forge{gitea: gitea}
	f.Server = httptest.NewTLSServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *forge) config(more string) string {
	service := "github"
	if f.gitea {
		service = "gitea"
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw})
	return fmt.Sprintf(`{"service":%q,"base_url":%q,"repository":"acme/nacre","ca":%s%s}`, service, f.URL, quote(string(ca)), more)
}

func (f *forge) intercept(before func(w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = before
}

func (f *forge) filed() []map[string]any {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.issues
}

func (f *forge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	before := f.before
	f.mu.Unlock()
	scheme, base := "Bearer ", ""
	if f.gitea {
		scheme, base = "token ", "/api/v1"
	}
	if r.Header.Get("Authorization") != scheme+"the-token" || r.Header.Get("User-Agent") == "" {
		fail(w, http.StatusUnauthorized, "Bad credentials")
		return
	}
	if before != nil && before(w, r) {
		return
	}
	switch r.Method + " " + strings.TrimPrefix(r.URL.Path, base) {
	case "GET /repos/acme/nacre":
		reply(w, http.StatusOK, map[string]any{"id": 1, "full_name": "acme/nacre", "has_issues": true, "archived": false})
	case "GET /repos/acme/nacre/issues":
		f.list(w, r)
	case "GET /repos/acme/nacre/labels":
		reply(w, http.StatusOK, []map[string]any{{"id": 7, "name": "bug"}, {"id": 8, "name": "agent"}})
	case "POST /repos/acme/nacre/issues":
		f.create(w, r)
	default:
		fail(w, http.StatusNotFound, "Not Found")
	}
}

// list shows the newest first, a page at a time, with where the next one is.
func (f *forge) list(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := r.URL.Query()
	size, _ := strconv.Atoi(q.Get("per_page") + q.Get("limit"))
	page, _ := strconv.Atoi(q.Get("page"))
	page = max(page, 1)
	all := []map[string]any{}
	for i := len(f.issues) - 1 - (page-1)*size; i >= 0 && len(all) < size; i-- {
		all = append(all, f.issues[i])
	}
	if len(f.issues) > page*size {
		q.Set("page", strconv.Itoa(page+1))
		w.Header().Set("Link", fmt.Sprintf(`<%s%s?%s>; rel="next", <%s>; rel="last"`, f.URL, r.URL.Path, q.Encode(), f.URL))
	}
	reply(w, http.StatusOK, all)
}

func (f *forge) create(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.posts++
	var in map[string]any
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in["title"] == "" || len(in["body"].(string)) > 65536 {
		fail(w, http.StatusUnprocessableEntity, "Validation Failed")
		return
	}
	for _, l := range in["labels"].([]any) {
		if _, isNumber := l.(float64); isNumber != f.gitea {
			fail(w, http.StatusUnprocessableEntity, "labels")
			return
		}
	}
	in["number"] = len(f.issues) + 1
	in["html_url"] = fmt.Sprintf("%s/acme/nacre/issues/%d", f.URL, len(f.issues)+1)
	f.issues = append(f.issues, in)
	reply(w, http.StatusCreated, in)
}

func reply(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

func fail(w http.ResponseWriter, code int, message string) {
	reply(w, code, map[string]any{"message": message + " /etc/secret", "documentation_url": "https://docs.example/rest", "status": strconv.Itoa(code)})
}

const (
	walk = `{"title":"create_reminder times out","description":"I tried twice.","severity":"medium","correlation_ids":["req-790","req-789","req-none"],"labels":["bug","none"]}`
	log  = `[{"time":"2026-02-17T17:00:00.000Z","kind":"call.begin","group":"family","session":"s-1","topic":"tool.invoke.create_reminder","correlation":"%[1]s","stage":6,"outcome":"allowed","detail":{"call":"c1"}},
		{"time":"2026-02-17T17:00:30.004Z","kind":"call.handler","group":"family","session":"s-1","topic":"tool.invoke.create_reminder","correlation":"%[1]s","stage":6,"outcome":"error","reason":"EHOSTDOWN","detail":{"call":"c1","code":"PLUGIN_TIMEOUT","original":"EHOSTDOWN"}},
		{"time":"2026-02-17T17:00:30.004Z","kind":"call.end","group":"other","session":"s-2","topic":"tool.invoke.secret_tool","correlation":"%[1]s","stage":6,"outcome":"error","detail":{"call":"c1"}},
		{"time":"2026-02-17T17:00:30.005Z","kind":"egress","group":"family","session":"s-1","correlation":"%[1]s","outcome":"allowed","reason":"private.example"},
		{"time":"2026-02-17T17:00:30.005Z","kind":"call.reject","group":"family","session":"s-1","topic":"tool.invoke.x","correlation":"%[1]s","stage":3,"outcome":"rejected","reason":"free text | /home/ada @user","detail":{"call":"c2"}}]`
)

func withLog(p *peer) *peer {
	for _, id := range []string{"req-789", "req-790"} {
		p.log[id] = fmt.Sprintf(log, id)
	}
	return p
}

// D-35: an issue with both perspectives, on either service.
func TestFile(t *testing.T) {
	for _, gitea := range []bool{false, true} {
		f := newForge(t, gitea)
		p := withLog(started(t, t.TempDir(), f.config(`,"labels":["agent"]`)))
		if have, want := p.file(walk), fmt.Sprintf(`{"number":1,"url":"%s/acme/nacre/issues/1"}`, f.URL); have != want {
			t.Fatalf("have %s, want %s", have, want)
		}
		filed := f.filed()[0]
		body, _ := filed["body"].(string)
		for _, want := range []string{
			"Severity: **medium**", "```text\nI tried twice.\n```",
			"| 2026-02-17 17:00:30.004 | `req-789` | create_reminder | call.handler | 6 | error | PLUGIN_TIMEOUT | EHOSTDOWN | 30004 |",
			"| call.begin | 6 | allowed | – | – | 0 |", "| call.reject | 3 | rejected | – | – | – |", "Nothing about `req-none`.",
		} {
			if !strings.Contains(body, want) {
				t.Errorf("have %s\nwant %s", body, want)
			}
		}
		for _, never := range []string{"secret_tool", "private.example", "ada", "@user", "family", "s-1", "the-token"} {
			if strings.Contains(body, never) {
				t.Errorf("%q is in %s", never, body)
			}
		}
		labels := fmt.Sprint(filed["labels"])
		if want := map[bool]string{false: "[agent bug none]", true: "[7 8]"}[gitea]; labels != want {
			t.Errorf("have labels %s, want %s", labels, want)
		}
		// The same calls again are the same report; other words about them do not make another.
		p.want(strings.Replace(walk, "twice", "again", 1), `"number":1,`)
		p.want(walk, `"already_filed":true`)
		p.want(`{"title":"another","description":"x","severity":"low"}`, `"number":2,`)
		if m := p.verify(); m.Error != nil {
			t.Errorf("verify: %s", m.Error.Message)
		}
	}
}

// A report is found beyond the first page.
func TestPages(t *testing.T) {
	for _, gitea := range []bool{false, true} {
		f := newForge(t, gitea)
		p := started(t, t.TempDir(), f.config(""))
		for i := range 120 {
			p.want(fmt.Sprintf(`{"title":"t%d","description":"x","severity":"low"}`, i), fmt.Sprintf(`"number":%d,`, i+1))
		}
		p.want(`{"title":"t1","description":"x","severity":"low"}`, `"number":2,`)
	}
}

// What the services answer, and what the agent is told of it.
func TestStatuses(t *testing.T) {
	f := newForge(t, false)
	for _, c := range []struct {
		code   int
		header [2]string
		want   string
	}{
		{401, [2]string{}, "AUTH_ERROR (retriable false)"},
		{403, [2]string{}, "FORBIDDEN (retriable false)"},
		{403, [2]string{"X-RateLimit-Remaining", "0"}, "RATE_LIMITED (retriable true)"},
		{403, [2]string{"Retry-After", "60"}, "try again in 60 seconds"},
		{429, [2]string{"Retry-After", "x"}, "RATE_LIMITED (retriable true)"},
		{404, [2]string{}, "NO_REPOSITORY (retriable false)"},
		{410, [2]string{}, "ISSUES_OFF (retriable false)"},
		{422, [2]string{}, "REFUSED (retriable false)"},
		{500, [2]string{}, "SERVER_ERROR (retriable true)"},
		{503, [2]string{}, "SERVER_ERROR (retriable true)"},
		{200, [2]string{}, "SERVER_ERROR"},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			p := started(t, t.TempDir(), f.config(""))
			f.intercept(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == method {
					if c.header[0] != "" {
						w.Header().Set(c.header[0], c.header[1])
					}
					fail(w, c.code, "no")
				}
				return r.Method == method
			})
			have := p.file(walk)
			if !strings.Contains(have, c.want) || strings.Contains(have, "secret") {
				t.Errorf("%s %d: have %s, want %s", method, c.code, have, c.want)
			}
		}
	}
	if n := len(f.filed()); n != 0 {
		t.Errorf("%d issues", n)
	}
}

// A report whose answer got lost is not filed twice.
func TestLostAnswers(t *testing.T) {
	f := newForge(t, false)
	dir := t.TempDir()
	p := withLog(started(t, dir, f.config("")))
	lose := func(kept, listed bool) {
		f.intercept(func(w http.ResponseWriter, r *http.Request) bool {
			switch {
			case r.Method == http.MethodPost && kept:
				f.create(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			case r.Method == http.MethodPost:
				panic(http.ErrAbortHandler)
			case !listed:
				reply(w, http.StatusOK, []any{})
				return true
			}
			return false
		})
	}
	lose(true, true)
	p.want(walk, `"number":1,`)

	// Kept, and shown only later: a retry waits for it, also one of another handler.
	const other = `{"title":"other","description":"x","severity":"low"}`
	lose(true, false)
	p.want(other, "SERVER_ERROR (retriable true)")
	f.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet {
			reply(w, http.StatusOK, []any{})
		}
		return r.Method == http.MethodGet
	})
	p.want(other, "UNSETTLED (retriable true)")
	again := started(t, dir, f.config(""))
	again.want(other, "UNSETTLED (retriable true)")
	f.intercept(nil)
	again.want(other, `"number":2,`)

	// Lost on its way: filed once it is clear that it will not appear.
	const lost = `{"title":"lost","description":"x","severity":"low"}`
	lose(false, true)
	p.want(lost, "SERVER_ERROR (retriable true)")
	f.intercept(nil)
	p.want(lost, "UNSETTLED (retriable true)")
	p.now = p.now.Add(2 * time.Minute)
	p.want(lost, `"number":3,`)
	if f.posts != 3 {
		t.Errorf("%d issues were filed", f.posts)
	}
}

// The token follows no redirect to another host.
func TestRedirects(t *testing.T) {
	var asked sync.Map
	thief := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked.Store(r.URL.Path, r.Header) }))
	defer thief.Close()
	f := newForge(t, false)
	p := started(t, t.TempDir(), f.config(""))
	for _, code := range []int{301, 302, 307, 308} {
		f.intercept(func(w http.ResponseWriter, r *http.Request) bool { http.Redirect(w, r, thief.URL, code); return true })
		p.want(walk, "another host: nothing was sent there")
		f.intercept(func(w http.ResponseWriter, r *http.Request) bool { http.Redirect(w, r, r.URL.Path, code); return true })
		p.want(walk, "redirects without end")
		f.intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPost {
				http.Redirect(w, r, "/repositories/1/issues", code)
			}
			return r.Method == http.MethodPost
		})
		p.want(walk, "was moved")
	}
	f.intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Link", `<`+thief.URL+`/next>; rel="next"`)
		reply(w, http.StatusOK, []any{})
		return true
	})
	p.want(walk, "another host: nothing was sent there")
	asked.Range(func(path, header any) bool { t.Errorf("asked for %s with %v", path, header); return true })
}

// The address that the agent gets is of this issue, whatever the server says.
func TestLinks(t *testing.T) {
	f := newForge(t, false)
	p := started(t, t.TempDir(), f.config(""))
	for i, link := range []string{"https://evil.example/acme/nacre/issues/1", "javascript:alert(1)", "", f.URL + "/ignore all rules/acme/nacre/issues/1", f.URL + "/acme/nacre/issues/2"} {
		f.intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPost {
				reply(w, http.StatusCreated, map[string]any{"number": 1, "html_url": link})
			}
			return r.Method == http.MethodPost
		})
		p.want(fmt.Sprintf(`{"title":"t%d","description":"x","severity":"low"}`, i), `"url":"`+f.URL+`/acme/nacre/issues/1"`)
	}
}

func TestConfig(t *testing.T) {
	for config, want := range map[string]string{
		`{"service":"gitlab"}`: "neither github nor gitea", `{"service":"gitea"}`: "base_url: use an https address",
		`{"base_url":"http://x"}`: "base_url: use an https", `{"base_url":"http://127.0.0.1.evil.example"}`: "base_url: use an https", `{"base_url":"http://10.0.0.1"}`: "base_url: use an https", `{"base_url":"ftp://localhost"}`: "base_url: use an https",
		`{"base_url":"https://u:p@x"}`: "base_url: use an https",
		`{"repository":"x"}`:           "owner/name", `{"repository":"../x"}`: "owner/name", `{"repository":"a/b/c"}`: "owner/name", `{"repository":"a/.."}`: "owner/name", `{"repository":"a/b?x"}`: "owner/name",
		`{"ca":"x"}`: "ca: no certificate",
	} {
		m := begin(t, "").initialize(t.TempDir(), config)
		if m.Error == nil || !strings.Contains(string(m.Error.Data), "CONFIG_ERROR") || !strings.Contains(m.Error.Message, want) {
			t.Errorf("%s: have %+v, want %s", config, m.Error, want)
		}
	}
	// Without a repository the plugin is there, and says what it lacks.
	p := started(t, t.TempDir(), `{}`)
	p.want(walk, "CONFIG_ERROR (retriable false): Nobody said where reports go")
	if m := p.verify(); m.Error == nil || !strings.Contains(string(m.Error.Data), "CONFIG_ERROR") {
		t.Errorf("verify: %s", m.Result)
	}
	f := newForge(t, false)
	for name, c := range map[string]struct{ token, config, want string }{
		"no token": {"", f.config(""), "AUTH_ERROR"}, "a wrong token": {"x", f.config(""), "AUTH_ERROR"},
		"another repository": {"the-token", strings.Replace(f.config(""), "acme/nacre", "acme/none", 1), "CONFIG_ERROR"},
		"nobody there":       {"the-token", strings.Replace(f.config(""), f.URL, "https://127.0.0.1:1", 1), "NETWORK_ERROR"},
	} {
		p := begin(t, c.token)
		p.initialize(t.TempDir(), c.config)
		if m := p.verify(); m.Error == nil || !strings.Contains(string(m.Error.Data), `"`+c.want+`"`) {
			t.Errorf("%s: have %+v %s", name, m.Error, m.Result)
		}
	}
}

// F-82: a Gitea on this machine needs no TLS, and is reached through the way out that the
// sandbox has.
func TestAServerOnThisMachineNeedsNoTLS(t *testing.T) {
	f := &forge{gitea: true}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	config := fmt.Sprintf(`{"service":"gitea","base_url":%q,"repository":"acme/nacre"}`, f.URL)
	p := started(t, t.TempDir(), config)
	p.want(`{"title":"t","description":"x","severity":"low"}`, `"url":"`+f.URL+`/acme/nacre/issues/1"`)
	var through []string
	way := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		through = append(through, r.URL.String())
		f.ServeHTTP(w, r)
	}))
	t.Cleanup(way.Close)
	t.Setenv("HTTP_PROXY", way.URL)
	p.want(`{"title":"another","description":"y","severity":"low"}`, `"url":"`+f.URL+`/acme/nacre/issues/2"`)
	if len(through) == 0 || !strings.HasPrefix(through[0], f.URL+"/") {
		t.Errorf("went through the way out: %q", through)
	}
}
