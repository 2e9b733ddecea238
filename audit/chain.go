package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit/internal/keyfile"
	"github.com/nacre-dev/nacre/audit/internal/quota"
	"github.com/nacre-dev/nacre/internal/disk"
)

// Options say which chain to write. Root, Chain, Keys and Now are required.
type Options struct {
	// Root is the folder of all chains and their index.
	Root string
	// Chain names the chain: 1–80 of [a-z0-9._-], not "index".
	Chain string
	Keys  Keys
	// Now gives the time of heads, and of records that have none.
	Now func() time.Time
	// SegmentBytes is where a new segment begins; zero means DefaultSegmentBytes.
	SegmentBytes int64
	// QuotaBytes bounds the chain; zero means DefaultQuota, and less than MinQuota is raised to it.
	QuotaBytes int64
	// Elsewhere, where set, is a second place for every record of the chain and of the index: what
	// is told to be durable is so in both. An error of it ends the chain, like one of the disk.
	Elsewhere Elsewhere

	wrap func(segmentFile) segmentFile // tests let a disk fail
}

func (o Options) check() (string, error) {
	if o.Now == nil {
		return "", errors.New("audit chain has no clock: set Options.Now")
	}
	if o.Chain == IndexChain {
		return "", errors.New("the index is no chain to write: it is kept by the others")
	}
	if err := o.Keys.check(); err != nil {
		return "", err
	}
	return chainDir(o.Root, o.Chain)
}

// sized fills in what was left open.
func (o Options) sized() Options {
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = DefaultSegmentBytes
	}
	if o.QuotaBytes == 0 {
		o.QuotaBytes = DefaultQuota
	}
	o.QuotaBytes = max(o.QuotaBytes, MinQuota)
	return o
}

// Chain is an audit chain open for writing, by this process alone. It is a
// [nacre.Recorder]; all methods may be called concurrently. A write or sync
// that fails makes every later call fail with its error (K-21).
type Chain struct {
	o    Options
	dir  string
	lock *disk.Lock
	tail *tail // files: the writer goroutine's alone while it runs

	wake    chan struct{} // to the writer: something waits
	stopped chan struct{} // the writer has ended
	closing sync.Once
	failure error // of Close
	sealing bool
	queue
}

// queue is what waits for the writer, and those who wait with it.
type queue struct {
	mu      sync.Mutex
	seal    *sealer
	buf     []byte     // lines that wait for the writer
	spare   []byte     // the writer's last buffer, to use again
	total   int64      // bytes of the whole chain, waiting ones included
	urgent  bool       // somebody waits for a sync
	ended   bool       // no more records
	closed  *time.Time // when the chain.close record was put, which is the last
	err     error      // why nothing can be written any more
	group   *group     // of those who wait for the next sync
	drained chan struct{}
}

// group is everybody who waits for one sync.
type group struct {
	done chan struct{}
	size int
	head place // what is durable once done is closed
	err  error // set before done is closed
}

func newGroup() *group { return &group{done: make(chan struct{})} }

// Open takes a chain's lock, and begins the chain or goes on with it. A torn last line is moved to
// a file torn-SEQ beside the segments and told in a record. It fails with ErrLocked while another
// process writes the chain, and with ErrTampered where the chain does not reach its signed head.
// The chain stands in the index before Open returns.
func Open(ctx context.Context, o Options) (*Chain, error) {
	dir, err := o.check()
	if err != nil {
		return nil, err
	}
	o = o.sized()
	if err := keyfile.PrivateDir(o.Root); err != nil {
		return nil, err
	}
	if err := keyfile.PrivateDir(dir); err != nil {
		return nil, err
	}
	lock, err := takeLock(ctx, dir, writerWait)
	if err != nil {
		return nil, err
	}
	folder := &segmented{dir: dir, chain: o.Chain}
	t, err := openTail(folder, o.Keys)
	if err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	t.copied = copied{to: o.Elsewhere, first: t.seal.next}
	if folder.wrap = o.wrap; folder.file != nil && o.wrap != nil {
		folder.file = o.wrap(folder.file)
	}
	if err := begin(ctx, t, o); err != nil {
		return nil, errors.Join(err, t.close(), lock.Release())
	}
	return start(o, dir, lock, t), nil
}

// begin writes the chain.open record and enters the chain in the index. A new
// chain is entered after its first record and an old one before its next, so
// that what the index names is always there, whenever a crash comes.
func begin(ctx context.Context, t *tail, o Options) error {
	first, now := t.seal.next == 0, o.Now()
	if err := t.ensureHead(now); err != nil {
		return err
	}
	if !first {
		if err := t.register(ctx, o, nacre.KindChainOpen, now); err != nil {
			return err
		}
	}
	b, err := t.openingRecord(now)
	if err != nil {
		return err
	}
	if err := t.commit(o.SegmentBytes, now, b); err != nil {
		return err
	}
	t.total += int64(b.size())
	if !first {
		return nil
	}
	if err := t.syncNames(); err != nil {
		return err
	}
	return t.register(ctx, o, nacre.KindChainOpen, now)
}

