package plugintest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/plugin"
)

const (
	firstOwn  = 900_000_001 // the first id that the host will not use
	maxTapped = 4 << 20     // bytes of a line that are looked at
	maxKept   = 3           // things of a kind that are kept to be shown
	maxShown  = 160         // bytes of a line that are shown
	maxStderr = 4 << 10     // bytes of standard error that are kept
)

// tap sits between the host and a handler's process. It passes on what both
// say, notes what breaks the protocol, and asks questions of its own.
type tap struct {
	proc pluginhost.Process
	mcp  bool

	writing sync.Mutex // for whole lines

	mu       sync.Mutex
	last     int64
	own      map[string]chan plugin.Message
	asked    map[string]string // method by id
	answered map[string]int
	sent     int // what the host asked
	wrong    wrong
	results  map[string]string // the last one for each method
	changed  chan struct{}     // closed when sent grows
	stderr   []byte

	reading sync.WaitGroup
}

// wrong is what broke the protocol.
type wrong struct {
	noise   kept // lines that are no message
	unasked kept // answers to what nobody asked
	twice   kept // answers to what was answered
	refused kept // what the handler asked of the host in vain
	leaked  kept // lines with a credential
}

// kept counts, and keeps the first few.
type kept struct {
	n     int
	first []string
}

func (k *kept) add(s string) {
	if k.n++; len(k.first) < maxKept {
		k.first = append(k.first, shown(s))
	}
}

func shown(s string) string {
	if len(s) > maxShown {
		s = s[:maxShown] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// tapped puts a tap on a process and returns what the host is given instead.
func tapped(p pluginhost.Process, mcp bool) (*tap, pluginhost.Process) {
	t := &tap{proc: p, mcp: mcp, last: firstOwn, own: map[string]chan plugin.Message{}, asked: map[string]string{}, answered: map[string]int{}, changed: make(chan struct{}), results: map[string]string{}}
	outR, outW := io.Pipe()
	errR, errW := io.Pipe()
	t.reading.Go(func() { t.relay(p.Stdout, outW) })
	t.reading.Go(func() { t.complaints(p.Stderr, errW) })
	host := p
	host.Stdin = &tapInput{t}
	host.Stdout = &tapOutput{outR, p.Stdout}
	host.Stderr = &tapOutput{errR, p.Stderr}
	return t, host
}

// tapInput is standard input as the host sees it. It writes whole lines.
type tapInput struct{ *tap }

// Write implements io.Writer.
func (t *tapInput) Write(line []byte) (int, error) {
	t.noteHost(line)
	return t.write(line)
}

// Close implements io.Closer.
func (t *tapInput) Close() error { return t.proc.Stdin.Close() }

// tapOutput is a stream as the host sees it: closing it closes both sides.
type tapOutput struct {
	*io.PipeReader
	from io.Closer
}

// Close implements io.Closer.
func (t *tapOutput) Close() error { return errors.Join(t.PipeReader.Close(), t.from.Close()) }

func (t *tap) write(line []byte) (int, error) {
	t.writing.Lock()
	defer t.writing.Unlock()
	return t.proc.Stdin.Write(line)
}

// noteHost remembers what the host asks, and what it refuses.
func (t *tap) noteHost(line []byte) {
	var m plugin.Message
	if json.Unmarshal(line, &m) != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case m.Method != "" && m.ID != nil:
		t.asked[string(m.ID)] = m.Method
		t.sent++
		close(t.changed)
		t.changed = make(chan struct{})
	case m.Error != nil:
		t.wrong.refused.add(m.Error.Message)
	}
}

func (t *tap) relay(from io.Reader, to *io.PipeWriter) {
	lines := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := lines.ReadSlice('\n')
		whole := bytes.Clone(line)
		for errors.Is(err, bufio.ErrBufferFull) && len(whole) < maxTapped {
			line, err = lines.ReadSlice('\n')
			whole = append(whole, line...)
		}
		if len(whole) > 0 && !t.note(whole) {
			if _, err := to.Write(whole); err != nil {
				_, _ = io.Copy(io.Discard, lines) // the host has gone: the handler must not hang on a full pipe
				return
			}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			_ = to.CloseWithError(err) // never fails
			return
		}
	}
}

