package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/deadline"
	"github.com/nacre-dev/nacre/internal/person"
	"github.com/nacre-dev/nacre/internal/question"
)

// maxRefused is how many presses that decided nothing are recorded of one session: ten
// thousand strangers do not fill its chain.
const maxRefused = 100

// The reasons for which a press decides nothing beside those of [person].
var (
	// ErrShown is for a press on something else than what is asked.
	ErrShown = errors.New("what was shown is not what is asked")
	// ErrTwice is for a person who has approved already, where two persons have to.
	ErrTwice = errors.New("another person has to approve too")
	// ErrNobody is for a desk that does not know who may answer.
	ErrNobody = errors.New("it is not known who may answer")
)

// decision is a press that holds.
type decision struct {
	ruling   nacre.Ruling
	who      person.Person
	shown    string
	approved int
}

// Press is the one way to answer a question. It finds the person, and holds the press against that
// person's rights, the face and what was shown. It claims the question, records the decision, and only
// then lets the call go on. All else is refused, with a record and an error for the presser alone: a
// stranger's is [person.ErrStranger], whatever the question is. Where a decision cannot be recorded,
// the call is denied and the error returned.
func (d *Desk) Press(p nacre.Press) (nacre.Pressed, error) {
	p.ID = strings.ToLower(strings.TrimSpace(p.ID))
	outcome, err := d.press(p)
	if err != nil {
		d.refuse(p, err)
	}
	return outcome, err
}

func (d *Desk) press(p nacre.Press) (nacre.Pressed, error) {
	who, err := d.who(person.Identity(p.Identity))
	if err != nil {
		return nacre.Pressed{}, err
	}
	if err := checkRuling(p.Ruling); err != nil {
		return nacre.Pressed{}, err
	}
	waiting, err := d.answerable(p.ID, p.Ruling)
	if err != nil {
		return nacre.Pressed{}, err
	}
	if err := holds(waiting.q, who, p); err != nil {
		return nacre.Pressed{}, err
	}
	made := decision{ruling: forTheFace(waiting.q, who, p.Ruling), who: who, shown: p.Shown}
	made.ruling.By = named(who, p.Ruling.By)
	if p.Ruling.Verdict == nacre.Allow && waiting.q.Approvers > 1 {
		return d.approveTogether(waiting, made)
	}
	return d.settle(waiting, made)
}

// forTheFace is a ruling as far as its face may give it. Whoever grants a credential or a folder in a
// chat, and says not for how long, grants it for as long as anything from a chat stands (M-30, M-47).
func forTheFace(q nacre.Question, who person.Person, r nacre.Ruling) nacre.Ruling {
	if (q.Capability == question.Lease || q.Capability == question.Mount) && r.Verdict == nacre.Allow && r.For == 0 && !who.Identity.Face().Host() {
		r.For, r.Scope = person.MaxRemote, nacre.ScopeExact
	}
	return r
}

// named says who decided where. The owner of an installation without operators is who the
// face says.
func named(who person.Person, where string) string {
	if who.Name == person.Implicit {
		return where
	}
	return who.Name + " (" + where + ")"
}

func (d *Desk) who(id person.Identity) (person.Person, error) {
	if d.o.Directory == nil {
		return person.Person{}, ErrNobody
	}
	directory, err := d.o.Directory()
	if err != nil {
		return person.Person{}, fmt.Errorf("%w: %w", ErrNobody, err)
	}
	return directory.Who(id)
}

// holds refuses a press that its person may not make, or that was made on another card.
func holds(q nacre.Question, who person.Person, p nacre.Press) error {
	card, face := question.Of(q), who.Identity.Face()
	if err := who.Answer(card.Matter(), p.Ruling); err != nil {
		return err
	}
	switch {
	case p.Shown == "" || p.Shown != card.Digest():
		return fmt.Errorf("%w: look at it again", ErrShown)
	case p.Ruling.Verdict == nacre.Allow && !card.Fits(face):
		return fmt.Errorf("%w: the question is too long for %s; open it in a terminal (nacre approvals show %s) or on the web page", person.ErrFace, face, q.ID)
	case p.Ruling.Verdict == nacre.Allow && q.Approvers > 1 && p.Ruling.For > 0:
		return fmt.Errorf("%w: what %d persons have to approve is approved once", ErrAnswer, q.Approvers)
	}
	return nil
}

