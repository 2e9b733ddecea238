package model_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/budget"
	"github.com/nacre-dev/nacre/internal/model"
)

// noon is a day's middle in every zone of these tests.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// A call of these tests reserves up to most and costs paid, in micro-dollars.
const (
	dayCall = `{"model":"claude-opus-5-5","max_tokens":1000,"messages":[{"role":"user","content":"hi"}]}`
	most    = 1000*20 + 256
	paid    = 10*4 + 500*20
)

// within answers a gateway's calls in this process, each after what before does.
func within(before func()) *http.Client {
	return &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		before()
		return &http.Response{
			StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
			Body: io.NopCloser(strings.NewReader(`{"type":"message","usage":{"input_tokens":10,"output_tokens":500}}`)),
		}, nil
	})}
}

// spender is a gateway of a group with the daybook in dir.
func spender(t testing.TB, dir string, change func(*model.Options)) *model.Gateway {
	t.Helper()
	opts := model.Options{
		Upstreams: []model.Upstream{{URL: parse(t, "http://127.0.0.1:1"), Dialects: []model.Dialect{model.Anthropic}}}, Client: within(func() {}),
		SessionToken: nacre.NewSecret(token), Budget: 1 << 40, Prices: budget.ListPrices(), Record: &ledger{}, Session: "s1", Group: "g1", Now: time.Now,
		Days: book(t, dir, time.UTC, func() time.Time { return noon }), Limits: model.Limits{Calls: 1000},
	}
	if change != nil {
		change(&opts)
	}
	g, err := model.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// spend makes one call.
func spend(ctx context.Context, g *model.Gateway) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/messages", strings.NewReader(dayCall))
	r.Header = http.Header{"X-Api-Key": {token}, "Content-Type": {"application/json"}}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w
}

// M-04: 1,000 calls at once, of four processes, never promise more than the day's budget.
func TestProcessesThatRaceDoNotOverspendTheDay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spending")
	if os.Getenv("NACRE_TEST_SPENDING") != "" {
		childSpends(t)
		return
	}
	var all sync.WaitGroup
	var spent atomic.Int64
	for range 4 {
		all.Go(func() {
			out, err := another(t, "TestProcessesThatRaceDoNotOverspendTheDay", dir, "").Output()
			var n int64
			if _, scan := fmt.Sscanf(string(out), "accepted %d", &n); err != nil || scan != nil {
				t.Errorf("%v: %s", err, out)
			}
			spent.Add(n)
		})
	}
	all.Wait()
	peak, left := account(t, dir)
	if n := spent.Load(); n == 0 || left != int64(dayLimit)-n*paid || left < 0 || left > most {
		t.Errorf("%d calls of %d left %d of %d", n, paid, left, dayLimit)
	}
	if peak > dayLimit {
		t.Errorf("OVERSPENT: %d of %d was promised", peak, dayLimit)
	}
}

const dayLimit = 1_000_000

// childSpends makes 250 calls at once.
func childSpends(t *testing.T) {
	g := spender(t, os.Getenv("NACRE_TEST_SPENDING"), func(o *model.Options) {
		o.DayLimits.Group = dayLimit
		if os.Getenv("NACRE_TEST_CRASH") != "" {
			o.Client = within(func() { os.Exit(3) })
		}
	})
	var accepted atomic.Int64
	var all sync.WaitGroup
	for range 250 {
		all.Go(func() {
			if spend(t.Context(), g).Code == http.StatusOK {
				accepted.Add(1)
			}
		})
	}
	all.Wait()
	fmt.Printf("accepted %d\n", accepted.Load())
}

// another runs a test of this file in a process of its own.
func another(t *testing.T, test, dir, crash string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), "NACRE_TEST_SPENDING="+dir, "NACRE_TEST_CRASH="+crash)
	return cmd
}

