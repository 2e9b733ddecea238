package web_test

import (
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
)

// all are the addresses of the pages.
var all = []string{
	"/", "/sessions", "/sessions/live", "/sessions/s1", "/sessions/s1/records", "/sessions/s1/diff", "/audit", "/memory", "/memory/forget?id=mem-2", "/learn", "/powers", "/policy", "/roles", "/egress", "/schedules", "/credentials", "/health", "/passkeys",
}

// until asks for a page until it holds a text: what takes long is read beside the page.
func (b *browser) until(path, text string) string {
	b.t.Helper()
	for {
		w := b.send(http.MethodGet, path, nil, nil)
		if strings.Contains(w.Body.String(), text) {
			return w.Body.String()
		}
		if err := b.t.Context().Err(); err != nil {
			b.t.Fatalf("%s: %v without %q: %s", path, err, text, w.Body)
		}
	}
}

// M-44, M-49: each page is shown to whoever is signed in, and to nobody else.
func TestEachPageAsksForASignIn(t *testing.T) {
	t.Parallel()
	o := working("words")
	in := signedIn(t, o)
	out, _, _ := open(t, o)
	for _, path := range append(all, "/events?watch=waiting") {
		if w := out.send(http.MethodGet, path, nil, nil); strings.Contains(w.Body.String(), "words") || path != "/" && w.Code != http.StatusUnauthorized {
			t.Errorf("%s without a sign-in: %d %s", path, w.Code, w.Body)
		}
	}
	for _, path := range all {
		if w := in.send(http.MethodGet, path, nil, nil); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	in.until("/audit", "is refused") // the records were read, and can be searched
	for path, want := range map[string]int{"/sessions/none": 404, "/sessions/..": 307, "/sessions/NO%20ID": 404, "/sessions/s1/records?after=x": 400, "/audit?after=x": 400, "/audit?session=NO%20ID": 400, "/events?watch=x": 400, "/events?watch=session:NO!": 400} {
		if w := in.send(http.MethodGet, path, nil, nil); w.Code != want {
			t.Errorf("%s: have %d, want %d", path, w.Code, want)
		}
	}
}

// M-44: the list has each session with its state, age and cost, and a session at work has a
// form that stops it. Who may is not the page's to say.
func TestASessionIsStopped(t *testing.T) {
	t.Parallel()
	o := working("words")
	b := signedIn(t, o)
	list := b.until("/sessions", "$4.56") // what a session at work costs is read from its records
	for _, want := range []string{"running", "claude", "began 10 min ago · $4.56", "10 min ago, took 5 min", "$1.23", `action="/sessions/live/stop"`} {
		if !strings.Contains(list, want) {
			t.Errorf("the list has no %q: %s", want, list)
		}
	}
	if strings.Contains(list, `action="/sessions/s1/stop"`) {
		t.Error("a session that is over can be stopped")
	}
	form := b.form("")
	if w := b.send(http.MethodPost, "/sessions/live/stop", url.Values{}, nil); w.Code != http.StatusForbidden {
		t.Errorf("without a token: %d", w.Code)
	}
	o.refusal = errors.New("bob may not stop")
	if w := b.send(http.MethodPost, "/sessions/live/stop", form, nil); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "bob may not stop") {
		t.Errorf("without the right: %d %s", w.Code, w.Body)
	}
	if len(o.stopped) != 0 {
		t.Fatalf("stopped: %v", o.stopped)
	}
	o.refusal = nil
	if w := b.send(http.MethodPost, "/sessions/live/stop", form, nil); w.Code != http.StatusOK || len(o.stopped) != 1 || o.stopped[0] != "live" {
		t.Errorf("stop: %d, %v", w.Code, o.stopped)
	}
}

