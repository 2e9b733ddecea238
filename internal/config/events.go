package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/events"
	"github.com/nacre-dev/nacre/internal/routing"
)

// maxPublishers is how many outside publishers a config names.
const maxPublishers = 64

// Route says whose messages are a group's. For each channel and sender,
// and for each channel and chat, there is one at most (D-33).
type Route struct {
	Channel string `toml:"channel"`
	// Sender or Chat narrow it; with neither it is for every sender of the channel.
	Sender string `toml:"sender"`
	Chat   string `toml:"chat"`
	Group  string `toml:"group"`
	// Session is fresh, resume or explicit; empty means fresh (D-36).
	Session string `toml:"session"`
	// Operator says that the words are an operator's and do not taint (M-52).
	Operator bool `toml:"operator"`
}

// Events is how outsiders get and give events over ZeroMQ (D-32).
type Events struct {
	// Publish is "ipc" or "tcp://IP:PORT", where outsiders subscribe. The unix
	// socket is always there; a TCP address is served beside it.
	Publish string `toml:"publish"`
	// Open says that Publish may be an address that other machines reach.
	Open bool `toml:"open"`
	// Publishers are who may publish, by the name that becomes the source.
	Publishers map[string]Publisher `toml:"publishers"`
}

// Publisher is one publisher: its listener is its identity.
type Publisher struct {
	// Listen is "ipc" or "tcp://IP:PORT"; Open lets it be one that other machines reach.
	Listen string `toml:"listen"`
	Open   bool   `toml:"open"`
	// Group is whose events these are.
	Group string `toml:"group"`
	// Topics are prefixes of what it may publish.
	Topics []string `toml:"topics"`
}

// RoutingTable compiles the [[route]] tables.
func (c Config) RoutingTable() (*routing.Table, error) {
	routes := make([]routing.Route, 0, len(c.Routes))
	for i, r := range c.Routes {
		policy, err := routing.ParsePolicy(r.Session)
		if err != nil {
			return nil, fmt.Errorf("route %d: %w", i+1, err)
		}
		routes = append(routes, routing.Route{
			Channel: r.Channel, Sender: r.Sender, Chat: r.Chat, Group: nacre.Group(r.Group), Policy: policy, Operator: r.Operator,
		})
	}
	return routing.Compile(routes)
}

// PublishAt is where outsiders subscribe, beside the unix socket.
func (e Events) PublishAt() (events.Address, error) {
	at, err := events.ParseAddress(e.Publish, e.Open)
	if err != nil {
		return at, fmt.Errorf("events.publish: %w", err)
	}
	return at, nil
}

// listener is a publisher with its address.
type listener struct {
	Publisher events.Publisher
	At        events.Address
}

// Listeners are the publishers that the config names, sorted.
func (e Events) Listeners() ([]listener, error) {
	if len(e.Publishers) > maxPublishers {
		return nil, fmt.Errorf("events.publishers: %d, at most %d", len(e.Publishers), maxPublishers)
	}
	list := make([]listener, 0, len(e.Publishers))
	for _, name := range slices.Sorted(maps.Keys(e.Publishers)) {
		l, err := e.Publishers[name].listener(name)
		if err != nil {
			return nil, fmt.Errorf("[events.publishers.%s]: %w", name, err)
		}
		list = append(list, l)
	}
	return list, nil
}

func (p Publisher) listener(name string) (listener, error) {
	if p.Listen == "" {
		return listener{}, fmt.Errorf("listen is missing: write ipc, or tcp://127.0.0.1:PORT")
	}
	at, err := events.ParseAddress(p.Listen, p.Open)
	if err != nil {
		return listener{}, fmt.Errorf("listen: %w", err)
	}
	publisher := events.Publisher{Name: name, Group: nacre.Group(p.Group), Prefixes: p.Topics}
	return listener{publisher, at}, publisher.Check()
}

// checkEvents refuses what could be understood in two ways, and two endpoints
// at one address: a publisher would have the identity of another.
func (c Config) checkEvents() error {
	if _, err := c.RoutingTable(); err != nil {
		return err
	}
	publish, err := c.Events.PublishAt()
	if err != nil {
		return err
	}
	list, err := c.Events.Listeners()
	if err != nil {
		return err
	}
	taken := map[events.Address]string{}
	if publish.TCP.IsValid() {
		taken[publish] = "events.publish"
	}
	for _, l := range list {
		where := "[events.publishers." + l.Publisher.Name + "]"
		if first, twice := taken[l.At]; twice && l.At.TCP.IsValid() {
			return fmt.Errorf("%s and %s are both at %s: give each an address of its own", first, where, l.At)
		}
		taken[l.At] = where
	}
	return nil
}
