package audit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
)

var _ nacre.Recorder = (*audit.Chain)(nil)

func testKeys(t testing.TB) audit.Keys {
	t.Helper()
	keys, err := audit.NewKeys([]byte(strings.Repeat("s", 32)), []byte(strings.Repeat("m", 32)))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func testClock() func() time.Time {
	var mu sync.Mutex
	now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(time.Millisecond)
		return now
	}
}

func options(t testing.TB, root, chain string) audit.Options {
	t.Helper()
	return audit.Options{Root: root, Chain: chain, Keys: testKeys(t), Now: testClock(), SegmentBytes: 2048}
}

func openChain(t testing.TB, o audit.Options) *audit.Chain {
	t.Helper()
	c, err := audit.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func call(kind nacre.Kind, id string) nacre.Record {
	return nacre.Record{
		Kind: kind, Group: "family", Session: "k3f9", Source: "door", Topic: "tool.invoke.créer",
		Correlation: nacre.Correlation("c-" + id), Stage: 6, Outcome: "routed",
		Detail: json.RawMessage(`{"n": 1, "id":"` + id + `"}`),
	}
}

// writeCalls commits n calls with their ends.
func writeCalls(t testing.TB, c *audit.Chain, n int) {
	t.Helper()
	for i := range n {
		id := fmt.Sprint(i)
		if err := c.Commit(context.Background(), call(nacre.KindCallBegin, id)); err != nil {
			t.Fatal(err)
		}
		if err := c.Append(context.Background(), call(nacre.KindCallEnd, id)); err != nil {
			t.Fatal(err)
		}
	}
}

func closeChain(t testing.TB, c *audit.Chain) {
	t.Helper()
	if err := c.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// closedChain makes a root with one closed chain of a few segments.
func closedChain(t testing.TB) (root string) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "audit")
	c := openChain(t, options(t, root, "k3f9.1"))
	writeCalls(t, c, 10)
	closeChain(t, c)
	return root
}

func trust(t testing.TB) audit.VerifyOptions {
	t.Helper()
	return audit.VerifyOptions{PublicKey: testKeys(t).Public(), MACKey: testKeys(t).MAC()}
}

// K-20
func TestClosedChainVerifies(t *testing.T) {
	defer goleak.VerifyNone(t)
	root := closedChain(t)
	have, err := audit.Verify(root, "k3f9.1", trust(t))
	if err != nil {
		t.Fatal(err)
	}
	if have.State != audit.StateClosed || have.Records != 22 || have.Segments < 3 || have.Unsigned != 0 || have.OutcomeUnknown != 0 {
		t.Errorf("have %+v", have)
	}
	all, err := audit.VerifyAll(root, trust(t))
	if err != nil || len(all.Chains) != 1 || len(all.Unregistered) != 0 || all.Index.Records != 3 {
		t.Errorf("have %+v, %v", all, err)
	}
}

func TestRecordsComeBackAsWritten(t *testing.T) {
	root := filepath.Join(t.TempDir(), "audit")
	c := openChain(t, options(t, root, "a"))
	want := nacre.Record{
		Kind: nacre.KindCallReject, Time: time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.UTC), Group: "g", Session: "s",
		Source: "a\x00b\u202e\U0001F41A\"\\\x7f", Topic: strings.Repeat("é", audit.MaxText/2), Correlation: "c", Stage: 1,
		Outcome: "rejected", Reason: "\b\f\n\r\t", Detail: json.RawMessage(`{"a":[1,-2,true,null,{"b":"\ud83d\udc1a"}],"b":{}}`),
	}
	if err := c.Commit(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	closeChain(t, c)
	var have []audit.Entry
	err := audit.Read(root, "a", func(e audit.Entry) error { have = append(have, e); return nil })
	if err != nil || len(have) != 3 {
		t.Fatalf("have %d entries, %v", len(have), err)
	}
	if fmt.Sprint(have[1].Record) != fmt.Sprint(want) {
		t.Errorf("have %v\nwant %v", have[1].Record, want)
	}
}

