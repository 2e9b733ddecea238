package approval_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/approval"
	"github.com/nacre-dev/nacre/internal/person"
	"github.com/nacre-dev/nacre/internal/testwait"
)

// writer is whoever can write to the database, and has no machine's key.
type writer struct {
	*pgxpool.Pool
	t *testing.T
}

func (b *boards) writer(t *testing.T) writer {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), b.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return writer{pool, t}
}

func (w writer) do(statement string, args ...any) {
	w.t.Helper()
	if _, err := w.Exec(w.t.Context(), statement, args...); err != nil {
		w.t.Fatalf("%s: %v", statement, err)
	}
}

// row is a press as it stands in the store.
type row struct {
	Name, Desk, Person string
	Press              []byte
}

// steals keeps presses from their desk, or copies them where they are let through.
func (w writer) steals(through string) {
	w.t.Helper()
	w.do(`CREATE TABLE IF NOT EXISTS stolen (LIKE nacre_press)`)
	w.do(`CREATE OR REPLACE FUNCTION steal() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO stolen VALUES (NEW.*); RETURN ` + through + `; END'`)
	w.do(`CREATE OR REPLACE TRIGGER steal BEFORE INSERT ON nacre_press FOR EACH ROW EXECUTE FUNCTION steal()`)
}

// stolen is a press that a person made at a machine, and that has not reached its desk.
func (w writer) stolen(board approval.Board, p nacre.Press, who string) (have row) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _, _ = board.Press(ctx, p, person.Person{Name: who}) }()
	testwait.Until(w.t, "the press", func() bool {
		return w.QueryRow(w.t.Context(), `DELETE FROM stolen RETURNING name, desk, person, press`).Scan(&have.Name, &have.Desk, &have.Person, &have.Press) == nil
	})
	cancel()
	<-ended
	return have
}

// puts writes a press, and gives what its desk says of it.
func (w writer) puts(r row) (word string) {
	w.t.Helper()
	w.do(`ALTER TABLE nacre_press DISABLE TRIGGER ALL`)
	w.do(`INSERT INTO nacre_press (name, desk, press, person) VALUES ($1, $2, $3, $4)`, r.Name, r.Desk, r.Press, r.Person)
	w.do(`ALTER TABLE nacre_press ENABLE TRIGGER ALL`)
	var outcome []byte
	testwait.Until(w.t, "the desk's word", func() bool {
		return w.QueryRow(w.t.Context(), `DELETE FROM nacre_press WHERE name = $1 AND outcome IS NOT NULL RETURNING outcome`, r.Name).Scan(&outcome) == nil
	})
	var told struct{ Error, Reason string }
	if err := json.Unmarshal(outcome, &told); err != nil {
		w.t.Fatal(err)
	}
	if told.Error == "" {
		return "decided"
	}
	return told.Reason
}

// refusals are the reasons and the sentences of the presses that decided nothing.
func (l *ledger) refusals(t *testing.T) (reasons, said []string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.records {
		var detail struct{ Said, Identity string }
		if r.Kind != nacre.KindApprovalRefuse {
			continue
		}
		if err := json.Unmarshal(r.Detail, &detail); err != nil || detail.Identity != "" {
			t.Errorf("a press of which nobody knows whose it is is recorded as that of %q: %v", detail.Identity, err)
		}
		reasons, said = append(reasons, r.Reason), append(said, detail.Said)
	}
	return reasons, said
}

func (r row) replaced(before, after string) row {
	r.Press = bytes.Replace(r.Press, []byte(before), []byte(after), 1)
	return r
}

func (r row) unsigned(t *testing.T) row {
	t.Helper()
	var p nacre.Press
	if err := json.Unmarshal(r.Press, &p); err != nil { // as a nacre of before reads it
		t.Fatal(err)
	}
	r.Press, _ = json.Marshal(p)
	return r
}

