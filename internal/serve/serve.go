// Package serve is an installation that serves: messages and schedules wake agents,
// and outsiders hear of it. Each message is written down before it is taken.
package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/access"
	"github.com/nacre-dev/nacre/internal/bus"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/conversation"
	"github.com/nacre-dev/nacre/internal/dispatch"
	"github.com/nacre-dev/nacre/internal/hosting"
	"github.com/nacre-dev/nacre/internal/inbox"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/operator"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/routing"
	"github.com/nacre-dev/nacre/internal/schedule"
	"github.com/nacre-dev/nacre/internal/scheduling"
	"github.com/nacre-dev/nacre/internal/session"
	"github.com/nacre-dev/nacre/plugin"
)

const (
	// serveKind is the kind of the session that `nacre serve` itself is.
	serveKind = "serve"
)

const (
	// dispatchQueue is how many events wait to be decided on.
	dispatchQueue = 1024
)

const (
	// begunBefore is what an agent is told that carries on what was interrupted.
	begunBefore = "It was begun before and interrupted: look what is done already before you do it again."
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

// Serve is what the long-lived side of an installation is started with.
type Serve struct {
	// Node names this process among those that share a [store]; empty without one.
	Node string
	// Cards shows questions at channels; nil shows none there.
	Cards Cards
	// Started is told once everything listens.
	Started func(Serving)
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

// Attend lets an agent act once for a group, and tells what became of it.
type Attend func(context.Context, conversation.Request) (conversation.Result, error)

// server is an installation that serves: messages, timers and whoever subscribes.
type server struct {
	teller
	mailbox
	ticking
	table      *routing.Table
	dispatcher *dispatch.Dispatcher
	attend     Attend
	cards      Cards
	shared     *hosting.Shared
	plugged    chan struct{} // closed when shared is there
	endpoints  endpoints
	posts      posts
	drops      dispatch.Tally
}

// teller records what happens while nacre serves, and tells it on the bus.
type teller struct {
	*session.Session
	runtime *installation.Installation
	bus     *bus.Bus
}

// mailbox keeps the messages that were taken until they were dealt with, and knows whose turn
// it is.
type mailbox struct {
	inbox *inbox.Box
	turns *inbox.Turns
}

// ticking are the ticks that wait for what becomes of them, by session.
type ticking struct {
	mu    sync.Mutex
	ticks map[nacre.SessionID]*pendingTick
}

// pendingTick is a tick of a schedule whose agent has not ended yet.
type pendingTick struct {
	schedule.Claim
	done chan tickResult
	// begun is closed when its agent is about to be started: done is told then.
	begun chan struct{}
}

// tickResult is what became of a tick.
type tickResult struct {
	outcome string
	err     error
}

// Run runs channels, schedules and the event bus until ctx ends, and starts
// agents for what comes in (D-32 to D-36). At the end no new work is taken, what
// runs is told to end, and plugins are drained (D-24).
func Run(ctx context.Context, inst *installation.Installation, attend Attend, o Serve) (err error) {
	h, err := openServer(ctx, inst, o)
	if err != nil {
		return err
	}
	h.attend, h.cards = attend, o.Cards
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
		if err := scheduling.RunSchedules(work, inst, h.inbox.Node(), scheduling.ScheduleHooks{Serving: func() { close(scheduled) }, Start: h.tick, Created: h.created, Ended: func(t schedule.Tick) (schedule.State, string) { return scheduling.TickEnd(inst, t) }, Left: h.left}); err != nil {
			stop(err)
		}
	})
	working.Go(func() { h.keepPosts(work) })
	working.Go(func() { h.tellDropsEveryMinute(work) })
	if o.Cards != nil {
		working.Go(func() {
			o.Cards.Follow(work, func() []string { return h.shared.Stage.Channels(h.posts.here) }, func(c plugin.Card) { showCard(work, h, c) })
		})
	}
	working.Go(func() {
		select {
		case <-h.inbox.Over():
			stop(errOver)
		case <-work.Done():
		}
	})
	select {
	case <-scheduled: // who is told that it serves may ask for a tick at once
		if o.Started != nil {
			o.Started(h.serving())
		}
		tellPlugins(h, bus.TopicPluginReady)
	case <-work.Done():
	}
	<-work.Done()
	if cause := context.Cause(work); ctx.Err() == nil && !errors.Is(cause, session.ErrStopped) {
		return cause
	}
	outcome = "stopped"
	return nil
}

