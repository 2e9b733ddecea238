// Package serve is an installation that serves: messages and schedules wake agents,
// and outsiders hear of it. Each message is written down before it is taken.
package serve

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/bus"
	"github.com/nacre-dev/nacre/internal/conversation"
	"github.com/nacre-dev/nacre/internal/dispatch"
	"github.com/nacre-dev/nacre/internal/endpoints"
	"github.com/nacre-dev/nacre/internal/hosting"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/mailbox"
	"github.com/nacre-dev/nacre/internal/operator"
	"github.com/nacre-dev/nacre/internal/telling"
	"github.com/nacre-dev/nacre/internal/ticking"
	"github.com/nacre-dev/nacre/plugin"
)

const (
	// serveKind is the kind of the session that `nacre serve` itself is.
	serveKind = "serve"
	// dispatchQueue is how many events wait to be decided on.
	dispatchQueue = 1024
)

// Serve is what the long-lived side of an installation is started with.
type Serve struct {
	// Node names this process among those that share a [store]; empty without one.
	Node string
	// Cards shows questions at channels; nil shows none there.
	Cards Cards
	// Started is told once everything listens.
	Started func(endpoints.Serving)
	// Event is told of each event, secrets taken out; it must not block.
	Event func(plugin.Envelope)
	// Warn is told of what went wrong at the end and lost nothing.
	Warn func(text string)
}

// Cards shows persons the questions that wait for them, at the channels of plugins, and
// takes what they press there.
type Cards interface {
	hosting.Faces
	// Follow tells show what is to be shown, until ctx ends.
	Follow(ctx context.Context, channels func() []string, show func(plugin.Card))
}

// Attend lets an agent act once for a group, and tells what became of it. shared are the plugins
// that serve every session of this process.
type Attend func(ctx context.Context, v conversation.Request, shared *hosting.Shared) (conversation.Result, error)

// server is an installation that serves: messages, timers and whoever subscribes.
type server struct {
	*telling.Teller
	mail       *mailbox.Mailbox
	ticks      *ticking.Ticks
	dispatcher *dispatch.Dispatcher
	attend     Attend
	cards      Cards
	shared     *hosting.Shared
	plugged    chan struct{} // closed when shared is there
	endpoints  *endpoints.Endpoints
	posts      posts
	lost       Lost
	carried    carried
}

// Run runs channels, schedules and the event bus until ctx ends, and starts
// agents for what comes in (D-32 to D-36). At the end no new work is taken, what
// runs is told to end, and plugins are drained (D-24).
func Run(ctx context.Context, inst *installation.Installation, attend Attend, lost Lost, o Serve) (err error) {
	h, err := openServer(ctx, inst, o)
	if err != nil {
		return err
	}
	h.attend, h.lost, h.cards = attend, lost, o.Cards
	outcome := "failed"
	defer func() { err = errors.Join(err, h.leave(ctx, outcome, o.Warn)) }()
	// What serves goes on while the end is told of, and ends then.
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	end := func(why context.Context) func() {
		return func() { tellPlugins(h, bus.TopicPluginStopping); stop(context.Cause(why)) }
	}
	defer context.AfterFunc(ctx, end(ctx))()
	defer context.AfterFunc(h.Context(), end(h.Context()))()
	var working sync.WaitGroup
	defer working.Wait()
	defer stop(nil)
	if err := h.open(ctx, work, &working); err != nil {
		return err
	}
	if err := h.subscribe(work, &working, o.Event); err != nil {
		return err
	}
	scheduled := make(chan struct{})
	working.Go(func() {
		if err := h.ticks.Run(work, h.mail.Box.Node(), func() { close(scheduled) }); err != nil {
			stop(err)
		}
	})
	working.Go(func() { h.keepPosts(work) })
	working.Go(func() { h.loseSessions(work, &working) })
	working.Go(func() { h.takeLeasesBack(work) })
	working.Go(func() { h.mail.TellDropsEveryMinute(work) })
	if o.Cards != nil {
		working.Go(func() {
			o.Cards.Follow(work, func() []string { return h.shared.Stage.Channels(h.posts.here) }, func(c plugin.Card) { h.endpoints.Show(work, c) })
		})
	}
	working.Go(func() {
		if err := h.mail.Await(work); err != nil {
			stop(err)
		}
	})
	select {
	case <-scheduled: // who is told that it serves may ask for a tick at once
		if o.Started != nil {
			o.Started(h.endpoints.Serving())
		}
		tellPlugins(h, bus.TopicPluginReady)
	case <-work.Done():
	}
	<-work.Done()
	if cause := context.Cause(work); ctx.Err() == nil && !errors.Is(cause, operator.ErrStopped) {
		return mailbox.Cause(cause)
	}
	outcome = "stopped"
	return nil
}

