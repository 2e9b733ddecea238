package web_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
)

// served is a page at a real address, and the cookie of who is signed in.
func served(t *testing.T, o *office) (site string, cookie *http.Cookie) {
	t.Helper()
	b := signedIn(t, o)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Host = host
		b.handler.ServeHTTP(w, r)
	}))
	server.Config.BaseContext = func(net.Listener) context.Context { return t.Context() }
	server.Start()
	t.Cleanup(server.Close)
	return server.URL, b.cookie
}

// follow opens a stream, and gives the ids of its events.
func follow(t *testing.T, site string, cookie *http.Cookie, watch, seen, last string) (ids func() string, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, site+"/events?watch="+url.QueryEscape(watch)+"&seen="+seen, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(cookie)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = answer.Body.Close() })
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s: %d %s", watch, answer.StatusCode, answer.Header)
	}
	lines := bufio.NewScanner(answer.Body)
	return func() string {
		for lines.Scan() {
			if id, is := strings.CutPrefix(lines.Text(), "id: "); is {
				return id
			}
		}
		return ""
	}, cancel
}

// M-49: a stream names the state that a page is to show. A page that comes back with an id is told
// of what it missed, and of nothing else.
func TestAStreamGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	o := working("words")
	site, cookie := served(t, o)
	for _, watch := range []string{"waiting", "sessions", "session:live"} {
		next, end := follow(t, site, cookie, watch, "", "")
		first := next()
		change := func(id nacre.SessionID) {
			o.change(func() {
				q := asked("words")
				q.ID, q.Session = string(id), "live"
				o.questions = append(o.questions, q)
				o.sessions = append(o.sessions, nacre.SessionStatus{ID: id, State: nacre.SessionDone})
			})
		}
		change("seen")
		second := next()
		if first == "" || second == "" || first == second {
			t.Fatalf("%s: %q, then %q", watch, first, second)
		}
		end()
		change("missed") // while nobody follows
		for _, back := range [][2]string{{"", second}, {second, ""}, {first, second}} {
			next, end := follow(t, site, cookie, watch, back[0], back[1])
			if id := next(); id == "" || id == first || id == second {
				t.Errorf("%s: after %v, what was missed is %q", watch, back, id)
			}
			end()
		}
		o.change(func() { o.questions, o.sessions = o.questions[:1], o.sessions[:2] })
		next, end = follow(t, site, cookie, watch, "", first)
		change("another") // the state is the first again, so this is what is told
		if id := next(); id == first {
			t.Errorf("%s: a state that the page has is told again", watch)
		}
		end()
		o.change(func() { o.questions, o.sessions = o.questions[:1], o.sessions[:2] })
	}
}

// M-49: as many pages are told of changes as there is room for.
func TestStreamsAreFew(t *testing.T) {
	t.Parallel()
	site, cookie := served(t, working("words"))
	for range 16 {
		follow(t, site, cookie, "waiting", "", "")
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, site+"/events?watch=waiting", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(cookie)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one more: %d", answer.StatusCode)
	}
}

// M-49: what runs in a browser can be read in one sitting.
func TestThePageHasLittleScript(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("page.js")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(script), "\n"); n > 200 {
		t.Errorf("page.js has %d lines, at most 200", n)
	}
	for _, evil := range []string{"innerHTML = ", "outerHTML = ", "insertAdjacent", "eval(", "document.write", "localStorage", "sessionStorage"} {
		if strings.Contains(string(script), evil) {
			t.Errorf("page.js has %s", evil)
		}
	}
}
