package assembly

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/bus"
	"github.com/nacre-dev/nacre/internal/dispatch"
	"github.com/nacre-dev/nacre/internal/inbox"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/routing"
	"github.com/nacre-dev/nacre/internal/schedule"
	"github.com/nacre-dev/nacre/internal/session"
	"github.com/nacre-dev/nacre/plugin"
)

const (
	// sourceCore is who the core is in events and records.
	sourceCore = "core"
	// serveKind is the kind of the session that `nacre serve` itself is.
	serveKind = "serve"
	// dispatchQueue is how many events wait to be decided on.
	dispatchQueue = 1024
	// begunBefore is what an agent is told that carries on what was interrupted.
	begunBefore = "It was begun before and interrupted: look what is done already before you do it again."
	// defaultIdle is how long a conversation may rest and still go on (D-36).
	defaultIdle = 15 * time.Minute
)

// ServeConfig bounds what `nacre serve` does for each group.
type ServeConfig struct {
	// Sessions at once for each group; 0 means 3 (D-33).
	Sessions int `toml:"sessions"`
	// IdleSeconds is how long a conversation may rest and still go on; 0 means 900 (D-36).
	IdleSeconds int `toml:"idle_seconds"`
}

func (c ServeConfig) check() error {
	if c.Sessions < 0 || c.Sessions > 64 {
		return fmt.Errorf("[serve] sessions = %d: use 1 to 64", c.Sessions)
	}
	if c.IdleSeconds < 0 || c.IdleSeconds > 30*86400 {
		return fmt.Errorf("[serve] idle_seconds = %d: use 1 to %d", c.IdleSeconds, 30*86400)
	}
	return nil
}

func (c ServeConfig) idle() time.Duration {
	if c.IdleSeconds == 0 {
		return defaultIdle
	}
	return time.Duration(c.IdleSeconds) * time.Second
}

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

// Serve is what the long-lived side of an installation is started with.
type Serve struct {
	// Started is told once everything listens.
	Started func(Serving)
	// Event is told of each event, secrets taken out; it must not block.
	Event func(plugin.Envelope)
	// Warn is told of what went wrong at the end and lost nothing.
	Warn func(text string)
}

// house is an installation that serves: messages, timers and whoever subscribes.
type house struct {
	*session.Session
	runtime    *Runtime
	bus        *bus.Bus
	table      *routing.Table
	dispatcher *dispatch.Dispatcher
	shared     *sharedPlugins
	plugged    chan struct{} // closed when shared is there
	around     around
	// inbox keeps the messages that were taken until they were dealt with.
	inbox *inbox.Box

	mu sync.Mutex
	// ticks are those that wait for what becomes of them, by session.
	ticks map[nacre.SessionID]*waiting
}

// waiting is a tick of a schedule whose agent has not ended yet.
type waiting struct {
	schedule.Claim
	done chan ticked
	// begun is closed when its agent is about to be started: done is told then.
	begun chan struct{}
}

// ticked is what became of a tick.
type ticked struct {
	outcome string
	err     error
}

// Serve runs channels, schedules and the event bus until ctx ends, and starts
// agents for what comes in (D-32 to D-36). At the end no new work is taken, what
// runs is told to end, and plugins are drained (D-24).
func (r *Runtime) Serve(ctx context.Context, o Serve) (err error) {
	h, err := r.openHouse(ctx)
	if err != nil {
		return err
	}
	outcome := "failed"
	defer func() { err = errors.Join(err, h.leave(ctx, outcome, o.Warn)) }()
	work, stop := context.WithCancelCause(ctx)
	defer context.AfterFunc(h.Context(), func() { stop(context.Cause(h.Context())) })()
	var working sync.WaitGroup
	defer working.Wait()
	defer stop(nil)
	if err := h.open(ctx, work, &working); err != nil {
		return err
	}
	if err := h.subscribe(work, &working, o.Event); err != nil {
		return err
	}
	working.Go(func() {
		if err := r.runSchedules(work, scheduleHooks{h.tick, h.created, r.tickEnd, h.left}); err != nil {
			stop(err)
		}
	})
	if o.Started != nil {
		o.Started(h.serving())
	}
	<-work.Done()
	if cause := context.Cause(work); ctx.Err() == nil && !errors.Is(cause, session.ErrStopped) {
		return cause
	}
	outcome = "stopped"
	return nil
}

