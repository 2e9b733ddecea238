// Package bus promises that what happens in an installation is told to those who asked for it
// (D-32). They get events of known topics only, in envelopes that the core alone built, in the
// order each publisher gave. No slow subscriber ever holds up a publisher or another subscriber.
// Outsiders subscribe and publish over ZeroMQ; who a publisher is follows from the listener it
// reached, never from what it says. The bus keeps nothing: an event that nobody took is gone, and
// it does not decide what an event leads to.
package bus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/events"
	"github.com/nacre-dev/nacre/internal/message"
	"github.com/nacre-dev/nacre/internal/routing"
	"github.com/nacre-dev/nacre/internal/wire"
	"github.com/nacre-dev/nacre/plugin"
)

// The limits of the bus.
const (
	// MaxPayload is the largest payload, in bytes.
	MaxPayload = 256 << 10
	// MaxQueue is the longest queue of a subscriber, in events.
	MaxQueue = 1 << 16
)

// ErrClosed is returned once the bus is closed.
var ErrClosed = errors.New("the event bus is closed")

// Event is what somebody in the core says has happened.
type Event struct {
	// ID is the envelope's; empty for a new one.
	ID    string
	Topic string
	// Source is "core", or the plugin's or publisher's name as the host knows it.
	Source string
	// Group is whose event it is; empty for what is the installation's own, and
	// for a message that is not routed yet.
	Group nacre.Group
	// Payload is a JSON object of at most MaxPayload bytes.
	Payload json.RawMessage
}

// Deps are what the bus needs of its host. All are required, and may be called
// concurrently.
type Deps struct {
	Now func() time.Time
	// NewID returns a new id for an envelope.
	NewID func() string
	// Redact takes the secrets out of a JSON document and says which fields held them (D-15).
	Redact func(document []byte) (redacted []byte, fields []string)
	// Dropped is told of what did not arrive. It is called with the 1st, 2nd, 4th,
	// 8th… of a kind, so that a flood cannot fill a log, by whoever publishes or
	// reads: it must return soon.
	Dropped func(Drop)
}

// Drop is an account of events that did not arrive.
type Drop struct {
	// Who names the subscriber or publisher.
	Who string
	// Topic and Group are those of the last one; Topic is empty where it was no
	// topic at all.
	Topic string
	Group nacre.Group
	// Reason is stable.
	Reason DropReason
	// Detail says it in words, and repeats no value; may be empty.
	Detail string
	// Count is how many there are so far for this Who and Reason.
	Count uint64
}

// DropReason says why an event did not arrive, or why a peer was cut.
type DropReason string

// The reasons.
const (
	// DropQueue: the subscriber's queue was full.
	DropQueue DropReason = "queue"
	// DropInvalid: a publisher's event is not one.
	DropInvalid DropReason = "invalid"
	// DropVersion: its envelope has a version other than 1 (D-05).
	DropVersion DropReason = "version"
	// DropTopic: the publisher may not publish the topic.
	DropTopic DropReason = "topic"
	// DropSize: a publisher's message is over the limits.
	DropSize DropReason = "size"
	// DropProtocol: the peer does not speak ZeroMQ within the limits, and was cut.
	DropProtocol DropReason = "protocol"
	// DropSlow: the peer did not do its part in time, and was cut.
	DropSlow DropReason = "slow"
	// DropPeers: there was no place for a further peer.
	DropPeers DropReason = "peers"
)

// Bus hands events to subscribers within one process. Make it with New.
type Bus struct {
	deps Deps
	// mu is held for reading while an event is handed out, so that no queue is
	// closed in between.
	mu     sync.RWMutex
	subs   []*Subscription
	closed bool
	// ended is closed with the bus.
	ended chan struct{}
}

// New returns a bus without subscribers. A missing dependency is an error.
func New(deps Deps) (*Bus, error) {
	if deps.Now == nil || deps.NewID == nil || deps.Redact == nil || deps.Dropped == nil {
		return nil, errors.New("bus: a clock, ids, redaction and a place for drops are required")
	}
	return &Bus{deps: deps, ended: make(chan struct{})}, nil
}

// Publish hands an event to all who asked for it and returns the envelope that they get. It waits
// for nobody. What is no event is refused with an error that says why. That is an unknown topic, a
// source that may not publish it, a payload that is no object or too large, or a message.inbound
// that is not one (D-33).
func (b *Bus) Publish(ctx context.Context, e Event) (plugin.Envelope, error) {
	if err := ctx.Err(); err != nil {
		return plugin.Envelope{}, err
	}
	if err := e.check(); err != nil {
		return plugin.Envelope{}, err
	}
	envelope, err := b.envelope(e)
	if err != nil {
		return plugin.Envelope{}, err
	}
	drops, err := b.hand(envelope, e.Payload)
	if err != nil {
		return plugin.Envelope{}, err
	}
	for _, d := range drops {
		b.deps.Dropped(d) // with no lock held: it may use the bus
	}
	return envelope, nil
}

// hand offers an event to every subscriber, and returns the drops to tell of.
func (b *Bus) hand(e plugin.Envelope, raw json.RawMessage) (drops []Drop, err error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.closed {
		return nil, ErrClosed
	}
	for _, s := range b.subs {
		if d, tell := s.offer(e, raw); tell {
			drops = append(drops, d)
		}
	}
	return drops, nil
}

