// Package mux promises many streams over one that carries bytes both ways. No stream holds up
// another one, and what one end can make the other keep is bounded. Whoever breaks its rules loses
// all of its streams. It links nothing of package net: PID 1 of a sandbox speaks it.
package mux

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

const (
	// window is how much of a stream is on its way at most, in bytes.
	window = 128 << 10
	// maxPayload of a frame, in bytes.
	maxPayload = 32 << 10
	// maxStreams are open at once at most. An end opens only maxOpened: the other one may learn a little
	// later which of them have ended.
	maxStreams, maxOpened = 512, 384
	headSize              = 9
)

// The kinds of frames: each has a kind, the number of its stream, and a payload with its length.
const (
	kindOpen   = iota + 1 // the payload is the stream's name
	kindData              //
	kindCredit            // the payload is how much more may come
	kindEnd               // nothing more comes
	kindReset             // nothing more is sent or taken
)

// errBroken is what a session ends with whose other end breaks the rules.
var errBroken = errors.New("the other end of the streams breaks their rules")

// Session is one end of what carries the streams. It may be used concurrently.
type Session struct {
	to      io.Writer
	writing sync.Mutex
	accept  func(name string, s *Stream)
	mine    uint32 // whether the numbers of this end are odd

	mu      sync.Mutex
	streams map[uint32]*Stream
	next    uint32
	err     error
}

// Open begins a session. The two ends differ in first. accept is called, each time in a goroutine
// of its own, with each stream that the other end opens.
func Open(from io.Reader, to io.Writer, first bool, accept func(name string, s *Stream)) *Session {
	s := &Session{to: to, accept: accept, streams: map[uint32]*Stream{}, next: 2}
	if first {
		s.mine, s.next = 1, 1
	}
	go func() {
		s.fail(s.read(from))
		_, _ = io.Copy(io.Discard, from) // whoever writes there waits for nothing, and its end is seen
	}()
	return s
}

// Close ends all streams. What carries them stays open.
func (s *Session) Close() { s.fail(io.ErrClosedPipe) }

// Stream opens one.
func (s *Session) Stream(name string) (*Stream, error) {
	s.mu.Lock()
	id := s.next
	s.next += 2
	st, err := s.add(id, maxOpened)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return st, s.send(kindOpen, id, []byte(name))
}

// add is called with mu held.
func (s *Session) add(id uint32, limit int) (*Stream, error) {
	switch {
	case s.err != nil:
		return nil, s.err
	case len(s.streams) >= limit:
		return nil, fmt.Errorf("more than %d streams", limit)
	}
	st := &Stream{session: s, id: id, credit: window}
	st.changed.L = &st.mu
	s.streams[id] = st
	return st, nil
}

func (s *Session) send(kind byte, id uint32, payload []byte) error {
	frame := make([]byte, headSize, headSize+len(payload))
	frame[0] = kind
	binary.BigEndian.PutUint32(frame[1:], id)
	binary.BigEndian.PutUint32(frame[5:], uint32(len(payload))) //nolint:gosec // maxPayload at most
	s.writing.Lock()
	_, err := s.to.Write(append(frame, payload...))
	s.writing.Unlock()
	if err != nil {
		s.fail(err)
	}
	return err
}

// fail ends all streams; the first reason counts.
func (s *Session) fail(err error) {
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	s.mu.Lock()
	if s.err == nil {
		s.err = err
	}
	streams := s.streams
	s.streams = map[uint32]*Stream{}
	s.mu.Unlock()
	for _, st := range streams {
		st.fail(err)
	}
}

// read takes frames until there are none. It never waits for whoever reads a stream.
func (s *Session) read(from io.Reader) error {
	var head [headSize]byte
	for {
		if _, err := io.ReadFull(from, head[:]); err != nil {
			return err
		}
		size := binary.BigEndian.Uint32(head[5:])
		if size > maxPayload {
			return errBroken
		}
		payload := make([]byte, size)
		if _, err := io.ReadFull(from, payload); err != nil {
			return err
		}
		if err := s.take(head[0], binary.BigEndian.Uint32(head[1:]), payload); err != nil {
			return err
		}
	}
}

func (s *Session) take(kind byte, id uint32, payload []byte) error {
	s.mu.Lock()
	st := s.streams[id]
	if kind != kindOpen {
		s.mu.Unlock()
		if st == nil {
			return nil // it was closed here
		}
		return st.take(kind, payload)
	}
	defer s.mu.Unlock()
	if st != nil || id&1 == s.mine || s.accept == nil {
		return errBroken
	}
	st, err := s.add(id, maxStreams)
	if err != nil {
		return err
	}
	go s.accept(string(payload), st)
	return nil
}

func (s *Session) forget(id uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, id)
}

