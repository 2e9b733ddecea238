package assembly

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/bus"
	"github.com/nacre-dev/nacre/plugin"
)

// around is where an installation that serves meets the world outside.
type around struct {
	events     []string
	publishers map[string]string
	listeners  map[nacre.PluginName]*PluginListener
	// elsewhere are those endpoints that cannot be served here, with why.
	elsewhere map[string]string
}

// listenRetry is how often an address that somebody else has is tried again.
const listenRetry = time.Second

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
	if h.around.elsewhere == nil {
		h.around.elsewhere = map[string]string{}
	}
	h.around.elsewhere[who] = h.clean(why.Error())
	h.note(ctx, nacre.Record{Kind: nacre.KindEvent, Topic: "endpoint " + who, Outcome: "not served here", Reason: h.clean(why.Error())})
}

// openListeners takes connections for the plugins that the operator gave an
// address. Where somebody has that already, most often another nacre serve of
// this installation, it is taken when it is free.
func (h *house) openListeners(work context.Context, working *sync.WaitGroup) error {
	h.around.listeners = map[nacre.PluginName]*PluginListener{}
	var errs []error
	for _, name := range h.shared.Host.Health().Healthy {
		to := h.runtime.reachOf(h.shared.stage.plugin(name))
		if !to.listen.IsValid() {
			continue
		}
		folder := filepath.Join(h.runtime.registry.Paths().PluginData(), string(name))
		l, err := ListenFor(work, name, to.listen, folder)
		switch {
		case errors.Is(err, unix.EADDRINUSE):
			h.elsewhere(work, "plugin "+string(name), err)
			working.Go(func() { h.listenLater(work, name, to.listen, folder) })
		case err != nil:
			errs = append(errs, err)
		default:
			h.around.listeners[name] = l
		}
	}
	return errors.Join(errs...)
}

// listenLater takes connections for a plugin once its address is free.
func (h *house) listenLater(work context.Context, name nacre.PluginName, at netip.AddrPort, folder string) {
	for paused(work, listenRetry) {
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
