package model

import (
	"context"
	"errors"
	"time"

	"github.com/nacre-dev/nacre/internal/budget"
)

// reserve sets the most that the call can cost aside. Where running calls hold what is missing it
// waits for them. Where less is left than the call would use, it lowers the call's maximum to what
// is.
func (g *Gateway) reserve(ctx context.Context, c *call) *refusal {
	if c.route.free {
		return nil
	}
	patience := time.NewTimer(g.limits.Request)
	defer patience.Stop()
	for {
		changed, err := g.tryReserve(ctx, c)
		if err == nil {
			c.route.finish(c.req, c.upstream.Upstream)
			return nil
		}
		if changed == nil {
			return unaffordable(err)
		}
		select {
		case <-changed:
		case <-patience.C:
			return refuse(ReasonBusy, "the budget is held by calls that are running")
		case <-ctx.Done():
			return refuse(ReasonBusy, "the client left")
		}
	}
}

// unaffordable says which budget is spent, how much of it, and what helps.
func unaffordable(err error) *refusal {
	var spent *budget.ExhaustedError
	switch {
	case !errors.As(err, &spent):
		no := refuse(ReasonBook, "%v, so the call was not made", errBook)
		no.cause = err
		return no
	case spent.Which == "":
		return refuse(ReasonBudget, "%v. Start the session with a larger budget to go on", err)
	}
	return refuse(ReasonBudget, "%v", err)
}

// tryReserve reserves now, of the session's budget and of the day's at once, or says what to wait
// for. Nil means that waiting will not help.
func (g *Gateway) tryReserve(ctx context.Context, c *call) (wait <-chan struct{}, err error) {
	decide := func(room budget.Room) (_ int64, err error) {
		wait, err = g.reserveSession(c, room)
		return c.reserved, err
	}
	if g.opts.Days == nil || c.price.Free {
		_, err = decide(budget.Narrowest(nil))
		return wait, err
	}
	if c.hold, err = g.opts.Days.reserve(ctx, g.opts.Group, g.opts.DayLimits, decide); err != nil {
		g.settle(ctx, c, chargeNothing)
	}
	return wait, err
}

// reserveSession reserves what fits both the session's budget and the room of the day's.
func (g *Gateway) reserveSession(c *call, room budget.Room) (wait <-chan struct{}, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	output := c.req.maxTokens
	if output == 0 {
		output = g.limits.Output
		if most := c.price.MaxOutput; most > 0 {
			output = min(output, most)
		}
	}
	need, left := c.most(output), min(g.ledger.Left(), room.Left)
	if need > left || left == 0 {
		if err = room.Short(need); g.ledger.Left() <= room.Left {
			_, err = g.ledger.Reserve(need)
		}
		if g.ledger.Reserved() > 0 {
			return g.changed, err
		}
		output = min(output, c.affordable(left))
		if output < minOutput || output <= c.req.thinking {
			return nil, err
		}
		need = c.most(output)
	}
	r, err := g.ledger.Reserve(need)
	if err != nil {
		return nil, err
	}
	c.reservation, c.reserved = r, need
	c.req.maxTokens = output
	return nil, nil
}

// most is what the call can cost with so much output.
func (c *call) most(output int64) int64 {
	return c.price.Most(c.req.inputTokens(), output) + c.req.vendorFees()
}

// affordable is how much output so many micro-dollars buy.
func (c *call) affordable(left int64) int64 {
	return c.price.Affordable(c.req.inputTokens(), max(left-c.req.vendorFees(), 0))
}

// Narrow lowers what the session may spend, in micro-dollars; it raises nothing.
func (g *Gateway) Narrow(limit int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ledger.Narrow(limit)
}

// SetAside reserves what somebody else may spend of the session's budget, in micro-dollars,
// until settle says what that came to (M-56). What does not fit is a [*budget.ExhaustedError].
func (g *Gateway) SetAside(amount int64) (settle func(cost int64), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r, err := g.ledger.Reserve(amount)
	if err != nil {
		return nil, err
	}
	return func(cost int64) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.ledger.Settle(r, cost)
		close(g.changed)
		g.changed = make(chan struct{})
	}, nil
}

// Left is what of the session's budget is neither spent nor set aside, in micro-dollars.
func (g *Gateway) Left() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ledger.Left()
}

// settle ends the call's reservations, first the day's, so that who waits for
// the session's finds both; then it wakes those who wait.
func (g *Gateway) settle(ctx context.Context, c *call, how charge) {
	if c.reservation == 0 {
		return
	}
	switch how {
	case chargeNothing:
		c.reserved = 0
	case chargeUsed:
		c.short, c.over = c.meter.crossCheck(c.req)
		c.reserved = c.price.Cost(c.meter.usage)
		if !c.price.Free {
			c.reserved += c.meter.searches * c.req.searchFee()
		}
	case chargeReserved:
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	_ = c.hold.settle(ctx, c.reserved) // what cannot be written stays charged as it was reserved
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ledger.Settle(c.reservation, c.reserved)
	c.reservation, c.hold = 0, nil
	g.tokensIn += c.meter.usage.In()
	g.tokensOut += c.meter.usage.Output
	close(g.changed)
	g.changed = make(chan struct{})
}
