package pluginhost

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nacre-dev/nacre/internal/wire"
	"github.com/nacre-dev/nacre/plugin"
)

// Limits of one handler's process.
const (
	maxLine     = plugin.MaxResult + 64<<10 // bytes of a line that is read whole
	maxInFlight = 64                        // requests at once
	maxQueued   = 2 * maxInFlight           // lines waiting to be written
	maxFaults   = 1000                      // lines that make no sense, until the process is ended
	forgiven    = 8                         // of them for each good answer
	maxStderr   = 8 << 10                   // last bytes of standard error that are kept
	exitGrace   = 200 * time.Millisecond    // for output still in the pipe after the process ended
	killGrace   = 5 * time.Second           // for a killed process to be gone
	stderrGrace = 50 * time.Millisecond     // for what a handler said of a call that it failed
	noteGrace   = time.Second               // before what a handler said is nobody's answer
	noteEvery   = time.Minute               // how often what a handler says is recorded
)

var (
	errCrashed = errors.New("the handler's process ended before it answered")
	errGone    = errors.New("the handler's process has ended")
	errBusy    = errors.New("the handler has too many requests in flight")
	errInvalid = errors.New("the handler's answer is not valid JSON")
	errTooBig  = errors.New("response exceeded maximum size")
)

// answer is how a request ended: a result, an error object, or err.
type answer struct {
	result json.RawMessage
	failed *plugin.RPCError
	err    error
}

// conn is one running process and the JSON-RPC connection to it. Its end is
// the process's end: dead is closed when everything has been answered.
type conn struct {
	proc  Process
	fault func(what string) // told of what the handler did wrong; must not block
	tail  *tail
	out   *outbox
	dead  chan struct{}
	ended error // why the process ended; set before dead is closed

	mu      sync.Mutex
	last    int64
	pending map[int64]chan answer
	tickets map[string]*ticket
	faults  int            // not yet forgiven
	strange map[string]int // in all, by what it was

	callbacks chan struct{} // one element for each callback being served
	serving   sync.WaitGroup
}

// newConn takes over a process. It ends with the process, never before.
func newConn(proc Process, fault func(string)) *conn {
	c := &conn{
		proc: proc, fault: fault, tail: newTail(), out: newOutbox(proc.Stdin), dead: make(chan struct{}),
		pending: map[int64]chan answer{}, tickets: map[string]*ticket{}, strange: map[string]int{}, callbacks: make(chan struct{}, maxCallbacks),
	}
	go c.run()
	return c
}

// run owns every goroutine of the connection and outlives them all.
func (c *conn) run() {
	exited := make(chan struct{})
	var reading, writing sync.WaitGroup
	writing.Go(func() { c.out.drain(exited); c.endSoon(exited) })
	reading.Go(func() { c.read(); c.endSoon(exited) })
	reading.Go(func() { c.tail.fill(c.proc.Stderr) })
	err := c.proc.Wait()
	close(exited)
	_ = c.proc.Kill()        // what the handler left behind ends with it
	_ = c.proc.Stdin.Close() // releases a write to a pipe nobody reads
	// A child that was left behind may hold the pipes open for ever.
	late := time.AfterFunc(exitGrace, func() { _, _ = c.proc.Stdout.Close(), c.proc.Stderr.Close() })
	reading.Wait()
	late.Stop()
	_, _ = c.proc.Stdout.Close(), c.proc.Stderr.Close()
	writing.Wait()
	c.abandon()
	c.serving.Wait()
	c.ended = err
	close(c.dead)
}

// lives tells whether the process is still there after so long, unless ctx ends before.
func (c *conn) lives(ctx context.Context, after time.Duration) bool {
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-c.dead:
	case <-timer.C:
		return true
	}
	return false
}

// endSoon ends a process that has closed its output or says too much: it can answer nothing any more.
func (c *conn) endSoon(exited <-chan struct{}) {
	grace := time.NewTimer(exitGrace)
	defer grace.Stop()
	select {
	case <-exited:
	case <-grace.C:
		_ = c.proc.Kill() // an error means that it has ended already
	}
}

