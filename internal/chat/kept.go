package chat

import (
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"os"
	"strings"
	"sync"
)

// Limits of what is kept.
const (
	maxKept     = 2000 // entries, beyond which the oldest go
	maxKeptFile = 1 << 20
)

// Kept is what a channel remembers over restarts: which conversation a message belongs to,
// and which message shows how one goes. It is safe for concurrent use.
type Kept struct {
	path string

	mu      sync.Mutex
	entries []entry
	index   map[string]string
}

type entry struct{ Key, Value string }

func openKept(path string) (*Kept, error) {
	k := &Kept{path: path}
	return k, k.Load()
}

// Load reads the file. One that holds something else is begun anew: nothing that was
// written to the chats depends on it.
func (k *Kept) Load() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.entries, k.index = nil, map[string]string{}
	info, err := os.Stat(k.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() > maxKeptFile {
		return nil
	}
	data, err := os.ReadFile(k.path)
	if err != nil {
		return err
	}
	if json.Unmarshal(data, &k.entries) != nil {
		k.entries = nil
	}
	for _, e := range k.entries {
		k.index[e.Key] = e.Value
	}
	return nil
}

// Get is what was kept under a key; empty for nothing.
func (k *Kept) Get(key string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.index[key]
}

// Newest are the entries whose keys begin with a prefix, at most so many of those that were
// kept last, the newest first.
func (k *Kept) Newest(prefix string, most int) iter.Seq2[string, string] {
	k.mu.Lock()
	defer k.mu.Unlock()
	var list []entry
	for i := len(k.entries) - 1; i >= 0 && len(list) < most; i-- {
		if strings.HasPrefix(k.entries[i].Key, prefix) {
			list = append(list, k.entries[i])
		}
	}
	return func(yield func(string, string) bool) {
		for _, e := range list {
			if !yield(e.Key, e.Value) {
				return
			}
		}
	}
}

// set keeps a value; an empty one is forgotten.
func (k *Kept) set(key, value string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.index[key] == value {
		return nil
	}
	left := k.entries[:0:0]
	for _, e := range k.entries {
		if e.Key != key {
			left = append(left, e)
		}
	}
	delete(k.index, key)
	if value != "" {
		left, k.index[key] = append(left, entry{key, value}), value
	}
	for ; len(left) > maxKept; left = left[1:] {
		delete(k.index, left[0].Key)
	}
	k.entries = left
	data, err := json.Marshal(left)
	if err != nil {
		return err
	}
	if err := os.WriteFile(k.path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(k.path+".new", k.path)
}

// Remember keeps a value, or forgets it where it is empty. That it could not be kept loses a
// thread, and no message.
func (k *Kept) Remember(key, value string) {
	if err := k.set(key, value); err != nil {
		Note("keep what belongs together: %v", err)
	}
}
