package web_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/question"
	"github.com/nacre-dev/nacre/internal/web"
)

const host = "127.0.0.1:4711"

// browser is a person's, and what it sends is what a browser would.
type browser struct {
	t       testing.TB
	handler http.Handler
	cookie  *http.Cookie
}

func (b *browser) send(method, path string, form url.Values, change func(*http.Request)) *httptest.ResponseRecorder {
	b.t.Helper()
	r := httptest.NewRequest(method, "http://"+host+path, strings.NewReader(form.Encode()))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://"+host)
	}
	if b.cookie != nil {
		r.AddCookie(b.cookie)
	}
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	return w
}

func asked(words string) nacre.Question {
	arguments, _ := json.Marshal(map[string]string{"text": words})
	return nacre.Question{
		ID: "7d2q", Session: "s1", Group: "main", Capability: "bank.pay", Arguments: arguments, Digest: "d",
		Why: "it spends", AgentWords: words, Expires: time.Unix(2000, 0),
	}
}

func open(t testing.TB, d *office) (b *browser, code string, clock *time.Time) {
	t.Helper()
	now := time.Unix(1000, 0)
	o := d.options(func() time.Time { return now })
	site, code, err := web.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(site.Close)
	return &browser{t: t, handler: site.Handler()}, code, &now
}

func signedIn(t testing.TB, d *office) *browser {
	t.Helper()
	b, code, _ := open(t, d)
	w := b.send(http.MethodPost, "/sign-in", url.Values{"code": {code}}, nil)
	if w.Code != http.StatusSeeOther || len(w.Result().Cookies()) != 1 {
		t.Fatalf("sign-in: %d %s", w.Code, w.Body)
	}
	b.cookie = w.Result().Cookies()[0]
	if b.cookie.Name != "nacre-web-4711" { // a page at another port has another cookie
		t.Errorf("the cookie is %s", b.cookie.Name)
	}
	return b
}

var hidden = regexp.MustCompile(`name="(token|id|shown)" value="([^"]*)"`)

func (b *browser) form(verdict string) url.Values {
	form := url.Values{"verdict": {verdict}}
	for _, m := range hidden.FindAllStringSubmatch(b.send(http.MethodGet, "/", nil, nil).Body.String(), -1) {
		form.Set(m[1], m[2])
	}
	return form
}

// M-49: a code signs in once and in time, with a cookie that no script reads and no other site sends.
func TestACodeSignsInOnce(t *testing.T) {
	t.Parallel()
	b, code, clock := open(t, &office{questions: []nacre.Question{asked("x")}})
	if w := b.send(http.MethodGet, "/", nil, nil); strings.Contains(w.Body.String(), "7d2q") {
		t.Error("a question is shown without a sign-in")
	}
	if w := b.send(http.MethodPost, "/sign-in", url.Values{"code": {"wrong"}}, nil); w.Code != http.StatusForbidden {
		t.Errorf("a wrong code: %d", w.Code)
	}
	w := b.send(http.MethodPost, "/sign-in", url.Values{"code": {code}}, nil)
	cookies := w.Result().Cookies()
	if len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode {
		t.Fatalf("cookies: %v", cookies)
	}
	if w := b.send(http.MethodPost, "/sign-in", url.Values{"code": {code}}, nil); w.Code != http.StatusForbidden || len(w.Result().Cookies()) != 0 {
		t.Errorf("a code used twice: %d", w.Code)
	}
	b.cookie = cookies[0]
	if w := b.send(http.MethodGet, "/", nil, nil); !strings.Contains(w.Body.String(), "7d2q") {
		t.Errorf("signed in: %s", w.Body)
	}
	*clock = clock.Add(12 * time.Hour)
	if w := b.send(http.MethodGet, "/", nil, nil); strings.Contains(w.Body.String(), "7d2q") {
		t.Error("a sign-in has no end")
	}
	late, code, clock := open(t, &office{})
	*clock = clock.Add(10 * time.Minute)
	if w := late.send(http.MethodPost, "/sign-in", url.Values{"code": {code}}, nil); w.Code != http.StatusForbidden {
		t.Errorf("an old code: %d", w.Code)
	}
}

