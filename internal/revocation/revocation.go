// Package revocation promises that what was revoked stays revoked: across
// restarts and across processes, from the moment Revoke returns (K-12). It
// also keeps the keys that tokens are signed with, and rotates them (K-10).
//
// The list is one small file that is replaced as a whole, so that no crash and
// no full disk leaves half of an entry behind. A file that is damaged, cut off
// or gone revokes everything. It does not decide who may revoke, and does not
// verify tokens.
package revocation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/token"
)

// The files of a list's folder.
const (
	listFile = "revocations.jsonl"
	lockFile = "revocations.lock"
)

const (
	// lockWait is how long a revocation waits for that of another process.
	lockWait = 2 * time.Second
	// maxFile bounds the file, for the longest names before token.MaxRevocations do.
	maxFile = 16 << 20
	// lookAgain is after how many questions the file's name is looked up again.
	lookAgain = 64
)

// ErrUnreadable is a list that cannot be believed. Nothing verifies until it
// is repaired.
var ErrUnreadable = errors.New("revocation list cannot be believed: restore it from a backup")

// List is a list of revocations on disk, or in the database that nodes share ([OpenOn]).
// Every process that has it open sees each entry at its next question. Safe for concurrent use.
type List struct {
	dir  string
	name string // of the file

	mu   sync.RWMutex
	file *os.File // where held was read
	fd   int
	seen version
	held *contents
	// asked counts questions, for the longer look at every so many.
	asked atomic.Uint32

	// shared are those of all nodes, where the installation has a store.
	shared token.Revocations
}

var _ token.Revocations = (*List)(nil)

// version changes with the file: when it is replaced it loses a link, when it
// is moved or changed its ctime is another.
type version struct {
	device uint64
	inode  uint64
	links  uint64
	size   int64
	ctime  int64
}

// Share adds the revocations that the machines of an installation share. What any of them revokes
// is revoked on all of them, and what this one's own file holds stays revoked here. It comes before
// the first question; nil shares nothing.
func (l *List) Share(shared token.Revocations) { l.shared = shared }

// Open reads the list in dir, or starts an empty one where none ever was. dir
// must be the user's alone.
func Open(dir string) (*List, error) {
	if err := privateDir(dir); err != nil {
		return nil, err
	}
	l := &List{dir: dir, name: filepath.Join(dir, listFile)}
	if err := l.begin(); err != nil {
		return nil, err
	}
	return l, l.reload()
}

// begin makes the first, empty list. The lock file comes after it: where that
// is and the list is not, the list was removed.
func (l *List) begin() error {
	if _, err := os.Lstat(l.name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := os.Lstat(l.lock()); err == nil {
		return fmt.Errorf("%w: %s is gone", ErrUnreadable, l.name)
	}
	return disk.Create(l.name, new(contents).encode(), 0o600)
}

func (l *List) lock() string { return filepath.Join(l.dir, lockFile) }

// Close lets go of the file; a closed list revokes everything.
func (l *List) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = nil
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// Revoke implements [token.Revocations]: it is on disk, or in the store, when it returns nil.
func (l *List) Revoke(id, principal string, until time.Time) error {
	if err := token.CheckRevocation(id, principal); err != nil {
		return err
	}
	if l.shared != nil {
		return l.shared.Revoke(id, principal, until)
	}
	return l.Keep(id, principal, until)
}

// Keep keeps a revocation in this machine's own file, and says nothing of it to other machines.
func (l *List) Keep(id, principal string, until time.Time) error {
	return l.change(func(c *contents) (bool, error) { return c.add(entry{id, principal, until}) })
}

// Kept are the ids and the principals of this machine's own file whose time is not over; one of the two is empty.
func (l *List) Kept(now time.Time) (ids, principals []string, err error) {
	data, err := readPrivate(l.name, maxFile)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	c, err := decode(data)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %s: %w", ErrUnreadable, l.name, err)
	}
	for _, e := range c.entries {
		if e.Until.IsZero() || e.Until.After(now) {
			ids, principals = append(ids, e.ID), append(principals, e.Principal)
		}
	}
	return ids, principals, nil
}

