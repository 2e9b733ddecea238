package assembly

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/engine"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/task"
)

// MemoryTraces are what is kept of sessions beside their memories, as far as it may
// hold the words that are to be forgotten (M-57).
type MemoryTraces struct {
	// Conversations are those in which one of the sessions took a turn.
	Conversations []ConversationTrace `json:"conversations"`
	// Checkpoints are sessions of which durable work, or what their agent was given, is kept.
	Checkpoints []nacre.SessionID `json:"checkpoints"`
	// Remains is what an erasure does not reach, in words.
	Remains []string `json:"remains"`
}

// ConversationTrace is what of a conversation goes.
type ConversationTrace struct {
	Key string `json:"key"`
	// Gone are the sessions whose turns go: the first that holds what is to be
	// forgotten, and all after it, since they had heard it.
	Gone []nacre.SessionID `json:"gone"`
	// Left is how many turns before those stay.
	Left int `json:"left"`

	dir string
}

// Empty tells that there is nothing to erase.
func (t MemoryTraces) Empty() bool { return len(t.Conversations) == 0 && len(t.Checkpoints) == 0 }

// MemoryTraces looks for what is kept of sessions of a group. Nothing changes.
func (r *Runtime) MemoryTraces(ctx context.Context, group nacre.Group, sessions []nacre.SessionID) (MemoryTraces, error) {
	t := MemoryTraces{Conversations: []ConversationTrace{}, Checkpoints: []nacre.SessionID{}, Remains: []string{}}
	entries, err := os.ReadDir(r.conversations(group))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	touched := slices.Clone(sessions)
	for _, entry := range entries {
		one, err := traceOf(filepath.Join(r.conversations(group), entry.Name()), sessions)
		if err != nil {
			return t, err
		}
		if len(one.Gone) > 0 {
			t.Conversations, touched = append(t.Conversations, one), append(touched, one.Gone...)
		}
	}
	slices.Sort(touched)
	err = r.traceWork(ctx, group, slices.Compact(touched), &t)
	return t, err
}

func traceOf(dir string, sessions []nacre.SessionID) (ConversationTrace, error) {
	c, err := readConversation(dir, "")
	if err != nil {
		return ConversationTrace{}, err
	}
	first := slices.IndexFunc(c.Sessions, func(id nacre.SessionID) bool { return slices.Contains(sessions, id) })
	if first < 0 {
		return ConversationTrace{}, nil
	}
	return ConversationTrace{Key: c.Key, Gone: c.Sessions[first:], Left: first, dir: dir}, nil
}

// traceWork finds what sessions left in their own folders and in the store of durable work.
func (r *Runtime) traceWork(ctx context.Context, group nacre.Group, sessions []nacre.SessionID, t *MemoryTraces) (err error) {
	client, err := engine.OpenClient(ctx, r.registry.Paths().Engine(), nil)
	if err != nil && !errors.Is(err, engine.ErrNoStore) {
		return err
	}
	if client != nil {
		defer func() { err = errors.Join(err, client.Close()) }()
	}
	for _, id := range sessions {
		s, err := r.registry.Show(id)
		if err != nil || s.Group != group {
			continue // none of ours: an import, the operator, or another group's
		}
		if s.Live() || s.Resumable {
			t.Remains = append(t.Remains, fmt.Sprintf("session %s is not over: ask again when it is", id))
			continue
		}
		left := isThere(r.roleFolder(id))
		if client != nil && !left {
			works, err := client.Works(ctx, string(id))
			if err != nil {
				return err
			}
			left = len(works) > 0
		}
		if left {
			t.Checkpoints = append(t.Checkpoints, id)
		}
		if work := filepath.Join(r.registry.Paths().Session(id), task.WorkDir); isThere(work) {
			t.Remains = append(t.Remains, fmt.Sprintf("session %s: work that did not land, in %s", id, work))
		}
		if s.Project != "" {
			t.Remains = append(t.Remains, fmt.Sprintf("session %s: what it changed in %s, and git's history of it", id, s.Project))
		}
	}
	if workspace := filepath.Join(r.registry.Paths().Group(group), "workspace"); isThere(workspace) && !t.Empty() {
		t.Remains = append(t.Remains, "files that agents wrote in "+workspace)
	}
	if len(sessions) > 0 {
		t.Remains = append(t.Remains, "the audit of these sessions, with the arguments of their calls: nacre audit prune --before DATE removes it", "exports and backups")
	}
	return nil
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// roleFolder is where what a session's agent was given is written: its brief, too.
func (r *Runtime) roleFolder(id nacre.SessionID) string {
	return filepath.Join(r.registry.Paths().Session(id), "role")
}

// EraseMemoryTraces erases what [Runtime.MemoryTraces] found. It waits for turns that
// are being taken. Whoever is interrupted asks again.
func (r *Runtime) EraseMemoryTraces(ctx context.Context, group nacre.Group, t MemoryTraces) error {
	for _, c := range t.Conversations {
		if err := r.cut(ctx, group, c); err != nil {
			return fmt.Errorf("conversation %q: %w", c.Key, err)
		}
	}
	if len(t.Checkpoints) == 0 {
		return nil
	}
	executors := make([]string, 0, len(t.Checkpoints))
	for _, id := range t.Checkpoints {
		if err := os.RemoveAll(r.roleFolder(id)); err != nil {
			return err
		}
		executors = append(executors, string(id))
	}
	client, err := engine.OpenClient(ctx, r.registry.Paths().Engine(), nil)
	if errors.Is(err, engine.ErrNoStore) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(client.Erase(ctx, executors), client.Close())
}

// cut takes turns out of a conversation, and with them all that the brain itself
// keeps of it: its transcript is one text.
func (r *Runtime) cut(ctx context.Context, group nacre.Group, t ConversationTrace) error {
	leave, err := r.takeConversation(ctx, group, t.Key)
	if err != nil {
		return err
	}
	defer leave()
	c, err := readConversation(t.dir, t.Key)
	if err != nil {
		return err
	}
	first := slices.IndexFunc(c.Sessions, func(id nacre.SessionID) bool { return slices.Contains(t.Gone, id) })
	if first < 0 {
		return nil // it began anew meanwhile
	}
	if first == 0 {
		return registry.Discard(t.dir)
	}
	stays := c.Sessions[:first]
	c.Exchanges = slices.DeleteFunc(c.Exchanges, func(e exchange) bool { return !slices.Contains(stays, e.Session) })
	c.dir, c.Sessions, c.Resume = t.dir, stays, ""
	return errors.Join(registry.Discard(filepath.Join(t.dir, brainFolder)), c.write())
}
