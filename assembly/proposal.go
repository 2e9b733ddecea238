package assembly

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/approval"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/posture"
)

// maxProposals is how many hosts a session may have asked for without anybody
// having said yes. An agent that tries a thousand hosts asks for no more.
const maxProposals = 8

// kindEgressGrant records what a person's answer lets through, before it does.
const kindEgressGrant nacre.Kind = "egress.grant"

// proposer turns refused connections into questions, one for each host, port
// and protocol (M-23). Nothing waits for the answer: the client was refused, and
// tries again if it likes.
type proposer struct {
	session *sealed
	proxy   *egress.Proxy

	mu    sync.Mutex
	asked map[string]*proposal
	// more are the refusals of hosts that are not asked about any more.
	more int
}

// proposal is what became of asking for one rule.
type proposal struct {
	id    string    // while it waits
	until time.Time // while it is approved
}

// proposing gives what the proxy tells of refusals, or nil where the operator
// wants no questions.
func (s *sealed) proposing() func(egress.Denial) string {
	if ask := s.runtime.config.Egress.Propose; ask != nil && !*ask {
		return nil
	}
	s.proposer = &proposer{session: s, asked: map[string]*proposal{}}
	return s.proposer.propose
}

// through sets the proxy that approvals are for, before it serves.
func (p *proposer) through(proxy *egress.Proxy) {
	if p != nil {
		p.proxy = proxy
	}
}

// propose is told of a refusal, and returns how to approve it, or "" where
// nobody is asked: it was denied before, it leads inside, or there are too many.
func (p *proposer) propose(d egress.Denial) string {
	rule, err := posture.ParseEgress(d.Rule)
	if err != nil || posture.Inside(rule.Host) {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if earlier := p.asked[d.Rule]; earlier != nil && !p.ended(earlier) {
		return approve(earlier.id)
	}
	if p.unanswered() >= maxProposals {
		p.more++
		if p.more == 1 {
			p.session.warn(nacre.Step{Kind: nacre.StepResult, Name: "egress", IsError: true,
				Text: "further hosts are refused without a question: nacre audit show " + string(p.session.ID())})
		}
		return ""
	}
	entry := &proposal{}
	p.asked[d.Rule] = entry
	entry.id = p.ask(rule, entry)
	return approve(entry.id)
}

func approve(id string) string {
	if id == "" {
		return ""
	}
	return "nacre approvals approve " + id
}

// ended tells an approval whose time is over: the host may be asked for again.
func (p *proposer) ended(e *proposal) bool {
	return !e.until.IsZero() && !p.session.runtime.options.Now().Before(e.until)
}

// unanswered is called with mu held.
func (p *proposer) unanswered() int {
	n := 0
	for _, e := range p.asked {
		if e.until.IsZero() {
			n++
		}
	}
	return n
}

// ask opens the question and returns its id, or "" where it cannot be asked.
func (p *proposer) ask(rule nacre.EgressRule, entry *proposal) string {
	s := p.session
	q, err := approval.EgressQuestion(rule, "a connection to it was refused: it is not on the session's list")
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

// decided lets exactly the rule through that was approved, until its time ends.
// Everything else leaves it refused for the session.
func (p *proposer) decided(rule nacre.EgressRule, entry *proposal, q nacre.Question, r nacre.Ruling, err error) {
	span := approval.Span(r)
	if err != nil || span <= 0 || r.Digest != q.Digest {
		p.mu.Lock()
		entry.id = ""
		p.mu.Unlock()
		return
	}
	s := p.session
	until := s.runtime.options.Now().Add(span)
	rule.Pin = s.runtime.config.Egress.pin(rule)
	err = p.grant(rule, until, q, r)
	p.mu.Lock()
	entry.id = ""
	if err == nil {
		entry.until = until
	}
	p.mu.Unlock()
	if err != nil {
		s.warn(nacre.Step{Kind: nacre.StepResult, Name: "egress", Text: fmt.Sprintf("%s stays refused: %v", rule, err), IsError: true})
	}
}

// grant records who approved what until when, and then lets it through.
func (p *proposer) grant(rule nacre.EgressRule, until time.Time, q nacre.Question, r nacre.Ruling) error {
	s := p.session
	detail, err := json.Marshal(map[string]any{
		"rule": strings.Join(ruleTexts([]nacre.EgressRule{rule}), ""), "until": until.UTC(), "by": r.By, "question": q.ID, "digest": q.Digest,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), grantLimit)
	defer cancel()
	if err := s.Recorder.Commit(ctx, nacre.Record{Kind: kindEgressGrant, Source: "core", Outcome: nacre.OutcomeAllowed, Detail: detail}); err != nil {
		return err
	}
	return p.proxy.Grant(rule, until)
}

// grantLimit bounds the wait for the chain.
const grantLimit = 10 * time.Second

// account tells, at the session's end, what nobody was asked about.
func (p *proposer) account() {
	if p == nil {
		return
	}
	p.mu.Lock()
	more := p.more
	p.mu.Unlock()
	if more > 0 {
		p.session.warn(nacre.Step{Kind: nacre.StepResult, Name: "egress", IsError: true,
			Text: fmt.Sprintf("and %d more refusals that nobody was asked about", more)})
	}
}
