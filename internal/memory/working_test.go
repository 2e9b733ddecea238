package memory_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/memory"
)

// found are the contents that an agent's search finds.
func found(t *testing.T, s *memory.Store, text string, own bool) string {
	t.Helper()
	hits, err := s.Search(t.Context(), memory.Query{Text: text, Own: own})
	if err != nil {
		t.Fatal(err)
	}
	return contents(hits)
}

// M-56: what a sub-agent stores is its own for a time, and it finds that beside its group's. So
// does whoever works with the same memory or asks for it by its tag, and no other session does.
func TestAWorkingMemoryIsFoundByWhoWorksWithIt(t *testing.T) {
	c := newClock()
	path := filepath.Join(t.TempDir(), "main.sqlite")
	o := options(c)
	group := open(t, path, o)
	o.Working = memory.Working{ID: "memory-a", TTL: time.Hour}
	child, same := open(t, path, o), open(t, path, o)
	o.Working.ID = "memory-b"
	sibling := open(t, path, o)
	w := memory.Writer{Session: "child"}
	shared := add(t, group, agent, "fact", "the walrus is shared")
	own := add(t, child, w, "fact", "the walrus is the child's")
	for name, s := range map[string]*memory.Store{"the child": child, "one with its memory": same} {
		for _, text := range []string{"walrus", ""} {
			if have := found(t, s, text, true); have != "the walrus is the child's|the walrus is shared" && have != "the walrus is shared|the walrus is the child's" {
				t.Errorf("%s finds %q by %q", name, have, text)
			}
		}
	}
	for name, s := range map[string]*memory.Store{"its group": group, "a sibling": sibling} {
		for _, text := range []string{"walrus", ""} {
			if have := found(t, s, text, true); have != "the walrus is shared" {
				t.Errorf("%s finds %q by %q", name, have, text)
			}
		}
		if _, err := s.Delete(t.Context(), w, own); !errors.Is(err, memory.ErrNotFound) {
			t.Errorf("%s deletes it: %v", name, err)
		}
	}
	hits, err := group.Search(t.Context(), memory.Query{Tags: []string{o.Working.Tag()}})
	if err != nil || len(hits) != 0 {
		t.Errorf("by the sibling's tag: %q, %v", contents(hits), err)
	}
	o.Working.ID = "memory-a"
	if hits, err = group.Search(t.Context(), memory.Query{Tags: []string{o.Working.Tag()}}); err != nil || contents(hits) != "the walrus is the child's" {
		t.Errorf("by its tag: %q, %v", contents(hits), err)
	}
	if _, its, err := memory.Waiting(t.Context(), group, "child"); err != nil || its != 0 {
		t.Errorf("%d wait for a review, %v", its, err)
	}
	if _, err := child.Delete(t.Context(), w, shared); !errors.Is(err, memory.ErrTrusted) {
		t.Errorf("a sub-agent deletes what is its group's: %v", err)
	}
	if _, err := group.Add(t.Context(), agent, memory.Draft{Type: "fact", Content: "x", Tags: []string{o.Working.Tag()}}); !errors.Is(err, memory.ErrInvalid) {
		t.Errorf("an agent sets the tag itself: %v", err)
	}
	c.pass(time.Hour)
	if have := found(t, child, "walrus", true); have != "the walrus is shared" {
		t.Errorf("after its time the child finds %q", have)
	}
	open(t, path, o) // the next sub-agent's
	if _, _, err := group.Get(t.Context(), own); !errors.Is(err, memory.ErrNotFound) {
		t.Errorf("what was over was not removed: %v", err)
	}
	if _, _, err := group.Get(t.Context(), shared); err != nil {
		t.Errorf("what is the group's: %v", err)
	}
}
