// Package endpoints is where an installation that serves meets the world outside: who subscribes
// to its events, who publishes, and whose connections its plugins take.
package endpoints

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/access"
	"github.com/nacre-dev/nacre/internal/bus"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/hosting"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/telling"
	"github.com/nacre-dev/nacre/plugin"
)

// Serving is what an installation offers while it serves.
type Serving struct {
	Session nacre.SessionID `json:"session"`
	// Plugins are those that run for all sessions, Failed those that could not be
	// started, with the category of the failure.
	Plugins []nacre.PluginName          `json:"plugins"`
	Failed  map[nacre.PluginName]string `json:"failed"`
	// Listening are the addresses at which plugins take connections.
	Listening map[nacre.PluginName]string `json:"listening"`
	// Events are where outsiders subscribe, and Publishers where each publishes.
	Events     []string          `json:"events"`
	Publishers map[string]string `json:"publishers"`
	// Elsewhere are endpoints that are not served here, with why: most often
	// because another nacre serve of the installation has them.
	Elsewhere map[string]string `json:"elsewhere,omitempty"`
	// Routes is how many routes there are from channels to groups.
	Routes int `json:"routes"`
}

// Endpoints are where an installation that serves meets the world outside.
type Endpoints struct {
	tell       *telling.Teller
	shared     *hosting.Shared
	events     []string
	publishers map[string]string
	listeners  map[nacre.PluginName]*PluginListener
	// elsewhere are those endpoints that cannot be served here, with why.
	elsewhere map[string]string
}

// listenRetry is how often an address that somebody else has is tried again.
const listenRetry = time.Second

// New are the endpoints that the config names, none of them open. It refuses publishers that
// cannot be.
func New(inst *installation.Installation) (*Endpoints, error) {
	if err := access.CheckPublishers(inst); err != nil {
		return nil, err
	}
	return new(Endpoints), nil
}

// Close takes no more connections.
func (a *Endpoints) Close() {
	for _, l := range a.listeners {
		l.Close()
	}
}

// OpenEvents lets outsiders subscribe, and publish where the config names them (D-32).
func (a *Endpoints) OpenEvents(ctx, work context.Context, tell *telling.Teller, working *sync.WaitGroup) error {
	a.tell = tell
	settings, paths := a.tell.Inst.Config.Events, a.tell.Inst.Registry.Paths()
	a.publishers = map[string]string{}
	serve := func(at netip.AddrPort, socket string, serve func(context.Context, net.Listener) error) (string, error) {
		if at.IsValid() {
			if err := paths.ClaimPort(work, at.Port()); err != nil {
				return "", err
			}
		}
		listener, err := bus.Listen(ctx, at, socket)
		if err != nil {
			return "", &installation.NotReady{What: "events", Err: err}
		}
		working.Go(func() {
			if err := serve(work, listener); err != nil && work.Err() == nil {
				a.tell.Stop(fmt.Errorf("events: %w", err))
			}
		})
		return listener.Addr().Network() + "://" + listener.Addr().String(), nil
	}
	publish, err := settings.PublishAt()
	if err != nil {
		return &config.Error{Err: err}
	}
	pub := func(ctx context.Context, l net.Listener) error { return a.tell.Bus.ServePub(ctx, l, bus.Limits{}) }
	where, err := serve(netip.AddrPort{}, paths.EventsSocket(string(a.tell.ID())), pub)
	if err != nil {
		return err
	}
	a.events = append(a.events, where)
	if publish.TCP.IsValid() {
		if where, err = serve(publish.TCP, "", pub); err != nil {
			a.notHere(ctx, "outsiders", err)
		} else {
			a.events = append(a.events, where)
		}
	}
	publishers, err := settings.Listeners()
	if err != nil {
		return &config.Error{Err: err}
	}
	for _, p := range publishers {
		where, err := serve(p.At.TCP, paths.PublisherSocket(p.Publisher.Name), func(ctx context.Context, l net.Listener) error {
			return a.tell.Bus.ServePublisher(ctx, l, p.Publisher, bus.Limits{})
		})
		if err != nil {
			a.notHere(ctx, p.Publisher.Name, err)
			continue
		}
		a.publishers[p.Publisher.Name] = where
	}
	return nil
}