// note looks at a line of the handler's and reports whether it answers a
// question of the tap's own.
func (t *tap) note(line []byte) bool {
	var m plugin.Message
	text := strings.TrimRight(string(line), "\r\n")
	if json.Unmarshal(line, &m) != nil || m.JSONRPC != "2.0" {
		t.mu.Lock()
		t.wrong.noise.add(text)
		t.mu.Unlock()
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if strings.Contains(text, secretMade) {
		t.wrong.leaked.add("")
	}
	if m.Method != "" {
		if m.ID == nil && !t.mcp {
			t.wrong.noise.add(text)
		}
		return false
	}
	id := string(m.ID)
	if id == "null" && m.Error != nil {
		return false // an answer to what it could not read
	}
	if to := t.own[id]; to != nil {
		t.answered[id]++
		if t.answered[id] == 1 {
			to <- m
		}
		t.check(id)
		return true
	}
	if t.asked[id] == "" {
		t.wrong.unasked.add(text)
		return false
	}
	t.answered[id]++
	t.results[t.asked[id]] = shown(string(m.Result))
	t.check(id)
	return false
}

// answerTo is the result of the last request with this method.
func (t *tap) answerTo(method string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.results[method]
}

func (t *tap) check(id string) {
	if t.answered[id] == 2 {
		t.wrong.twice.add(fmt.Sprintf("request %s (%s)", id, t.asked[id]))
	}
}

func (t *tap) complaints(from io.Reader, to *io.PipeWriter) {
	buf := make([]byte, 4<<10)
	for {
		n, err := from.Read(buf)
		t.mu.Lock()
		t.stderr = append(t.stderr, buf[:n]...)
		t.stderr = t.stderr[max(0, len(t.stderr)-maxStderr):]
		t.mu.Unlock()
		if n > 0 {
			_, _ = to.Write(buf[:n]) // a host that has gone needs no more of it
		}
		if err != nil {
			_ = to.CloseWithError(err) // never fails
			return
		}
	}
}

// ask sends a request that the host knows nothing of, and waits for the answer.
func (t *tap) ask(ctx context.Context, method string, params any) (plugin.Message, error) {
	t.mu.Lock()
	t.last++
	id := strconv.FormatInt(t.last, 10)
	to := make(chan plugin.Message, 1)
	t.own[id], t.asked[id] = to, method
	t.mu.Unlock()
	if err := t.send(plugin.Message{ID: json.RawMessage(id), Method: method}, params); err != nil {
		return plugin.Message{}, err
	}
	select {
	case m := <-to:
		return m, nil
	case <-ctx.Done():
		return plugin.Message{}, ctx.Err()
	}
}

// tell sends a notification.
func (t *tap) tell(method string, params any) error {
	return t.send(plugin.Message{Method: method}, params)
}

func (t *tap) send(m plugin.Message, params any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	m.JSONRPC, m.Params = "2.0", raw
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = t.write(append(line, '\n'))
	return err
}

// said is the end of standard error.
func (t *tap) said() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(t.stderr), "\uFFFD"))
}

// requests counts what the host has asked so far.
func (t *tap) requests() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sent
}

// alive reports what is wrong where the process does not answer any more.
func (t *tap) alive(ctx context.Context, after string) *Check {
	_, err := t.ask(ctx, "conformance/alive", struct{}{})
	if err == nil {
		return nil
	}
	c := failed(fixCrash, "it did not answer any more after %s", after)
	if said := t.said(); said != "" {
		c.Text += "; it said: " + shown(lastLine(said))
	}
	return &c
}

// awaitRequests waits until the host has asked more than before, or the call ended.
func (t *tap) awaitRequests(ctx context.Context, before int, done <-chan struct{}) {
	for t.requests() <= before {
		t.mu.Lock()
		changed := t.changed
		t.mu.Unlock()
		select {
		case <-changed:
		case <-done:
			return
		case <-ctx.Done():
			return
		}
	}
}