// openServer opens the session that serving itself is: it has a chain, a control
// socket and a sandbox for plugins, no group and no agent.
func openServer(ctx context.Context, inst *installation.Installation, o Serve) (*server, error) {
	table, err := inst.Config.RoutingTable()
	if err != nil {
		return nil, &config.Error{Err: err}
	}
	if (o.Node == "") != (inst.Config.Store.URLEnv == "") {
		return nil, &config.Error{Err: errNode}
	}
	if err := access.CheckPublishers(inst); err != nil {
		return nil, err
	}
	if err := operator.SettleAll(ctx, inst, "", operator.TellKilled(o.Warn)); err != nil {
		return nil, err
	}
	h := &server{teller: teller{runtime: inst}, ticking: ticking{ticks: map[nacre.SessionID]*pendingTick{}}, table: table, plugged: make(chan struct{})}
	if h.Session, err = hosting.Holder(ctx, inst, serveKind, "channels, schedules and events", h.reload); err != nil {
		return nil, err
	}
	h.dispatcher, err = dispatch.New(dispatch.Options{Table: table, Start: h.start, Dropped: h.dropped, Turn: h.turn, Over: h.over, Sessions: inst.Config.Serve.Sessions})
	if err == nil {
		h.inbox, err = openInbox(ctx, h, o.Node)
	}
	if err == nil {
		h.turns = h.inbox.Turns(h.dispatcher.Sessions)
		h.posts = posts{held: map[nacre.PluginName]bool{}, resting: map[nacre.PluginName]int{}}
		if n := h.inbox.Node(); n != nil {
			h.posts.node = n
		}
		h.bus, err = bus.New(bus.Deps{Now: inst.Options.Now, NewID: installation.RandomHex, Redact: func(document []byte) ([]byte, []string) { return installation.RedactJSON(inst, document) }, Dropped: h.notDelivered})
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
	if err := h.openEvents(ctx, work, working); err != nil {
		return err
	}
	if h.shared, err = hosting.StartShared(ctx, h.runtime, h.Session, nil, hosting.Channels{Publish: h.hear, Faces: h.cards, Serves: h.posts.serves}); err != nil {
		return err
	}
	close(h.plugged)
	return h.openListeners(work, working)
}

// leave ends it all, in the order in which it depends on itself. A plugin that had
// to be ended by force is recorded and told of, and is no failure (D-24).
func (h *server) leave(ctx context.Context, outcome string, warn func(string)) error {
	ctx = context.WithoutCancel(ctx)
	h.endpoints.close()
	if h.shared != nil {
		if err := h.shared.Close(ctx); err != nil && warn != nil {
			warn(h.shared.Stage.Clean(err.Error()))
		}
	}
	if h.bus != nil {
		h.bus.Close()
	}
	h.tellDrops(ctx)
	var err error
	if h.inbox != nil {
		err = h.inbox.Close()
	}
	return errors.Join(err, h.Close(ctx, outcome, true))
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
	deliver := func(e plugin.Envelope) { deliver(work, h.shared, e) }
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
func (q *teller) publish(ctx context.Context, topic string, group nacre.Group, payload map[string]any) error {
	raw, err := json.Marshal(payload)
	if err != nil {
		return err
	}
	_, err = q.bus.Publish(context.WithoutCancel(ctx), bus.Event{Topic: topic, Source: installation.SourceCore, Group: group, Payload: raw})
	return err
}

// hear takes what a plugin says.
func (h *server) hear(ctx context.Context, from pluginhost.Scope, topic string, payload json.RawMessage) error {
	if topic == bus.TopicInbound {
		return h.inbound(ctx, from.Plugin, payload)
	}
	_, err := h.bus.Publish(ctx, bus.Event{Topic: topic, Source: string(from.Plugin), Group: from.Group, Payload: payload})
	return err
}

// dropped records an event that could have started an agent and will not.
func (h *server) dropped(ctx context.Context, o dispatch.Order, reason string) {
	taken := h.inbox.Has(o.Envelope.ID)
	if h.waits(ctx, o, reason) {
		return
	}
	if taken {
		notBegun(ctx, h, o.Envelope, "it was dropped: "+reason)
	}
	detail, err := json.Marshal(map[string]string{"event": o.Envelope.ID, "from": o.Envelope.Source, "detail": o.Detail, "for": string(o.Group)})
	if err == nil && h.drops.Each(h.runtime.Options.Now(), reason) {
		h.note(ctx, nacre.Record{Kind: nacre.KindEvent, Topic: o.Envelope.Topic, Outcome: "dropped", Reason: reason, Detail: detail})
	}
	h.resolve(o, tickResult{outcome: "dropped", err: errors.New(reason)})
}

// tellDrops records how many more were dropped than have a record each.
func (h *server) tellDrops(ctx context.Context) {
	if counts := h.drops.Take(); counts != nil {
		detail, _ := json.Marshal(map[string]any{"count": counts}) // words and numbers
		h.note(ctx, nacre.Record{Kind: nacre.KindEvent, Topic: bus.TopicInbound, Outcome: "dropped", Reason: "too many for a record each", Detail: detail})
	}
}

// tellDropsEveryMinute does so until ctx ends.
func (h *server) tellDropsEveryMinute(ctx context.Context) {
	every := time.NewTicker(time.Minute)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			h.tellDrops(ctx)
		}
	}
}

