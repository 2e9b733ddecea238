package kernel_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/kernel"
	"github.com/nacre-dev/nacre/policy"
)

// chain is a recorder in memory that can be told to fail.
type chain struct {
	mu      sync.Mutex
	records []nacre.Record
	// fail decides whether a record cannot be written.
	fail func(nacre.Record) bool
}

var errDisk = errors.New("disk full")

func (c *chain) Append(_ context.Context, r nacre.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil && c.fail(r) {
		return errDisk
	}
	c.records = append(c.records, r)
	return nil
}

func (c *chain) Commit(ctx context.Context, r nacre.Record) error { return c.Append(ctx, r) }

// told is what a chain tells: the kinds with outcome and reason, in order.
func (c *chain) told() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines []string
	for _, r := range c.records {
		lines = append(lines, strings.Join([]string{string(r.Kind), r.Outcome, r.Reason}, "/"))
	}
	return strings.Join(lines, " ")
}

func (c *chain) all() []nacre.Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]nacre.Record(nil), c.records...)
}

// answer is an approver made of a function.
type answer func(context.Context, nacre.Question) (nacre.Ruling, error)

func (a answer) Ask(ctx context.Context, q nacre.Question) (nacre.Ruling, error) { return a(ctx, q) }

// yes is a person who agrees to what they are asked.
func yes(_ context.Context, q nacre.Question) (nacre.Ruling, error) {
	return nacre.Ruling{Verdict: nacre.Allow, By: "ann at the terminal", Digest: q.Digest}, nil
}

// clock goes when it is told to.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

type house struct {
	*kernel.Kernel
	chain *chain
	clock *clock
	// calls counts what the driver of each tool was called with.
	mu    sync.Mutex
	calls []nacre.Invocation
}

func (h *house) called() []nacre.Invocation {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls
}

// open makes a kernel with the shipped policy, every tool for group main, and whatever change does.
func open(t testing.TB, change func(*kernel.Config)) *house {
	t.Helper()
	h := &house{chain: &chain{}, clock: &clock{at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}}
	c := kernel.Config{
		Policy: policy.Shipped(), Groups: policy.Groups{"main": {Tools: []string{"*"}}}, Approver: answer(yes),
		Recorder: h.chain, Now: h.clock.now, Random: rand.Reader, Keys: kernel.Keys{Current: kernel.Key{Secret: bytes.Repeat([]byte{7}, 32)}},
	}
	if change != nil {
		change(&c)
	}
	k, err := kernel.New(c)
	if err != nil {
		t.Fatal(err)
	}
	h.Kernel = k
	return h
}

const noteSchema = `{"type":"object","required":["text"],"additionalProperties":false,"properties":{
	"text":{"type":"string","maxLength":100},
	"operation":{"type":"string"},
	"list":{"type":"string","default":"Personal"},
	"count":{"type":"integer","minimum":1}}}`

// note is a capability that lets every check pass.
func note(change func(*nacre.Capability)) nacre.Capability {
	c := nacre.Capability{
		ID: "notes.note_add", Tool: "note_add", Safety: nacre.Write, Sensitivity: nacre.SensitiveNone,
		Schema: json.RawMessage(noteSchema), ContentHash: "sha256:1",
	}
	if change != nil {
		change(&c)
	}
	return c
}

// add registers a tool whose driver notes its calls and then does what do does.
func (h *house) add(t testing.TB, c nacre.Capability, do nacre.DriverFunc) {
	t.Helper()
	err := h.Register(nacre.Tool{Capability: c, Driver: nacre.DriverFunc(func(ctx context.Context, in nacre.Invocation) (json.RawMessage, error) {
		h.mu.Lock()
		h.calls = append(h.calls, in)
		h.mu.Unlock()
		if do != nil {
			return do(ctx, in)
		}
		return json.RawMessage(`{"id":1}`), nil
	})})
	if err != nil {
		t.Fatal(err)
	}
}

var writer = nacre.Principal{ID: "main/s1", Group: "main", Session: "s1", Roles: []string{"writer"}}

func call(arguments string) nacre.Call {
	return nacre.Call{ID: "e-1", Principal: writer, Tool: "note_add", Arguments: json.RawMessage(arguments), Correlation: "c-1"}
}

const milk = `{"text":"milk"}`

// refusal is what an agent would be told.
func refusal(t testing.TB, err error) *nacre.Refusal {
	t.Helper()
	var r *nacre.Refusal
	if !errors.As(err, &r) {
		t.Fatalf("have %v, want a refusal", err)
	}
	return r
}

// in is a session of group main.
func in(session nacre.SessionID) nacre.SessionKey {
	return nacre.KeyOf("main", session)
}
