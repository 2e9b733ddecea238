package revocation_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/revocation"
)

// Whatever stands in the list's place, it is believed as a whole or not at all.
func FuzzOpen(f *testing.F) {
	dir := folder(f)
	l, err := revocation.Open(dir)
	if err != nil {
		f.Fatal(err)
	}
	for _, id := range []string{"", "t-1", "t-1/c"} {
		if id != "" {
			if err := l.Revoke(id, "", now); err != nil {
				f.Fatal(err)
			}
		}
		data, err := os.ReadFile(filepath.Join(dir, list))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	_ = l.Close()
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := folder(t)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, list), data, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := revocation.Open(dir)
		if err != nil {
			if !errors.Is(err, revocation.ErrUnreadable) {
				t.Errorf("%q: %v", data, err)
			}
			return
		}
		defer func() { _ = l.Close() }()
		if err := l.Revoke("more", "", time.Time{}); err != nil {
			t.Errorf("%q: %v", data, err)
		}
		if is, err := l.Revoked("more", "", now); !is || err != nil {
			t.Errorf("%q: have %v, %v", data, is, err)
		}
	})
}
