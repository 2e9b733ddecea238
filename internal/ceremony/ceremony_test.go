package ceremony_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/ceremony"
	"github.com/nacre-dev/nacre/internal/passkey"
)

const origin = "https://nacre.example.com:8443"

// authenticator is a person's, with one credential, and browser what it is asked by: a test
// changes what they say.
type authenticator struct {
	key    *ecdsa.PrivateKey
	id     []byte
	handle string
	count  uint32
	// flags are user present, verified, and that a credential comes along.
	present, verified, made byte
	origin, site            string
	crossed                 bool
}

func newAuthenticator(t *testing.T) *authenticator {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &authenticator{key: key, id: []byte(rand.Text()), count: 1, present: 1, verified: 4, made: 0x40, origin: origin, site: "nacre.example.com"}
}

func text(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

func (a *authenticator) client(kind, challenge string) []byte {
	data, _ := json.Marshal(map[string]any{"type": kind, "challenge": challenge, "origin": a.origin, "crossOrigin": a.crossed}) // it can be written
	return data
}

func (a *authenticator) data(made byte) []byte {
	site := sha256.Sum256([]byte(a.site))
	return binary.BigEndian.AppendUint32(append(site[:], a.present|a.verified|made), a.count)
}

// creates answers what a page asks for that adds a passkey.
func (a *authenticator) creates(t *testing.T, asked []byte) []byte {
	t.Helper()
	var options struct {
		Challenge string `json:"challenge"`
		User      struct {
			ID string `json:"id"`
		} `json:"user"`
		Exclude []struct {
			ID string `json:"id"`
		} `json:"excludeCredentials"`
		Selection struct {
			Verification string `json:"userVerification"`
			Resident     string `json:"residentKey"`
		} `json:"authenticatorSelection"`
	}
	if err := json.Unmarshal(asked, &options); err != nil || options.Selection.Verification != "required" || options.Selection.Resident != "required" {
		t.Fatalf("asked for %s, %v", asked, err)
	}
	a.handle = options.User.ID
	point, err := a.key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	cose := append([]byte{0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20}, point[1:33]...)
	cose = append(append(cose, 0x22, 0x58, 0x20), point[33:]...)
	data := append(a.data(a.made), make([]byte, 16)...)
	data = append(binary.BigEndian.AppendUint16(data, uint16(len(a.id))), a.id...)
	data = append(data, cose...)
	object := append([]byte{0xa3, 0x63, 'f', 'm', 't', 0x64, 'n', 'o', 'n', 'e', 0x67, 'a', 't', 't', 'S', 't', 'm', 't', 0xa0, 0x68, 'a', 'u', 't', 'h', 'D', 'a', 't', 'a', 0x58, byte(len(data))}, data...)
	return a.says(map[string]any{"clientDataJSON": text(a.client("webauthn.create", options.Challenge)), "attestationObject": text(object)})
}

// signs answers what a page asks for that signs somebody in.
func (a *authenticator) signs(t *testing.T, asked []byte) []byte {
	t.Helper()
	var options struct {
		Challenge    string `json:"challenge"`
		Verification string `json:"userVerification"`
		Site         string `json:"rpId"`
	}
	if err := json.Unmarshal(asked, &options); err != nil || options.Verification != "required" || options.Site != "nacre.example.com" {
		t.Fatalf("asked for %s, %v", asked, err)
	}
	a.count++
	client, data := a.client("webauthn.get", options.Challenge), a.data(0)
	sum := sha256.Sum256(client)
	signed := sha256.Sum256(append(bytes.Clone(data), sum[:]...))
	signature, err := ecdsa.SignASN1(rand.Reader, a.key, signed[:])
	if err != nil {
		t.Fatal(err)
	}
	return a.says(map[string]any{"clientDataJSON": text(client), "authenticatorData": text(data), "signature": text(signature), "userHandle": a.handle})
}

func (a *authenticator) says(response map[string]any) []byte {
	answer, _ := json.Marshal(map[string]any{"id": text(a.id), "rawId": text(a.id), "type": "public-key", "response": response, "clientExtensionResults": map[string]any{}}) // it can be written
	return answer
}

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
func added(t *testing.T) (*page, *authenticator) {
	t.Helper()
	p, a := newPage(), newAuthenticator(t)
	asked, err := p.AskNew(ada)
	if err != nil {
		t.Fatal(err)
	}
	key, err := p.New(ada, a.creates(t, asked))
	if err != nil {
		t.Fatal(err)
	}
	p.keys = append(p.keys, key)
	return p, a
}

// M-46: a passkey that was added signs in, and only with what was asked for here, now, once, at this
// origin, of this credential, by an authenticator that verified its owner.
func TestAPasskeySignsInWhereItWasAdded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(p *page, a *authenticator)
		answer func(text string) string
		twice  bool
		want   string
	}{
		"as it was added":                 {},
		"twice with one challenge":        {twice: true, want: ceremony.ErrLate.Error()},
		"at another origin":               {change: func(_ *page, a *authenticator) { a.origin = "https://evil.example.com:8443" }, want: "refused"},
		"at another port":                 {change: func(_ *page, a *authenticator) { a.origin = "https://nacre.example.com" }, want: "refused"},
		"without TLS":                     {change: func(_ *page, a *authenticator) { a.origin = "http://nacre.example.com:8443" }, want: "refused"},
		"for another site":                {change: func(_ *page, a *authenticator) { a.site = "example.com" }, want: "refused"},
		"in a frame of another page":      {change: func(_ *page, a *authenticator) { a.crossed = true }, want: "refused"},
		"by whoever was not verified":     {change: func(_ *page, a *authenticator) { a.verified = 0 }, want: "refused"},
		"while nobody is there":           {change: func(_ *page, a *authenticator) { a.present = 0 }, want: "refused"},
		"with the key of another person":  {change: func(_ *page, a *authenticator) { a.key = newAuthenticator(t).key }, want: "refused"},
		"as another person":               {change: func(_ *page, a *authenticator) { a.handle = text([]byte("bob")) }, want: "refused"},
		"with a credential of nobody":     {change: func(_ *page, a *authenticator) { a.id = []byte("another") }, want: passkey.ErrUnknown.Error()},
		"with one that was removed":       {change: func(p *page, _ *authenticator) { p.keys = nil }, want: passkey.ErrUnknown.Error()},
		"with one of another name":        {change: func(p *page, _ *authenticator) { p.keys[0].Site = "localhost" }, want: passkey.ErrUnknown.Error()},
		"too late":                        {change: func(p *page, _ *authenticator) { p.now = p.now.Add(ceremony.Time) }, want: ceremony.ErrLate.Error()},
		"before it was asked":             {change: func(p *page, _ *authenticator) { p.now = p.now.Add(-time.Second) }, want: ceremony.ErrLate.Error()},
		"to another process":              {change: func(p *page, _ *authenticator) { p.Room = newPage().Room }, want: ceremony.ErrLate.Error()},
		"with what is no answer":          {answer: func(string) string { return "{" }, want: "refused"},
		"with nothing":                    {answer: func(string) string { return "" }, want: "refused"},
		"with a key that was synced once": {change: func(p *page, _ *authenticator) { p.keys[0].Synced = true }, want: "refused"},
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
			answer := string(a.signs(t, asked))
			if c.answer != nil {
				answer = c.answer(answer)
			}
			key, err := p.SignedIn(origin, []byte(answer), p.find)
			if c.twice && err == nil {
				_, err = p.SignedIn(origin, []byte(answer), p.find)
			}
			if c.want == "" && (err != nil || key.Identity() != p.keys[0].Identity() || key.Count != a.count) {
				t.Errorf("have %+v, %v", key, err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("have %v, want %s", err, c.want)
			}
		})
	}
}

