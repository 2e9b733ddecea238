package asking

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/deadline"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/session"
)

// Again lets through, for the rest of its time, what a person let through in openings of the
// session that were interrupted (M-55). It is for a proxy that was set.
func (p *Proposer) Again() error {
	if p == nil {
		return nil
	}
	err := installation.EachRecord(p.inst, session.Earlier(p.session), func(e nacre.Record) error {
		if e.Kind != kindEgressGrant || e.Outcome != nacre.OutcomeAllowed {
			return nil
		}
		var was struct {
			Rule  string
			Until time.Time
		}
		err := json.Unmarshal(e.Detail, &was)
		if err != nil {
			return err
		}
		now := p.inst.Options.Now()
		if now.Before(e.Time) || deadline.Over(now, was.Until) { // a clock that went back ends it
			return nil
		}
		text, _, _ := strings.Cut(was.Rule, " ") // where it is pinned to stands in the config
		rule, err := posture.ParseEgress(text)
		if err != nil {
			return err
		}
		if posture.Inside(rule.Host) && !p.inst.Config.Egress.Reaches(rule) {
			return nil
		}
		rule.Pin = p.inst.Config.Egress.PinOf(rule)
		return p.proxy.Grant(rule, was.Until)
	})
	if err != nil {
		return fmt.Errorf("what was let through before the session was interrupted: %w", err)
	}
	return nil
}
