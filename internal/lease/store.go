package lease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"filippo.io/age"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/lease/keystore"
)

// ErrElsewhere says that nacre only reads from a place.
var ErrElsewhere = errors.New("nacre only reads it: put the new value there, or take it away, with what keeps it")

// Writable reports whether nacre can put a value where the source says.
func (s Source) Writable() bool {
	return slices.Contains([]Store{StoreFile, StoreKeyring, StoreAge}, s.Store())
}

// SamePlace reports whether another source has its value where s has, by whichever path.
func SamePlace(s, other Source) bool {
	if s.Keyring != "" {
		return s.Keyring == other.Keyring
	}
	path := s.File + s.Age // it names one of them
	return slices.ContainsFunc([]string{other.File, other.Age, other.Identity, other.OAuth}, func(also string) bool {
		if path == "" || !filepath.IsAbs(also) {
			return false
		}
		one, err := os.Stat(path)
		two, no := os.Stat(also)
		return filepath.Clean(path) == filepath.Clean(also) || err == nil && no == nil && os.SameFile(one, two)
	})
}

// CheckValue refuses what could not be used as a value. No error repeats it.
func CheckValue(value nacre.Secret) error {
	text := value.Reveal()
	switch {
	case text == "":
		return errors.New("the value is empty")
	case len(text) > maxValue:
		return fmt.Errorf("the value is longer than %d bytes", maxValue)
	case len(text) < MinValue:
		return fmt.Errorf("the value is shorter than %d bytes, and could not be told from other text", MinValue)
	case hasUnprintable(text):
		return errors.New("the value has characters that are not visible ASCII")
	}
	return nil
}

// Keep puts a value where the source says, in place of an earlier one, and reads it back:
// a place that took it and gives another one is an error.
func (s Source) Keep(ctx context.Context, getenv func(string) string, value nacre.Secret) error {
	err := errors.Join(s.Check(), CheckValue(value))
	if err == nil {
		err = s.put(ctx, getenv, value)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	back, err := s.Read(ctx, getenv)
	if err == nil && back != value {
		err = fmt.Errorf("%s: it gives another value than the one that was put there", s)
	}
	return err
}

func (s Source) put(ctx context.Context, getenv func(string) string, value nacre.Secret) error {
	switch s.Store() { //nolint:exhaustive // the others are only read from
	case StoreFile:
		return replace(s.File, []byte(value.Reveal()+"\n"))
	case StoreKeyring:
		return keystore.Of(getenv).Write(ctx, s.Keyring, value)
	case StoreAge:
		sealed, err := s.encrypt(value)
		if err != nil {
			return err
		}
		return replace(s.Age, sealed)
	}
	return ErrElsewhere
}

// replace writes a file of the operator's alone, at once. What is there and is not a
// regular file, such as a link, lies elsewhere for a reason.
func replace(path string, data []byte) error {
	info, err := os.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		return errors.New("it is not a regular file: put the value where it leads")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return bare(err)
	}
	return bare(disk.Write(path, data, 0o600))
}

// Forget takes the value away. One that is not there is [fs.ErrNotExist].
func (s Source) Forget(ctx context.Context, getenv func(string) string) error {
	err := s.Check()
	if err == nil {
		err = s.take(ctx, getenv)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	return nil
}

func (s Source) take(ctx context.Context, getenv func(string) string) error {
	switch s.Store() { //nolint:exhaustive // the others are only read from
	case StoreFile:
		return bare(os.Remove(s.File))
	case StoreAge:
		return bare(os.Remove(s.Age))
	case StoreKeyring:
		err := keystore.Of(getenv).Remove(ctx, s.Keyring)
		if errors.Is(err, keystore.ErrMissing) {
			return fs.ErrNotExist
		}
		return err
	}
	return ErrElsewhere
}

// Since is when the value was put where it is; the zero time where nobody knows.
func (s Source) Since(ctx context.Context, getenv func(string) string) time.Time {
	path := ""
	switch s.Store() { //nolint:exhaustive // of the others nobody knows
	case StoreKeyring:
		since, _ := keystore.Of(getenv).Since(ctx, s.Keyring) // what is wrong with it, Read says
		return since
	case StoreFile:
		path = s.File
	case StoreAge:
		path = s.Age
	case StoreOAuth:
		path = s.OAuth
	case StoreCredential:
		path, _ = s.given(getenv)
	}
	if info, err := os.Stat(path); path != "" && err == nil {
		return info.ModTime()
	}
	return time.Time{}
}

// MakeIdentity writes a new identity for age, for its owner alone, where there is no file
// yet, and reports whether it did.
func MakeIdentity(path string) (made bool, err error) {
	if _, err := os.Lstat(path); err == nil {
		return false, nil
	}
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return false, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return false, err
	}
	err = disk.Create(path, []byte("# public key: "+identity.Recipient().String()+"\n"+identity.String()+"\n"), 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}
