package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/approval"
	"github.com/nacre-dev/nacre/internal/person"
	cards "github.com/nacre-dev/nacre/internal/question"
)

// people is a directory that changes.
type people struct {
	mu   sync.Mutex
	have person.Operators
	err  error
}

func (p *people) set(o person.Operators) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.have = o
}

func (p *people) directory() (person.Directory, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return person.Directory{Operators: p.have}, p.err
}

func operator(up nacre.SafetyClass, identities ...string) person.Operator {
	return person.Operator{Identities: identities, Approve: []string{"tool"}, UpTo: &up}
}

// pressing is a desk with a list of persons, whose questions end in a list.
type pressing struct {
	people *people
	ledger *ledger
	desk   *approval.Desk
	mu     sync.Mutex
	ends   map[string][]nacre.Ruling
}

func newPressing(o person.Operators) *pressing {
	p := &pressing{people: &people{have: o}, ledger: &ledger{}, ends: map[string][]nacre.Ruling{}}
	p.desk = approval.New(approval.Options{Now: time.Now, Recorder: p.ledger, Session: "s1", Group: "g1", Directory: p.people.directory})
	return p
}

func (p *pressing) ask(approvers int) (nacre.Question, error) {
	q := writing()
	q.Approvers = approvers
	id, err := p.desk.Propose(context.Background(), q, func(q nacre.Question, r nacre.Ruling, err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if err != nil {
			r.Verdict = nacre.Deny
		}
		p.ends[q.ID] = append(p.ends[q.ID], r)
	})
	at := slices.IndexFunc(p.desk.List(), func(q nacre.Question) bool { return q.ID == id })
	if err != nil || at < 0 {
		return q, fmt.Errorf("%q was not asked: %w", id, err)
	}
	return p.desk.List()[at], nil
}

func (p *pressing) ended(id string) []nacre.Ruling {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.ends[id])
}

func by(identity string, q nacre.Question, v nacre.Verdict) nacre.Press {
	return nacre.Press{ID: q.ID, Identity: identity, Shown: cards.Of(q).Digest(), Ruling: nacre.Ruling{Verdict: v, By: "a face"}}
}

// M-42, M-47: late, twice, forged, on another card, and by a person who was removed: nothing
// happens, the presser is told, and it is recorded.
func TestPressesThatDecideNothing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *pressing, press *nacre.Press)
		want   error
		reason string
	}{
		"a stranger":                        {func(_ *pressing, press *nacre.Press) { press.Identity = "telegram:99" }, person.ErrStranger, "stranger"},
		"a stranger on an unknown question": {func(_ *pressing, press *nacre.Press) { press.Identity, press.ID = "telegram:99", "zzzz" }, person.ErrStranger, "stranger"},
		"nobody":                            {func(_ *pressing, press *nacre.Press) { press.Identity = "" }, person.ErrStranger, "stranger"},
		"a person who was removed":          {func(p *pressing, _ *nacre.Press) { p.people.set(person.Operators{"bob": {}}) }, person.ErrStranger, "stranger"},
		"a config that is broken":           {func(p *pressing, _ *nacre.Press) { p.people.err = errors.New("line 3") }, approval.ErrNobody, "nobody"},
		"a risk beyond the right": {func(p *pressing, _ *nacre.Press) {
			p.people.set(person.Operators{"ada": operator(nacre.Read, "telegram:1")})
		}, person.ErrRight, "right"},
		"a card that was edited": {func(_ *pressing, press *nacre.Press) { press.Shown = strings.Repeat("0", 64) }, approval.ErrShown, "shown"},
		"no card":                {func(_ *pressing, press *nacre.Press) { press.Shown = "" }, approval.ErrShown, "shown"},
		"two hours from a chat": {func(_ *pressing, press *nacre.Press) {
			press.Ruling.For, press.Ruling.Scope = 2*time.Hour, nacre.ScopeSame
		}, person.ErrFace, "face"},
		"another question's button": {func(_ *pressing, press *nacre.Press) { press.ID = "zzzz" }, approval.ErrUnknown, "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPressing(person.Operators{"ada": operator(nacre.Destructive, "telegram:1")})
			q, err := p.ask(0)
			if err != nil {
				t.Fatal(err)
			}
			press := by("telegram:1", q, nacre.Allow)
			c.change(p, &press)
			if _, err := p.desk.Press(press); !errors.Is(err, c.want) {
				t.Errorf("have %v, want %v", err, c.want)
			}
			if len(p.desk.List()) != 1 || len(p.ended(q.ID)) != 0 {
				t.Error("the question does not wait any more")
			}
			if have := p.ledger.records; len(have) != 1 || have[0].Kind != nacre.KindApprovalRefuse || have[0].Reason != c.reason {
				t.Errorf("have %+v", have)
			}
			_ = p.desk.Close()
		})
	}
}

// M-47: a card that does not fit into a message is denied there, and approved elsewhere.
func TestWhatDoesNotFitIsNotApprovedThere(t *testing.T) {
	p := newPressing(person.Operators{"ada": operator(nacre.Destructive, "discord:1", "terminal:5")})
	long := writing()
	long.Arguments = json.RawMessage(`{"a":"` + strings.Repeat("x", 5000) + `"}`)
	for identity, want := range map[string]error{"discord:1": person.ErrFace, "terminal:5": nil} {
		if _, err := p.desk.Propose(context.Background(), long, func(nacre.Question, nacre.Ruling, error) {}); err != nil {
			t.Fatal(err)
		}
		q := p.desk.List()[0]
		if _, err := p.desk.Press(by(identity, q, nacre.Allow)); !errors.Is(err, want) {
			t.Errorf("%s: have %v, want %v", identity, err, want)
		}
		if want != nil {
			if _, err := p.desk.Press(by(identity, q, nacre.Deny)); err != nil {
				t.Errorf("%s could not deny: %v", identity, err)
			}
		}
	}
	_ = p.desk.Close()
}