// notHere records an endpoint that cannot be served here, most often because
// another nacre serve of this installation has it.
func (a *Endpoints) notHere(ctx context.Context, who string, why error) {
	if a.elsewhere == nil {
		a.elsewhere = map[string]string{}
	}
	a.elsewhere[who] = a.tell.Clean(why.Error())
	a.tell.Note(ctx, nacre.Record{Kind: nacre.KindEvent, Topic: "endpoint " + who, Outcome: "not served here", Reason: a.tell.Clean(why.Error())})
}

// OpenListeners takes connections for the plugins that the operator gave an
// address. Where somebody has that already, most often another nacre serve of
// this installation, it is taken when it is free.
func (a *Endpoints) OpenListeners(work context.Context, shared *hosting.Shared, working *sync.WaitGroup) error {
	a.shared = shared
	a.listeners = map[nacre.PluginName]*PluginListener{}
	var errs []error
	for _, name := range a.shared.Host.Health().Healthy {
		to := access.ReachOf(a.tell.Inst, a.shared.Stage.Plugin(name))
		if !to.Listen.IsValid() {
			continue
		}
		if err := a.tell.Inst.Registry.Paths().ClaimPort(work, to.Listen.Port()); err != nil {
			return err
		}
		folder := filepath.Join(a.tell.Inst.Registry.Paths().PluginData(), string(name))
		l, err := ListenFor(work, name, to.Listen, folder)
		switch {
		case errors.Is(err, unix.EADDRINUSE):
			a.notHere(work, "plugin "+string(name), err)
			working.Go(func() { a.listenLater(work, name, to.Listen, folder) })
		case err != nil:
			errs = append(errs, err)
		default:
			a.listeners[name] = l
		}
	}
	return errors.Join(errs...)
}

// listenLater takes connections for a plugin once its address is free.
func (a *Endpoints) listenLater(work context.Context, name nacre.PluginName, at netip.AddrPort, folder string) {
	for Paused(work, listenRetry) {
		if l, err := ListenFor(work, name, at, folder); err == nil {
			a.tell.Note(work, nacre.Record{Kind: nacre.KindEvent, Topic: "endpoint plugin " + string(name), Outcome: "served here from now on"})
			<-work.Done()
			l.Close()
			return
		}
	}
}

// Deliver hands an event to the shared plugins that a group of its may use: a
// plugin learns nothing of the others' (D-33).
func (a *Endpoints) Deliver(ctx context.Context, e plugin.Envelope) {
	p := a.shared
	p.Host.Deliver(ctx, e, func(name nacre.PluginName) bool {
		if e.Group == "" {
			return true
		}
		f, groups := p.Stage.Plugin(name), access.ToolGroups(p.Stage.Inst, p.Stage.Inst.Options.Now())
		for _, t := range f.Manifest.Provides.Tools {
			if groups.Allows(e.Group, t.Capability(f.Name, f.Hash)) {
				return true
			}
		}
		return false
	})
}

// Show hands a card to the plugin of its channel, and to no other.
func (a *Endpoints) Show(ctx context.Context, c plugin.Card) {
	raw, err := json.Marshal(c)
	if err != nil {
		return // texts can be written
	}
	e := plugin.Envelope{
		ID: installation.RandomHex(), Version: 1, Type: "event", Topic: plugin.TopicCard, Source: installation.SourceCore, Timestamp: a.tell.Inst.Options.Now().UTC(), Payload: raw,
	}
	a.shared.Host.Deliver(ctx, e, func(name nacre.PluginName) bool {
		return slices.Contains(a.shared.Stage.Plugin(name).Manifest.Provides.Channels, c.Channel)
	})
}

// Serving says what there is.
func (a *Endpoints) Serving() Serving {
	health := a.shared.Host.Health()
	s := Serving{
		Session: a.tell.ID(), Plugins: health.Healthy, Failed: map[nacre.PluginName]string{}, Listening: map[nacre.PluginName]string{},
		Events: a.events, Publishers: a.publishers, Elsewhere: a.elsewhere, Routes: len(a.tell.Inst.Config.Routes),
	}
	for _, f := range health.Failed {
		s.Failed[f.Name] = f.Category
	}
	for _, f := range access.Colliding(a.tell.Inst) { // its sessions leave them out, too
		s.Failed[f.Name] = plugin.CategoryConfig
	}
	for name, l := range a.listeners {
		s.Listening[name] = l.Addr().String()
	}
	return s
}
