package assembly

import (
	"context"
	"net"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/budget"
	"github.com/nacre-dev/nacre/internal/model"
)

// serveModel opens the gateway: the brain inside speaks to it with a token that
// is worth nothing elsewhere; the key is added on the host (M-04).
func (s *sealed) serveModel() error {
	r := s.runtime
	key, err := r.config.Model.modelKey(r.options.Getenv)
	if err != nil {
		return &ConfigError{err}
	}
	if key.Empty() {
		return &NotReady{What: "no model key", Next: r.config.Model.keyHelp()}
	}
	upstream, err := r.config.Model.upstream()
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
	s.upstream, s.limit = upstream.Host, limit
	s.gateway, err = model.New(model.Options{
		Upstream: upstream, Key: key, SessionToken: s.token, Budget: limit, Prices: budget.ListPrices(), Record: notice{s.Recorder, noticed(s.tell)},
		Session: s.ID(), Group: s.Group(), Now: r.options.Now,
	})
	if err != nil {
		return &ConfigError{err}
	}
	return s.Listen(nacre.ModelSocket, func(ctx context.Context, listener *net.UnixListener) error {
		return s.gateway.Serve(ctx, listener)
	})
}