// account reads the journal of the day, and returns the most that was promised
// at any time and what is left at its end.
func account(t *testing.T, dir string) (peak, left int64) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "2026-11-21.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var day budget.Day
	for line := range bytes.Lines(data) {
		var e budget.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if err := day.Apply(e); err != nil {
			t.Fatal(err)
		}
		left = day.Rooms("g1", budget.DayLimits{Group: 1 << 40}, noon)[0].Left
		peak = max(peak, 1<<40-left)
	}
	return peak, dayLimit - (1<<40 - left)
}

// M-04: what a process that crashed had reserved stays charged.
func TestACrashStaysCharged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spending")
	if err := another(t, "TestProcessesThatRaceDoNotOverspendTheDay", dir, "yes").Run(); err == nil {
		t.Fatal("the process did not crash")
	}
	_, left := account(t, dir)
	rooms, err := model.NewDaybook(dir, time.UTC, func() time.Time { return noon }).Rooms("g1", budget.DayLimits{Group: dayLimit})
	if err != nil || left == dayLimit || rooms[0].Left != left || rooms[0].Held != dayLimit-left {
		t.Errorf("have %+v, %v, %d left", rooms, err, left)
	}
}

// M-04: a day's budget is spent until midnight in its zone; a clock that goes
// back refills nothing, and the next day does.
func TestADayRefillsAtMidnightAndNeverByAStepBack(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("no time zones here")
	}
	now := time.Date(2026, 3, 28, 22, 59, 0, 0, time.UTC) // 23:59 in Berlin, of the day before one of 23 hours
	g := spender(t, t.TempDir(), func(o *model.Options) {
		o.Days = book(t, filepath.Join(t.TempDir(), "spending"), berlin, func() time.Time { return now })
		o.DayLimits.All = most
	})
	at := func(when time.Time, want int, why string) {
		t.Helper()
		now = when
		w := spend(t.Context(), g)
		if w.Code != want {
			t.Errorf("%s: want %d, have %d %s", why, want, w.Code, w.Body)
		}
		if want == http.StatusPaymentRequired && !strings.Contains(w.Body.String(), "the day's budget of all groups; it refills at 2026-03-") {
			t.Errorf("%s: have %s", why, w.Body)
		}
	}
	at(now, 200, "a first call")
	at(now, 402, "a second") // it would have less output than is worth a call
	at(time.Date(2026, 3, 28, 23, 1, 0, 0, time.UTC), 200, "after midnight in Berlin")
	at(time.Date(2026, 3, 28, 10, 0, 0, 0, time.UTC), 402, "a step back to the day before")
	at(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), 402, "a step back by years")
	at(time.Date(2026, 3, 29, 21, 59, 0, 0, time.UTC), 402, "a minute before the end of the short day")
	at(time.Date(2026, 3, 29, 22, 1, 0, 0, time.UTC), 200, "after it")
}

func TestGroupsHaveTheirOwnBudgetsAndShareOne(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spending")
	as := func(group nacre.Group, limits budget.DayLimits) *model.Gateway {
		return spender(t, dir, func(o *model.Options) { o.Group, o.DayLimits = group, limits })
	}
	a, b := as("a", budget.DayLimits{Group: most, All: 2*most + paid - 1000}), as("b", budget.DayLimits{All: 2*most + paid - 1000})
	for i, step := range []struct {
		by   *model.Gateway
		want int
		says string
	}{
		{a, 200, ""}, {a, 402, "budget of group a"}, {b, 200, ""}, {b, 200, ""}, {b, 402, "budget of all groups"}, {a, 402, "budget of group a"},
	} {
		if w := spend(t.Context(), step.by); w.Code != step.want || !strings.Contains(w.Body.String(), step.says) {
			t.Errorf("step %d: have %d %s", i, w.Code, w.Body)
		}
	}
}

