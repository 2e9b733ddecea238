package brain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"
)

// Limits on what a brain may make the host hold.
const (
	maxID        = 256
	maxPending   = 4096
	maxGarbage   = 1000
	maxRaw       = 64 << 10
	maxGarbled   = 4 << 10
	maxQueued    = 2 * MaxLine
	maxQueueLen  = 1024
	stderrTail   = 16 << 10
	stderrInText = 2 << 10
)

// dialect is how one kind of brain speaks.
type dialect interface {
	// begin sends what the brain waits for.
	begin(s *stream) error
	// line takes one line of output. An error breaks the protocol: the brain
	// is killed and the stream ends with it.
	line(s *stream, line []byte) error
	// interrupt asks the brain to stop and reports whether that was possible.
	interrupt(s *stream) bool
	// end says how the turn ended when the process has.
	end(x exit) Event
}

// complainer is a dialect that reads the brain's standard error too.
type complainer interface {
	complaint(s *stream, line string) error
}

// exit is how a process ended.
type exit struct {
	code int
	// forced is true where the host ended a brain that had finished its turn.
	forced bool
}

// stream keeps a brain's events well-formed and queues what is said to it.
type stream struct {
	emit     func(Event)
	outbox   *outbox
	pending  []string
	garbage  int
	finished bool
}

// event passes one event on. A call without an id breaks the protocol; what
// would break the order of calls and results is passed as raw.
func (s *stream) event(e Event) error {
	switch e.Kind {
	case ToolCall:
		return s.call(e)
	case ToolResult:
		i := slices.Index(s.pending, e.ID)
		if i < 0 {
			e = Event{Kind: Raw, Name: "tool_result without a call", ID: clip(e.ID, maxID), Text: clip(e.Text, maxGarbled)}
		} else {
			s.pending = slices.Delete(s.pending, i, i+1)
		}
	}
	s.emit(e)
	return nil
}

func (s *stream) call(e Event) error {
	switch {
	case e.ID == "" || len(e.ID) > maxID || len(e.Name) > maxID:
		return fmt.Errorf("a tool call whose id or name has not 1–%d bytes", maxID)
	case len(s.pending) >= maxPending:
		return fmt.Errorf("more than %d tool calls without a result", maxPending)
	case slices.Contains(s.pending, e.ID):
		e = Event{Kind: Raw, Name: "tool_call with an id in use", ID: e.ID}
	default:
		s.pending = append(s.pending, e.ID)
	}
	s.emit(e)
	return nil
}

// raw passes what the dialect does not know, without its bulk.
func (s *stream) raw(name string, line []byte) error {
	e := Event{Kind: Raw, Name: clip(name, maxID)}
	if len(line) <= maxRaw {
		e.Input = json.RawMessage(line)
	} else {
		e.Text = fmt.Sprintf("%d bytes left out", len(line))
	}
	s.emit(e)
	return nil
}

// garbled passes a line that is not JSON. A brain that writes little else is ended.
func (s *stream) garbled(line []byte) error {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	if s.garbage++; s.garbage > maxGarbage {
		return fmt.Errorf("more than %d lines are not JSON", maxGarbage)
	}
	s.emit(Event{Kind: Raw, Name: "not JSON", Text: clip(string(line[:min(len(line), maxGarbled)]), maxGarbled)})
	return nil
}

// finish says that the turn is over: the brain is given its end of input and
// a short while to exit.
func (s *stream) finish() {
	s.finished = true
	s.outbox.close()
}

// settle answers the calls that never got a result.
func (s *stream) settle() {
	for _, id := range s.pending {
		s.emit(Event{Kind: ToolResult, ID: id, IsError: true, Text: "no result: the brain ended before it gave one"})
	}
	s.pending = nil
}

// send queues one JSON line for the brain.
func (s *stream) send(message any) error {
	line, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("message for the brain: %w", err)
	}
	return s.outbox.put(append(line, '\n'))
}

var errNotReading = errors.New("the brain does not read what it asked for")

// outbox is a queue to a brain's standard input that never makes its owner
// wait. put and close belong to one goroutine, drain to another.
type outbox struct {
	lines  chan []byte
	queued atomic.Int64
	closed bool
}

func newOutbox() *outbox { return &outbox{lines: make(chan []byte, maxQueueLen)} }

func (o *outbox) put(line []byte) error {
	if o.closed {
		return nil // the turn is over, and so is what would be said
	}
	if o.queued.Add(int64(len(line))) > maxQueued {
		return errNotReading
	}
	select {
	case o.lines <- line:
		return nil
	default:
		return errNotReading
	}
}

func (o *outbox) close() {
	if !o.closed {
		o.closed = true
		close(o.lines)
	}
}

// drain writes the queue to w until the outbox is closed, then closes w. A
// brain that no longer reads shows by its exit, so write errors are not kept.
func (o *outbox) drain(w interface {
	Write([]byte) (int, error)
	Close() error
}) {
	broken := false
	for line := range o.lines {
		if !broken {
			_, err := w.Write(line)
			broken = err != nil
		}
		o.queued.Add(-int64(len(line)))
	}
	_ = w.Close() // the brain may have closed its end first
}

// clip makes s valid UTF-8 of at most limit bytes.
func clip(s string, limit int) string {
	if len(s) > limit {
		cut := limit
		for cut > 0 && cut > limit-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
