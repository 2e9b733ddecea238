package bus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre/internal/message"
	"github.com/nacre-dev/nacre/internal/zmtp"
	"github.com/nacre-dev/nacre/plugin"
)

// The limits of what one subscriber of the PUB endpoint may ask for.
const (
	// MaxSubscriptions is how many prefixes it has at once.
	MaxSubscriptions = 1024
	// maxWanted is the longest of them, in bytes.
	maxWanted = 255
	// outsideQueue is how many events wait to be handed to the peers' own queues.
	outsideQueue = 1024
	// atOnce is how much is written at once, in bytes; a longer event goes alone.
	atOnce = 64 << 10
)

// ServePub lets outsiders subscribe over ZeroMQ. To each goes every event of any group whose topic
// begins with a prefix that it asked for, byte by byte as ZeroMQ has it. The frames are [topic,
// envelope]. What a peer does not fetch is dropped for that peer alone. ServePub returns when ctx
// ends or the bus is closed, which are no errors, after subscribers had Limits.Drain to fetch the
// rest. It closes the listener.
func (b *Bus) ServePub(ctx context.Context, ln net.Listener, l Limits) error {
	defer func() { _ = ln.Close() }() // closed already where ctx ended
	sub, err := b.Subscribe(Filter{Name: "outsiders", Prefixes: []string{""}, AllGroups: true, Queue: outsideQueue})
	if err != nil {
		return err
	}
	defer sub.Close()
	p := &pub{readers: map[*reader]struct{}{}}
	p.endpoint = endpoint{
		name: "outsiders", limits: l.withDefaults(), kind: typePUB, takes: []string{typeSUB, typeXSUB},
		maxMessage: 1 + maxWanted, serve: p.serve, dropped: tally{report: b.deps.Dropped},
	}
	// Peers outlive ctx until all that was published before is in their queues.
	accepting, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, sub.Close)()
	var served sync.WaitGroup
	served.Go(func() {
		for e := range sub.Events() {
			p.hand(e)
		}
		stop()
	})
	err = p.endpoint.run(accepting, ln)
	sub.Close()
	served.Wait()
	return err
}

// pub is the PUB endpoint.
type pub struct {
	endpoint endpoint
	mu       sync.Mutex
	readers  map[*reader]struct{}
}

// hand gives an event to every peer that wants it, and waits for none.
func (p *pub) hand(e plugin.Envelope) {
	for range p.offer(e) {
		p.endpoint.dropped.add(Drop{Who: p.endpoint.name, Topic: e.Topic, Group: e.Group, Reason: DropQueue, Detail: "a subscriber's queue is full"})
	}
}

// offer returns how many peers had no room for the event.
func (p *pub) offer(e plugin.Envelope) (full int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var message []byte
	for r := range p.readers {
		if !r.wants(e.Topic) {
			continue
		}
		if message == nil {
			message = zmtp.AppendMessage(nil, []byte(e.Topic), encode(e))
		}
		if !r.push(message) {
			full++
		}
	}
	return full
}

func encode(e plugin.Envelope) []byte {
	out := message.Envelope{
		ID: e.ID, Version: e.Version, Type: e.Type, Topic: e.Topic, Source: e.Source,
		Timestamp: e.Timestamp, Group: e.Group, Payload: e.Payload,
	}
	return out.Append(make([]byte, 0, len(e.Payload)+512))
}

// serve is one subscriber's life. At the end of ctx it gets what waits for it.
func (p *pub) serve(ctx context.Context, peer *peer) error {
	r := &reader{peer: peer, wanted: map[string]struct{}{}, wake: make(chan struct{}, 1)}
	p.mu.Lock()
	p.readers[r] = struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.readers, r)
		p.mu.Unlock()
	}()
	defer context.AfterFunc(ctx, r.drain)()
	var writing sync.WaitGroup
	var failed error
	writing.Go(func() {
		failed = r.write()
		_ = peer.nc.Close() // which ends read; closed already where the peer left
	})
	err := r.read()
	r.leave()
	writing.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return errors.Join(failed, err)
}

