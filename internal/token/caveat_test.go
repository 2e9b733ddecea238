package token_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/token"
)

// K-11: a holder is told at once what it cannot have.
func TestAHolderCannotDeriveMore(t *testing.T) {
	r := ring(t, "a")
	parent := attenuate(t, mint(t, r, full()), nacre.Caveat{
		ID: "c1", Uses: ptr(2), Expires: now.Add(time.Minute), Roles: []string{"reader"},
		Principal: alice.ID + "/b", Constraints: nacre.Constraints{MaxRows: ptr(10)},
	})
	limit := func(a nacre.ArgumentLimits) nacre.Caveat {
		return nacre.Caveat{ID: "c2", Constraints: nacre.Constraints{Arguments: a}}
	}
	for name, c := range map[string]nacre.Caveat{
		"no id":                {},
		"its root's id":        {ID: "t-1"},
		"its parent's id":      {ID: "c1"},
		"an id with a slash":   {ID: "c/2"},
		"a later expiry":       {ID: "c2", Expires: now.Add(time.Minute + 1)},
		"more uses":            {ID: "c2", Uses: ptr(3)},
		"no uses at all":       {ID: "c2", Uses: ptr(0)},
		"less than no uses":    {ID: "c2", Uses: ptr(-5)},
		"another role":         {ID: "c2", Roles: []string{"reader", "writer"}},
		"a role of no name":    {ID: "c2", Roles: []string{""}},
		"more rows":            {ID: "c2", Constraints: nacre.Constraints{MaxRows: ptr(11)}},
		"less than no rows":    {ID: "c2", Constraints: nacre.Constraints{MaxRows: ptr(-1)}},
		"another field":        {ID: "c2", Constraints: nacre.Constraints{AllowedFields: []string{"id", "ssn"}}},
		"another scope":        {ID: "c2", Constraints: nacre.Constraints{Scope: map[string]string{"region": "us"}}},
		"another argument":     limit(nacre.ArgumentLimits{AllowedKeys: []string{"a", "q"}}),
		"another pinned value": limit(nacre.ArgumentLimits{Pinned: map[string]json.RawMessage{"a": raw(`2`)}}),
		"a shorter prefix":     limit(nacre.ArgumentLimits{Prefix: map[string]string{"p": "/"}}),
		"a prefix elsewhere":   limit(nacre.ArgumentLimits{Prefix: map[string]string{"p": "/etc/"}}),
		"a prefix that climbs": limit(nacre.ArgumentLimits{Prefix: map[string]string{"p": "/safe/../etc/"}}),
		"its own principal":    {ID: "c2", Principal: alice.ID + "/b"},
		"its root's":           {ID: "c2", Principal: alice.ID},
		"a sibling":            {ID: "c2", Principal: alice.ID + "/c"},
		"a longer sibling":     {ID: "c2", Principal: alice.ID + "/bc"},
		"an empty segment":     {ID: "c2", Principal: alice.ID + "/b/"},
		"a double slash":       {ID: "c2", Principal: alice.ID + "/b//c"},
		"one dot":              {ID: "c2", Principal: alice.ID + "/b/."},
		"two dots":             {ID: "c2", Principal: alice.ID + "/b/../c"},
		"a wildcard":           {ID: "c2", Principal: alice.ID + "/b/*"},
		"a look-alike slash":   {ID: "c2", Principal: alice.ID + "/b\u2215c"},
		"a look-alike segment": {ID: "c2", Principal: alice.ID + "/b/c\uff0fd"},
		"a NUL":                {ID: "c2", Principal: alice.ID + "/b/c\x00"},
		"a backslash":          {ID: "c2", Principal: alice.ID + `/b/c\d`},
		"another case":         {ID: "c2", Principal: strings.ToUpper(alice.ID) + "/b/c"},
		"a percent":            {ID: "c2", Principal: alice.ID + "/b/%2e%2e"},
		"a long segment":       {ID: "c2", Principal: alice.ID + "/b/" + strings.Repeat("x", 65)},
	} {
		if have, err := token.Attenuate(parent, c); err == nil {
			t.Errorf("%s: derived %+v", name, have.Caveats)
		} else if !errors.Is(err, token.ErrMalformed) && !errors.Is(err, token.ErrPrincipal) {
			t.Errorf("%s: have %v", name, err)
		}
	}
}