// envelope is the core's word on an event (D-05).
func (b *Bus) envelope(e Event) (plugin.Envelope, error) {
	payload := b.redact(e.Topic, bytes.Clone(e.Payload))
	if !bytes.HasPrefix(bytes.TrimSpace(payload), []byte("{")) {
		return plugin.Envelope{}, errors.New("the event's payload is empty after redaction")
	}
	if e.ID == "" {
		e.ID = b.deps.NewID()
	}
	return plugin.Envelope{
		ID: e.ID, Version: message.Version, Type: message.TypeEvent, Topic: e.Topic, Source: e.Source,
		Timestamp: b.deps.Now().UTC(), Group: e.Group, Payload: payload,
	}, nil
}

// redact takes the secrets out of a payload, which it may write to. A message
// keeps the addresses that it is routed by.
func (b *Bus) redact(topic string, payload json.RawMessage) json.RawMessage {
	if topic == events.TopicInbound {
		return routing.Redact(payload, b.deps.Redact)
	}
	redacted, _ := b.deps.Redact(payload)
	return redacted
}

func (e Event) check() error {
	if err := checkTopic(e.Topic, e.Source); err != nil {
		return err
	}
	if e.Group != "" {
		if _, err := nacre.ParseGroup(string(e.Group)); err != nil {
			return err
		}
	}
	if _, err := wire.Object(e.Payload, wire.Limits{Message: MaxPayload, String: MaxPayload, CaseSensitive: true}); err != nil {
		return fmt.Errorf("payload: %w", err)
	}
	if e.Topic == events.TopicInbound {
		_, err := routing.ParseInbound(e.Payload)
		return err
	}
	return nil
}

// Filter says which events a subscriber is for.
type Filter struct {
	// Name says in drop records who it is.
	Name string
	// Prefixes of topics, cut at dots: "task" is task and task.created, not
	// tasks.x; "task." is what is below task only; "" is every topic. None is an error.
	Prefixes []string
	// Groups whose events it gets; "" among them stands for the installation's
	// own. None is an error, unless AllGroups.
	Groups    []nacre.Group
	AllGroups bool
	// Raw gives the payloads as they were published, secrets and all: for the
	// dispatcher, whose agents are told what was written to them.
	Raw bool
	// Queue is how many events wait for it, 1 to MaxQueue; a further one is dropped.
	Queue int
}

func (f Filter) check() error {
	switch {
	case f.Name == "":
		return errors.New("subscription: no name")
	case len(f.Prefixes) == 0 || len(f.Prefixes) > events.MaxPrefixes:
		return fmt.Errorf("subscription %s: %d prefixes, want 1 to %d", f.Name, len(f.Prefixes), events.MaxPrefixes)
	case len(f.Groups) == 0 && !f.AllGroups:
		return fmt.Errorf("subscription %s: no groups", f.Name)
	case f.Queue < 1 || f.Queue > MaxQueue:
		return fmt.Errorf("subscription %s: a queue of %d, want 1 to %d", f.Name, f.Queue, MaxQueue)
	}
	for _, prefix := range f.Prefixes {
		if err := events.CheckPrefix(prefix); err != nil {
			return fmt.Errorf("subscription %s: %w", f.Name, err)
		}
	}
	return nil
}

func (f Filter) wants(topic string, group nacre.Group) bool {
	if !f.AllGroups && !slices.Contains(f.Groups, group) {
		return false
	}
	return slices.ContainsFunc(f.Prefixes, func(prefix string) bool { return events.HasPrefix(topic, prefix) })
}

// Subscription is one subscriber's queue.
type Subscription struct {
	bus     *Bus
	filter  Filter
	events  chan plugin.Envelope
	dropped tally
}

// Subscribe asks for events from now on.
func (b *Bus) Subscribe(f Filter) (*Subscription, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	f.Prefixes, f.Groups = slices.Clone(f.Prefixes), slices.Clone(f.Groups)
	s := &Subscription{bus: b, filter: f, events: make(chan plugin.Envelope, f.Queue)}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, ErrClosed
	}
	b.subs = append(b.subs, s)
	return s, nil
}

// Events are the subscriber's, in the order in which each publisher gave them.
// After a Close of either side come those that were waiting, then the end.
// Payloads are shared: they must not be written to.
func (s *Subscription) Events() <-chan plugin.Envelope { return s.events }

// Dropped is how many events found the queue full.
func (s *Subscription) Dropped() uint64 { return s.dropped.of(DropQueue) }

// Close ends the subscription. It may be called more than once.
func (s *Subscription) Close() {
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	if i := slices.Index(s.bus.subs, s); i >= 0 {
		s.bus.subs = slices.Delete(s.bus.subs, i, i+1)
		close(s.events)
	}
}

// offer never waits. It returns the drop to tell of, if it was one.
func (s *Subscription) offer(e plugin.Envelope, raw json.RawMessage) (Drop, bool) {
	if !s.filter.wants(e.Topic, e.Group) {
		return Drop{}, false
	}
	if s.filter.Raw {
		e.Payload = bytes.Clone(raw)
	}
	select {
	case s.events <- e:
		return Drop{}, false
	default:
		return s.dropped.count(Drop{Who: s.filter.Name, Topic: e.Topic, Group: e.Group, Reason: DropQueue, Detail: "its queue is full"})
	}
}

// Close lets no further event in. Subscribers get what waits for them, and
// then the end. It may be called more than once.
func (b *Bus) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		close(b.ended)
	}
	b.closed = true
	for _, s := range b.subs {
		close(s.events)
	}
	b.subs = nil
}