func TestLongAndBrokenTextIsCutAndMarkedNotRefused(t *testing.T) {
	root := filepath.Join(t.TempDir(), "audit")
	c := openChain(t, options(t, root, "a"))
	for _, text := range []string{strings.Repeat("é", 5000), strings.Repeat("\xff", 5000), strings.Repeat("a\xff", 1000), "\xed\xa0\x80"} {
		if err := c.Commit(t.Context(), nacre.Record{Kind: nacre.KindCallReject, Topic: text, Reason: text}); err != nil {
			t.Errorf("%.10q: %v", text, err)
		}
	}
	closeChain(t, c)
	if _, err := audit.Verify(root, "a", trust(t)); err != nil {
		t.Error(err)
	}
}

func TestChainRefusesRecordsThatDoNotFitTheFormat(t *testing.T) {
	c := openChain(t, options(t, filepath.Join(t.TempDir(), "audit"), "a"))
	defer func() { _ = c.Close(context.Background()) }()
	deep := strings.Repeat(`{"a":`, audit.MaxDepth) + "1" + strings.Repeat("}", audit.MaxDepth)
	for name, r := range map[string]nacre.Record{
		"no kind":              {},
		"a kind with a space":  {Kind: "call begin"},
		"the chain's own open": {Kind: nacre.KindChainOpen},
		"the chain's own end":  {Kind: nacre.KindChainClose},
		"a float":              {Kind: "x", Detail: json.RawMessage(`{"a":1.5}`)},
		"an exponent":          {Kind: "x", Detail: json.RawMessage(`{"a":1e3}`)},
		"54 bits":              {Kind: "x", Detail: json.RawMessage(`{"a":9007199254740992}`)},
		"minus nought":         {Kind: "x", Detail: json.RawMessage(`{"a":-0}`)},
		"a key twice":          {Kind: "x", Detail: json.RawMessage(`{"a":1,"\u0061":2}`)},
		"half a surrogate":     {Kind: "x", Detail: json.RawMessage(`{"a":"\ud800"}`)},
		"two high halves":      {Kind: "x", Detail: json.RawMessage(`{"a":"\ud800\ud800"}`)},
		"invalid UTF-8":        {Kind: "x", Detail: json.RawMessage("{\"a\":\"\xff\"}")},
		"an array":             {Kind: "x", Detail: json.RawMessage(`[1]`)},
		"two objects":          {Kind: "x", Detail: json.RawMessage(`{} {}`)},
		"an open object":       {Kind: "x", Detail: json.RawMessage(`{"a":1`)},
		"a raw newline":        {Kind: "x", Detail: json.RawMessage("{\"a\":\"\n\"}")},
		"depth 17":             {Kind: "x", Detail: json.RawMessage(`{"a":` + deep + `}`)},
		"a huge detail":        {Kind: "x", Detail: json.RawMessage(`{"a":"` + strings.Repeat("a", audit.MaxDetail) + `"}`)},
		"stage -1":             {Kind: "x", Stage: -1},
		"the year 1969":        {Kind: "x", Time: time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC)},
		"the year 10000":       {Kind: "x", Time: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		if err := c.Append(t.Context(), r); !errors.Is(err, audit.ErrRecord) {
			t.Errorf("%s: have %v", name, err)
		}
	}
	if err := c.Commit(t.Context(), nacre.Record{Kind: "x", Detail: json.RawMessage(deep)}); err != nil {
		t.Errorf("a good record after refused ones: %v", err)
	}
}

func TestOneWriterAtATime(t *testing.T) { // K-20
	root := filepath.Join(t.TempDir(), "audit")
	c := openChain(t, options(t, root, "a"))
	if _, err := audit.Open(t.Context(), options(t, root, "a")); !errors.Is(err, audit.ErrLocked) {
		t.Errorf("second writer: have %v", err)
	}
	have, err := audit.Verify(root, "a", trust(t))
	if err != nil || have.State != audit.StateOpen {
		t.Errorf("while the writer lives: have %+v, %v", have, err)
	}
	closeChain(t, c)
	closeChain(t, openChain(t, options(t, root, "a")))
	if have, err = audit.Verify(root, "a", trust(t)); err != nil || have.State != audit.StateClosed || have.Records != 4 {
		t.Errorf("reopened and closed: have %+v, %v", have, err)
	}
}