// K-11: a holder who writes caveats by hand, with all that they know, gains
// nothing over what Attenuate gives.
func TestAHandWrittenCaveatGivesNothingBack(t *testing.T) {
	r := ring(t, "a")
	child := alice.ID + "/b"
	claims := plain()
	claims.Uses = ptr(5)
	parent := attenuate(t, mint(t, r, claims), nacre.Caveat{
		ID: "c1", Uses: ptr(2), Expires: now.Add(time.Minute), Roles: []string{"reader"}, Principal: child,
		Constraints: nacre.Constraints{MaxRows: ptr(10), AllowedFields: []string{"id"}},
	})
	p := present()
	p.Caller = child
	wide := nacre.Caveat{
		ID: "c2", Uses: ptr(100), Expires: now.Add(999 * time.Hour), Roles: []string{"reader", "writer", "admin"},
		Constraints: nacre.Constraints{MaxRows: ptr(999), AllowedFields: []string{"id", "ssn"}},
	}
	e, err := r.Verify(forge(parent, wide), p)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(e.Roles, []string{"reader"}) || *e.Constraints.MaxRows != 10 ||
		!slices.Equal(e.Constraints.AllowedFields, []string{"id"}) || !e.Expires.Equal(now.Add(time.Minute)) {
		t.Errorf("have %+v", e)
	}
	var ledger token.Ledger
	if err := ledger.Open(mint(t, r, claims), now); err != nil {
		t.Fatal(err)
	}
	for i, want := range []error{nil, nil, token.ErrSpent} {
		if have := ledger.Spend(e, now); !errors.Is(have, want) {
			t.Errorf("use %d: have %v, want %v", i+1, have, want)
		}
	}
	for _, to := range []string{alice.ID, alice.ID + "/c", child, child + "/..", child + "//d", child + "/*", "admin", child + "\u2215d"} {
		p.Caller = to
		if _, have := r.Verify(forge(parent, nacre.Caveat{ID: "c2", Principal: to}), p); !errors.Is(have, token.ErrPrincipal) {
			t.Errorf("handed to %q: have %v, want %v", to, have, token.ErrPrincipal)
		}
	}
}

// forge chains a caveat as someone does who has only the token and this page:
// principal, roles, expiry, uses, rows and fields.
func forge(t nacre.Token, c nacre.Caveat) nacre.Token {
	part := func(b []byte, s string) []byte {
		return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
	}
	list := func(b []byte, list []string) []byte {
		b = binary.BigEndian.AppendUint32(b, uint32(len(list)))
		for _, s := range list {
			b = part(b, s)
		}
		return b
	}
	b := []byte("nacre.caveat.2")
	flags, rest := byte(0), part(nil, c.ID)
	if c.Principal != "" {
		flags, rest = flags|8, part(rest, c.Principal)
	}
	if c.Roles != nil {
		flags, rest = flags|16, list(rest, c.Roles)
	}
	if !c.Expires.IsZero() {
		flags |= 32
		rest = binary.BigEndian.AppendUint64(rest, uint64(c.Expires.Unix()))
		rest = binary.BigEndian.AppendUint32(rest, uint32(c.Expires.Nanosecond()))
	}
	if c.Uses != nil {
		flags, rest = flags|2, binary.BigEndian.AppendUint64(rest, uint64(*c.Uses))
	}
	if c.Constraints.MaxRows != nil {
		flags |= 4
		rest = binary.BigEndian.AppendUint64(append(rest, 3), uint64(*c.Constraints.MaxRows))
		rest = list(rest, c.Constraints.AllowedFields)
	}
	mac := hmac.New(sha256.New, t.MAC[:])
	mac.Write(append(append(b, flags), rest...))
	t.MAC = [32]byte(mac.Sum(nil))
	t.Caveats = append(slices.Clone(t.Caveats), c)
	return t
}

