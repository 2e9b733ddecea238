package audit_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nacre-dev/nacre/audit"
)

func TestKeysAreMadeOnceAndKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "keys")
	var wg sync.WaitGroup
	made := make([]audit.Keys, 8)
	for i := range made {
		wg.Go(func() {
			var err error
			if made[i], err = audit.LoadKeys(dir); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, k := range made {
		if !k.Public().Equal(made[0].Public()) || string(k.MAC()) != string(made[0].MAC()) || len(k.MAC()) != 32 {
			t.Fatal("two starts at once got different keys")
		}
	}
	public, err := audit.ReadPublicKey(filepath.Join(dir, audit.PublicKeyFile))
	if err != nil || !public.Equal(made[0].Public()) {
		t.Errorf("audit.pub: have %x, %v", public, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("have %v, %v: something was left behind", entries, err)
	}
	for _, name := range []string{"audit.key", "audit.mac"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: have %v, %v", name, info.Mode(), err)
		}
	}
}

func TestKeysAreRefusedWithWhatToDo(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(t *testing.T, dir string) error
		want string
	}{
		"a folder for all": {func(_ *testing.T, dir string) error { return os.Chmod(dir, 0o750) }, "chmod go="},
		"a key for all":    {func(_ *testing.T, dir string) error { return os.Chmod(filepath.Join(dir, "audit.key"), 0o640) }, "chmod go="},
		"a short key": {func(_ *testing.T, dir string) error {
			return os.WriteFile(filepath.Join(dir, "audit.key"), []byte("00"), 0o600)
		}, "64 hex digits"},
		"a long key":         {func(_ *testing.T, dir string) error { return os.Truncate(filepath.Join(dir, "audit.mac"), 1<<20) }, "64 hex digits"},
		"an empty key":       {func(_ *testing.T, dir string) error { return os.Truncate(filepath.Join(dir, "audit.mac"), 0) }, "64 hex digits"},
		"a lost signing key": {func(_ *testing.T, dir string) error { return os.Remove(filepath.Join(dir, "audit.key")) }, "is gone"},
		"a lost MAC key":     {func(_ *testing.T, dir string) error { return os.Remove(filepath.Join(dir, "audit.mac")) }, "is gone"},
		"another public key": {func(_ *testing.T, dir string) error {
			return os.WriteFile(filepath.Join(dir, "audit.pub"), []byte(strings.Repeat("0", 64)), 0o600)
		}, "one backup"},
		"a folder in a key's place": {func(_ *testing.T, dir string) error {
			p := filepath.Join(dir, "audit.key")
			_ = os.Remove(p)
			return os.Mkdir(p, 0o700)
		}, "regular file"},
		"a link in a key's place": {func(_ *testing.T, dir string) error {
			p := filepath.Join(dir, "audit.key")
			_ = os.Rename(p, p+"2")
			return os.Symlink(p+"2", p)
		}, "symbolic"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "keys")
			if _, err := audit.LoadKeys(dir); err != nil {
				t.Fatal(err)
			}
			if err := c.do(t, dir); err != nil {
				t.Fatal(err)
			}
			if _, err := audit.LoadKeys(dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("have %v, want %q", err, c.want)
			}
		})
	}
}

func TestKeysAreNotPrinted(t *testing.T) {
	keys := testKeys(t)
	for _, have := range []string{fmt.Sprint(keys), fmt.Sprintf("%+v %#v %s %q", keys, keys, keys, keys), fmt.Sprintf("%v", &keys)} {
		if strings.Contains(have, hex.EncodeToString(keys.MAC())) || strings.Contains(have, "109") || strings.Contains(have, "0x6d") || !strings.Contains(have, "audit keys") {
			t.Errorf("have %s", have)
		}
	}
	if (audit.Keys{}).Public() != nil {
		t.Error("the zero Keys have a public key")
	}
	if _, err := audit.ParsePublicKey("00"); err == nil {
		t.Error("a short public key was accepted")
	}
}
