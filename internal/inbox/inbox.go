// Package inbox keeps each message that a nacre serve has taken, from before its
// channel is told so until it was dealt with, so that a process that dies with one
// loses none (D-33, M-52).
//
// It promises that what [Box.Keep] took outlasts the process and a power cut; that
// a message is one process's at a time: who finds a dead one's takes it by one
// rename; and that a message is begun twice at most, the second time by whoever
// carries on what was interrupted. It does not know what a message says, starts
// nothing, and does not decide who is dead.
package inbox

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/disk"
)

const (
	// maxBegun is how often work on one message begins.
	maxBegun = 2
	// maxFile is the largest file that is a message, in bytes.
	maxFile = 1 << 20
	// kept and damaged end the names of files: of messages, and of what was one.
	kept, damaged = ".json", ".damaged"
	// unwritten begins the names of files that are being written.
	unwritten = ".new-"
)

// Why a message is refused.
var (
	ErrFull    = errors.New("too many of the group's messages are waiting")
	ErrUnknown = errors.New("no such message is kept here")
)

// Message is one that was taken.
type Message struct {
	// ID is that of its event, Session the one that works on it, named before it begins.
	ID      string          `json:"id"`
	Session nacre.SessionID `json:"session"`
	// Source is who brought it, Group whose it was when it came.
	Source string      `json:"source"`
	Group  nacre.Group `json:"group"`
	Taken  time.Time   `json:"taken"`
	// Begun is how often work on it has begun.
	Begun   int             `json:"begun"`
	Payload json.RawMessage `json:"payload"`
}

// Lost tells that nobody begins with it again: it was interrupted as often as it
// may be.
func (m Message) Lost() bool { return m.Begun >= maxBegun }

// Box holds one process's messages. It is safe for concurrent use, and so are
// several processes on one folder.
type Box struct {
	root, self string
	limit      int

	mu   sync.Mutex
	mine map[string]*entry
}

type entry struct {
	Message
	offered bool
}

// Open makes the box of one process in a folder that all of them share. holder is
// its name, one path element; limit is how many messages of one group it keeps at once.
func Open(root, holder string, limit int) (*Box, error) {
	if _, err := nacre.ParseSessionID(holder); err != nil {
		return nil, err
	}
	if limit < 1 {
		return nil, errors.New("inbox: a limit of at least 1 is required")
	}
	b := &Box{root: root, self: filepath.Join(root, holder), limit: limit, mine: map[string]*entry{}}
	if err := os.MkdirAll(b.self, 0o700); err != nil {
		return nil, err
	}
	return b, disk.SyncDir(root)
}

// Close ends the use of the box. What is still in it is there for whoever takes it over.
func (b *Box) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.mine) > 0 {
		return nil
	}
	_ = os.Remove(b.self) // what is no message stays, and its folder with it
	return nil
}

// Keep writes a message down. With nil it is there until [Box.Remove]; ErrFull says
// that its group has as many as it may.
func (b *Box) Keep(m Message) error {
	if err := m.check(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mine[m.ID] != nil {
		return fmt.Errorf("inbox: message %s is kept already", m.ID)
	}
	of := 0
	for _, e := range b.mine {
		if e.Group == m.Group {
			of++
		}
	}
	if of >= b.limit {
		return ErrFull
	}
	if err := b.write(m); err != nil {
		return err
	}
	b.mine[m.ID] = &entry{Message: m}
	return nil
}

// Offer marks a message as handed on, and reports whether it was not yet.
func (b *Box) Offer(id string) (Message, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.mine[id]
	if e == nil || e.offered {
		return Message{}, false
	}
	e.offered = true
	return e.Message, true
}

// Withdraw takes an offer back: the message waits. It reports whether it is here.
func (b *Box) Withdraw(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.mine[id]
	if e != nil {
		e.offered = false
	}
	return e != nil
}

// Has reports whether a message is here.
func (b *Box) Has(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mine[id] != nil
}

// Waiting are the messages that were not offered, in the order in which they were taken.
func (b *Box) Waiting() []Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []Message
	for _, e := range b.mine {
		if !e.offered {
			list = append(list, e.Message)
		}
	}
	slices.SortFunc(list, inOrder)
	return list
}

