// Package passkey keeps the public halves of the passkeys with which persons sign in to the web
// page. A key that is kept says nothing about who may decide: its identity is somebody's only
// while [person.Directory] says so.
package passkey

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/person"
)

const (
	// fileName is the file of all keys, in the state folder.
	fileName = "passkeys.json"
	lockName = ".passkeys.lock"
	// MaxKeys is how many keys are kept.
	MaxKeys = 200
	// maxFile is the largest file of them, in bytes.
	maxFile = 2 << 20
	// maxName is the longest name of a key, in bytes.
	maxName = 64
)

// The reasons for which a key is not kept, or signs nobody in.
var (
	// ErrUnknown is for a key that is not kept, or was removed.
	ErrUnknown = errors.New("this passkey is not known here, or was removed")
	// ErrCopied is for a key whose counter stood still or went back: two authenticators have it.
	ErrCopied = errors.New("this passkey may have been copied, because its counter went back, so it signs nobody in any more: remove it, and add another one")
)

// Key is the public half of a passkey.
type Key struct {
	// ID is the credential's, which its authenticator gave and never changes. At most 1023 bytes.
	ID []byte `json:"id"`
	// PublicKey is in COSE form.
	PublicKey []byte `json:"public_key"`
	// Handle is what the authenticator knows its owner by, and Site for which host it is.
	Handle []byte `json:"handle"`
	Site   string `json:"site"`
	// Count is the highest counter that the authenticator has shown; 0 where it has none.
	Count uint32 `json:"count"`
	// Synced says that it may be on several devices of its owner. It never changes.
	Synced bool `json:"synced"`
	// Copied says that the counter went back once.
	Copied bool `json:"copied,omitempty"`
	// Name is what its owner calls it.
	Name  string    `json:"name"`
	Since time.Time `json:"since"`
	Used  time.Time `json:"used,omitzero"`
}

// Identity is whoever signs in with the key.
func (k Key) Identity() person.Identity { return person.OfPasskey(k.ID, k.PublicKey) }

// Store is where the keys of an installation are, in its state folder.
type Store struct{ State string }

// All are the keys that are kept, in the order in which they were added.
func (s Store) All() ([]Key, error) {
	path := filepath.Join(s.State, fileName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s: %d bytes, at most %d", path, len(data), maxFile)
	}
	var keys []Key
	if err == nil {
		err = json.Unmarshal(data, &keys)
	}
	if err != nil {
		return nil, fmt.Errorf("the passkeys cannot be read, so they sign nobody in: %w", err)
	}
	return keys, nil
}

// Find is the key of an identity that signs its owner in.
func (s Store) Find(id person.Identity) (Key, error) {
	keys, err := s.All()
	if err != nil {
		return Key{}, err
	}
	at := slices.IndexFunc(keys, func(k Key) bool { return k.Identity() == id })
	switch {
	case at < 0:
		return Key{}, ErrUnknown
	case keys[at].Copied:
		return Key{}, ErrCopied
	}
	return keys[at], nil
}

// Add keeps a new key.
func (s Store) Add(ctx context.Context, key Key) error {
	if key.Name == "" || len(key.Name) > maxName {
		return fmt.Errorf("a passkey has a name of 1 to %d bytes, by which its owner knows it", maxName)
	}
	return s.change(ctx, func(keys []Key) ([]Key, error) {
		if slices.ContainsFunc(keys, func(k Key) bool { return bytes.Equal(k.ID, key.ID) }) {
			return nil, errors.New("this passkey is there already")
		}
		if len(keys) >= MaxKeys {
			return nil, fmt.Errorf("there are %d passkeys already: remove some first", len(keys))
		}
		return append(keys, key), nil
	})
}

// Remove forgets the key of an identity.
func (s Store) Remove(ctx context.Context, id person.Identity) error {
	return s.change(ctx, func(keys []Key) ([]Key, error) {
		left := slices.DeleteFunc(slices.Clone(keys), func(k Key) bool { return k.Identity() == id })
		if len(left) == len(keys) {
			return nil, ErrUnknown
		}
		return left, nil
	})
}

// Use takes the counter of a sign-in. Two processes that sign in with the same count are told
// apart here: the second one is refused, as is one whose counter went back, and the key with it.
func (s Store) Use(ctx context.Context, id person.Identity, count uint32, now time.Time) error {
	copied := false
	err := s.change(ctx, func(keys []Key) ([]Key, error) {
		for i, k := range keys {
			if k.Identity() != id {
				continue
			}
			keys[i].Copied = k.Copied || count <= k.Count && (count != 0 || k.Count != 0)
			if copied = keys[i].Copied; !copied {
				keys[i].Count, keys[i].Used = count, now
			}
			return keys, nil
		}
		return nil, ErrUnknown
	})
	if err == nil && copied {
		return ErrCopied
	}
	return err
}

// change replaces the keys while nobody else does. What cannot be read is left as it is.
func (s Store) change(ctx context.Context, change func([]Key) ([]Key, error)) (err error) {
	lock, err := disk.TakeLock(ctx, filepath.Join(s.State, lockName))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	keys, err := s.All()
	if err != nil {
		return err
	}
	if keys, err = change(keys); err != nil {
		return err
	}
	data, err := json.Marshal(keys)
	if err != nil {
		return err
	}
	return disk.Write(filepath.Join(s.State, fileName), data, 0o600)
}
