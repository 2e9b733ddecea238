// Package metering lets a session's brain reach the model through a gateway that adds the key on the
// host. It keeps that within what may be spent: by the work, and in a day.
package metering

import (
	"context"
	"net"
	"net/http"
	"slices"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/asking"
	"github.com/nacre-dev/nacre/internal/budget"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/login"
	"github.com/nacre-dev/nacre/internal/model"
	"github.com/nacre-dev/nacre/internal/receipt"
	"github.com/nacre-dev/nacre/internal/session"
	"github.com/nacre-dev/nacre/internal/upstream"
)

// Meter counts what a session's brain costs.
type Meter struct {
	// Token is what the brain shows the gateway: worth nothing elsewhere.
	Token nacre.Secret
	// Gateway is nil where none is served.
	Gateway *model.Gateway
	// Earlier is what the work's earlier openings cost.
	Earlier audit.ReceiptCost

	inst    *installation.Installation
	session *session.Session
	options Options
	// upstream is the host of the model, limit what may be spent there in
	// millionths of a dollar, today what was left of the day's budgets at first.
	upstream string
	limit    int64
	today    string
}

// Options say what a meter is for.
type Options struct {
	// Agent is the brain with its version.
	Agent string
	Tell  func(nacre.Step)
	// Observe is given the body of each request to the model.
	Observe func(body []byte)
	// Revoked tells whether what the session was granted was taken back.
	Revoked func() bool
}

// New makes a session's meter. It serves nothing yet.
func New(inst *installation.Installation, s *session.Session, o Options) *Meter {
	return &Meter{Token: nacre.NewSecret(installation.RandomHex()), inst: inst, session: s, options: o}
}

// Told is what a person is told of it: the host of the model, what may be spent there
// and what is left of the day's budgets. All are empty where no gateway is served.
func (m *Meter) Told() (host, dollars, today string) {
	if m.Gateway == nil {
		return "", "", ""
	}
	return m.upstream, budget.Dollars(m.limit), m.today
}

// Serve opens the gateway: the brain inside speaks to it with a token that is worth nothing
// elsewhere. The key is added on the host (M-04).
func (m *Meter) Serve() error {
	places, err := upstream.Places(m.inst)
	if err != nil {
		return &config.Error{Err: err}
	}
	if !slices.ContainsFunc(places, func(p upstream.Place) bool { return !upstream.Lacking(p) }) {
		anthropic, _, _ := upstream.Keys(m.inst)
		return &installation.NotReady{What: "no model key", Next: anthropic.Help}
	}
	prices, err := upstream.Prices(m.inst, m.inst.Config.Model.Prices)
	if err != nil {
		return &config.Error{Err: err}
	}
	book, days, err := m.narrow()
	if err != nil {
		return err
	}
	m.upstream = upstream.Hosts(places)
	upstreams := make([]model.Upstream, 0, len(places))
	for _, p := range places {
		if p.Vendor != "" {
			if p.Login, err = loginOf(m.inst, login.Vendor(p.Vendor)); err != nil {
				return err
			}
		}
		upstreams = append(upstreams, p.Upstream)
	}
	transport := model.Transport()
	if err := m.inst.Config.Egress.Outward(transport, m.inst.Options.Getenv); err != nil {
		return &config.Error{Err: err}
	}
	m.Gateway, err = model.New(model.Options{
		Client:    &http.Client{Transport: transport},
		Upstreams: upstreams, SessionToken: m.Token, Budget: m.limit, Prices: prices, Record: asking.Notice{Recorder: m.session.Recorder, Tell: m.options.Tell},
		Session: m.session.ID(), Group: m.session.Group(), Now: m.inst.Options.Now, Oversight: model.Oversight{Observe: m.options.Observe, Revoked: m.options.Revoked},
		Days: book, DayLimits: days, Agent: m.options.Agent, VendorTools: m.inst.Config.VendorTools(m.session.Group()),
	})
	if err != nil {
		return &config.Error{Err: err}
	}
	return m.session.Listen(nacre.ModelSocket, func(ctx context.Context, listener *net.UnixListener) error {
		return m.Gateway.Serve(ctx, listener)
	})
}

// Spent is what the work has cost so far, in millionths of a dollar.
func (m *Meter) Spent() int64 {
	if m.Gateway == nil {
		return m.Earlier.MicroUSD
	}
	now, _, _ := m.Gateway.Spent()
	return m.Earlier.MicroUSD + now
}

// Narrow lowers what all openings of the work together may spend to most, in millionths of a dollar.
// 0 lowers nothing; a budget that is spent already is an error.
func (m *Meter) Narrow(most int64) error {
	if m.Gateway == nil || most == 0 {
		return nil
	}
	left := most - m.Earlier.MicroUSD
	if left <= 0 {
		return config.Errorf("the budget of this work, %s, is spent: go on with a larger --budget", budget.Dollars(most))
	}
	m.limit = min(m.limit, left)
	m.Gateway.Narrow(left)
	return nil
}

// narrow finds what may be spent: what the work has left of its budget, and no more than
// the day has. A budget that is spent is an error that says what to do.
func (m *Meter) narrow() (book *model.Daybook, days budget.DayLimits, err error) {
	limit, err := m.inst.Config.Budget()
	if err != nil {
		return nil, days, &config.Error{Err: err}
	}
	// A run that goes on has what its earlier openings left of the budget.
	if _, m.Earlier, err = receipt.Count(m.inst, m.session.Chains()); err != nil {
		return nil, days, err
	}
	if limit -= m.Earlier.MicroUSD; limit <= 0 {
		return nil, days, config.Errorf("the budget of this work is spent: raise budget_usd under [model] in config.toml to go on")
	}
	if book, err = upstream.Daybook(m.inst); err != nil {
		return nil, days, err
	}
	all, one, err := m.inst.Config.DayLimits(m.session.Group())
	if err != nil {
		return nil, days, &config.Error{Err: err}
	}
	days = budget.DayLimits{All: all, Group: one}
	rooms, err := book.Rooms(m.session.Group(), days)
	if err != nil {
		return nil, days, err
	}
	if room := budget.Narrowest(rooms); room.Left == 0 {
		return nil, days, config.Errorf("%s of %s is spent: it refills at %s; budget_usd_day in config.toml sets it",
			room.Which, budget.Dollars(room.Limit), room.Refill.Format("2006-01-02 15:04 MST"))
	}
	m.limit, m.today = limit, upstream.LeftToday(upstream.DayBudgets(rooms))
	return book, days, nil
}