// openServer opens the session that serving itself is: it has a chain, a control
// socket and a sandbox for plugins, no group and no agent.
func openServer(ctx context.Context, inst *installation.Installation, o Serve) (*server, error) {
	mail, err := mailbox.New(inst, o.Node)
	if err != nil {
		return nil, err
	}
	outside, err := endpoints.New(inst)
	if err != nil {
		return nil, err
	}
	if err := operator.SettleAll(ctx, inst, "", operator.TellKilled(o.Warn)); err != nil {
		return nil, err
	}
	h := &server{Teller: &telling.Teller{Inst: inst}, mail: mail, endpoints: outside, plugged: make(chan struct{})}
	h.ticks, h.carried.rest = ticking.New(h.Teller), map[string]rest{}
	if h.Session, err = hosting.Holder(ctx, inst, serveKind, "channels, schedules and events", h.reload); err != nil {
		return nil, err
	}
	h.dispatcher, err = dispatch.New(dispatch.Options{Table: mail.Table, Start: h.start, Dropped: h.dropped, Turn: mail.Turn, Over: mail.Over, Sessions: inst.Config.Serve.Sessions})
	if err == nil {
		err = mail.Open(ctx, h.Teller, h.dispatcher.Sessions, h.dispatcher.Waiting)
	}
	if err == nil {
		h.posts = posts{held: map[nacre.PluginName]bool{}, resting: map[nacre.PluginName]int{}}
		if n := mail.Box.Node(); n != nil {
			h.posts.node = n
		}
		h.Bus, err = bus.New(bus.Deps{Now: inst.Options.Now, NewID: installation.RandomHex, Redact: func(document []byte) ([]byte, []string) { return installation.RedactJSON(inst, document) }, Dropped: h.NotDelivered})
	}
	if err != nil {
		return nil, errors.Join(err, h.leave(ctx, "not opened", nil))
	}
	sockets, err := inst.Registry.Paths().EventsSockets()
	if err == nil {
		err = bus.Sweep(sockets)
	}
	if err != nil {
		return nil, errors.Join(err, h.leave(ctx, "not opened", nil))
	}
	return h, nil
}

// open lets the world in: plugins, who subscribes, who publishes, who connects.
func (h *server) open(ctx, work context.Context, working *sync.WaitGroup) (err error) {
	if err := h.endpoints.OpenEvents(ctx, work, h.Teller, working); err != nil {
		return err
	}
	if h.shared, err = hosting.StartShared(ctx, h.Inst, h.Session, nil, hosting.Channels{Publish: h.mail.Hear, Faces: h.cards, Serves: h.posts.serves}); err != nil {
		return err
	}
	close(h.plugged)
	return h.endpoints.OpenListeners(work, h.shared, working)
}

// leave ends it all, in the order in which it depends on itself. A plugin that had
// to be ended by force is recorded and told of, and is no failure (D-24).
func (h *server) leave(ctx context.Context, outcome string, warn func(string)) error {
	ctx = context.WithoutCancel(ctx)
	h.endpoints.Close()
	if h.shared != nil {
		if err := h.shared.Close(ctx); err != nil && warn != nil {
			warn(h.shared.Stage.Clean(err.Error()))
		}
	}
	if h.Bus != nil {
		h.Bus.Close()
	}
	h.mail.TellDrops(ctx)
	return errors.Join(h.mail.Close(), h.Close(ctx, outcome, true))
}

func (h *server) reload(ctx context.Context, name nacre.PluginName) error {
	select {
	case <-h.plugged:
		err := h.shared.Reload(ctx, name)
		if err == nil { // the one before ends, and this one has started
			tellPlugin(h, bus.TopicPluginStopping, name)
			tellPlugin(h, bus.TopicPluginReady, name)
		}
		return err
	default:
		return errors.New("its plugins have not started yet")
	}
}

