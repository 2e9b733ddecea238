// Package disk promises that nacre's own files are whole. A reader sees the old one or the new one,
// and a power cut undoes nothing that was said to be written. Nothing is read through a link or
// from a pipe, and one process at a time does what is not to be done by two.
//
// It does not know what stands in a file, and not who may read it.
package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Write puts data in the file's place, durably. It may be there already, and no
// two writers mix.
func Write(path string, data []byte, mode fs.FileMode) error {
	made, err := beside(path, data, mode)
	if err == nil {
		err = os.Rename(made, path)
	}
	if err != nil {
		return errors.Join(err, removed(made))
	}
	return SyncDir(filepath.Dir(path))
}

// Replace puts data in the file's place for its one writer, once data and what settle makes
// durable are both durable. Where settle, which may be nil, fails, the file stays as it was. That
// the name is the new file's is durable with the folder: see [SyncDir].
func Replace(path string, data []byte, settle func() error) error {
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	switch {
	case err != nil:
	case settle == nil:
		err = f.Sync()
	default:
		err = AtOnce(settle, f.Sync)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// AtOnce does two things that wait for the disk, one beside the other.
func AtOnce(one, other func() error) error {
	done := make(chan error, 1)
	go func() { done <- one() }()
	err := other()
	return errors.Join(<-done, err)
}

// Create makes the file, durably. Whoever comes second keeps the first one's.
func Create(path string, data []byte, mode fs.FileMode) error {
	made, err := beside(path, data, mode)
	if err == nil {
		err = os.Link(made, path)
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	return errors.Join(err, removed(made), SyncDir(filepath.Dir(path)))
}

// beside makes a file of another name in the same folder. The name is given where
// there is something to remove.
func beside(path string, data []byte, mode fs.FileMode) (made string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	return f.Name(), errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
}

func removed(path string) error {
	if path == "" {
		return nil
	}
	return os.Remove(path)
}

// SyncDir makes the names in a folder outlast a loss of power.
func SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Read reads a regular file of at most limit bytes.
func Read(path string, limit int64) ([]byte, error) {
	f, err := OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	var data bytes.Buffer
	if info, err := f.Stat(); err == nil { // read at once, where it does not grow meanwhile
		data.Grow(int(min(info.Size(), limit)) + bytes.MinRead)
	}
	n, err := data.ReadFrom(io.LimitReader(f, limit+1))
	if err == nil && n > limit {
		err = fmt.Errorf("%s has more than %d bytes", path, limit)
	}
	return data.Bytes(), err
}

// OpenRegular opens a regular file for reading. It does not follow a link, and
// does not hang on a pipe.
func OpenRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file: move it away", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
