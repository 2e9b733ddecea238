// Package keyfile promises that a secret key is read from a file of its owner's alone, and that a
// file says one thing. It holds keys of 32 bytes, a line of hex digits each, the one in use first.
package keyfile

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

	"github.com/nacre-dev/nacre/internal/disk"
)

const (
	// Size is the length of each key in bytes.
	Size = 32
	// Most is how many keys one file may hold: those that one installation may have had.
	Most = 64
)

// PrivateDir makes dir for its owner alone, or refuses one that is not.
func PrivateDir(dir string) error {
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
	return Private(dir, info)
}

// Private refuses what others can use, or what belongs to another user.
func Private(path string, info fs.FileInfo) error {
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s can be used by others (mode %04o): run chmod go= %s", path, info.Mode().Perm(), path)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, not to you (%d): use a folder of your own", path, stat.Uid, os.Geteuid())
	}
	return nil
}

// LoadSecret reads the keys in a file, and makes one with a fresh key where there is none. Two
// processes that do so at once get the same key.
func LoadSecret(path string) ([][]byte, error) {
	secret, err := ReadSecret(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return secret, err
	}
	fresh := make([]byte, Size)
	_, _ = rand.Read(fresh) // never fails
	if err := disk.Create(path, Lines(fresh), 0o600); err != nil {
		return nil, err
	}
	return ReadSecret(path)
}

// ReadSecret reads the keys in a file of its owner alone, which must be there.
func ReadSecret(path string) ([][]byte, error) {
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
	if err := Private(path, info); err != nil {
		return nil, err
	}
	return Parse(f, path)
}

// Parse reads lines of 64 hex digits: a key in use, and then retired ones.
func Parse(r io.Reader, path string) ([][]byte, error) {
	const line = 2*Size + 1
	data, err := io.ReadAll(io.LimitReader(r, Most*line+1))
	if err != nil {
		return nil, err
	}
	var keys [][]byte
	for text := range bytes.SplitSeq(bytes.TrimSuffix(data, []byte("\n")), []byte("\n")) {
		key, err := hex.DecodeString(string(text))
		if err != nil || len(key) != Size || len(keys) == Most {
			return nil, fmt.Errorf("%s is not a line of %d hex digits for each key: restore it from a backup", path, 2*Size)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// Read reads the keys in a file that anybody may read.
func Read(path string) ([][]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	return Parse(f, path)
}

// Lines is a file's text with these keys.
func Lines(keys ...[]byte) []byte {
	var text []byte
	for _, key := range keys {
		text = append(hex.AppendEncode(text, key), '\n')
	}
	return text
}

// ReadPublic reads the public keys in a file: the one in use, and then retired ones.
func ReadPublic(path string) ([]ed25519.PublicKey, error) {
	raw, err := Read(path)
	if err != nil {
		return nil, err
	}
	keys := make([]ed25519.PublicKey, len(raw))
	for i := range raw {
		keys[i] = raw[i]
	}
	return keys, nil
}

// Publish leaves the public key for verifiers, and returns the retired ones that stand behind it.
func Publish(path string, public ed25519.PublicKey) ([]ed25519.PublicKey, error) {
	have, err := ReadPublic(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := disk.Create(path, Lines(public), 0o644); err != nil {
			return nil, err
		}
		have, err = ReadPublic(path)
	}
	if err != nil {
		return nil, err
	}
	if !have[0].Equal(public) {
		return nil, fmt.Errorf("%s does not belong to the signing key beside it: restore both from one backup", path)
	}
	return have[1:], nil
}

// RefuseLoss refuses a folder in which a file is and the one after it, without which it was
// never made, is not.
func RefuseLoss(dir string, files ...string) error {
	for i, file := range files[:len(files)-1] {
		_, err := os.Lstat(filepath.Join(dir, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if _, err := os.Lstat(filepath.Join(dir, files[i+1])); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is here but %s is gone: restore it from a backup, or move the whole folder %s away to start with new keys",
				file, files[i+1], dir)
		}
	}
	return nil
}
