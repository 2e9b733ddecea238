package pluginhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
)

// Options of a host. What is marked required has no safe default.
type Options struct {
	// Launch starts a handler; required. ctx ends when the host is closed.
	Launch func(ctx context.Context, spec LaunchSpec) (Process, error)
	// Transport carries the requests of a plugin whose handler is an MCP server at a URL. It lets
	// them reach what the operator confirmed of spec.Hosts and nothing else. It is asked for at
	// each start. With nil there are none such.
	Transport func(spec LaunchSpec) (http.RoundTripper, error)
	// Recorder takes what happens to plugins; required.
	Recorder nacre.Recorder
	// Now is the clock; required.
	Now func() time.Time
	// DataRoot holds one directory a plugin, made with mode 0700; required.
	DataRoot string
	// Version is nacre's own, which app_compat is held against; required.
	Version string
	// Config is each plugin's own configuration.
	Config map[nacre.PluginName]json.RawMessage
	// Taken are tools that exist already, with who owns them.
	Taken map[nacre.ToolName]string
	// Services answer what handlers ask; what is nil is refused.
	Services Services
	// Channels says that this host serves channels: plugins that provide some get
	// a ticket for what they receive. Without it they are tools only.
	Channels bool
	// Serves says whether it serves those of one plugin that may be served once (manifest once);
	// it is asked at each start. Nil serves them.
	Serves func(nacre.PluginName) bool
	// Check refuses a capability that the kernel would not take, so that one plugin fails and not
	// the run. Nil leaves that to the kernel.
	Check func(nacre.Capability) error
	// Admit refuses what a folder holds at a reload, such as what nobody agreed to;
	// nil admits all.
	Admit func(Found) error
	// Redact cleans what handlers say before it is recorded; with nil their
	// words are left out.
	Redact func(string) string
	Limits Limits
}

// The defaults of what a plugin is waited for (D-24).
const (
	DefaultInit     = 10 * time.Second
	DefaultDrain    = 30 * time.Second
	DefaultShutdown = 10 * time.Second
)

// Limits of a host; zero means the default.
type Limits struct {
	Init     time.Duration // for initialize; 10 s (D-23)
	Request  time.Duration // for one request whose context has no deadline; 30 s (D-14)
	Drain    time.Duration // for requests in flight at Close; DefaultDrain
	Shutdown time.Duration // for shutdown and exit; DefaultShutdown
	// Backoff before the first restart after a crash, 200 ms. It doubles up to BackoffMax, 30 s,
	// and starts again after a minute without a crash.
	Backoff    time.Duration
	BackoffMax time.Duration
}

func (l Limits) withDefaults() Limits {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&l.Init, DefaultInit}, {&l.Request, 30 * time.Second}, {&l.Drain, DefaultDrain},
		{&l.Shutdown, DefaultShutdown}, {&l.Backoff, 200 * time.Millisecond}, {&l.BackoffMax, 30 * time.Second},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return l
}

// A LaunchSpec says what to start and what it may reach (D-21).
type LaunchSpec struct {
	Name nacre.PluginName
	// Argv is relative to Dir, its working directory.
	Argv []string
	// Dir is the plugin's folder, read-only.
	Dir string
	// DataDir is the plugin's own directory, read-write.
	DataDir string
	// Env is the whole environment, as KEY=value; PATH is the launcher's to add.
	Env []string
	// Secrets join it by name, for this process alone: they are never recorded.
	Secrets map[string]nacre.Secret
	// Hosts are those the manifest lists; the launcher allows what the operator
	// confirmed. [plugin.AnyHost] among them means whatever the operator named.
	Hosts []string
	// Project is what the manifest asks for: "", "read" or "write". The launcher
	// binds no more than the operator confirmed, at [plugin.ProjectPath].
	Project string
	// Listen says that the handler takes connections on DataDir/[plugin.ListenSocket].
	Listen bool
}

