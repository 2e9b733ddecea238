package audit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/nacre-dev/nacre/internal/disk"
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

// keyBytes is the length of each secret.
const keyBytes = 32

// Keys sign heads and authenticate records. The zero value is refused, and
// nothing prints the secrets.
type Keys struct {
	signing ed25519.PrivateKey
	macs    [][]byte            // the one in use first, then retired ones
	retired []ed25519.PublicKey // of earlier signing keys, the newest first
}

// NewKeys makes keys of a 32-byte Ed25519 seed and a 32-byte MAC key.
func NewKeys(seed, mac []byte) (Keys, error) {
	if len(seed) != ed25519.SeedSize || len(mac) != keyBytes {
		return Keys{}, fmt.Errorf("audit keys of %d and %d bytes: both must have %d", len(seed), len(mac), keyBytes)
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

// MAC is the secret key of the MACs and then the retired ones, 32 bytes each,
// for a verification with [VerifyOptions].MACKey.
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
	if err := privateDir(dir); err != nil {
		return Keys{}, err
	}
	// The order matters: a file is made only when those before it are there,
	// so a missing earlier file was removed, not interrupted.
	if err := refuseLoss(dir); err != nil {
		return Keys{}, err
	}
	if _, err := os.Lstat(filepath.Join(dir, nextKeysFile)); err == nil {
		return Keys{}, fmt.Errorf("%s: a rotation of the keys was interrupted: run nacre audit rotate-key to finish it", filepath.Join(dir, nextKeysFile))
	}
	macs, err := loadSecret(filepath.Join(dir, macKeyFile))
	if err != nil {
		return Keys{}, err
	}
	seed, err := loadSecret(filepath.Join(dir, signingKeyFile))
	if err != nil {
		return Keys{}, err
	}
	keys := Keys{signing: ed25519.NewKeyFromSeed(seed[0]), macs: macs}
	if len(seed) != 1 {
		return Keys{}, fmt.Errorf("%s holds more than one key: restore it from a backup", signingKeyFile)
	}
	keys.retired, err = publish(filepath.Join(dir, PublicKeyFile), keys.Public())
	return keys, err
}

func refuseLoss(dir string) error {
	for _, pair := range [][2]string{{PublicKeyFile, signingKeyFile}, {signingKeyFile, macKeyFile}} {
		_, err := os.Lstat(filepath.Join(dir, pair[0]))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if _, err := os.Lstat(filepath.Join(dir, pair[1])); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is here but %s is gone: restore it from a backup, or move the whole folder %s away to start with new keys",
				pair[0], pair[1], dir)
		}
	}
	return nil
}

// privateDir makes dir for its owner alone, or refuses one that is not.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder", dir)
	}
	return private(dir, info)
}

func private(path string, info fs.FileInfo) error {
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s can be used by others (mode %04o): run chmod go= %s", path, info.Mode().Perm(), path)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, not to you (%d): use a folder of your own", path, stat.Uid, os.Geteuid())
	}
	return nil
}

func loadSecret(path string) ([][]byte, error) {
	secret, err := readSecret(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return secret, err
	}
	fresh := make([]byte, keyBytes)
	_, _ = rand.Read(fresh) // never fails
	if err := disk.Create(path, []byte(hex.EncodeToString(fresh)+"\n"), 0o600); err != nil {
		return nil, err
	}
	return readSecret(path)
}

func readSecret(path string) ([][]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file: move it away", path)
	}
	if err := private(path, info); err != nil {
		return nil, err
	}
	return readHex(f, path)
}

// readHex reads lines of 64 hex digits: a key in use, and then retired ones.
func readHex(r io.Reader, path string) ([][]byte, error) {
	const line = 2*keyBytes + 1
	data, err := io.ReadAll(io.LimitReader(r, maxKeys*line+1))
	if err != nil {
		return nil, err
	}
	var keys [][]byte
	for text := range bytes.SplitSeq(bytes.TrimSuffix(data, []byte("\n")), []byte("\n")) {
		key, err := hex.DecodeString(string(text))
		if err != nil || len(key) != keyBytes || len(keys) == maxKeys {
			return nil, fmt.Errorf("%s is not a line of %d hex digits for each key: restore it from a backup", path, 2*keyBytes)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// publish leaves the public key for verifiers, and returns the retired ones that stand behind it.
func publish(path string, public ed25519.PublicKey) ([]ed25519.PublicKey, error) {
	have, err := readPublicKeys(path)
	if isMissing(err) {
		if err := disk.Create(path, []byte(hex.EncodeToString(public)+"\n"), 0o644); err != nil {
			return nil, err
		}
		have, err = readPublicKeys(path)
	}
	if err != nil {
		return nil, err
	}
	if !have[0].Equal(public) {
		return nil, fmt.Errorf("%s does not belong to %s: restore both from one backup", path, signingKeyFile)
	}
	return have[1:], nil
}

// ReadPublicKey reads the file that LoadKeys leaves for verifiers: the key in
// use, which is its first line.
func ReadPublicKey(path string) (ed25519.PublicKey, error) {
	keys, err := readPublicKeys(path)
	if err != nil {
		return nil, err
	}
	return keys[0], nil
}

func readPublicKeys(path string) ([]ed25519.PublicKey, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	raw, err := readHex(f, path)
	keys := make([]ed25519.PublicKey, len(raw))
	for i := range raw {
		keys[i] = raw[i]
	}
	return keys, err
}

// ParsePublicKey accepts 64 hex digits.
func ParsePublicKey(s string) (ed25519.PublicKey, error) {
	keys, err := readHex(strings.NewReader(s), "public key")
	if err != nil {
		return nil, err
	}
	if len(keys) != 1 {
		return nil, errors.New("public key: give one")
	}
	return keys[0], nil
}
