package rates_test

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/rates"
	"github.com/nacre-dev/nacre/internal/testpeer"
	"github.com/nacre-dev/nacre/internal/testwait"
	"github.com/nacre-dev/nacre/policy"
)

// counted is a limiter, and how time passes for it.
type counted struct {
	count func(take bool, rates ...policy.Rate) (over int, wait time.Duration, err error)
	pass  func(time.Duration)
}

func rate(principal string, calls int) policy.Rate {
	return policy.Rate{Key: policy.RateKey{Principal: principal, Group: "main"}, Limit: nacre.RateLimit{Calls: calls, Window: time.Minute}}
}

// takes counts a call, and tells whether it was.
func (c counted) takes(t *testing.T, rates ...policy.Rate) bool {
	t.Helper()
	over, wait, err := c.count(true, rates...)
	if err != nil || wait < 0 || wait > time.Minute || over < 0 || over >= len(rates) {
		t.Fatalf("have %d, %v, %v", over, wait, err)
	}
	return wait == 0
}

// here counts in one process.
func here() counted {
	var mu sync.Mutex
	var l policy.Limiter
	now := time.Unix(1_800_000_000, 0)
	return counted{
		count: func(take bool, rates ...policy.Rate) (int, time.Duration, error) {
			mu.Lock()
			defer mu.Unlock()
			return l.Count(rates, now, take)
		},
		pass: func(d time.Duration) { now = now.Add(d) },
	}
}

