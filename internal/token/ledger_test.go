package token_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/token"
)

func verify(t testing.TB, r *token.Ring, tok nacre.Token) token.Effective {
	t.Helper()
	e, err := r.Verify(tok, present())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func bounded(t testing.TB, r *token.Ring, id string, uses *int) nacre.Token {
	claims := plain()
	claims.ID, claims.Uses = id, uses
	return mint(t, r, claims)
}

func open(t testing.TB, l *token.Ledger, tok nacre.Token) {
	t.Helper()
	if err := l.Open(tok, now); err != nil {
		t.Fatal(err)
	}
}

func spend(t testing.TB, l *token.Ledger, e token.Effective, want ...error) {
	t.Helper()
	for i, want := range want {
		if have := l.Spend(e, now); !errors.Is(have, want) {
			t.Errorf("use %d of %s: have %v, want %v", i+1, e.ID, have, want)
		}
	}
}

// K-11: whatever is derived is charged to its root, and to itself.
func TestDerivedTokensShareTheirRootsUses(t *testing.T) {
	r, l := ring(t, "a"), new(token.Ledger)
	root := bounded(t, r, "t-1", ptr(4))
	open(t, l, root)
	one := attenuate(t, root, nacre.Caveat{ID: "c1", Uses: ptr(2)})
	below := attenuate(t, one, nacre.Caveat{ID: "c11", Uses: ptr(2)})
	free := attenuate(t, root, nacre.Caveat{ID: "c2"})
	spend(t, l, verify(t, r, below), nil)
	spend(t, l, verify(t, r, one), nil, token.ErrSpent)
	spend(t, l, verify(t, r, below), token.ErrSpent)
	spend(t, l, verify(t, r, free), nil)
	spend(t, l, verify(t, r, root), nil, token.ErrSpent)
	spend(t, l, verify(t, r, free), token.ErrSpent)
}

// K-11: two holders who choose one id for two tokens do not share a bound.
func TestABoundBelongsToItsLinkNotToItsName(t *testing.T) {
	r, l := ring(t, "a"), new(token.Ledger)
	root := bounded(t, r, "t-1", nil)
	open(t, l, root)
	mine := attenuate(t, root, nacre.Caveat{ID: "c", Uses: ptr(1), Roles: []string{"reader"}})
	theirs := attenuate(t, root, nacre.Caveat{ID: "c", Uses: ptr(1)})
	spend(t, l, verify(t, r, mine), nil, token.ErrSpent)
	spend(t, l, verify(t, r, theirs), nil, token.ErrSpent)
	spend(t, l, verify(t, r, root), nil, nil, nil)
}

// K-10: a restart, and another process, give no use back.
func TestATokenThatWasNeverOpenedHasNoUses(t *testing.T) {
	r, l := ring(t, "a"), new(token.Ledger)
	spend(t, l, verify(t, r, bounded(t, r, "t-1", ptr(1))), token.ErrSpent)
	free := bounded(t, r, "t-2", nil)
	spend(t, l, verify(t, r, free), nil, nil)
	spend(t, l, verify(t, r, attenuate(t, free, nacre.Caveat{ID: "c", Uses: ptr(1)})), token.ErrSpent)
	if have := l.Spend(token.Effective{}, now); have == nil {
		t.Error("the zero Effective was spent")
	}
}

// K-18: a dry run takes no use, and tells what a run would be told.
func TestACheckTakesNothing(t *testing.T) {
	r, l := ring(t, "a"), new(token.Ledger)
	root := bounded(t, r, "t-1", ptr(1))
	open(t, l, root)
	e := verify(t, r, root)
	for range 3 {
		if err := l.Check(e, now); err != nil {
			t.Fatal(err)
		}
	}
	spend(t, l, e, nil)
	if have := l.Check(e, now); !errors.Is(have, token.ErrSpent) {
		t.Errorf("have %v, want %v", have, token.ErrSpent)
	}
}

// K-10: however many try at once.
func TestUsesAreSpentExactlyAsOftenAsThereAre(t *testing.T) {
	r, l := ring(t, "a"), new(token.Ledger)
	root := bounded(t, r, "t-1", ptr(50))
	open(t, l, root)
	var tokens []token.Effective
	for i := range 4 {
		tokens = append(tokens, verify(t, r, attenuate(t, root, nacre.Caveat{ID: fmt.Sprintf("c%d", i), Uses: ptr(20)})))
	}
	var spent [4]atomic.Int64
	var wait sync.WaitGroup
	for i := range 200 {
		wait.Go(func() {
			if l.Spend(tokens[i%4], now) == nil {
				spent[i%4].Add(1)
			}
		})
	}
	wait.Wait()
	sum := int64(0)
	for i := range spent {
		if have := spent[i].Load(); have > 20 {
			t.Errorf("token %d was spent %d times, want at most 20", i, have)
		}
		sum += spent[i].Load()
	}
	if sum != 50 {
		t.Errorf("have %d uses, want 50", sum)
	}
}

// K-12: neither a sweep nor a clock that goes back gives a use back.
func TestASweepResurrectsNothing(t *testing.T) {
	r, l := ring(t, "a"), new(token.Ledger)
	claims := plain()
	claims.Uses = ptr(5)
	claims.Expires = now.Add(time.Minute)
	first := mint(t, r, claims)
	open(t, l, first)
	e := verify(t, r, first)
	spend(t, l, e, nil)
	for i := range token.MaxAccounts - 1 {
		open(t, l, nacre.Token{ID: fmt.Sprint(i), Uses: ptr(1), Expires: now.Add(time.Minute)})
	}
	more := nacre.Token{ID: "more", Uses: ptr(1), Expires: now.Add(time.Hour)}
	if have := l.Open(more, now); !errors.Is(have, token.ErrSpent) {
		t.Errorf("one token too many: have %v, want %v", have, token.ErrSpent)
	}
	if err := l.Open(more, now.Add(time.Minute)); err != nil {
		t.Errorf("after the others expired: %v", err)
	}
	spend(t, l, e, token.ErrExpired) // now is a minute ago
	if have := l.Open(first, now); !errors.Is(have, token.ErrExpired) {
		t.Errorf("opened again: have %v, want %v", have, token.ErrExpired)
	}
	if have := l.Open(more, now); !errors.Is(have, token.ErrSpent) {
		t.Errorf("opened twice: have %v, want %v", have, token.ErrSpent)
	}
}

func TestTheBoundsOfOneTokenAreBounded(t *testing.T) {
	r, l := ring(t, "a"), new(token.Ledger)
	root, other := bounded(t, r, "t-1", nil), bounded(t, r, "t-2", ptr(1))
	open(t, l, root)
	open(t, l, other)
	refused := 0
	for i := range 100 {
		if l.Spend(verify(t, r, attenuate(t, root, nacre.Caveat{ID: fmt.Sprintf("c%d", i), Uses: ptr(1)})), now) != nil {
			refused++
		}
	}
	if refused != 36 {
		t.Errorf("have %d refused, want 36", refused)
	}
	spend(t, l, verify(t, r, other), nil)
}
