package sqlitefile

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/disk"
)

// Exists tells whether there is a file. Where only its write-ahead log is left,
// there was one, and nobody may begin anew over it: [ErrDamaged].
func Exists(path string) (bool, error) {
	_, log := os.Lstat(path + walSuffix) // before the file: whoever makes one makes its log later
	_, err := os.Lstat(path)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrPermission):
		return false, fmt.Errorf("%w (%w)", ErrReadOnly, err)
	case !errors.Is(err, fs.ErrNotExist):
		return false, err
	case log == nil:
		return false, fmt.Errorf("%w: only its log %s is left, which goes with it", ErrDamaged, filepath.Base(path)+walSuffix)
	}
	return false, nil
}

const (
	walSuffix = "-wal"
	shmSuffix = "-shm"
	// smallest is the size of SQLite's smallest page: it takes less for a new file.
	smallest = 512
	// newInfix is in the names of files that are being made.
	newInfix = ".new-"
)

// create makes a file beside its place and puts it there when it is whole, so that
// an empty file in its place is never one that is being made.
func create(ctx context.Context, path string, format Format) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return unwritten(err)
	}
	made := path + newInfix + strings.ToLower(rand.Text())
	defer func() { err = errors.Join(err, removeAll(made, made+walSuffix, made+shmSuffix)) }()
	empty, err := os.OpenFile(made, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil {
		err = empty.Close()
	}
	if err != nil {
		return unwritten(err)
	}
	f := &File{path: made, format: format}
	if err := f.connect(); err != nil {
		return err
	}
	if err := errors.Join(f.prepare(ctx), f.settle(ctx), f.db.Close()); err != nil {
		return err
	}
	if err := os.Link(made, path); err != nil && !errors.Is(err, fs.ErrExist) { // another process was first
		return unwritten(err)
	}
	return disk.SyncDir(dir)
}

// settle writes the log into the file, which closing tries and does not tell of.
func (f *File) settle(ctx context.Context) error {
	var busy, pages, done int
	if err := f.db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &done); err != nil {
		return Classified(err)
	}
	if busy != 0 {
		return errors.New("its log could not be written into it")
	}
	return nil
}

// unwritten marks what the system says of a place that cannot be written.
func unwritten(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w (%w)", ErrReadOnly, err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w (%w)", ErrFull, err)
	}
	return err
}

func removeAll(paths ...string) error {
	var errs []error
	for _, path := range paths {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// lookAt refuses a file that is empty or that others may have written to, and
// closes it to those who could only read it. It does not open the file: closing it
// again would drop every lock that this process has on it.
func lookAt(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return unwritten(err)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return errors.New("it is a symbolic link: put the file itself there")
	}
	if err := ours(info); err != nil {
		return err
	}
	// Who took the right to write it away meant it.
	if err := unix.Faccessat(unix.AT_FDCWD, path, unix.R_OK|unix.W_OK, unix.AT_EACCESS); err != nil {
		return unwritten(err)
	}
	if info.Mode().Perm() != 0o600 {
		return unwritten(os.Chmod(path, 0o600))
	}
	return nil
}

func ours(info fs.FileInfo) error {
	mode := info.Mode().Perm()
	if !info.Mode().IsRegular() {
		return errors.New("it is no regular file")
	}
	if mode&0o022 != 0 {
		return fmt.Errorf("%w: mode %v: see who wrote to it, then chmod 600", ErrExposed, mode)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%w: it belongs to user %d: chown it to the one who runs nacre", ErrExposed, stat.Uid)
	}
	if info.Size() < smallest {
		return fmt.Errorf("%w: it is empty or nearly so, and ours never is", ErrDamaged)
	}
	return nil
}
