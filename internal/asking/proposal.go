// Package asking is how a session asks a person: it brings questions to whoever is to be told, turns
// refused connections into questions, and lets through what the person approved.
package asking

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/approval"
	"github.com/nacre-dev/nacre/internal/deadline"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/person"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/roster"
	"github.com/nacre-dev/nacre/internal/session"
)

const (
	// maxProposals is how many hosts a session may have asked for without anybody
	// having answered. An agent that tries a thousand hosts asks for no more.
	maxProposals = 8
	// maxAsked is how many hosts a session may ask for in all, so that an agent does
	// not wear down the person who denies them one by one.
	maxAsked = 64
)

// kindEgressGrant records what a person's answer lets through, before it does.
const kindEgressGrant nacre.Kind = "egress.grant"

// Proposer turns connections that no rule lets through into questions, one for each
// host, port and protocol (M-23). It waits for nobody: the proxy may hold the
// connections until the question is decided (U-11).
type Proposer struct {
	session *session.Session
	inst    *installation.Installation
	warn    func(nacre.Step)
	hold    time.Duration // for how long connections wait for an answer
	proxy   *egress.Proxy

	mu    sync.Mutex
	asked map[string]*proposal
	// more are the refusals of hosts that are not asked about any more.
	more int
}

// proposal is what became of asking for one rule.
type proposal struct {
	id      string        // while it waits
	until   time.Time     // while it is approved
	denied  bool          // by a person
	settled bool          // it does not wait any more, or will not
	decided chan struct{} // closed when it does not wait any more
}

// Propose makes what asks for a session whose proxy holds connections for a time, or nil
// where the operator wants no questions.
func Propose(inst *installation.Installation, s *session.Session, warn func(nacre.Step), hold time.Duration) *Proposer {
	if ask := inst.Config.Egress.Propose; ask != nil && !*ask {
		return nil
	}
	return &Proposer{session: s, inst: inst, warn: warn, hold: hold, asked: map[string]*proposal{}}
}

// Persons gives who may answer the questions of an installation, as they are at each time.
func Persons(inst *installation.Installation) func() (person.Directory, error) {
	paths := inst.Registry.Paths()
	return roster.Roster{Config: paths.Config, State: paths.State, Now: inst.Options.Now}.Directory
}

// Told is what the proxy tells of refusals; nil where nobody is asked.
func (p *Proposer) Told() func(egress.Denial) egress.Proposal {
	if p == nil {
		return nil
	}
	return p.propose
}

// Through sets the proxy that approvals are for, before it serves.
func (p *Proposer) Through(proxy *egress.Proxy) {
	if p != nil {
		p.proxy = proxy
	}
}

// propose is told of what no rule lets through, and says how a person is asked for
// it. Nobody is where it leads inside, or there are too many; what was decided
// before is not asked again while that stands.
func (p *Proposer) propose(d egress.Denial) egress.Proposal {
	rule, err := posture.ParseEgress(d.Rule)
	if err != nil || posture.Inside(rule.Host) && !p.inst.Config.Egress.Reaches(rule) {
		return egress.Proposal{}
	}
	entry, told, full := p.enter(d.Rule)
	if full {
		p.warn(nacre.Step{Kind: nacre.StepResult, Name: "egress", IsError: true,
			Text: "further hosts are refused without a question: nacre audit show " + string(p.session.ID())})
	}
	if entry == nil {
		return told
	}
	id := p.ask(rule, entry) // which waits for a record, and must not hold up what others ask
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case id == "":
		close(entry.decided)
	case !entry.settled:
		entry.id = id
	}
	return p.told(entry)
}

// enter finds what became of asking for a rule, or makes an entry for whoever is to ask now. full
// says that the first one is not asked about any more.
func (p *Proposer) enter(rule string) (entry *proposal, told egress.Proposal, full bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if earlier := p.asked[rule]; earlier != nil && !p.ended(earlier) {
		return nil, p.told(earlier), false
	}
	if p.unanswered() >= maxProposals || len(p.asked) >= maxAsked {
		p.more++
		return nil, egress.Proposal{}, p.more == 1
	}
	entry = &proposal{decided: make(chan struct{})}
	p.asked[rule] = entry
	return entry, egress.Proposal{}, false
}

// told is what the proxy is told.
func (p *Proposer) told(e *proposal) egress.Proposal {
	return egress.Proposal{Decided: e.decided, How: func() string { return p.how(e) }}
}