// openHouse opens the session that serving itself is: it has a chain, a control
// socket and a sandbox for plugins, no group and no agent.
func (r *Runtime) openHouse(ctx context.Context) (*house, error) {
	table, err := r.config.routes()
	if err != nil {
		return nil, &ConfigError{err}
	}
	if err := r.checkPublishers(); err != nil {
		return nil, err
	}
	if err := r.settleAll(ctx, ""); err != nil {
		return nil, err
	}
	h := &house{runtime: r, table: table, plugged: make(chan struct{}), ticks: map[nacre.SessionID]*waiting{}}
	if h.Session, err = r.holder(ctx, serveKind, "channels, schedules and events", h.reload); err != nil {
		return nil, err
	}
	h.dispatcher, err = dispatch.New(dispatch.Options{Table: table, Start: h.start, Dropped: h.dropped, Sessions: r.config.Serve.Sessions})
	if err == nil {
		h.inbox, err = inbox.Open(r.registry.Paths().Messages(), string(h.ID()), h.dispatcher.Sessions+h.dispatcher.Waiting)
	}
	if err == nil {
		h.bus, err = bus.New(bus.Deps{Now: r.options.Now, NewID: randomHex, Redact: r.redactJSON, Dropped: h.notDelivered})
	}
	if err != nil {
		return nil, errors.Join(err, h.leave(ctx, "not opened", nil))
	}
	sockets, err := r.registry.Paths().EventsSockets()
	if err == nil {
		err = bus.Sweep(sockets)
	}
	if err != nil {
		return nil, errors.Join(err, h.leave(ctx, "not opened", nil))
	}
	return h, nil
}

// open lets the world in: plugins, who subscribes, who publishes, who connects.
func (h *house) open(ctx, work context.Context, working *sync.WaitGroup) (err error) {
	if err := h.openEvents(ctx, work, working); err != nil {
		return err
	}
	if h.shared, err = h.runtime.startShared(ctx, h.Session, nil, h.hear); err != nil {
		return err
	}
	close(h.plugged)
	for _, name := range h.shared.Host.Health().Healthy {
		h.tellPlugin(ctx, bus.TopicPluginReady, name)
	}
	return h.openListeners(work, working)
}

// leave ends it all, in the order in which it depends on itself. A plugin that had
// to be ended by force is recorded and told of, and is no failure (D-24).
func (h *house) leave(ctx context.Context, outcome string, warn func(string)) error {
	ctx = context.WithoutCancel(ctx)
	h.around.close()
	if h.shared != nil {
		for _, name := range h.shared.Host.Health().Healthy {
			h.tellPlugin(ctx, bus.TopicPluginStopping, name)
		}
		if err := h.shared.Close(ctx); err != nil && warn != nil {
			warn(h.shared.stage.clean(err.Error()))
		}
	}
	if h.bus != nil {
		h.bus.Close()
	}
	var err error
	if h.inbox != nil {
		err = h.inbox.Close()
	}
	return errors.Join(err, h.Close(ctx, outcome, true))
}

func (h *house) reload(ctx context.Context, name nacre.PluginName) error {
	select {
	case <-h.plugged:
		return h.shared.Reload(ctx, name)
	default:
		return errors.New("its plugins have not started yet")
	}
}

