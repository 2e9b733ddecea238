package leasing_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/lease"
	"github.com/nacre-dev/nacre/internal/leasing"
)

// provider knows which of its credentials are good, and until when each was asked for.
type provider struct {
	mu   sync.Mutex
	made int
	ends map[string]time.Time
}

func (p *provider) Mint(_ context.Context, ttl time.Duration) (lease.Minted, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made++
	value := fmt.Sprintf("minted-value-%d", p.made)
	p.ends[value] = time.Now().Add(ttl)
	return lease.Minted{Material: lease.Material{Value: nacre.NewSecret(value)}, Handle: nacre.NewSecret(value), Expires: time.Now().Add(time.Hour)}, nil
}

func (p *provider) Revoke(_ context.Context, handle nacre.Secret) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.ends, handle.Reveal())
	return nil
}

// late are the credentials that are good for longer after their lease than a sweep takes.
func (p *provider) late() (late []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for value, end := range p.ends {
		if time.Since(end) > leasing.SweepEvery {
			late = append(late, value)
		}
	}
	slices.Sort(late)
	return late
}

func (p *provider) good() int { p.mu.Lock(); defer p.mu.Unlock(); return len(p.ends) }

// outcomes keeps those of the records of leases.
type outcomes struct {
	mu  sync.Mutex
	all []string
}

func (o *outcomes) Commit(_ context.Context, r nacre.Record) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, r.Outcome)
	return nil
}

func (o *outcomes) Append(ctx context.Context, r nacre.Record) error { return o.Commit(ctx, r) }

// M-30, M-31: no credential outlives its lease by more than one sweep. That holds for one that a
// session holds and does not use, and for one of a session that crashed meanwhile. What is used is
// renewed, however many ask at once.
func TestNoCredentialOutlivesItsLeaseByMoreThanASweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, records := &provider{ends: map[string]time.Time{}}, &outcomes{}
		var mu sync.Mutex
		alive := map[nacre.SessionID]bool{"here": true, "crashes": true}
		broker := lease.New(lease.Options{
			Path: filepath.Join(t.TempDir(), "leases.jsonl"), Now: time.Now, Getenv: func(string) string { return "" },
			Alive:  func(id nacre.SessionID) bool { mu.Lock(); defer mu.Unlock(); return alive[id] },
			Issuer: func(string) (lease.Issuer, error) { return p, nil },
		})
		spec := lease.Spec{Name: "hub", Issuer: p, TTL: 15 * time.Minute}
		held, err := broker.Acquire(t.Context(), "here", "main", spec)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := broker.Acquire(t.Context(), "crashes", "main", spec); err != nil {
			t.Fatal(err)
		}
		credentials := leasing.Minted(t.Context(), broker, records, held)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 40 {
					time.Sleep(time.Minute)
					if err := credentials.Use(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		time.Sleep(3 * time.Minute)
		mu.Lock()
		alive["crashes"] = false
		mu.Unlock()
		for range 60 {
			time.Sleep(time.Minute)
			if late := p.late(); len(late) > 0 {
				t.Fatalf("%v are good", late)
			}
		}
		all.Wait()
		if p.made != 6 || p.good() != 0 || !slices.Equal(records.all, []string{"orphaned"}) {
			t.Errorf("%d were minted, %d are good, and %v was recorded", p.made, p.good(), records.all)
		}
		if err := credentials.Use(t.Context()); err != nil || p.good() != 1 {
			t.Errorf("used again: %v, %d are good", err, p.good())
		}
		if err := credentials.Close(t.Context()); err != nil || p.good() != 0 {
			t.Errorf("closed: %v, %d are good", err, p.good())
		}
	})
}
