package audit

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nacre-dev/nacre/audit/internal/keyfile"
	"github.com/nacre-dev/nacre/internal/disk"
)

// RotateKeys replaces the signing key and the MAC key in dir, the folder of [LoadKeys]. The old
// signing key introduces the new one by a signed record in the index of root, so that whoever
// trusts either verifies everything. The old key counts for what it signed until then, and the new
// one from there on. Retired public keys stand behind the new one in the file [PublicKeyFile], and
// retired MAC keys behind the new one in theirs. The old signing key is gone.
//
// It refuses while a chain has a writer. When it was interrupted, LoadKeys
// refuses until RotateKeys was called again, which goes on with the same keys.
func RotateKeys(ctx context.Context, root, dir string, now func() time.Time) (Keys, error) {
	if now == nil {
		return Keys{}, errors.New("rotate keys: give a clock")
	}
	if err := keyfile.PrivateDir(dir); err != nil {
		return Keys{}, err
	}
	lock, err := takeLock(ctx, dir, writerWait)
	if err != nil {
		return Keys{}, err
	}
	keys, err := rotateKeys(ctx, root, dir, now)
	return keys, errors.Join(err, lock.Release())
}

func rotateKeys(ctx context.Context, root, dir string, now func() time.Time) (Keys, error) {
	path := filepath.Join(dir, nextKeysFile)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if err := makeNext(dir, path); err != nil {
			return Keys{}, err
		}
	}
	secrets, err := keyfile.ReadSecret(path)
	if err != nil {
		return Keys{}, err
	}
	if len(secrets) != 2 {
		return Keys{}, fmt.Errorf("%s is not the two keys to come: remove it if no rotation was interrupted", path)
	}
	next, err := NewKeys(secrets[0], secrets[1])
	if err != nil {
		return Keys{}, err
	}
	old, done, err := loadBeside(dir, next)
	if err != nil {
		return Keys{}, err
	}
	if !done {
		if err := introduce(ctx, root, old, next, now()); err != nil {
			return Keys{}, err
		}
		if err := swapKeys(dir, old, next); err != nil {
			return Keys{}, err
		}
	}
	if err := errors.Join(os.Remove(path), disk.SyncDir(dir)); err != nil {
		return Keys{}, err
	}
	return LoadKeys(dir)
}

// makeNext makes the keys to come, where those in use are whole.
func makeNext(dir, path string) error {
	old, err := LoadKeys(dir)
	if err != nil {
		return err
	}
	if len(old.macs) >= keyfile.Most || len(old.retired) >= keyfile.Most-1 {
		return fmt.Errorf("there were %d keys already, the most there can be", keyfile.Most)
	}
	fresh := make([]byte, 2*keyfile.Size)
	_, _ = rand.Read(fresh) // never fails
	return disk.Create(path, keyfile.Lines(fresh[:keyfile.Size], fresh[keyfile.Size:]), 0o600)
}

// loadBeside reads the keys in use, whichever of their files were replaced
// already; done says that all were.
func loadBeside(dir string, next Keys) (old Keys, done bool, err error) {
	seed, err := keyfile.ReadSecret(filepath.Join(dir, signingKeyFile))
	if err != nil {
		return Keys{}, false, err
	}
	if bytes.Equal(seed[0], next.signing.Seed()) {
		return Keys{}, true, nil
	}
	old.signing = ed25519.NewKeyFromSeed(seed[0])
	if old.macs, err = keyfile.ReadSecret(filepath.Join(dir, macKeyFile)); err != nil {
		return Keys{}, false, err
	}
	if bytes.Equal(old.macs[0], next.macs[0]) {
		old.macs = old.macs[1:]
	}
	public, err := keyfile.ReadPublic(filepath.Join(dir, PublicKeyFile))
	if err != nil {
		return Keys{}, false, err
	}
	if public[0].Equal(next.Public()) {
		public = public[1:]
	}
	if len(public) == 0 || !public[0].Equal(old.Public()) || len(old.macs) == 0 {
		return Keys{}, false, fmt.Errorf("the keys in %s do not belong together: restore them from one backup", dir)
	}
	old.retired = public[1:]
	return old, false, nil
}

// introduce writes the key.rotate record, if it is not there yet.
func introduce(ctx context.Context, root string, old, next Keys, now time.Time) (err error) {
	dir := filepath.Join(root, IndexChain)
	if _, err := os.Lstat(dir); isMissing(err) {
		return nil // nothing was ever signed with the old key
	}
	lock, err := takeLock(ctx, dir, indexWait)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if err := refuseWriters(root); err != nil {
		return err
	}
	t, err := openTail(&segmented{dir: dir, chain: IndexChain}, old)
	if err != nil {
		return err
	}
	return errors.Join(t.introduce(old, next, now), t.close())
}

func (t *tail) introduce(old, next Keys, now time.Time) error {
	if t.seal.next == 0 {
		return nil
	}
	if t.rotated == hex.EncodeToString(next.Public()) {
		return t.writeHead(t.seal.next-1, t.seal.prev, HeadOpen, now)
	}
	r, err := rotationRecord(t.genesis, old, next, now)
	if err != nil {
		return err
	}
	return t.enter(r.Time, r)
}

// refuseWriters refuses while a chain is being written: its writer could not
// close it with the old key.
func refuseWriters(root string) error {
	names, err := namesBeside(root)
	if err != nil {
		return err
	}
	for _, name := range names {
		if hasWriter(filepath.Join(root, name)) {
			return fmt.Errorf("%w: end %s first, then rotate the keys", ErrLocked, name)
		}
	}
	return nil
}

// swapKeys replaces the files one by one, the signing key last.
func swapKeys(dir string, old, next Keys) error {
	public := [][]byte{next.Public(), old.Public()}
	for _, key := range old.retired {
		public = append(public, key)
	}
	for _, file := range []struct {
		name string
		data []byte
		mode fs.FileMode
	}{
		{macKeyFile, keyfile.Lines(append([][]byte{next.macs[0]}, old.macs...)...), 0o600},
		{PublicKeyFile, keyfile.Lines(public...), 0o644},
		{signingKeyFile, keyfile.Lines(next.signing.Seed()), 0o600},
	} {
		path := filepath.Join(dir, file.name)
		if err := disk.Replace(path, file.data, nil); err != nil {
			return err
		}
		if err := errors.Join(os.Chmod(path, file.mode), disk.SyncDir(dir)); err != nil {
			return err
		}
	}
	return nil
}
