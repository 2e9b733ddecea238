package lease_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/lease"
)

// mintHouse is a provider that knows what is good, and in which order it was asked.
type mintHouse struct {
	*house
	did    []string
	good   []string
	terms  []time.Duration
	life   time.Duration
	broken string // what is refused: mint or revoke
	// let, where it is there, is what an answer waits for, unless its asker has left.
	let, asked chan struct{}
}

func newMintHouse(t *testing.T) *mintHouse {
	return &mintHouse{house: newHouse(t), life: time.Hour}
}

func (m *mintHouse) Mint(ctx context.Context, ttl time.Duration) (lease.Minted, error) {
	if m.broken == "mint" {
		return lease.Minted{}, lease.ErrRefused
	}
	value := fmt.Sprintf("minted-value-%d", len(m.terms)+1)
	m.terms, m.good, m.did = append(m.terms, ttl), append(m.good, value), append(m.did, "mint")
	if m.let != nil {
		close(m.asked)
		<-m.let
		if ctx.Err() != nil { // nobody hears of what was minted
			return lease.Minted{}, ctx.Err()
		}
	}
	return lease.Minted{Material: lease.Material{Value: nacre.NewSecret(value)}, Handle: nacre.NewSecret(value), Expires: m.clock.now().Add(m.life)}, nil
}

func (m *mintHouse) Revoke(_ context.Context, handle nacre.Secret) error {
	m.did = append(m.did, "revoke")
	if m.broken == "revoke" {
		return errors.New("it did not answer")
	}
	m.good = slices.DeleteFunc(m.good, func(v string) bool { return v == handle.Reveal() })
	return nil
}

func (m *mintHouse) granted(b lease.Budget) lease.Spec {
	return lease.Spec{Name: "hub", Issuer: m, TTL: 30 * time.Minute, Budget: &b}
}

// M-30: the first lease counts against the hours, not the renewals, and a lease is clipped to what remains.
// The next one is minted before the last one is revoked. After the last one nothing is given, and nothing is
// left good.
func TestABudgetOfHoursAndRenewals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		budget time.Duration
		of     lease.Budget
		terms  []time.Duration
		lasts  time.Duration
	}{
		"no renewal":              {2 * time.Hour, lease.Budget{}, []time.Duration{30 * time.Minute}, 30 * time.Minute},
		"two renewals":            {2 * time.Hour, lease.Budget{Renewals: 2}, []time.Duration{30 * time.Minute, 30 * time.Minute, 30 * time.Minute}, 70 * time.Minute},
		"the hours end first":     {50 * time.Minute, lease.Budget{Renewals: 9}, []time.Duration{30 * time.Minute, 30 * time.Minute}, 50 * time.Minute},
		"less than a lease":       {5 * time.Minute, lease.Budget{}, []time.Duration{5 * time.Minute}, 5 * time.Minute},
		"less than the least":     {30 * time.Second, lease.Budget{Renewals: 9}, nil, 0},
		"over before it was used": {-time.Hour, lease.Budget{Renewals: 9}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMintHouse(t)
			began := m.clock.now()
			c.of.Until = began.Add(c.budget)
			l, err := m.broker().Acquire(t.Context(), "s1", "main", m.granted(c.of))
			var lasted time.Duration
			for err == nil {
				if _, err = l.Values(t.Context()); err == nil {
					m.clock.pass(time.Minute)
					lasted = m.clock.now().Sub(began)
				}
				if len(m.good) != 1 {
					t.Fatalf("after %v %v are good", lasted, m.good)
				}
			}
			if !errors.Is(err, lease.ErrExhausted) || lasted != c.lasts || !slices.Equal(m.terms, c.terms) {
				t.Errorf("have %v for %v: %v\nwant %v for %v", m.terms, lasted, err, c.terms, c.lasts)
			}
			var order []string
			for i := range c.terms {
				order = append(order, []string{"mint", "revoke"}[:min(i, 1)+1]...)
			}
			if !slices.Equal(m.did, order) {
				t.Errorf("it did %v, want %v", m.did, order)
			}
			if l != nil {
				if err := l.Release(t.Context()); err != nil || len(m.good) > 0 {
					t.Errorf("released: %v, %v are good", err, m.good)
				}
			}
		})
	}
}

