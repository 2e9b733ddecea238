package revocation

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/token"
)

const (
	keyFile     = "token.keys"
	keyLockFile = "token.keys.lock"
	keyFormat   = "nacre.token-keys.1"

	secretBytes = 32
	keyIDBytes  = 8
	// maxKeyFile and maxPrevious bound what is read and kept.
	maxKeyFile  = 64 << 10
	maxPrevious = 15
)

// Keys are what tokens are signed and verified with. Nothing prints them.
type Keys struct {
	// Current signs.
	Current token.Key
	// Previous verify until their end.
	Previous []token.Key
}

// String does not print the secrets.
func (Keys) String() string { return "[token keys]" }

// GoString does not print the secrets either.
func (Keys) GoString() string { return "[token keys]" }

// keyLine is one key in the file; the first line is the current one's.
type keyLine struct {
	ID     string    `json:"id"`
	Secret string    `json:"secret"`
	Until  time.Time `json:"until,omitzero"`
}

// LoadKeys reads the keys in dir, and makes the first one where there is no file yet. Two processes
// that start at once get the same one. A file that others may read, that is a link, or that was
// changed or cut off is refused: no process makes up a key of its own.
func LoadKeys(dir string) (Keys, error) {
	if err := privateDir(dir); err != nil {
		return Keys{}, err
	}
	path := filepath.Join(dir, keyFile)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if err := disk.Create(path, Keys{Current: newKey()}.encode(), 0o600); err != nil {
			return Keys{}, err
		}
	}
	data, err := readPrivate(path, maxKeyFile)
	if err != nil {
		return Keys{}, err
	}
	keys, err := decodeKeys(data)
	if err != nil {
		return Keys{}, fmt.Errorf("%s: %w: restore it from a backup, or move it away to end every token and start with a new key", path, err)
	}
	return keys, nil
}

// RotateKeys makes a new key the current one. The last one verifies until its
// end, which must outlast the tokens it signed, and keys whose end is over at
// now are dropped. Processes that run take the new keys when they load them again.
func RotateKeys(dir string, now, until time.Time) (Keys, error) {
	if !until.After(now) || until.Year() > lastYear {
		return Keys{}, fmt.Errorf("the last key's end, %v, is not after now", until)
	}
	if _, err := LoadKeys(dir); err != nil { // the first, where there is none
		return Keys{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	lock, err := takeLock(ctx, filepath.Join(dir, keyLockFile))
	if err != nil {
		return Keys{}, err
	}
	defer func() { _ = lock.Release() }() // what was written counts
	old, err := LoadKeys(dir)
	if err != nil {
		return Keys{}, err
	}
	keys := Keys{Current: newKey()}
	old.Current.Until = until.Round(0).UTC()
	for _, key := range append([]token.Key{old.Current}, old.Previous...) {
		if now.Before(key.Until) {
			keys.Previous = append(keys.Previous, key)
		}
	}
	if len(keys.Previous) > maxPrevious {
		return Keys{}, fmt.Errorf("%d keys still verify: wait until one of them has ended", len(keys.Previous))
	}
	return keys, disk.Write(filepath.Join(dir, keyFile), keys.encode(), 0o600)
}

func newKey() token.Key {
	var b [keyIDBytes + secretBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	return token.Key{ID: hex.EncodeToString(b[:keyIDBytes]), Secret: b[keyIDBytes:]}
}

func (k Keys) encode() []byte {
	var body []byte
	for _, key := range append([]token.Key{k.Current}, k.Previous...) {
		body = append(body, line(keyLine{key.ID, hex.EncodeToString(key.Secret), key.Until})...)
	}
	return seal(header{Format: keyFormat, Lines: 1 + len(k.Previous)}, body)
}

func decodeKeys(data []byte) (Keys, error) {
	_, lines, err := unseal(data, keyFormat)
	if err != nil {
		return Keys{}, err
	}
	var keys []token.Key
	for _, line := range lines {
		var l keyLine
		if err := strictly(line, &l); err != nil {
			return Keys{}, errors.New("a line is not a key") // err may quote a secret
		}
		secret, err := hex.DecodeString(l.Secret)
		if err != nil || len(secret) != secretBytes {
			return Keys{}, fmt.Errorf("key %.80q does not have %d bytes in hex", l.ID, secretBytes)
		}
		keys = append(keys, token.Key{ID: l.ID, Secret: secret, Until: l.Until})
	}
	if len(keys) == 0 {
		return Keys{}, errors.New("it has no key")
	}
	if _, err := token.NewRing(keys[0], keys[1:]...); err != nil {
		return Keys{}, err
	}
	return Keys{Current: keys[0], Previous: keys[1:]}, nil
}