// M-44, U-24: a session's page says what nacre show says, and whether the records are proven.
func TestASessionHasAPage(t *testing.T) {
	t.Parallel()
	o := working("words")
	b := signedIn(t, o)
	page := b.until("/sessions/s1", "250 records")
	for _, want := range []string{
		"mend the parser\nwords", "bank.paywords</bdi> · 3 times", "connect to evil.example", "allowed by words", "api.example.com:443", "2 connections", "untrusted",
		"$1.23 · 7 calls to the model", "did not hold", "go test words", "modified", "src/words", "left out", "/sessions/s1/diff", "nacre audit verify --receipt /state/receipts/words", "verified",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	o.change(func() { o.problem, o.stamp = errors.New("record 7 was changed"), o.stamp+1 })
	b.until("/sessions/s1", "NOT verified</strong>: record 7 was changed")
}

// M-44, M-49: the first page lists what waits elsewhere, what is found in records too.
func TestTheFirstPageListsAllThatWaits(t *testing.T) {
	t.Parallel()
	b := signedIn(t, working("words"))
	b.until("/", "nacre memory review")
	if page := b.send(http.MethodGet, "/", nil, nil).Body.String(); !strings.Contains(page, "nacre sessions diff s1") || !strings.Contains(page, `href="/sessions/s1/diff"`) || strings.Contains(page, "still being looked through") {
		t.Errorf("have %s", page)
	}
}

// M-49: a page does not wait for what takes long: it shows what was read before, and says so.
func TestAPageDoesNotWaitForALongReading(t *testing.T) {
	t.Parallel()
	o := working("words")
	hold := make(chan struct{})
	o.hold = hold
	b := signedIn(t, o)
	for range 3 {
		if page := b.send(http.MethodGet, "/sessions/live", nil, nil).Body.String(); !strings.Contains(page, "The records are being read") || !strings.Contains(page, "running") {
			t.Fatalf("while it is read: %s", page)
		}
		if page := b.send(http.MethodGet, "/audit", nil, nil).Body.String(); !strings.Contains(page, "The records are being read") || strings.Contains(page, "is refused") {
			t.Fatalf("while they are read: %s", page)
		}
	}
	o.change(func() {
		if o.read != 1 {
			t.Errorf("the same is read %d times at once", o.read)
		}
		o.hold = nil
	})
	close(hold)
	b.until("/sessions/live", "evil.example")
	b.until("/audit", "is refused")
}

// M-44: the timeline of a session, and that of all, is read a page at a time, and its filter stays.
func TestTheTimelineIsReadAPageAtATime(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/sessions/s1/records?kind=call.reject", "/audit?kind=call.reject&session=s1"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			b := signedIn(t, working("words"))
			b.until(path, "is refused")
			older := regexp.MustCompile(`href="([^"]+)" rel="next"`)
			for pages, seen, at := 1, 0, path; ; pages++ {
				page := b.send(http.MethodGet, at, nil, nil).Body.String()
				seen += strings.Count(page, "is refused")
				next := older.FindStringSubmatch(page)
				if next == nil {
					if pages != 3 || seen != 250 {
						t.Errorf("%d pages with %d records", pages, seen)
					}
					return
				}
				at = html.UnescapeString(next[1])
				if !strings.Contains(at, "kind=call.reject") || strings.Contains(path, "session=") && !strings.Contains(at, "session=s1") {
					t.Fatalf("%s goes on at %s", path, at)
				}
			}
		})
	}
}

// M-44: a list of many sessions is shown a part at a time, and all of them are reached.
func TestManySessionsAreListedAPartAtATime(t *testing.T) {
	t.Parallel()
	o := working("")
	for i := range 120 {
		s := o.sessions[1]
		s.ID = nacre.SessionID(fmt.Sprintf("over%d", i))
		o.sessions = append(o.sessions, s)
	}
	b := signedIn(t, o)
	first := b.send(http.MethodGet, "/sessions", nil, nil).Body.String()
	if n := strings.Count(first, "<li><a "); n != 51 || !strings.Contains(first, "/sessions?first=50") {
		t.Errorf("%d sessions on the first page", n)
	}
	last := b.send(http.MethodGet, "/sessions?first=100", nil, nil).Body.String()
	if !strings.Contains(last, "over119") || !strings.Contains(last, "/sessions?first=50") || strings.Contains(last, "first=150") {
		t.Errorf("the last page: %s", last)
	}
	for _, odd := range []string{"-1", "x", "999999999999999999999", "7000"} {
		if w := b.send(http.MethodGet, "/sessions?first="+odd, nil, nil); w.Code != http.StatusOK {
			t.Errorf("first=%s: %d", odd, w.Code)
		}
	}
}

