package inbox_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nacre-dev/nacre/internal/inbox"
	"github.com/nacre-dev/nacre/internal/testpeer"
	"github.com/nacre-dev/nacre/internal/testwait"
)

// storm is nodes that share a database while each fails in every way, and what became of
// the messages meanwhile.
type storm struct {
	t       *testing.T
	address string
	pool    *pgxpool.Pool
	working sync.WaitGroup

	mu     sync.Mutex
	random *rand.Rand
	nodes  map[string]*stormNode
	// begun are the counts with which work on each message began, and taken those whose channel was
	// told so. given are those of which it was told that nobody begins with them again.
	begun map[string][]int
	taken map[string]bool
	given map[string]int
	// first are the messages of each conversation in the order in which work on them first began.
	first map[string][]int
}

// stormNode is one process of a node.
type stormNode struct {
	wire  *testpeer.Wire
	box   *inbox.Box
	turns *inbox.Turns
	dead  chan struct{}
}

// stormLimit is how many agents of the group run at once over all nodes.
const stormLimit = 4

func (s *storm) chance(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.IntN(n)
}

// node is one of those that are there.
func (s *storm) node() (string, *stormNode) {
	names := []string{"one", "two", "three"}
	name := names[s.chance(len(names))]
	s.mu.Lock()
	defer s.mu.Unlock()
	return name, s.nodes[name]
}

// starts lets a process of a node begin its life, where another may have died.
func (s *storm) starts(name string) {
	wire := testpeer.NewWire(s.t, s.address)
	var box *inbox.Box
	testwait.Until(s.t, "node "+name, func() (joined bool) {
		var err error
		box, err = inbox.Join(s.t.Context(), storeAt(s.t, wire.Address), name, 100_000)
		return err == nil
	})
	n := &stormNode{wire: wire, box: box, turns: box.Turns(stormLimit), dead: make(chan struct{})}
	s.mu.Lock()
	s.nodes[name] = n
	s.mu.Unlock()
	s.working.Go(func() { s.lives(n) })
}

// lives is what a process does until it dies, or learns that it is over.
func (s *storm) lives(n *stormNode) {
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		left, _ := n.box.TakeOver(dead)   // the next look says it again
		_ = n.turns.Settle(s.t.Context()) // so does this
		for _, m := range left {
			if _, ok := n.box.Offer(m.ID); ok && m.Lost() {
				s.persist(n, func() error {
					err := n.box.Remove(m.ID)
					if err == nil {
						s.note(func() { s.given[m.ID]++ })
					}
					return err
				})
			} else {
				n.box.Withdraw(m.ID)
			}
		}
		for _, m := range n.box.Waiting() {
			if _, ok := n.box.Offer(m.ID); ok {
				s.working.Go(func() { s.works(n, m.ID) })
			}
		}
		select {
		case <-n.dead:
			return
		case <-n.box.Over():
			return
		case <-look.C:
		}
	}
}

// works waits for a message's turn, begins with it and deals with it.
func (s *storm) works(n *stormNode, id string) {
	m, _ := n.box.Get(id)
	s.persist(n, func() error {
		given, err := n.turns.Take(s.t.Context(), inbox.Turn{ID: id, Group: m.Group, Conversation: m.Conversation})
		if err == nil && !given {
			err = errors.New("it is another's turn")
		}
		return err
	})
	defer n.turns.End(s.t.Context(), id)
	s.persist(n, func() error {
		m, err := n.box.Begin(id)
		if err == nil {
			s.note(func() { s.begins(m) })
		}
		return err
	})
	if s.rests(n, 400) {
		s.persist(n, func() error { return n.box.Remove(id) })
	}
}

// begins is called with mu held.
func (s *storm) begins(m inbox.Message) {
	s.begun[m.ID] = append(s.begun[m.ID], m.Begun)
	if m.Begun == 1 && m.Conversation != "" {
		s.first[m.Conversation] = append(s.first[m.Conversation], int(m.Taken.Nanosecond()))
	}
}

// rests lets some time pass, up to so many milliseconds, and tells whether the process lives.
func (s *storm) rests(n *stormNode, most int) bool {
	select {
	case <-time.After(time.Duration(s.chance(most)) * time.Millisecond):
		return true
	case <-n.dead:
		return false
	}
}

