// Package testhost is the host's end of a plugin's handler in tests: it speaks the
// real protocol, and what it answers the handler is the test's own.
package testhost

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"testing"

	"github.com/nacre-dev/nacre/plugin"
)

// maxLine is the longest line of a handler, in bytes.
const maxLine = 16 << 20

// Answers is what a host says to a handler that asks it something: a result, or
// nil, which refuses.
type Answers func(method string, asked plugin.Service) json.RawMessage

// Host is a handler's host. It is safe for concurrent use.
type Host struct {
	t       testing.TB
	in      *io.PipeWriter
	answers Answers
	ended   chan error
	end     sync.Once
	reading sync.WaitGroup
	replies sync.WaitGroup // those that reading begins

	writing sync.Mutex // a line at a time
	mu      sync.Mutex
	last    int
	waiting map[string]chan plugin.Message // nil once the handler has ended
}

// Start runs a handler, which ends with the test.
func Start(t testing.TB, serve func(in io.Reader, out io.Writer) error, answers Answers) *Host {
	t.Helper()
	fromHost, in := io.Pipe()
	out, toHost := io.Pipe()
	h := &Host{t: t, in: in, answers: answers, ended: make(chan error, 1), waiting: map[string]chan plugin.Message{}}
	go func() {
		err := serve(fromHost, toHost)
		_, _ = fromHost.Close(), toHost.Close() // whoever asks, or waits for an answer, waits no more
		h.ended <- err
	}()
	h.reading.Go(func() { h.read(out) })
	t.Cleanup(h.End)
	return h
}

// End closes what the handler reads and waits for its end.
func (h *Host) End() {
	h.end.Do(func() {
		_ = h.in.Close()
		if err := <-h.ended; err != nil {
			h.t.Error(err)
		}
		h.reading.Wait()
		h.replies.Wait()
	})
}

// Ask sends a request and returns its answer, which is empty where the handler
// ended instead.
func (h *Host) Ask(method string, params any) plugin.Message {
	raw, err := json.Marshal(params)
	if err != nil {
		h.t.Error(err)
	}
	h.mu.Lock()
	if h.waiting == nil {
		h.mu.Unlock()
		h.t.Errorf("%s: the handler has ended", method)
		return plugin.Message{}
	}
	h.last++
	id := strconv.Itoa(h.last)
	answer := make(chan plugin.Message, 1)
	h.waiting[id] = answer
	h.mu.Unlock()
	h.send(plugin.Message{ID: json.RawMessage(id), Method: method, Params: raw})
	m, ok := <-answer
	if !ok {
		h.t.Errorf("%s: the handler ended without an answer", method)
	}
	return m
}

// Tell sends what has no answer, such as an event.
func (h *Host) Tell(method string, params any) {
	raw, err := json.Marshal(params)
	if err != nil {
		h.t.Error(err)
	}
	h.send(plugin.Message{Method: method, Params: raw})
}

// Call asks a tool, and returns what it says.
func (h *Host) Call(group, tool string, arguments json.RawMessage) string {
	payload, err := json.Marshal(map[string]any{"arguments": arguments})
	if err != nil {
		h.t.Error(err)
	}
	return Said(h.Ask(plugin.MethodHandleRequest, map[string]any{"ticket": "T", "timeout_ms": 30_000, "envelope": map[string]any{
		"topic": "tool.invoke." + tool, "group": group, "payload": json.RawMessage(payload),
	}}))
}

// Said is an answer's result, or its error as CODE (retriable true): message.
func Said(m plugin.Message) string {
	if m.Error == nil {
		return string(m.Result)
	}
	e, ok := plugin.ParseToolError(m.Error.Data)
	if !ok {
		return m.Error.Message
	}
	return fmt.Sprintf("%s (retriable %t): %s", e.Code, e.Retriable, e.Message)
}

func (h *Host) send(m plugin.Message) {
	m.JSONRPC = "2.0"
	line, err := json.Marshal(m)
	if err == nil {
		h.writing.Lock()
		_, err = h.in.Write(append(line, '\n'))
		h.writing.Unlock()
	}
	if err != nil && !errors.Is(err, io.ErrClosedPipe) { // that it has ended is told to those who wait
		h.t.Error(err)
	}
}

func (h *Host) read(out io.Reader) {
	defer h.leave()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var m plugin.Message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			h.t.Error(err)
			break
		}
		if m.Method != "" {
			h.replies.Go(func() { h.send(h.reply(m)) })
			continue
		}
		h.mu.Lock()
		answer := h.waiting[string(m.ID)]
		delete(h.waiting, string(m.ID))
		h.mu.Unlock()
		if answer == nil {
			h.t.Errorf("the handler answers %s, which nobody asked or which was answered", m.ID)
			continue
		}
		answer <- m
	}
	_, _ = io.Copy(io.Discard, out) // so that a handler which goes on writing can end
}

// leave tells those who wait that there is no answer.
func (h *Host) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, answer := range h.waiting {
		close(answer)
	}
	h.waiting = nil
}

func (h *Host) reply(m plugin.Message) plugin.Message {
	var asked plugin.Service
	if err := json.Unmarshal(m.Params, &asked); err != nil {
		h.t.Error(err)
	}
	if result := h.answers(m.Method, asked); result != nil {
		return plugin.Message{ID: m.ID, Result: result}
	}
	return plugin.Message{ID: m.ID, Error: &plugin.RPCError{Code: plugin.RPCRefused, Message: "no"}}
}