// machines count in the store at an address, each call at another of three.
func machines(t *testing.T, address string) counted {
	t.Helper()
	var all []*policy.Limiter
	for range 3 {
		s := database.NewStore(func() string { return address }, "acme")
		t.Cleanup(s.Close)
		all = append(all, &policy.Limiter{Together: rates.On(s)})
	}
	pool, err := pgxpool.New(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	var n atomic.Int64
	return counted{
		count: func(take bool, rates ...policy.Rate) (int, time.Duration, error) {
			return all[n.Add(1)%3].Count(rates, time.Time{}, take) // by the database's clock alone
		},
		pass: func(d time.Duration) {
			if _, err := pool.Exec(t.Context(), `UPDATE nacre_call SET at = at - $1::interval, until = until - $1::interval`, d); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// X-04, K-04: what holds for the calls that one process counts holds for those of several
// machines, whichever of them a call comes to.
func TestCallsAreCounted(t *testing.T) {
	t.Parallel()
	for name, holds := range map[string]func(*testing.T, counted){
		"so many in a window, which slides": slides, "asking counts nothing": asks, "calls at once are counted one after the other": atOnce,
		"a limit that allows nothing": nothing, "keys that differ are apart": apart,
	} {
		t.Run(name+", in one process", func(t *testing.T) { t.Parallel(); holds(t, here()) })
	}
	t.Run("at several machines", func(t *testing.T) {
		t.Parallel()
		server := testpeer.Postgres(t)
		for name, holds := range map[string]func(*testing.T, counted){"slides": slides, "asks": asks, "at_once": atOnce, "nothing": nothing, "apart": apart} {
			t.Run(name, func(t *testing.T) { holds(t, machines(t, testpeer.Database(t, server, name))) })
		}
		t.Run("all or none", func(t *testing.T) { allOrNone(t, machines(t, testpeer.Database(t, server, "whole"))) })
		t.Run("two limits of one key", func(t *testing.T) { twoLimits(t, machines(t, testpeer.Database(t, server, "two"))) })
	})
}

func slides(t *testing.T, c counted) {
	three := rate("a", 3)
	for _, step := range []struct {
		after time.Duration
		taken []bool
	}{
		{0, []bool{true}}, {40 * time.Second, []bool{true, true, false}}, {30 * time.Second, []bool{true, false}}, {31 * time.Second, []bool{true, true, false}},
		{5 * time.Minute, []bool{true, true, true, false}},
	} {
		if step.after > 0 {
			c.pass(step.after)
		}
		var have []bool
		for range step.taken {
			have = append(have, c.takes(t, three))
		}
		if !slices.Equal(have, step.taken) {
			t.Errorf("after %v more: have %v, want %v", step.after, have, step.taken)
		}
	}
}

func asks(t *testing.T, c counted) {
	one := rate("a", 1)
	for range 3 {
		if _, wait, err := c.count(false, one); wait != 0 || err != nil {
			t.Errorf("have %v, %v before any call", wait, err)
		}
	}
	c.takes(t, one)
	if _, wait, err := c.count(false, one); wait <= 0 || wait > time.Minute || err != nil {
		t.Errorf("have %v, %v after the last call", wait, err)
	}
}

func atOnce(t *testing.T, c counted) {
	var counted atomic.Int64
	var work sync.WaitGroup
	for range 24 {
		work.Go(func() {
			if _, wait, err := c.count(true, rate("a", 10), rate("b", 15)); err != nil {
				t.Error(err)
			} else if wait == 0 {
				counted.Add(1)
			}
		})
	}
	work.Wait()
	if counted.Load() != 10 {
		t.Errorf("%d calls were counted, want 10", counted.Load())
	}
}

func nothing(t *testing.T, c counted) {
	for _, limit := range []nacre.RateLimit{{}, {Calls: -1, Window: time.Minute}, {Calls: 1}, {Window: time.Minute}} {
		over, wait, err := c.count(true, rate("a", 5), policy.Rate{Key: policy.RateKey{Group: "main"}, Limit: limit})
		if over != 1 || wait <= 0 || err != nil {
			t.Errorf("%+v: have %d, %v, %v, want it refused", limit, over, wait, err)
		}
	}
}

func apart(t *testing.T, c counted) {
	for _, key := range []policy.RateKey{{Principal: "a", Group: "b"}, {Principal: "ab"}, {Group: "ab"}, {Principal: "a", Capability: "b"}, {Principal: "a\x00", Group: "\xff"}} {
		one := policy.Rate{Key: key, Limit: nacre.RateLimit{Calls: 1, Window: time.Minute}}
		if !c.takes(t, one) || c.takes(t, one) {
			t.Errorf("%+v: want one call counted", key)
		}
	}
}

// allOrNone: what one rate refuses counts for none.
func allOrNone(t *testing.T, c counted) {
	one, two := rate("a", 1), rate("b", 2)
	if !c.takes(t, one, two) {
		t.Error("the first call was refused")
	}
	if over, wait, err := c.count(true, two, one); over != 1 || wait <= 0 || err != nil {
		t.Errorf("have %d, %v, %v, want the full one", over, wait, err)
	}
	if !c.takes(t, two) || c.takes(t, two) {
		t.Error("what was refused was counted")
	}
}

// twoLimits: machines whose limits differ see each other's calls, and forget none of them.
func twoLimits(t *testing.T, c counted) {
	for range 5 {
		c.takes(t, rate("a", 5))
	}
	if c.takes(t, rate("a", 2)) || c.takes(t, rate("a", 5)) || !c.takes(t, rate("a", 6)) {
		t.Error("a call of the other machine's was forgotten")
	}
}

// where the store does not answer, nobody can tell how many calls there were.
func TestAStoreThatIsAwayCountsNothing(t *testing.T) {
	t.Parallel()
	wire := testpeer.NewWire(t, testpeer.Postgres(t))
	c := machines(t, wire.Address)
	c.takes(t, rate("a", 9))
	wire.Cut()
	for _, take := range []bool{true, false} {
		if _, _, err := c.count(take, rate("a", 9)); !errors.Is(err, rates.ErrAsked) {
			t.Errorf("have %v, want nobody to tell", err)
		}
	}
	wire.Heal()
	testwait.Until(t, "the store to answer again", func() bool {
		_, wait, err := c.count(true, rate("a", 100))
		return err == nil && wait == 0
	})
}
