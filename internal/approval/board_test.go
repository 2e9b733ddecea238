package approval_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/approval"
	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/person"
	"github.com/nacre-dev/nacre/internal/testpeer"
	"github.com/nacre-dev/nacre/internal/testwait"
)

// boards are machines of one installation: one has a desk, the others a board.
type boards struct {
	*pressing
	address string
	here    *database.Store
	list    *machineList
}

// machineList are the machines that are admitted, by their names.
type machineList struct {
	mu   sync.Mutex
	keys map[string]ed25519.PublicKey
}

// witness is one of them.
type witness struct {
	name string
	key  ed25519.PrivateKey
	list *machineList
}

func (l *machineList) admit(t *testing.T, name string) *witness {
	t.Helper()
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys[name] = public
	return &witness{name, key, l}
}

func (l *machineList) retire(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.keys, name)
}

func (w *witness) Name(context.Context) (string, error) { return w.name, nil }

func (w *witness) Sign(_ context.Context, statement []byte) ([]byte, error) {
	return ed25519.Sign(w.key, statement), nil
}

func (w *witness) Signers(context.Context) (database.Verify, error) {
	w.list.mu.Lock()
	defer w.list.mu.Unlock()
	keys := maps.Clone(w.list.keys)
	return func(machine string, statement, signature []byte) error {
		if key := keys[machine]; key == nil || !ed25519.Verify(key, statement, signature) {
			return fmt.Errorf("machine %s did not sign it", machine)
		}
		return nil
	}, nil
}