// settle claims the question, records the decision and lets the asker know of it.
func (d *Desk) settle(waiting *pending, made decision) (nacre.Pressed, error) {
	id, word := waiting.q.ID, "denied"
	if made.ruling.Verdict == nacre.Allow {
		word = "approved"
	}
	claimed := d.claim(id, word+" by "+question.Escape(made.ruling.By))
	if claimed == nil {
		return nacre.Pressed{}, d.late(id)
	}
	if err := d.commit(context.Background(), d.record(claimed.q, word, made)); err != nil {
		err = fmt.Errorf("the answer could not be recorded, so the call is denied: %w", err)
		claimed.settle(nacre.Ruling{}, err)
		return nacre.Pressed{}, err
	}
	made.ruling.Digest = claimed.q.Digest
	claimed.settle(made.ruling, nil)
	return nacre.Pressed{By: made.ruling.By}, nil
}

// approveTogether takes one approval of several, each by another person. The last one
// counts where those before still may approve.
func (d *Desk) approveTogether(waiting *pending, made decision) (nacre.Pressed, error) {
	waiting.pressing.Lock()
	defer waiting.pressing.Unlock()
	waiting.approved = slices.DeleteFunc(waiting.approved, func(p person.Person) bool { return !d.still(p, waiting.q) })
	var names []string
	for _, earlier := range waiting.approved {
		if earlier.Name == made.who.Name {
			return nacre.Pressed{}, fmt.Errorf("%w: %s approved it already", ErrTwice, made.who.Name)
		}
		names = append(names, earlier.Name)
	}
	made.approved = len(waiting.approved) + 1
	open := waiting.q.Approvers - made.approved
	if open <= 0 {
		made.ruling.By = strings.Join(append(names, made.ruling.By), ", ")
		return d.settle(waiting, made)
	}
	if isClosed(waiting.settled) {
		return nacre.Pressed{}, d.late(waiting.q.ID)
	}
	if err := d.commit(context.Background(), d.record(waiting.q, "approved in part", made)); err != nil {
		return nacre.Pressed{}, fmt.Errorf("the approval could not be recorded, so it does not count: %w", err)
	}
	waiting.approved = append(waiting.approved, made.who)
	return nacre.Pressed{By: made.ruling.By, Open: open}, nil
}

// still tells whether a person who approved before may approve now.
func (d *Desk) still(earlier person.Person, q nacre.Question) bool {
	now, err := d.who(earlier.Identity)
	return err == nil && now.Name == earlier.Name && now.Answer(question.Of(q).Matter(), nacre.Ruling{Verdict: nacre.Allow}) == nil
}

// refuse records a press that decided nothing. What cannot be recorded decided nothing
// either way.
func (d *Desk) refuse(p nacre.Press, why error) {
	if d.o.Recorder == nil || d.o.Now == nil {
		return
	}
	d.mu.Lock()
	d.refused++
	n := d.refused
	d.mu.Unlock()
	if n > maxRefused {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), recordLimit)
	defer cancel()
	_ = d.o.Recorder.Commit(ctx, Refusal(p, why, n == maxRefused))
}

// Refusal is the record of a press that decided nothing. last says that further ones are
// not recorded.
func Refusal(p nacre.Press, why error, last bool) nacre.Record {
	id, _ := person.ParseIdentity(p.Identity) // what is none is not repeated
	said := ""
	if errors.As(why, &unproven{}) {
		said = question.Escape(why.Error())
	}
	detail, err := json.Marshal(struct {
		ID       string          `json:"id"`
		Identity person.Identity `json:"identity,omitempty"`
		Face     person.Face     `json:"face,omitempty"`
		Verdict  string          `json:"verdict"`
		Last     bool            `json:"last,omitempty"`
		// Said is what to do about one in the store of which nobody knows whose it is.
		Said string `json:"said,omitempty"`
	}{question.Escape(p.ID[:min(len(p.ID), idShown)]), id, id.Face(), p.Ruling.Verdict.String(), last, said})
	if err != nil {
		detail = nil
	}
	return nacre.Record{
		Kind: nacre.KindApprovalRefuse, Source: "approval", Outcome: nacre.OutcomeDenied, Reason: reasonOf(why), Detail: detail,
	}
}

