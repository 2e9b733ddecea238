package passkey_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/passkey"
)

func key(n int) passkey.Key {
	return passkey.Key{ID: fmt.Appendf(nil, "id-%d", n), PublicKey: []byte("key"), Name: "phone", Count: 4}
}

// M-46: an identity is a credential with its public key, and no other one's.
func TestAnIdentityNamesTheKeyItself(t *testing.T) {
	t.Parallel()
	one := key(1)
	swapped, shifted := one, one
	swapped.PublicKey = []byte("another key")
	shifted.ID, shifted.PublicKey = []byte("id-1k"), []byte("ey")
	for name, other := range map[string]passkey.Key{"another public key": swapped, "the bytes of both": shifted, "another credential": key(2)} {
		if other.Identity() == one.Identity() {
			t.Errorf("%s is the same person", name)
		}
	}
}

// M-46: a counter that stands still or goes back locks a passkey for good. One that counts nothing
// is taken as often as it comes.
func TestACopiedPasskeySignsNobodyIn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first uint32
		shown []uint32
		want  error
	}{
		"it counts":           {4, []uint32{5, 6, 90}, nil},
		"it stands still":     {4, []uint32{5, 5}, passkey.ErrCopied},
		"it goes back":        {4, []uint32{3}, passkey.ErrCopied},
		"it stops to count":   {4, []uint32{0}, passkey.ErrCopied},
		"it never counts":     {0, []uint32{0, 0, 0}, nil},
		"it counts at last":   {0, []uint32{0, 1, 2}, nil},
		"it was copied once":  {4, []uint32{3, 50}, passkey.ErrCopied},
		"it is used no more":  {4, nil, nil},
		"both of two sign in": {4, []uint32{9, 7}, passkey.ErrCopied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, k := passkey.Store{State: t.TempDir()}, key(1)
			k.Count = c.first
			if err := store.Add(t.Context(), k); err != nil {
				t.Fatal(err)
			}
			var err error
			for _, count := range c.shown {
				err = store.Use(t.Context(), k.Identity(), count, time.Unix(1, 0))
			}
			if !errors.Is(err, c.want) {
				t.Errorf("have %v, want %v", err, c.want)
			}
			if _, err := store.Find(k.Identity()); !errors.Is(err, c.want) {
				t.Errorf("it is found with %v, want %v", err, c.want)
			}
		})
	}
}

func TestKeysAreKeptOnce(t *testing.T) {
	t.Parallel()
	store := passkey.Store{State: t.TempDir()}
	if err := store.Add(t.Context(), key(1)); err != nil {
		t.Fatal(err)
	}
	again, nameless, long := key(1), key(2), key(3)
	again.PublicKey = []byte("another")
	nameless.Name, long.Name = "", strings.Repeat("x", 65)
	for _, k := range []passkey.Key{again, nameless, long} {
		if err := store.Add(t.Context(), k); err == nil {
			t.Errorf("%+v is kept", k)
		}
	}
	if err := store.Remove(t.Context(), key(2).Identity()); !errors.Is(err, passkey.ErrUnknown) {
		t.Errorf("have %v", err)
	}
	if err := store.Remove(t.Context(), key(1).Identity()); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Find(key(1).Identity()); !errors.Is(err, passkey.ErrUnknown) {
		t.Errorf("what was removed is found: %v", err)
	}
	if err := os.WriteFile(filepath.Join(store.State, "passkeys.json"), []byte("["), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := store.Add(t.Context(), key(4)); err == nil {
		t.Error("what cannot be read is written over")
	}
}
