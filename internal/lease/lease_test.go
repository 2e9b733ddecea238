package lease_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/lease"
	"github.com/nacre-dev/nacre/internal/testwait"
)

const value = "a-standing-value-of-the-operator"

// clock is a time that a test moves.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.at }

func (c *clock) pass(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.at = c.at.Add(d) }

// house is an installation: its ledger, its environment, its sessions.
type house struct {
	clock *clock
	path  string
	env   map[string]string
	alive map[nacre.SessionID]bool
}

func newHouse(t *testing.T) *house {
	return &house{&clock{at: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}, filepath.Join(t.TempDir(), "leases.jsonl"), map[string]string{"HUB": value}, map[nacre.SessionID]bool{}}
}

func (h *house) broker() *lease.Broker {
	return lease.New(lease.Options{
		Path: h.path, Now: h.clock.now, Getenv: func(name string) string { return h.env[name] },
		Alive: func(id nacre.SessionID) bool { return h.alive[id] },
	})
}

func (h *house) acquire(t *testing.T, spec lease.Spec) *lease.Lease {
	t.Helper()
	l, err := h.broker().Acquire(context.Background(), "s1", "main", spec)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (h *house) ledger(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(h.path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// M-32: a source is a reference; what looks like a value is refused, and not repeated.
func TestSourcesAreReferences(t *testing.T) {
	const token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
	for name, s := range map[string]lease.Source{
		"nothing": {}, "two places": {Env: "A", File: "/b"}, "a token as a variable": {Env: token}, "a token as a file": {File: token},
		"a token as a path": {File: "/" + token}, "a token as an argument": {Command: []string{"echo", token}}, "not a variable": {Env: "A-B"},
		"a digit first": {Env: "1A"}, "a relative file": {File: "a/b"}, "a relative program": {Command: []string{"./a"}}, "no program": {Command: []string{""}},
		"a token as an entry": {Keyring: token}, "a path as an entry": {Keyring: "../a"}, "an age file alone": {Age: "/a"}, "an identity alone": {Identity: "/a"},
		"a relative age file": {Age: "a", Identity: "/b"}, "a path as a credential": {Credential: "../a"}, "a hidden credential": {Credential: ".a"},
		"a store and a second one": {Keyring: "a", Credential: "a"}, "a file and an identity": {File: "/a", Identity: "/b"}, "a token as a credential": {Credential: token},
	} {
		err := s.Check()
		if err == nil {
			t.Errorf("%s is accepted", name)
		} else if strings.Contains(err.Error(), token) {
			t.Errorf("%s: the error repeats it: %v", name, err)
		}
	}
}

// M-32: what is missing, empty, too open or unreadable is no value, and the error says where.
func TestSourcesFailClosed(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	identity, other := filepath.Join(dir, "identity"), filepath.Join(dir, "other")
	for _, path := range []string{identity, other} {
		if made, err := lease.MakeIdentity(path); !made || err != nil {
			t.Fatal(made, err)
		}
	}
	sealed := lease.Source{Age: filepath.Join(dir, "sealed.age"), Identity: identity}
	if err := sealed.Keep(t.Context(), nil, nacre.NewSecret(value)); err != nil {
		t.Fatal(err)
	}
	given := t.TempDir()
	if err := os.WriteFile(filepath.Join(given, "hub"), []byte(value), 0o400); err != nil {
		t.Fatal(err)
	}
	getenv := func(name string) string {
		return map[string]string{"CREDENTIALS_DIRECTORY": given, "GOOD": value, "SHORT": "1234567", "LINES": value + "\n" + value, "SIGNS": value + "é", "LONG": strings.Repeat("x", 17<<10)}[name]
	}
	for name, c := range map[string]struct {
		source lease.Source
		ok     bool
	}{
		"a variable":                {lease.Source{Env: "GOOD"}, true},
		"a missing variable":        {lease.Source{Env: "NONE"}, false},
		"a short value":             {lease.Source{Env: "SHORT"}, false},
		"a long value":              {lease.Source{Env: "LONG"}, false},
		"two lines":                 {lease.Source{Env: "LINES"}, false},
		"not ASCII":                 {lease.Source{Env: "SIGNS"}, false},
		"a file":                    {lease.Source{File: file("good", value+"\r\n", 0o600)}, true},
		"a file of one's group":     {lease.Source{File: file("group", value, 0o640)}, true},
		"a file for everyone":       {lease.Source{File: file("all", value, 0o644)}, false},
		"a file that a group wrote": {lease.Source{File: file("written", value, 0o660)}, false},
		"an empty file":             {lease.Source{File: file("empty", "", 0o600)}, false},
		"a file of line ends":       {lease.Source{File: file("blank", "\n\n\n", 0o600)}, false},
		"a missing file":            {lease.Source{File: filepath.Join(dir, "none")}, false},
		"a folder":                  {lease.Source{File: dir}, false},
		"a device":                  {lease.Source{File: "/dev/zero"}, false},
		"a command":                 {lease.Source{Command: []string{"echo", value}}, true},
		"a command that fails":      {lease.Source{Command: []string{"false"}}, false},
		"a command that is missing": {lease.Source{Command: []string{"no-such-program-here"}}, false},
		"a command that is silent":  {lease.Source{Command: []string{"true"}}, false},
		"a command that hangs on":   {lease.Source{Command: []string{"sh", "-c", "cat /dev/tty; read x; echo " + value}}, true},
		"a command's complaint":     {lease.Source{Command: []string{"sh", "-c", "echo " + value + " >&2; exit 1"}}, false},
		"an age file":               {sealed, true},
		"of another identity":       {lease.Source{Age: sealed.Age, Identity: other}, false},
		"with no identity":          {lease.Source{Age: sealed.Age, Identity: filepath.Join(dir, "none")}, false},
		"with an open identity":     {lease.Source{Age: sealed.Age, Identity: file("open", value, 0o644)}, false},
		"with a value as identity":  {lease.Source{Age: sealed.Age, Identity: file("value", value, 0o600)}, false},
		"a value instead of age's":  {lease.Source{Age: file("plain", value, 0o600), Identity: identity}, false},
		"a missing age file":        {lease.Source{Age: filepath.Join(dir, "none.age"), Identity: identity}, false},
		"a credential of systemd":   {lease.Source{Credential: "hub"}, true},
		"a missing one of systemd":  {lease.Source{Credential: "hubs"}, false},
		"an entry without a store":  {lease.Source{Keyring: "hub"}, false},
		"a command without an end":  {lease.Source{Command: []string{"head", "-c", "1000000", "/dev/zero"}}, false},
	} {
		got, err := c.source.Read(t.Context(), getenv)
		if c.ok != (err == nil) || c.ok && got.Reveal() != value {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && (strings.Contains(err.Error(), value) || !strings.Contains(err.Error(), c.source.String())) {
			t.Errorf("%s: the error tells too much or too little: %v", name, err)
		}
	}
}

// M-37: a command that prints without an end is ended at once, with all that it started.
func TestACommandThatPrintsMegabytes(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	source := lease.Source{Command: []string{"sh", "-c", "sleep 3600 & echo $! > " + pids + "; exec cat /dev/zero"}}
	if _, err := source.Read(t.Context(), os.Getenv); err == nil || !strings.Contains(err.Error(), "printed more than") {
		t.Error(err)
	}
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	status := "/proc/" + strings.TrimSpace(string(text)) + "/stat"
	testwait.Until(t, "the command's child is ended", func() bool {
		stat, err := os.ReadFile(status)
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

// M-37: what is kept is read back, replaced and forgotten, in no other place than the named one. A
// link, or a place that is only read from, stays as it is.
func TestValuesAreKept(t *testing.T) {
	dir := t.TempDir()
	identity := filepath.Join(dir, "identity")
	if _, err := lease.MakeIdentity(identity); err != nil {
		t.Fatal(err)
	}
	for _, s := range []lease.Source{{File: filepath.Join(dir, "in", "file")}, {Age: filepath.Join(dir, "in", "file.age"), Identity: identity}} {
		for _, want := range []string{value, value + "-new"} {
			if err := s.Keep(t.Context(), os.Getenv, nacre.NewSecret(want)); err != nil {
				t.Fatal(err)
			}
			if have, err := s.Read(t.Context(), os.Getenv); err != nil || have.Reveal() != want {
				t.Errorf("%s: %v", s, err)
			}
		}
		if s.Since(t.Context(), os.Getenv).IsZero() {
			t.Errorf("%s: no age", s)
		}
		if err := s.Keep(t.Context(), os.Getenv, nacre.NewSecret("short")); err == nil {
			t.Errorf("%s: a value that cannot be used was kept", s)
		}
		if err := s.Forget(t.Context(), os.Getenv); err != nil {
			t.Error(err)
		}
		if err := s.Forget(t.Context(), os.Getenv); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: forgotten twice: %v", s, err)
		}
	}
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(target, []byte(value), 0o600), os.Symlink(target, link)); err != nil {
		t.Fatal(err)
	}
	for _, s := range []lease.Source{{File: link}, {Env: "HUB"}, {Command: []string{"true"}}, {Credential: "hub"}, {}} {
		if err := s.Keep(t.Context(), os.Getenv, nacre.NewSecret(value+"-new")); err == nil || strings.Contains(err.Error(), value) {
			t.Errorf("%s: %v", s, err)
		}
	}
	if text, err := os.ReadFile(target); err != nil || string(text) != value {
		t.Errorf("the link's target: %s, %v", text, err)
	}
}

// M-31: the ledger knows who holds what, by name.
func TestALeaseIsInTheLedgerUntilItIsGivenBack(t *testing.T) {
	h := newHouse(t)
	l := h.acquire(t, lease.Spec{Name: "hub", Source: lease.Source{Env: "HUB"}})
	values, err := l.Values(t.Context())
	if err != nil || values[0].Reveal() != value || l.Name() != "hub" {
		t.Fatalf("%v %v", values, err)
	}
	for range 2 {
		if err := l.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Values(t.Context()); !errors.Is(err, lease.ErrEnded) {
		t.Errorf("after its release: %v", err)
	}
	text := h.ledger(t)
	if strings.Count(text, "\n") != 2 || !strings.Contains(text, `"event":"acquired"`) || !strings.Contains(text, `"event":"released"`) || strings.Contains(text, value) || strings.Contains(text, "HUB") {
		t.Errorf("the ledger:\n%s", text)
	}
	if info, _ := os.Stat(h.path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}

// A value is read anew after its time, earlier ones are remembered, and one that expired is not given.
func TestALeaseIsRenewedAndExpires(t *testing.T) {
	h := newHouse(t)
	l := h.acquire(t, lease.Spec{Name: "hub", Source: lease.Source{Env: "HUB"}, TTL: time.Minute, Expires: h.clock.now().Add(10 * time.Minute)})
	h.env["HUB"] = "another-value-since-then"
	if values, _ := l.Values(t.Context()); values[0].Reveal() != value {
		t.Error("it was read anew too early")
	}
	h.clock.pass(time.Minute)
	if values, err := l.Values(t.Context()); err != nil || len(values) != 2 || values[0].Reveal() != h.env["HUB"] || values[1].Reveal() != value {
		t.Errorf("after its time: %d values, %v", len(values), err)
	}
	h.clock.pass(time.Minute)
	h.env["HUB"] = ""
	if _, err := l.Values(t.Context()); err == nil {
		t.Error("a value that is gone is still given")
	}
	for i := range 10 {
		h.env["HUB"] = fmt.Sprintf("value-number-%d", i)
		h.clock.pass(time.Minute)
		if values, err := l.Values(t.Context()); err == nil && len(values) > 5 {
			t.Errorf("%d values are kept", len(values))
		}
	}
	if _, err := l.Values(t.Context()); !errors.Is(err, lease.ErrEnded) {
		t.Errorf("after it expired: %v", err)
	}
	if _, err := h.broker().Acquire(t.Context(), "s2", "main", lease.Spec{Name: "hub", Source: lease.Source{Env: "HUB"}, Expires: h.clock.now()}); !errors.Is(err, lease.ErrEnded) {
		t.Errorf("a lease of what has expired: %v", err)
	}
}

// M-31: what a crash left is found, once, and what lives is left alone.
func TestASweepEndsOrphans(t *testing.T) {
	h := newHouse(t)
	if orphans, err := h.broker().Sweep(t.Context()); err != nil || orphans != nil {
		t.Fatalf("without a ledger: %v %v", orphans, err)
	}
	h.acquire(t, lease.Spec{Name: "left", Source: lease.Source{Env: "HUB"}})
	h.alive["s2"] = true
	if _, err := h.broker().Acquire(t.Context(), "s2", "main", lease.Spec{Name: "held", Source: lease.Source{Env: "HUB"}}); err != nil {
		t.Fatal(err)
	}
	for round, want := range []int{1, 0} {
		orphans, err := h.broker().Sweep(t.Context())
		if err != nil || len(orphans) != want || want == 1 && (orphans[0].Credential != "left" || orphans[0].Session != "s1") {
			t.Errorf("round %d: %+v %v", round, orphans, err)
		}
	}
	h.alive["s2"] = false
	if orphans, err := h.broker().Sweep(t.Context()); err != nil || len(orphans) != 1 {
		t.Errorf("%+v %v", orphans, err)
	}
}

// A line that a crash cut short is no lease; one that is malformed stops everything.
func TestALedgerThatWasCutOrChanged(t *testing.T) {
	h := newHouse(t)
	l := h.acquire(t, lease.Spec{Name: "hub", Source: lease.Source{Env: "HUB"}})
	appendTo(t, h.path, `{"time":"2030-01-01T00:00:00Z","event":"acq`)
	if err := l.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	if orphans, err := h.broker().Sweep(t.Context()); err != nil || len(orphans) != 0 {
		t.Errorf("after a line that was cut: %v %v\n%s", orphans, err, h.ledger(t))
	}
	for _, line := range []string{"not json\n", `{"event":"lent"}` + "\n", strings.Repeat("x", 5000) + "\n"} {
		g := newHouse(t)
		appendTo(t, g.path, line)
		if _, err := g.broker().Sweep(t.Context()); err == nil {
			t.Errorf("%.20q is passed over", line)
		}
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// Many brokers, as many processes, write whole lines; a long ledger is made short, at once.
func TestTheLedgerIsSharedAndStaysShort(t *testing.T) {
	h := newHouse(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			b := h.broker()
			for range 5 {
				l, err := b.Acquire(context.Background(), "s1", "main", lease.Spec{Name: "hub", Source: lease.Source{Env: "HUB"}})
				if err == nil {
					err = l.Release(context.Background())
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := strings.Count(h.ledger(t), "\n"); n != 80 {
		t.Errorf("%d lines", n)
	}
	h.alive["s1"] = true
	l := h.acquire(t, lease.Spec{Name: "kept", Source: lease.Source{Env: "HUB"}})
	old, err := os.Open(h.path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Close() }() // only read from
	appendTo(t, h.path, longLedger())
	if _, err := h.broker().Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text := h.ledger(t); strings.Count(text, "\n") != 1 || !strings.Contains(text, "kept") {
		t.Errorf("%d bytes remain", len(text))
	}
	// M-31: a crash while it is made short forgets nothing.
	if text, err := io.ReadAll(old); err != nil || strings.Count(string(text), "\n") != 11081 {
		t.Errorf("of the long one %d bytes are left before the short one is in its place: %v", len(text), err)
	}
	if err := l.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// longLedger is longer than a ledger stays, and holds nothing.
func longLedger() string {
	return strings.Repeat(`{"time":"2030-01-01T00:00:00Z","event":"released","lease":"x","session":"s","group":"g","credential":"c"}`+"\n", 11000)
}

// M-31: what is leased while another process makes the ledger short is in the short one.
func TestNothingIsForgottenWhileTheLedgerIsMadeShort(t *testing.T) {
	h := newHouse(t)
	h.alive["s1"] = true
	appendTo(t, h.path, longLedger())
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			b := h.broker()
			for range 5 {
				if _, err := b.Acquire(context.Background(), "s1", "main", lease.Spec{Name: "hub", Source: lease.Source{Env: "HUB"}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		if _, err := h.broker().Sweep(context.Background()); err != nil {
			t.Error(err)
		}
	})
	all.Wait()
	if text := h.ledger(t); strings.Count(text, `"event":"acquired"`) != 40 || strings.Contains(text, `"released"`) {
		t.Errorf("%d leases are left in %d bytes", strings.Count(text, `"event":"acquired"`), len(text))
	}
}