// subscribe starts everybody inside who acts on events.
func (h *house) subscribe(work context.Context, working *sync.WaitGroup, tell func(plugin.Envelope)) error {
	if tell == nil {
		tell = func(plugin.Envelope) {}
	}
	deliver := func(e plugin.Envelope) { h.shared.deliver(work, e) }
	for name, to := range map[string]func(plugin.Envelope){"the terminal": tell, "plugins": deliver} {
		s, err := h.bus.Subscribe(bus.Filter{Name: name, Prefixes: []string{""}, AllGroups: true, Queue: dispatchQueue})
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
	events, err := h.bus.Subscribe(bus.Filter{Name: "dispatch", Prefixes: []string{bus.TopicInbound, bus.TopicTaskTriggered}, AllGroups: true, Raw: true, Queue: dispatchQueue})
	if err != nil {
		return err
	}
	decided := make(chan plugin.Envelope)
	working.Go(func() { defer close(decided); h.feed(work, events.Events(), decided) })
	working.Go(func() { h.dispatcher.Run(work, decided); events.Close() })
	return nil
}

// publish puts what the core has to say on the bus. What nobody can be told is
// recorded all the same.
func (h *house) publish(ctx context.Context, topic string, group nacre.Group, payload map[string]any) error {
	raw, err := json.Marshal(payload)
	if err != nil {
		return err
	}
	_, err = h.bus.Publish(context.WithoutCancel(ctx), bus.Event{Topic: topic, Source: sourceCore, Group: group, Payload: raw})
	return err
}

// hear takes what a plugin says.
func (h *house) hear(ctx context.Context, from pluginhost.Scope, topic string, payload json.RawMessage) error {
	if topic == bus.TopicInbound {
		return h.inbound(ctx, from.Plugin, payload)
	}
	_, err := h.bus.Publish(ctx, bus.Event{Topic: topic, Source: string(from.Plugin), Group: from.Group, Payload: payload})
	return err
}

// dropped records an event that could have started an agent and will not.
func (h *house) dropped(ctx context.Context, o dispatch.Order, reason string) {
	if h.waits(ctx, o, reason) {
		return
	}
	detail, err := json.Marshal(map[string]string{"event": o.Envelope.ID, "from": o.Envelope.Source, "detail": o.Detail, "for": string(o.Group)})
	if err == nil {
		h.note(ctx, nacre.Record{Kind: nacre.KindEvent, Topic: o.Envelope.Topic, Outcome: "dropped", Reason: reason, Detail: detail})
	}
	h.resolve(o, ticked{outcome: "dropped", err: errors.New(reason)})
}

// notDelivered records events that somebody who subscribes or publishes lost.
func (h *house) notDelivered(d bus.Drop) {
	detail, err := json.Marshal(map[string]any{"who": d.Who, "count": d.Count, "detail": d.Detail, "for": d.Group})
	if err == nil {
		h.note(h.Context(), nacre.Record{Kind: nacre.KindEvent, Topic: d.Topic, Outcome: "not delivered", Reason: string(d.Reason), Detail: detail})
	}
}

// note records what is no effect. The recorder itself stops the session if it fails.
func (h *house) note(ctx context.Context, rec nacre.Record) {
	rec.Source = sourceCore
	_ = h.Recorder.Append(context.WithoutCancel(ctx), rec)
}

func (h *house) tellPlugin(ctx context.Context, topic string, name nacre.PluginName) {
	_ = h.publish(ctx, topic, "", map[string]any{"plugin": name}) // the host recorded it already
}

// start lets an agent act for an event, and tells what became of it.
func (h *house) start(ctx context.Context, o dispatch.Order) {
	v, ok := h.visitFor(ctx, o)
	if !ok {
		return
	}
	about := map[string]any{"session": v.id, "for": o.Envelope.ID, "title": v.title}
	_ = h.publish(ctx, bus.TopicAgentStarted, v.group, about) // its own chain has the record
	done, err := h.runtime.visit(ctx, v)
	topic, outcome := bus.TopicAgentCompleted, "done"
	switch {
	case err != nil:
		topic, outcome = bus.TopicAgentError, "not run"
		detail, _ := json.Marshal(map[string]string{"session": string(v.id), "error": h.clean(err.Error())})
		h.note(ctx, nacre.Record{Kind: nacre.KindEvent, Topic: o.Envelope.Topic, Outcome: nacre.OutcomeError, Reason: outcome, Detail: detail})
	case done.Idle:
		outcome = string(schedule.NothingToDo)
	case !done.Done():
		topic, outcome = bus.TopicAgentError, done.Ended
	}
	about["outcome"], about["cost_usd"] = outcome, float64(done.Cost)/1e6
	_ = h.publish(ctx, topic, v.group, about)
	if err == nil && topic == bus.TopicAgentError {
		err = errors.New(outcome)
	}
	h.dealtWith(ctx, o, err)
	h.resolve(o, ticked{outcome: outcome, err: err})
}

// visitFor is the turn that an event asks for: whose words it is about to hear,
// and which conversation goes on.
func (h *house) visitFor(ctx context.Context, o dispatch.Order) (visit, bool) {
	v := visit{group: o.Group, key: o.Key, idle: h.runtime.config.Serve.idle(), shared: h.shared}
	if o.Task != nil {
		return h.visitForTick(v, o)
	}
	kept, ok := h.begin(ctx, o)
	if !ok {
		return v, false
	}
	v.id, v.ended = kept.Session, func() { h.forget(ctx, o.Envelope.ID) }
	return h.visitForMessage(v, o.Message, o.Operator, kept.Begun > 1), true
}

// visitForTick is the turn that a timer asks for.
func (h *house) visitForTick(v visit, o dispatch.Order) (visit, bool) {
	w := h.waitingFor(o)
	if w == nil {
		return v, false // whoever waited has gone, and the tick is claimed again
	}
	close(w.begun)
	v.id, v.kind, v.title, v.gate = w.Session, "schedule", "schedule "+w.Task.ID, w.Task.Gate
	v.from, v.said = w.Task.Source(), w.Task.Prompt
	again := ""
	if w.Begun > 0 {
		again = " " + begunBefore
	}
	v.frame = fmt.Sprintf("The schedule %s is due, at %s. Nobody is there to talk to.%s What it asks for:", w.Task.ID, w.At.UTC().Format(time.RFC3339), again)
	if w.Task.Session == schedule.Resume { // however long ago the run before was
		v.key, v.idle = "schedule "+w.Task.ID, 0
	}
	return v, true
}

// tick lets an agent do what a schedule asks for, and waits for it.
func (h *house) tick(ctx context.Context, c schedule.Claim) (string, error) {
	payload, err := c.Task.Payload()
	if err != nil {
		return "", err
	}
	var fields map[string]any
	if err := json.Unmarshal(payload, &fields); err != nil {
		return "", err
	}
	fields["session"] = c.Session
	w := &waiting{c, make(chan ticked, 1), make(chan struct{})}
	h.mu.Lock()
	h.ticks[c.Session] = w
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.ticks, c.Session)
	}()
	if err := h.publish(ctx, bus.TopicTaskTriggered, c.Task.Group, fields); err != nil {
		return "", err
	}
	select {
	case t := <-w.done:
		return t.outcome, t.err
	case <-ctx.Done():
	}
	select {
	case <-w.begun: // the agent was told to end, too: nobody carries it on before it has
		t := <-w.done
		return t.outcome, t.err
	case t := <-w.done:
		return t.outcome, t.err
	case <-time.After(driversLimit):
		return "", ctx.Err()
	}
}