func TestClosedChainRefusesRecords(t *testing.T) {
	c := openChain(t, options(t, filepath.Join(t.TempDir(), "audit"), "a"))
	closeChain(t, c)
	closeChain(t, c)
	if err := c.Append(t.Context(), nacre.Record{Kind: "x"}); !errors.Is(err, audit.ErrClosed) {
		t.Errorf("have %v", err)
	}
	if _, err := c.Head(t.Context()); !errors.Is(err, audit.ErrClosed) {
		t.Errorf("have %v", err)
	}
}

func TestOpenRefusesWhatIsMissing(t *testing.T) { // K-24
	root := filepath.Join(t.TempDir(), "audit")
	for name, change := range map[string]func(*audit.Options){
		"no root":           func(o *audit.Options) { o.Root = "" },
		"no keys":           func(o *audit.Options) { o.Keys = audit.Keys{} },
		"no clock":          func(o *audit.Options) { o.Now = nil },
		"no chain":          func(o *audit.Options) { o.Chain = "" },
		"a path":            func(o *audit.Options) { o.Chain = "../a" },
		"a hidden name":     func(o *audit.Options) { o.Chain = ".." },
		"the index's chain": func(o *audit.Options) { o.Chain = audit.IndexChain },
	} {
		o := options(t, root, "a")
		change(&o)
		if c, err := audit.Open(t.Context(), o); err == nil {
			t.Errorf("%s: opened", name)
			_ = c.Close(t.Context())
		}
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := audit.Open(t.Context(), options(t, root, "a")); err == nil || !strings.Contains(err.Error(), "chmod") {
		t.Errorf("a root that others can read: have %v", err)
	}
}

func TestManyWritersInOneChain(t *testing.T) {
	defer goleak.VerifyNone(t)
	root := filepath.Join(t.TempDir(), "audit")
	o := options(t, root, "a")
	o.SegmentBytes = 16 << 10
	c := openChain(t, o)
	var wg sync.WaitGroup
	for w := range 32 {
		wg.Go(func() {
			for i := range 20 {
				id := fmt.Sprintf("%d-%d", w, i)
				if err := c.Commit(context.Background(), call(nacre.KindCallBegin, id)); err != nil {
					t.Error(err)
				}
				if err := c.Append(context.Background(), call(nacre.KindCallEnd, id)); err != nil {
					t.Error(err)
				}
				if _, err := c.Head(context.Background()); i == 10 && err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	closeChain(t, c)
	have, err := audit.Verify(root, "a", trust(t))
	if err != nil || have.Records != 32*40+2 || have.OutcomeUnknown != 0 {
		t.Errorf("have %+v, %v", have, err)
	}
}

func TestManyChainsInOneIndex(t *testing.T) {
	root := filepath.Join(t.TempDir(), "audit")
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			c, err := audit.Open(context.Background(), options(t, root, fmt.Sprint("s", i)))
			if err != nil {
				t.Error(err)
				return
			}
			if err := c.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	all, err := audit.VerifyAll(root, trust(t))
	if err != nil || len(all.Chains) != 16 || all.Index.Records != 33 {
		t.Errorf("have %d chains, %d index records, %v", len(all.Chains), all.Index.Records, err)
	}
}

// A verification beside living writers never cries wolf.
func TestVerifyingWhileChainsComeAndGo(t *testing.T) {
	root := filepath.Join(t.TempDir(), "audit")
	closeChain(t, openChain(t, options(t, root, "first")))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 30 {
			c, err := audit.Open(context.Background(), options(t, root, fmt.Sprint("s", i/2)))
			if err != nil {
				t.Error(err)
				return
			}
			for range 20 {
				if err := c.Append(context.Background(), call(nacre.KindCallBegin, "1")); err != nil {
					t.Error(err)
				}
			}
			if err := c.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}()
	defer func() { <-done }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		if _, err := audit.VerifyAll(root, trust(t)); err != nil {
			t.Fatal(err)
		}
		if _, err := audit.Verify(root, "first", trust(t)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCancelledContextRecordsNothing(t *testing.T) {
	root := filepath.Join(t.TempDir(), "audit")
	c := openChain(t, options(t, root, "a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Commit(ctx, nacre.Record{Kind: "x"}); !errors.Is(err, context.Canceled) {
		t.Errorf("have %v", err)
	}
	closeChain(t, c)
	if have, err := audit.Verify(root, "a", trust(t)); err != nil || have.Records != 2 {
		t.Errorf("have %+v, %v", have, err)
	}
}

func TestBeginWithoutEndIsAnUnknownOutcome(t *testing.T) { // K-21
	root := filepath.Join(t.TempDir(), "audit")
	c := openChain(t, options(t, root, "a"))
	for _, r := range []nacre.Record{
		call(nacre.KindCallBegin, "1"), call(nacre.KindCallBegin, "2"), call(nacre.KindCallEnd, "1"),
		{Kind: nacre.KindCallBegin, Correlation: "x"}, {Kind: nacre.KindCallBegin, Correlation: "x"}, {Kind: nacre.KindCallEnd, Correlation: "x"},
		{Kind: nacre.KindMergeIntent},
	} {
		if err := c.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	closeChain(t, c)
	have, err := audit.Verify(root, "a", trust(t))
	if err != nil || have.OutcomeUnknown != 2 || len(have.Unfinished) != 3 {
		t.Errorf("have %+v, %v", have, err)
	}
}

// K-21: a call is told by the host's name of it. An agent that chooses one correlation twice does
// not make another call look unfinished.
func TestTheCallThatHasNoEndIsTheOneThatIsNamed(t *testing.T) {
	root := filepath.Join(t.TempDir(), "audit")
	c := openChain(t, options(t, root, "a"))
	named := func(kind nacre.Kind, name string) nacre.Record {
		return nacre.Record{Kind: kind, Correlation: "mine", Detail: json.RawMessage(`{"call":"` + name + `"}`)}
	}
	for _, r := range []nacre.Record{
		named(nacre.KindCallBegin, "purge"), named(nacre.KindCallBegin, "list"), named(nacre.KindCallEnd, "list"),
	} {
		if err := c.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	closeChain(t, c)
	have, err := audit.Verify(root, "a", trust(t))
	if err != nil || have.OutcomeUnknown != 1 || len(have.Unfinished) != 1 || have.Unfinished[0].Seq != 1 || have.Unfinished[0].ID != "call:purge" {
		t.Errorf("have %+v, %v", have.Unfinished, err)
	}
}

func TestQuotaKeepsRoomToActAndToEnd(t *testing.T) { // D-16
	o := options(t, filepath.Join(t.TempDir(), "audit"), "a")
	o.QuotaBytes, o.SegmentBytes = audit.MinQuota, 0
	c := openChain(t, o)
	fill := func(kind nacre.Kind) (n int) {
		for ; ; n++ {
			err := c.Append(t.Context(), nacre.Record{Kind: kind, Reason: strings.Repeat("r", audit.MaxText)})
			if errors.Is(err, audit.ErrQuota) {
				return n
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, kind := range []nacre.Kind{nacre.KindCallReject, nacre.KindCallBegin, nacre.KindCallEnd} {
		if have := fill(kind); have < 20 {
			t.Errorf("%s: only %d records fit after the quota of the kinds before", kind, have)
		}
	}
	closeChain(t, c) // the closing record always fits
	if have, err := audit.Verify(o.Root, "a", trust(t)); err != nil || have.State != audit.StateClosed {
		t.Errorf("have %+v, %v", have, err)
	}
}

func TestMemoryKeepsTheLast(t *testing.T) {
	m := audit.Memory(2)
	for _, kind := range []nacre.Kind{"a", "b", "c"} {
		if err := m.Commit(t.Context(), nacre.Record{Kind: kind, Time: time.Unix(1, 0)}); err != nil {
			t.Fatal(err)
		}
	}
	if have := m.Records(); len(have) != 2 || have[0].Kind != "b" || m.Evicted() != 1 {
		t.Errorf("have %v, evicted %d", have, m.Evicted())
	}
	if err := audit.Memory(0).Append(t.Context(), nacre.Record{Kind: "a", Time: time.Unix(1, 0)}); err == nil {
		t.Error("a memory without room took a record")
	}
}