// unproven is why a press does not count of which nobody knows whose it is. What to do about it is recorded, too.
type unproven struct{ error }

// Unwrap gives the reason.
func (u unproven) Unwrap() error { return u.error }

// idShown is how much of an id that may be anything is recorded, in bytes.
const idShown = 16

// reasonOf is the kind of refusal, without words of whoever pressed.
func reasonOf(why error) string {
	for _, known := range Refusals() {
		if errors.Is(why, known.Err) {
			return known.Word
		}
	}
	return failed
}

// failed is the reason of a press that was right, and could not be recorded.
const failed = "failed"

// Refused is a reason for which a press decides nothing, and the word for it in records
// and between processes.
type Refused struct {
	Word string
	Err  error
}

// Refusals are all such reasons.
func Refusals() []Refused {
	return []Refused{
		{"stranger", person.ErrStranger}, {"right", person.ErrRight}, {"face", person.ErrFace}, {"shown", ErrShown}, {"twice", ErrTwice},
		{"nobody", ErrNobody}, {"late", ErrLate}, {"unknown", ErrUnknown}, {"answer", ErrAnswer},
		{"unsigned", ErrUnsigned}, {"forged", ErrForged}, {"stale", ErrStale},
	}
}

func checkRuling(r nacre.Ruling) error {
	switch {
	case r.Verdict != nacre.Allow && r.Verdict != nacre.Deny:
		return fmt.Errorf("%w: verdict %v: allow or deny", ErrAnswer, r.Verdict)
	case r.By == "" || len(r.By) > maxBy:
		return fmt.Errorf("%w: it does not say in 1–%d bytes who answers", ErrAnswer, maxBy)
	case r.Scope == nacre.ScopeText && (r.Verdict != nacre.Allow || r.For != 0 || r.Times != 0):
		return fmt.Errorf("%w: whoever vouches for a text approves, until the session ends: without a time and a number", ErrAnswer)
	case r.Scope > nacre.ScopeText || r.Scope != nacre.ScopeText && (r.Scope == nacre.ScopeOnce) != (r.For == 0):
		return fmt.Errorf("%w: what stands needs both a time and a scope: exact, same or tool", ErrAnswer)
	case r.Times < 0 || r.Times > MaxTimes || r.Times > 0 && r.For == 0:
		return fmt.Errorf("%w: it cannot stand for %d calls: 1 to %d, within a time", ErrAnswer, r.Times, MaxTimes)
	case r.For < 0 || r.For > MaxStanding:
		return fmt.Errorf("%w: it cannot stand for %v: up to %v", ErrAnswer, r.For, MaxStanding)
	}
	return nil
}

// answerable finds the question that is answered. It refuses an answer to one that does
// not wait, or whose time is over even where the timer that ends it is late, as after the
// machine slept.
func (d *Desk) answerable(id string, r nacre.Ruling) (*pending, error) {
	d.mu.Lock()
	p := d.pending[id]
	d.mu.Unlock()
	if p != nil && !deadline.Over(d.o.Now(), p.q.Expires) {
		if o, ok := openingOf(p.q); ok && r.Times > 0 {
			return nil, fmt.Errorf("%w: %s is opened for a time, not for a number of uses", ErrAnswer, o.what)
		}
		if p.q.Text == nil && r.Scope == nacre.ScopeText {
			return nil, fmt.Errorf("%w: there is no one text, short enough to be read, that all the values are from", ErrAnswer)
		}
		return p, nil
	}
	if p != nil && d.claim(id, "denied: "+ErrExpired.Error()) != nil {
		d.deny(context.Background(), p, ErrExpired)
	}
	return nil, d.late(id)
}