// whoever writes to the database answers nothing. A press does not count that no machine signed, as
// an older nacre writes it, nor one that was changed, nor one of a machine whose word does not count. It is
// recorded once with what to do, and the question goes on waiting.
func TestWhoWritesToTheStoreAnswersNothing(t *testing.T) {
	t.Parallel()
	b := newBoards(t)
	w := b.writer(t)
	board := b.board(t, "two")
	for _, c := range []struct {
		name   string
		change func(r row) row
		want   string
		says   string
	}{
		{"of an older nacre", func(r row) row { return r.unsigned(t) }, "unsigned", "update nacre on the machine"},
		{"with a longer time", func(r row) row { return r.replaced(`"for":900000000000`, `"for":1800000000000`) }, "forged", "did not sign it"},
		{"for any arguments", func(r row) row { return r.replaced(`"scope":"exact"`, `"scope":"tool"`) }, "forged", "did not sign it"},
		{"for more calls", func(r row) row { return r.replaced(`"times":2`, `"times":99`) }, "forged", "did not sign it"},
		{"that was a denial", func(r row) row { return r.replaced(`"verdict":"allow"`, `"verdict":"deny"`) }, "forged", "did not sign it"},
		{"of another identity", func(r row) row { return r.replaced(`"identity":"terminal:7"`, `"identity":"terminal:8"`) }, "forged", "did not sign it"},
		{"for another question", func(r row) row { return r.replaced(`"question":"`, `"question":"0`) }, "forged", "did not sign it"},
		{"made at another time", func(r row) row { return r.replaced(`"at":"20`, `"at":"21`) }, "forged", "did not sign it"},
		{"of another person", func(r row) row { r.Person = "eve"; return r }, "forged", "did not sign it"},
		{"under another name", func(r row) row { r.Name += "2"; return r }, "forged", "did not sign it"},
		{"of another machine", func(r row) row { return r.replaced(`"by":"two"`, `"by":"one"`) }, "forged", "machine one"},
		{"of a machine that is gone", func(r row) row { b.list.retire("two"); return r }, "forged", "machine two"},
		{"that is none", func(r row) row { r.Press = []byte("{"); return r }, "forged", "not an answer"},
	} {
		q := b.asked(t, board)
		w.steals("NULL")
		press := at("terminal:7", q, nacre.Allow)
		press.Ruling.For, press.Ruling.Scope, press.Ruling.Times = 15*time.Minute, nacre.ScopeExact, 2
		genuine := w.stolen(board, press, "ada")
		before, _ := b.ledger.refusals(t)
		attack := c.change(genuine)
		if attack.Name == genuine.Name && attack.Person == genuine.Person && bytes.Equal(attack.Press, genuine.Press) && c.name != "of a machine that is gone" {
			t.Fatalf("%s: nothing was changed: %s", c.name, genuine.Press)
		}
		for range 2 {
			if have := w.puts(attack); have != c.want {
				t.Errorf("%s: have %q, want %q", c.name, have, c.want)
			}
		}
		if reasons, said := b.ledger.refusals(t); len(reasons) != len(before)+1 || reasons[len(before)] != c.want || !strings.Contains(said[len(before)], c.says) {
			t.Errorf("%s: have records %q %q, want one more: %q that says %q", c.name, reasons, said, c.want, c.says)
		}
		if have := b.ended(q.ID); len(have) != 0 {
			t.Fatalf("%s: it was decided: %v", c.name, have)
		}
		w.do(`DROP TRIGGER steal ON nacre_press`)
		if _, err := b.board(t, "three").Press(t.Context(), at("terminal:7", q, nacre.Allow), person.Person{Name: "ada"}); err != nil {
			t.Errorf("%s: the question waits no longer: %v", c.name, err)
		}
	}
}

// an answer counts at the desk that it was given to, and once, and not after it was taken back.
func TestAnAnswerIsNotPutElsewhereNorAgain(t *testing.T) {
	t.Parallel()
	b := newBoards(t)
	w := b.writer(t)
	board := b.board(t, "two")
	q := b.asked(t, board)
	w.steals("NULL")
	late := w.stolen(board, at("terminal:7", q, nacre.Allow), "ada")

	others := newPressing(person.Operators{"ada": operator(nacre.Write, "terminal:7")})
	others.desk = approval.New(approval.Options{Now: time.Now, Recorder: others.ledger, Session: "s1", Group: "g1", Directory: others.people.directory,
		Store: b.machine(t, "three")})
	t.Cleanup(func() { _ = others.desk.Close() })
	if _, err := others.ask(0); err != nil {
		t.Fatal(err)
	}
	elsewhere := late
	testwait.Until(t, "the other desk", func() bool {
		return w.QueryRow(t.Context(), `SELECT desk FROM nacre_question WHERE desk <> $1`, late.Desk).Scan(&elsewhere.Desk) == nil
	})
	if have := w.puts(elsewhere); have != "forged" {
		t.Errorf("at another desk: have %q", have)
	}
	testwait.Until(t, "the time after which it was taken back", func() bool {
		var over bool
		return w.QueryRow(t.Context(), `SELECT ($1::jsonb #>> '{signed,at}')::timestamptz + interval '8 seconds' < clock_timestamp()`, string(late.Press)).Scan(&over) == nil && over
	})
	if have := w.puts(late); have != "stale" {
		t.Errorf("after it was taken back: have %q", have)
	}
	if len(b.ended(q.ID)) != 0 {
		t.Fatal("it was decided")
	}

	two, err := b.ask(2)
	if err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "the question of two persons", func() bool {
		all, err := board.Questions(t.Context())
		return err == nil && len(all) == 3
	})
	w.steals("NEW")
	if half, err := board.Press(t.Context(), at("terminal:7", two, nacre.Allow), person.Person{Name: "ada"}); err != nil || half.Open != 1 {
		t.Fatalf("the first of two: have %+v, %v", half, err)
	}
	var copied row
	if err := w.QueryRow(t.Context(), `SELECT name, desk, person, press FROM stolen`).Scan(&copied.Name, &copied.Desk, &copied.Person, &copied.Press); err != nil {
		t.Fatal(err)
	}
	if have := w.puts(copied); have != "stale" {
		t.Errorf("once more: have %q", have)
	}
}