// others are other machines, which are told of what is minted.
type others struct {
	*mintHouse
	broken string // what they do not hear of
}

func (o *others) hears(what string) error {
	o.did = append(o.did, what)
	if o.broken == what {
		return errors.New("nobody heard of it")
	}
	return nil
}

func (o *others) Minting(context.Context, lease.Held, time.Duration) error { return o.hears("minting") }

func (o *others) Minted(_ context.Context, h lease.Held, handle nacre.Secret, atMost time.Duration) error {
	if h.Session != "s1" || h.Credential != "hub" || h.ID == "" || handle.Empty() || atMost != o.life {
		return fmt.Errorf("have %+v for %v", h, atMost)
	}
	return o.hears("minted")
}

func (o *others) Ended(context.Context, string) error { return o.hears("ended") }

// other machines hear of a credential before it is minted, and of what it is revoked with before anybody
// is given it. Where they do not, nothing is minted, or it is taken back. That it has ended they may miss.
func TestOtherMachinesHearOfWhatIsMinted(t *testing.T) {
	t.Parallel()
	for broken, want := range map[string][]string{
		"":        {"minting", "mint", "minted", "revoke", "ended"},
		"minting": {"minting"},
		"minted":  {"minting", "mint", "minted", "revoke", "ended"},
		"ended":   {"minting", "mint", "minted", "revoke", "ended"},
	} {
		m := newMintHouse(t)
		b := lease.New(lease.Options{Path: m.path, Now: m.clock.now, Alive: func(nacre.SessionID) bool { return true }, Elsewhere: &others{m, broken}})
		l, err := b.Acquire(t.Context(), "s1", "main", m.granted(lease.Budget{Until: m.clock.now().Add(time.Hour)}))
		if given := err == nil; given != (broken == "" || broken == "ended") {
			t.Errorf("%s: have %v", broken, err)
		}
		if held, err := b.Held(); err != nil || len(held) != len(m.good) {
			t.Errorf("%s: have %+v, %v; %v are good", broken, held, err, m.good)
		}
		if l != nil {
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if held, err := b.Held(); err != nil || len(held)+len(m.good) != 0 || !slices.Equal(m.did, want) {
			t.Errorf("%s: it did %v, want %v; %v are held, %v are good: %v", broken, m.did, want, held, m.good, err)
		}
	}
}

// M-30: where a provider's credentials live for less than a lease, the lease goes on with the next one,
// and the renewals that a person granted are of leases.
func TestCredentialsThatAreShorterThanALeaseUseUpNoRenewals(t *testing.T) {
	t.Parallel()
	for life, minted := range map[time.Duration]int{5 * time.Minute: 16, time.Minute: 60} {
		m := newMintHouse(t)
		m.life = life
		began := m.clock.now()
		l, err := m.broker().Acquire(t.Context(), "s1", "main", m.granted(lease.Budget{Until: began.Add(4 * time.Hour), Renewals: 1}))
		var lasted time.Duration
		for err == nil {
			if _, err = l.Values(t.Context()); err == nil {
				m.clock.pass(time.Minute)
				lasted = m.clock.now().Sub(began)
			}
			if len(m.good) != 1 || l.Made() > 2 {
				t.Fatalf("of %v: after %v %v are good, leased %d times", life, lasted, m.good, l.Made())
			}
		}
		if !errors.Is(err, lease.ErrExhausted) || lasted != time.Hour || len(m.terms) != minted {
			t.Errorf("of %v: %d were minted for %v: %v; want %d for an hour", life, len(m.terms), lasted, err, minted)
		}
		if err := l.Release(t.Context()); err != nil || len(m.good) > 0 {
			t.Errorf("of %v: released: %v, %v are good", life, err, m.good)
		}
	}
}

// M-30, M-31: who asks may leave before the provider has answered, as a client does that waits for a second
// only. That leaves nothing that nacre does not know: the answer is kept, and used by the next.
func TestWhatIsMintedWhenItsAskerHasLeft(t *testing.T) {
	t.Parallel()
	m := newMintHouse(t)
	l := m.acquire(t, lease.Spec{Name: "hub", Issuer: m, TTL: 30 * time.Minute})
	m.clock.pass(25 * time.Minute)
	m.let, m.asked = make(chan struct{}), make(chan struct{})
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = l.Values(ctx) // whoever left hears nothing
	}()
	<-m.asked
	leave()
	close(m.let)
	<-done
	m.let = nil
	if values, err := l.Values(t.Context()); err != nil || values[0].Reveal() != "minted-value-2" || len(m.terms) != 2 {
		t.Errorf("the next one is given %v of %d: %v", values, len(m.terms), err)
	}
	if err := l.Release(t.Context()); err != nil || len(m.good) > 0 {
		t.Errorf("released: %v, %v are good", err, m.good)
	}
	if orphans, err := m.broker().Sweep(t.Context()); err != nil || len(orphans) > 0 {
		t.Errorf("the ledger still has %v %v", orphans, err)
	}
}

