package egress

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
)

// maxGrants is how many rules a session can be given while it runs.
const maxGrants = 64

// errGrantEnded is why a connection ends whose rule was for a time.
var errGrantEnded = errors.New("egress: the time for which this host was approved is over")

// errRevoked is why a connection ends of a session that may do nothing any more.
var errRevoked = errors.New("egress: what the session was granted was revoked")

// endPoll is how soon what is open ends once its time is over, or it was taken back.
const endPoll = time.Second

// grants are the rules that a person approved while the session ran (M-23).
type grants struct {
	mu   sync.Mutex
	list []grant
}

type grant struct {
	rule  nacre.EgressRule
	until time.Time
}

// over tells whether a grant's time is, by either clock: nothing lasts longer because the machine
// slept, or its clock was set back.
func over(now, until time.Time) bool {
	return !until.After(now) || !until.Round(0).After(now.Round(0))
}

// Grant lets one more host, port and protocol through until a time by the
// proxy's clock. What was opened under it is closed then. A wildcard, a time
// that is over and more than 64 grants are refused. It lasts no longer than the
// proxy: where a session goes on later, its host gives the rest anew.
func (p *Proxy) Grant(rule nacre.EgressRule, until time.Time) error {
	if err := checkRule(rule); err != nil {
		return fmt.Errorf("egress: rule %q: %w", rule.String(), err)
	}
	now := p.opts.Now()
	switch {
	case strings.HasPrefix(rule.Host, "*"):
		return fmt.Errorf("egress: rule %q: only a plain host can be allowed while a session runs", rule.String())
	case over(now, until):
		return fmt.Errorf("egress: rule %q: its time is over", rule.String())
	}
	p.granted.mu.Lock()
	defer p.granted.mu.Unlock()
	var kept []grant
	for _, g := range p.granted.list {
		if !over(now, g.until) && g.rule != rule {
			kept = append(kept, g)
		}
	}
	if len(kept) >= maxGrants {
		return fmt.Errorf("egress: rule %q: %d are allowed for a time already", rule.String(), maxGrants)
	}
	p.granted.list = append(kept, grant{rule, until})
	return nil
}

// match finds the rule of a target: the session's own list first, then what was
// granted for a time. until is zero where the rule has no end.
func (p *Proxy) match(t target, protocols ...nacre.Protocol) (rule nacre.EgressRule, until time.Time, reason Reason) {
	if p.opts.Revoked.all() {
		return nacre.EgressRule{}, time.Time{}, ReasonRevoked
	}
	rule, reason = p.rules.match(t, protocols...)
	if reason == ReasonListed {
		if !p.opts.Revoked.of(rule) {
			return rule, time.Time{}, reason
		}
		reason = ReasonNotListed
	}
	now := p.opts.Now()
	p.granted.mu.Lock()
	defer p.granted.mu.Unlock()
	for _, g := range p.granted.list {
		if g.rule.Host != t.host || g.rule.Port != t.port || over(now, g.until) {
			continue
		}
		for _, protocol := range protocols {
			if g.rule.Protocol == protocol {
				return g.rule, g.until, ReasonListed
			}
		}
	}
	return nacre.EgressRule{}, time.Time{}, reason
}

// Revocation tells what of a session's reach was taken back. It is asked at each request, and
// once a second while a connection is open. Its zero value takes nothing back.
type Revocation struct {
	// All, where set, tells whether all that the session was granted was: nothing is let out then.
	All func() bool
	// Rule, where set, tells whether one of its rules was.
	Rule func(nacre.EgressRule) bool
	// Login, where set, tells whether a key was lost since that logged in at a place after that
	// moment: what was open to that place meanwhile ends. It must not wait for anybody.
	Login func(host string, port uint16, since time.Time) bool
}

func (r Revocation) all() bool { return r.All != nil && r.All() }

func (r Revocation) of(rule nacre.EgressRule) bool { return r.Rule != nil && r.Rule(rule) }

func (r Revocation) login(t target, since time.Time) bool {
	return r.Login != nil && t.host != "" && r.Login(t.host, t.port, since)
}

// while ends what is done at a place under a rule with the rule's time, or when it is taken back or withheld.
func (p *Proxy) while(ctx context.Context, t target, rule nacre.EgressRule, until time.Time) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancelCause(ctx)
	begun := p.opts.Now()
	if revoked := p.opts.Revoked; revoked.All != nil || revoked.Rule != nil || revoked.Login != nil {
		go watch(ctx, func() bool { return revoked.all() || revoked.of(rule) || revoked.login(t, begun) }, func() { stop(errRevoked) })
	}
	if !until.IsZero() {
		go watch(ctx, func() bool { return over(p.opts.Now(), until) }, func() { stop(errGrantEnded) })
	}
	return ctx, func() { stop(context.Canceled) }
}

// carried has a request stopped when the values that it carries are lost. It is called before they are asked for.
func (s Source) carried(ctx context.Context, now time.Time, stop context.CancelCauseFunc) {
	if s.Lost != nil {
		go watch(ctx, func() bool { return s.Lost(now) }, func() { stop(errRevoked) })
	}
}

// watch looks every second whether what is open may be so no more, and ends it then. No timer does:
// it would stand still while the machine sleeps.
func watch(ctx context.Context, over func() bool, end func()) {
	every := time.NewTicker(endPoll)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			if over() {
				end()
				return
			}
		}
	}
}

// stopReason is why a connection ends whose context has.
func stopReason(ctx context.Context) Reason {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errGrantEnded):
		return ReasonGrantEnded
	case errors.Is(cause, errRevoked):
		return ReasonRevoked
	}
	return ReasonStopped
}