// Revoked implements [token.Revocations]. It costs one look at the open file, and with a
// store one question to it.
func (l *List) Revoked(id, principal string, now time.Time) (bool, error) {
	is, err := l.revokedHere(id, principal, now)
	if l.shared == nil || is || err != nil {
		return is, err
	}
	return l.shared.Revoked(id, principal, now)
}

func (l *List) revokedHere(id, principal string, now time.Time) (bool, error) {
	for range 2 {
		l.mu.RLock()
		if l.file != nil && l.current() {
			defer l.mu.RUnlock()
			return l.held.list.Revoked(id, principal, now)
		}
		closed := l.held == nil
		l.mu.RUnlock()
		if closed {
			return true, fmt.Errorf("%w: %s is closed", ErrUnreadable, l.name)
		}
		if err := l.refresh(); err != nil {
			return true, err
		}
	}
	return true, fmt.Errorf("%w: %s changes all the time", ErrUnreadable, l.name)
}

// Sweep implements [token.Revocations].
func (l *List) Sweep(now time.Time) error {
	err := l.change(func(c *contents) (bool, error) { return c.sweep(now), nil })
	if l.shared != nil {
		err = errors.Join(err, l.shared.Sweep(now))
	}
	return err
}

// current reports whether the file that was read is as it was then. Every so often it looks, too,
// whether it still is the one with the list's name: a folder that is moved away leaves no mark on a
// file.
func (l *List) current() bool {
	var st syscall.Stat_t
	if l.asked.Add(1)%lookAgain == 0 {
		return syscall.Lstat(l.name, &st) == nil && versionOf(&st) == l.seen
	}
	return syscall.Fstat(l.fd, &st) == nil && versionOf(&st) == l.seen
}

func versionOf(st *syscall.Stat_t) version {
	return version{uint64(st.Dev), st.Ino, uint64(st.Nlink), st.Size, disk.ChangeTime(st).UnixNano()} //nolint:unconvert,nolintlint // narrower on some systems
}

func (l *List) refresh() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil || l.file != nil && l.current() {
		return nil // closed, or another goroutine was faster
	}
	return l.read()
}

func (l *List) reload() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.read()
}

// read replaces what is held. On an error the old file is kept, which is not
// current, so that every question is refused until the list can be read.
func (l *List) read() error {
	f, err := openPrivate(l.name)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	fd := int(f.Fd()) //nolint:gosec // a descriptor
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return errors.Join(fmt.Errorf("%w: %w", ErrUnreadable, err), f.Close())
	}
	data, err := readAll(f, maxFile)
	if err != nil {
		return errors.Join(fmt.Errorf("%w: %w", ErrUnreadable, err), f.Close())
	}
	c, err := decode(data)
	if err != nil {
		return errors.Join(fmt.Errorf("%w: %s: %w", ErrUnreadable, l.name, err), f.Close())
	}
	if l.file != nil {
		_ = l.file.Close() // only read
	}
	l.file, l.fd, l.seen, l.held = f, fd, versionOf(&st), c
	return nil
}

// change reads the list, changes it and puts it in place of the old one, while
// no other process does.
func (l *List) change(edit func(*contents) (bool, error)) error {
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	held, err := takeLock(ctx, l.lock())
	if err != nil {
		return err
	}
	defer func() { _ = held.Release() }() // what was written counts
	data, err := readPrivate(l.name, maxFile)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	c, err := decode(data)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnreadable, l.name, err)
	}
	changed, err := edit(c)
	if err != nil || !changed {
		return err
	}
	after := c.encode()
	if len(after) > maxFile {
		return token.ErrRevocationsFull // a longer file could not be read again
	}
	return disk.Write(l.name, after, 0o600)
}