// persist does not give up before the process ends.
func (s *storm) persist(n *stormNode, do func() error) {
	for {
		if err := do(); err == nil || errors.Is(err, inbox.ErrUnknown) {
			return
		}
		select {
		case <-n.dead:
			return
		case <-n.box.Over():
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (s *storm) note(what func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what()
}

// brings is a channel: it brings each message to some node. One that it can bring again it
// brings until it is told that it was taken.
func (s *storm) brings(from, to int) {
	for i := from; i < to; i++ {
		<-time.After(time.Duration(s.chance(300)) * time.Millisecond)
		m := repeatable(i)
		if i%10 == 0 {
			m = message(i)
		}
		if i%3 > 0 { // and each channel has a conversation, in which it waits for each answer
			m.Conversation = fmt.Sprintf("box/%d", from)
		}
		m.Session = ""
		for try := 0; try == 0 || m.Once; try++ {
			m.Session = message(i*1000 + try).Session
			_, n := s.node()
			if err := n.box.Keep(m); err == nil || errors.Is(err, inbox.ErrRepeated) {
				s.note(func() { s.taken[m.ID] = true })
				break
			}
			select {
			case <-s.t.Context().Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
}

// fails lets something fail, and later go on.
func (s *storm) fails(pool *pgxpool.Pool) {
	name, n := s.node()
	rest := time.Duration(100+s.chance(900)) * time.Millisecond
	switch s.chance(7) {
	case 0: // killed: nobody hears of it again, and its name is there again
		n.wire.Cut()
		close(n.dead)
		s.starts(name)
	case 1:
		n.wire.Cut()
	case 2: // cut off for longer than its lease
		n.wire.Cut()
		rest += 3 * time.Second
	case 3: // some of what it says is not answered, or all of it
		n.wire.Mute([]string{"INSERT", name}[s.chance(2)])
	case 4:
		n.wire.Slow(time.Duration(s.chance(60)) * time.Millisecond)
	case 5:
		n.wire.HalfClose()
	case 6: // as when the database starts again
		_, _ = pool.Exec(s.t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'nacre'`)
	}
	<-time.After(rest)
	s.heals(name)
}

// heals lets a node go on, in a process of its own where the one before is over.
func (s *storm) heals(name string) {
	s.mu.Lock()
	n := s.nodes[name]
	s.mu.Unlock()
	n.wire.Heal()
	s.replaces(name, n)
}

func (s *storm) replaces(name string, n *stormNode) {
	select {
	case <-n.box.Over():
		s.starts(name)
	default:
	}
}

// nodes are killed, cut off, slowed down and not answered at random, and the database ends
// all connections, while messages come in. Each one that was taken is begun once, or begun again
// after an interruption, or told to be given up. None is left, and none begins twice with the same
// count. Those of a conversation begin in the order in which they were taken, and there are never
// more at once than the group may have.
func TestNothingIsLostInAStorm(t *testing.T) {
	t.Parallel()
	messages, faults := testpeer.Size(120, 1500), testpeer.Size(6, 120)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	address := testpeer.Postgres(t)
	s := &storm{
		t: t, address: address, pool: direct(t, address), random: rand.New(rand.NewPCG(seed, 0)), nodes: map[string]*stormNode{},
		begun: map[string][]int{}, taken: map[string]bool{}, given: map[string]int{}, first: map[string][]int{},
	}
	for _, name := range []string{"one", "two", "three"} {
		s.starts(name)
	}
	var channels sync.WaitGroup
	for c := range 3 {
		channels.Go(func() { s.brings(c*messages/3, (c+1)*messages/3) })
	}
	for range faults {
		s.fails(s.pool)
		if n := number(t, s.pool, `SELECT count(*) FROM nacre_turn WHERE began`); n > stormLimit {
			t.Errorf("%d agents run at once, want %d at most", n, stormLimit)
		}
	}
	channels.Wait()
	testwait.Until(t, "all messages to be dealt with", func() bool {
		s.replaces(s.node())
		return number(t, s.pool, `SELECT count(*) FROM nacre_message`) == 0
	})
	s.mu.Lock()
	for _, n := range s.nodes {
		close(n.dead)
		t.Cleanup(func() { _ = n.box.Close() })
	}
	s.mu.Unlock()
	s.working.Wait()
	for conversation, order := range s.first {
		if !slices.IsSorted(order) {
			t.Errorf("%s: the messages began as %v", conversation, order)
		}
	}
	again := 0
	for id := range s.taken {
		counts := slices.Sorted(slices.Values(s.begun[id]))
		again += max(0, len(counts)-1)
		if s.given[id] > 1 {
			t.Errorf("%s: given up, and told so %d times", id, s.given[id])
		}
		if len(counts) == 0 && s.given[id] == 0 {
			t.Errorf("%s was taken, and nobody began with it", id)
		}
		if len(counts) > 2 || len(counts) == 2 && counts[0] == counts[1] {
			t.Errorf("%s was begun as %v", id, counts)
		}
	}
	if len(s.taken) < messages*9/10 {
		t.Errorf("%d of %d messages were taken", len(s.taken), messages)
	}
	t.Logf("%d taken, %d begun again, %d given up", len(s.taken), again, len(s.given))
}