// K-11
func TestAChildsTokenIsItsAlone(t *testing.T) {
	r := ring(t, "a")
	root := mint(t, r, plain())
	child := attenuate(t, root, nacre.Caveat{ID: "c1", Principal: alice.ID + "/b", Roles: []string{"reader"}})
	grandchild := attenuate(t, child, nacre.Caveat{ID: "c2", Principal: alice.ID + "/b/c.1/d_2"})
	for name, test := range map[string]struct {
		tok    nacre.Token
		caller string
		want   error
	}{
		"the parent's by the parent":            {root, alice.ID, nil},
		"the parent's by the child":             {root, alice.ID + "/b", token.ErrPrincipal},
		"the child's by the child":              {child, alice.ID + "/b", nil},
		"the child's by the parent":             {child, alice.ID, token.ErrPrincipal},
		"the child's by a sibling":              {child, alice.ID + "/c", token.ErrPrincipal},
		"the child's by the grandchild":         {child, alice.ID + "/b/c.1/d_2", token.ErrPrincipal},
		"the grandchild's by the grandchild":    {grandchild, alice.ID + "/b/c.1/d_2", nil},
		"the grandchild's by the child":         {grandchild, alice.ID + "/b", token.ErrPrincipal},
		"the grandchild's by nobody":            {grandchild, "", token.ErrPrincipal},
		"the grandchild's by another of a case": {grandchild, strings.ToUpper(alice.ID + "/b/c.1/d_2"), token.ErrPrincipal},
	} {
		p := present()
		p.Caller = test.caller
		e, have := r.Verify(test.tok, p)
		if !errors.Is(have, test.want) {
			t.Errorf("%s: have %v, want %v", name, have, test.want)
		}
		if have == nil && e.Principal != test.caller {
			t.Errorf("%s: have principal %q", name, e.Principal)
		}
	}
}

// K-11: a subject without roles has no roles to give.
func TestNoRolesGrowFromNone(t *testing.T) {
	nobody := nacre.Principal{ID: "n"}
	r := ring(t, "a")
	claims := plain()
	claims.Principal, claims.Authority = "n", token.Authority(nobody)
	tok := attenuate(t, mint(t, r, claims), nacre.Caveat{ID: "c", Roles: []string{"admin"}})
	p := present()
	p.Caller, p.Subject = "n", token.SubjectOf(nobody)
	e, err := r.Verify(tok, p)
	if err != nil || len(e.Roles) != 0 {
		t.Errorf("have %v, %v, want no roles", e.Roles, err)
	}
}

// K-11: roles in effect are those of all caveats and of the subject.
func TestRolesOnlyShrink(t *testing.T) {
	r := ring(t, "a")
	tok := attenuate(t, mint(t, r, plain()), nacre.Caveat{ID: "c1", Roles: []string{"writer", "admin"}})
	e, err := r.Verify(tok, present())
	if err != nil || !slices.Equal(e.Roles, []string{"writer"}) {
		t.Errorf("have %v, %v, want [writer]", e.Roles, err)
	}
	e, err = r.Verify(forge(tok, nacre.Caveat{ID: "c2", Roles: []string{"reader", "writer"}}), present())
	if err != nil || !slices.Equal(e.Roles, []string{"writer"}) {
		t.Errorf("have %v, %v, want [writer]", e.Roles, err)
	}
}

// K-11
func TestAnExpiredCaveatEndsAllBelow(t *testing.T) {
	r := ring(t, "a")
	tok := attenuate(t, mint(t, r, plain()), nacre.Caveat{ID: "c1", Expires: now.Add(time.Minute)})
	tok = attenuate(t, tok, nacre.Caveat{ID: "c2"})
	p := present()
	p.Now = now.Add(time.Minute)
	if _, have := r.Verify(tok, p); !errors.Is(have, token.ErrExpired) {
		t.Errorf("have %v, want %v", have, token.ErrExpired)
	}
}