// Stream carries bytes both ways; each direction ends by itself. One goroutine may read it, and one
// may write to it.
type Stream struct {
	session *Session
	id      uint32

	mu        sync.Mutex
	changed   sync.Cond
	came      []byte
	read      uint32 // and not yet told
	credit    int
	theirs    bool // the other end sends no more
	ours      bool // this end sends no more
	err       error
	deadline  *time.Timer
	expired   bool
	forgotten bool
}

func (st *Stream) take(kind byte, payload []byte) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	defer st.changed.Broadcast()
	switch kind {
	case kindData:
		if len(st.came)+len(payload)+int(st.read) > window || st.theirs {
			return errBroken
		}
		st.came = append(st.came, payload...)
	case kindCredit:
		if len(payload) != 4 {
			return errBroken
		}
		st.credit += int(binary.BigEndian.Uint32(payload))
		if st.credit > window {
			return errBroken
		}
	case kindEnd:
		st.theirs = true
	case kindReset:
		st.theirs = true
		if st.err == nil {
			st.err = io.ErrClosedPipe
		}
	default:
		return errBroken
	}
	return nil
}

func (st *Stream) fail(err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.err == nil {
		st.err = err
	}
	st.changed.Broadcast()
}

// Read implements [io.Reader].
func (st *Stream) Read(p []byte) (int, error) {
	st.mu.Lock()
	for len(st.came) == 0 && !st.theirs && st.err == nil && !st.expired {
		st.changed.Wait()
	}
	n := copy(p, st.came)
	st.came = st.came[n:]
	err := st.end(n)
	st.read += uint32(n) //nolint:gosec // window at most
	told := st.read
	if told < window/2 {
		told = 0
	}
	st.read -= told
	ended := st.theirs
	st.mu.Unlock()
	if told > 0 && !ended {
		return n, st.session.send(kindCredit, st.id, binary.BigEndian.AppendUint32(nil, told))
	}
	return n, err
}

// end is why there is nothing to read; nil where there was. It is called with mu held.
func (st *Stream) end(n int) error {
	switch {
	case n > 0:
		return nil
	case st.expired:
		return os.ErrDeadlineExceeded
	case st.theirs && st.err == nil:
		return io.EOF
	}
	return st.err
}

// Write implements [io.Writer].
func (st *Stream) Write(p []byte) (int, error) {
	for n := 0; n < len(p); {
		st.mu.Lock()
		for st.credit == 0 && st.err == nil && !st.ours {
			st.changed.Wait()
		}
		if st.err != nil || st.ours {
			st.mu.Unlock()
			return n, io.ErrClosedPipe
		}
		size := min(len(p)-n, st.credit, maxPayload)
		st.credit -= size
		st.mu.Unlock()
		if err := st.session.send(kindData, st.id, p[n:n+size]); err != nil {
			return n, err
		}
		n += size
	}
	return len(p), nil
}

// CloseWrite tells the other end that nothing more comes.
func (st *Stream) CloseWrite() error {
	st.mu.Lock()
	done := st.ours || st.err != nil
	st.ours = true
	st.changed.Broadcast()
	st.mu.Unlock()
	if done {
		return nil
	}
	return st.session.send(kindEnd, st.id, nil)
}

// Close ends both directions.
func (st *Stream) Close() error {
	st.mu.Lock()
	over, closed := st.ours && st.theirs || st.err != nil, st.forgotten
	st.ours, st.forgotten = true, true
	if st.err == nil {
		st.err = io.ErrClosedPipe
	}
	st.changed.Broadcast()
	st.mu.Unlock()
	if closed {
		return nil
	}
	defer st.session.forget(st.id) // after it is told, which may wait for the other end: it counts until then
	if over {
		return nil
	}
	return st.session.send(kindReset, st.id, nil)
}

// SetReadDeadline lets Read wait until then at most; the zero time lets it wait for ever.
func (st *Stream) SetReadDeadline(at time.Time) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.deadline != nil {
		st.deadline.Stop()
	}
	st.expired = false
	if !at.IsZero() {
		st.deadline = time.AfterFunc(time.Until(at), func() {
			st.mu.Lock()
			defer st.mu.Unlock()
			st.expired = true
			st.changed.Broadcast()
		})
	}
	return nil
}

// Join carries bytes between a stream and a connection until both have ended. Each direction ends
// by itself: endWrite tells the connection that nothing more comes.
func Join(s *Stream, conn io.ReadWriter, endWrite func()) {
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(s, conn) // an error ends this direction, as the end of the stream does
		_ = s.CloseWrite()
	})
	both.Go(func() {
		_, _ = io.Copy(conn, s)
		endWrite()
	})
	both.Wait()
	_ = s.Close()
}
