package assembly

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/bus"
	"github.com/nacre-dev/nacre/plugin"
)

// around is where an installation that serves meets the world outside.
type around struct {
	events     []string
	publishers map[string]string
	listeners  map[nacre.PluginName]*PluginListener
}

// close takes no more connections.
func (a *around) close() {
	for _, l := range a.listeners {
		l.Close()
	}
}

// openEvents lets outsiders subscribe, and publish where the config names them (D-32).
func (h *house) openEvents(ctx, work context.Context, working *sync.WaitGroup) error {
	config, paths := h.runtime.config.Events, h.runtime.registry.Paths()
	h.around.publishers = map[string]string{}
	serve := func(at bus.Address, socket string, serve func(context.Context, net.Listener) error) (string, error) {
		listener, err := bus.Listen(ctx, at, socket)
		if err != nil {
			return "", &NotReady{What: "events", err: err}
		}
		working.Go(func() {
			if err := serve(work, listener); err != nil && work.Err() == nil {
				h.Stop(fmt.Errorf("events: %w", err))
			}
		})
		return listener.Addr().Network() + "://" + listener.Addr().String(), nil
	}
	publish, err := config.publishAt()
	if err != nil {
		return &ConfigError{err}
	}
	pub := func(ctx context.Context, l net.Listener) error { return h.bus.ServePub(ctx, l, bus.Limits{}) }
	where, err := serve(bus.Address{}, paths.EventsSocket(string(h.ID())), pub)
	if err != nil {
		return err
	}
	h.around.events = append(h.around.events, where)
	if publish.TCP.IsValid() {
		if where, err = serve(publish, "", pub); err != nil {
			h.elsewhere(ctx, "outsiders", err)
		} else {
			h.around.events = append(h.around.events, where)
		}
	}
	publishers, err := config.listeners()
	if err != nil {
		return &ConfigError{err}
	}
	for _, p := range publishers {
		where, err := serve(p.at, paths.PublisherSocket(p.publisher.Name), func(ctx context.Context, l net.Listener) error {
			return h.bus.ServePublisher(ctx, l, p.publisher, bus.Limits{})
		})
		if err != nil {
			h.elsewhere(ctx, p.publisher.Name, err)
			continue
		}
		h.around.publishers[p.publisher.Name] = where
	}
	return nil
}

// elsewhere records an endpoint that cannot be served here, most often because
// another nacre serve of this installation has it.
func (h *house) elsewhere(ctx context.Context, who string, why error) {
	h.note(ctx, nacre.Record{Kind: nacre.KindEvent, Topic: "endpoint " + who, Outcome: "not served here", Reason: h.clean(why.Error())})
}

// openListeners takes connections for the plugins that the operator gave an address.
func (h *house) openListeners(work context.Context) error {
	h.around.listeners = map[nacre.PluginName]*PluginListener{}
	var errs []error
	for _, name := range h.shared.Host.Health().Healthy {
		to := h.runtime.reachOf(h.shared.stage.plugin(name))
		if !to.listen.IsValid() {
			continue
		}
		l, err := ListenFor(work, name, to.listen, filepath.Join(h.runtime.registry.Paths().PluginData(), string(name)))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		h.around.listeners[name] = l
	}
	return errors.Join(errs...)
}

// deliver hands an event to the shared plugins that a group of its may use: a
// plugin learns nothing of the others' (D-33).
func (p *sharedPlugins) deliver(ctx context.Context, e plugin.Envelope) {
	p.Host.Deliver(ctx, e, func(name nacre.PluginName) bool {
		if e.Group == "" {
			return true
		}
		f, groups := p.stage.plugin(name), p.stage.runtime.config.groups()
		for _, t := range f.Manifest.Provides.Tools {
			if groups.Allows(e.Group, t.Capability(f.Name, f.Hash)) {
				return true
			}
		}
		return false
	})
}
