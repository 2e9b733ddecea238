package erasure

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/operator"
	"github.com/nacre-dev/nacre/internal/sqlitefile"
)

// Forget says what a group is to forget, and who wants it.
type Forget struct {
	Group nacre.Group
	Who   string
	// ID is one entry, Session all that a session wrote, Match every entry that holds this
	// text: exactly one of them is given.
	ID      string
	Session nacre.SessionID
	Match   string
	// Recalled also takes what sessions wrote after they were shown one of these.
	Recalled bool
}

func (f Forget) chosen() memory.Forget {
	return memory.Forget{ID: f.ID, Session: f.Session, Match: f.Match, Recalled: f.Recalled}
}

// Forgetting is all that is erased with what is to be forgotten, and what is not reached.
type Forgetting struct {
	memories memory.Erasure
	Traces   MemoryTraces
	Remains  []MemoryRemain
}

// Memories are the entries that go, and what that does to others.
func (f Forgetting) Memories() memory.Erasure { return f.memories }

// Empty tells that there is nothing to erase.
func (f Forgetting) Empty() bool { return len(f.memories.Entries) == 0 && f.Traces.Empty() }

// Look tells what [Erase] would erase. Nothing changes.
// Errors: those of [memory.Store.Doom].
func Look(ctx context.Context, inst *installation.Installation, f Forget) (found Forgetting, err error) {
	err = with(ctx, inst, f.Group, func(m *memory.Store) error {
		found.memories, err = m.Doom(ctx, f.chosen())
		return err
	})
	if err != nil {
		return Forgetting{}, err
	}
	found.Traces, err = TracesOf(ctx, inst, f.Group, found.memories.Sessions)
	return found, err
}

// Erase records what was told to be erased, and erases it. It asks for no rights: whoever
// calls it has done so. Its error is a [sqlitefile.ErrLingers] where all of it is gone, and
// traces are left that go later.
func Erase(ctx context.Context, inst *installation.Installation, f Forget, told Forgetting) error {
	marks := make([]operator.MemoryMark, 0, len(told.memories.Entries))
	for _, d := range told.memories.Entries {
		marks = append(marks, operator.MarkMemory(inst, d.ID, d.Content, d.Why))
	}
	change := operator.MemoryChange{Group: f.Group, What: "forget", Who: f.Who, Marks: marks}
	return operator.ChangeMemory(ctx, inst, change, func() error {
		// The entries last: they lead to the rest, where this is interrupted.
		if err := EraseMemoryTraces(ctx, inst, told.Traces); err != nil {
			return err
		}
		err := with(ctx, inst, f.Group, func(m *memory.Store) error { return m.Forget(ctx, f.chosen(), told.memories) })
		if err != nil && !errors.Is(err, memory.ErrLingers) {
			return err
		}
		return Finish(ctx, inst, f.Group)
	})
}

// Finish ends what erasures have left, and names the files that hold traces of them all the
// same. It is a [sqlitefile.ErrLingers], or nil.
func Finish(ctx context.Context, inst *installation.Installation, group nacre.Group) error {
	files, err := FinishErasures(ctx, inst)
	if err != nil {
		return err
	}
	err = with(ctx, inst, group, func(m *memory.Store) error {
		left, err := m.Traces(ctx)
		if left {
			files = append(files, "the memory of group "+string(group))
		}
		return err
	})
	if err != nil || len(files) == 0 {
		return err
	}
	return fmt.Errorf("what was erased is still in the bytes of %s: %w", strings.Join(files, " and "), sqlitefile.ErrLingers)
}

// Remains looks for what is left of what was told to be erased, and goes through all files of
// the installation's state for the words themselves. Nothing changes.
func Remains(ctx context.Context, inst *installation.Installation, f Forget, told Forgetting, erased bool) ([]MemoryRemain, error) {
	o := MemoryLook{Again: again(f, told), Erased: erased, Words: []string{f.Match}}
	for _, d := range told.memories.Entries {
		o.Words = append(o.Words, d.Content)
	}
	return MemoryRemains(ctx, inst, told.Traces, o)
}

// again is the command that erases what is left.
func again(f Forget, told Forgetting) string {
	command := "nacre memory forget --group " + string(f.Group) + " "
	switch {
	case f.Session != "":
		command += "--session " + string(f.Session)
	case f.ID != "":
		command += f.ID
	case len(told.memories.Entries) > 0: // by what is gone, text finds nothing
		command += told.memories.Entries[0].ID
	default:
		command += "--match TEXT"
	}
	if f.Recalled {
		command += " --recalled"
	}
	return command
}

// with opens a group's memory, and closes it behind use.
func with(ctx context.Context, inst *installation.Installation, group nacre.Group, use func(*memory.Store) error) error {
	store, err := inst.OpenMemory(ctx, group, func(string) {})
	if err != nil {
		return err
	}
	return errors.Join(use(store), store.Close())
}
