package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	_ "github.com/dbos-inc/dbos-transact-golang/dbos/driver/sqlite" // the library's SQLite errors
	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/sqlitefile"
)

const (
	// storeConnections at once; SQLite has one writer anyway.
	storeConnections = 8
	// lockTimeout bounds the wait for another process's first start.
	lockTimeout = 30 * time.Second
	// synchronousFull is what SQLite answers for PRAGMA synchronous(FULL).
	synchronousFull = 2
)

// openStore opens the file on a handle of our own. The library's own would set synchronous to
// NORMAL on its first connection, and a power cut could then lose an approval.
func openStore(ctx context.Context, path string) (*sql.DB, error) {
	if err := createPrivate(path); err != nil {
		return nil, unusable(path, err)
	}
	query := url.Values{"_txlock": {"immediate"}, "_pragma": {
		"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(ON)",
	}}
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + query.Encode()
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, unusable(path, err)
	}
	db.SetMaxOpenConns(storeConnections)
	db.SetMaxIdleConns(storeConnections)
	var level int
	if err := db.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&level); err != nil {
		return nil, errors.Join(unusable(path, err), db.Close())
	}
	if level != synchronousFull {
		return nil, errors.Join(fmt.Errorf("durable engine on %s: commits are not synchronous", path), db.Close())
	}
	// What an erasure has left goes now, where nothing is in the way. Else it stays
	// marked, which no work has to wait for: [Client.Traces] tells.
	_ = sqlitefile.Scrub(ctx, db, 0)
	return db, nil
}

// unusable says why a store cannot be used, and what to do where SQLite says what
// became of it. One that is moved away takes along what was interrupted, and no
// more: what landed, and every record, lies elsewhere.
func unusable(path string, err error) error {
	return &sqlitefile.UnusableError{Name: "the durable engine's file", Path: path, Err: sqlitefile.Classified(err)}
}

// createPrivate makes the file before SQLite does, so that it and the files
// beside it are 0600 whatever the umask is. It does not open one that is there:
// closing it again would drop every lock that this process has on it.
func createPrivate(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is not a regular file: move it away")
	}
	if info.Mode().Perm()&0o077 != 0 {
		return errors.New("others may read it: run chmod 600 on it")
	}
	return nil
}

// errBusy is why a store is not waited for any longer. It is no limit of a run's.
var errBusy = errors.New("another process has been starting on it for too long")

// lockStore keeps two processes from opening and migrating one file at once:
// the library does not survive the one, nor SQLite's switch to WAL the other.
func lockStore(ctx context.Context, path string) (unlock func(), err error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("durable engine: %q is not an absolute path", path)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lockTimeout, errBusy)
	defer cancel()
	lock, err := disk.TakeLock(ctx, path+".lock")
	if err != nil {
		return nil, unusable(path, err)
	}
	return func() { _ = lock.Release() /* the process's end would, too */ }, nil
}

// requireStore refuses a missing file, and one that a start left empty when it was
// killed: a client never makes one.
func requireStore(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && info.Size() == 0 && info.Mode().IsRegular() && !hasLog(path):
		return fmt.Errorf("%s: %w", path, ErrNoStore)
	case err != nil:
		return unusable(path, err)
	}
	return nil
}

// hasLog tells whether something may stand in the write-ahead log alone.
func hasLog(path string) bool {
	info, err := os.Stat(path + "-wal")
	return !errors.Is(err, fs.ErrNotExist) && (err != nil || info.Size() > 0)
}