func newBoards(t *testing.T) *boards {
	t.Helper()
	b := &boards{address: testpeer.Postgres(t), list: &machineList{keys: map[string]ed25519.PublicKey{}}}
	b.here = b.machine(t, "one")
	ada := operator(nacre.Write, "terminal:7")
	b.pressing = newPressing(person.Operators{"ada": ada})
	b.desk = approval.New(approval.Options{Now: time.Now, Recorder: b.ledger, Session: "s1", Group: "g1", Directory: b.people.directory, Store: b.here})
	t.Cleanup(func() {
		if err := b.desk.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// machine is one that is admitted, over a connection of its own.
func (b *boards) machine(t *testing.T, name string) *database.Store {
	t.Helper()
	s := database.NewStore(func() string { return b.address }, "acme")
	s.Signs(b.list.admit(t, name))
	t.Cleanup(s.Close)
	return s
}

// board is that of a machine that is admitted, over a connection of its own.
func (b *boards) board(t *testing.T, name string) approval.Board {
	t.Helper()
	return approval.NewBoard(b.machine(t, name))
}

// asked asks, and gives the question as another machine sees it.
func (b *boards) asked(t *testing.T, board approval.Board) (q nacre.Question) {
	t.Helper()
	want, err := b.ask(0)
	if err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "the question at the other machine", func() bool {
		all, err := board.Questions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range all {
			if found.ID == want.ID {
				q = found
			}
		}
		return q.ID != ""
	})
	return q
}

func at(identity string, q nacre.Question, v nacre.Verdict) nacre.Press {
	p := approval.Here(q, nacre.Ruling{Verdict: v, By: "another machine"})
	p.Identity = identity
	return p
}

// a question that waits at one machine is seen and answered at another one, once, with a
// record in its own session's chain. The desk holds the press against its own list of persons.
func TestAQuestionIsAnsweredAtAnotherMachine(t *testing.T) {
	t.Parallel()
	b := newBoards(t)
	board := b.board(t, "two")
	ada := person.Person{Name: "ada"}
	q := b.asked(t, board)
	for what, press := range map[string]struct {
		p    nacre.Press
		who  string
		want error
	}{
		"a stranger's":                       {at("terminal:8", q, nacre.Allow), "ada", person.ErrStranger},
		"of one who is another person there": {at("terminal:7", q, nacre.Allow), "eve", person.ErrStranger},
		"on another card":                    {nacre.Press{ID: q.ID, Identity: "terminal:7", Shown: "else", Ruling: nacre.Ruling{Verdict: nacre.Allow, By: "x"}}, "ada", approval.ErrShown},
		"on what nobody asks":                {nacre.Press{ID: "zzzz", Identity: "terminal:7"}, "ada", approval.ErrUnknown},
	} {
		if _, err := board.Press(t.Context(), press.p, person.Person{Name: press.who}); !errors.Is(err, press.want) {
			t.Errorf("a press %s: have %v, want %v", what, err, press.want)
		}
	}
	if have := b.ended(q.ID); len(have) != 0 {
		t.Fatalf("it was decided: %v", have)
	}
	outcome, err := board.Press(t.Context(), at("terminal:7", q, nacre.Allow), ada)
	if err != nil || outcome.By == "" {
		t.Fatalf("have %+v, %v", outcome, err)
	}
	testwait.Until(t, "the end of the question", func() bool { return len(b.ended(q.ID)) == 1 })
	if have := b.ended(q.ID); have[0].Verdict != nacre.Allow {
		t.Errorf("have %+v", have)
	}
	testwait.Until(t, "the question to be gone", func() bool {
		all, err := board.Questions(t.Context())
		return err == nil && len(all) == 0
	})
	if _, err := board.Press(t.Context(), at("terminal:7", q, nacre.Deny), ada); !errors.Is(err, approval.ErrUnknown) {
		t.Errorf("a press on what was decided: have %v", err)
	}
	if have := b.ended(q.ID); len(have) != 1 {
		t.Errorf("it was decided %d times", len(have))
	}
}

// of two machines that answer at once, one decides.
func TestTwoMachinesAnswerAtOnce(t *testing.T) {
	t.Parallel()
	b := newBoards(t)
	one, two := b.board(t, "two"), b.board(t, "three")
	q := b.asked(t, one)
	ends := make(chan error, 2)
	for _, board := range []approval.Board{one, two} {
		go func() {
			_, err := board.Press(t.Context(), at("terminal:7", q, nacre.Allow), person.Person{Name: "ada"})
			ends <- err
		}()
	}
	decided := 0
	for range 2 {
		if err := <-ends; err == nil {
			decided++
		} else if !errors.Is(err, approval.ErrLate) && !errors.Is(err, approval.ErrUnknown) {
			t.Error(err)
		}
	}
	if decided != 1 {
		t.Errorf("%d presses decided", decided)
	}
}

// a machine whose lease is over decides nothing on what others press, and one that is
// gone is no place where a question waits. A press that was not taken never counts.
func TestAMachineThatIsOverDecidesNothing(t *testing.T) {
	t.Parallel()
	b := newBoards(t)
	board := b.board(t, "two")
	pool, err := pgxpool.New(t.Context(), b.address)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(t.Context(), `CREATE TABLE test_lease AS SELECT true AS held`); err != nil {
		t.Fatal(err)
	}
	b.here.Under(database.Lease{Statement: "SELECT true FROM test_lease WHERE held FOR SHARE", Over: errors.New("over")})
	q := b.asked(t, board)
	if _, err := pool.Exec(t.Context(), `UPDATE test_lease SET held = false`); err != nil { // it waits for what is written under the lease
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := board.Press(short, at("terminal:7", q, nacre.Allow), person.Person{Name: "ada"}); !errors.Is(err, approval.ErrAbsent) {
		t.Errorf("have %v, want it not taken", err)
	}
	var left int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM nacre_press`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d presses are left: %v", left, err)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE nacre_question SET seen = seen - interval '1 minute'`); err != nil {
		t.Fatal(err)
	}
	if all, err := board.Questions(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("a machine that is gone asks: %v, %v", all, err)
	}
	if len(b.ended(q.ID)) != 0 {
		t.Error("it was decided")
	}
}

// where the store is away, a session's own machine goes on asking and answering.
func TestAStoreThatIsAwayTakesNothingFromADesk(t *testing.T) {
	t.Parallel()
	store := database.NewStore(func() string { return "postgres://nacre@/x?host=/nonexistent" }, "acme")
	b := &boards{pressing: newPressing(person.Operators{"ada": operator(nacre.Write, "terminal:7")})}
	b.desk = approval.New(approval.Options{Now: time.Now, Recorder: b.ledger, Session: "s1", Group: "g1", Directory: b.people.directory, Store: store})
	q, err := b.ask(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.desk.Press(at("terminal:7", q, nacre.Allow)); err != nil {
		t.Error(err)
	}
	if err := b.desk.Close(); err != nil {
		t.Error(err)
	}
	if _, err := approval.NewBoard(store).Questions(t.Context()); !errors.Is(err, database.ErrAway) {
		t.Errorf("have %v, want the store away", err)
	}
}

// Questions that one look does not show are said to be there.
func TestMoreQuestionsThanABoardShows(t *testing.T) {
	t.Parallel()
	b := newBoards(t)
	board := approval.NewBoard(b.here)
	pool, err := b.here.Room(t.Context(), "approval", approval.Migrations)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		more, shown int
		whole       bool
	}{{1000, 1000, true}, {1, 1000, false}} {
		if _, err := pool.Exec(t.Context(), `INSERT INTO nacre_question (desk, id, session, question, seen)
			SELECT 'elsewhere' || $2, 'q' || n, 's', convert_to('{"id":"q' || n || '"}', 'UTF8'), clock_timestamp() + interval '1 hour' FROM generate_series(1, $1) n`, c.more, fmt.Sprint(c.more)); err != nil {
			t.Fatal(err)
		}
		if all, err := board.Questions(t.Context()); len(all) != c.shown || strings.Contains(err.Error(), "more than 1000") == c.whole || !strings.Contains(err.Error(), "and 990 more questions") {
			t.Errorf("%d more: %d are shown: %v", c.more, len(all), err)
		}
	}
}