// attacks are what an agent, a file or a server names things to get a script onto the page.
var attacks = []string{
	`"></pre><script>alert(1)</script><img src=x onerror=alert(1)>` + "\u202e",
	`</title></textarea></script><svg onload=alert(1)>`, `' onmouseover='alert(1)`, `" autofocus onfocus="alert(1)`,
	`javascript:alert(1)`, `{{.Token}}{{template "head" .}}`, `<a href="javascript:alert(1)">x</a>`, `data:text/html,<script>alert(1)</script>`,
	`--><script>alert(1)</script><!--`, `]]><script>alert(1)</script>`, "\u2028<script>alert(1)</script>\u2029", "\x00<script>alert(1)</script>\x1b[2J",
	`<form action=//evil.example><button>Approve once</button></form>`, `<base href="//evil.example/">`, `<meta http-equiv=refresh content="0;url=//evil.example">`,
	`<template><img src=x onerror=alert(1)></template>`, `&lt;script&gt;alert(1)&lt;/script&gt;`, "\xff\xfe<script>alert(1)</script>",
}

// M-44: what an agent wrote is text on every page.
func TestNoPageRunsWhatOthersWrote(t *testing.T) {
	t.Parallel()
	for _, attack := range attacks {
		b := signedIn(t, working(attack))
		b.until("/sessions/s1", "250 records")
		for _, path := range all {
			page := b.send(http.MethodGet, path, nil, nil).Body.String()
			for _, bad := range []string{"<script>", "<img", "<svg", "<a href=\"j", "<base", "<meta http", "<form action=//", "\u202e", "\u2028", "\x00", "\x1b", "\" autofocus", "' onmouse", "<template"} {
				if strings.Contains(page, bad) {
					t.Errorf("%s holds %q of %q", path, bad, attack)
				}
			}
		}
	}
}

// M-44, M-49: what a person decides on a page is brought to those who decide, with what was shown.
// A refusal is told, and nothing is done then. Without the page's token nothing is.
func TestDecisionsForLaterSessions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		page, form string
		fields     url.Values
		done, told string
	}{
		"trust a memory":    {"/memory", "/memory/trust", url.Values{"group": {"family"}, "id": {"mem-1"}, "trust": {"yes"}}, "trust family mem-1 true", "It is trusted now"},
		"forget a memory":   {"/memory/forget?id=mem-2", "/memory/forget", url.Values{"group": {"main"}, "id": {"mem-2"}, "told": {"d1"}}, "forget main mem-2 d1", "It is erased"},
		"decline a memory":  {"/memory", "/memory/trust", url.Values{"group": {"main"}, "id": {"mem-1"}, "trust": {"no"}}, "trust main mem-1 false", "It is declined"},
		"approve lines":     {"/learn", "/learn/approve", url.Values{"proposal": {"3fa9"}, "line": {"1", "2"}, "wider": {"1"}, "days": {"7"}}, "approve 3fa9 [1 2] [1] 7", "It is approved"},
		"undo an approval":  {"/learn", "/learn/undo", url.Values{"id": {"77aa"}}, "undo 77aa", "It is taken back"},
		"unlock a power":    {"/powers", "/powers/unlock", url.Values{"name": {"package-installation"}, "days": {"30"}}, "unlock package-installation 30", "It is unlocked"},
		"lock a power":      {"/powers", "/powers/lock", url.Values{"name": {"dns"}}, "lock dns", "It is locked"},
		"land all":          {"/sessions/s1/diff", "/sessions/s1/land", url.Values{"land": {"all"}, "shown": {"d2"}}, "land s1 all d2", "was taken"},
		"land the rest":     {"/sessions/s1/diff", "/sessions/s1/land", url.Values{"land": {"rest"}, "shown": {"d2"}}, "land s1 rest d2", "without those files"},
		"throw work away":   {"/sessions/s1/diff", "/sessions/s1/land", url.Values{"land": {"discard"}, "shown": {"d2"}}, "land s1 discard d2", "was thrown away"},
		"accept the policy": {"/policy", "/policy/accept", url.Values{"version": {"sha256:aa"}}, "accept sha256:aa", "The policy is accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := working("words")
			b := signedIn(t, o)
			b.until(c.page, `action="`+c.form+`"`)
			if w := b.send(http.MethodPost, c.form, c.fields, nil); w.Code != http.StatusForbidden {
				t.Errorf("without a token: %d", w.Code)
			}
			c.fields.Set("token", b.form("").Get("token"))
			if w := b.send(http.MethodPost, c.form, c.fields, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }); w.Code != http.StatusForbidden {
				t.Errorf("from another origin: %d", w.Code)
			}
			o.change(func() { o.refusal = errors.New("bob may not") })
			if w := b.send(http.MethodPost, c.form, c.fields, nil); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "Nothing was changed: bob may not") {
				t.Errorf("without the right: %d %s", w.Code, w.Body)
			}
			o.change(func() {
				if len(o.done) > 0 {
					t.Errorf("done: %q", o.done)
				}
				o.refusal = nil
			})
			w := b.send(http.MethodPost, c.form, c.fields, nil)
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), c.told) {
				t.Errorf("have %d without %q", w.Code, c.told)
			}
			o.change(func() {
				if len(o.done) != 1 || o.done[0] != c.done {
					t.Errorf("done: %q, want %q", o.done, c.done)
				}
			})
		})
	}
}