// created tells of a new schedule.
func (h *house) created(ctx context.Context, s schedule.Schedule) {
	payload, err := s.Payload()
	if err == nil {
		_, err = h.bus.Publish(context.WithoutCancel(ctx), bus.Event{Topic: bus.TopicTaskCreated, Source: sourceCore, Group: s.Group, Payload: payload})
	}
	if err != nil {
		h.note(ctx, nacre.Record{Kind: nacre.KindEvent, Topic: bus.TopicTaskCreated, Outcome: "not delivered", Reason: h.clean(err.Error())})
	}
}

// left records a tick whose process died, and whether it is carried on.
func (h *house) left(ctx context.Context, t schedule.Tick) {
	outcome := "interrupted"
	switch t.State {
	case schedule.Waiting:
		outcome = "interrupted, carried on"
	case schedule.Done, schedule.Failed, schedule.NothingToDo:
		outcome = "ended, written back"
	}
	h.note(ctx, nacre.Record{Kind: nacre.KindEvent, Topic: bus.TopicTaskTriggered, Outcome: outcome, Reason: "schedule " + t.Schedule + ", session " + string(t.Session)})
}

// waitingFor is the tick that an event is of.
func (h *house) waitingFor(o dispatch.Order) *waiting {
	var payload struct {
		Session nacre.SessionID `json:"session"`
	}
	if o.Task == nil || json.Unmarshal(o.Envelope.Payload, &payload) != nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ticks[payload.Session]
}

// resolve tells the schedule that waits for this event, if one does.
func (h *house) resolve(o dispatch.Order, t ticked) {
	if w := h.waitingFor(o); w != nil {
		select {
		case w.done <- t:
		default: // it was told
		}
	}
}

// serving says what there is.
func (h *house) serving() Serving {
	health := h.shared.Host.Health()
	s := Serving{
		Session: h.ID(), Plugins: health.Healthy, Failed: map[nacre.PluginName]string{}, Listening: map[nacre.PluginName]string{},
		Events: h.around.events, Publishers: h.around.publishers, Elsewhere: h.around.elsewhere, Routes: len(h.runtime.config.Routes),
	}
	for _, f := range health.Failed {
		s.Failed[f.Name] = f.Category
	}
	for name, l := range h.around.listeners {
		s.Listening[name] = l.Addr().String()
	}
	return s
}

func (h *house) clean(text string) string {
	text, _ = h.runtime.redact.String(text)
	return text
}
