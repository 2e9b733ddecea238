package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
)

// Limits of a group's reminders.
const (
	maxReminders = 1000
	maxLists     = 100
	maxListName  = 100 // bytes
	maxFileName  = 200 // bytes
	lockWait     = 10 * time.Second
	lockPoll     = 10 * time.Millisecond
	countersFile = ".counters.json"
	folderMode   = 0o700
	fileMode     = 0o600
)

// fileBook is one group's reminders: a folder with an iCalendar file for each
// list. Other programs may read and write the files; this one replaces them
// whole, and only where nobody else wrote meanwhile.
type fileBook struct {
	dir string
	now func() time.Time
	counters
}

// counters make reminders' ids short, and never use one again.
type counters struct {
	// Book makes the UIDs of this folder unlike all others.
	Book string `json:"book"`
	Last int    `json:"last"`
}

// openFiles holds the group's lock until the book is closed: other sessions
// have handlers of their own.
func openFiles(ctx context.Context, dataDir string, group nacre.Group, now func() time.Time) (*fileBook, func(), error) {
	if _, err := nacre.ParseGroup(string(group)); err != nil {
		return nil, nil, err
	}
	b := &fileBook{dir: filepath.Join(dataDir, string(group)), now: now}
	if err := os.Mkdir(b.dir, folderMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, nil, err
	}
	unlock, err := lock(ctx, filepath.Join(b.dir, ".lock"))
	if err != nil {
		return nil, nil, err
	}
	err = b.readCounters()
	if err == nil {
		err = b.migrate(filepath.Join(dataDir, string(group)+".json"))
	}
	if err != nil {
		unlock()
		return nil, nil, err
	}
	return b, unlock, nil
}

func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, fileMode)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil // which unlocks
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(f.Close(), &plugin.ToolError{Code: "BUSY", Message: "The reminders are in use: try again", Retriable: true})
		case <-time.After(lockPoll):
		}
	}
}

func (b *fileBook) readCounters() error {
	data, err := os.ReadFile(filepath.Join(b.dir, countersFile))
	if errors.Is(err, fs.ErrNotExist) {
		b.Book = strings.ToLower(rand.Text())
		return nil
	}
	if err != nil {
		return err
	}
	if json.Unmarshal(data, &b.counters) != nil || b.Book == "" || b.Last < 0 {
		return damaged(countersFile, errors.New("not the counters of a book"))
	}
	return nil
}

// nextUID takes the next number, for good.
func (b *fileBook) nextUID() (string, error) {
	b.Last++
	data, err := json.Marshal(b.counters)
	if err != nil {
		return "", err
	}
	return b.uid(b.Last), replace(filepath.Join(b.dir, countersFile), data)
}

func (b *fileBook) uid(n int) string { return fmt.Sprintf("R-%d@%s", n, b.Book) }

// id is what an agent calls a reminder: the number of one made here, the
// whole UID of one that another program made.
func (b *fileBook) id(uid string) string { return strings.TrimSuffix(uid, "@"+b.Book) }

