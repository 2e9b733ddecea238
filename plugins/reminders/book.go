package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
)

// Limits of a group's reminders; a full list stays below the largest result.
const (
	maxReminders = 1000
	maxListName  = 100 // bytes
)

// book is all groups' reminders: one file a group, so that no mistake in here
// can show one group another's.
type book struct {
	dir         string
	defaultList string
}

// page is one group's file.
type page struct {
	Last      int        `json:"last"` // number of the newest id, never used again
	Reminders []reminder `json:"reminders"`
}

type reminder struct {
	ID        string `json:"reminder_id"`
	Title     string `json:"title"`
	Due       string `json:"due,omitempty"`
	List      string `json:"list"`
	Completed bool   `json:"completed"`
	Created   string `json:"created"`
}

func (p page) find(id string) (int, error) {
	i := slices.IndexFunc(p.Reminders, func(r reminder) bool { return r.ID == id })
	if i < 0 {
		return 0, &plugin.ToolError{Code: "NOT_FOUND", Message: fmt.Sprintf("Reminder %.40q does not exist", id)}
	}
	return i, nil
}

func (b *book) read(group nacre.Group, use func(p page)) error {
	return b.locked(group, syscall.LOCK_SH, func(path string) error {
		p, err := readPage(path)
		if err == nil {
			use(p)
		}
		return err
	})
}

// change writes the page only when edit succeeds.
func (b *book) change(group nacre.Group, edit func(p *page) error) error {
	return b.locked(group, syscall.LOCK_EX, func(path string) error {
		p, err := readPage(path)
		if err != nil {
			return err
		}
		if err := edit(&p); err != nil {
			return err
		}
		return writePage(path, p)
	})
}

// locked holds the group's lock: other sessions have handlers of their own.
func (b *book) locked(group nacre.Group, how int, do func(path string) error) error {
	if _, err := nacre.ParseGroup(string(group)); err != nil {
		return err
	}
	path := filepath.Join(b.dir, string(group)+".json")
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // which unlocks
	if err := syscall.Flock(int(lock.Fd()), how); err != nil {
		return err
	}
	return do(path)
}

func readPage(path string) (page, error) {
	var p page
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return p, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// writePage replaces the file whole or not at all.
func writePage(path string, p page) error {
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	temporary := path + ".new"
	f, err := os.OpenFile(temporary, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
