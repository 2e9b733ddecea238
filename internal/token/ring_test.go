package token_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/token"
)

var (
	now   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	alice = nacre.Principal{
		ID: "main/s1", Group: "main", Session: "s1",
		Roles: []string{"reader", "writer"}, Attributes: map[string]string{"tenant": "a"},
	}
)

func key(id string) token.Key {
	return token.Key{ID: id, Secret: []byte(strings.Repeat(id, token.MinKey))}
}

func ring(t testing.TB, current string, previous ...string) *token.Ring {
	t.Helper()
	var keys []token.Key
	for _, id := range previous {
		keys = append(keys, key(id))
	}
	r, err := token.NewRing(key(current), keys...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func ptr(n int) *int { return &n }

func raw(s string) json.RawMessage { return json.RawMessage(s) }

// plain is a token that nobody narrowed, before it is minted.
func plain() nacre.Token {
	return nacre.Token{
		ID: "t-1", Principal: alice.ID, Capability: "notes.list", Authority: token.Authority(alice),
		Issued: now, Expires: now.Add(time.Hour),
	}
}

// full has every part there is.
func full() nacre.Token {
	t := plain()
	t.Uses = ptr(3)
	t.Arguments = token.ArgumentsDigest(raw(`{"a":1,"p":"/safe/x"}`))
	t.Constraints = nacre.Constraints{
		MaxRows: ptr(50), AllowedFields: []string{"id", "name"}, Scope: map[string]string{"region": "eu"},
		Arguments: nacre.ArgumentLimits{
			AllowedKeys: []string{"a", "p"}, Pinned: map[string]json.RawMessage{"a": raw(`1`)},
			Prefix: map[string]string{"p": "/safe/"},
		},
	}
	return t
}

func mint(t testing.TB, r *token.Ring, c nacre.Token) nacre.Token {
	t.Helper()
	minted, err := r.Mint(c)
	if err != nil {
		t.Fatal(err)
	}
	return minted
}

func attenuate(t testing.TB, tok nacre.Token, c nacre.Caveat) nacre.Token {
	t.Helper()
	derived, err := token.Attenuate(tok, c)
	if err != nil {
		t.Fatal(err)
	}
	return derived
}

func present() token.Presentation {
	return token.Presentation{
		Caller: alice.ID, Subject: token.SubjectOf(alice), Capability: "notes.list",
		Arguments: raw(`{"a":1,"p":"/safe/x"}`), Now: now, Revoked: new(token.RevocationList),
	}
}

// K-10: every field is under the signature, whatever the caller says to match.
func TestNoPartOfATokenCanBeChanged(t *testing.T) {
	changes := map[string]func(*nacre.Token){
		"id":             func(t *nacre.Token) { t.ID = "t-2" },
		"principal":      func(t *nacre.Token) { t.Principal = "main/s2" },
		"capability":     func(t *nacre.Token) { t.Capability = "notes.drop" },
		"authority":      func(t *nacre.Token) { t.Authority[31] ^= 1 },
		"issued":         func(t *nacre.Token) { t.Issued = t.Issued.Add(1) },
		"a later expiry": func(t *nacre.Token) { t.Expires = t.Expires.Add(time.Nanosecond) },
		"another key":    func(t *nacre.Token) { t.KeyID = "b" },
		"mac":            func(t *nacre.Token) { t.MAC[0] ^= 0x80 },
		"no mac":         func(t *nacre.Token) { t.MAC = [32]byte{} },
		"more rows":      func(t *nacre.Token) { t.Constraints.MaxRows = ptr(51) },
		"any rows":       func(t *nacre.Token) { t.Constraints.MaxRows = nil },
		"another field":  func(t *nacre.Token) { t.Constraints.AllowedFields = []string{"id", "ssn"} },
		"any field":      func(t *nacre.Token) { t.Constraints.AllowedFields = nil },
		"no field":       func(t *nacre.Token) { t.Constraints.AllowedFields = []string{} },
		"two fields as one": func(t *nacre.Token) {
			t.Constraints.AllowedFields = []string{"idname"}
		},
		"scope":          func(t *nacre.Token) { t.Constraints.Scope = map[string]string{"region": "us"} },
		"no scope":       func(t *nacre.Token) { t.Constraints.Scope = nil },
		"allowed keys":   func(t *nacre.Token) { t.Constraints.Arguments.AllowedKeys = []string{"a", "p", "q"} },
		"pinned":         func(t *nacre.Token) { t.Constraints.Arguments.Pinned = map[string]json.RawMessage{"a": raw(`2`)} },
		"pinned as text": func(t *nacre.Token) { t.Constraints.Arguments.Pinned = map[string]json.RawMessage{"a": raw(`"1"`)} },
		"prefix":         func(t *nacre.Token) { t.Constraints.Arguments.Prefix = map[string]string{"p": "/"} },
		"no constraints": func(t *nacre.Token) { t.Constraints = nacre.Constraints{} },
		"arguments":      func(t *nacre.Token) { t.Arguments[0] ^= 1 },
		"any arguments":  func(t *nacre.Token) { t.Arguments = [32]byte{} },
		"more uses":      func(t *nacre.Token) { t.Uses = ptr(4) },
		"any uses":       func(t *nacre.Token) { t.Uses = nil },
		"bytes moved":    func(t *nacre.Token) { t.ID, t.Principal = "t-1main", "/s1" },
		"a caveat added": func(t *nacre.Token) { t.Caveats = []nacre.Caveat{{ID: "c"}} },
		"a broken value": func(t *nacre.Token) { t.Constraints.Arguments.Pinned = map[string]json.RawMessage{"a": raw(`{`)} },
	}
	r := ring(t, "a", "b")
	if _, err := r.Verify(mint(t, r, full()), present()); err != nil {
		t.Fatalf("untouched: %v", err)
	}
	for name, change := range changes {
		tok := mint(t, r, full())
		change(&tok)
		p := present()
		p.Caller, p.Capability = tok.Principal, tok.Capability // whatever would match
		if _, have := r.Verify(tok, p); !errors.Is(have, token.ErrSignature) {
			t.Errorf("%s: have %v, want %v", name, have, token.ErrSignature)
		}
	}
}

// K-10: a chain of caveats is one thing: none can be taken off, changed or moved.
func TestNoCaveatCanBeChanged(t *testing.T) {
	r := ring(t, "a")
	root := mint(t, r, plain())
	derived := attenuate(t, root, nacre.Caveat{ID: "c1", Roles: []string{"reader"}, Expires: now.Add(time.Minute)})
	derived = attenuate(t, derived, nacre.Caveat{
		ID: "c2", Uses: ptr(1), Principal: alice.ID + "/child", Constraints: nacre.Constraints{MaxRows: ptr(5)},
	})
	p := present()
	p.Caller = alice.ID + "/child"
	if _, err := r.Verify(derived, p); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*nacre.Token){
		"the last taken off":  func(t *nacre.Token) { t.Caveats = t.Caveats[:1] },
		"all taken off":       func(t *nacre.Token) { t.Caveats = nil },
		"the first taken off": func(t *nacre.Token) { t.Caveats = t.Caveats[1:] },
		"moved":               func(t *nacre.Token) { slices.Reverse(t.Caveats) },
		"repeated":            func(t *nacre.Token) { t.Caveats = append(t.Caveats, t.Caveats[1]) },
		"roles":               func(t *nacre.Token) { t.Caveats[0].Roles = []string{"reader", "writer"} },
		"any roles":           func(t *nacre.Token) { t.Caveats[0].Roles = nil },
		"expiry":              func(t *nacre.Token) { t.Caveats[0].Expires = now.Add(time.Hour) },
		"no expiry":           func(t *nacre.Token) { t.Caveats[0].Expires = time.Time{} },
		"uses":                func(t *nacre.Token) { t.Caveats[1].Uses = nil },
		"rows":                func(t *nacre.Token) { t.Caveats[1].Constraints.MaxRows = ptr(6) },
		"principal":           func(t *nacre.Token) { t.Caveats[1].Principal = alice.ID + "/other" },
		"id":                  func(t *nacre.Token) { t.Caveats[1].ID = "c3" },
		"a shape of no sense": func(t *nacre.Token) { t.Caveats[1].Uses = ptr(-1) },
		"too many":            func(t *nacre.Token) { t.Caveats = make([]nacre.Caveat, token.MaxCaveats+1) },
	} {
		tok := derived
		tok.Caveats = slices.Clone(derived.Caveats)
		change(&tok)
		if _, have := r.Verify(tok, p); !errors.Is(have, token.ErrSignature) {
			t.Errorf("%s: have %v, want %v", name, have, token.ErrSignature)
		}
	}
}

// K-10: revoked, expired, key, signature, principal, capability, arguments.
// Each row breaks one thing more, from the last to the first.
func TestTheFirstCheckThatFailsDecides(t *testing.T) {
	r := ring(t, "a")
	tok, p := mint(t, r, full()), present()
	steps := []struct {
		breaks string
		do     func()
		want   error
	}{
		{"nothing", func() {}, nil},
		{"arguments", func() { p.Arguments = raw(`{"a":2}`) }, token.ErrArguments},
		{"capability", func() { p.Capability = "notes.drop" }, token.ErrCapability},
		{"principal", func() { p.Caller = "main/s2" }, token.ErrPrincipal},
		{"signature", func() { tok.MAC[3] ^= 1 }, token.ErrSignature},
		{"key", func() { tok.KeyID = "gone" }, token.ErrUnknownKey},
		{"expiry", func() { p.Now = tok.Expires }, token.ErrExpired},
		{"revocation", func() { _ = p.Revoked.Revoke(tok.ID, "", time.Time{}) }, token.ErrRevoked},
	}
	for _, step := range steps {
		step.do()
		if _, have := r.Verify(tok, p); !errors.Is(have, step.want) {
			t.Errorf("%s: have %v, want %v", step.breaks, have, step.want)
		}
	}
}

// K-10
func TestATokenIsGoodForItsSubjectOnly(t *testing.T) {
	r := ring(t, "a")
	tok := mint(t, r, plain())
	with := func(change func(*nacre.Principal)) token.Subject {
		p := alice
		change(&p)
		return token.SubjectOf(p)
	}
	for name, change := range map[string]func(*token.Presentation){
		"another caller":   func(p *token.Presentation) { p.Caller = "main/s2" },
		"no caller":        func(p *token.Presentation) { p.Caller = "" },
		"a child's caller": func(p *token.Presentation) { p.Caller = alice.ID + "/child" },
		"no subject":       func(p *token.Presentation) { p.Subject = token.Subject{} },
		"a role added": func(p *token.Presentation) {
			p.Subject = with(func(p *nacre.Principal) { p.Roles = []string{"reader", "writer", "admin"} })
		},
		"a role taken": func(p *token.Presentation) {
			p.Subject = with(func(p *nacre.Principal) { p.Roles = []string{"reader"} })
		},
		"another attribute": func(p *token.Presentation) {
			p.Subject = with(func(p *nacre.Principal) { p.Attributes = map[string]string{"tenant": "b"} })
		},
		"another session": func(p *token.Presentation) { p.Subject = with(func(p *nacre.Principal) { p.Session = "s2" }) },
		"another group":   func(p *token.Presentation) { p.Subject = with(func(p *nacre.Principal) { p.Group = "g2" }) },
		"the same rights under another id": func(p *token.Presentation) {
			p.Subject = with(func(p *nacre.Principal) { p.ID = "main/s2" })
			p.Caller = "main/s2"
		},
	} {
		p := present()
		change(&p)
		if _, have := r.Verify(tok, p); !errors.Is(have, token.ErrPrincipal) {
			t.Errorf("%s: have %v, want %v", name, have, token.ErrPrincipal)
		}
	}
}

// K-10, K-24
func TestWhatIsMissingAtAVerificationRefuses(t *testing.T) {
	r := ring(t, "a")
	tok := mint(t, r, plain())
	p := present()
	p.Now = time.Time{}
	if _, have := r.Verify(tok, p); !errors.Is(have, token.ErrExpired) {
		t.Errorf("no clock: have %v, want %v", have, token.ErrExpired)
	}
	p = present()
	p.Revoked = nil
	if _, have := r.Verify(tok, p); !errors.Is(have, token.ErrRevoked) {
		t.Errorf("no revocations: have %v, want %v", have, token.ErrRevoked)
	}
	p.Revoked = &failing{}
	if _, have := r.Verify(tok, p); !errors.Is(have, token.ErrRevoked) || !errors.Is(have, errDisk) {
		t.Errorf("revocations that cannot be read: have %v, want %v", have, token.ErrRevoked)
	}
	if _, have := new(token.Ring).Verify(tok, present()); !errors.Is(have, token.ErrUnknownKey) {
		t.Errorf("zero ring: have %v, want %v", have, token.ErrUnknownKey)
	}
	if _, have := new(token.Ring).Mint(plain()); !errors.Is(have, token.ErrUnknownKey) {
		t.Errorf("zero ring mints: have %v, want %v", have, token.ErrUnknownKey)
	}
	if _, have := r.Verify(nacre.Token{}, present()); have == nil {
		t.Error("the zero token verified")
	}
	tok = mint(t, r, full())
	p = present()
	p.Arguments = nil
	if _, have := r.Verify(tok, p); !errors.Is(have, token.ErrArguments) {
		t.Errorf("no arguments: have %v, want %v", have, token.ErrArguments)
	}
}

var errDisk = errors.New("disk on fire")

type failing struct{ token.RevocationList }

func (*failing) Revoked(string, string, time.Time) (bool, error) { return false, errDisk }

// K-10
func TestOnlyWholeTokensAreMinted(t *testing.T) {
	for name, change := range map[string]func(*nacre.Token){
		"no id":                func(t *nacre.Token) { t.ID = "" },
		"an id with a space":   func(t *nacre.Token) { t.ID = "a b" },
		"a long id":            func(t *nacre.Token) { t.ID = strings.Repeat("a", 129) },
		"no principal":         func(t *nacre.Token) { t.Principal = "" },
		"a broken principal":   func(t *nacre.Token) { t.Principal = "\xff" },
		"no capability":        func(t *nacre.Token) { t.Capability = "" },
		"no authority":         func(t *nacre.Token) { t.Authority = [32]byte{} },
		"no expiry":            func(t *nacre.Token) { t.Expires = time.Time{} },
		"expired from birth":   func(t *nacre.Token) { t.Expires = t.Issued },
		"no uses at all":       func(t *nacre.Token) { t.Uses = ptr(0) },
		"less than no uses":    func(t *nacre.Token) { t.Uses = ptr(-1) },
		"less than no rows":    func(t *nacre.Token) { t.Constraints.MaxRows = ptr(-1) },
		"a prefix that climbs": func(t *nacre.Token) { t.Constraints.Arguments.Prefix = map[string]string{"p": "/safe/../"} },
		"a pin that is no JSON": func(t *nacre.Token) {
			t.Constraints.Arguments.Pinned = map[string]json.RawMessage{"p": raw(`{"a":1,"a":2}`)}
		},
		"a field of no UTF-8": func(t *nacre.Token) { t.Constraints.AllowedFields = []string{"\xff"} },
		"a key's name":        func(t *nacre.Token) { t.KeyID = "a" },
		"a mac":               func(t *nacre.Token) { t.MAC[0] = 1 },
		"caveats":             func(t *nacre.Token) { t.Caveats = []nacre.Caveat{{ID: "c"}} },
		"more than a text holds": func(t *nacre.Token) {
			t.Constraints.AllowedFields = []string{strings.Repeat("a", token.MaxText)}
		},
	} {
		tok := plain()
		change(&tok)
		if _, err := ring(t, "a").Mint(tok); !errors.Is(err, token.ErrMalformed) {
			t.Errorf("%s: have %v, want %v", name, err, token.ErrMalformed)
		}
	}
}

func TestAMintedTokenSharesNoMemory(t *testing.T) {
	r := ring(t, "a")
	claims := full()
	tok := mint(t, r, claims)
	*claims.Uses, *claims.Constraints.MaxRows, claims.Constraints.AllowedFields[0] = 9, 99, "ssn"
	claims.Constraints.Scope["region"], claims.Constraints.Arguments.Pinned["a"][0] = "us", '9'
	if _, err := r.Verify(tok, present()); err != nil {
		t.Errorf("after the claims were changed: %v", err)
	}
}

// K-10: rotation, with tokens of the last key out.
func TestAKeyIsRotatedWhileItsTokensAreOut(t *testing.T) {
	r := ring(t, "a")
	old := mint(t, r, plain())
	last := key("a")
	last.Until = now.Add(10 * time.Minute)
	if err := r.Rotate(key("b"), last); err != nil {
		t.Fatal(err)
	}
	fresh := mint(t, r, plain())
	if fresh.KeyID != "b" {
		t.Errorf("have key %q, want b", fresh.KeyID)
	}
	p := present()
	for _, tok := range []nacre.Token{old, fresh} {
		if _, err := r.Verify(tok, p); err != nil {
			t.Errorf("key %s: %v", tok.KeyID, err)
		}
	}
	p.Now = last.Until
	if _, have := r.Verify(old, p); !errors.Is(have, token.ErrUnknownKey) {
		t.Errorf("at the old key's end: have %v, want %v", have, token.ErrUnknownKey)
	}
	if _, err := r.Verify(fresh, p); err != nil {
		t.Errorf("at the old key's end, the new key: %v", err)
	}
	for name, err := range map[string]error{
		"a short secret":        r.Rotate(token.Key{ID: "c", Secret: make([]byte, token.MinKey-1)}),
		"no name":               r.Rotate(token.Key{Secret: make([]byte, token.MinKey)}),
		"one name twice":        r.Rotate(key("c"), key("c")),
		"a current key's end":   r.Rotate(last),
		"more than a ring hold": r.Rotate(key("c"), make([]token.Key, 16)...),
	} {
		if err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if _, err := r.Verify(fresh, p); err != nil {
		t.Errorf("after rotations that were refused: %v", err)
	}
	if have := fmt.Sprintf("%v %+v %#v", key("c"), key("c"), key("c")); strings.Contains(have, "99") {
		t.Errorf("a secret is printed: %s", have)
	}
}

// K-10: whoever verifies while keys are rotated sees the old set or the new one.
func TestARotationInFlightRefusesNobody(t *testing.T) {
	r := ring(t, "a")
	old := mint(t, r, plain())
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 300 {
				fresh, err := r.Mint(plain())
				if err != nil {
					t.Error(err)
					return
				}
				for _, tok := range []nacre.Token{old, fresh} {
					if _, err := r.Verify(tok, present()); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	for i := range 100 {
		current, previous := "a", "b"
		if i%2 == 0 {
			current, previous = previous, current
		}
		if err := r.Rotate(key(current), key(previous)); err != nil {
			t.Fatal(err)
		}
	}
	wait.Wait()
}

// K-10: a clock that goes back revives nothing.
func TestAClockThatGoesBackRevivesNoToken(t *testing.T) {
	r := ring(t, "a")
	tok := mint(t, r, plain())
	p := present()
	p.Now = tok.Expires
	if _, have := r.Verify(tok, p); !errors.Is(have, token.ErrExpired) {
		t.Fatalf("have %v, want %v", have, token.ErrExpired)
	}
	for _, back := range []time.Duration{time.Nanosecond, time.Minute, 24 * 365 * time.Hour} {
		p.Now = tok.Expires.Add(-back)
		if _, have := r.Verify(tok, p); !errors.Is(have, token.ErrExpired) {
			t.Errorf("%v back: have %v, want %v", back, have, token.ErrExpired)
		}
	}
}

// The chained MAC is HMAC, and the first one is over the token's own bytes.
func TestMACsAreHMACs(t *testing.T) {
	r := ring(t, "a")
	root := mint(t, r, plain())
	derived := attenuate(t, root, nacre.Caveat{ID: "c"})
	h := hmac.New(sha256.New, root.MAC[:])
	h.Write([]byte("nacre.caveat.2\x00\x00\x00\x00\x01c"))
	if want := h.Sum(nil); string(want) != string(derived.MAC[:]) {
		t.Errorf("have %x, want %x", derived.MAC, want)
	}
}

// A token may travel as JSON too: nothing that is signed changes on the way.
func TestATokenThatTravelledAsJSONVerifies(t *testing.T) {
	r := ring(t, "a")
	claims := full()
	claims.Constraints.Arguments.Pinned = map[string]json.RawMessage{"a": raw(`{"z":"<&>\u2028","b":[1.0,1e3]}`)}
	claims.Arguments = [32]byte{}
	tok := attenuate(t, mint(t, r, claims), nacre.Caveat{ID: "c", Roles: []string{}, Expires: now.Add(time.Minute), Uses: ptr(1)})
	text, err := json.Marshal(tok)
	if err != nil {
		t.Fatal(err)
	}
	var back nacre.Token
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	p := present()
	p.Arguments = raw(`{"p":"/safe/x","a":{"b":[1,1000],"z":"<&>\u2028"}}`)
	e, err := r.Verify(back, p)
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Roles) != 0 || !e.Expires.Equal(now.Add(time.Minute)) || e.ID != "t-1/c" || e.RootID != "t-1" {
		t.Errorf("have %+v", e)
	}
}

func TestEffectiveOfAPlainTokenIsTheToken(t *testing.T) {
	r := ring(t, "a")
	tok := mint(t, r, full())
	e, err := r.Verify(tok, present())
	if err != nil {
		t.Fatal(err)
	}
	if e.Principal != alice.ID || !slices.Equal(e.Roles, []string{"reader", "writer"}) || e.ID != "t-1" || e.RootID != "t-1" ||
		!e.Expires.Equal(tok.Expires) || !reflect.DeepEqual(e.Constraints, tok.Constraints) {
		t.Errorf("have %+v", e)
	}
}
