package kernel

import (
	"cmp"
	"fmt"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/policy"
)

// held are the rates that a call is held to: the capability's own, and those that the host has set.
func (k *judge) held(r *run) []policy.Rate {
	p := &r.call.Principal
	all := append(make([]policy.Rate, 0, 4), policy.Rate{
		Key:   policy.RateKey{Principal: r.payer, Group: p.Group, Capability: r.tool.capability.ID},
		Limit: policy.RateOf(r.tool.capability, r.call.Principal),
	})
	if k.limiter.Rates == nil {
		return all
	}
	set := k.rates(p.Group)
	for _, one := range [...]policy.Rate{
		{Key: policy.RateKey{Principal: cmp.Or(p.Agent, r.payer), Group: p.Group}, Limit: set.Principal},
		{Key: policy.RateKey{Group: p.Group}, Limit: set.Group},
		{Key: policy.RateKey{Group: p.Group, Session: p.Session}, Limit: set.Session},
	} {
		if one.Limit != (nacre.RateLimit{}) {
			all = append(all, one)
		}
	}
	return all
}

// unhurried asks the rates, and counts nothing.
func (k *judge) unhurried(r *run) error { return k.count(r, false) }

// charge counts the call against its rates, once (K-04). What one of them refuses
// may count for others: a race for the last call costs, and gives nothing.
func (k *judge) charge(r *run) error { return k.count(r, true) }

func (k *judge) count(r *run, take bool) error {
	rates := k.held(r)
	over, wait, err := k.limiter.Count(rates, r.now, take)
	if err != nil {
		return fmt.Errorf("%w: %w", unavailable("nobody can tell how many calls there were: "+err.Error()), err)
	}
	if wait <= 0 {
		return nil
	}
	return limited(r, rates[over], wait)
}

// limited tells the wait in whole seconds, never too few.
func limited(r *run, rate policy.Rate, wait time.Duration) *nacre.Refusal {
	var what string
	switch key := rate.Key; {
	case key.Capability != "":
		what = string(r.call.Tool)
	case key.Principal != "":
		what = "all calls of this principal"
	case key.Session != "":
		what = "all calls of this session"
	default:
		what = "all calls of group " + string(key.Group)
	}
	return &nacre.Refusal{
		Code: nacre.CodeRateLimited, Stage: stageAuthorize, Reason: nacre.ReasonRateLimited, Retriable: true,
		Message:    fmt.Sprintf("Rate limit exceeded for %s (%d requests per %v)", what, rate.Limit.Calls, rate.Limit.Window),
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