// M-31: a sweep waits once for a provider that does not answer, however many sessions crashed, so that the
// session that sweeps opens. The next sweep takes all of it back.
func TestASweepWaitsOnceForAProviderThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	m := newMintHouse(t)
	b := lease.New(lease.Options{
		Path: m.path, Now: m.clock.now, Getenv: func(string) string { return "" }, Alive: func(nacre.SessionID) bool { return false },
		Issuer: func(string) (lease.Issuer, error) { return m, nil },
	})
	for _, session := range []nacre.SessionID{"s1", "s2", "s3"} {
		if _, err := b.Acquire(t.Context(), session, "main", lease.Spec{Name: "hub", Issuer: m}); err != nil {
			t.Fatal(err)
		}
	}
	m.broken, m.did = "revoke", nil
	orphans, err := b.Sweep(t.Context())
	if err != nil || len(orphans) != 3 || !slices.Equal(m.did, []string{"revoke"}) {
		t.Errorf("it did %v for %v: %v", m.did, orphans, err)
	}
	for _, o := range orphans {
		if o.Left == "" || o.Refused {
			t.Errorf("%s is told as taken back, or refused: %+v", o.Session, o)
		}
	}
	m.broken = ""
	if orphans, err := b.Sweep(t.Context()); err != nil || len(orphans) != 3 || orphans[0].Left != "" || len(m.good) > 0 {
		t.Errorf("the next sweep: %+v %v, %v are good", orphans, err, m.good)
	}
}

// M-30, M-31: what nobody uses is taken back when its time is over. What a provider would not take back is
// tried again by each sweep, while the session lives.
func TestWhatNobodyUsesLapses(t *testing.T) {
	t.Parallel()
	m := newMintHouse(t)
	l := m.acquire(t, m.granted(lease.Budget{Until: m.clock.now().Add(4 * time.Hour), Renewals: 1}))
	m.clock.pass(29 * time.Minute)
	if err := l.Lapse(t.Context()); err != nil || len(m.good) != 1 {
		t.Fatalf("within its time: %v, %v", err, m.good)
	}
	m.clock.pass(time.Minute)
	m.broken = "revoke"
	if err := l.Lapse(t.Context()); err == nil {
		t.Error("a revocation that failed is not told of")
	}
	m.broken = ""
	if err := l.Lapse(t.Context()); err != nil || len(m.good) > 0 {
		t.Errorf("after its time: %v, %v are good", err, m.good)
	}
	if values, err := l.Values(t.Context()); err != nil || values[0].Reveal() != "minted-value-2" {
		t.Errorf("the renewal: %v", err)
	}
	m.clock.pass(time.Hour)
	if _, err := l.Values(t.Context()); !errors.Is(err, lease.ErrExhausted) {
		t.Errorf("without another one: %v", err)
	}
	m.broken = "revoke"
	if err := l.Release(t.Context()); err == nil {
		t.Error("a release that failed is not told of")
	}
	m.broken = ""
	if err := l.Release(t.Context()); err != nil || len(m.good) > 0 {
		t.Errorf("released again: %v, %v are good", err, m.good)
	}
	if orphans, err := m.broker().Sweep(t.Context()); err != nil || len(orphans) > 0 {
		t.Errorf("the ledger still has %v %v", orphans, err)
	}
}

