package grant

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre/internal/revocation"
	"github.com/nacre-dev/nacre/internal/token"
	"github.com/nacre-dev/nacre/kernel"
)

// MinKey is the shortest secret of a key, in bytes.
const MinKey = token.MinKey

// LoadKeys reads the keys in the folder dir, and makes the first key where there is none yet.
// Processes that start at once get the same one. dir, and the file in it, must be the user's alone.
// A file that is damaged, a link, or readable to others is an error, never a reason for another key
// (K-10).
func LoadKeys(dir string) (kernel.Keys, error) {
	loaded, err := revocation.LoadKeys(dir)
	return keysOf(loaded), err
}

// RotateKeys makes a new key in dir the current one. The last one verifies until
// its end, which has to outlast the tokens it signed (kernel.MaxGrantTTL), and keys
// whose end is over at now are dropped. A kernel that runs takes them with
// kernel.ChangeKeys. An error means that nothing has changed.
func RotateKeys(dir string, now, until time.Time) (kernel.Keys, error) {
	rotated, err := revocation.RotateKeys(dir, now, until)
	return keysOf(rotated), err
}

func keysOf(k revocation.Keys) kernel.Keys {
	keys := kernel.Keys{Current: kernel.Key{ID: k.Current.ID, Secret: k.Current.Secret}}
	for _, key := range k.Previous {
		keys.Retired = append(keys.Retired, kernel.Key(key))
	}
	return keys
}

// ParseKey reads the secret of a key as an operator hands it over, such as in a variable of the
// environment. It is hexadecimal or base64, of at least MinKey bytes, and white space around it
// does not count. An error never shows the text.
func ParseKey(text string) ([]byte, error) {
	text = strings.TrimSpace(text)
	for _, decode := range []func(string) ([]byte, error){
		hex.DecodeString, base64.StdEncoding.Strict().DecodeString, base64.RawStdEncoding.Strict().DecodeString,
		base64.URLEncoding.Strict().DecodeString, base64.RawURLEncoding.Strict().DecodeString,
	} {
		secret, err := decode(text)
		switch {
		case err != nil:
			continue
		case len(secret) < MinKey:
			return nil, fmt.Errorf("key of %d bytes: use at least %d random bytes", len(secret), MinKey)
		case len(slices.Compact(slices.Sorted(slices.Values(secret)))) == 1:
			return nil, errors.New("the key is one byte again and again: use random bytes")
		}
		return secret, nil
	}
	return nil, errors.New("the key is neither hexadecimal nor base64")
}
