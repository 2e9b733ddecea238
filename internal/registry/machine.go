package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nacre-dev/nacre/internal/disk"
)

const (
	// maxName and maxHost bound a machine's name, and what of it is its host's.
	maxName, maxHost = 64, 40
	// idLength is how many letters at the end of a machine's name tell it from others.
	idLength = 16
)

// MachineFile holds what this machine is called by those that it shares a store with.
func (p Paths) MachineFile() string { return filepath.Join(p.Keys(), "machine") }

// MachineName is what this machine is called: its host's name and the digest of the public key of its
// chains. It is drawn up once, so that it stays when the key is rotated.
func MachineName(p Paths, key []byte) (string, error) {
	for range 2 {
		text, err := disk.Read(p.MachineFile(), maxName+1)
		if err == nil {
			return strings.TrimSpace(string(text)), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		host, _ := os.Hostname() // it is for people to read
		sum := sha256.Sum256(key)
		if err := disk.Create(p.MachineFile(), []byte(plain(host)+"-"+hex.EncodeToString(sum[:])[:idLength]+"\n"), 0o600); err != nil {
			return "", err
		}
	}
	return "", fs.ErrNotExist
}

// MachineID is what tells a machine of that name from all others.
func MachineID(name string) string { return name[max(0, len(name)-idLength):] }

// plain is a host's name in the letters of a machine's.
func plain(host string) string {
	host, _, _ = strings.Cut(strings.ToLower(host), ".")
	host = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return -1
	}, host)
	if host = host[:min(len(host), maxHost)]; host == "" {
		return "machine"
	}
	return host
}
