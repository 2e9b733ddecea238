package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// U-11, F-19: a connection to a host that is not listed waits for the person, and the first
// try succeeds once it is approved, through a tunnel and without.
func TestAConnectionWaitsForItsAnswer(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("it answered\n")) })
	plain, secure := httptest.NewServer(page), httptest.NewTLSServer(page)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	pins := fmt.Sprintf("[approval]\nhold = \"1m\"\n[egress.pin]\n\"a.example:80\" = %q\n\"a.example:443\" = %q\n",
		plain.Listener.Addr(), secure.Listener.Addr())
	for scheme, answer := range map[string]struct {
		verb, told string
		code       int
		want       []string
	}{
		"http":  {"approve", "approved, for 30 minutes", 0, []string{"it answered"}},
		"https": {"approve", "approved, for 30 minutes", 0, []string{"it answered"}},
		"http:": {"deny", "denied, and this host is not asked for again in this session", 0, []string{"is denied (not_listed)", "it was not allowed"}},
	} {
		t.Run(scheme+" "+answer.verb, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			i.config(pins)
			r := i.begin("exec", "--session", "asks", "--", "curl", "-sk", strings.TrimSuffix(scheme, ":")+"://a.example/")
			i.nacre("approvals", answer.verb, i.question().ID).want(t, 0, answer.told) // U-12
			finish(t, r).want(t, answer.code, answer.want...)
			if denied := strings.Contains(i.records("asks"), `"reason":"not_listed"`); denied != (answer.verb == "deny") {
				t.Errorf("refusals in the records: %t", denied)
			}
			answered := map[string]string{"approve": "approved by ", "deny": "denied by "}[answer.verb]
			i.nacre("show", "asks").want(t, 0, "connect to a.example:", answered) // U-24
			i.nacre("audit", "verify").want(t, 0)
		})
	}
}

// U-11, U-12: a burst of a thousand refusals is one question and few records, which still tell how
// many there were. Where nobody
// watches the session, none of them waits.
func TestABurstIsOneQuestionAndFewRecords(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	i := install(t)
	i.write("p/x", "")
	r := i.begin("exec", "--project", "p", "--session", "asks", "--", "sh", "-c",
		`yes 'url = "http://a.example/"' | head -n 1000 | curl -s -o /dev/null -w '%{http_code}\n' -K - | grep -c 403; until test -e go; do sleep 0.02; done`)
	i.question()
	i.write("p/go", "")
	finish(t, r).want(t, 0, "1000\n")
	records := i.records("asks")
	if asked := strings.Count(records, `"kind":"approval.ask"`); asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	if denied := strings.Count(records, `"reason":"not_listed"`); denied > 200 {
		t.Errorf("%d records of refusals", denied)
	}
	i.nacre("audit", "show", "asks").want(t, 0, "0 connections, 1000 refused · 1 questions") // U-24
	r = i.begin("exec", "--session", "calls", "--", "sh", "-c", `for n in $(seq 150); do ipc "none_$n" '{"a":1}'; done; true`)
	finish(t, r).want(t, 0, "UNKNOWN_TOOL")
	i.nacre("audit", "show", "calls").want(t, 0, "more calls were refused, and are not recorded one by one", "150 refused · 0 connections")
}

// U-11: who was refused because nobody answered in time is told who can, and an answer that comes
// later serves the next try.
func TestALateAnswerServesTheNextTry(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	i, up := install(t), newUpstream(t, "a.example")
	i.config("[approval]\nhold = \"100ms\"\n" + up.pinned)
	i.write("p/x", "")
	r := i.begin("exec", "--project", "p", "--session", "asks", "--", "sh", "-c",
		`for n in 1 2 3; do curl -s http://a.example/ >refused-$n & done; wait; touch refused; until curl -sf http://a.example/ >answered; do sleep 0.1; done`)
	q := i.question()
	eventually(t, "the refusals", func() bool { return isThere(filepath.Join(i.work, "p/refused")) })
	for n := range 3 { // a burst: each is told
		has(t, i.read(fmt.Sprintf("p/refused-%d", n+1)), "nobody answered within 100ms", "nacre approvals approve "+q.ID)
	}
	i.nacre("approvals", "approve", q.ID).want(t, 0)
	finish(t, r).want(t, 0)
}

// U-05: bundles are named where hosts are, a wrong name is told the right ones, and what a
// registry may be asked is told with its host.
func TestBundlesAreAllowedByName(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.nacre("egress", "bundles").want(t, 0, "npm", "registry.npmjs.org", "GET, HEAD below /", "proxy.golang.org")
	i.nacre("exec", "--egress", "page.test:80/http", "--allow", "go,npm", "--", "true").
		want(t, 0, "page.test:80/http", "proxy.golang.org:443", "sum.golang.org:443", "registry.npmjs.org:443")
	i.nacre("exec", "--allow", "nmp", "--", "true").want(t, 125, "the bundles are go, npm, pip, cargo, github")
	i.config("[egress]\nallow = [\"bundle:pip\"]\n")
	i.nacre("exec", "--", "true").want(t, 0, "pypi.org:443, files.pythonhosted.org:443")
}

// U-11: a session that is stopped ends what it holds.
func TestAStopEndsWhatIsHeld(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	i, up := install(t), newUpstream(t, "a.example")
	i.config("[approval]\nhold = \"1m\"\n" + up.pinned)
	r := i.begin("exec", "--session", "asks", "--", "curl", "-s", "http://a.example/")
	q := i.question()
	i.nacre("sessions", "stop", "asks").want(t, 0)
	finish(t, r).want(t, 130)
	if have := i.nacre("approvals", "approve", q.ID); have.code == 0 || up.sent() != "" {
		t.Errorf("the answer came to %d, and it was sent %q", have.code, up.sent())
	}
	i.config("[approval]\nhold = \"2m\"\n")
	i.nacre("exec", "--", "true").want(t, 125, `[approval] hold = "2m": write a time from 0s to 1m0s`)
}
