package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre/internal/chat"
	"github.com/nacre-dev/nacre/internal/disk"
)

const (
	heldName = "held.json"
	// Limits of what is held: more messages than that stay at Telegram.
	maxHeld      = 5_000
	maxHeldBytes = 16 << 20
)

// readHeld gives the messages that a process before this one held.
func readHeld(dir string) (held []update) {
	path := filepath.Join(dir, heldName)
	info, err := os.Stat(path)
	if err != nil || info.Size() > 2*maxHeldBytes {
		return nil // there are none, or it is not ours
	}
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &held)
	}
	if err != nil {
		chat.Note("the messages that wait cannot be read: %v", err)
	}
	return held
}

// hold keeps messages that the host does not take now, before they are confirmed to Telegram. It is
// false where that cannot be, and then they have to be brought again.
func (h *handler) hold(updates []update) bool {
	held := h.held
	for _, u := range updates {
		if u.Message != nil && !u.Message.commands() {
			held = append(held, u)
		}
	}
	if len(held) > maxHeld {
		return false
	}
	return h.writeHeld(held)
}

func (h *handler) writeHeld(held []update) bool {
	data, err := json.Marshal(held)
	if err == nil && len(data) > maxHeldBytes {
		return false
	}
	if err == nil {
		err = disk.Write(filepath.Join(h.setup.DataDir, heldName), data, 0o600)
	}
	if err != nil {
		chat.Note("messages cannot be held: %v", err)
		return false
	}
	h.held = held
	return true
}

// takeHeld brings the messages that are held to the host, in their order. With an error the first
// that is left was not taken.
func (h *handler) takeHeld(ctx context.Context) (err error) {
	left := h.held
	for len(left) > 0 && err == nil {
		if err = h.take(ctx, left[0]); err == nil {
			left = left[1:]
		}
	}
	if len(left) < len(h.held) && !h.writeHeld(left) {
		h.held = left // a process after this one brings them once more, and the host knows them
	}
	return err
}