// abandon answers whoever still waits.
func (c *conn) abandon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, to := range c.pending {
		to <- answer{err: errCrashed}
		delete(c.pending, id)
	}
	c.pending, c.tickets = nil, nil
}

// kill ends the process and waits for that, but not for ever.
func (c *conn) kill() {
	_ = c.proc.Kill() // an error means that it has ended already
	wait := time.NewTimer(killGrace)
	defer wait.Stop()
	select {
	case <-c.dead:
	case <-wait.C:
	}
}

// send writes a line or lets it wait. Where there is no room, the handler gets none.
func (c *conn) send(m plugin.Message) {
	m.JSONRPC = "2.0"
	if line, err := json.Marshal(m); err == nil {
		c.out.put(append(line, '\n'))
	}
}

// asked is a [plugin.Message] to the handler that is written at once: its parameters are not
// made JSON before, which would then be read once more.
type asked struct {
	JSONRPC string `json:"jsonrpc"`
	ID      int64  `json:"id,omitempty"`
	Method  string `json:"method"`
	Params  any    `json:"params"`
}

// ask sends what has an id, or wants no answer where that is 0.
func (c *conn) ask(id int64, method string, params any) error {
	line, err := json.Marshal(asked{"2.0", id, method, params})
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	if !c.out.put(append(line, '\n')) {
		return errBusy
	}
	return nil
}

// request asks the handler and waits until it answers, dies, or ctx ends. The
// handler is told when nobody waits any more.
func (c *conn) request(ctx context.Context, method string, params any) (json.RawMessage, error) {
	id, to, err := c.register()
	if err != nil {
		return nil, err
	}
	if err := c.ask(id, method, params); err != nil {
		c.forget(id)
		return nil, err
	}
	select {
	case a := <-to:
		return settle(a)
	case <-ctx.Done():
	}
	if c.forget(id) {
		c.notify(plugin.MethodCancel, plugin.CancelParams{ID: strconv.AppendInt(nil, id, 10)})
	}
	return nil, ctx.Err()
}

func settle(a answer) (json.RawMessage, error) {
	if a.failed == nil {
		return a.result, a.err
	}
	if tool, ok := plugin.ParseToolError(a.failed.Data); ok {
		return nil, tool
	}
	return nil, &handlerError{a.failed.Code, a.failed.Message}
}

// handlerError is a handler's answer that is an error and no ToolError.
type handlerError struct {
	code    int
	message string
}

func (e *handlerError) Error() string {
	return fmt.Sprintf("the handler's error %d: %s", e.code, e.message)
}

func (c *conn) notify(method string, params any) bool { return c.ask(0, method, params) == nil }

func (c *conn) register() (int64, chan answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending == nil {
		return 0, nil, errGone
	}
	if len(c.pending) >= maxInFlight {
		return 0, nil, errBusy
	}
	c.last++
	to := make(chan answer, 1)
	c.pending[c.last] = to
	return c.last, to, nil
}

// forget reports whether the request was still pending.
func (c *conn) forget(id int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.pending[id]
	delete(c.pending, id)
	return ok
}

func (c *conn) issue(name string, t *ticket) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tickets != nil {
		c.tickets[name] = t
	}
}

func (c *conn) revoke(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tickets, name)
}

func (c *conn) read() {
	lines := bufio.NewReaderSize(c.proc.Stdout, 64<<10)
	for budget := maxSkipped; ; {
		line, whole, err := readLine(lines, maxLine, &budget)
		if err != nil {
			return
		}
		c.line(line, whole)
	}
}

// line acts on one line. What it cannot read still answers the request it
// names, so that nobody waits for a handler that has spoken.
func (c *conn) line(line []byte, whole bool) {
	m, err := parseLine(line)
	if !whole {
		err = errTooBig
		if m.ID == nil {
			m.ID = idAtEnd(line)
		}
	}
	switch {
	case m.Method != "" && m.ID != nil && err == nil:
		c.callback(m)
	case m.Method != "" && m.ID != nil:
		c.refuse(m.ID, refused("the request cannot be read: it is not JSON, has a key twice, or is too large"))
		c.bad("a callback that cannot be read")
	case m.ID != nil:
		c.settle(m, err)
	default:
		c.bad("a line that is no message")
	}
}

