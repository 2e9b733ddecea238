package assembly

import (
	"context"
	"net"
	"slices"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/budget"
	"github.com/nacre-dev/nacre/internal/model"
	"github.com/nacre-dev/nacre/internal/tripwire"
)

// overhear tells the kernel what the brain's own tools have read: it is in what
// goes to the model, and nowhere else (K-26).
func (s *sealed) overhear(body []byte) {
	project := nacre.SeenUntrusted
	// What the vendor finds on the web is in what goes to the model too.
	searched := len(s.runtime.config.vendorTools(s.Group())) > 0
	if slices.Contains(s.runtime.config.TrustedProjects, s.project) && s.project != "" && !searched {
		project = nacre.SeenTrusted
	}
	s.seen(body, tripwire.InModel)
	if err := s.kernel.ObserveModelRequest(s.ID(), body, project); err != nil {
		s.Stop(err) // what cannot be followed must not go on
	}
}

// serveModel opens the gateway: the brain inside speaks to it with a token that
// is worth nothing elsewhere; the key is added on the host (M-04).
func (s *sealed) serveModel() error {
	r := s.runtime
	places, err := r.upstreams()
	if err != nil {
		return &ConfigError{err}
	}
	if !slices.ContainsFunc(places, func(p place) bool { return !lacking(p) }) {
		return &NotReady{What: "no model key", Next: r.config.Model.keyHelp()}
	}
	prices, err := r.prices(r.config.Model.Prices)
	if err != nil {
		return &ConfigError{err}
	}
	limit, err := r.config.budget()
	if err != nil {
		return &ConfigError{err}
	}
	// A run that goes on has what its earlier openings left of the budget.
	if _, s.earlier, err = r.count(s.Chains()); err != nil {
		return err
	}
	if limit -= s.earlier.MicroUSD; limit <= 0 {
		return badConfig("the budget of this work is spent: raise budget_usd under [model] in config.toml to go on")
	}
	book, err := r.daybook()
	if err != nil {
		return err
	}
	day, err := r.config.dayLimits(s.Group())
	if err != nil {
		return &ConfigError{err}
	}
	rooms, err := book.Rooms(s.Group(), day)
	if err != nil {
		return err
	}
	if room := budget.Narrowest(rooms); room.Left == 0 {
		return badConfig("%s of %s is spent: it refills at %s; budget_usd_day in config.toml sets it",
			room.Which, budget.Dollars(room.Limit), room.Refill.Format("2006-01-02 15:04 MST"))
	}
	s.upstream, s.limit, s.today = hosts(places), limit, leftToday(dayBudgets(rooms))
	upstreams := make([]model.Upstream, 0, len(places))
	for _, p := range places {
		upstreams = append(upstreams, p.Upstream)
	}
	s.gateway, err = model.New(model.Options{
		Upstreams: upstreams, SessionToken: s.token, Budget: limit, Prices: prices, Record: notice{s.Recorder, noticed(s.tell)},
		Session: s.ID(), Group: s.Group(), Now: r.options.Now, Observe: s.overhear,
		Days: book, DayLimits: day, Agent: s.agent, VendorTools: r.config.vendorTools(s.Group()),
	})
	if err != nil {
		return &ConfigError{err}
	}
	return s.Listen(nacre.ModelSocket, func(ctx context.Context, listener *net.UnixListener) error {
		return s.gateway.Serve(ctx, listener)
	})
}
