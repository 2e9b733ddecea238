// Package inbox keeps each message that a nacre serve has taken, so that a process that dies with one
// loses none (D-33, M-52). It is kept from before its channel is told so until it was dealt with.
//
// It promises that what [Box.Keep] took outlasts the process and a power cut. A message is one
// process's at a time: who finds a dead one's takes it by one rename. A message is begun twice at
// most, the second time by whoever carries on what was interrupted. A message that its channel brings
// again is refused, also after it was dealt with and over restarts (M-48). It does not know what a
// message says, starts nothing, and does not decide who is dead.
package inbox

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/node"
)

const (
	// maxBegun is how often work on one message begins.
	maxBegun = 2
	// maxTries is how often a message is offered again that could not be begun.
	maxTries = 3
)

// Why a message is refused.
var (
	ErrFull    = errors.New("too many of the group's messages are waiting")
	ErrUnknown = errors.New("no such message is kept here")
	// ErrRepeated says that its channel brought it before: it was taken then.
	ErrRepeated = errors.New("the message was taken before")
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
	// Conversation is the one that it went on with when it came; empty where it begins anew.
	Conversation string `json:"conversation,omitempty"`
	// Begun is how often work on it has begun.
	Begun int `json:"begun"`
	// Once says that ID is made by [Name]: what comes with the same one is a repetition.
	Once    bool            `json:"once,omitempty"`
	Payload json.RawMessage `json:"payload"`
}

// Name is the id of a message that its channel names: the same one each time that the
// channel brings it.
func Name(source, channel, ref string) string {
	sum := sha256.New()
	for _, part := range []string{source, channel, ref} {
		_, _ = fmt.Fprintf(sum, "%d:%s", len(part), part) // a hash takes everything
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// Lost tells that nobody begins with it again: it was interrupted as often as it
// may be.
func (m Message) Lost() bool { return m.Begun >= maxBegun }

// Box holds one process's messages. It is safe for concurrent use, and so are
// several processes on one folder.
type Box struct {
	place place
	limit int

	mu   sync.Mutex
	mine map[string]*entry
	// keeping are the groups of messages that are being written down.
	keeping map[string]nacre.Group
	// busy are the messages about which something is being written, with what is closed then.
	busy map[string]chan struct{}
}

type entry struct {
	Message
	offered bool
	// before is how often it was begun when it was offered, and tries how often it was
	// offered again because it was not begun then.
	before, tries int
}

// place is where messages are kept: a folder, or the database of several nodes.
type place interface {
	// write keeps a message, and again each time that it begins. The first time it is
	// ErrRepeated for a message that may come once and that came before.
	write(m Message) error
	// remove takes a message away; known leaves that it was here, for a message that may come once.
	remove(m Message, known bool) error
	// take makes messages this process's whose holder is gone.
	take(alive func(holder string) bool) ([]Message, error)
	// strays are ids of messages of this process's that are not among the known ones, and adopt
	// settles what becomes of such a one: nobody knew whether it was written.
	strays(known []string) ([]string, error)
	adopt(id string) (m Message, found bool, err error)
	// every is how often take is to be asked.
	every() time.Duration
	// over is closed when this process may begin nothing more.
	over() <-chan struct{}
	close(empty bool) error
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
	f := folder{root: root, self: filepath.Join(root, holder), moving: new(sync.Mutex)}
	if err := os.MkdirAll(f.self, 0o700); err != nil {
		return nil, err
	}
	return newBox(f, limit), disk.SyncDir(root)
}

func newBox(at place, limit int) *Box {
	return &Box{place: at, limit: limit, mine: map[string]*entry{}, keeping: map[string]nacre.Group{}, busy: map[string]chan struct{}{}}
}

// Every is how often [Box.TakeOver] is to be asked.
func (b *Box) Every() time.Duration { return b.place.every() }

// hold waits until nobody writes about a message, and lets others wait until it is released.
func (b *Box) hold(id string) (release func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.busy[id] != nil {
		other := b.busy[id]
		b.mu.Unlock()
		<-other
		b.mu.Lock()
	}
	done := make(chan struct{})
	b.busy[id] = done
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.busy, id)
		close(done)
	}
}

// Over is closed when other nodes carry on what is in the box; that of a folder never is.
func (b *Box) Over() <-chan struct{} { return b.place.over() }

// IsOver tells of an error that says that other nodes declared this one over.
func IsOver(err error) bool { return errors.Is(err, node.ErrOver) }

// Node is this process among several that share a database; nil for a box in a folder.
func (b *Box) Node() *node.Node {
	if s, ok := b.place.(*shared); ok {
		return s.node
	}
	return nil
}

