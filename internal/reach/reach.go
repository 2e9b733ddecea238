// Package reach is what the agent of a sealed session may reach. That is hosts and this machine's
// services through its proxy, with credentials that it does not see, and the folders and programs
// inside.
package reach

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/access"
	"github.com/nacre-dev/nacre/internal/asking"
	"github.com/nacre-dev/nacre/internal/basis"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/leasing"
	"github.com/nacre-dev/nacre/internal/watch"
)

// Asked is what a session asks to reach.
type Asked struct {
	// Kind is the session's; powers are for runs (M-51).
	Kind string
	// Egress, Services and Powers are what a person gives this session alone.
	Egress, Services, Powers []string
	// Handed is what a sub-agent was given; nil for a session that a person began.
	Handed *basis.Handed
}

// Reach is what one session may reach, decided before it opens. Its credentials and its proxy
// are there once they were opened and served.
type Reach struct {
	// Services are those of this machine that the agent may reach, or ask for.
	Services asking.Services

	on    *basis.Basis
	asked Asked
	// opened is what hosts are asked nothing else than.
	opened []egress.Credential
	// uses are what credentials may be used for by what was learned.
	uses []egress.Use
	// powers are the rules that hold while the session has listened to no outsider.
	powers []nacre.EgressRule
	// tainted tells whether it has, or that nobody can tell.
	tainted func() bool

	watch    *watch.Watch
	proposer *asking.Proposer // nil where nobody is asked about hosts that were refused
	leases   *leasing.Credentials
}

// Decide says what a session that begins now may reach; its basis has the rules and the powers then.
func Decide(on *basis.Basis, asked Asked, tainted func() bool) (*Reach, error) {
	r := &Reach{on: on, asked: asked, tainted: tainted}
	allowed, unlearned := allowedTo(on, asked)
	rules, err := allowed.Rules(asked.Egress)
	opened, unopened := allowed.Opened(asked.Egress)
	powers, unpowered := allowed.powers(rules, asked.Egress)
	if asked.Handed != nil {
		rules = asked.Handed.Rules // of its parent's
	}
	services, refused := asking.OpenServices(on.Inst, asked.Services)
	if err := errors.Join(unlearned, err, unopened, unpowered, refused); err != nil {
		return nil, &config.Error{Err: err}
	}
	on.Rules, on.Powers = rules, allowed.unlocked(asked)
	r.Services, r.opened, r.uses, r.powers = services, opened, allowed.Uses(), powers
	return r, nil
}

// allowed is what a session may reach, and what it may without the powers that were unlocked.
type allowed struct {
	config.Egress
	plain config.Egress
}

// allowedTo is what a session that begins now may reach. Powers are for runs, whose
// work is verified: no other session has them (M-51).
func allowedTo(on *basis.Basis, asked Asked) (a allowed, err error) {
	a.Egress, a.plain, err = access.ReachAt(on.Inst, on.Started)
	if asked.Kind != basis.KindRun {
		a.Egress = a.plain
	}
	return a, err
}

// powers are those of the rules that are there for a power alone.
func (a allowed) powers(rules []nacre.EgressRule, more []string) ([]nacre.EgressRule, error) {
	plain, err := a.plain.Rules(more)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(rules), func(rule nacre.EgressRule) bool { return slices.Contains(plain, rule) }), nil
}

// unlocked are the powers of a session, for the credentials that are locked without: those that were
// unlocked, where it is a run's, and those that a person gives it. A sub-agent has none.
func (a allowed) unlocked(asked Asked) []string {
	if asked.Handed != nil {
		return nil
	}
	return slices.Concat(a.Unlocked(), asked.Powers)
}

// Open opens the session's credentials. One that is there for a power alone that was unlocked
// is withheld from a session that has listened to an outsider. A request waits for as long as
// hold says for the person who grants its credential.
func (r *Reach) Open(ctx context.Context, w *watch.Watch, hold time.Duration) (err error) {
	r.watch = w
	r.leases, err = leasing.Open(ctx, r.on.Inst, r.on.Session, leasing.Asked{
		Rules: r.on.Rules, Opened: r.opened, Uses: r.uses, Standing: r.standing, Patience: hold, Powers: r.on.Powers,
		Withheld: func(power string) bool { return !slices.Contains(r.asked.Powers, power) && r.tainted() },
		Revoked:  w.Revoked,
	})
	return err
}

// standing are the uses of credentials that a person has approved by now.
func (r *Reach) standing() ([]egress.Use, error) {
	now, err := access.EgressAt(r.on.Inst, r.on.Inst.Options.Now())
	return now.Uses(), err
}

// Locked are the credentials that the session does not have, each with its power, which is locked.
func (r *Reach) Locked() []string { return leasing.Locked(r.on.Inst, r.on.Group(), r.on.Powers) }

// withheld tells of a rule that it is a power's, and that the session has listened to an
// outsider; nil where the session has no power.
func (r *Reach) withheld() func(nacre.EgressRule) bool {
	if len(r.powers) == 0 {
		return nil
	}
	return func(rule nacre.EgressRule) bool { return slices.Contains(r.powers, rule) && r.tainted() }
}

// Serve lets out what the rules let out, and what a person lets out meanwhile: a connection to a
// host that is not listed is held for the answer.
func (r *Reach) Serve(hold time.Duration) error {
	on := r.on
	if r.asked.Handed == nil { // a sub-agent's hosts are its parent's to name
		r.proposer = asking.Propose(on.Inst, on.Session, on.Warn, hold)
	}
	options, err := r.options(hold)
	if err != nil {
		return err
	}
	proxy, err := egress.New(options)
	if err != nil {
		return &config.Error{Err: err}
	}
	r.proposer.Through(proxy)
	if err := r.proposer.Again(); err != nil {
		return err
	}
	return errors.Join(on.Listen(nacre.EgressSocket, func(ctx context.Context, listener *net.UnixListener) error {
		return proxy.Serve(ctx, r.watch.Listener(listener))
	}), r.Services.Serve(on.Session), r.leases.ServeSSH(asking.Noticed(on.Warn)))
}

// options are the proxy's, with the stages that stand around it (ARCHITECTURE.md).
func (r *Reach) options(hold time.Duration) (egress.Options, error) {
	on := r.on
	options, err := r.leases.Into(r.Services.Into(egress.Options{
		Rules:   on.Rules,
		Record:  r.watch.Recorder(asking.Notice{Recorder: on.Recorder, Tell: asking.Noticed(on.Tell), Warn: asking.Noticed(on.Warn)}),
		Asking:  egress.Asking{Propose: r.proposer.Told(), Hold: hold},
		Inspect: egress.Inspection{Each: r.watch.Inspect, PassOpaque: r.watch.StopsNothing()},
		Revoked: egress.Revocation{All: r.watch.Revoked, Rule: r.withheld()},
		Session: on.ID(), Group: on.Group(), Now: on.Inst.Options.Now, Limits: on.Inst.Config.Egress.Limits.Proxy(),
	}))
	if err != nil {
		return options, err
	}
	if options.Upstream, err = on.Inst.Config.Egress.Upstream(on.Inst.Options.Getenv); err != nil {
		return options, &config.Error{Err: err}
	}
	return options, nil
}

// Account tells, at the session's end, what nobody was asked about.
func (r *Reach) Account() { r.proposer.Account() }

// Close gives back what the session holds of credentials.
func (r *Reach) Close(ctx context.Context) error { return r.leases.Close(ctx) }
