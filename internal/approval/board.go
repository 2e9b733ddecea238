package approval

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/person"
)

const (
	// room is this package's tables, and topic what rings when they changed.
	room, topic = "approval", "approval"
	// look is how often a desk and a presser look where nothing rings.
	look = 500 * time.Millisecond
	// fresh is how long a question is believed to wait whose desk has not said so again.
	fresh = "10 seconds"
	// patience is how long a press waits for its desk, and sure how much longer where the
	// desk has it in hand.
	patience, sure = 8 * time.Second, 15 * time.Second
	// oneLook bounds one look at the tables, and maxQuestions what is read of it.
	oneLook      = 5 * time.Second
	maxQuestions = 1000
	// maxTold is of how many questions that no machine signed one is told in one look.
	maxTold = 10
)

// ErrAbsent is a press that its session's machine did not take: nothing was done.
var ErrAbsent = errors.New("the machine of the session does not answer, so nothing was done")

// Migrations are those of the tables that machines share. A press is taken once, by the desk
// of its question, and then has an outcome.
func Migrations() []string {
	return []string{`
CREATE TABLE nacre_question (
    desk     text NOT NULL,
    id       text NOT NULL,
    session  text NOT NULL,
    question bytea NOT NULL,
    seen     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (desk, id)
)`, `
CREATE TABLE nacre_press (
    name    text PRIMARY KEY,
    desk    text NOT NULL,
    press   bytea NOT NULL,
    person  text NOT NULL,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    taken   boolean NOT NULL DEFAULT false,
    outcome bytea
)`, `CREATE INDEX nacre_press_desk ON nacre_press (desk) WHERE NOT taken`}
}

// Board is where the questions that wait at one machine of an installation are seen and
// answered from another, in the store that they share. The desk of a question's own
// session decides, as on a press that came to itself. Questions and presses are signed by the machines
// that write them: whoever can write to the store answers nothing, and shows nobody anything else.
type Board struct{ store *database.Store }

// NewBoard is the board in a store.
func NewBoard(store *database.Store) Board { return Board{store} }

func (b Board) pool(ctx context.Context) (*pgxpool.Pool, error) {
	return b.store.Room(ctx, room, Migrations)
}

// Questions are those that wait at all machines; at this one too. An error says which of them are not
// signed by their machine, as those of an older nacre, and which are left out, since somebody changed them. Where there
// are more than maxQuestions, they are those of the desks that were heard of longest ago, with an error.
func (b Board) Questions(ctx context.Context) ([]nacre.Question, error) {
	found, err := b.find(ctx, `true`)
	if len(found) > maxQuestions {
		found, err = found[:maxQuestions], fmt.Errorf("more than %d questions wait in the store: only %d are shown; answer some, or stop the sessions that ask", maxQuestions, maxQuestions)
	}
	kept, changed := held(found)
	all := make([]nacre.Question, 0, len(kept))
	for _, f := range kept {
		all = append(all, f.question)
		if f.why != nil {
			changed = append(changed, f.told())
		}
	}
	if more := len(changed) - maxTold; more > 0 {
		changed = append(changed[:maxTold], fmt.Errorf("and %d more questions in the store that no machine signed", more))
	}
	return all, errors.Join(append(changed, err)...)
}

// waiting is a question as it stands in the store.
type waiting struct {
	desk     string
	question nacre.Question
	digest   string
	// machine is whose it is, where that signed it; else why says why that is not known.
	machine string
	why     error
}

func (w waiting) told() error {
	return fmt.Errorf("question %.20q of session %.80q in the store: %w", w.question.ID, w.question.Session, w.why)
}

// held are the questions that may be shown: those that their machines signed, and those that nobody signed, where
// no other one has their id. The errors are those of the rest.
func held(found []waiting) (kept []waiting, changed []error) {
	signed := map[string]bool{}
	for _, w := range found {
		signed[w.question.ID] = signed[w.question.ID] || w.why == nil
	}
	for _, w := range found {
		if w.why == nil || errors.Is(w.why, ErrUnsigned) && !signed[w.question.ID] {
			kept = append(kept, w)
		} else {
			changed = append(changed, w.told())
		}
	}
	return kept, changed
}

