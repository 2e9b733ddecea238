// Package eventlog keeps what a session told the person before it, an event a line, for
// whoever looks later or from another terminal (U-10, U-23).
//
// It promises that a log is bounded, that a reader knows when its writer is gone however
// that ended, and that nothing is read through a link. It proves nothing: the audit chain
// does.
package eventlog

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// MaxBytes is how long a log becomes; what comes then is left out, but for the end.
	MaxBytes = 16 << 20
	// MaxLine is the longest event, in bytes; a longer one loses its data.
	MaxLine = 256 << 10
	// lookEvery is how often a reader looks for what was written.
	lookEvery = 100 * time.Millisecond
	// lockEvery is how often a writer tries to be alone, lockLimit for how long.
	lockEvery = 5 * time.Millisecond
	lockLimit = 5 * time.Second
	// maxTail is how much of a log's end is read for the newest event.
	maxTail = 2 * MaxLine
)

// Cut names the event that stands where a log became too long.
const Cut = "cut"

// Event is one line. Data is what its name says, without secrets.
type Event struct {
	Time time.Time       `json:"time"`
	Name string          `json:"event"`
	Data json.RawMessage `json:"data,omitempty"`
}

// Options of a log. All are required.
type Options struct {
	Now func() time.Time
	// Clean takes secrets out of a JSON document.
	Clean func(document []byte) []byte
}

// Log is open for writing. A nil log takes everything and keeps nothing. Its methods may
// be called concurrently.
type Log struct {
	options Options

	mu   sync.Mutex
	file *os.File // nil once it is closed
	size int64
	full bool
}

// Open opens the log at path, or makes it, and goes on behind what is there. Its writer
// is alone: whoever comes second is refused.
func Open(path string, o Options) (*Log, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	l := &Log{options: o, file: f}
	if err := l.lock(); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), f.Close())
	}
	return l, nil
}

// lock takes the log, and ends the line of a writer that was killed in the middle of it.
func (l *Log) lock() error {
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is not a regular file")
	}
	if err := alone(l.file); err != nil {
		return err
	}
	if info, err = l.file.Stat(); err != nil || info.Size() == 0 {
		return err
	}
	l.size = info.Size()
	last := make([]byte, 1)
	if _, err := l.file.ReadAt(last, l.size-1); err != nil || last[0] == '\n' {
		return err
	}
	return l.append([]byte{'\n'})
}

// alone takes the writer's place, which readers have for a moment.
func alone(f *os.File) error {
	for began := time.Now(); ; time.Sleep(lockEvery) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		if time.Since(began) > lockLimit {
			return errors.New("somebody else writes it")
		}
	}
}

// Write keeps an event. Where the log is full, it says so once, and keeps nothing more.
func (l *Log) Write(name string, data any) error {
	if l == nil {
		return nil
	}
	return l.write(name, data, l.options.Clean)
}

// WriteOwn keeps an event in which no word is an agent's or a service's. Such an event cannot hold
// a secret, and looking for one takes as long as all else that a short session does.
func (l *Log) WriteOwn(name string, data any) error {
	if l == nil {
		return nil
	}
	return l.write(name, data, asItIs)
}

func asItIs(document []byte) []byte { return document }

func (l *Log) write(name string, data any, clean func([]byte) []byte) error {
	line, err := l.line(name, data, clean)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.file == nil || l.full:
		return nil
	case l.size+int64(len(line)) <= MaxBytes:
		return l.append(line)
	}
	l.full = true
	if line, err = l.line(Cut, nil, asItIs); err != nil {
		return err
	}
	return l.append(line)
}

// End keeps a last event, however long the log is, and closes it. own says that no word
// of it is an agent's or a service's.
func (l *Log) End(name string, data any, own bool) error {
	if l == nil {
		return nil
	}
	clean := l.options.Clean
	if own {
		clean = asItIs
	}
	line, err := l.line(name, data, clean)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return err
	}
	if err == nil {
		err = l.append(line)
	}
	err = errors.Join(err, l.file.Close())
	l.file = nil
	return err
}

// line is an event as it is written.
func (l *Log) line(name string, data any, clean func([]byte) []byte) ([]byte, error) {
	e := Event{Time: l.options.Now().UTC(), Name: name}
	if data != nil {
		raw, err := json.Marshal(data)
		if err != nil {
			return nil, fmt.Errorf("event %s: %w", name, err)
		}
		if len(raw) <= MaxLine/2 { // what is longer is not searched for secrets, and so not kept
			e.Data = clean(raw)
		}
	}
	line, err := json.Marshal(e)
	if err == nil && len(line) >= MaxLine { // what stands for a secret may be longer than it
		e.Data = nil
		line, err = json.Marshal(e)
	}
	return append(line, '\n'), err
}

// append is called with mu held, or before anybody else has the log.
func (l *Log) append(line []byte) error {
	n, err := l.file.Write(line)
	l.size += int64(n)
	return err
}

// Read gives the events of a log to each, in order. With follow it goes on until the
// writer is gone, ctx ends, or each returns an error.
func Read(ctx context.Context, path string, follow bool, each func(Event) error) error {
	f, err := open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	r := reader{lines: bufio.NewReaderSize(f, MaxLine), each: each}
	for over := !follow; ; {
		if err := r.all(); err != nil || over {
			return err
		}
		if over, err = left(f); err != nil {
			return err
		}
		if over { // and what it wrote last is read
			continue
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lookEvery):
		}
	}
}

func open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// left reports whether nobody writes the log any more.
func left(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
}

// reader reads lines as far as they are whole.
type reader struct {
	lines *bufio.Reader
	begun []byte
	each  func(Event) error
}

// all gives what is there to each.
func (r *reader) all() error {
	for {
		part, err := r.lines.ReadSlice('\n')
		r.begun = append(r.begun, part...)
		switch {
		case len(r.begun) > MaxLine || errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("the event log holds a line of more than %d bytes", MaxLine)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		line := r.begun
		r.begun = nil
		if e, ok := parse(line); ok {
			if err := r.each(e); err != nil {
				return err
			}
		}
	}
}

// parse reads a line. One that a writer was killed in is not an event.
func parse(line []byte) (e Event, ok bool) {
	return e, json.Unmarshal(line, &e) == nil && e.Name != ""
}

// Newest is the newest event of these names, and false where the log's end has none.
func Newest(path string, names ...string) (Event, bool) {
	last := Last(path, 1, names...)
	if len(last) == 0 {
		return Event{}, false
	}
	return last[0], true
}

// Last are the newest events of these names, at most n of them, in their order: as far as
// the log's end has them.
func Last(path string, n int, names ...string) []Event {
	f, err := open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	tail, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-maxTail), maxTail))
	if err != nil {
		return nil
	}
	var found []Event
	for line := range bytes.Lines(tail) { // the first may be the rest of one
		if e, ok := parse(line); ok && slices.Contains(names, e.Name) {
			found = append(found, e)
		}
	}
	return found[max(0, len(found)-n):]
}
