package brain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// How long a brain is waited for.
const (
	// interruptGrace is for a brain that was asked to stop.
	interruptGrace = 300 * time.Millisecond
	// exitGrace is for a brain that finished its turn or closed its output.
	exitGrace = 5 * time.Second
	// killGrace is for the pipes and the exit of a brain that was killed.
	killGrace = 5 * time.Second
)

// conversation is one process being talked to.
type conversation struct {
	p       Process
	d       dialect
	s       *stream
	lines   chan []byte
	readErr error // why lines ended; valid once lines is closed
	stop    chan struct{}
	written chan struct{}
	complaints
	ended

	patience *patience
	failure  *Failure
	killed   bool
	closed   bool
	forced   bool
}

// complaints are what a brain prints on stderr.
type complaints struct {
	stderr chan struct{} // closed at its end
	tail   tail
	said   chan string // its lines, where the dialect wants them
}

// ended is how a brain ended, once exited is closed.
type ended struct {
	exited  chan struct{}
	code    int
	waitErr error
}

// converse talks to p in the dialect d until p has ended.
func converse(ctx context.Context, p Process, d dialect, emit func(Event)) error {
	c := &conversation{
		p: p, d: d, s: &stream{emit: emit, outbox: newOutbox()}, patience: newPatience(),
		lines: make(chan []byte), stop: make(chan struct{}), written: make(chan struct{}), ended: ended{exited: make(chan struct{})},
		complaints: complaints{stderr: make(chan struct{}), tail: tail{max: stderrTail}, said: make(chan string)},
	}
	c.start()
	if err := d.begin(c.s); err != nil {
		c.broken(err)
	}
	gone := c.listen(ctx)
	c.s.outbox.close()
	close(c.stop)
	if gone {
		_ = p.Stdin().Close() // frees a writer whose reader is gone
		<-c.written
	}
	return c.finish(gone)
}

// start begins the four goroutines that end with the process.
func (c *conversation) start() {
	go func() {
		defer close(c.lines)
		reader := newLineReader(c.p.Stdout())
		for {
			line, err := reader.next()
			if err != nil {
				c.readErr = err
				return
			}
			select {
			case c.lines <- line:
			case <-c.stop:
				return
			}
		}
	}()
	go func() {
		defer close(c.stderr)
		var to io.Writer = &c.tail
		if _, wanted := c.d.(complainer); wanted {
			to = io.MultiWriter(&c.tail, &ear{lines: c.said, stop: c.stop})
		}
		_, _ = io.Copy(to, c.p.Stderr()) // its end is all that matters
	}()
	go func() {
		defer close(c.exited)
		c.code, c.waitErr = c.p.Wait()
	}()
	go func() {
		defer close(c.written)
		c.s.outbox.drain(c.p.Stdin())
	}()
}

// listen handles lines until the process has ended and its pipes are read
// out. It reports false when even killing did not end it.
func (c *conversation) listen(ctx context.Context) bool {
	lines, stderr, exited, cancelled := c.lines, c.stderr, c.exited, ctx.Done()
	defer c.patience.stop()
	for lines != nil || stderr != nil || exited != nil {
		switch {
		case c.killed:
			c.patience.shorten(killGrace)
		case c.s.finished || lines == nil || exited == nil:
			c.patience.shorten(exitGrace)
		}
		select {
		case line, more := <-lines:
			if !more {
				lines = nil
				c.outputEnded()
			} else {
				c.takes(func() error { return c.d.line(c.s, line) })
			}
		case line := <-c.said:
			c.takes(func() error { return c.d.(complainer).complaint(c.s, line) })
		case <-stderr:
			stderr = nil
		case <-exited:
			exited = nil
		case <-cancelled:
			cancelled = nil
			c.cancel(ctx)
		case <-c.patience.over():
			if !c.escalate(exited == nil) {
				return false
			}
		}
	}
	return true
}

// takes handles a line, unless the brain has already been given up on.
func (c *conversation) takes(line func() error) {
	if c.failure != nil && c.failure.cause == nil {
		return
	}
	if err := line(); err != nil && c.failure == nil {
		c.broken(err)
	}
}

func (c *conversation) outputEnded() {
	if c.failure == nil && errors.Is(c.readErr, errLineTooLong) {
		c.broken(c.readErr)
	}
}

