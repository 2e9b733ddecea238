package revocation_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/revocation"
	"github.com/nacre-dev/nacre/internal/token"
)

func load(t testing.TB, dir string) revocation.Keys {
	t.Helper()
	keys, err := revocation.LoadKeys(dir)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// K-10: one secret for the installation, made once, for its owner alone.
func TestTheKeyIsMadeOnceAndKept(t *testing.T) {
	dir := folder(t)
	var wait sync.WaitGroup
	var first [8]revocation.Keys
	for i := range first {
		wait.Go(func() { first[i], _ = revocation.LoadKeys(dir) })
	}
	wait.Wait()
	keys := load(t, dir)
	if len(keys.Current.Secret) != 32 || keys.Current.ID == "" || len(keys.Previous) != 0 {
		t.Fatalf("have a key of %d bytes", len(keys.Current.Secret))
	}
	for i := range first {
		if !bytes.Equal(first[i].Current.Secret, keys.Current.Secret) {
			t.Errorf("process %d has a key of its own", i)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "token.keys"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("have %v, %v, want mode 0600", info.Mode(), err)
	}
	if other := load(t, folder(t)); bytes.Equal(other.Current.Secret, keys.Current.Secret) || other.Current.ID == keys.Current.ID {
		t.Error("two installations have one key")
	}
	text := fmt.Sprintf("%v %+v %#v %v %#v", keys, keys, keys, keys.Current, keys.Previous)
	if strings.Contains(text, fmt.Sprintf("%x", keys.Current.Secret)) || strings.Contains(text, fmt.Sprintf("%d", keys.Current.Secret)) {
		t.Error("a secret is printed")
	}
}

// K-10: no process goes on with a key of its own when the file is not right.
func TestAKeyFileThatIsNotRightIsRefused(t *testing.T) {
	for name, damage := range map[string]func(path string, data []byte) error{
		"for others":   func(p string, _ []byte) error { return os.Chmod(p, 0o640) },
		"cut off":      func(p string, d []byte) error { return os.WriteFile(p, d[:len(d)-1], 0o600) },
		"empty":        func(p string, _ []byte) error { return os.Truncate(p, 0) },
		"without keys": func(p string, d []byte) error { return os.WriteFile(p, d[:bytes.IndexByte(d, '\n')+1], 0o600) },
		"one bit":      func(p string, d []byte) error { d[len(d)-9] ^= 1; return os.WriteFile(p, d, 0o600) },
		"a pipe":       func(p string, _ []byte) error { return errors.Join(os.Remove(p), syscall.Mkfifo(p, 0o600)) },
		"a folder":     func(p string, _ []byte) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o700)) },
		"a link": func(p string, _ []byte) error {
			return errors.Join(os.Rename(p, p+".real"), os.Symlink(p+".real", p))
		},
		"a link to nowhere": func(p string, _ []byte) error {
			return errors.Join(os.Remove(p), os.Symlink(p+".gone", p))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t)
			secret := fmt.Sprintf("%x", load(t, dir).Current.Secret)
			path := filepath.Join(dir, "token.keys")
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := damage(path, data); err != nil {
				t.Fatal(err)
			}
			_, err = revocation.LoadKeys(dir)
			if err == nil || strings.Contains(err.Error(), secret[:16]) {
				t.Errorf("load: have %v", err)
			}
			if _, err := revocation.RotateKeys(dir, now, now.Add(time.Hour)); err == nil {
				t.Error("it was rotated")
			}
		})
	}
}

// K-10: tokens of the last key verify until its end, and no longer.
func TestRotatedKeysVerifyUntilTheirEnd(t *testing.T) {
	dir := folder(t)
	keys := load(t, dir)
	ring, err := token.NewRing(keys.Current, keys.Previous...)
	if err != nil {
		t.Fatal(err)
	}
	alice := nacre.Principal{ID: "alice"}
	old, err := ring.Mint(nacre.Token{
		ID: "t-1", Principal: "alice", Capability: "notes.list", Authority: token.Authority(alice), Issued: now, Expires: now.Add(24 * time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	end := now.Add(time.Hour)
	rotated, err := revocation.RotateKeys(dir, now, end)
	if err != nil {
		t.Fatal(err)
	}
	if rotated.Current.ID == keys.Current.ID || len(rotated.Previous) != 1 || !rotated.Previous[0].Until.Equal(end) {
		t.Errorf("have %v, %d previous", rotated.Current, len(rotated.Previous))
	}
	loaded := load(t, dir)
	if err := ring.Rotate(loaded.Current, loaded.Previous...); err != nil {
		t.Fatal(err)
	}
	p := token.Presentation{
		Caller: "alice", Subject: token.SubjectOf(alice), Capability: "notes.list", Now: now, Revoked: new(token.RevocationList),
	}
	if _, err := ring.Verify(old, p); err != nil {
		t.Errorf("after the rotation: %v", err)
	}
	p.Now = end
	if _, have := ring.Verify(old, p); !errors.Is(have, token.ErrUnknownKey) {
		t.Errorf("at its end: have %v, want %v", have, token.ErrUnknownKey)
	}
	again, err := revocation.RotateKeys(dir, end, end.Add(time.Hour))
	if err != nil || len(again.Previous) != 1 || again.Previous[0].ID != rotated.Current.ID {
		t.Errorf("the key whose end is over is kept: %d previous, %v", len(again.Previous), err)
	}
	if _, err := revocation.RotateKeys(dir, end, end); err == nil {
		t.Error("a key was ended at once without a word")
	}
}

func TestKeysThatVerifyAreBounded(t *testing.T) {
	dir := folder(t)
	for i := range 15 {
		if _, err := revocation.RotateKeys(dir, now, now.Add(time.Hour)); err != nil {
			t.Fatalf("rotation %d: %v", i, err)
		}
	}
	before := load(t, dir)
	if _, err := revocation.RotateKeys(dir, now, now.Add(time.Hour)); err == nil {
		t.Error("one rotation too many")
	}
	if after := load(t, dir); after.Current.ID != before.Current.ID {
		t.Error("a rotation that was refused changed the keys")
	}
}
