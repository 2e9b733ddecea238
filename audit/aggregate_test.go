package audit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
)

// clock is set by hand.
type clock struct{ now time.Time }

func (c *clock) read() time.Time { return c.now }

func aggregator(t *testing.T, next nacre.Recorder) (*audit.Aggregator, *clock) {
	t.Helper()
	c := &clock{day(1)}
	a, err := audit.NewAggregator(next, c.read)
	if err != nil {
		t.Fatal(err)
	}
	return a, c
}

func reject(topic string) nacre.Record {
	return nacre.Record{Kind: nacre.KindCallReject, Time: day(1), Topic: topic, Outcome: nacre.OutcomeRejected, Reason: "malformed"}
}

// D-16
func TestRepeatedRejectionsBecomeOneRecord(t *testing.T) {
	log := audit.Memory(1 << 20)
	a, c := aggregator(t, log)
	for range 10_000 {
		if err := a.Append(t.Context(), reject("x")); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 { // what is no rejection passes through
		if err := a.Commit(t.Context(), nacre.Record{Kind: nacre.KindCallEnd, Time: day(1)}); err != nil {
			t.Fatal(err)
		}
	}
	if have := len(log.Records()); have != 20+100 {
		t.Errorf("have %d records", have)
	}
	c.now = c.now.Add(61 * time.Second)
	if err := a.Append(t.Context(), reject("y")); err != nil {
		t.Fatal(err)
	}
	records := log.Records()
	told := records[len(records)-2]
	if len(records) != 122 || told.Topic != "x" || !strings.Contains(string(told.Detail), `"repeated":9980`) {
		t.Errorf("have %d records, %+v", len(records), told)
	}
}

func TestFloodOfDifferentRejectionsIsBounded(t *testing.T) {
	log := audit.Memory(1 << 20)
	a, _ := aggregator(t, log)
	for i := range 100_000 {
		if err := a.Append(t.Context(), reject(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	counted := 0
	for _, r := range log.Records() {
		n := 1
		if _, err := fmt.Sscanf(string(r.Detail[max(0, strings.Index(string(r.Detail), `"repeated"`)):]), `"repeated":%d`, &n); err != nil {
			n = 1
		}
		counted += n
	}
	if have := len(log.Records()); have > 300 || counted != 100_000 {
		t.Errorf("have %d records that count %d", have, counted)
	}
}

func TestCountsAreNotLostWhenTheStoreFails(t *testing.T) {
	broken := &failing{next: audit.Memory(1000)}
	a, c := aggregator(t, broken)
	for range 50 {
		_ = a.Append(t.Context(), reject("x"))
	}
	broken.err = audit.ErrQuota
	c.now = c.now.Add(time.Hour)
	if err := a.Append(t.Context(), reject("y")); !errors.Is(err, audit.ErrQuota) {
		t.Errorf("have %v", err)
	}
	if err := a.Close(t.Context()); !errors.Is(err, audit.ErrQuota) {
		t.Errorf("have %v", err)
	}
	broken.err = nil
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	records := broken.next.Records()
	if last := records[len(records)-1]; !strings.Contains(string(last.Detail), `"repeated":30`) {
		t.Errorf("have %+v", last)
	}
	if _, err := audit.NewAggregator(nil, nil); err == nil {
		t.Error("made of nothing")
	}
}

type failing struct {
	next *audit.MemoryLog
	err  error
}

func (f *failing) Append(ctx context.Context, r nacre.Record) error {
	if f.err != nil {
		return f.err
	}
	return f.next.Append(ctx, r)
}
func (f *failing) Commit(ctx context.Context, r nacre.Record) error { return f.Append(ctx, r) }
