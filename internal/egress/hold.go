package egress

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nacre-dev/nacre"
)

// DefaultHeld is how many connections of a session wait for a person at once:
// the others are refused, so that those of listed hosts have places left.
const DefaultHeld = 64

// Proposal is how a person is asked for what was refused. Its zero value asks nobody.
type Proposal struct {
	// How says what a person does to allow it, which the client is told; "" where
	// nobody can any more. Nil says that nobody can.
	How func() string
	// Decided, where it is set, is closed once the question does not wait any more,
	// and what was approved is let through.
	Decided <-chan struct{}
}

// Asking is how a person is asked for what a rule would let through. Its zero value
// asks nobody.
type Asking struct {
	// Propose is told of each such request, and returns how a person is asked for it.
	// It must not wait for anybody.
	Propose func(Denial) Proposal
	// Hold is how long the request then waits for the answer before it is refused;
	// zero means that it is refused at once.
	Hold time.Duration
}

// asking is a proxy's, which lets no more than most connections wait.
type asking struct {
	Asking
	most int
	held atomic.Int64
}

// admit finds the rule that lets a request through. Where there is none, a person is asked, and the
// connection waits for the answer as long as the operator says (U-11). The rule is looked for anew
// then, as for a request that comes now. Where that fails too, the request was refused, and the
// client knows.
func (c *client) admit(ctx context.Context, p *Proxy, d *denial, protocols ...nacre.Protocol) (until time.Time, admitted bool) {
	d.rule, until, d.reason = p.match(d.target, protocols...)
	if d.reason == ReasonListed {
		return until, true
	}
	asked := p.asking.propose(*d)
	if asked.Decided != nil && p.asking.Hold > 0 {
		if d.detail = c.wait(ctx, p, asked.Decided); d.detail == clientGone {
			p.recordDenied(ctx, *d)
			return time.Time{}, false
		}
		d.rule, until, d.reason = p.match(d.target, protocols...)
		if d.reason == ReasonListed {
			d.detail = ""
			return until, true
		}
	}
	if asked.How != nil {
		d.proposal = asked.How() // as of now: a question takes a moment to be asked, and may have been answered
	}
	p.recordDenied(ctx, *d)
	d.plugin = p.opts.Plugin
	c.answer(*d)
	return time.Time{}, false
}

// propose asks a person for what a refused request needs, where that would help.
func (a *asking) propose(d denial) Proposal {
	if a.Propose == nil || d.ask() == "" {
		return Proposal{}
	}
	return a.Propose(Denial{Host: d.target.host, Port: d.target.port, Reason: d.reason, Count: 1, Rule: d.ask()})
}

// clientGone is what wait says of a client that did not wait.
const clientGone = "the client did not wait for the answer"

// wait keeps a connection until the question is decided, and says why it did not
// wait longer. A client that goes away meanwhile is let go: what it asked for
// may have been asked anew by then, and must not be done twice.
func (c *client) wait(ctx context.Context, p *Proxy, decided <-chan struct{}) string {
	defer p.asking.held.Add(-1)
	if p.asking.held.Add(1) > int64(p.asking.most) {
		return fmt.Sprintf("%d connections wait for an answer already", p.asking.most)
	}
	ctx, end := p.while(ctx, target{}, nacre.EgressRule{}, time.Time{})
	defer end()
	gone, stop := c.watch()
	defer func() { stop(); _ = c.conn.SetDeadline(time.Now().Add(p.limits.Request)) }()
	patience := time.NewTimer(p.asking.Hold)
	defer patience.Stop()
	select {
	case <-decided:
		return "a person was asked, and it was not allowed"
	case <-patience.C:
		return fmt.Sprintf("a person was asked, and nobody answered within %v", p.asking.Hold)
	case <-ctx.Done():
		return "the session ended before anybody answered"
	case <-gone:
		return clientGone
	}
}

// watch looks whether a client that waits goes away, and takes nothing of what it
// sends meanwhile. Nobody else may read from it before stop has returned.
func (c *client) watch() (gone <-chan struct{}, stop func()) {
	left := make(chan struct{})
	_ = c.conn.SetDeadline(time.Time{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for c.r.Buffered() < c.r.Size() { // a client that sends more than that is there
			if _, err := c.r.Peek(c.r.Buffered() + 1); err != nil {
				if !isTimeout(err) {
					close(left)
				}
				return
			}
		}
	})
	return left, func() { _ = c.conn.SetReadDeadline(time.Now()); reader.Wait() }
}