// register enters the last record of the chain in the index.
func (t *tail) register(ctx context.Context, o Options, kind nacre.Kind, now time.Time) error {
	r, err := registrationRecord(kind, registration{
		Chain: t.chain, Genesis: t.genesis, RecordHash: t.seal.prev, Seq: t.seal.next - 1,
	}, now)
	if err != nil {
		return err
	}
	if err := t.enterIndex(ctx, o, r, now); err != nil {
		return fmt.Errorf("enter chain %s in the index: %w", t.chain, err)
	}
	return nil
}

func start(o Options, dir string, lock *disk.Lock, t *tail) *Chain {
	c := &Chain{
		o: o, dir: dir, lock: lock, tail: t, wake: make(chan struct{}, 1), stopped: make(chan struct{}),
		queue: queue{seal: t.seal, total: t.total, group: newGroup(), drained: make(chan struct{})},
	}
	go c.write()
	return c
}

// Append implements [nacre.Recorder]: the record has its place in the chain
// when it returns, and is durable with the next group, at latest after 10 ms.
func (c *Chain) Append(ctx context.Context, r nacre.Record) error {
	_, err := c.add(ctx, r, false)
	return err
}

// Commit implements [nacre.Recorder]: it returns when the record and all
// before it are durable. Where ctx ends first, the record may or may not be in
// the chain, and the caller must not act on it.
func (c *Chain) Commit(ctx context.Context, r nacre.Record) error {
	g, err := c.add(ctx, r, true)
	if err != nil {
		return err
	}
	return g.wait(ctx)
}

func (g *group) wait(ctx context.Context) error {
	select {
	case <-g.done:
		return g.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// add gives the record its place and returns the group with which it becomes durable.
func (c *Chain) add(ctx context.Context, r nacre.Record, urgent bool) (*group, error) {
	if r.Kind == nacre.KindChainOpen || r.Kind == nacre.KindChainClose {
		return nil, fmt.Errorf("%w: kind %s is the chain's own", ErrRecord, r.Kind)
	}
	if r.Time.IsZero() {
		r.Time = c.o.Now()
	}
	b, err := encode(r)
	if err != nil {
		return nil, err
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		g, drained, err := c.tryAdd(b, quota.Of(r.Kind), urgent)
		if drained == nil {
			return g, err
		}
		select {
		case <-drained:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryAdd returns a channel to wait for where too much waits for the disk already.
func (c *Chain) tryAdd(b body, r quota.Rank, urgent bool) (*group, <-chan struct{}, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return nil, nil, c.err
	case c.ended:
		return nil, nil, ErrClosed
	case len(c.buf) >= maxPending:
		return nil, c.drained, nil
	case c.total+int64(b.size()) > r.Limit(c.o.QuotaBytes):
		return nil, nil, fmt.Errorf("%w: %d bytes of %d", ErrQuota, c.total, c.o.QuotaBytes)
	}
	return c.put(b, urgent), nil, nil
}

// put is called with mu held.
func (c *Chain) put(b body, urgent bool) *group {
	before := len(c.buf)
	c.buf = c.seal.seal(c.buf, b)
	c.total += int64(len(c.buf) - before)
	if urgent {
		c.urgent = true
		c.group.size++
	}
	c.poke()
	return c.group
}

func (c *Chain) poke() {
	select {
	case c.wake <- struct{}{}:
	default: // it knows
	}
}

// Head makes everything recorded so far durable and signs it.
func (c *Chain) Head(ctx context.Context) (Head, error) {
	c.mu.Lock()
	if err := c.err; err != nil || c.ended {
		c.mu.Unlock()
		return Head{}, stopped(err)
	}
	g := c.group
	c.urgent = true
	c.poke()
	c.mu.Unlock()
	if err := g.wait(ctx); err != nil {
		return Head{}, err
	}
	h := Head{Chain: c.o.Chain, Genesis: c.tail.genesis, Seq: g.head.seq - 1, RecordHash: g.head.prev, State: HeadOpen}
	return signHead(h, c.o.Keys, c.o.Now()), nil
}

// stopped is why a chain takes no more: what went wrong, or that it was closed.
func stopped(err error) error {
	if err == nil {
		return ErrClosed
	}
	return err
}

// Close writes the chain.close record, signs the closing head and enters it in
// the index. It waits for the disk whatever ctx says; ctx bounds the wait for
// the index. Later calls return the same.
func (c *Chain) Close(ctx context.Context) error {
	c.closing.Do(func() { c.failure = c.close(ctx) })
	return c.failure
}

func (c *Chain) close(ctx context.Context) error {
	now := c.o.Now()
	r := nacre.Record{Kind: nacre.KindChainClose, Time: now, Source: source}
	if c.sealing {
		r.Detail = json.RawMessage(`{"sealed":true}`)
	}
	b, err := encode(r)
	c.mu.Lock()
	if c.err == nil && err == nil { // err: a broken clock, which leaves the chain unsealed
		_ = c.put(b, true)
		c.closed = &now
	}
	c.ended = true
	c.poke()
	c.mu.Unlock()
	<-c.stopped
	if err == nil {
		err = c.err // the writer has ended: nobody else changes it
	}
	if err == nil {
		err = c.tail.register(ctx, c.o, nacre.KindChainClose, now)
	}
	return errors.Join(err, c.tail.close(), c.lock.Release())
}