// Close ends the use of the box. What is still in it is there for whoever takes it over.
func (b *Box) Close() error {
	b.mu.Lock()
	empty := len(b.mine) == 0 && len(b.keeping) == 0
	b.mu.Unlock()
	return b.place.close(empty)
}

// Keep writes a message down. With nil it is there until [Box.Remove]. ErrFull says that its group
// has as many as it may, and ErrRepeated that it was taken before.
func (b *Box) Keep(m Message) error {
	if err := m.check(); err != nil {
		return err
	}
	defer b.hold(m.ID)()
	if err := b.reserve(m); err != nil {
		return err
	}
	err := b.place.write(m)
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.keeping, m.ID)
	if err == nil {
		b.mine[m.ID] = &entry{Message: m}
	}
	return err
}

// reserve makes room for a message while it is written down.
func (b *Box) reserve(m Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mine[m.ID] != nil && m.Once {
		return ErrRepeated
	}
	if b.mine[m.ID] != nil {
		return fmt.Errorf("inbox: message %s is kept already", m.ID)
	}
	of := 0
	for _, e := range b.mine {
		if e.Group == m.Group {
			of++
		}
	}
	for _, group := range b.keeping {
		if group == m.Group {
			of++
		}
	}
	if of >= b.limit {
		return ErrFull
	}
	b.keeping[m.ID] = m.Group
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
	e.offered, e.before = true, e.Begun
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

// Retry is Withdraw for a message that was not begun since it was offered: what failed
// was not the message's fault. After maxTries it is.
func (b *Box) Retry(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.mine[id]
	if e == nil || e.Begun != e.before || e.tries == maxTries {
		return false
	}
	e.offered = false
	e.tries++
	return true
}

// Get gives a message that is here, as it is kept.
func (b *Box) Get(id string) (Message, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.mine[id]
	if e == nil {
		return Message{}, false
	}
	return e.Message, true
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
	defer b.hold(id)()
	begun, ok := b.Get(id)
	if !ok || begun.Lost() {
		return Message{}, fmt.Errorf("%w: %.80q", ErrUnknown, id)
	}
	begun.Begun++
	if err := b.place.write(begun); err != nil {
		return Message{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mine[id].Message = begun
	return begun, nil
}

// Remove forgets a message that was dealt with. Where it cannot be removed, nothing is
// forgotten; [ErrUnknown] says that another node has it by now.
func (b *Box) Remove(id string) error { return b.remove(id, true) }

// Discard takes back that a message was kept, whose channel is told so: it may come again.
func (b *Box) Discard(id string) error { return b.remove(id, false) }

func (b *Box) remove(id string, known bool) error {
	defer b.hold(id)()
	m, ok := b.Get(id)
	if !ok {
		return nil
	}
	if err := b.place.remove(m, known); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.mine, id)
	return nil
}

// TakeOver makes what processes that are not alive left this one's, and gives it in the order in
// which it was taken. [Message.Lost] is to be asked of each. With it come messages of this process's
// of which nobody knew whether they were written. What cannot be read is put aside where it is, and
// is an error beside the messages. Nodes of one database know of each other who is alive.
func (b *Box) TakeOver(alive func(holder string) bool) ([]Message, error) {
	taken, err := b.place.take(alive)
	b.mu.Lock()
	for _, m := range taken {
		b.mine[m.ID] = &entry{Message: m}
	}
	known := make([]string, 0, len(b.mine)+len(b.keeping)) // not nil, which no id is compared to
	known = slices.AppendSeq(slices.AppendSeq(known, maps.Keys(b.mine)), maps.Keys(b.keeping))
	b.mu.Unlock()
	strays, failed := b.place.strays(known)
	errs := []error{err, failed}
	for _, id := range strays {
		m, found, err := b.adopt(id)
		errs = append(errs, err)
		if found {
			taken = append(taken, m)
		}
	}
	slices.SortFunc(taken, inOrder)
	return taken, errors.Join(errs...)
}

// adopt settles what becomes of a message that was a stray when strays were looked for.
func (b *Box) adopt(id string) (Message, bool, error) {
	defer b.hold(id)()
	if b.Has(id) {
		return Message{}, false, nil
	}
	m, found, err := b.place.adopt(id)
	if found {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.mine[id] = &entry{Message: m}
	}
	return m, found, err
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

func inOrder(a, b Message) int {
	return cmp.Or(a.Taken.Compare(b.Taken), strings.Compare(a.ID, b.ID))
}
