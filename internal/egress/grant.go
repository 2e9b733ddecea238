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

// grants are the rules that a person approved while the session ran (M-23).
type grants struct {
	mu   sync.Mutex
	list []grant
}

type grant struct {
	rule  nacre.EgressRule
	until time.Time
}

// Grant lets one more host, port and protocol through until a time by the
// proxy's clock. What was opened under it is closed then. A wildcard, a time
// that is over and more than 64 grants are refused. It lasts no longer than the
// proxy: a session that goes on later has none.
func (p *Proxy) Grant(rule nacre.EgressRule, until time.Time) error {
	if err := checkRule(rule); err != nil {
		return fmt.Errorf("egress: rule %q: %w", rule.String(), err)
	}
	now := p.opts.Now()
	switch {
	case strings.HasPrefix(rule.Host, "*"):
		return fmt.Errorf("egress: rule %q: only a plain host can be allowed while a session runs", rule.String())
	case !until.After(now):
		return fmt.Errorf("egress: rule %q: its time is over", rule.String())
	}
	p.granted.mu.Lock()
	defer p.granted.mu.Unlock()
	var kept []grant
	for _, g := range p.granted.list {
		if g.until.After(now) && g.rule != rule {
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
	rule, reason = p.rules.match(t, protocols...)
	if reason == ReasonListed {
		return rule, time.Time{}, reason
	}
	now := p.opts.Now()
	p.granted.mu.Lock()
	defer p.granted.mu.Unlock()
	for _, g := range p.granted.list {
		if g.rule.Host != t.host || g.rule.Port != t.port || !g.until.After(now) {
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

// while ends what is done under a rule with the rule's time.
func (p *Proxy) while(ctx context.Context, until time.Time) (context.Context, context.CancelFunc) {
	if until.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, until.Sub(p.opts.Now()), errGrantEnded)
}

// stopReason is why a connection ends whose context has.
func stopReason(ctx context.Context) Reason {
	if errors.Is(context.Cause(ctx), errGrantEnded) {
		return ReasonGrantEnded
	}
	return ReasonStopped
}
