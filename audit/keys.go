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
	"syscall"
)

// The files that LoadKeys keeps, one line of hex each.
const (
	signingKeyFile = "audit.key"
	macKeyFile     = "audit.mac"
	// PublicKeyFile is for those who verify: hand it to them.
	PublicKeyFile = "audit.pub"
)

// keyBytes is the length of each secret.
const keyBytes = 32

// Keys sign heads and authenticate records. The zero value is refused, and
// nothing prints the secrets.
type Keys struct {
	signing ed25519.PrivateKey
	mac     []byte
}

// NewKeys makes keys of a 32-byte Ed25519 seed and a 32-byte MAC key.
func NewKeys(seed, mac []byte) (Keys, error) {
	if len(seed) != ed25519.SeedSize || len(mac) != keyBytes {
		return Keys{}, fmt.Errorf("audit keys of %d and %d bytes: both must have %d", len(seed), len(mac), keyBytes)
	}
	return Keys{signing: ed25519.NewKeyFromSeed(seed), mac: bytes.Clone(mac)}, nil
}

// Public is the key with which anyone verifies; nil for the zero Keys.
func (k Keys) Public() ed25519.PublicKey {
	if len(k.signing) == 0 {
		return nil
	}
	return k.signing.Public().(ed25519.PublicKey)
}

// MAC is the secret key of the MACs, for a verification with [VerifyOptions].MACKey.
func (k Keys) MAC() []byte { return bytes.Clone(k.mac) }

// String does not print the keys.
func (Keys) String() string { return "[audit keys]" }

// GoString does not print the keys either.
func (Keys) GoString() string { return "[audit keys]" }

func (k Keys) check() error {
	if len(k.signing) != ed25519.PrivateKeySize || len(k.mac) != keyBytes {
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
	mac, err := loadSecret(filepath.Join(dir, macKeyFile))
	if err != nil {
		return Keys{}, err
	}
	seed, err := loadSecret(filepath.Join(dir, signingKeyFile))
	if err != nil {
		return Keys{}, err
	}
	keys, err := NewKeys(seed, mac)
	if err != nil {
		return Keys{}, err
	}
	return keys, publish(filepath.Join(dir, PublicKeyFile), keys.Public())
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

func loadSecret(path string) ([]byte, error) {
	secret, err := readSecret(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return secret, err
	}
	fresh := make([]byte, keyBytes)
	_, _ = rand.Read(fresh) // never fails
	if err := createOnce(path, []byte(hex.EncodeToString(fresh)+"\n"), 0o600); err != nil {
		return nil, err
	}
	return readSecret(path)
}

func readSecret(path string) ([]byte, error) {
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

// readHex reads one line of 64 hex digits.
func readHex(r io.Reader, path string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, 2*keyBytes+2))
	if err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(string(bytes.TrimSuffix(data, []byte("\n"))))
	if err != nil || len(key) != keyBytes {
		return nil, fmt.Errorf("%s is not one line of %d hex digits: restore it from a backup", path, 2*keyBytes)
	}
	return key, nil
}

// createOnce makes a file that is whole from the moment it is there; whoever
// comes second keeps the first one's.
func createOnce(path string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Link(f.Name(), path)
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	return errors.Join(err, os.Remove(f.Name()), syncDir(filepath.Dir(path)))
}

func publish(path string, public ed25519.PublicKey) error {
	if err := createOnce(path, []byte(hex.EncodeToString(public)+"\n"), 0o644); err != nil {
		return err
	}
	have, err := ReadPublicKey(path)
	if err == nil && !have.Equal(public) {
		err = fmt.Errorf("%s does not belong to %s: restore both from one backup", path, signingKeyFile)
	}
	return err
}

// ReadPublicKey reads the file that LoadKeys leaves for verifiers.
func ReadPublicKey(path string) (ed25519.PublicKey, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	return readHex(f, path)
}

// ParsePublicKey accepts 64 hex digits.
func ParsePublicKey(s string) (ed25519.PublicKey, error) {
	return readHex(bytes.NewReader([]byte(s)), "public key")
}