func (b Board) find(ctx context.Context, where string, args ...any) ([]waiting, error) {
	ctx, cancel := context.WithTimeout(ctx, oneLook)
	defer cancel()
	pool, err := b.pool(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := pool.Query(ctx, `SELECT desk, question FROM nacre_question
		WHERE seen > clock_timestamp() - interval '`+fresh+`' AND `+where+` ORDER BY seen LIMIT `+strconv.Itoa(maxQuestions+1), args...)
	if err != nil {
		return nil, database.Classified(err)
	}
	type row struct {
		Desk     string
		Question []byte
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if err != nil || len(list) == 0 {
		return nil, database.Classified(err)
	}
	verify, err := b.store.Signers(ctx)
	if err != nil {
		return nil, err
	}
	found := make([]waiting, len(list))
	for i, one := range list {
		found[i].desk = one.Desk
		found[i].read(b, one.Question, verify)
	}
	return found, nil
}

// Press brings a press to the desk of the machine whose question it names, and waits for what
// it decides. who is whom this machine takes the presser for: the desk takes it for nobody
// else. [ErrUnknown] says that no machine asks, [ErrAbsent] that the machine is gone.
func (b Board) Press(ctx context.Context, p nacre.Press, who person.Person) (nacre.Pressed, error) {
	all, err := b.find(ctx, `id = $1`, p.ID)
	found, changed := held(slices.DeleteFunc(all, func(w waiting) bool { return w.question.ID != p.ID && !errors.Is(w.why, ErrForged) }))
	switch {
	case err != nil:
		return nacre.Pressed{}, err
	case len(found) == 0 && len(changed) > 0:
		return nacre.Pressed{}, errors.Join(changed...)
	case len(found) == 0:
		return nacre.Pressed{}, fmt.Errorf("%w: %.20q", ErrUnknown, p.ID)
	case len(found) > 1:
		return nacre.Pressed{}, fmt.Errorf("question %q waits in %d sessions: stop one of them", p.ID, len(found))
	}
	rings, end := b.store.Listen(topic)
	defer end()
	name, err := b.bring(ctx, found[0], p, who)
	if err != nil {
		return nacre.Pressed{}, err
	}
	told, err := b.await(ctx, name, rings, patience)
	if err != nil || told != nil {
		return told.result(err)
	}
	withdrawn, err := b.withdraw(ctx, name)
	if err != nil || withdrawn {
		return nacre.Pressed{}, errors.Join(ErrAbsent, err)
	}
	if told, err = b.await(ctx, name, rings, sure); err == nil && told == nil {
		err = fmt.Errorf("session %s took the answer and has not said what came of it: look with nacre approvals list", found[0].question.Session)
	}
	return told.result(err)
}

// bring writes a press down for a desk, while its question is on the board. The desk takes a
// question from there before it looks for presses the last time, so none comes after that.
func (b Board) bring(ctx context.Context, w waiting, p nacre.Press, who person.Person) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, oneLook)
	defer cancel()
	name := rand.Text()
	data, err := b.signed(ctx, w, name, who.Name, p)
	if err != nil {
		return "", database.Classified(err)
	}
	pool, err := b.pool(ctx)
	if err != nil {
		return "", err
	}
	return name, b.store.Write(ctx, pool, 0, func(tx pgx.Tx) error {
		var there bool
		err := tx.QueryRow(ctx, `SELECT true FROM nacre_question WHERE desk = $1 AND id = $2 FOR KEY SHARE`, w.desk, w.question.ID).Scan(&there)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("%w: %.20q", ErrUnknown, w.question.ID)
		}
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO nacre_press (name, desk, press, person) VALUES ($1, $2, $3, $4)`, name, w.desk, data, who.Name); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, database.Ring, topic)
		return err
	})
}

// told is what a desk said of a press.
type told struct {
	Pressed nacre.Pressed `json:"pressed"`
	Error   string        `json:"error,omitempty"`
	// Reason is a word of [Refusals].
	Reason string `json:"reason,omitempty"`
}

// refusal is what the desk of another machine said of a press.
type refusal struct {
	text string
	kind error
}

func (r refusal) Error() string { return r.text }

// Unwrap gives the reason, as the desk itself gave it.
func (r refusal) Unwrap() error { return r.kind }

func (t *told) result(err error) (nacre.Pressed, error) {
	if err != nil || t == nil || t.Error == "" {
		if t == nil {
			return nacre.Pressed{}, err
		}
		return t.Pressed, err
	}
	for _, known := range Refusals() {
		if known.Word == t.Reason {
			return nacre.Pressed{}, refusal{t.Error, known.Err}
		}
	}
	return nacre.Pressed{}, errors.New(t.Error)
}

// await waits for the outcome of a press; nil where there is none in time.
func (b Board) await(ctx context.Context, name string, rings <-chan struct{}, patience time.Duration) (*told, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pool, err := b.pool(ctx)
	if err != nil {
		return nil, err
	}
	poll := time.NewTicker(look)
	defer poll.Stop()
	for {
		var outcome []byte
		err := pool.QueryRow(ctx, `DELETE FROM nacre_press WHERE name = $1 AND outcome IS NOT NULL RETURNING outcome`, name).Scan(&outcome)
		if err == nil {
			t := new(told)
			return t, json.Unmarshal(outcome, t)
		}
		select {
		case <-rings:
		case <-poll.C:
		case <-ctx.Done():
			return nil, nil //nolint:nilnil // there is no outcome, and that is no error
		}
	}
}

// withdraw takes a press back, unless its desk has it in hand.
func (b Board) withdraw(ctx context.Context, name string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), oneLook)
	defer cancel()
	pool, err := b.pool(ctx)
	if err != nil {
		return false, err
	}
	tag, err := pool.Exec(ctx, `DELETE FROM nacre_press WHERE name = $1 AND NOT taken`, name)
	return tag.RowsAffected() == 1, database.Classified(err)
}

// sharing shows the questions of one desk on the board, and brings the desk the presses of
// other machines. A store that is away takes nothing from the desk: its own machine answers.
type sharing struct {
	Board
	desk *Desk
	name string
	// machine is this one's name, once it has shown a question; shown are the digests of those it shows.
	machine string
	shown   map[string]string
	// taken are the presses of the last while, and when they were made; refused is what was recorded of those that no
	// machine signed.
	taken   map[string]time.Time
	refused map[string]bool
}

// share keeps the board as the desk is, until it is told to end. Then it takes all of the desk's
// from the board.
func (s *sharing) share(ctx context.Context, changed <-chan struct{}) {
	rings, end := s.store.Listen(topic)
	defer end()
	poll := time.NewTicker(look)
	defer poll.Stop()
	for {
		open := s.desk.List()
		if len(open) > 0 || len(s.shown) > 0 {
			s.look(ctx, open)
		}
		select {
		case <-changed:
		case <-rings:
		case <-poll.C:
		case <-ctx.Done():
			if len(s.shown) > 0 {
				s.look(context.WithoutCancel(ctx), nil) // else they are not believed any more in a while
			}
			return
		}
	}
}

// look shows what waits and answers the presses on it. What fails is done at the next look.
func (s *sharing) look(ctx context.Context, open []nacre.Question) {
	ctx, cancel := context.WithTimeout(ctx, oneLook)
	defer cancel()
	if s.show(ctx, open) != nil {
		return
	}
	for {
		g, err := s.take(ctx)
		if err != nil {
			return
		}
		s.answer(ctx, g.name, s.press(ctx, g))
	}
}

// show makes the board's rows those of the questions that wait, and says that they do.
func (s *sharing) show(ctx context.Context, open []nacre.Question) error {
	pool, err := s.pool(ctx)
	if err != nil {
		return err
	}
	ids, fresh, shown := []string{}, map[string][]byte{}, map[string]string{}
	for _, q := range open {
		ids = append(ids, q.ID)
		if shown[q.ID] = s.shown[q.ID]; shown[q.ID] == "" {
			if fresh[q.ID], shown[q.ID], err = s.row(ctx, q); err != nil {
				return err
			}
		}
	}
	err = s.store.Write(ctx, pool, 0, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM nacre_question WHERE desk = $1 AND id <> ALL($2)`, s.name, ids); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE nacre_question SET seen = clock_timestamp() WHERE desk = $1`, s.name); err != nil {
			return err
		}
		for id, data := range fresh {
			if _, err := tx.Exec(ctx, `INSERT INTO nacre_question (desk, id, session, question) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`, s.name, id, string(s.desk.o.Session), data); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		s.shown = shown
	}
	return err
}

// row is a question as it is written, and its digest.
func (s *sharing) row(ctx context.Context, q nacre.Question) (row []byte, digest string, err error) {
	body, err := json.Marshal(q)
	if err != nil {
		return nil, "", err
	}
	if s.machine == "" {
		if s.machine, err = s.store.Name(ctx); err != nil {
			return nil, "", err
		}
	}
	digest = digestOf(body)
	by := signature{By: s.machine}
	statement := s.asks(s.machine, waiting{desk: s.name, question: q, digest: digest})
	if by.Signature, err = s.store.Sign(ctx, statement.bytes()); err != nil {
		return nil, "", err
	}
	row, err = by.before(body)
	return row, digest, err
}

// take makes one press this desk's that nobody withdrew, under the lease of its node: one
// that is over decides nothing any more.
func (s *sharing) take(ctx context.Context) (g given, err error) {
	pool, err := s.pool(ctx)
	if err != nil {
		return g, err
	}
	return g, s.store.Write(ctx, pool, 0, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, `UPDATE nacre_press SET taken = true WHERE name = (
			SELECT name FROM nacre_press WHERE desk = $1 AND NOT taken AND at > clock_timestamp() - interval '`+fresh+`' ORDER BY at LIMIT 1 FOR UPDATE SKIP LOCKED)
			RETURNING name, press, person, pg_catalog.clock_timestamp()`, s.name).Scan(&g.name, &g.row, &g.person, &g.now)
	})
}

// press lets the desk decide on what a machine of the installation signed. Whoever the presser's machine takes for one
// person and this one for another is nobody.
func (s *sharing) press(ctx context.Context, g given) told {
	outcome := nacre.Pressed{}
	p, err := s.verified(ctx, g)
	if err != nil {
		s.refuse(p, err)
	} else if here, unknown := s.desk.who(person.Identity(p.Identity)); unknown == nil && here.Name != g.person {
		err = fmt.Errorf("%w: %s is %s at the other machine and %s here", person.ErrStranger, p.Identity, g.person, here.Name)
		s.desk.refuse(p, err)
	} else {
		outcome, err = s.desk.Press(p)
	}
	if err == nil {
		return told{Pressed: outcome}
	}
	said := told{Error: fmt.Sprintf("session %s: %s", s.desk.o.Session, err)}
	if word := reasonOf(err); word != failed {
		said.Reason = word
	}
	return said
}

// refuse records, once of each question and reason, a press of which nobody knows whose it is.
func (s *sharing) refuse(p nacre.Press, why error) {
	if s.shown[p.ID] == "" {
		p.ID = ""
	}
	p.Identity = ""
	if about := p.ID + " " + reasonOf(why); !s.refused[about] {
		s.refused[about] = true
		s.desk.refuse(p, unproven{why})
	}
}

// answer says what became of a press. Where it cannot be said, the presser is told that
// nobody knows; presses that nobody waits for are removed.
func (s *sharing) answer(ctx context.Context, name string, t told) {
	data, err := json.Marshal(t)
	if err != nil {
		return
	}
	pool, err := s.pool(ctx)
	if err != nil {
		return
	}
	_ = s.store.Write(ctx, pool, 0, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE nacre_press SET outcome = $2 WHERE name = $1`, name, data); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM nacre_press WHERE at < clock_timestamp() - interval '1 hour'`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, database.Ring, topic)
		return err
	})
}

// newSharing is that of a desk; nil without a store.
func newSharing(store *database.Store, desk *Desk) *sharing {
	if store == nil {
		return nil
	}
	return &sharing{Board: Board{store}, desk: desk, name: strings.ToLower(rand.Text()), taken: map[string]time.Time{}, refused: map[string]bool{}}
}