// A journal that cannot be read or written makes no call; the brain is not told where it is.
func TestNoBookNoCall(t *testing.T) {
	journal := "2026-11-21.jsonl"
	for name, breaks := range map[string]func(dir string) error{
		"a line that is no JSON": func(dir string) error { return os.WriteFile(filepath.Join(dir, journal), []byte("{}x\n"), 0o600) },
		"a line without a call":  func(dir string) error { return os.WriteFile(filepath.Join(dir, journal), []byte("{}\n"), 0o600) },
		"an end of nothing": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, journal), []byte(`{"id":"x","group":"g1","micro_usd":0,"ended":true}`+"\n"), 0o600)
		},
		"a key twice": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, journal), []byte(`{"id":"x","group":"g1","micro_usd":9,"micro_usd":0}`+"\n"), 0o600)
		},
		"a line without end": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, journal), bytes.Repeat([]byte("x"), 5000), 0o600)
		},
		"a link":                    func(dir string) error { return os.Symlink("/dev/null", filepath.Join(dir, journal)) },
		"a folder":                  func(dir string) error { return os.Mkdir(filepath.Join(dir, journal), 0o700) },
		"a lock that is no file":    func(dir string) error { return os.Mkdir(filepath.Join(dir, "lock"), 0o700) },
		"a link where the lock is":  func(dir string) error { return os.Symlink("/nowhere", filepath.Join(dir, "lock")) },
		"a line that ends and ends": func(dir string) error { return os.WriteFile(filepath.Join(dir, journal), []byte("\n\n"), 0o600) },
	} {
		dir := t.TempDir()
		if err := breaks(dir); err != nil {
			t.Fatal(err)
		}
		log := &ledger{}
		g := spender(t, dir, func(o *model.Options) {
			o.Record = log
			o.Client = within(func() { t.Errorf("%s: LET THROUGH", name) })
		})
		w := spend(t.Context(), g)
		if w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), dir) || !strings.Contains(w.Body.String(), "what was spent today") {
			t.Errorf("%s: have %d %s", name, w.Code, w.Body)
		}
		if records := log.all(); len(records) != 1 || !strings.Contains(string(records[0].Detail), dir) || records[0].Reason != string(model.ReasonBook) {
			t.Errorf("%s: have %+v", name, records)
		}
		if cost, _, _ := g.Spent(); cost != 0 {
			t.Errorf("%s: have %d spent", name, cost)
		}
	}
}

// A crash in the middle of a line loses that line alone.
func TestATornLineIsCutOff(t *testing.T) {
	dir := t.TempDir()
	whole := `{"id":"x","group":"g1","micro_usd":9}` + "\n"
	journal := filepath.Join(dir, "2026-11-21.jsonl")
	for cut := range len(whole) - 1 {
		if err := os.WriteFile(journal, []byte(whole+strings.Replace(whole, "x", "y", 1)[:cut+1]), 0o600); err != nil {
			t.Fatal(err)
		}
		if w := spend(t.Context(), spender(t, dir, func(o *model.Options) { o.DayLimits.All = dayLimit })); w.Code != 200 {
			t.Fatalf("cut at %d: have %d %s", cut, w.Code, w.Body)
		}
		if _, left := account(t, dir); left != dayLimit-9-paid {
			t.Fatalf("cut at %d: %d left", cut, left)
		}
	}
}

// A process that sleeps with the lock ends nobody's patience but the caller's.
func TestALockThatIsHeldRefuses(t *testing.T) {
	dir := t.TempDir()
	lock, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if w := spend(ctx, spender(t, dir, nil)); w.Code != http.StatusForbidden {
		t.Errorf("have %d %s", w.Code, w.Body)
	}
}

// What costs nothing needs no book, and old journals go.
func TestFreeModelsAndOldJournals(t *testing.T) {
	dir := t.TempDir()
	for day := range 100 {
		name := noon.AddDate(0, 0, -200+day).Format("2006-01-02") + ".jsonl"
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g := spender(t, dir, func(o *model.Options) {
		o.DayLimits.All = 1
		o.Prices = budget.Table{"claude-opus-5-5": {Free: true}}
	})
	if w := spend(t.Context(), g); w.Code != 200 {
		t.Errorf("a free model: have %d %s", w.Code, w.Body)
	}
	if w := spend(t.Context(), spender(t, dir, nil)); w.Code != 200 {
		t.Errorf("no limit: have %d %s", w.Code, w.Body)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if len(files) != 93 {
		t.Errorf("have %d journals", len(files))
	}
}