// M-49: a press carries the person, the face and the digest of the card that was shown.
func TestAPressCarriesWhatWasShown(t *testing.T) {
	t.Parallel()
	for verdict, want := range map[string]nacre.Verdict{"approve": nacre.Allow, "deny": nacre.Deny} {
		d := &office{questions: []nacre.Question{asked("x")}}
		b, shown := signedIn(t, d), question.Of(d.questions[0]).Digest()
		form := b.form(verdict)
		if w := b.send(http.MethodPost, "/answer", form, nil); w.Code != http.StatusOK || len(d.pressed) != 1 {
			t.Fatalf("%s: %d, %d presses: %s", verdict, w.Code, len(d.pressed), w.Body)
		}
		p := d.pressed[0]
		if p.ID != "7d2q" || p.Identity != "web:1000" || p.Shown != shown || p.Ruling.Verdict != want || p.Ruling.For != 0 {
			t.Errorf("%s: have %+v", verdict, p)
		}
		if w := b.send(http.MethodPost, "/answer", form, nil); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "it was answered") {
			t.Errorf("%s twice: %d", verdict, w.Code)
		}
	}
}

// M-42, M-47: what a person approves for longer on the page is what the page says of the button, as
// the keys of a terminal have it. Nobody approves what is not offered for a question.
func TestAPersonApprovesForLonger(t *testing.T) {
	t.Parallel()
	host := asked("x")
	host.Capability, host.Arguments = question.Egress, []byte(`{"host":"example.com","port":443,"protocol":"tls"}`)
	two := asked("x")
	two.Approvers = 2
	for name, c := range map[string]struct {
		q      nacre.Question
		key    string
		says   string // what stands on the button; empty where there is none
		ruling nacre.Ruling
	}{
		"for three calls":                   {asked("x"), "3", "this call and two more with the same risky values", nacre.Ruling{For: 8 * time.Hour, Scope: nacre.ScopeSame, Times: 3}},
		"these arguments":                   {asked("x"), "e", "exactly these arguments, for 15 minutes", nacre.Ruling{For: 15 * time.Minute, Scope: nacre.ScopeExact}},
		"the same values":                   {asked("x"), "m", "the same risky values, for 15 minutes", nacre.Ruling{For: 15 * time.Minute, Scope: nacre.ScopeSame}},
		"this session":                      {asked("x"), "s", "while the session lasts, up to 8 hours", nacre.Ruling{For: 8 * time.Hour, Scope: nacre.ScopeSame}},
		"the tool":                          {asked("x"), "t", "the tool with any arguments, for 15 minutes", nacre.Ruling{For: 15 * time.Minute, Scope: nacre.ScopeTool}},
		"a host":                            {host, "m", "this host, for 15 minutes", nacre.Ruling{For: 15 * time.Minute, Scope: nacre.ScopeSame}},
		"a host, for any arguments":         {host, "t", "", nacre.Ruling{}},
		"what two persons have to approve":  {two, "e", "", nacre.Ruling{}},
		"never again, which is no approval": {asked("x"), "v", "", nacre.Ruling{}},
		"by a key that there is not":        {asked("x"), "z", "", nacre.Ruling{}},
	} {
		d := &office{questions: []nacre.Question{c.q}}
		b := signedIn(t, d)
		page := b.send(http.MethodGet, "/", nil, nil).Body.String()
		button := `<button name="stands" value="` + c.key + `">Approve `
		if _, after, there := strings.Cut(page, button); there != (c.says != "") || there && !strings.HasPrefix(after, c.says) && !strings.Contains(after[:120], c.says) {
			t.Errorf("%s: have %s", name, page)
		}
		form := b.form("")
		form.Del("verdict")
		form.Set("stands", c.key)
		w := b.send(http.MethodPost, "/answer", form, nil)
		if c.says == "" {
			if w.Code != http.StatusBadRequest || len(d.pressed) != 0 {
				t.Errorf("%s: have %d and %v", name, w.Code, d.pressed)
			}
			continue
		}
		c.ruling.Verdict, c.ruling.By = nacre.Allow, "the web page"
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "Approved for longer by owner") || len(d.pressed) != 1 || d.pressed[0].Ruling != c.ruling || d.pressed[0].Shown == "" {
			t.Errorf("%s: have %d and %+v", name, w.Code, d.pressed)
		}
	}
}