// A Process is a handler that runs.
type Process struct {
	Stdin          io.WriteCloser
	Stdout, Stderr io.ReadCloser
	// DataDir is LaunchSpec.DataDir as the handler sees it; empty means the same path.
	DataDir string
	// Wait returns when the process has ended. It is called once, and must not close the streams.
	Wait func() error
	// Kill ends the process and all it started. It may be called at any time, more than once.
	Kill func() error
}

// Failure is a plugin that could not be started, and no more than an agent may know of it.
type Failure struct {
	Name     nacre.PluginName `json:"name"`
	Category string           `json:"category"`
}

// Health is the part "plugins" of get_session_info (D-23).
type Health struct {
	Healthy []nacre.PluginName `json:"healthy"`
	Failed  []Failure          `json:"failed"`
	// Degraded are those of Healthy whose last three answers, or more, came too late.
	Degraded []nacre.PluginName `json:"degraded,omitempty"`
	// Restarting are those of Healthy that ended, and are started again: until then they
	// answer nothing.
	Restarting []nacre.PluginName `json:"restarting,omitempty"`
}

// Host runs plugins. It is safe for concurrent use.
type Host struct {
	opts Options
	// open starts a unit's process, which lives until end.
	open func(ctx context.Context, u *unit) error
	end  context.CancelFunc
	// reloading is held by whoever replaces a plugin, until the old one is gone.
	reloading chan struct{}
	retiring  sync.WaitGroup
	// hurried is closed when nobody waits for what was replaced any more.
	hurried chan struct{}

	mu     sync.Mutex
	units  []*unit
	closed bool

	closing sync.Once
	outcome error
}

// Start starts all plugins at once and returns when each has been initialised
// or has failed, at most Limits.Init later (D-23). A plugin that fails is left
// out, and so are those that cannot live together, as [Settle] says (D-25). ctx is
// for the start alone.
func Start(ctx context.Context, found []Found, o Options) (*Host, error) {
	if o.Launch == nil || o.Recorder == nil || o.Now == nil || o.DataRoot == "" || o.Version == "" {
		return nil, errors.New("plugin host: Launch, Recorder, Now, DataRoot and Version are required")
	}
	o.Limits = o.Limits.withDefaults()
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	h := &Host{opts: o, end: end, reloading: make(chan struct{}, 1), hurried: make(chan struct{})}
	h.open = func(ctx context.Context, u *unit) error { return u.open(ctx, life) }
	var starting sync.WaitGroup
	for _, f := range Settle(found, o.Taken) {
		u := newUnit(f, &h.opts)
		h.units = append(h.units, u)
		starting.Go(func() {
			if err := h.open(ctx, u); err != nil {
				u.fail(ctx, err)
			}
		})
	}
	starting.Wait()
	if ctx.Err() != nil {
		return nil, errors.Join(ctx.Err(), h.Close(ctx))
	}
	return h, nil
}

// all are the plugins as they are now.
func (h *Host) all() []*unit {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.units)
}

// unit is nil for a name that is no plugin's.
func (h *Host) unit(name nacre.PluginName) *unit {
	for _, u := range h.all() {
		if u.found.Name == name {
			return u
		}
	}
	return nil
}

// Tools are the tools of the plugins that started.
func (h *Host) Tools() []nacre.Tool {
	var tools []nacre.Tool
	for _, u := range h.all() {
		tools = append(tools, h.tools(u)...)
	}
	return tools
}

func (h *Host) tools(u *unit) (tools []nacre.Tool) {
	if u.category() != "" {
		return nil
	}
	for _, t := range u.found.Manifest.Provides.Tools {
		tools = append(tools, nacre.Tool{Capability: t.Capability(u.found.Name, u.found.Hash), Driver: h.driver(u.found)})
	}
	return tools
}