// subscribe starts everybody inside who acts on events.
func (h *server) subscribe(work context.Context, working *sync.WaitGroup, tell func(plugin.Envelope)) error {
	if tell == nil {
		tell = func(plugin.Envelope) {}
	}
	deliver := func(e plugin.Envelope) { h.endpoints.Deliver(work, e) }
	for name, to := range map[string]func(plugin.Envelope){"the terminal": tell, "plugins": deliver} {
		s, err := h.Bus.Subscribe(bus.Filter{Name: name, Prefixes: []string{""}, AllGroups: true, Queue: dispatchQueue})
		if err != nil {
			return err
		}
		working.Go(func() {
			defer context.AfterFunc(work, s.Close)()
			for e := range s.Events() {
				to(e)
			}
		})
	}
	// What an agent is told is what was said, as it was said.
	events, err := h.Bus.Subscribe(bus.Filter{Name: "dispatch", Prefixes: []string{bus.TopicInbound, bus.TopicTaskTriggered}, AllGroups: true, Raw: true, Queue: dispatchQueue})
	if err != nil {
		return err
	}
	decided := make(chan plugin.Envelope)
	working.Go(func() { defer close(decided); h.mail.Feed(work, events.Events(), decided, h.dispatcher.Again) })
	working.Go(func() { h.dispatcher.Run(work, decided); events.Close() })
	return nil
}

// dropped is told of an event that could have started an agent and will not.
func (h *server) dropped(ctx context.Context, o dispatch.Order, reason string) {
	if h.mail.Dropped(ctx, o, reason) {
		h.ticks.Resolve(o, "dropped", errors.New(reason))
	}
}

// tellPlugins tells of each plugin that runs.
func tellPlugins(h *server, topic string) {
	select {
	case <-h.plugged:
	default:
		return // none has started
	}
	for _, name := range h.shared.Host.Health().Healthy {
		tellPlugin(h, topic, name)
	}
}

func tellPlugin(h *server, topic string, name nacre.PluginName) {
	_ = h.Publish(h.Context(), topic, "", map[string]any{"plugin": name}) // the host recorded it already
}

// start lets an agent act for an event, and tells what became of it.
func (h *server) start(ctx context.Context, o dispatch.Order) {
	v, ok := h.visitFor(ctx, o)
	if !ok {
		return
	}
	about := map[string]any{"session": v.ID, "for": o.Envelope.ID, "title": v.Title}
	if o.Message != nil {
		about["message"] = o.Message.About()
		defer h.shared.Wake(v.ID, o.Message.About())()
	}
	_ = h.Publish(ctx, bus.TopicAgentStarted, v.Group, about) // its own chain has the record
	done, err := h.attend(ctx, v, h.shared)
	if err != nil && ctx.Err() == nil && !errors.Is(err, operator.ErrStopped) && h.mail.Box.Retry(o.Envelope.ID) {
		h.Note(ctx, nacre.Record{Kind: nacre.KindEvent, Topic: o.Envelope.Topic, Outcome: "not begun, tried again", Reason: h.Clean(err.Error())})
		return
	}
	topic, outcome := bus.TopicAgentCompleted, "done"
	switch {
	case err != nil:
		topic, outcome = bus.TopicAgentError, "not run"
		detail, _ := json.Marshal(map[string]string{"session": string(v.ID), "error": h.Clean(err.Error())})
		h.Note(ctx, nacre.Record{Kind: nacre.KindEvent, Topic: o.Envelope.Topic, Outcome: nacre.OutcomeError, Reason: outcome, Detail: detail})
	case done.Idle:
		outcome = ticking.NothingToDo
	case !done.Done():
		topic, outcome = bus.TopicAgentError, done.Ended
	}
	about["outcome"], about["cost_usd"] = outcome, float64(done.Cost)/1e6
	_ = h.Publish(ctx, topic, v.Group, about)
	if err == nil && topic == bus.TopicAgentError {
		err = errors.New(outcome)
	}
	h.mail.DealtWith(ctx, o, err)
	h.ticks.Resolve(o, outcome, err)
}

// visitFor is the turn that an event asks for: whose words it is about to hear,
// and which conversation goes on.
func (h *server) visitFor(ctx context.Context, o dispatch.Order) (conversation.Request, bool) {
	v := conversation.Request{Group: o.Group, Key: o.Key, Idle: h.Inst.Config.Serve.Idle()}
	if o.Task != nil {
		return h.ticks.Visit(v, o)
	}
	kept, ok := h.mail.Box.Get(o.Envelope.ID)
	if !ok {
		return v, false
	}
	v.Begun = func() error { return h.mail.Begin(ctx, o) }
	v.ID, v.Ended = kept.Session, func() { h.mail.Forget(ctx, o.Envelope.ID) }
	groups := h.Inst.Config.ToolGroups()
	return v.Of(conversation.Heard{
		Inbound: o.Message, Operator: o.Operator, Again: kept.Begun > 0, Tools: h.shared.Stage.ChannelTools(o.Message.Channel),
		Public: func(tool nacre.ToolName) bool { return groups.Public(v.Group, tool) },
	}), true
}