// how is what answers a question while it waits. It is not told any more once its end is being
// recorded.
func (p *Proposer) how(e *proposal) string {
	p.mu.Lock()
	id := e.id
	p.mu.Unlock()
	if id == "" {
		return ""
	}
	select {
	case <-p.session.Approvals.Settled(id):
		return ""
	default:
		return "nacre approvals approve " + id
	}
}

// ended tells an approval whose time is over: the host may be asked for again.
func (p *Proposer) ended(e *proposal) bool {
	return !e.until.IsZero() && deadline.Over(p.inst.Options.Now(), e.until)
}

// unanswered is called with mu held.
func (p *Proposer) unanswered() int {
	n := 0
	for _, e := range p.asked {
		if e.until.IsZero() && !e.denied {
			n++
		}
	}
	return n
}

// ask opens the question and returns its id, or "" where it cannot be asked.
func (p *Proposer) ask(rule nacre.EgressRule, entry *proposal) string {
	s := p.session
	q, err := approval.EgressQuestion(rule, p.why())
	if err != nil {
		return ""
	}
	detail, err := json.Marshal(map[string]any{"capability": q.Capability, "rule": rule.String(), "digest": q.Digest})
	if err != nil {
		return ""
	}
	record := nacre.Record{Kind: nacre.KindApprovalAsk, Source: "egress", Reason: q.Why, Detail: detail}
	if s.Recorder.Commit(s.Context(), record) != nil {
		return "" // what cannot be recorded is not asked
	}
	id, err := s.Approvals.Propose(s.Context(), q, func(q nacre.Question, r nacre.Ruling, err error) {
		p.decided(rule, entry, q, r, err)
	})
	if err != nil {
		return ""
	}
	return id
}

// why says what became of the connection, which may still wait when a person reads it (U-11).
func (p *Proposer) why() string {
	if p.hold > 0 {
		return fmt.Sprintf("a connection to it waits %v at most for an answer, and is then refused: it is not on the session's list", p.hold)
	}
	return "a connection to it was refused: it is not on the session's list"
}

// decided lets exactly the rule through that was approved, until its time ends.
// Everything else leaves it refused for the session.
func (p *Proposer) decided(rule nacre.EgressRule, entry *proposal, q nacre.Question, r nacre.Ruling, err error) {
	defer close(entry.decided)
	span := approval.Span(r)
	if err != nil || span <= 0 || r.Digest != q.Digest {
		p.mu.Lock()
		entry.id, entry.settled, entry.denied = "", true, err == nil && r.Verdict == nacre.Deny
		p.mu.Unlock()
		return
	}
	until := p.inst.Options.Now().Add(span)
	rule.Pin = p.inst.Config.Egress.PinOf(rule)
	err = p.grant(rule, until, q, r)
	p.mu.Lock()
	entry.id, entry.settled = "", true
	if err == nil {
		entry.until = until
	}
	p.mu.Unlock()
	if err != nil {
		p.warn(nacre.Step{Kind: nacre.StepResult, Name: "egress", Text: fmt.Sprintf("%s stays refused: %v", rule, err), IsError: true})
	}
}

// grant records who approved what until when, and then lets it through.
func (p *Proposer) grant(rule nacre.EgressRule, until time.Time, q nacre.Question, r nacre.Ruling) error {
	s := p.session
	detail, err := json.Marshal(map[string]any{
		"rule": strings.Join(posture.RuleTexts([]nacre.EgressRule{rule}), ""), "until": until.UTC(), "by": r.By, "question": q.ID, "digest": q.Digest,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), GrantLimit)
	defer cancel()
	if err := s.Recorder.Commit(ctx, nacre.Record{Kind: kindEgressGrant, Source: "core", Outcome: nacre.OutcomeAllowed, Detail: detail}); err != nil {
		return err
	}
	return p.proxy.Grant(rule, until)
}

// GrantLimit bounds the wait for the chain.
const GrantLimit = 10 * time.Second

// Account tells, at the session's end, what nobody was asked about.
func (p *Proposer) Account() {
	if p == nil {
		return
	}
	p.mu.Lock()
	more := p.more
	p.mu.Unlock()
	if more > 0 {
		p.warn(nacre.Step{Kind: nacre.StepResult, Name: "egress", IsError: true,
			Text: fmt.Sprintf("and %d more refusals that nobody was asked about", more)})
	}
}
