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

// openStore opens the file on a handle of our own: the library's own would set
// synchronous to NORMAL on its first connection, and a power cut could then
// lose an approval.
func openStore(ctx context.Context, path string) (*sql.DB, error) {
	if err := createPrivate(path); err != nil {
		return nil, err
	}
	query := url.Values{"_txlock": {"immediate"}, "_pragma": {
		"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(ON)",
	}}
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + query.Encode()
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, fmt.Errorf("durable engine on %s: %w", path, err)
	}
	db.SetMaxOpenConns(storeConnections)
	db.SetMaxIdleConns(storeConnections)
	var level int
	if err := db.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&level); err != nil {
		return nil, errors.Join(fmt.Errorf("durable engine on %s: %w", path, err), db.Close())
	}
	if level != synchronousFull {
		return nil, errors.Join(fmt.Errorf("durable engine on %s: commits are not synchronous", path), db.Close())
	}
	// What an erasure has left goes now, where nothing is in the way. Else it stays
	// marked, which no work has to wait for: [Client.Traces] tells.
	_ = sqlitefile.Scrub(ctx, db, 0)
	return db, nil
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
		return fmt.Errorf("durable engine: %w", err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("durable engine: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("durable engine: %s is not a regular file", path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("durable engine: others may read %s; run chmod 600 on it", path)
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
		return nil, fmt.Errorf("durable engine: %w", err)
	}
	return func() { _ = lock.Release() /* the process's end would, too */ }, nil
}

// requireStore refuses a missing file: a client never makes one.
func requireStore(path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", path, ErrNoStore)
	} else if err != nil {
		return fmt.Errorf("durable engine: %w", err)
	}
	return nil
}
