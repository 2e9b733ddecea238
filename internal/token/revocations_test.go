package token_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/token"
)

func revokedNow(t testing.TB, l token.Revocations, id, principal string, at time.Time) bool {
	t.Helper()
	is, err := l.Revoked(id, principal, at)
	if err != nil {
		t.Fatal(err)
	}
	return is
}

// K-12
func TestRevocationsCoverWhatLiesBelow(t *testing.T) {
	l := new(token.RevocationList)
	if err := errors.Join(l.Revoke("x", "", time.Time{}), l.Revoke("", "a/b", time.Time{})); err != nil {
		t.Fatal(err)
	}
	for have, want := range map[[2]string]bool{
		{"x", ""}: true, {"y", ""}: false, {"", "a/b"}: true, {"", "a/b/c"}: true, {"", "a/b/c/d"}: true, {"", "a"}: false,
		{"", "a/bc"}: false, {"", "b"}: false, {"", "a/b/"}: true, {"", "/a/b"}: false, {"", "a//b"}: false, {"", ""}: false, {"a/b", "x"}: false,
		{"x/y/z", ""}: true, {"y/x", ""}: false, {"xy", ""}: false, {"/x", ""}: false,
	} {
		if is := revokedNow(t, l, have[0], have[1], now); is != want {
			t.Errorf("%q: have %v, want %v", have, is, want)
		}
	}
	for name, err := range map[string]error{
		"nothing":           l.Revoke("", "", time.Time{}),
		"both":              l.Revoke("x", "a", time.Time{}),
		"an id of no link":  l.Revoke("a//b", "", time.Time{}),
		"an id of too many": l.Revoke(strings.Repeat("a/", 17)+"a", "", time.Time{}),
		"an odd id":         l.Revoke("a\nb", "", time.Time{}),
		"a long principal":  l.Revoke("", strings.Repeat("a", 1025), time.Time{}),
		"a principal of no": l.Revoke("", "\xff", time.Time{}),
	} {
		if err == nil {
			t.Errorf("%s was revoked", name)
		}
	}
}

// K-12: a sweep never un-revokes, whatever the clock does.
func TestASweepNeverUnrevokes(t *testing.T) {
	l := new(token.RevocationList)
	end := now.Add(time.Hour)
	err := errors.Join(l.Revoke("short", "", end), l.Revoke("ever", "", time.Time{}), l.Revoke("", "a", end), l.Revoke("", "b", time.Time{}))
	if err != nil {
		t.Fatal(err)
	}
	// Shorter than before changes nothing.
	if err := errors.Join(l.Revoke("ever", "", now), l.Revoke("", "b", now), l.Revoke("short", "", now)); err != nil {
		t.Fatal(err)
	}
	sweep := func(at time.Time) {
		t.Helper()
		if err := l.Sweep(at); err != nil {
			t.Fatal(err)
		}
	}
	sweep(now)
	sweep(now.Add(100 * 24 * time.Hour)) // for once, the clock is far ahead
	sweep(now)
	for _, id := range []string{"short", "ever"} {
		if !revokedNow(t, l, id, "", now) {
			t.Errorf("%s is revoked no more", id)
		}
	}
	if !revokedNow(t, l, "", "a/x", now) || revokedNow(t, l, "", "a", end) || !revokedNow(t, l, "", "b", end) {
		t.Error("a principal is revoked until its end, or for ever")
	}
	sweep(end)
	sweep(end)
	if revokedNow(t, l, "short", "", end) || !revokedNow(t, l, "ever", "", end) || !revokedNow(t, l, "", "b", end) {
		t.Error("what is over is forgotten after two sweeps, and nothing else is")
	}
}

func TestRevocationsAreBounded(t *testing.T) {
	l := new(token.RevocationList)
	for i := range token.MaxRevocations {
		if err := l.Revoke(fmt.Sprint(i), "", time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Revoke("more", "", time.Time{}); !errors.Is(err, token.ErrRevocationsFull) {
		t.Errorf("have %v, want %v", err, token.ErrRevocationsFull)
	}
	if err := l.Revoke("0", "", time.Time{}); err != nil {
		t.Errorf("what is there already: %v", err)
	}
}

func TestRevocationsAreSafeForManyAtOnce(t *testing.T) {
	l := new(token.RevocationList)
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			for j := range 100 {
				_ = l.Revoke(fmt.Sprintf("%d-%d", i, j), "", now)
				_, _ = l.Revoked("1-1", "a/b", now)
				_ = l.Sweep(now.Add(-time.Hour))
			}
		})
	}
	wait.Wait()
	if !revokedNow(t, l, "7-99", "", now) {
		t.Error("one was lost")
	}
}