// M-44, M-49: another host, another origin, no cookie, and a form without its token press nothing.
func TestAForgedRequestPressesNothing(t *testing.T) {
	t.Parallel()
	d := &office{questions: []nacre.Question{asked("x")}}
	b := signedIn(t, d)
	good := b.form("approve")
	for name, attack := range map[string]struct {
		status int
		change func(*http.Request)
		form   func(url.Values)
	}{
		"another host": {status: http.StatusMisdirectedRequest, change: func(r *http.Request) {
			r.Host = "evil.example:4711"
			r.Header.Set("Origin", "http://evil.example:4711")
		}},
		"localhost":      {status: http.StatusMisdirectedRequest, change: func(r *http.Request) { r.Host = "localhost:4711" }},
		"another origin": {status: http.StatusForbidden, change: func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:8000") }},
		"a null origin":  {status: http.StatusForbidden, change: func(r *http.Request) { r.Header.Set("Origin", "null") }},
		"no origin":      {status: http.StatusForbidden, change: func(r *http.Request) { r.Header.Del("Origin") }},
		"no cookie":      {status: http.StatusForbidden, change: func(r *http.Request) { r.Header.Del("Cookie") }},
		"another cookie": {status: http.StatusForbidden, change: func(r *http.Request) { r.Header.Set("Cookie", "nacre-web-4711=guess") }},
		"no token":       {status: http.StatusForbidden, form: func(f url.Values) { f.Del("token") }},
		"no verdict":     {status: http.StatusBadRequest, form: func(f url.Values) { f.Del("verdict") }},
		"a long body":    {status: http.StatusForbidden, form: func(f url.Values) { f.Set("pad", strings.Repeat("x", 1<<16)) }},
	} {
		form := url.Values{}
		for key := range good {
			form.Set(key, good.Get(key))
		}
		if attack.form != nil {
			attack.form(form)
		}
		if w := b.send(http.MethodPost, "/answer", form, attack.change); w.Code != attack.status {
			t.Errorf("%s: have %d", name, w.Code)
		}
	}
	if w := b.send(http.MethodGet, "/", nil, func(r *http.Request) { r.Host = "evil.example" }); strings.Contains(w.Body.String(), "7d2q") {
		t.Error("a rebound name reads the page")
	}
	if w := b.send(http.MethodGet, "/answer?"+good.Encode(), nil, nil); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("a link that presses: %d", w.Code)
	}
	if len(d.pressed) != 0 {
		t.Errorf("pressed: %v", d.pressed)
	}
}

