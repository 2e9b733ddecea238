package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// worked has a file for each folder that was an agent's project, named by the digest of its path.
func worked(p Paths, project string) string {
	digest := sha256.Sum256([]byte(project))
	return filepath.Join(p.State, "worked", hex.EncodeToString(digest[:16]))
}

// Work remembers that an agent works on a project, before it begins: what lies there may be an agent's
// from now on.
func Work(p Paths, project string) error {
	mark := worked(p, project)
	if _, err := os.Lstat(mark); project == "" || err == nil {
		return nil
	}
	if err := os.Mkdir(filepath.Dir(mark), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.WriteFile(mark, nil, 0o600)
}

// WorkedIn is the folder nearest above a path, or the path itself, that was an agent's project; "" is none.
func WorkedIn(p Paths, path string) string {
	for at := path; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(worked(p, at)); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}
