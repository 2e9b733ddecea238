package serve

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
	"github.com/nacre-dev/nacre/plugin"
)

// endpoints is where an installation that serves meets the world outside.
type endpoints struct {
	events     []string
	publishers map[string]string
	listeners  map[nacre.PluginName]*PluginListener
	// elsewhere are those endpoints that cannot be served here, with why.
	elsewhere map[string]string
}

// listenRetry is how often an address that somebody else has is tried again.
const listenRetry = time.Second

// close takes no more connections.
func (a *endpoints) close() {
	for _, l := range a.listeners {
		l.Close()
	}
}

// openEvents lets outsiders subscribe, and publish where the config names them (D-32).
func (h *server) openEvents(ctx, work context.Context, working *sync.WaitGroup) error {
	settings, paths := h.runtime.Config.Events, h.runtime.Registry.Paths()
	h.endpoints.publishers = map[string]string{}
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
				h.Stop(fmt.Errorf("events: %w", err))
			}
		})
		return listener.Addr().Network() + "://" + listener.Addr().String(), nil
	}
	publish, err := settings.PublishAt()
	if err != nil {
		return &config.Error{Err: err}
	}
	pub := func(ctx context.Context, l net.Listener) error { return h.bus.ServePub(ctx, l, bus.Limits{}) }
	where, err := serve(netip.AddrPort{}, paths.EventsSocket(string(h.ID())), pub)
	if err != nil {
		return err
	}
	h.endpoints.events = append(h.endpoints.events, where)
	if publish.TCP.IsValid() {
		if where, err = serve(publish.TCP, "", pub); err != nil {
			h.elsewhere(ctx, "outsiders", err)
		} else {
			h.endpoints.events = append(h.endpoints.events, where)
		}
	}
	publishers, err := settings.Listeners()
	if err != nil {
		return &config.Error{Err: err}
	}
	for _, p := range publishers {
		where, err := serve(p.At.TCP, paths.PublisherSocket(p.Publisher.Name), func(ctx context.Context, l net.Listener) error {
			return h.bus.ServePublisher(ctx, l, p.Publisher, bus.Limits{})
		})
		if err != nil {
			h.elsewhere(ctx, p.Publisher.Name, err)
			continue
		}
		h.endpoints.publishers[p.Publisher.Name] = where
	}
	return nil
}

// elsewhere records an endpoint that cannot be served here, most often because
// another nacre serve of this installation has it.
func (h *server) elsewhere(ctx context.Context, who string, why error) {
	if h.endpoints.elsewhere == nil {
		h.endpoints.elsewhere = map[string]string{}
	}
	h.endpoints.elsewhere[who] = h.clean(why.Error())
	h.note(ctx, nacre.Record{Kind: nacre.KindEvent, Topic: "endpoint " + who, Outcome: "not served here", Reason: h.clean(why.Error())})
}

// openListeners takes connections for the plugins that the operator gave an
// address. Where somebody has that already, most often another nacre serve of
// this installation, it is taken when it is free.
func (h *server) openListeners(work context.Context, working *sync.WaitGroup) error {
	h.endpoints.listeners = map[nacre.PluginName]*PluginListener{}
	var errs []error
	for _, name := range h.shared.Host.Health().Healthy {
		to := access.ReachOf(h.runtime, h.shared.Stage.Plugin(name))
		if !to.Listen.IsValid() {
			continue
		}
		if err := h.runtime.Registry.Paths().ClaimPort(work, to.Listen.Port()); err != nil {
			return err
		}
		folder := filepath.Join(h.runtime.Registry.Paths().PluginData(), string(name))
		l, err := ListenFor(work, name, to.Listen, folder)
		switch {
		case errors.Is(err, unix.EADDRINUSE):
			h.elsewhere(work, "plugin "+string(name), err)
			working.Go(func() { h.listenLater(work, name, to.Listen, folder) })
		case err != nil:
			errs = append(errs, err)
		default:
			h.endpoints.listeners[name] = l
		}
	}
	return errors.Join(errs...)
}

// listenLater takes connections for a plugin once its address is free.
func (h *server) listenLater(work context.Context, name nacre.PluginName, at netip.AddrPort, folder string) {
	for Paused(work, listenRetry) {
		if l, err := ListenFor(work, name, at, folder); err == nil {
			h.note(work, nacre.Record{Kind: nacre.KindEvent, Topic: "endpoint plugin " + string(name), Outcome: "served here from now on"})
			<-work.Done()
			l.Close()
			return
		}
	}
}

// deliver hands an event to the shared plugins that a group of its may use: a
// plugin learns nothing of the others' (D-33).
func deliver(ctx context.Context, p *hosting.Shared, e plugin.Envelope) {
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

// showCard hands a card to the plugin of its channel, and to no other.
func showCard(ctx context.Context, h *server, c plugin.Card) {
	raw, err := json.Marshal(c)
	if err != nil {
		return // texts can be written
	}
	e := plugin.Envelope{
		ID: installation.RandomHex(), Version: 1, Type: "event", Topic: plugin.TopicCard, Source: installation.SourceCore, Timestamp: h.runtime.Options.Now().UTC(), Payload: raw,
	}
	h.shared.Host.Deliver(ctx, e, func(name nacre.PluginName) bool {
		return slices.Contains(h.shared.Stage.Plugin(name).Manifest.Provides.Channels, c.Channel)
	})
}
