package inbox_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/inbox"
)

const limit = 3

func dead(string) bool { return false }

func open(t *testing.T, root, holder string) *inbox.Box {
	t.Helper()
	b, err := inbox.Open(root, holder, limit)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func message(n int) inbox.Message {
	return inbox.Message{
		ID: fmt.Sprintf("m%d", n), Session: nacre.SessionID(fmt.Sprintf("k%d", n)), Source: "box", Group: "main",
		Taken: time.Unix(1_800_000_000, int64(n)).UTC(), Payload: json.RawMessage(`{"body":"<hi> ` + fmt.Sprint(n) + `"}`),
	}
}

func keep(t *testing.T, b *inbox.Box, messages ...inbox.Message) {
	t.Helper()
	for _, m := range messages {
		if err := b.Keep(m); err != nil {
			t.Fatal(err)
		}
	}
}

func ids(messages []inbox.Message) string {
	var text []string
	for _, m := range messages {
		text = append(text, m.ID)
	}
	return strings.Join(text, " ")
}

func takeOver(t *testing.T, b *inbox.Box) []inbox.Message {
	t.Helper()
	taken, err := b.TakeOver(dead)
	if err != nil {
		t.Fatal(err)
	}
	return taken
}

// M-52: what a process that died had taken is the next one's, in the order in which it came, with
// how often it was begun. What was dealt with is nobody's.
func TestTheNextProcessTakesOver(t *testing.T) {
	root := t.TempDir()
	one := open(t, root, "one")
	keep(t, one, message(3), message(1), message(2))
	for _, id := range []string{"m1", "m3"} {
		if _, ok := one.Offer(id); !ok {
			t.Errorf("%s was not offered", id)
		}
		if m, err := one.Begin(id); err != nil || m.Begun != 1 {
			t.Errorf("have %+v, %v", m, err)
		}
	}
	if err := one.Remove("m3"); err != nil {
		t.Fatal(err)
	}
	two := open(t, root, "two")
	taken := takeOver(t, two)
	if ids(taken) != "m1 m2" || taken[0].Begun != 1 || taken[1].Begun != 0 || taken[0].Lost() {
		t.Fatalf("have %+v", taken)
	}
	if have, want := string(taken[1].Payload), string(message(2).Payload); unescaped(t, have) != unescaped(t, want) || taken[1].Session != "k2" {
		t.Errorf("have %s in %s, want %s", have, taken[1].Session, want)
	}
	if ids(two.Waiting()) != "m1 m2" {
		t.Errorf("have %v waiting", two.Waiting())
	}
	if have := takeOver(t, open(t, root, "three")); ids(have) != "m1 m2" {
		t.Errorf("have %q", ids(have))
	}
	if have := takeOver(t, open(t, root, "four")); ids(have) != "m1 m2" {
		t.Errorf("have %q", ids(have))
	}
}

func unescaped(t *testing.T, text string) string {
	t.Helper()
	var v struct{ Body string }
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v.Body
}

// M-52: work on a message begins twice at most, whoever dies.
func TestAMessageIsBegunTwice(t *testing.T) {
	root := t.TempDir()
	keep(t, open(t, root, "k0"), message(1))
	for n := 1; n <= 3; n++ {
		b := open(t, root, fmt.Sprint("k", n))
		taken := takeOver(t, b)
		if len(taken) != 1 || taken[0].Lost() != (n == 3) {
			t.Fatalf("%d: have %+v", n, taken)
		}
		_, err := b.Begin("m1")
		if want := n == 3; errors.Is(err, inbox.ErrUnknown) != want {
			t.Errorf("%d: have %v, want it refused: %t", n, err, want)
		}
	}
}

// D-33: a group has so many, and another group does not notice; one that is dealt
// with makes room.
func TestAGroupHasItsLimit(t *testing.T) {
	b := open(t, t.TempDir(), "one")
	keep(t, b, message(1), message(2), message(3))
	if err := b.Keep(message(4)); !errors.Is(err, inbox.ErrFull) {
		t.Errorf("have %v, want it full", err)
	}
	other := message(5)
	other.Group = "other"
	keep(t, b, other)
	if err := b.Remove("m1"); err != nil {
		t.Fatal(err)
	}
	keep(t, b, message(4))
	if have := ids(b.Waiting()); have != "m2 m3 m4 m5" {
		t.Errorf("have %q", have)
	}
}

// A message is offered once, until the offer is taken back.
func TestAnOffer(t *testing.T) {
	b := open(t, t.TempDir(), "one")
	keep(t, b, message(1))
	var have []bool
	for range 2 {
		_, ok := b.Offer("m1")
		have = append(have, ok, len(b.Waiting()) == 0)
	}
	have = append(have, b.Withdraw("m1"), b.Has("m1"), len(b.Waiting()) == 1, b.Withdraw("m2"), b.Has("m2"))
	if want := []bool{true, true, false, true, true, true, true, false, false}; fmt.Sprint(have) != fmt.Sprint(want) {
		t.Errorf("have %v, want %v", have, want)
	}
}

// What lives is left alone, and an empty box leaves nothing behind.
func TestTheLivingAreLeftAlone(t *testing.T) {
	root := t.TempDir()
	one, two := open(t, root, "one"), open(t, root, "two")
	keep(t, one, message(1))
	taken, err := two.TakeOver(func(holder string) bool { return holder == "one" })
	if err != nil || len(taken) != 0 {
		t.Errorf("have %v, %v", taken, err)
	}
	if err := errors.Join(one.Close(), two.Close()); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 1 || entries[0].Name() != "one" {
		t.Errorf("have %v, %v, want what holds a message", entries, err)
	}
}

// M-52: several processes that find a dead one share its messages: each is one's.
func TestTakingOverAtOnce(t *testing.T) {
	root := t.TempDir()
	gone := open(t, root, "gone")
	keep(t, gone, message(1), message(2), message(3))
	var mu sync.Mutex
	var all []inbox.Message
	var work sync.WaitGroup
	for n := range 8 {
		b := open(t, root, fmt.Sprint("k", n))
		work.Go(func() {
			taken, err := b.TakeOver(func(holder string) bool { return holder != "gone" })
			mu.Lock()
			defer mu.Unlock()
			all = append(all, taken...)
			if err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	if len(all) != 3 {
		t.Errorf("have %d of them taken, want 3", len(all))
	}
}

// What is no message is put aside and told of once, a write that was cut off goes,
// and neither hides what is whole.
func TestWhatCannotBeRead(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"cut off":          func(path string) error { return os.Truncate(path, 20) },
		"empty":            func(path string) error { return os.Truncate(path, 0) },
		"too large":        func(path string) error { return os.Truncate(path, 2<<20) },
		"another's name":   func(path string) error { return os.Rename(path, strings.Replace(path, "m1", "m9", 1)) },
		"a path as its id": func(path string) error { return os.WriteFile(path, []byte(`{"id":"../../m1","session":"k1"}`), 0o600) },
		"without a session": func(path string) error {
			return os.WriteFile(path, []byte(`{"id":"m1","source":"x","group":"main","payload":{}}`), 0o600)
		},
		"a link to another place": func(path string) error { return errors.Join(os.Remove(path), os.Symlink("/etc/hosts", path)) },
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			keep(t, open(t, root, "gone"), message(1), message(2))
			files, err := filepath.Glob(filepath.Join(root, "gone", "*m1.json"))
			if err != nil || len(files) != 1 {
				t.Fatalf("have %q, %v", files, err)
			}
			if err := errors.Join(spoil(files[0]), os.WriteFile(filepath.Join(root, "gone", ".new-m7"), nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			b := open(t, root, "one")
			taken, err := b.TakeOver(dead)
			if ids(taken) != "m2" || err == nil || !strings.Contains(err.Error(), "a message is lost") {
				t.Errorf("have %q, %v", ids(taken), err)
			}
			if taken := takeOver(t, b); len(taken) != 0 {
				t.Errorf("have %v once more", taken)
			}
			left, err := os.ReadDir(filepath.Join(root, "gone"))
			if err != nil || len(left) != 1 || !strings.HasSuffix(left[0].Name(), ".damaged") {
				t.Errorf("have %v, %v", left, err)
			}
		})
	}
}

// What could not be read again is not taken.
func TestWhatIsNoMessage(t *testing.T) {
	b := open(t, t.TempDir(), "one")
	for name, spoil := range map[string]func(m *inbox.Message){
		"no id":       func(m *inbox.Message) { m.ID = "" },
		"a path":      func(m *inbox.Message) { m.ID = "../x" },
		"no session":  func(m *inbox.Message) { m.Session = "" },
		"no group":    func(m *inbox.Message) { m.Group = "" },
		"no source":   func(m *inbox.Message) { m.Source = "" },
		"no payload":  func(m *inbox.Message) { m.Payload = nil },
		"not JSON":    func(m *inbox.Message) { m.Payload = json.RawMessage("{") },
		"begun below": func(m *inbox.Message) { m.Begun = -1 },
	} {
		m := message(1)
		spoil(&m)
		if err := b.Keep(m); err == nil {
			t.Errorf("%s: kept", name)
		}
	}
	keep(t, b, message(1))
	if err := b.Keep(message(1)); err == nil {
		t.Error("kept twice")
	}
	for _, holder := range []string{"", "..", "a/b"} {
		if _, err := inbox.Open(t.TempDir(), holder, limit); err == nil {
			t.Errorf("holder %q: opened", holder)
		}
	}
	if _, err := inbox.Open(t.TempDir(), "one", 0); err == nil {
		t.Error("opened without a limit")
	}
}

// Where a message cannot be written, it is not taken, and nothing of it is left.
func TestAFullDisk(t *testing.T) {
	root := t.TempDir()
	b := open(t, root, "one")
	if err := os.RemoveAll(filepath.Join(root, "one")); err != nil {
		t.Fatal(err)
	}
	if err := b.Keep(message(1)); err == nil || b.Has("m1") {
		t.Errorf("have %v, want it refused", err)
	}
}

// BenchmarkKeep is a message kept and dealt with, against one durable write.
func BenchmarkKeep(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		dir := b.TempDir()
		for n := 0; b.Loop(); n++ {
			f, err := os.Create(filepath.Join(dir, fmt.Sprint(n)))
			if err != nil {
				b.Fatal(err)
			}
			_, err = f.Write(message(n).Payload)
			if err := errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name())); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("ours", func(b *testing.B) {
		box, err := inbox.Open(b.TempDir(), "one", limit)
		if err != nil {
			b.Fatal(err)
		}
		for n := 0; b.Loop(); n++ {
			if err := errors.Join(box.Keep(message(n)), box.Remove(message(n).ID)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// repeatable is a message that its channel names.
func repeatable(n int) inbox.Message {
	m := message(n)
	m.ID, m.Once = inbox.Name("box", "box", fmt.Sprint(n)), true
	return m
}

// M-48: a channel that did not hear that its message was taken brings it again. It is
// taken once: while it waits, after it was dealt with, and by the process after that. What
// its channel was told was not taken may come again.
func TestAMessageThatComesAgainIsTakenOnce(t *testing.T) {
	root := t.TempDir()
	again := func(b *inbox.Box, n int, when string) {
		t.Helper()
		other := repeatable(n)
		other.Session, other.Taken = "k99", other.Taken.Add(time.Minute)
		if err := b.Keep(other); !errors.Is(err, inbox.ErrRepeated) {
			t.Errorf("%s: have %v, want it to be known", when, err)
		}
	}
	one := open(t, root, "one")
	keep(t, one, repeatable(1), repeatable(2), repeatable(3))
	again(one, 1, "while it waits")
	if err := errors.Join(one.Remove(repeatable(1).ID), one.Discard(repeatable(3).ID)); err != nil {
		t.Fatal(err)
	}
	again(one, 1, "after it was dealt with")
	two := open(t, root, "two")
	again(two, 1, "in the next process")
	again(two, 2, "while it is another process's")
	keep(t, two, repeatable(3))
	if have := takeOver(t, two); len(have) != 1 || have[0].ID != repeatable(2).ID {
		t.Fatalf("have %+v taken over", have)
	}
	again(two, 2, "after it was taken over")
	if err := two.Remove(repeatable(2).ID); err != nil {
		t.Fatal(err)
	}
	again(open(t, root, "three"), 2, "after it was taken over and dealt with")
}

// M-48: what is known of messages that were dealt with is bounded, and the oldest go.
func TestKnownMessagesAreBounded(t *testing.T) {
	root := t.TempDir()
	b := open(t, root, "one")
	dir := filepath.Join(root, ".known")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for n := range 20_000 {
		path := filepath.Join(dir, fmt.Sprintf("x%d", n))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if at := time.Unix(int64(n), 0); n < 10 {
			if err := os.Chtimes(path, at, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	keep(t, b, repeatable(1))
	if err := b.Remove(repeatable(1).ID); err != nil {
		t.Fatal(err)
	}
	takeOver(t, b)
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 10_000 {
		t.Errorf("have %d left, %v", len(left), err)
	}
	if _, err := os.Stat(filepath.Join(dir, "x0")); err == nil {
		t.Error("the oldest one is still known")
	}
	if err := b.Keep(repeatable(1)); !errors.Is(err, inbox.ErrRepeated) {
		t.Errorf("have %v, want the newest to be known", err)
	}
}

// Two names never become one by where their parts end.
func TestNamesOfMessages(t *testing.T) {
	have := map[string]bool{}
	for _, parts := range [][3]string{{"a", "b", "c"}, {"ab", "", "c"}, {"", "ab", "c"}, {"a", "bc", ""}, {"a", "1:b", "c"}} {
		have[inbox.Name(parts[0], parts[1], parts[2])] = true
	}
	if len(have) != 5 {
		t.Errorf("have %d names of 5", len(have))
	}
}

// F-61: who looks sees the sessions of all messages that are kept, whichever process has them,
// and none of one that was dealt with or put aside.
func TestSessionsAreThoseOfAllThatIsKept(t *testing.T) {
	root := filepath.Join(t.TempDir(), "a[b") // a folder's name is no pattern
	one, two := open(t, root, "one"), open(t, root, "two")
	keep(t, one, message(1), message(2))
	keep(t, two, message(3))
	if err := one.Remove("m2"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "two", "x.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	have, err := inbox.Sessions(root)
	if want := map[nacre.SessionID]bool{"k1": true, "k3": true}; err != nil || !maps.Equal(have, want) {
		t.Errorf("have %v, %v, want %v", have, err, want)
	}
	if have, err := inbox.Sessions(filepath.Join(root, "none")); err != nil || len(have) != 0 {
		t.Errorf("where nothing was ever kept: have %v, %v", have, err)
	}
}