// M-30: a provider that cannot renew stops nobody while the last credential is good, and
// everybody after that.
func TestARenewalThatFails(t *testing.T) {
	t.Parallel()
	m := newMintHouse(t)
	l := m.acquire(t, lease.Spec{Name: "hub", Issuer: m, TTL: 30 * time.Minute})
	m.broken = "mint"
	for range 29 {
		m.clock.pass(time.Minute)
		if values, err := l.Values(t.Context()); err != nil || values[0].Reveal() != "minted-value-1" {
			t.Fatalf("while it is good: %v", err)
		}
	}
	m.clock.pass(time.Minute)
	if _, err := l.Values(t.Context()); !errors.Is(err, lease.ErrRefused) {
		t.Errorf("when it is over: %v", err)
	}
	m.broken = ""
	if values, err := l.Values(t.Context()); err != nil || values[0].Reveal() != "minted-value-2" || len(m.good) != 1 {
		t.Errorf("when it is minted again: %v, %v are good", err, m.good)
	}
}

// M-30, M-34: an answer grants no more than was asked, and less where it says so.
func TestAnAnswerGrantsNoMoreThanWasAsked(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	asked := lease.Budgeting{Hours: 4, Renewals: 3}
	for name, c := range map[string]struct {
		span   time.Duration
		leases int
		want   lease.Budget
	}{
		"all of it":     {0, 0, lease.Budget{Until: now.Add(4 * time.Hour), Renewals: 3}},
		"a shorter one": {time.Hour, 0, lease.Budget{Until: now.Add(time.Hour), Renewals: 3}},
		"a longer one":  {8 * time.Hour, 100, lease.Budget{Until: now.Add(4 * time.Hour), Renewals: 3}},
		"one lease":     {time.Hour, 1, lease.Budget{Until: now.Add(time.Hour)}},
	} {
		if have := asked.Granted(now, c.span, c.leases); have != c.want {
			t.Errorf("%s: have %+v, want %+v", name, have, c.want)
		}
	}
	if have := (lease.Budgeting{}).Granted(now, 0, 0); have.Until.After(now) {
		t.Errorf("the zero value grants %+v", have)
	}
}

// M-30: a budget is refused where it bounds nothing, or its leases are too short.
func TestBudgetsThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]lease.Budgeting{
		"no hours": {Renewals: 3}, "hours without an end": {Hours: 25}, "negative hours": {Hours: -1}, "negative renewals": {Hours: 1, Renewals: -1}, "renewals without an end": {Hours: 1, Renewals: 101},
	} {
		table := lease.Minting{Kind: lease.Vault, URL: "https://vault.example", Policies: []string{"deploy"}, Budget: b}
		if table.Check() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	table := lease.Minting{Kind: lease.Vault, URL: "https://vault.example", Policies: []string{"deploy"}, Budget: lease.Budgeting{Hours: 4}}
	if err := table.Check(); err != nil {
		t.Error(err)
	}
	for ttl, ok := range map[string]bool{"": true, "15m": true, "1h": true, "14m": false, "2h": false} {
		if _, err := table.Lifetime(ttl); ok != (err == nil) {
			t.Errorf("ttl %q: %v", ttl, err)
		}
	}
}