// a person is shown what the session's machine asks. A question that somebody changed is not shown, and one
// whose signature was taken away is told of, and cannot be approved as if its machine had signed it.
func TestWhoWritesToTheStoreAsksNothing(t *testing.T) {
	t.Parallel()
	b := newBoards(t)
	w := b.writer(t)
	board := b.board(t, "two")
	q := b.asked(t, board)
	var genuine []byte
	if err := w.QueryRow(t.Context(), `SELECT question FROM nacre_question`).Scan(&genuine); err != nil {
		t.Fatal(err)
	}
	unsigned := func(change func(*nacre.Question)) []byte {
		var one nacre.Question
		if err := json.Unmarshal(genuine, &one); err != nil { // as a nacre of before reads it
			t.Fatal(err)
		}
		change(&one)
		text, _ := json.Marshal(one)
		return text
	}
	same, harmless := func(*nacre.Question) {}, func(q *nacre.Question) { q.Arguments = json.RawMessage(`{"to":"nobody"}`) }
	for name, c := range map[string]struct {
		row   []byte
		shown int
		why   error // which the list is told with
		press error
	}{
		"changed":              {bytes.Replace(genuine, []byte(`"arguments":{`), []byte(`"arguments":{"a":1,`), 1), 0, approval.ErrForged, approval.ErrForged},
		"not one":              {[]byte("x"), 0, approval.ErrForged, approval.ErrForged},
		"unsigned":             {unsigned(same), 1, approval.ErrUnsigned, approval.ErrShown},
		"unsigned and changed": {unsigned(harmless), 1, approval.ErrUnsigned, approval.ErrShown},
	} {
		w.do(`UPDATE nacre_question SET question = $1`, c.row)
		all, err := board.Questions(t.Context())
		if len(all) != c.shown || !errors.Is(err, c.why) {
			t.Errorf("%s: have %d questions, %v", name, len(all), err)
		}
		shown := q
		if len(all) > 0 {
			shown = all[0]
		}
		if _, err := board.Press(t.Context(), at("terminal:7", shown, nacre.Allow), person.Person{Name: "ada"}); !errors.Is(err, c.press) {
			t.Errorf("%s: a press: have %v", name, err)
		}
		w.do(`UPDATE nacre_question SET question = $1`, genuine)
		if shown.ID == q.ID && string(shown.Arguments) != string(q.Arguments) { // put back before the person answers
			if _, err := board.Press(t.Context(), at("terminal:7", shown, nacre.Allow), person.Person{Name: "ada"}); !errors.Is(err, approval.ErrShown) {
				t.Errorf("%s, and put back: have %v", name, err)
			}
		}
	}
	w.do(`INSERT INTO nacre_question (desk, id, session, question) SELECT 'copy', id, session, question FROM nacre_question`)
	w.do(`INSERT INTO nacre_question (desk, id, session, question) SELECT 'mine', id, session, $1 FROM nacre_question WHERE desk <> 'copy'`, unsigned(harmless))
	if all, err := board.Questions(t.Context()); len(all) != 1 || string(all[0].Arguments) != string(q.Arguments) || !errors.Is(err, approval.ErrForged) {
		t.Errorf("with two more of its id: have %v, %v", all, err)
	}
	if have := b.ended(q.ID); len(have) != 0 {
		t.Fatalf("it was decided: %v", have)
	}
	if _, err := board.Press(t.Context(), at("terminal:7", q, nacre.Allow), person.Person{Name: "ada"}); err != nil {
		t.Errorf("the question itself: %v", err)
	}
}
