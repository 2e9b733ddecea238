// Package review is a group's memory as a person looks it over: what waits for a review, what
// is remembered, and whether somebody vouches for it. Each change is recorded before it is made.
// It asks for no rights: whoever calls it has done so.
package review

import (
	"context"
	"errors"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/operator"
)

// Entry is one thing that is remembered, in an agent's words.
type Entry struct {
	ID, Type, Content string
	// Written is when, after RFC 3339.
	Written string
	Session nacre.SessionID
	// Trusted says that a person vouches for it, Tainting that who recalls it has listened to
	// an outsider.
	Trusted, Tainting bool
}

// List are the latest entries of a group's memory, at most so many: those that wait for a
// review, or all. A group without a memory has none.
func List(ctx context.Context, inst *installation.Installation, group nacre.Group, waiting bool, most int) (all []Entry, err error) {
	if there, err := installation.HasMemory(ctx, inst, group); err != nil || !there {
		return nil, err
	}
	err = with(ctx, inst, group, func(store *memory.Store) error {
		list, err := store.List(ctx, memory.Filter{Waiting: waiting, Limit: most})
		for _, e := range list {
			all = append(all, EntryOf(e))
		}
		return err
	})
	return all, err
}

// Waiting is how many entries of a group's memory wait for a review.
func Waiting(ctx context.Context, inst *installation.Installation, group nacre.Group) (many int, err error) {
	err = with(ctx, inst, group, func(store *memory.Store) error {
		many, _, err = memory.Waiting(ctx, store, "")
		return err
	})
	return many, err
}

// EntryOf is an entry as a person looks it over.
func EntryOf(e memory.Entry) Entry {
	return Entry{
		ID: e.ID, Type: e.Type, Content: e.Content, Written: e.CreatedAt, Session: e.Provenance.Session,
		Trusted: e.Trust == nacre.Trusted, Tainting: e.Told() == nacre.Untrusted,
	}
}

// with opens a group's memory, and closes it behind use.
func with(ctx context.Context, inst *installation.Installation, group nacre.Group, use func(*memory.Store) error) error {
	store, err := inst.OpenMemory(ctx, group, func(string) {})
	if err != nil {
		return err
	}
	return errors.Join(use(store), store.Close())
}

// Decision is what a person says of one entry.
type Decision struct {
	Group   nacre.Group
	ID      string
	Trusted bool
	Who     string
}

// Decide vouches for an entry, or declines it.
func Decide(ctx context.Context, inst *installation.Installation, d Decision) error {
	what, label := "decline", nacre.Untrusted
	if d.Trusted {
		what, label = "trust", nacre.Trusted
	}
	return with(ctx, inst, d.Group, func(store *memory.Store) error {
		entry, _, err := store.Get(ctx, d.ID)
		if err != nil {
			return err
		}
		change := operator.MemoryChange{Group: d.Group, What: what, Who: d.Who, Marks: []operator.MemoryMark{operator.MarkMemory(inst, entry.ID, entry.Content, "")}}
		return operator.ChangeMemory(ctx, inst, change, func() error { return store.Trust(ctx, d.ID, label) })
	})
}
