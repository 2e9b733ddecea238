package home

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/registry"
)

const (
	// maxLog is how much of a log is kept, in bytes: its end.
	maxLog = 4 << 20
	// maxState is the largest file that a choice is read from, in bytes.
	maxState = 8 << 20
)

// File is one that a session's home begins with, and that may be written inside.
type File struct {
	// Path is below the home.
	Path string
	Data []byte
}

// Session is a home for one session: folders made anew from what the host says,
// over which the kept ones are laid.
type Session struct {
	home  *Home // nil where nothing is kept
	dir   string
	kinds []Kind
	began map[string][]byte // what each log held, by its path
}

// Begin makes the home of a session in dir, which the session owns alone. h is nil
// for a session that begins with nothing and leaves nothing.
func Begin(h *Home, dir string, start []File, kinds []Kind) (*Session, []nacre.Mount, error) {
	s := &Session{home: h, dir: dir, kinds: kinds, began: map[string][]byte{}}
	if err := registry.Discard(dir); err != nil {
		return nil, nil, err
	}
	for _, k := range kinds {
		if err := s.prepare(k); err != nil {
			return nil, nil, err
		}
	}
	for _, f := range start {
		if err := (Kind{Path: f.Path}).check(); err != nil {
			return nil, nil, err
		}
		if err := s.write(f.Path, f.Data); err != nil {
			return nil, nil, err
		}
	}
	mounts, err := s.tops()
	if err != nil || h == nil {
		return s, mounts, err
	}
	kept, err := h.Mounts(kinds)
	return s, append(mounts, kept...), err
}

// prepare makes the place of a kind: what is laid over it needs one.
func (s *Session) prepare(k Kind) error {
	if err := k.check(); err != nil {
		return err
	}
	if !k.Log {
		return os.MkdirAll(filepath.Join(s.dir, k.Path), 0o700)
	}
	if s.home == nil {
		return nil
	}
	data, err := disk.Read(s.home.at(k), maxLog)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	s.began[k.Path] = data
	return s.write(k.Path, data)
}

func (s *Session) write(path string, data []byte) error {
	name := filepath.Join(s.dir, path)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o600)
}

// tops are the folders at the top of the session's home, each bound whole, so that
// a program can replace a file in them by a rename.
func (s *Session) tops() ([]nacre.Mount, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var mounts []nacre.Mount
	for _, entry := range entries {
		if !entry.IsDir() {
			return nil, fmt.Errorf("%s lies at the top of a home: only folders are bound there", entry.Name())
		}
		mounts = append(mounts, nacre.Mount{Kind: nacre.BindReadWrite, Source: filepath.Join(s.dir, entry.Name()), Target: Inside + "/" + entry.Name()})
	}
	return mounts, err
}

// End keeps what was added to the logs and discards the rest. Nothing may run in
// the session any more.
func (s *Session) End(ctx context.Context) error {
	var errs []error
	for _, k := range s.kinds {
		if k.Log && s.home != nil {
			errs = append(errs, s.keepLog(ctx, k))
		}
	}
	return errors.Join(append(errs, registry.Discard(s.dir))...) // a module's folder may not be changed by its owner
}

// keepLog adds to a log what the session added to it. A log that does not begin as it
// was handed out, that is no plain file or is too large adds nothing.
func (s *Session) keepLog(ctx context.Context, k Kind) error {
	data, err := s.read(k.Path, 2*maxLog)
	if err != nil || !bytes.HasPrefix(data, s.began[k.Path]) {
		return nil // what an agent made unreadable is not kept
	}
	added := wholeLines(data[len(s.began[k.Path]):])
	if len(added) == 0 {
		return nil
	}
	lock, err := disk.TakeLock(ctx, filepath.Join(s.home.dir, lockFile))
	if err != nil {
		return err
	}
	defer func() { _ = lock.Release() }() // the kernel drops it as well
	before, err := disk.Read(s.home.at(k), maxLog)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return disk.Write(s.home.at(k), lastLines(slices.Concat(before, added), maxLog), 0o600)
}

// wholeLines are the lines of a log that are whole JSON objects: nothing else is one.
func wholeLines(data []byte) []byte {
	var whole []byte
	for line := range bytes.Lines(data) {
		if bytes.HasPrefix(line, []byte("{")) && bytes.HasSuffix(line, []byte("\n")) && json.Valid(line) {
			whole = append(whole, line...)
		}
	}
	return whole
}

// lastLines are the last whole lines of at most so many bytes.
func lastLines(data []byte, limit int) []byte {
	if len(data) <= limit {
		return data
	}
	data = data[len(data)-limit:]
	return data[bytes.IndexByte(data, '\n')+1:]
}

// Word reads a word below a key of a JSON file that the session may have written;
// empty where there is none.
func (s *Session) Word(path, key string) string {
	data, err := s.read(path, maxState)
	if err != nil {
		return ""
	}
	var file map[string]json.RawMessage
	var value string
	if json.Unmarshal(data, &file) != nil || json.Unmarshal(file[key], &value) != nil || !isWord(value) {
		return ""
	}
	return strings.Clone(value)
}

// read reads a plain file of the session's home. A link that leads out of it is followed nowhere,
// and a pipe is waited for by nobody.
func (s *Session) read(path string, limit int64) ([]byte, error) {
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // only read
	f, err := root.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, fmt.Errorf("%s is no plain file of at most %d bytes", path, limit)
	}
	return io.ReadAll(io.LimitReader(f, limit))
}
