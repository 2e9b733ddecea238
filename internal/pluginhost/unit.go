package pluginhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
)

// healthyFor is how long a process must live for back-off to start again.
const healthyFor = time.Minute

// unit is one plugin: its process, and what replaces it after a crash.
type unit struct {
	guest
	config json.RawMessage

	mu       sync.Mutex
	conn     *conn // nil while there is none
	failed   error // why there will be none; a *Problem
	shown    Skill // as its file is now
	late     int   // answers in a row that came too late
	draining bool
	inFlight int
	idle     chan struct{} // closed when draining and nothing is in flight

	stop       context.CancelFunc // ends supervision; set by start
	supervised sync.WaitGroup
}

// guest is a plugin as it was found, with what the host lets it have and hears of it.
type guest struct {
	found Found
	opts  *Options
}

func newUnit(f Found, o *Options) *unit {
	return &unit{guest: guest{found: f, opts: o}, idle: make(chan struct{}), shown: f.Skill, stop: func() {}}
}

// problem is nil for a plugin that has not failed.
func (u *unit) problem() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.failed
}

// category is "" for a plugin that has not failed.
func (u *unit) category() string {
	if p := u.problem(); p != nil {
		return categoryOf(p)
	}
	return ""
}

func (u *unit) skill() Skill {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.shown
}

// A Problem is why a plugin does not work. The agent is told its category and
// no more (D-23).
type Problem struct {
	Category string
	Err      error
}

func (p *Problem) Error() string { return p.Category + ": " + p.Err.Error() }

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Err }

func configError(err error) error { return &Problem{plugin.CategoryConfig, err} }

// open checks the plugin, starts its process and leaves a supervisor behind.
// ctx is for the start, life for the process.
func (u *unit) open(ctx, life context.Context) error {
	if err := u.prepare(); err != nil {
		return err
	}
	c, err := u.launch(ctx, life)
	if err != nil {
		return err
	}
	run, stop := context.WithCancel(life)
	u.stop = stop
	u.record(ctx, "plugin.ready", "ready", nil)
	u.supervised.Go(func() { u.supervise(run, life, c) })
	return nil
}

// prepare finds every reason not to start the process at all.
func (u *unit) prepare() error {
	if u.found.Err != nil {
		return configError(u.found.Err)
	}
	if u.found.Hash == "" {
		return configError(errors.New("its files were not read, and nobody knows what would run"))
	}
	m := u.found.Manifest
	ok, err := plugin.Compatible(m.AppCompat, u.opts.Version)
	if err != nil {
		return configError(err)
	}
	if !ok {
		return configError(fmt.Errorf("app_compat %s excludes this version, %s", m.AppCompat, u.opts.Version))
	}
	for _, t := range m.Provides.Tools {
		if u.opts.Check == nil {
			break
		}
		if err := u.opts.Check(t.Capability(u.found.Name, u.found.Hash)); err != nil {
			return configError(fmt.Errorf("tool %s: %w", t.Name, err))
		}
	}
	u.config, err = checkedConfig(m.ConfigSchema, u.opts.Config[u.found.Name])
	if err != nil {
		return configError(err)
	}
	return nil
}

// launch starts a process and initialises it; on failure nothing is left of it.
func (u *unit) launch(ctx, life context.Context) (*conn, error) {
	dataDir := filepath.Join(u.opts.DataRoot, string(u.found.Name))
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return nil, configError(err)
	}
	if listens(u) {
		if err := forgetSocket(dataDir); err != nil {
			return nil, configError(err)
		}
	}
	secrets, err := u.variables(ctx)
	if err != nil {
		return nil, err
	}
	proc, err := u.start(life, LaunchSpec{
		Name: u.found.Name, Argv: u.found.Argv, Dir: u.found.Dir, DataDir: dataDir,
		Env: []string{"LANG=C.UTF-8", "NACRE_PLUGIN=" + string(u.found.Name)}, Secrets: secrets, Hosts: u.found.Manifest.Hosts,
		Project: string(u.found.Manifest.Project), Listen: listens(u),
	})
	if err != nil {
		return nil, configError(fmt.Errorf("handler: %w", err))
	}
	if proc.DataDir == "" {
		proc.DataDir = dataDir
	}
	c := newConn(proc, u.fault(life))
	if err := u.initialize(ctx, life, c); err != nil {
		c.kill()
		return nil, u.withStderr(err, c)
	}
	u.mu.Lock()
	u.conn = c
	u.mu.Unlock()
	return c, nil
}