// Begin counts that work on a message begins, before it does. One that is lost is
// refused.
func (b *Box) Begin(id string) (Message, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.mine[id]
	if e == nil || e.Lost() {
		return Message{}, fmt.Errorf("%w: %.80q", ErrUnknown, id)
	}
	begun := e.Message
	begun.Begun++
	if err := b.write(begun); err != nil {
		return Message{}, err
	}
	e.Message = begun
	return begun, nil
}

// Remove forgets a message that was dealt with. Where its file cannot be removed,
// nothing is forgotten.
func (b *Box) Remove(id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.mine[id]
	if e == nil {
		return nil
	}
	if err := gone(os.Remove(filepath.Join(b.self, e.file()))); err != nil {
		return err
	}
	delete(b.mine, id)
	return disk.SyncDir(b.self)
}

// check refuses what could not be read again.
func (m Message) check() error {
	if m.ID == "" || len(m.ID) > 64 || strings.Trim(m.ID, "0123456789abcdefghijklmnopqrstuvwxyz") != "" {
		return fmt.Errorf("inbox: %.80q is no message's id", m.ID)
	}
	if _, err := nacre.ParseSessionID(string(m.Session)); err != nil {
		return err
	}
	if _, err := nacre.ParseGroup(string(m.Group)); err != nil {
		return err
	}
	if m.Source == "" || m.Begun < 0 || !json.Valid(m.Payload) {
		return errors.New("inbox: a message has a source and a payload")
	}
	return nil
}

// file is the name of its file: names are in the order in which messages were taken.
func (m Message) file() string { return fmt.Sprintf("%020d-%s%s", m.Taken.UnixNano(), m.ID, kept) }

func inOrder(a, b Message) int {
	return cmp.Or(a.Taken.Compare(b.Taken), strings.Compare(a.ID, b.ID))
}

// write puts a message there whole, and for a power cut too.
func (b *Box) write(m Message) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	made := filepath.Join(b.self, unwritten+m.ID)
	f, err := os.OpenFile(made, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(made, filepath.Join(b.self, m.file()))
	}
	if err != nil {
		return errors.Join(err, os.Remove(made))
	}
	return disk.SyncDir(b.self)
}

func read(path string) (m Message, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return m, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return m, errors.New("it is no message")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, err
	}
	if err := m.check(); err != nil {
		return m, err
	}
	if m.file() != filepath.Base(path) {
		return m, errors.New("it is another message than its name says")
	}
	return m, nil
}

// TakeOver makes what processes that are not alive left this one's, and gives it in
// the order in which it was taken; [Message.Lost] is to be asked of each. What
// cannot be read is put aside where it is, and is an error beside the messages.
func (b *Box) TakeOver(alive func(holder string) bool) (taken []Message, err error) {
	holders, err := os.ReadDir(b.root)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, h := range holders {
		dir := filepath.Join(b.root, h.Name())
		if !h.IsDir() || dir == b.self || alive(h.Name()) {
			continue
		}
		of, err := b.takeFrom(dir)
		taken, errs = append(taken, of...), append(errs, err)
	}
	slices.SortFunc(taken, inOrder)
	return taken, errors.Join(errs...)
}

func (b *Box) takeFrom(dir string) (taken []Message, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, gone(err)
	}
	var errs []error
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		switch {
		case strings.HasPrefix(f.Name(), unwritten):
			errs = append(errs, gone(os.Remove(path))) // nobody was told that it was taken
		case strings.HasSuffix(f.Name(), kept):
			m, ok, err := b.take(path)
			errs = append(errs, err)
			if ok {
				taken = append(taken, m)
			}
		}
	}
	if len(taken) > 0 {
		errs = append(errs, disk.SyncDir(b.self), gone(disk.SyncDir(dir)))
	}
	_ = os.Remove(dir) // where something is left, it stays
	return taken, errors.Join(errs...)
}

// take makes one message this process's, unless another one was faster.
func (b *Box) take(path string) (Message, bool, error) {
	m, err := read(path)
	var system *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return m, false, nil
	case errors.As(err, &system):
		return m, false, err
	case err != nil:
		return m, false, errors.Join(fmt.Errorf("a message is lost: %s cannot be read: %w", path, err), gone(os.Rename(path, path+damaged)))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := os.Rename(path, filepath.Join(b.self, m.file())); err != nil {
		return m, false, gone(err)
	}
	b.mine[m.ID] = &entry{Message: m}
	return m, true, nil
}

// gone is no error where another process was faster.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
