package main_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/person"
	"github.com/nacre-dev/nacre/internal/question"
	"github.com/nacre-dev/nacre/internal/roster"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// phone is a browser that reaches the page through a TLS proxy of the operator's, by its name there.
type phone struct {
	t            *testing.T
	at, name     string
	code, cookie string
}

// phone is one that somebody pastes the code of the page's link into.
func (i *installation) phone(name string) *phone {
	i.t.Helper()
	at, code, _ := strings.Cut(i.pageLink(), "#")
	return &phone{t: i.t, at: at, name: name, code: code}
}

// posts sends a form, or reads a page where there is none, and keeps the cookie.
func (p *phone) posts(path string, form url.Values) string {
	p.t.Helper()
	method := http.MethodPost
	if form == nil {
		method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.at+path, strings.NewReader(form.Encode()))
	check(p.t, err)
	r.Host = p.name
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "https://"+p.name)
	r.Header.Set("Cookie", p.cookie)
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	check(p.t, err)
	text, err := io.ReadAll(answer.Body)
	check(p.t, errors.Join(err, answer.Body.Close()))
	for _, c := range answer.Cookies() {
		p.cookie = c.Name + "=" + c.Value
	}
	if answer.StatusCode == http.StatusSeeOther {
		return p.posts(strings.TrimPrefix(answer.Header.Get("Location"), "/"), nil)
	}
	return string(text)
}

// M-46: a person was paired at a chat by the code that was shown there, and a passkey of their phone is made for them.
// It signs them in, by the name of the operator's TLS, until they are no operator any more. Then neither the cookie
// nor the passkey is good for anything, and what they approved together with another person does not count. At both
// faces they are one person: of two who have to approve, they are one.
func TestAPairedPersonHasAPasskeyOnTheirPhone(t *testing.T) {
	t.Parallel()
	i := install(t)
	ada := strings.ReplaceAll("[operators.ada]\nidentities = [\"terminal:UID\", \"web:UID\"]\napprove = [\"*\"]\nup_to = \"DESTRUCTIVE\"\nconfig = true\n", "UID", fmt.Sprint(os.Geteuid()))
	bob := "[operators.bob]\nidentities = [\"terminal:4242\"]\napprove = [\"tool\"]\nup_to = \"DESTRUCTIVE\"\n"
	more := "[web]\nhosts = [\"nacre.example.com\"]\n" + toolsConfig
	i.config(ada + bob + more)
	i.write("home/.config/nacre/policy.toml", "[[rules]]\naction = \"allow\"\nmatch = { safety_class = [\"READ\", \"WRITE\"] }\n[[rules]]\naction = \"ask\"\napprovers = 2\nmatch = { safety_class = [\"DESTRUCTIVE\"] }\n")
	i.nacre("operators", "pair", "bob").want(t, 0)
	people := roster.Roster{Config: filepath.Join(i.work, "home/.config/nacre"), State: i.state(), Now: time.Now}
	code, err := people.Ask(t.Context(), person.Identity("telegram:7"))
	check(t, err)
	i.nacre("operators", "pair", "bob", code).want(t, 0, "telegram:7 is bob from now on")
	asking := i.beginAsking()
	q := i.question()

	p := i.phone("nacre.example.com")
	device := testpeer.NewAuthenticator(t, "https://nacre.example.com")
	has(t, p.posts("", nil), "Sign in")
	has(t, p.posts("sign-in", url.Values{"code": {p.code}}), q.ID)
	form := hiddenIn(p.posts("passkeys", nil))
	form.Set("owner", "bob")
	form.Set("name", "phone")
	form.Set("credential", string(device.Creates(t, []byte(p.posts("passkeys/asked", form)))))
	has(t, p.posts("passkeys/add", form), "it signs in as bob from now on")
	has(t, p.posts("passkeys/add", form), "Nothing was changed: ") // a challenge is good once
	p.posts("sign-out", form)
	signsIn := func() string {
		return p.posts("sign-in/passkey", url.Values{"credential": {string(device.Signs(t, []byte(p.posts("sign-in/asked", url.Values{}))))}})
	}
	approves := func(page string) string {
		form := hiddenIn(page)
		form.Set("verdict", "approve")
		return p.posts("answer", form)
	}
	page := signsIn()
	has(t, page, q.ID)
	has(t, p.posts("passkeys", nil), "You cannot add one: ")
	has(t, approves(page), "1 more person")
	if _, err := i.presses(q, "telegram:7", nacre.Ruling{Verdict: nacre.Allow}); err == nil || !strings.Contains(err.Error(), "bob approved it already") {
		t.Errorf("one person at two faces: have %v", err)
	}

	i.config(ada + more)
	has(t, p.posts("", nil), "Sign in")
	has(t, approves(page), "not signed in")
	has(t, signsIn(), "You are not signed in: ")
	i.nacre("approvals", "approve", q.ID).want(t, 0, "1 more person") // what bob said does not count any more
	i.config(ada + bob + more)
	has(t, approves(signsIn()), "Approved by ")
	finish(t, asking).want(t, 0, "R-1")
	has(t, i.records("asks"), `"identity":"web:passkey:`, `"face":"web"`, `"shown":"`+question.Of(q).Digest(), `"person":"bob"`, `"reason":"twice"`)
	i.nacre("audit", "verify").want(t, 0)
}