// reader is one subscriber with its queue.
type reader struct {
	peer *peer
	// wake has a token when there is something new for write.
	wake chan struct{}

	mu     sync.Mutex
	wanted map[string]struct{}
	queue  [][]byte
	// size is what waits and what is being written, in bytes.
	size int
	done bool
	// deadline is that of the write under way, and until, once done, when what
	// still waits is given up.
	deadline, until time.Time
}

// wants looks for the topic's own beginnings where these are fewer than what
// the peer asked for, so that its cost has a bound.
func (r *reader) wants(topic string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.wanted) > len(topic) {
		for end := range len(topic) + 1 {
			if _, ok := r.wanted[topic[:end]]; ok {
				return true
			}
		}
		return false
	}
	for prefix := range r.wanted {
		if strings.HasPrefix(topic, prefix) {
			return true
		}
	}
	return false
}

// push queues frames unless the queue is over its limit or at its end.
func (r *reader) push(frames []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return true
	}
	if r.size+len(frames) > r.peer.limits.HighWater {
		return false
	}
	r.queue, r.size = append(r.queue, frames), r.size+len(frames)
	r.stir()
	return true
}

func (r *reader) stir() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// drain ends the queue after what is in it, for which there is a time.
func (r *reader) drain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done, r.until = true, soon(r.peer.limits.Drain)
	if r.until.Before(r.deadline) {
		_ = r.peer.nc.SetWriteDeadline(r.until) // where it fails the write has failed too
	}
	r.stir()
}

// leave ends the queue at once, and a write that waits for the peer.
func (r *reader) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done, r.queue = true, nil
	_ = r.peer.nc.Close() // closed already where write has ended
	r.stir()
}

// take gets what is written next, and sets its deadline; nothing is there
// where batch is empty.
func (r *reader) take() (batch net.Buffers, size int, done bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for n < len(r.queue) && (n == 0 || size+len(r.queue[n]) <= atOnce) {
		size += len(r.queue[n])
		n++
	}
	if n == 0 {
		return nil, 0, r.done, nil
	}
	batch = append(batch, r.queue[:n]...)
	if r.queue = r.queue[n:]; len(r.queue) == 0 {
		r.queue = nil
	}
	r.deadline = soon(r.peer.limits.Write)
	if r.done && r.until.Before(r.deadline) {
		r.deadline = r.until
	}
	return batch, size, r.done, r.peer.nc.SetWriteDeadline(r.deadline)
}

func (r *reader) written(size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.size -= size
}

// write sends what is queued until the queue has ended. After an error the
// stream may end inside a frame, so the connection is closed, which ends read.
func (r *reader) write() error {
	for {
		batch, size, done, err := r.take()
		if len(batch) == 0 {
			if done {
				return nil
			}
			<-r.wake
			continue
		}
		if err == nil {
			_, err = batch.WriteTo(r.peer.nc)
		}
		if err != nil {
			_ = r.peer.nc.Close() // the first error is the one to tell
			return err
		}
		r.written(size)
	}
}

// read takes subscriptions until the connection ends.
func (r *reader) read() error {
	for {
		item, err := r.peer.next()
		if err != nil {
			return err
		}
		if item.Command == zmtp.Ping {
			pong, ok := zmtp.AppendPong(nil, item.Body)
			if !ok || !r.push(pong) {
				return fmt.Errorf("%w: a PING that is malformed, or one too many", zmtp.ErrProtocol)
			}
			continue
		}
		if prefix, on, ok := zmtp.Subscription(item); ok {
			if err := r.change(string(prefix), on); err != nil {
				return err
			}
		}
	}
}

// change is a subscription or its end. A prefix is held once, however often a
// peer asks for it, as libzmq does.
func (r *reader) change(prefix string, on bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !on {
		delete(r.wanted, prefix)
		return nil
	}
	if len(prefix) > maxWanted {
		return fmt.Errorf("%w: a subscription of %d bytes", zmtp.ErrProtocol, len(prefix))
	}
	if r.wanted[prefix] = struct{}{}; len(r.wanted) > MaxSubscriptions {
		return fmt.Errorf("%w: more than %d subscriptions", zmtp.ErrProtocol, MaxSubscriptions)
	}
	return nil
}