// listens reports whether the handler takes connections here. One that serves no
// channel leaves the socket in its data folder alone: that is of the process that does.
func listens(u *unit) bool { return u.opts.Channels && u.found.Manifest.Listen }

// variables are the credentials that the manifest puts into the environment of
// an MCP server, read anew for each start. One that is not required may be missing.
func (g *guest) variables(ctx context.Context) (map[string]nacre.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, g.opts.Limits.Init)
	defer cancel()
	secrets := map[string]nacre.Secret{}
	m := g.found.Manifest
	for _, name := range slices.Sorted(maps.Keys(m.MCP.Env)) {
		key := m.MCP.Env[name]
		value, err := g.secret(ctx, key)
		if err == nil {
			secrets[name] = value
			continue
		}
		if slices.ContainsFunc(m.Install.Credentials, func(c plugin.Credential) bool { return c.Key == key && c.Required }) {
			return nil, &Problem{plugin.CategoryAuth, fmt.Errorf("mcp.env.%s: the credential %s cannot be read: %w", name, key, err)}
		}
	}
	return secrets, nil
}

// fault records what a handler did wrong.
func (g *guest) fault(ctx context.Context) func(what string) {
	return func(what string) { g.record(ctx, "plugin.fault", "dropped", detail{"what": what}) }
}

func (u *unit) initialize(ctx, life context.Context, c *conn) error {
	ctx, cancel := context.WithTimeout(ctx, u.opts.Limits.Init)
	defer cancel()
	name := newTicket()
	c.issue(name, u.forInitialize(ctx))
	defer c.revoke(name)
	channel := ""
	if servesChannel(u) {
		channel = newTicket()
		c.issue(channel, u.forChannel(life))
	}
	_, err := c.request(ctx, plugin.MethodInitialize, plugin.InitializeParams{
		Protocol: plugin.ProtocolVersion, Plugin: u.found.Name, Config: u.config, DataDir: c.proc.DataDir,
		Ticket: name, ChannelTicket: channel,
	})
	if err == nil {
		return nil
	}
	return &Problem{said(err), fmt.Errorf("initialize: %w", err)}
}

// categoryOf is a problem's category; what has none is the core's own affair.
func categoryOf(err error) string {
	var p *Problem
	if errors.As(err, &p) {
		return p.Category
	}
	return plugin.CategoryInternal
}

// said believes a handler that names a category, and nothing else.
func said(err error) string {
	var e *plugin.ToolError
	if errors.As(err, &e) {
		switch e.Code {
		case plugin.CategoryNetwork, plugin.CategoryAuth, plugin.CategoryConfig:
			return e.Code
		}
	}
	return plugin.CategoryInternal
}

// fail gives the plugin up: it is not tried again (D-23).
func (u *unit) fail(ctx context.Context, err error) {
	category, words := categoryOf(err), u.redacted(err.Error())
	u.mu.Lock()
	u.failed = &Problem{category, errors.New(strings.TrimPrefix(words, category+": "))}
	u.conn = nil
	u.mu.Unlock()
	u.record(ctx, "plugin.failed", nacre.OutcomeError, detail{"severity": "CRITICAL", "category": category, "error": words})
}

// supervise restarts the process after a crash until run ends,
// when the host is closed; life is the processes'.
func (u *unit) supervise(run, life context.Context, c *conn) {
	backoff := u.opts.Limits.Backoff
	for c != nil {
		since := u.opts.Now()
		if heed(run, life, u, c); run.Err() != nil {
			return
		}
		u.lost(life, c)
		if u.opts.Now().Sub(since) >= healthyFor {
			backoff = u.opts.Limits.Backoff
		}
		c = u.revive(run, life, &backoff)
	}
}