// M-49: a form that no page has made does nothing.
func TestAFormThatNoPageMade(t *testing.T) {
	t.Parallel()
	o := working("words")
	b := signedIn(t, o)
	token := b.form("").Get("token")
	for path, fields := range map[string]url.Values{
		"/memory/trust?a":  {"id": {"mem-1"}},
		"/memory/trust?b":  {"id": {"mem-1"}, "trust": {"maybe"}},
		"/memory/forget?a": {"id": {"mem-2"}},
		"/memory/forget?b": {"told": {"d1"}},
		"/memory/forget?c": {"id": {"mem-2"}, "told": {"d1"}, "group": {"../x"}},
		"/memory/trust?c":  {"id": {"mem-1"}, "trust": {"yes"}, "group": {"../x"}},
		"/learn/approve?a": {"proposal": {"3fa9"}, "line": {"1"}},
		"/learn/approve?b": {"proposal": {"3fa9"}, "line": {"all"}, "days": {"7"}},
		"/learn/approve?c": {"proposal": {"3fa9"}, "line": {"1"}, "days": {"99999999999999999999"}},
		"/learn/undo":      {},
		"/powers/unlock":   {"name": {"dns"}, "days": {"long"}},
		"/answer?a":        {"id": {"7d2q"}},
		"/answer?b":        {"id": {"7d2q"}, "verdict": {"approve", "deny"}},
		"/answer?c":        {"id": {"7d2q"}, "verdict": {"deny"}, "stands": {"t"}},
		"/answer?d":        {"id": {"7d2q"}, "stands": {"m", "t"}},
	} {
		fields.Set("token", token)
		if w := b.send(http.MethodPost, path, fields, nil); w.Code != http.StatusBadRequest {
			t.Errorf("%s %v: %d", path, fields, w.Code)
		}
	}
	if len(o.done) > 0 {
		t.Errorf("done: %q", o.done)
	}
}

// M-49: a page on which a person chooses is not told of a newer proposal: no line moves while
// they press.
func TestNothingMovesWhileAPersonChooses(t *testing.T) {
	t.Parallel()
	o := working("words")
	b, code, clock := open(t, o)
	b.cookie = b.send(http.MethodPost, "/sign-in", url.Values{"code": {code}}, nil).Result().Cookies()[0]
	state := func(page string) string {
		t.Helper()
		_, after, ok := strings.Cut(page, `data-state="`)
		if !ok {
			t.Fatalf("no state: %s", page)
		}
		named, _, _ := strings.Cut(after, `"`)
		return named
	}
	first := b.until("/learn", `value="3fa9"`)
	o.change(func() { o.learned = "9bbb" })
	*clock = clock.Add(time.Minute)
	if newer := b.until("/learn", `value="9bbb"`); state(newer) != state(first) {
		t.Error("a page that shows the older proposal is told to change")
	}
}
