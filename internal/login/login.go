// Package login keeps a person's subscription login with a vendor on the host, and
// gives the model gateway the short-lived token of it (U-02).
//
// The login is nacre's own: it is never read from the files of the person's program, so
// that a refresh token which the vendor replaces logs nobody out. It is refreshed once
// for all sessions and processes, under a lock on its file. A refresh that the vendor
// refused is remembered: nobody asks again until the person signs in anew.
//
// The room does not decide who may use the login, and sends nothing to a model.
package login

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/disk"
)

// Vendor is whose login it is, by the name of the vendor's program. The zero value is nobody.
type Vendor string

// The vendors whose subscription logins are known.
const (
	Claude Vendor = "claude"
	Codex  Vendor = "codex"
)

const (
	// maxFile is the largest file of a login, and the largest answer to a refresh, in bytes.
	maxFile = 1 << 20
	// maxToken is the longest token, in bytes.
	maxToken = 16 << 10
	// lockWait is how long one process waits while another refreshes.
	lockWait = time.Minute
	// signInWait is how long one waits while another process signs in.
	signInWait = time.Second
)

// Vendors are those whose logins are known.
func Vendors() []Vendor { return []Vendor{Claude, Codex} }

// Parse reads the name of a vendor.
func Parse(name string) (Vendor, error) {
	if v := Vendor(name); slices.Contains(Vendors(), v) {
		return v, nil
	}
	return "", fmt.Errorf("unknown login %.40q: the logins are claude and codex", name)
}

// Login is what a vendor gave. The zero value opens nothing.
type Login struct {
	Access nacre.Secret
	// Refresh gets the next Access; without it the login ends when Access does.
	Refresh nacre.Secret
	// Account is the vendor's name of the account, where its protocol sends one.
	Account string
	Scopes  []string
	// Expires is when Access ends; the zero time is one that is not known.
	Expires time.Time
	// Refused is the vendor's word for why it refused to refresh, or [AnotherAccount];
	// empty where the login can be refreshed.
	Refused string
}

// AnotherAccount is why a login ended that the vendor refreshed with that of another account.
const AnotherAccount = "another account"

// Wrong says why the login cannot be used any more; empty where nothing says so.
func (l Login) Wrong(now time.Time) string {
	switch {
	case l.Refused == AnotherAccount:
		return "the vendor refreshed it with a login of another account"
	case l.Refused != "":
		return fmt.Sprintf("the vendor refused to refresh it (%s)", l.Refused)
	case l.Refresh.Empty() && !l.Expires.IsZero() && !now.Before(l.Expires):
		return "its token has ended"
	}
	return ""
}

// stored is a login as it lies in its file.
type stored struct {
	Access  string    `json:"access_token"`
	Refresh string    `json:"refresh_token,omitempty"`
	Account string    `json:"account,omitempty"`
	Scopes  []string  `json:"scopes,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
	Refused string    `json:"refused,omitempty"`
}

// Store is the folder of the logins, which belongs to the person alone.
type Store struct{ dir string }

// New names the folder. It is made when a login is kept.
func New(dir string) Store { return Store{dir} }

func (s Store) file(v Vendor) string { return filepath.Join(s.dir, string(v)+".json") }

// folder makes the folder, which nobody else can open, and returns it.
func (s Store) folder() (string, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return "", err
	}
	return s.dir, os.Chmod(s.dir, 0o700)
}

// signingIn begins the names of folders in which a vendor's program logs in.
const signingIn = ".signing-in-"

// SigningIn makes an empty folder for the vendor's program to log in, and takes away what one
// left that was killed. done removes it. One person signs in at a time.
func (s Store) SigningIn(ctx context.Context, v Vendor) (home string, done func() error, err error) {
	dir, err := s.folder()
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, signInWait)
	defer cancel()
	lock, err := disk.TakeLock(ctx, filepath.Join(dir, signingIn+string(v)+".lock"))
	if errors.Is(err, disk.ErrLocked) {
		return "", nil, fmt.Errorf("another nacre login %s waits for its person: end that one first", v)
	}
	if err != nil {
		return "", nil, err
	}
	home = filepath.Join(dir, signingIn+string(v))
	done = func() error { return errors.Join(os.RemoveAll(home), lock.Release()) }
	if err := errors.Join(os.RemoveAll(home), os.Mkdir(home, 0o700)); err != nil {
		return "", nil, errors.Join(err, done())
	}
	return home, done, nil
}

// Keep replaces the vendor's login, while nobody refreshes it.
func (s Store) Keep(ctx context.Context, v Vendor, l Login) error {
	return s.locked(ctx, v, func() error { return s.write(v, l) })
}

// Remove forgets the vendor's login, and what one left that was killed while it signed in. One that is not there is [fs.ErrNotExist].
func (s Store) Remove(ctx context.Context, v Vendor) error {
	if _, err := os.Lstat(s.file(v)); err != nil {
		return err
	}
	return s.locked(ctx, v, func() error {
		return errors.Join(os.Remove(s.file(v)), os.RemoveAll(filepath.Join(s.dir, signingIn+string(v))))
	})
}

// Load reads the vendor's login. One that is not there is [fs.ErrNotExist]. A file that others can read, or that is not whole, is an
// error that says what to do.
func (s Store) Load(v Vendor) (Login, error) {
	info, err := os.Lstat(s.file(v))
	if err != nil {
		return Login{}, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return Login{}, fmt.Errorf("the file of the login of %s can be read by others: run nacre login %s again", v, v)
	}
	data, err := disk.Read(s.file(v), maxFile)
	if err != nil {
		return Login{}, fmt.Errorf("the file of the login of %s cannot be read, or is too large: run nacre login %s again", v, v)
	}
	var kept stored
	if json.Unmarshal(data, &kept) != nil || !isToken(kept.Access) || kept.Refresh != "" && !isToken(kept.Refresh) {
		return Login{}, fmt.Errorf("the file of the login of %s is damaged: run nacre login %s again", v, v)
	}
	return Login{
		Access: nacre.NewSecret(kept.Access), Refresh: nacre.NewSecret(kept.Refresh),
		Account: kept.Account, Scopes: kept.Scopes, Expires: kept.Expires, Refused: kept.Refused,
	}, nil
}

func (s Store) write(v Vendor, l Login) error {
	data, err := json.Marshal(stored{l.Access.Reveal(), l.Refresh.Reveal(), l.Account, l.Scopes, l.Expires, l.Refused}) //nolint:gosec // the file of mode 0600 is where the login is kept
	if err != nil {
		return err
	}
	return disk.Write(s.file(v), data, 0o600)
}

func (s Store) locked(ctx context.Context, v Vendor, do func() error) error {
	dir, err := s.folder()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	lock, err := disk.TakeLock(ctx, filepath.Join(dir, string(v)+".lock"))
	if err != nil {
		return fmt.Errorf("the login of %s cannot be locked: %w", v, pathless(err))
	}
	return errors.Join(do(), lock.Release())
}

// pathless is an error without the names of files on the host: the brain is told of it.
func pathless(err error) error {
	var at *fs.PathError
	switch {
	case errors.As(err, &at):
		return at.Err
	case errors.Is(err, disk.ErrLocked):
		return disk.ErrLocked
	}
	return err
}

// isToken accepts what can stand in a header.
func isToken(text string) bool {
	return text != "" && len(text) <= maxToken && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}