// heed returns with the end of a process, or of run. Of one that serves a channel it records
// meanwhile what that says for people, such as that its service is not reached. No call fails then
// of which it would be told.
func heed(run, life context.Context, u *unit, c *conn) {
	var heard <-chan struct{}
	if servesChannel(u) {
		heard = c.tail.more
	}
	for {
		select {
		case <-run.Done():
			return
		case <-c.dead:
			return
		case <-heard:
		}
		if !c.lives(run, noteGrace) {
			return // what it said is told with its end
		}
		if said := withStderr(&u.guest, c, 0, detail{}); len(said) > 0 {
			u.record(life, "plugin.note", "said", said)
		}
		if !c.lives(run, noteEvery) {
			return
		}
	}
}

// servesChannel reports whether the handler serves one of its channels here.
func servesChannel(u *unit) bool {
	return u.opts.Channels && len(u.found.Manifest.Provides.Channels) > 0 && (!u.found.Manifest.Once || u.opts.Serves == nil || u.opts.Serves(u.found.Name))
}

// revive starts the process again, later each time. It gives the plugin up, and
// returns nil, where that fails for another reason than the network's.
func (u *unit) revive(run, life context.Context, backoff *time.Duration) *conn {
	for pause(run, *backoff) {
		*backoff = min(2**backoff, u.opts.Limits.BackoffMax)
		c, err := u.relaunch(run, life)
		switch {
		case err == nil:
			u.record(life, "plugin.restarted", "ready", nil)
			return c
		case run.Err() != nil:
			return nil
		case categoryOf(err) != plugin.CategoryNetwork:
			u.fail(life, err)
			return nil
		}
		u.record(life, "plugin.crashed", nacre.OutcomeError, detail{"category": plugin.CategoryNetwork, "error": u.redacted(err.Error())})
	}
	return nil
}

func (u *unit) lost(ctx context.Context, c *conn) {
	u.mu.Lock()
	u.conn = nil
	u.mu.Unlock()
	end := "exit status 0"
	if c.ended != nil {
		end = c.ended.Error()
	}
	u.record(ctx, "plugin.crashed", nacre.OutcomeError, detail{"error": u.redacted(end + ": " + c.tail.String())})
}

// pause reports false when run ends meanwhile.
func pause(run context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-run.Done():
		return false
	case <-t.C:
		return true
	}
}

// relaunch starts the same code again, and only that: what was approved is what runs.
func (u *unit) relaunch(run, life context.Context) (*conn, error) {
	now, err := hashFolder(u.found.Dir)
	if err != nil {
		return nil, configError(err)
	}
	if now.code != u.found.code {
		return nil, configError(errors.New("the plugin's folder has changed since the start: reload the plugin to accept it"))
	}
	return u.launch(run, life)
}

// event is fire and forget (D-21).
func (u *unit) event(ctx context.Context, e plugin.Envelope) {
	u.mu.Lock()
	c := u.conn
	u.mu.Unlock()
	if c == nil || !c.notify(plugin.MethodHandleEvent, plugin.EventParams{Envelope: e}) {
		u.record(ctx, "plugin.event_dropped", "dropped", detail{"event": e.Topic})
	}
}

// detail is what a record adds: names, counts and redacted words.
type detail map[string]string

func (g *guest) record(ctx context.Context, topic, outcome string, d detail) {
	all := detail{"plugin": string(g.found.Name), "hash": g.found.Hash}
	for k, v := range d {
		all[k] = v
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return
	}
	// A recorder that fails makes the kernel refuse every call; nothing to add here.
	_ = g.opts.Recorder.Append(context.WithoutCancel(ctx), nacre.Record{
		Kind: nacre.KindPlugin, Time: g.opts.Now(), Source: sourceCore, Topic: topic, Outcome: outcome, Reason: all["category"], Detail: raw,
	})
}

func (g *guest) redacted(text string) string {
	if g.opts.Redact == nil {
		return "[left out]"
	}
	return g.opts.Redact(text)
}

func (g *guest) withStderr(err error, c *conn) error {
	if said := c.tail.String(); said != "" {
		return fmt.Errorf("%w: %s", err, said)
	}
	return err
}
