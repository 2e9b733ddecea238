package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// oldBook is a group's reminders as version 1.0.0 kept them, in one file of JSON.
type oldBook struct {
	Last      int `json:"last"`
	Reminders []struct {
		ID        string `json:"reminder_id"`
		Title     string `json:"title"`
		Due       string `json:"due"`
		List      string `json:"list"`
		Completed bool   `json:"completed"`
		Created   string `json:"created"`
	} `json:"reminders"`
}

// migrate moves an old book into calendar files, ids included, and keeps it
// under another name. One that was broken off goes on where it was: what is there already
// is not added again.
func (b *fileBook) migrate(path string) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var old oldBook
	if err := json.Unmarshal(data, &old); err != nil {
		return damaged(filepath.Base(path), err)
	}
	lists := map[string]*listFile{}
	b.Last = max(b.Last, old.Last)
	for _, r := range old.Reminders {
		l, err := b.oldList(lists, r.List)
		if err != nil {
			return err
		}
		uid := r.ID + "@" + b.Book
		if n, ok := strings.CutPrefix(r.ID, "R-"); ok {
			if n, err := strconv.Atoi(n); err == nil {
				b.Last = max(b.Last, n)
			}
		}
		if len(l.calendar.todos(uid)) > 0 {
			continue
		}
		l.add(oldTodo(uid, r.Title, r.Due, r.Created, r.Completed, b.now()))
	}
	counters, err := json.Marshal(b.counters)
	if err != nil {
		return err
	}
	// The counters come first: with another Book, what is there would not be known again.
	if err := replace(filepath.Join(b.dir, countersFile), counters); err != nil {
		return err
	}
	for _, l := range lists {
		if err := l.write(); err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stderr, "%s: %d reminders moved into calendar files\n", filepath.Base(path), len(old.Reminders))
	return os.Rename(path, path+".migrated")
}

func (b *fileBook) oldList(lists map[string]*listFile, name string) (*listFile, error) {
	if name == "" {
		name = fallbackList
	}
	if l := lists[name]; l != nil {
		return l, nil
	}
	l, err := b.read(fileName(name))
	if errors.Is(err, fs.ErrNotExist) {
		l, err = &listFile{path: filepath.Join(b.dir, fileName(name)), calendar: newCalendar(name)}, nil
	}
	lists[name] = l
	return l, err
}

// oldTodo takes what a draft would refuse, too: control characters become
// spaces, and a due time that is none goes into the description.
func oldTodo(uid, title, due, created string, completed bool, now time.Time) *component {
	title = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' {
			return ' '
		}
		return r
	}, title)
	d := draft{title: title}
	at, err := time.Parse(time.RFC3339, strings.ToUpper(due))
	if err == nil {
		d.due = at.UTC()
	}
	todo := d.todo(uid, now)
	if err != nil && due != "" {
		todo.set("DESCRIPTION", escape("due "+strings.ToValidUTF8(due, "?")))
	}
	if t, err := time.Parse(time.RFC3339, created); err == nil {
		todo.set("CREATED", t.UTC().Format(utcTime))
	}
	if completed {
		todo.set("STATUS", "COMPLETED")
		todo.set("PERCENT-COMPLETE", "100")
	}
	return todo
}
