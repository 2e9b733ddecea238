package audit

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/audit/internal/keyfile"
)

// The files that LoadKeys keeps, one line of hex each.
const (
	signingKeyFile = "audit.key"
	macKeyFile     = "audit.mac"
	// PublicKeyFile is for those who verify: hand it to them.
	PublicKeyFile = "audit.pub"
	// nextKeysFile holds the keys to come while they are being rotated.
	nextKeysFile = "audit.next"
)

// Keys sign heads and authenticate records. The zero value is refused, and nothing prints the secrets.
type Keys struct {
	signing ed25519.PrivateKey
	macs    [][]byte            // the one in use first, then retired ones
	retired []ed25519.PublicKey // of earlier signing keys, the newest first
}

// NewKeys makes keys of a 32-byte Ed25519 seed and a 32-byte MAC key.
func NewKeys(seed, mac []byte) (Keys, error) {
	if len(seed) != ed25519.SeedSize || len(mac) != keyfile.Size {
		return Keys{}, fmt.Errorf("audit keys of %d and %d bytes: both must have %d", len(seed), len(mac), keyfile.Size)
	}
	return Keys{signing: ed25519.NewKeyFromSeed(seed), macs: [][]byte{bytes.Clone(mac)}}, nil
}

// Public is the key with which anyone verifies; nil for the zero Keys.
func (k Keys) Public() ed25519.PublicKey {
	if len(k.signing) == 0 {
		return nil
	}
	return k.signing.Public().(ed25519.PublicKey)
}

// Sign signs a statement of the installation's, in a domain that is not one of this package's.
func (k Keys) Sign(domain string, statement []byte) []byte {
	return ed25519.Sign(k.signing, append([]byte(domain), statement...))
}

// MAC is the secret key of the MACs and then the retired ones, 32 bytes each, for a verification with [VerifyOptions].MACKey.
func (k Keys) MAC() []byte { return slices.Concat(k.macs...) }

// known are all keys whose heads a writer goes on from.
func (k Keys) known() ring { return ringOf(append([]ed25519.PublicKey{k.Public()}, k.retired...)...) }

// macName is the id of the MAC key in use, where there was one before it.
func (k Keys) macName() *Digest {
	if len(k.macs) < 2 {
		return nil
	}
	id := macID(k.macs[0])
	return &id
}

// String does not print the keys.
func (Keys) String() string { return "[audit keys]" }

// GoString does not print the keys either.
func (Keys) GoString() string { return "[audit keys]" }

func (k Keys) check() error {
	if len(k.signing) != ed25519.PrivateKeySize || len(k.macs) == 0 {
		return errors.New("audit keys are empty: load them with LoadKeys")
	}
	return nil
}

// LoadKeys reads the keys in dir, and makes them where there are none yet.
// Two processes that start at once get the same keys. Files that others could
// read, that belong to another user or have another length are refused, and so
// is a set of which a part is missing.
func LoadKeys(dir string) (Keys, error) {
	if err := keyfile.PrivateDir(dir); err != nil {
		return Keys{}, err
	}
	// The order matters: a file is made only when those before it are there, so a missing earlier file was removed, not interrupted.
	if err := keyfile.RefuseLoss(dir, PublicKeyFile, signingKeyFile, macKeyFile); err != nil {
		return Keys{}, err
	}
	if _, err := os.Lstat(filepath.Join(dir, nextKeysFile)); err == nil {
		return Keys{}, fmt.Errorf("%s: a rotation of the keys was interrupted: run nacre audit rotate-key to finish it", filepath.Join(dir, nextKeysFile))
	}
	macs, err := keyfile.LoadSecret(filepath.Join(dir, macKeyFile))
	if err != nil {
		return Keys{}, err
	}
	seed, err := keyfile.LoadSecret(filepath.Join(dir, signingKeyFile))
	if err != nil {
		return Keys{}, err
	}
	keys := Keys{signing: ed25519.NewKeyFromSeed(seed[0]), macs: macs}
	if len(seed) != 1 {
		return Keys{}, fmt.Errorf("%s holds more than one key: restore it from a backup", signingKeyFile)
	}
	keys.retired, err = keyfile.Publish(filepath.Join(dir, PublicKeyFile), keys.Public())
	return keys, err
}

// ReadPublicKey reads the file that LoadKeys leaves for verifiers: the key in use, which is its first line.
func ReadPublicKey(path string) (ed25519.PublicKey, error) {
	keys, err := keyfile.ReadPublic(path)
	if err != nil {
		return nil, err
	}
	return keys[0], nil
}

// ReadPublicKeys reads the same file: the key in use, and then retired ones.
func ReadPublicKeys(path string) ([]ed25519.PublicKey, error) { return keyfile.ReadPublic(path) }

// ParsePublicKey accepts 64 hex digits.
func ParsePublicKey(s string) (ed25519.PublicKey, error) {
	keys, err := keyfile.Parse(strings.NewReader(s), "public key")
	if err != nil {
		return nil, err
	}
	if len(keys) != 1 {
		return nil, errors.New("public key: give one")
	}
	return keys[0], nil
}