// M-44, M-49: a browser sends the cookie with what pages on other ports of this machine ask
// for, and those of other names of a domain. They reach nothing by that, nor do they take the
// places of the stream; a link that a person follows shows the page.
func TestAnotherPageReachesNothing(t *testing.T) {
	t.Parallel()
	b := signedIn(t, &office{questions: []nacre.Question{asked("x")}})
	for name, c := range map[string]struct {
		path, site, mode, dest string
		want                   int
	}{
		"a stream from another port":   {"/events?watch=waiting", "same-site", "cors", "empty", http.StatusForbidden},
		"a page from another port":     {"/", "same-site", "no-cors", "image", http.StatusForbidden},
		"a frame of another site":      {"/", "cross-site", "navigate", "iframe", http.StatusForbidden},
		"a script of another site":     {"/page.js", "cross-site", "no-cors", "script", http.StatusForbidden},
		"what is called by no name":    {"/", "elsewhere", "cors", "empty", http.StatusForbidden},
		"a link from another site":     {"/", "cross-site", "navigate", "document", http.StatusOK},
		"a link that the person typed": {"/", "none", "navigate", "document", http.StatusOK},
		"the page's own script":        {"/", "same-origin", "cors", "empty", http.StatusOK},
	} {
		w := b.send(http.MethodGet, c.path, nil, func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", c.site)
			r.Header.Set("Sec-Fetch-Mode", c.mode)
			r.Header.Set("Sec-Fetch-Dest", c.dest)
			ctx, cancel := context.WithCancel(r.Context()) // a stream that is opened ends at once
			cancel()
			*r = *r.WithContext(ctx)
		})
		if w.Code != c.want {
			t.Errorf("%s: have %d, want %d", name, w.Code, c.want)
		}
	}
}

// M-44: what would run scripts that are not the page's own is not allowed to.
func TestABrowserIsToldToRunNothingElse(t *testing.T) {
	t.Parallel()
	w := signedIn(t, &office{}).send(http.MethodGet, "/", nil, nil)
	if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy: %s", policy)
	}
}

// M-49: under a name of the operator's TLS the page answers forms of that name alone, with a cookie
// that is sent over TLS alone. What is not a name is refused before anything is served.
func TestThePageHasTheNamesThatTheOperatorGivesIt(t *testing.T) {
	t.Parallel()
	options := (&office{}).options(time.Now)
	options.Hosts = []string{"nacre.example.com", "nacre.example.com:8443"}
	for host, origins := range map[string]map[string]int{
		"nacre.example.com":      {"https://nacre.example.com": 303, "http://nacre.example.com": 403, "https://nacre.example.com:8443": 403, "http://" + host: 403, "": 403},
		"nacre.example.com:8443": {"https://nacre.example.com:8443": 303, "https://nacre.example.com": 403},
		"nacre.example.com:80":   {"https://nacre.example.com:80": 421},
		"NACRE.example.com":      {"https://NACRE.example.com": 421},
		"evil.example.com":       {"https://evil.example.com": 421, "https://nacre.example.com": 421},
		host:                     {"http://" + host: 303, "https://" + host: 403, "https://nacre.example.com": 403},
	} {
		for origin, want := range origins {
			site, code, err := web.New(options)
			if err != nil {
				t.Fatal(err)
			}
			b := &browser{t: t, handler: site.Handler()}
			w := b.send(http.MethodPost, "/sign-in", url.Values{"code": {code}}, func(r *http.Request) {
				r.Host = host
				r.Header.Set("Origin", origin)
			})
			if w.Code != want {
				t.Errorf("%s from %q: have %d, want %d", host, origin, w.Code, want)
			}
			if cookies := w.Result().Cookies(); want == 303 && (len(cookies) != 1 || cookies[0].Secure != strings.HasPrefix(origin, "https:")) {
				t.Errorf("%s: %v", host, cookies)
			}
		}
	}
	for _, bad := range []string{"", "*", "*.example.com", "https://nacre.example.com", "nacre.example.com/", "Nacre.example.com", "127.0.0.1", "nacre..com", "-a.com", "a-.com",
		"nacre.example.com:", "nacre.example.com:0", "nacre.example.com:443", "nacre.example.com:70000", "nacre.example.com:08", "::1", "[::1]", "nacre example", strings.Repeat("a", 64)} {
		options.Hosts = []string{bad}
		if _, _, err := web.New(options); err == nil {
			t.Errorf("%q is taken for a name", bad)
		}
	}
}
