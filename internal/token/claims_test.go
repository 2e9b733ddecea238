package token_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
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

func keys(t testing.TB, current string, ids ...string) token.Keys {
	t.Helper()
	secrets := map[string][]byte{}
	for _, id := range append(ids, current) {
		secrets[id] = []byte(strings.Repeat(id, token.MinKey))
	}
	k, err := token.NewKeys(current, secrets)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func claims() token.Claims {
	return token.Claims{
		ID: "t-1", Principal: alice.ID, Authority: token.Authority(alice),
		Capability: "notes.add", Arguments: token.Sum("arguments", `{"text":"a"}`),
		Expires: now.Add(time.Minute), Uses: 1,
	}
}

func want() token.Want {
	c := claims()
	return token.Want{
		Principal: c.Principal, Authority: c.Authority, Capability: c.Capability, Arguments: c.Arguments, Now: now,
	}
}

// K-10: every change to a token, or to what it is used for, is refused by name.
func TestATokenIsGoodForExactlyWhatItSays(t *testing.T) {
	admin := alice
	admin.Roles = append([]string{"admin"}, alice.Roles...)
	tests := map[string]struct {
		change func(*token.Token, *token.Want)
		have   error
	}{
		"an untouched token":               {func(*token.Token, *token.Want) {}, nil},
		"a changed id":                     {func(tok *token.Token, _ *token.Want) { tok.ID = "t-2" }, token.ErrSignature},
		"a changed principal":              {func(tok *token.Token, _ *token.Want) { tok.Principal = "main/s2" }, token.ErrSignature},
		"a changed authority":              {func(tok *token.Token, _ *token.Want) { tok.Authority[0] ^= 1 }, token.ErrSignature},
		"a changed capability":             {func(tok *token.Token, _ *token.Want) { tok.Capability = "notes.drop" }, token.ErrSignature},
		"changed arguments":                {func(tok *token.Token, _ *token.Want) { tok.Arguments[31] ^= 1 }, token.ErrSignature},
		"a later expiry":                   {func(tok *token.Token, _ *token.Want) { tok.Expires = tok.Expires.Add(time.Nanosecond) }, token.ErrSignature},
		"more uses":                        {func(tok *token.Token, _ *token.Want) { tok.Uses = 2 }, token.ErrSignature},
		"a changed signature":              {func(tok *token.Token, _ *token.Want) { tok.MAC[5] ^= 0x80 }, token.ErrSignature},
		"another known key's name":         {func(tok *token.Token, _ *token.Want) { tok.KeyID = "b" }, token.ErrSignature},
		"an unknown key's name":            {func(tok *token.Token, _ *token.Want) { tok.KeyID = "z" }, token.ErrUnknownKey},
		"bytes moved between two parts":    {func(tok *token.Token, _ *token.Want) { tok.ID, tok.Principal = "t-1main", "/s1" }, token.ErrSignature},
		"the zero token":                   {func(tok *token.Token, _ *token.Want) { *tok = token.Token{} }, token.ErrExpired},
		"the instant of expiry":            {func(_ *token.Token, w *token.Want) { w.Now = now.Add(time.Minute) }, token.ErrExpired},
		"a nanosecond before expiry":       {func(_ *token.Token, w *token.Want) { w.Now = now.Add(time.Minute - 1) }, nil},
		"another principal":                {func(_ *token.Token, w *token.Want) { w.Principal = "main/s2" }, token.ErrPrincipal},
		"a role added after it was minted": {func(_ *token.Token, w *token.Want) { w.Authority = token.Authority(admin) }, token.ErrPrincipal},
		"another capability":               {func(_ *token.Token, w *token.Want) { w.Capability = "notes.drop" }, token.ErrCapability},
		"other arguments":                  {func(_ *token.Token, w *token.Want) { w.Arguments = token.Sum("arguments", `{}`) }, token.ErrCapability},
		"a revoked id":                     {func(_ *token.Token, w *token.Want) { w.Revoked = func(string) bool { return true } }, token.ErrRevoked},
		"revoked comes before expired": {func(_ *token.Token, w *token.Want) {
			w.Now, w.Revoked = now.Add(time.Hour), func(string) bool { return true }
		}, token.ErrRevoked},
		"expired comes before an unknown key": {func(tok *token.Token, w *token.Want) {
			w.Now, tok.KeyID = now.Add(time.Hour), "z"
		}, token.ErrExpired},
		"the signature comes before the principal": {func(tok *token.Token, w *token.Want) {
			tok.MAC[0] ^= 1
			w.Principal = "x"
		}, token.ErrSignature},
		"the principal comes before the capability": {func(_ *token.Token, w *token.Want) {
			w.Principal, w.Capability = "x", "y.z"
		}, token.ErrPrincipal},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			k := keys(t, "a", "b")
			tok, err := k.Mint(claims())
			if err != nil {
				t.Fatal(err)
			}
			w := want()
			test.change(&tok, &w)
			if have := k.Verify(tok, w); !errors.Is(have, test.have) {
				t.Errorf("have %v, want %v", have, test.have)
			}
		})
	}
}

