//go:build linux

package agent

import (
	"bufio"
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
	"syscall"

	"github.com/nacre-dev/nacre/internal/brain"
)

// Limits of the file tools.
const (
	defaultLines = 2000
	maxLines     = 100_000
	maxScanned   = 64 << 20
	maxEdited    = 8 << 20
	maxEntries   = 1000
	maxListed    = 100_000
	newFileMode  = 0o644
	newDirMode   = 0o755
)

// read gives lines of a file as they are, without numbers.
func (t Tools) read(_ context.Context, input json.RawMessage) (Result, error) {
	var name string
	offset, limit := 1, defaultLines
	if err := brain.Fields(input, map[string]any{"path": &name, "offset": &offset, "limit": &limit}); err != nil {
		return Result{}, err
	}
	if offset < 1 || limit < 1 || limit > maxLines {
		return Result{}, fmt.Errorf("offset %d, limit %d: offset counts lines from 1, limit is 1–%d", offset, limit, maxLines)
	}
	f, err := t.open(name)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = f.Close() }() // only read
	var kept clipped
	more, err := copyLines(&kept, f, offset, limit)
	if err != nil {
		return Result{}, err
	}
	text := kept.String()
	if more {
		text = joinLines(text, fmt.Sprintf("[more follows from line %d]", offset+limit))
	}
	return Result{Text: text}, nil
}

// copyLines copies limit lines from line offset on and reports whether there
// are more.
func copyLines(w io.Writer, r io.Reader, offset, limit int) (more bool, err error) {
	lines := bufio.NewReaderSize(io.LimitReader(r, maxScanned), 64<<10)
	for n := 1; n < offset+limit; {
		part, err := lines.ReadSlice('\n')
		if n >= offset {
			_, _ = w.Write(part) // a clipped buffer takes everything
		}
		switch {
		case err == nil:
			n++
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return false, nil
		default:
			return false, err
		}
	}
	_, err = lines.Peek(1)
	return err == nil, nil
}

// open opens a regular file: a pipe or a device could hold the brain forever.
func (t Tools) open(name string) (*os.File, error) {
	path, err := t.path(name)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}

// write makes or replaces a file as a whole, with the directories above it.
func (t Tools) write(_ context.Context, input json.RawMessage) (Result, error) {
	var name string
	var content *string
	if err := brain.Fields(input, map[string]any{"path": &name, "content": &content}); err != nil {
		return Result{}, err
	}
	if content == nil {
		return Result{}, errors.New(`"content" is missing`)
	}
	path, err := t.path(name)
	if err != nil {
		return Result{}, err
	}
	if err := os.MkdirAll(filepath.Dir(path), newDirMode); err != nil {
		return Result{}, err
	}
	if err := replace(path, []byte(*content)); err != nil {
		return Result{}, err
	}
	return Result{Text: fmt.Sprintf("wrote %d bytes to %s", len(*content), path)}, nil
}

// edit replaces text that is in the file exactly once, or everywhere.
func (t Tools) edit(_ context.Context, input json.RawMessage) (Result, error) {
	var name, before, after string
	var all bool
	if err := brain.Fields(input, map[string]any{"path": &name, "old": &before, "new": &after, "all": &all}); err != nil {
		return Result{}, err
	}
	if before == "" || before == after {
		return Result{}, errors.New(`"old" must be some text, and "new" another`)
	}
	f, err := t.open(name)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = f.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(f, maxEdited+1))
	if err != nil {
		return Result{}, err
	}
	found := bytes.Count(data, []byte(before))
	switch {
	case len(data) > maxEdited:
		return Result{}, fmt.Errorf("%s has more than %d bytes", f.Name(), maxEdited)
	case found == 0:
		return Result{}, fmt.Errorf("the old text is not in %s", f.Name())
	case found > 1 && !all:
		return Result{}, fmt.Errorf(`the old text is %d times in %s: give more of it, or set "all"`, found, f.Name())
	}
	if err := replace(f.Name(), bytes.ReplaceAll(data, []byte(before), []byte(after))); err != nil {
		return Result{}, err
	}
	return Result{Text: fmt.Sprintf("replaced %d in %s", found, f.Name())}, nil
}

// replace puts data where path leads, all of it or none.
func replace(path string, data []byte) (err error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	mode := fs.FileMode(newFileMode)
	if info, err := os.Lstat(path); err == nil {
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a regular file", path)
		}
		mode = info.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".brain-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the first error counts
		}
	}()
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// list names what is in a directory: directories end in /, links in @.
func (t Tools) list(_ context.Context, input json.RawMessage) (Result, error) {
	name := "."
	if err := brain.Fields(input, map[string]any{"path": &name}); err != nil {
		return Result{}, err
	}
	path, err := t.path(name)
	if err != nil {
		return Result{}, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = f.Close() }() // only read
	entries, err := f.ReadDir(maxListed)
	if err != nil && !errors.Is(err, io.EOF) {
		return Result{}, err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return Result{Text: strings.ToValidUTF8(listing(entries), "\uFFFD")}, nil
}

func listing(entries []fs.DirEntry) string {
	var b strings.Builder
	for i, e := range entries {
		if i == maxEntries {
			fmt.Fprintf(&b, "[and %d more]\n", len(entries)-maxEntries)
			break
		}
		b.WriteString(e.Name())
		switch {
		case e.IsDir():
			b.WriteByte('/')
		case e.Type()&fs.ModeSymlink != 0:
			b.WriteByte('@')
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// isLink reports whether a name is a symbolic link, be it one that leads nowhere.
func isLink(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}
