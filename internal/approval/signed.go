package approval

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/database"
)

// Why a press from another machine, or a question of one, does not count, whoever wrote it into the store.
var (
	// ErrUnsigned is what no machine signed.
	ErrUnsigned = errors.New("no machine signed it: update nacre on the machine where it comes from; where none is older, somebody changed the database")
	// ErrForged is what the machine that it names did not sign, or one did whose word does not count.
	ErrForged = errors.New("its signature does not hold")
	// ErrStale is an answer that comes too late, or once more.
	ErrStale = errors.New("the answer was given before, and does not count now: look at the question, and answer it again")
)

// said is what a machine signs of a question or of a press. It names all that a row could be taken from or put to.
type said struct {
	Kind         string `json:"kind"`
	Installation string `json:"installation"`
	// Machine and Session are the question's, and Desk is drawn anew for each opening of it.
	Machine string          `json:"machine"`
	Session nacre.SessionID `json:"session"`
	Desk    string          `json:"desk"`
	// Question is the digest of the question as its machine wrote it: its id and all that it asks.
	Question string `json:"question"`
	// Name is a press's own, and Person whom its machine takes the presser for. At is when it was made, by the
	// database's clock. Press is the digest of the press as it was written.
	Name   string    `json:"name,omitempty"`
	Person string    `json:"person,omitempty"`
	At     time.Time `json:"at,omitzero"`
	Press  string    `json:"press,omitempty"`
}

func (s said) bytes() []byte {
	text, _ := json.Marshal(s) // texts, and a time that a database has
	return text
}

// signature is what stands in a row in front of what it signs.
type signature struct {
	By        string    `json:"by"`
	Question  string    `json:"question,omitempty"`
	At        time.Time `json:"at,omitzero"`
	Signature []byte    `json:"signature"`
}

// signedMember is what a row begins with that is signed. A nacre that knows of no signatures passes over the member.
const signedMember = `{"signed":`

// before puts a signature into a JSON object that has members.
func (s signature) before(body []byte) ([]byte, error) {
	text, err := json.Marshal(s)
	return slices.Concat([]byte(signedMember), text, []byte(","), body[1:]), err
}

// parted takes a row apart; signed is false where no signature stands in it, and body all of it then.
func parted(row []byte) (s signature, body []byte, signed bool) {
	rest, found := bytes.CutPrefix(row, []byte(signedMember))
	read := json.NewDecoder(bytes.NewReader(rest))
	if !found || read.Decode(&s) != nil {
		return signature{}, row, false
	}
	members, found := bytes.CutPrefix(rest[read.InputOffset():], []byte(","))
	if !found {
		return signature{}, row, false
	}
	return s, append([]byte("{"), members...), true
}

func digestOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// asks is what a machine signs of a question that it writes.
func (b Board) asks(machine string, w waiting) said {
	return said{Kind: "question", Installation: b.store.Installation(), Machine: machine, Session: w.question.Session, Desk: w.desk, Question: w.digest}
}

// answers is what a machine signs of a press that it writes.
func (b Board) answers(w waiting, s signature, name, person string, body []byte) said {
	return said{Kind: "press", Installation: b.store.Installation(), Machine: w.machine, Session: w.question.Session, Desk: w.desk,
		Question: s.Question, Name: name, Person: person, At: s.At.UTC(), Press: digestOf(body)}
}

// read takes the row of a question. machine stays empty where no signature holds, and why says so then.
func (w *waiting) read(b Board, row []byte, verify database.Verify) {
	s, body, signed := parted(row)
	w.digest = digestOf(body)
	switch err := json.Unmarshal(body, &w.question); {
	case err != nil:
		w.why = fmt.Errorf("%w: it is not a question: somebody changed the database", ErrForged)
	case !signed:
		w.why = ErrUnsigned
	default:
		if err := verify(s.By, b.asks(s.By, *w).bytes(), s.Signature); err != nil {
			w.why = fmt.Errorf("%w: %w", ErrForged, err)
			return
		}
		w.machine = s.By
	}
}

// signed is a press as it is written for a desk.
func (b Board) signed(ctx context.Context, w waiting, name, person string, p nacre.Press) ([]byte, error) {
	body, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	pool, err := b.pool(ctx)
	if err != nil {
		return nil, err
	}
	var s signature
	if w.machine != "" {
		s.Question = w.digest
	}
	// Who can make functions in the database cannot say what this one is.
	if err := pool.QueryRow(ctx, `SELECT pg_catalog.clock_timestamp()`).Scan(&s.At); err != nil {
		return nil, err
	}
	if s.By, err = b.store.Name(ctx); err != nil {
		return nil, err
	}
	if s.Signature, err = b.store.Sign(ctx, b.answers(w, s, name, person, body).bytes()); err != nil {
		return nil, err
	}
	return s.before(body)
}

// given is a press as a desk found it.
type given struct {
	name, person string
	row          []byte
	// now is the database's clock when it was taken.
	now time.Time
}

// verified is a press that a machine of the installation signed, for the very question that this desk shows, and which is
// taken for the first time. p is what can be read of it, also with an error.
func (s *sharing) verified(ctx context.Context, g given) (p nacre.Press, err error) {
	by, body, signed := parted(g.row)
	if err := json.Unmarshal(body, &p); err != nil {
		return p, fmt.Errorf("%w: it is not an answer: somebody changed the database", ErrForged)
	}
	if !signed {
		return p, ErrUnsigned
	}
	verify, err := s.store.Signers(ctx)
	if err != nil {
		return p, err
	}
	w := waiting{desk: s.name, machine: s.machine, question: nacre.Question{Session: s.desk.o.Session}}
	if by.Question == "" {
		w.machine = "" // it was shown without this machine's signature
	}
	if err := verify(by.By, s.answers(w, by, g.name, g.person, body).bytes(), by.Signature); err != nil {
		return p, fmt.Errorf("%w: %w", ErrForged, err)
	}
	for name, at := range s.taken {
		if g.now.Sub(at) > patience {
			delete(s.taken, name) // it is stale
		}
	}
	_, before := s.taken[g.name]
	s.taken[g.name] = by.At
	shown, waits := s.shown[strings.ToLower(p.ID)]
	switch {
	case before || by.At.After(g.now) || g.now.Sub(by.At) > patience:
		return p, ErrStale
	case waits && by.Question != shown:
		return p, fmt.Errorf("%w: somebody changed the question in the database; answer it at its own machine", ErrShown)
	}
	return p, nil
}