// K-10: a key can be rotated; a dropped key's tokens die.
func TestTokensOfTheLastKeyVerifyUntilItIsDropped(t *testing.T) {
	tok, err := keys(t, "a").Mint(claims())
	if err != nil {
		t.Fatal(err)
	}
	if err := keys(t, "b", "a").Verify(tok, want()); err != nil {
		t.Errorf("after rotation: %v", err)
	}
	if err := keys(t, "b").Verify(tok, want()); !errors.Is(err, token.ErrUnknownKey) {
		t.Errorf("after dropping the key: have %v, want %v", err, token.ErrUnknownKey)
	}
}

// K-24
func TestWhatIsMissingIsRefused(t *testing.T) {
	if _, err := token.NewKeys("a", nil); err == nil {
		t.Error("keys without a secret were accepted")
	}
	if _, err := token.NewKeys("a", map[string][]byte{"a": make([]byte, token.MinKey-1)}); err == nil {
		t.Error("a short secret was accepted")
	}
	if _, err := token.NewKeys("", map[string][]byte{"": make([]byte, token.MinKey)}); err == nil {
		t.Error("a key without a name was accepted")
	}
	if _, err := (token.Keys{}).Mint(claims()); !errors.Is(err, token.ErrUnknownKey) {
		t.Errorf("zero keys minted: %v", err)
	}
	for name, change := range map[string]func(*token.Claims){
		"id":         func(c *token.Claims) { c.ID = "" },
		"principal":  func(c *token.Claims) { c.Principal = "" },
		"capability": func(c *token.Claims) { c.Capability = "" },
		"uses":       func(c *token.Claims) { c.Uses = 0 },
	} {
		c := claims()
		change(&c)
		if _, err := keys(t, "a").Mint(c); err == nil {
			t.Errorf("claims without %s were minted", name)
		}
	}
}

func TestAuthorityIsASetOfRolesAndAMapOfAttributes(t *testing.T) {
	base := token.Authority(alice)
	same := alice
	same.Roles = []string{"writer", "reader", "writer"}
	if token.Authority(same) != base {
		t.Error("order or repetition of roles changed the digest")
	}
	for name, change := range map[string]func(*nacre.Principal){
		"a role more":          func(p *nacre.Principal) { p.Roles = []string{"reader", "writer", "admin"} },
		"a role less":          func(p *nacre.Principal) { p.Roles = []string{"reader"} },
		"an attribute's value": func(p *nacre.Principal) { p.Attributes = map[string]string{"tenant": "b"} },
		"an attribute more":    func(p *nacre.Principal) { p.Attributes = map[string]string{"tenant": "a", "x": ""} },
		"a role as an attribute": func(p *nacre.Principal) {
			p.Roles, p.Attributes = []string{"reader"}, map[string]string{"writer": "tenant", "a": ""}
		},
		"the group":               func(p *nacre.Principal) { p.Group = "other" },
		"the session":             func(p *nacre.Principal) { p.Session = "s2" },
		"two roles joined to one": func(p *nacre.Principal) { p.Roles = []string{"readerwriter"} },
		"no roles, two attributes": func(p *nacre.Principal) {
			p.Roles, p.Attributes = nil, map[string]string{"reader": "writer", "tenant": "a"}
		},
	} {
		p := alice
		change(&p)
		if token.Authority(p) == base {
			t.Errorf("%s: the digest stayed the same", name)
		}
	}
}

// K-10: a grant for one use is spent once, however many try.
func TestASingleUseIsSpentOnce(t *testing.T) {
	var uses token.Uses
	tok, err := keys(t, "a").Mint(claims())
	if err != nil {
		t.Fatal(err)
	}
	if err := uses.Spend(tok.ID); !errors.Is(err, token.ErrSpent) {
		t.Errorf("a token that was never opened: have %v, want %v", err, token.ErrSpent)
	}
	if err := uses.Open(tok, now); err != nil {
		t.Fatal(err)
	}
	if err := uses.Open(tok, now); !errors.Is(err, token.ErrSpent) {
		t.Errorf("opening twice: have %v, want %v", err, token.ErrSpent)
	}
	var spent atomic.Int32
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			if uses.Spend(tok.ID) == nil {
				spent.Add(1)
			}
		})
	}
	all.Wait()
	if spent.Load() != 1 {
		t.Errorf("spent %d times, want 1", spent.Load())
	}
}

func TestOpenTokensAreBoundedAndExpiredOnesMakeRoom(t *testing.T) {
	var uses token.Uses
	open := func(i int, at time.Time) error {
		return uses.Open(token.Token{Claims: token.Claims{ID: string(rune('a'+i%26)) + time.Duration(i).String(), Uses: 2, Expires: now.Add(time.Minute)}}, at)
	}
	for i := range token.MaxOpen {
		if err := open(i, now); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := open(token.MaxOpen, now); !errors.Is(err, token.ErrSpent) {
		t.Errorf("one too many: have %v, want %v", err, token.ErrSpent)
	}
	if err := open(token.MaxOpen, now.Add(time.Minute)); err != nil {
		t.Errorf("after the others expired: %v", err)
	}
}

func BenchmarkVerify(b *testing.B) {
	k := keys(b, "a")
	tok, err := k.Mint(claims())
	if err != nil {
		b.Fatal(err)
	}
	w := want()
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := k.Verify(tok, w); err != nil {
				b.Fatal(err)
			}
		}
	})
}