func (c *conn) settle(m plugin.Message, err error) {
	id, parseErr := strconv.ParseInt(string(m.ID), 10, 64)
	c.mu.Lock()
	to, ok := c.pending[id]
	ok = ok && parseErr == nil
	if ok {
		delete(c.pending, id)
		c.faults = max(0, c.faults-forgiven)
	}
	c.mu.Unlock()
	if !ok {
		c.bad("an answer that nobody waits for")
		return
	}
	switch {
	case err != nil:
		to <- answer{err: err}
	case m.Error != nil:
		to <- answer{failed: m.Error}
	case len(m.Result) > plugin.MaxResult:
		to <- answer{err: errTooBig}
	default:
		to <- answer{result: m.Result}
	}
}

// callback serves what the handler asks, from a goroutine of its own.
func (c *conn) callback(m plugin.Message) {
	p, err := readService(m.Params)
	t, err := c.admit(p.Ticket, err)
	if err != nil {
		c.turnDown(m.ID, err)
		return
	}
	select {
	case c.callbacks <- struct{}{}:
	default:
		c.refuse(m.ID, refused("too many callbacks at once"))
		c.bad("more callbacks at once than are served")
		return
	}
	c.serving.Go(func() {
		defer func() { <-c.callbacks }()
		result, err := t.serve(m.Method, p)
		if err == nil && !c.valid(p.Ticket) {
			err = refused("the request has ended")
		}
		if err == nil {
			err = wire.Check(result, wire.Limits{Message: plugin.MaxResult, String: plugin.MaxResult, CaseSensitive: true})
		}
		var often tooOften
		switch {
		case errors.As(err, &often):
			c.turnDown(m.ID, err)
		case err != nil:
			c.refuse(m.ID, err)
		default:
			c.send(plugin.Message{ID: m.ID, Result: result})
		}
	})
}

// turnDown refuses a callback that should not have been made, or not so often, and records it.
func (c *conn) turnDown(id json.RawMessage, err error) {
	c.refuse(id, err)
	var often tooOften
	if errors.As(err, &often) && !often.relentless {
		c.tell(wasRefused + err.Error())
	} else {
		c.bad(wasRefused + err.Error())
	}
}

// admit finds the ticket among this plugin's own and counts its use.
func (c *conn) admit(name string, err error) (*ticket, error) {
	if err != nil {
		return nil, refused("the parameters are not those of a service")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.tickets[name]
	if !ok {
		return nil, refused("no such ticket: quote that of a request in progress")
	}
	return t, t.use()
}

func (c *conn) valid(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tickets[name] != nil
}

func (c *conn) refuse(id json.RawMessage, err error) {
	var r refused
	var often tooOften
	switch {
	case errors.As(err, &often):
		r = often.refused
	case !errors.As(err, &r):
		r = "the host could not answer"
	}
	c.send(plugin.Message{ID: id, Error: &plugin.RPCError{Code: plugin.RPCRefused, Message: string(r)}})
}

// wasRefused begins what is recorded of a callback, before the reason.
const wasRefused = "a callback that was refused: "

// tell records what a handler does, the 1st, 2nd, 4th, … time: a flood must not
// flood the records.
func (c *conn) tell(what string) {
	c.mu.Lock()
	c.strange[what]++
	n := c.strange[what]
	c.mu.Unlock()
	if n&(n-1) == 0 {
		c.fault(what)
	}
}

// bad counts what makes no sense; too much of it ends the process.
func (c *conn) bad(what string) {
	c.tell(what)
	c.mu.Lock()
	c.faults++
	faults := c.faults
	c.mu.Unlock()
	if faults == maxFaults {
		_ = c.proc.Kill() // an error means that it has ended already
	}
}