func (b *fileBook) list(_ context.Context, name string) ([]reminder, error) {
	l, err := b.read(fileName(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return l.calendar.reminders(name, b.id), nil
}

func (b *fileBook) create(_ context.Context, d draft) (string, error) {
	count := 0
	if err := b.each(func(l *listFile) error { count += len(l.calendar.reminders("", b.id)); return nil }); err != nil {
		return "", err
	}
	if count >= maxReminders {
		return "", &plugin.ToolError{Code: "FULL", Message: fmt.Sprintf("There are %d reminders already: delete some first", maxReminders)}
	}
	l, err := b.read(fileName(d.list))
	if errors.Is(err, fs.ErrNotExist) {
		l, err = &listFile{path: filepath.Join(b.dir, fileName(d.list)), calendar: newCalendar(d.list)}, b.roomForAList()
	}
	if err != nil {
		return "", err
	}
	uid, err := b.nextUID()
	if err != nil {
		return "", err
	}
	l.add(d.todo(uid, b.now()))
	return b.id(uid), l.write()
}

func (b *fileBook) complete(_ context.Context, id string) error {
	return b.change(id, func(l *listFile, todo *component) (bool, error) { return todo.complete(b.now()) })
}

func (b *fileBook) remove(_ context.Context, id string) error {
	return b.change(id, func(l *listFile, todo *component) (bool, error) {
		uid := todo.text("UID")
		for _, calendar := range l.calendar.children("VCALENDAR") {
			calendar.removeChildren(func(c *component) bool { return c.name == "VTODO" && c.text("UID") == uid })
		}
		return true, nil
	})
}

// change finds the one reminder of that id, and writes its list where edit changed it.
func (b *fileBook) change(id string, edit func(*listFile, *component) (bool, error)) error {
	var in *listFile
	var found []*component
	err := b.each(func(l *listFile) error {
		for _, uid := range []string{id, id + "@" + b.Book} {
			if todos := l.calendar.todos(uid); id != "" && len(todos) > 0 {
				in, found = l, append(found, todos...)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := exactlyOne(id, len(found)); err != nil {
		return err
	}
	changed, err := edit(in, found[0])
	if err != nil || !changed {
		return err
	}
	return in.write()
}

func exactlyOne(id string, found int) error {
	switch found {
	case 0:
		return &plugin.ToolError{Code: "NOT_FOUND", Message: fmt.Sprintf("Reminder %.40q does not exist", id)}
	case 1:
		return nil
	}
	return &plugin.ToolError{Code: "AMBIGUOUS", Message: fmt.Sprintf("%d reminders have the id %.40q: change them in a calendar program", found, id)}
}

// each hands over the lists one after the other, in the order of their names.
func (b *fileBook) each(do func(*listFile) error) error {
	names, err := b.names()
	for i := 0; err == nil && i < len(names); i++ {
		var l *listFile
		if l, err = b.read(names[i]); err == nil {
			err = do(l)
		}
	}
	return err
}

func (b *fileBook) names() ([]string, error) {
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".ics") && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	if len(names) > maxLists {
		return nil, &plugin.ToolError{Code: "FULL", Message: fmt.Sprintf("There are more than %d lists", maxLists)}
	}
	return names, nil
}

func (b *fileBook) roomForAList() error {
	names, err := b.names()
	if err == nil && len(names) == maxLists {
		err = &plugin.ToolError{Code: "FULL", Message: fmt.Sprintf("There are %d lists already: use one of them", maxLists)}
	}
	return err
}

// fileName is the file of a list. What might be a path is spelt out; a name
// that is too long for a file then stands as a digest.
func fileName(list string) string {
	var b strings.Builder
	for _, c := range []byte(list) {
		if c >= 0x80 || c == ' ' || c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if b.Len() > maxFileName {
		return "%" + digest(list) + ".ics"
	}
	return b.String() + ".ics"
}

// A listFile is one list as it was read.
type listFile struct {
	path     string
	calendar *component
	was      os.FileInfo // nil for a list that is new
}

// read refuses what is no calendar, and leaves it as it is.
func (b *fileBook) read(name string) (*listFile, error) {
	path := filepath.Join(b.dir, name)
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, damaged(name, errors.New("a link"))
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	was, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !was.Mode().IsRegular() {
		return nil, damaged(name, errors.New("not a regular file"))
	}
	data, err := io.ReadAll(io.LimitReader(f, maxCalendar+1))
	if err != nil {
		return nil, err
	}
	calendar, err := parseCalendar(string(data))
	if err != nil {
		return nil, damaged(name, err)
	}
	return &listFile{path: path, calendar: calendar, was: was}, nil
}

// damaged names the file for the agent, and the reason for whoever reads the handler's log.
func damaged(name string, err error) error {
	fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	return &plugin.ToolError{Code: "DAMAGED", Message: fmt.Sprintf(
		"The reminders in %.80q are damaged and were left as they are: a person has to look at the file", name)}
}

func (l *listFile) add(todo *component) {
	calendar := l.calendar.children("VCALENDAR")[0]
	calendar.parts = append(calendar.parts, part{child: todo})
}

func (l *listFile) write() error {
	data := l.calendar.String()
	if len(data) > maxCalendar {
		return &plugin.ToolError{Code: "FULL", Message: "The list has grown too large: delete reminders from it first"}
	}
	now, err := os.Lstat(l.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if (err == nil) != (l.was != nil) || err == nil && !unchanged(l.was, now) {
		return &plugin.ToolError{Code: "CONFLICT", Message: "Another program changed the list at the same time: try again", Retriable: true}
	}
	return replace(l.path, []byte(data))
}

func unchanged(was, now os.FileInfo) bool {
	return os.SameFile(was, now) && was.Size() == now.Size() && was.ModTime().Equal(now.ModTime())
}

// replace writes a file whole or not at all.
func replace(path string, data []byte) error {
	dir, name := filepath.Split(path)
	temporary := filepath.Join(dir, "."+digest(name)+".new")
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(temporary, os.O_CREATE|os.O_WRONLY|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return errors.Join(noSpace(err), os.Remove(temporary))
	}
	parent, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(parent.Sync(), parent.Close())
}

func noSpace(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return &plugin.ToolError{Code: "DISK_FULL", Message: "The disk is full: nothing was changed", Retriable: true}
	}
	return err
}

// verify reads every file of every group.
func verifyFiles(dataDir string) error {
	groups, err := os.ReadDir(dataDir)
	if err != nil {
		return err
	}
	for _, group := range groups {
		b := fileBook{dir: filepath.Join(dataDir, group.Name())}
		if _, err := nacre.ParseGroup(group.Name()); err != nil || !group.IsDir() {
			continue
		}
		if err := errors.Join(b.readCounters(), b.each(func(*listFile) error { return nil })); err != nil {
			return &plugin.ToolError{Code: plugin.CategoryConfig, Message: "A calendar file of group " + group.Name() + " is damaged"}
		}
	}
	return nil
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}