// driver carries out calls through whatever runs the code that the tool was
// registered with: what was approved is what runs.
func (h *Host) driver(f Found) nacre.Driver {
	return prompt(func(ctx context.Context, in nacre.Invocation) (json.RawMessage, error) {
		for {
			u := h.unit(f.Name)
			if u == nil || u.found.Hash != f.Hash {
				return nil, unavailable(fmt.Sprintf("plugin %s was reloaded since the tool was registered", f.Name))
			}
			result, err := u.do(ctx, in)
			var nothingSent unavailable
			if errors.As(err, &nothingSent) && h.unit(f.Name) != u {
				continue // replaced by the same code meanwhile
			}
			return result, err
		}
	})
}

// prompt is a driver that stops waiting for a handler when its context ends.
type prompt nacre.DriverFunc

// Do implements nacre.Driver.
func (p prompt) Do(ctx context.Context, in nacre.Invocation) (json.RawMessage, error) {
	return p(ctx, in)
}

// Prompt implements nacre.PromptDriver.
func (prompt) Prompt() bool { return true }

// Skills are the skills of the plugins that started: a failed plugin's is not copied (D-31).
func (h *Host) Skills() []Skill {
	var skills []Skill
	for _, u := range h.all() {
		if u.category() == "" && len(u.found.Manifest.Provides.Tools) > 0 {
			skills = append(skills, u.skill())
		}
	}
	return skills
}

// Health says which plugins started; a plugin that crashed and could not be
// started again has failed.
func (h *Host) Health() Health {
	health := Health{Healthy: []nacre.PluginName{}, Failed: []Failure{}}
	for _, u := range h.all() {
		if c := u.category(); c != "" {
			health.Failed = append(health.Failed, Failure{u.found.Name, c})
			continue
		}
		health.Healthy = append(health.Healthy, u.found.Name)
		if u.degraded() {
			health.Degraded = append(health.Degraded, u.found.Name)
		}
		if _, err := u.enter(); err != nil {
			health.Restarting = append(health.Restarting, u.found.Name)
		} else {
			u.leave()
		}
	}
	return health
}

// Problem is why a plugin does not work: nil for one that does, a *[Problem] for
// one that failed.
func (h *Host) Problem(name nacre.PluginName) error {
	if u := h.unit(name); u != nil {
		return u.problem()
	}
	return fmt.Errorf("there is no plugin %s", name)
}

// Deliver hands an event to every plugin that subscribes to a prefix of its
// topic and that may know of it. A plugin that does not keep up, or is down,
// misses it, and that is recorded.
func (h *Host) Deliver(ctx context.Context, e plugin.Envelope, may func(nacre.PluginName) bool) {
	for _, u := range h.all() {
		if !may(u.found.Name) {
			continue
		}
		if slices.ContainsFunc(u.found.Manifest.Subscribes, func(prefix string) bool { return subscribes(prefix, e.Topic) }) {
			u.event(ctx, e)
		}
	}
}

// Close refuses new calls, waits for those in flight, tells the handlers to shut down and ends what
// is left (D-24). It does so for all plugins at once, takes at most Limits.Drain + Limits.Shutdown,
// and ends at once when ctx does. It returns an error for each plugin that had to be ended by
// force. A second Close returns the same.
func (h *Host) Close(ctx context.Context) error {
	h.closing.Do(func() { h.outcome = h.close(ctx) })
	return h.outcome
}

func (h *Host) close(ctx context.Context) error {
	h.mu.Lock()
	h.closed = true // no reload comes through from here
	units := slices.Clone(h.units)
	h.mu.Unlock()
	stop := context.AfterFunc(ctx, sync.OnceFunc(func() { close(h.hurried) }))
	defer stop()
	errs := make([]error, len(units))
	var closing sync.WaitGroup
	for i, u := range units {
		closing.Go(func() {
			if err := u.close(ctx); err != nil {
				errs[i] = fmt.Errorf("plugin %s: %w", u.found.Name, err)
			}
		})
	}
	closing.Wait()
	h.retiring.Wait()
	h.end()
	return errors.Join(errs...)
}