// broken ends a brain that did not keep to its protocol, or to what it was
// allowed.
func (c *conversation) broken(err error) {
	if failure, ok := errors.AsType[*Failure](err); ok {
		c.failure = failure
	} else {
		c.failure = &Failure{Class: ClassProtocol, Message: err.Error()}
	}
	c.kill()
}

func (c *conversation) cancel(ctx context.Context) {
	if c.failure == nil {
		c.failure = &Failure{Class: ClassKilled, Message: "stopped by the host: " + context.Cause(ctx).Error(), cause: ctx.Err()}
	}
	if c.killed || !c.d.interrupt(c.s) {
		c.kill()
		return
	}
	c.patience.shorten(interruptGrace)
}

// escalate is what follows when patience is over: kill, then close pipes that
// were left to others, then give up.
func (c *conversation) escalate(exited bool) bool {
	switch {
	case !c.killed:
		if c.failure == nil && !c.s.finished && !exited {
			c.failure = &Failure{Class: ClassProtocol, Message: "the brain closed its output and did not exit"}
		}
		c.forced = c.s.finished && c.failure == nil
		c.kill()
		if exited {
			c.closePipes()
		}
	case !c.closed:
		c.closePipes()
	default:
		return false
	}
	return true
}

func (c *conversation) kill() {
	c.killed = true
	c.patience.renew()
	_ = c.p.Kill() // Wait tells whether it ended
}

func (c *conversation) closePipes() {
	c.closed = true
	c.patience.renew()
	for _, r := range []io.Reader{c.p.Stdout(), c.p.Stderr()} {
		if closer, ok := r.(io.Closer); ok {
			_ = closer.Close() // its reader sees the end
		}
	}
}

// finish emits what is owed and the one terminal event.
func (c *conversation) finish(gone bool) error {
	last := c.last(gone)
	c.s.settle()
	c.s.emit(last)
	if last.Kind == Done {
		return nil
	}
	if c.failure == nil {
		c.failure = &Failure{Class: last.Class}
	}
	c.failure.Message = last.Text
	return c.failure
}

func (c *conversation) last(gone bool) Event {
	var e Event
	switch {
	case !gone:
		e = Event{Kind: Error, Class: ClassKilled, Text: "the brain could not be ended"}
	case c.failure != nil:
		e = Event{Kind: Error, Class: c.failure.Class, Text: c.failure.Message}
	case c.waitErr != nil:
		e = Event{Kind: Error, Class: ClassKilled, Text: fmt.Sprintf("wait: %v", c.waitErr)}
	default:
		e = c.d.end(exit{c.code, c.forced})
	}
	if gone && e.Kind == Error && (e.Class == ClassKilled || e.Class == ClassProtocol) && len(c.tail.buf) > 0 {
		start := max(0, len(c.tail.buf)-stderrInText)
		said := strings.Join(strings.Fields(clip(string(c.tail.buf[start:]), stderrInText)), " ")
		if said != "" && strings.TrimPrefix(said, "brain: ") != e.Text { // our own loop says it twice
			e.Text += "; it said: " + said
		}
	}
	return e
}

// unfinished is how a turn ended that the brain never said the end of.
func unfinished(code int) Event {
	switch {
	case code > 128:
		return Event{Kind: Error, Class: ClassKilled, Text: fmt.Sprintf("the brain was ended by signal %d", code-128)}
	case code != 0:
		return Event{Kind: Error, Class: ClassProtocol, Text: fmt.Sprintf("the brain exited with %d and did not finish its turn", code)}
	}
	return Event{Kind: Error, Class: ClassProtocol, Text: "the brain exited and did not finish its turn"}
}

// patience is one timer that can only be made shorter, until it is renewed.
type patience struct {
	timer *time.Timer
	until time.Time
}

func newPatience() *patience {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &patience{timer: t}
}

func (p *patience) shorten(d time.Duration) {
	until := time.Now().Add(d)
	if p.until.IsZero() || until.Before(p.until) {
		p.until = until
		p.timer.Reset(d)
	}
}

func (p *patience) over() <-chan time.Time { return p.timer.C }

func (p *patience) renew() { p.until = time.Time{} }

func (p *patience) stop() { p.timer.Stop() }