// notDelivered records events that somebody who subscribes or publishes lost.
func (q *teller) notDelivered(d bus.Drop) {
	detail, err := json.Marshal(map[string]any{"who": d.Who, "count": d.Count, "detail": d.Detail, "for": d.Group})
	if err == nil {
		q.note(q.Context(), nacre.Record{Kind: nacre.KindEvent, Topic: d.Topic, Outcome: "not delivered", Reason: string(d.Reason), Detail: detail})
	}
}

// note records what is no effect. The recorder itself stops the session if it fails.
func (q *teller) note(ctx context.Context, rec nacre.Record) {
	rec.Source = installation.SourceCore
	_ = q.Recorder.Append(context.WithoutCancel(ctx), rec)
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
	_ = h.publish(h.Context(), topic, "", map[string]any{"plugin": name}) // the host recorded it already
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
	_ = h.publish(ctx, bus.TopicAgentStarted, v.Group, about) // its own chain has the record
	done, err := h.attend(ctx, v)
	if err != nil && ctx.Err() == nil && !errors.Is(err, session.ErrStopped) && h.inbox.Retry(o.Envelope.ID) {
		h.note(ctx, nacre.Record{Kind: nacre.KindEvent, Topic: o.Envelope.Topic, Outcome: "not begun, tried again", Reason: h.clean(err.Error())})
		return
	}
	topic, outcome := bus.TopicAgentCompleted, "done"
	switch {
	case err != nil:
		topic, outcome = bus.TopicAgentError, "not run"
		detail, _ := json.Marshal(map[string]string{"session": string(v.ID), "error": h.clean(err.Error())})
		h.note(ctx, nacre.Record{Kind: nacre.KindEvent, Topic: o.Envelope.Topic, Outcome: nacre.OutcomeError, Reason: outcome, Detail: detail})
	case done.Idle:
		outcome = string(schedule.NothingToDo)
	case !done.Done():
		topic, outcome = bus.TopicAgentError, done.Ended
	}
	about["outcome"], about["cost_usd"] = outcome, float64(done.Cost)/1e6
	_ = h.publish(ctx, topic, v.Group, about)
	if err == nil && topic == bus.TopicAgentError {
		err = errors.New(outcome)
	}
	h.dealtWith(ctx, o, err)
	h.resolve(o, tickResult{outcome: outcome, err: err})
}

// visitFor is the turn that an event asks for: whose words it is about to hear,
// and which conversation goes on.
func (h *server) visitFor(ctx context.Context, o dispatch.Order) (conversation.Request, bool) {
	v := conversation.Request{Group: o.Group, Key: o.Key, Idle: h.runtime.Config.Serve.Idle(), Shared: h.shared}
	if o.Task != nil {
		return h.visitForTick(v, o)
	}
	kept, ok := h.inbox.Get(o.Envelope.ID)
	if !ok {
		return v, false
	}
	v.Begun = func() error { return h.begin(ctx, o) }
	v.ID, v.Ended = kept.Session, func() { h.forget(ctx, o.Envelope.ID) }
	return h.visitForMessage(v, o.Message, o.Operator, kept.Begun > 0), true
}

