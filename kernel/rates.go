package kernel

import (
	"cmp"
	"fmt"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/policy"
)

// meter is one count that a call is held to.
type meter struct {
	key   policy.RateKey
	limit nacre.RateLimit
	what  string
}

// meters are the capability's own count, and those that the host has set.
func (k *judge) meters(r *run) []meter {
	p := &r.call.Principal
	all := append(make([]meter, 0, 4), meter{
		policy.RateKey{Principal: r.payer, Group: p.Group, Capability: r.tool.capability.ID},
		policy.RateOf(r.tool.capability, r.call.Principal), string(r.call.Tool),
	})
	if k.limiter.Rates == nil {
		return all
	}
	set := k.rates(p.Group)
	for _, one := range [...]meter{
		{policy.RateKey{Principal: cmp.Or(p.Agent, r.payer), Group: p.Group}, set.Principal, "all calls of this principal"},
		{policy.RateKey{Group: p.Group}, set.Group, "all calls of group " + string(p.Group)},
		{policy.RateKey{Group: p.Group, Session: p.Session}, set.Session, "all calls of this session"},
	} {
		if one.limit != (nacre.RateLimit{}) {
			all = append(all, one)
		}
	}
	return all
}

// unhurried asks the rates, and counts nothing.
func (k *judge) unhurried(r *run) error {
	for _, m := range k.meters(r) {
		if err := m.limited(k.limiter.Wait(m.key, m.limit, r.now)); err != nil {
			return err
		}
	}
	return nil
}

// charge counts the call against its rates, once (K-04). What one of them refuses
// counts for those before it: a race for the last call costs, and gives nothing.
func (k *judge) charge(r *run) error {
	for _, m := range k.meters(r) {
		if err := m.limited(k.limiter.Take(m.key, m.limit, r.now)); err != nil {
			return err
		}
	}
	return nil
}

// limited tells the wait in whole seconds, never too few.
func (m meter) limited(wait time.Duration) error {
	if wait <= 0 {
		return nil
	}
	return &nacre.Refusal{
		Code: nacre.CodeRateLimited, Stage: stageAuthorize, Reason: nacre.ReasonRateLimited, Retriable: true,
		Message:    fmt.Sprintf("Rate limit exceeded for %s (%d requests per %v)", m.what, m.limit.Calls, m.limit.Window),
		RetryAfter: int((wait + time.Second - 1) / time.Second),
	}
}

// rates are those that the host has set; where its function panics nothing is allowed.
func (k *judge) rates(group nacre.Group) (set policy.Rates) {
	defer func() {
		if recover() != nil {
			set.Group = nacre.RateLimit{Calls: -1, Window: policy.RateWindow}
		}
	}()
	return k.limiter.Rates(group)
}