// Ten thousand strangers do not fill a session's chain.
func TestStrangersAreRecordedOnlySoOften(t *testing.T) {
	p := newPressing(person.Operators{"ada": operator(nacre.Destructive, "telegram:1")})
	q, err := p.ask(0)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 10_000 {
		if _, err := p.desk.Press(by(fmt.Sprintf("telegram:%d", n+2), q, nacre.Allow)); !errors.Is(err, person.ErrStranger) {
			t.Fatal(err)
		}
	}
	if have := len(p.ledger.records); have != 100 {
		t.Errorf("have %d records", have)
	}
	if _, err := p.desk.Press(by("telegram:1", q, nacre.Allow)); err != nil {
		t.Error(err)
	}
	_ = p.desk.Close()
}

// M-46: two persons, each for themselves; whoever was removed meanwhile does not count.
func TestTwoPersonsApprove(t *testing.T) {
	both := person.Operators{"ada": operator(nacre.Destructive, "telegram:1", "terminal:5"), "bob": operator(nacre.Destructive, "slack:T1:U1")}
	p := newPressing(both)
	q, err := p.ask(2)
	if err != nil {
		t.Fatal(err)
	}
	if have, err := p.desk.Press(by("telegram:1", q, nacre.Allow)); err != nil || have.Open != 1 {
		t.Fatalf("have %+v, %v", have, err)
	}
	if _, err := p.desk.Press(by("terminal:5", q, nacre.Allow)); !errors.Is(err, approval.ErrTwice) {
		t.Errorf("one person at two faces: have %v", err)
	}
	p.people.set(person.Operators{"bob": both["bob"]})
	if have, err := p.desk.Press(by("slack:T1:U1", q, nacre.Allow)); err != nil || have.Open != 1 {
		t.Fatalf("with one who was removed: have %+v, %v", have, err)
	}
	p.people.set(both)
	if have, err := p.desk.Press(by("terminal:5", q, nacre.Allow)); err != nil || have.Open != 0 || !strings.HasPrefix(have.By, "bob, ada") {
		t.Fatalf("have %+v, %v", have, err)
	}
	if _, err := p.desk.Press(by("slack:T1:U1", q, nacre.Allow)); !errors.Is(err, approval.ErrLate) {
		t.Errorf("have %v", err)
	}
	_ = p.desk.Close()
	if have := p.ended(q.ID); len(have) != 1 || have[0].Verdict != nacre.Allow || have[0].Digest != "d1" {
		t.Errorf("have %+v", have)
	}
}

// Whatever persons, strangers and removed persons press at whatever faces: nothing is
// approved without the right, by fewer persons than have to, or twice.
func TestNoSequenceOfPressesDecidesWithoutRight(t *testing.T) {
	identities := []string{"terminal:5", "telegram:1", "slack:T1:U1", "discord:9", "web:a", "telegram:404", "x"}
	rapid.Check(t, func(t *rapid.T) {
		all := func() person.Operators {
			o := person.Operators{}
			for i, name := range []string{"ada", "bob", "cleo"} {
				if rapid.Bool().Draw(t, name) {
					o[name] = operator(nacre.SafetyClass(rapid.IntRange(0, 2).Draw(t, "up to")), identities[i], identities[i+2])
				}
			}
			return o
		}
		p := newPressing(all())
		var asked []nacre.Question
		approvedBy := map[string]map[string]bool{}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				if q, err := p.ask(rapid.IntRange(0, 3).Draw(t, "approvers")); err == nil {
					asked = append(asked, q)
					approvedBy[q.ID] = map[string]bool{}
				}
			case 1:
				p.people.set(all())
			default:
				if len(asked) == 0 {
					continue
				}
				q := rapid.SampledFrom(asked).Draw(t, "question")
				press := by(rapid.SampledFrom(identities).Draw(t, "identity"), q, nacre.Verdict(rapid.IntRange(0, 2).Draw(t, "verdict")))
				pressed, err := p.desk.Press(press)
				directory, _ := p.people.directory()
				who, stranger := directory.Who(person.Identity(press.Identity))
				if err == nil && (stranger != nil || who.Answer(cards.Of(q).Matter(), press.Ruling) != nil || press.Ruling.Verdict == nacre.Ask) {
					t.Fatalf("%+v decided without a right: %+v", press, pressed)
				}
				if err == nil && press.Ruling.Verdict == nacre.Allow {
					approvedBy[q.ID][who.Name] = true
				}
			}
		}
		_ = p.desk.Close()
		for _, q := range asked {
			ends := p.ended(q.ID)
			if len(ends) != 1 {
				t.Fatalf("question %s has %d ends", q.ID, len(ends))
			}
			if ends[0].Verdict == nacre.Allow && len(approvedBy[q.ID]) < max(1, q.Approvers) {
				t.Fatalf("%d persons approved, of %d", len(approvedBy[q.ID]), q.Approvers)
			}
		}
	})
}

// writing is a question about what writes.
func writing() nacre.Question {
	q := nacre.Question{Capability: "deploy.preview", Arguments: json.RawMessage(`{"env":"staging"}`), Digest: "d1"}
	q.Safety = nacre.Write
	return q
}