// visitForTick is the turn that a timer asks for.
func (k *ticking) visitForTick(v conversation.Request, o dispatch.Order) (conversation.Request, bool) {
	w := k.waitingFor(o)
	if w == nil {
		return v, false // whoever waited has gone, and the tick is claimed again
	}
	close(w.begun)
	v.ID, v.Kind, v.Title, v.Gate = w.Session, "schedule", "schedule "+w.Task.ID, w.Task.Gate
	v.From, v.Said = w.Task.Source(), w.Task.Prompt
	again := ""
	if w.Begun > 0 {
		again = " " + begunBefore
	}
	v.Frame = fmt.Sprintf("The schedule %s is due, at %s. Nobody is there to talk to.%s What it asks for:", w.Task.ID, w.At.UTC().Format(time.RFC3339), again)
	if w.Task.Session == schedule.Resume { // however long ago the run before was
		v.Key, v.Idle = "schedule "+w.Task.ID, 0
	}
	return v, true
}

// tick lets an agent do what a schedule asks for, and waits for it.
func (h *server) tick(ctx context.Context, c schedule.Claim) (string, error) {
	payload, err := c.Task.Payload()
	if err != nil {
		return "", err
	}
	var fields map[string]any
	if err := json.Unmarshal(payload, &fields); err != nil {
		return "", err
	}
	fields["session"] = c.Session
	w := &pendingTick{c, make(chan tickResult, 1), make(chan struct{})}
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
	case <-time.After(hosting.DriversLimit):
		return "", ctx.Err()
	}
}

// created tells of a new schedule.
func (q *teller) created(ctx context.Context, s schedule.Schedule) {
	payload, err := s.Payload()
	if err == nil {
		_, err = q.bus.Publish(context.WithoutCancel(ctx), bus.Event{Topic: bus.TopicTaskCreated, Source: installation.SourceCore, Group: s.Group, Payload: payload})
	}
	if err != nil {
		q.note(ctx, nacre.Record{Kind: nacre.KindEvent, Topic: bus.TopicTaskCreated, Outcome: "not delivered", Reason: q.clean(err.Error())})
	}
}

// left records a tick whose process died, and whether it is carried on.
func (q *teller) left(ctx context.Context, t schedule.Tick) {
	outcome := "interrupted"
	switch t.State {
	case schedule.Waiting:
		outcome = "interrupted, carried on"
	case schedule.Done, schedule.Failed, schedule.NothingToDo:
		outcome = "ended, written back"
	default: // nobody carries it on
	}
	q.note(ctx, nacre.Record{Kind: nacre.KindEvent, Topic: bus.TopicTaskTriggered, Outcome: outcome, Reason: "schedule " + t.Schedule + ", session " + string(t.Session)})
}

// waitingFor is the tick that an event is of.
func (k *ticking) waitingFor(o dispatch.Order) *pendingTick {
	var payload struct {
		Session nacre.SessionID `json:"session"`
	}
	if o.Task == nil || json.Unmarshal(o.Envelope.Payload, &payload) != nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ticks[payload.Session]
}

// resolve tells the schedule that waits for this event, if one does.
func (k *ticking) resolve(o dispatch.Order, t tickResult) {
	if w := k.waitingFor(o); w != nil {
		select {
		case w.done <- t:
		default: // it was told
		}
	}
}

// serving says what there is.
func (h *server) serving() Serving {
	health := h.shared.Host.Health()
	s := Serving{
		Session: h.ID(), Plugins: health.Healthy, Failed: map[nacre.PluginName]string{}, Listening: map[nacre.PluginName]string{},
		Events: h.endpoints.events, Publishers: h.endpoints.publishers, Elsewhere: h.endpoints.elsewhere, Routes: len(h.runtime.Config.Routes),
	}
	for _, f := range health.Failed {
		s.Failed[f.Name] = f.Category
	}
	for _, f := range access.Colliding(h.runtime) { // its sessions leave them out, too
		s.Failed[f.Name] = plugin.CategoryConfig
	}
	for name, l := range h.endpoints.listeners {
		s.Listening[name] = l.Addr().String()
	}
	return s
}

func (q *teller) clean(text string) string {
	text, _ = q.runtime.Redact.String(text)
	return text
}
