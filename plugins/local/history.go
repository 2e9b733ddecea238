package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Limits of what is kept.
const (
	maxHistory = 50  // lines of each sender
	maxSenders = 200 // those who spoke last
	maxFile    = 8 << 20
)

// history keeps what was said, one file a sender. Several handlers may write.
type history struct{ dir string }

// path is the sender's file; a name is no file's name.
func (h history) path(sender string) string {
	sum := sha256.Sum256([]byte(sender))
	return filepath.Join(h.dir, hex.EncodeToString(sum[:]))
}

// knows reports whether a sender has said or been told anything.
func (h history) knows(sender string) bool {
	_, err := os.Stat(h.path(sender))
	return err == nil
}

func (h history) read(sender string) (lines []line, err error) {
	err = h.locked(syscall.LOCK_SH, func() error {
		lines, err = h.load(sender)
		return err
	})
	return lines, err
}

// add keeps a line, and forgets what is too old for the limits.
func (h history) add(sender string, l line) error {
	return h.locked(syscall.LOCK_EX, func() error {
		lines, err := h.load(sender)
		if err != nil {
			return err
		}
		lines = append(lines, l)
		if err := h.store(sender, lines[max(0, len(lines)-maxHistory):]); err != nil {
			return err
		}
		return h.forget()
	})
}

// load passes over a line that it cannot read.
func (h history) load(sender string) ([]line, error) {
	f, err := os.Open(h.path(sender))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	var lines []line
	for text := range bytes.Lines(data) {
		var l line
		if json.Unmarshal(text, &l) == nil {
			lines = append(lines, l)
		}
	}
	return lines, nil
}

// store replaces a sender's file whole or not at all.
func (h history) store(sender string, lines []line) error {
	var text bytes.Buffer
	for _, l := range lines {
		data, err := json.Marshal(l)
		if err != nil {
			return err
		}
		text.Write(append(data, '\n'))
	}
	temporary := filepath.Join(h.dir, "new")
	if err := os.WriteFile(temporary, text.Bytes(), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, h.path(sender))
}

// forget removes the files of those who spoke longest ago.
func (h history) forget() error {
	entries, err := os.ReadDir(h.dir)
	if err != nil || len(entries) <= maxSenders+1 { // the lock is there too
		return err
	}
	var files []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && len(e.Name()) == hex.EncodedLen(sha256.Size) {
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, f := range files[min(maxSenders, len(files)):] {
		if err := os.Remove(filepath.Join(h.dir, f.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (h history) locked(how int, do func() error) error {
	lock, err := os.OpenFile(filepath.Join(h.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // which unlocks
	if err := syscall.Flock(int(lock.Fd()), how); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	return do()
}