// K-11
func TestDepthAndSizeAreBounded(t *testing.T) {
	r := ring(t, "a")
	tok := mint(t, r, plain())
	for i := range token.MaxCaveats {
		tok = attenuate(t, tok, nacre.Caveat{ID: fmt.Sprintf("c%d", i)})
	}
	if _, err := r.Verify(tok, present()); err != nil {
		t.Errorf("the deepest: %v", err)
	}
	if _, err := token.Attenuate(tok, nacre.Caveat{ID: "more"}); !errors.Is(err, token.ErrMalformed) {
		t.Errorf("one more: have %v, want %v", err, token.ErrMalformed)
	}
	if _, have := r.Verify(forge(tok, nacre.Caveat{ID: "more"}), present()); !errors.Is(have, token.ErrSignature) {
		t.Errorf("one more by hand: have %v, want %v", have, token.ErrSignature)
	}
	big := nacre.Caveat{ID: "big", Constraints: nacre.Constraints{Scope: map[string]string{"a": strings.Repeat("x", token.MaxText)}}}
	if _, err := token.Attenuate(mint(t, r, plain()), big); !errors.Is(err, token.ErrMalformed) {
		t.Errorf("a big one: have %v, want %v", err, token.ErrMalformed)
	}
}

// Two tokens that derive from one parent share nothing.
func TestSiblingsDoNotShareMemory(t *testing.T) {
	r := ring(t, "a")
	parent := attenuate(t, mint(t, r, plain()), nacre.Caveat{ID: "c0"})
	one := attenuate(t, parent, nacre.Caveat{ID: "c1"})
	two := attenuate(t, parent, nacre.Caveat{ID: "c2"})
	for _, tok := range []nacre.Token{one, two, parent} {
		if _, err := r.Verify(tok, present()); err != nil {
			t.Errorf("%+v: %v", tok.Caveats, err)
		}
	}
}

// K-12: an id covers what derives from it, and nothing beside it.
func TestARevokedIDCoversWhatDerivesFromIt(t *testing.T) {
	r := ring(t, "a")
	root := mint(t, r, plain())
	one := attenuate(t, root, nacre.Caveat{ID: "c1", Principal: alice.ID + "/one"})
	below := attenuate(t, one, nacre.Caveat{ID: "c11"})
	two := attenuate(t, root, nacre.Caveat{ID: "c2", Principal: alice.ID + "/two"})
	all := map[string]nacre.Token{"root": root, "one": one, "below one": below, "two": two}
	caller := map[string]string{"root": alice.ID, "one": alice.ID + "/one", "below one": alice.ID + "/one", "two": alice.ID + "/two"}
	for name, test := range map[string]struct {
		id, principal string
		hit           []string
	}{
		"a derived id":         {"t-1/c1", "", []string{"one", "below one"}},
		"the root id":          {"t-1", "", []string{"root", "one", "below one", "two"}},
		"a leaf's id":          {"t-1/c1/c11", "", []string{"below one"}},
		"a child principal":    {"", alice.ID + "/one", []string{"one", "below one"}},
		"the principal":        {"", alice.ID, []string{"root", "one", "below one", "two"}},
		"a principal above":    {"", "main", []string{"root", "one", "below one", "two"}},
		"another principal":    {"", alice.ID + "/on", nil},
		"another id":           {"c", "", nil},
		"a link's id alone":    {"c1", "", nil},
		"another token's link": {"t-2/c1", "", nil},
		"an id that is begun":  {"t-1/c", "", nil},
		"a name that is begun": {"", "mai", nil},
	} {
		revoked := new(token.RevocationList)
		if err := revoked.Revoke(test.id, test.principal, time.Time{}); err != nil {
			t.Fatal(err)
		}
		for kind, tok := range all {
			p := present()
			p.Caller, p.Revoked = caller[kind], revoked
			_, err := r.Verify(tok, p)
			if have, want := errors.Is(err, token.ErrRevoked), slices.Contains(test.hit, kind); have != want {
				t.Errorf("%s, %s: have revoked %v, want %v", name, kind, have, want)
			}
		}
	}
}