// M-46: a passkey is added by whom, in which sign-in and at which origin it was asked for, once, and not
// with a challenge that was made to sign somebody in.
func TestAPasskeyIsAddedAsItWasAsked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(p *page, a *authenticator, with *ceremony.Adding)
		want   string
	}{
		"for another person":           {func(_ *page, _ *authenticator, with *ceremony.Adding) { with.Name = "bob" }, ceremony.ErrLate.Error()},
		"in another sign-in":           {func(_ *page, _ *authenticator, with *ceremony.Adding) { with.Session = "s2" }, ceremony.ErrLate.Error()},
		"at another name of the page":  {func(_ *page, _ *authenticator, with *ceremony.Adding) { with.Origin = "http://localhost:1" }, ceremony.ErrLate.Error()},
		"too late":                     {func(p *page, _ *authenticator, _ *ceremony.Adding) { p.now = p.now.Add(ceremony.Time) }, ceremony.ErrLate.Error()},
		"by a page of another origin":  {func(_ *page, a *authenticator, _ *ceremony.Adding) { a.origin = "https://evil.example.com" }, "refused"},
		"by whoever was not verified":  {func(_ *page, a *authenticator, _ *ceremony.Adding) { a.verified = 0 }, "refused"},
		"without a credential":         {func(_ *page, a *authenticator, _ *ceremony.Adding) { a.made = 0 }, "refused"},
		"as it was asked, for a start": {func(*page, *authenticator, *ceremony.Adding) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, a, with := newPage(), newAuthenticator(t), ada
			asked, err := p.AskNew(with)
			if err != nil {
				t.Fatal(err)
			}
			c.change(p, a, &with)
			answer := a.creates(t, asked)
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
	asked["user"], asked["authenticatorSelection"] = map[string]any{"id": a.handle}, map[string]any{"userVerification": "required", "residentKey": "required"}
	forged, _ := json.Marshal(asked) // it can be written
	if _, err := p.New(ada, a.creates(t, forged)); !errors.Is(err, ceremony.ErrLate) {
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
