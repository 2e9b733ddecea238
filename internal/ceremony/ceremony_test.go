package ceremony_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/ceremony"
	"github.com/nacre-dev/nacre/internal/passkey"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

const origin = "https://nacre.example.com:8443"

// page is one that persons add passkeys on, and sign in to.
type page struct {
	*ceremony.Room
	now  time.Time
	keys []passkey.Key
}

func newPage() *page {
	p := &page{now: time.Unix(1000, 0)}
	p.Room = ceremony.New(func() time.Time { return p.now })
	return p
}

func (p *page) find(id []byte) (passkey.Key, bool) {
	for _, k := range p.keys {
		if bytes.Equal(k.ID, id) {
			return k, true
		}
	}
	return passkey.Key{}, false
}

var ada = ceremony.Adding{Origin: origin, Name: "ada", Session: "s1"}

// added is a page with one passkey of ada.
func added(t *testing.T) (*page, *testpeer.Authenticator) {
	t.Helper()
	p, a := newPage(), testpeer.NewAuthenticator(t, origin)
	asked, err := p.AskNew(ada)
	if err != nil {
		t.Fatal(err)
	}
	key, err := p.New(ada, a.Creates(t, asked))
	if err != nil {
		t.Fatal(err)
	}
	p.keys = append(p.keys, key)
	return p, a
}

// M-46: a passkey that was added signs in with nothing but what was asked for. That is asked here, now,
// once, at this origin, of this credential, and answered by an authenticator that verified its owner.
func TestAPasskeySignsInWhereItWasAdded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(p *page, a *testpeer.Authenticator)
		answer func(text string) string
		twice  bool
		want   string
	}{
		"as it was added":                {},
		"twice with one challenge":       {twice: true, want: ceremony.ErrLate.Error()},
		"at another origin":              {change: func(_ *page, a *testpeer.Authenticator) { a.Origin = "https://evil.example.com:8443" }, want: "refused"},
		"at another port":                {change: func(_ *page, a *testpeer.Authenticator) { a.Origin = "https://nacre.example.com" }, want: "refused"},
		"without TLS":                    {change: func(_ *page, a *testpeer.Authenticator) { a.Origin = "http://nacre.example.com:8443" }, want: "refused"},
		"for another site":               {change: func(_ *page, a *testpeer.Authenticator) { a.Site = "example.com" }, want: "refused"},
		"in a frame of another page":     {change: func(_ *page, a *testpeer.Authenticator) { a.Crossed = true }, want: "refused"},
		"by whoever was not verified":    {change: func(_ *page, a *testpeer.Authenticator) { a.Verified = 0 }, want: "refused"},
		"while nobody is there":          {change: func(_ *page, a *testpeer.Authenticator) { a.Present = 0 }, want: "refused"},
		"with the key of another person": {change: func(_ *page, a *testpeer.Authenticator) { a.Key = testpeer.NewAuthenticator(t, origin).Key }, want: "refused"},
		"as another person": {change: func(_ *page, a *testpeer.Authenticator) {
			a.Handle = base64.RawURLEncoding.EncodeToString([]byte("bob"))
		}, want: "refused"},
		"with a credential of nobody":     {change: func(_ *page, a *testpeer.Authenticator) { a.ID = []byte("another") }, want: passkey.ErrUnknown.Error()},
		"with one that was removed":       {change: func(p *page, _ *testpeer.Authenticator) { p.keys = nil }, want: passkey.ErrUnknown.Error()},
		"with one of another name":        {change: func(p *page, _ *testpeer.Authenticator) { p.keys[0].Site = "localhost" }, want: passkey.ErrUnknown.Error()},
		"too late":                        {change: func(p *page, _ *testpeer.Authenticator) { p.now = p.now.Add(ceremony.Time) }, want: ceremony.ErrLate.Error()},
		"before it was asked":             {change: func(p *page, _ *testpeer.Authenticator) { p.now = p.now.Add(-time.Second) }, want: ceremony.ErrLate.Error()},
		"to another process":              {change: func(p *page, _ *testpeer.Authenticator) { p.Room = newPage().Room }, want: ceremony.ErrLate.Error()},
		"with what is no answer":          {answer: func(string) string { return "{" }, want: "refused"},
		"with nothing":                    {answer: func(string) string { return "" }, want: "refused"},
		"with a key that was synced once": {change: func(p *page, _ *testpeer.Authenticator) { p.keys[0].Synced = true }, want: "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, a := added(t)
			asked, err := p.AskSignIn(origin)
			if err != nil {
				t.Fatal(err)
			}
			if c.change != nil {
				c.change(p, a)
			}
			answer := string(a.Signs(t, asked))
			if c.answer != nil {
				answer = c.answer(answer)
			}
			key, err := p.SignedIn(origin, []byte(answer), p.find)
			if c.twice && err == nil {
				_, err = p.SignedIn(origin, []byte(answer), p.find)
			}
			if c.want == "" && (err != nil || key.Identity() != p.keys[0].Identity() || key.Count != a.Count) {
				t.Errorf("have %+v, %v", key, err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("have %v, want %s", err, c.want)
			}
		})
	}
}

// M-46: a passkey is added once, by whom, in which sign-in and at which origin it was asked for. A
// challenge that was made to sign somebody in adds none.
func TestAPasskeyIsAddedAsItWasAsked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(p *page, a *testpeer.Authenticator, with *ceremony.Adding)
		want   string
	}{
		"for another person":           {func(_ *page, _ *testpeer.Authenticator, with *ceremony.Adding) { with.Name = "bob" }, ceremony.ErrLate.Error()},
		"in another sign-in":           {func(_ *page, _ *testpeer.Authenticator, with *ceremony.Adding) { with.Session = "s2" }, ceremony.ErrLate.Error()},
		"at another name of the page":  {func(_ *page, _ *testpeer.Authenticator, with *ceremony.Adding) { with.Origin = "http://localhost:1" }, ceremony.ErrLate.Error()},
		"too late":                     {func(p *page, _ *testpeer.Authenticator, _ *ceremony.Adding) { p.now = p.now.Add(ceremony.Time) }, ceremony.ErrLate.Error()},
		"by a page of another origin":  {func(_ *page, a *testpeer.Authenticator, _ *ceremony.Adding) { a.Origin = "https://evil.example.com" }, "refused"},
		"by whoever was not verified":  {func(_ *page, a *testpeer.Authenticator, _ *ceremony.Adding) { a.Verified = 0 }, "refused"},
		"without a credential":         {func(_ *page, a *testpeer.Authenticator, _ *ceremony.Adding) { a.Made = 0 }, "refused"},
		"as it was asked, for a start": {func(*page, *testpeer.Authenticator, *ceremony.Adding) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, a, with := newPage(), testpeer.NewAuthenticator(t, origin), ada
			asked, err := p.AskNew(with)
			if err != nil {
				t.Fatal(err)
			}
			c.change(p, a, &with)
			answer := a.Creates(t, asked)
			_, err = p.New(with, answer)
			if c.want == "" {
				if err == nil {
					_, err = p.New(with, answer)
				}
				c.want = ceremony.ErrLate.Error() // twice
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("have %v, want %s", err, c.want)
			}
		})
	}
	p, a := added(t)
	signing, err := p.AskSignIn(origin)
	if err != nil {
		t.Fatal(err)
	}
	var asked map[string]any
	if err := json.Unmarshal(signing, &asked); err != nil {
		t.Fatal(err)
	}
	asked["user"], asked["authenticatorSelection"] = map[string]any{"id": a.Handle}, map[string]any{"userVerification": "required", "residentKey": "required"}
	forged, _ := json.Marshal(asked) // it can be written
	if _, err := p.New(ada, a.Creates(t, forged)); !errors.Is(err, ceremony.ErrLate) {
		t.Errorf("a challenge that signs in adds a passkey: %v", err)
	}
}

// M-46: a passkey is bound to a name, so a page that is shown under an address has none.
func TestAnAddressHasNoPasskeys(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"http://127.0.0.1:4711", "http://[::1]:4711"} {
		if _, err := newPage().AskSignIn(at); !errors.Is(err, ceremony.ErrName) {
			t.Errorf("%s: have %v", at, err)
		}
	}
	if _, err := newPage().AskSignIn("http://localhost:4711"); err != nil {
		t.Error(err)
	}
}

// FuzzAnswer shows that no answer of a browser brings the page down, or signs in.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"id":"AA","rawId":"AA","type":"public-key","response":{}}`))
	f.Add([]byte(`[]`))
	p := newPage()
	f.Fuzz(func(t *testing.T, answer []byte) {
		if _, err := p.SignedIn(origin, answer, p.find); err == nil {
			t.Error("it signs in")
		}
		if _, err := p.New(ada, answer); err == nil {
			t.Error("it is added")
		}
	})
}
