// Package hosting runs the plugins of a session, or those that `nacre serve` keeps for all of its
// sessions. It answers what handlers ask, hands them the credentials that they were given, and
// takes those out of all that they say.
package hosting

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/access"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/handler"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/session"
	"github.com/nacre-dev/nacre/plugin"
)

// DriversLimit is how long whoever ends waits for calls that were left behind, such
// as a plugin's that does not heed its deadline.
const DriversLimit = 5 * time.Second

// Guest is what plugins may know of an open session: who it is, which tools its group
// may use, and what it says of itself.
type Guest struct {
	ID    nacre.SessionID
	Group nacre.Group
	Tools func() []nacre.Capability
	Info  func() map[string]any
}

// Stage is where plugins run: a session, or what `nacre serve` keeps for all of
// its sessions. It seals each handler like an agent and gives it what it may
// reach, and no more.
type Stage struct {
	Inst     *installation.Installation
	recorder nacre.Recorder
	handlers *handler.Launcher
	// guest finds the open session that a request came from; nil for none.
	guest func(nacre.SessionID) *Guest
	// publish takes events.
	publish Publisher
	// faces takes presses; nil where nobody can press.
	faces Faces
	// woken is the message that woke a session; nil where no message can.
	woken  func(nacre.SessionID) map[string]string
	handed handedOut

	mu    sync.Mutex
	found map[nacre.PluginName]pluginhost.Found
}

// newStage makes the place where plugins run. It starts none of them, and no session
// is a guest of it.
func newStage(inst *installation.Installation, s *session.Session, recorder nacre.Recorder, found []pluginhost.Found) *Stage {
	g := &Stage{
		Inst: inst, recorder: recorder, handlers: handler.New(inst, s, recorder), found: map[nacre.PluginName]pluginhost.Found{},
		guest: func(nacre.SessionID) *Guest { return nil }, handed: handedOut{redact: inst.Redact, values: map[string][]string{}},
	}
	g.publish = unheard(g)
	for _, f := range found {
		g.found[f.Name] = f
	}
	return g
}

// unheard takes the events of a stage that nobody subscribes to, in a run or an exec. A handler
// that tells of what it did has done it all the same. The 1st, 2nd, 4th, … of a plugin is recorded.
func unheard(g *Stage) Publisher {
	var mu sync.Mutex
	told := map[nacre.PluginName]int{}
	return func(ctx context.Context, s pluginhost.Scope, topic string, _ json.RawMessage) error {
		mu.Lock()
		told[s.Plugin]++
		n := told[s.Plugin]
		mu.Unlock()
		if n&(n-1) != 0 {
			return nil
		}
		detail, err := json.Marshal(map[string]any{"event": topic, "count": n})
		if err != nil {
			return err
		}
		return g.recorder.Append(ctx, nacre.Record{
			Kind: nacre.KindPlugin, Source: string(s.Plugin), Topic: "plugin.event", Outcome: "not delivered",
			Reason: "nobody subscribes here: events are for nacre serve", Correlation: s.Correlation, Detail: detail,
		})
	}
}

// Options are what a host of plugins on this stage is started with.
func (g *Stage) Options(taken map[nacre.ToolName]string) (pluginhost.Options, error) {
	config, err := access.Settings(g.Inst)
	return pluginhost.Options{
		Launch: func(ctx context.Context, spec pluginhost.LaunchSpec) (pluginhost.Process, error) {
			return g.launch(ctx, spec, nil)
		},
		Transport: func(spec pluginhost.LaunchSpec) (http.RoundTripper, error) {
			return g.handlers.Transport(spec.Name, g.reach(spec.Name).Rules)
		},
		Recorder: g.recorder, Now: g.Inst.Options.Now, DataRoot: g.Inst.Registry.Paths().PluginData(),
		Version: access.Compatible, Config: config, Taken: taken, Check: func(c nacre.Capability) error { return access.Check(g.Inst, c) },
		Admit: g.admit, Services: g.services(), Redact: g.Clean, Limits: pluginLimits(g.Inst.Config.Limits),
	}, err
}

func pluginLimits(l config.Limits) pluginhost.Limits {
	return pluginhost.Limits{
		Request: l.Handler(), Drain: time.Duration(l.DrainSeconds) * time.Second, Shutdown: time.Duration(l.ShutdownSeconds) * time.Second,
	}
}

// Channels are those of all plugins that serve them here.
func (g *Stage) Channels(serves func(plugin.Manifest, nacre.PluginName) bool) (channels []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, f := range g.found {
		if serves(f.Manifest, f.Name) {
			channels = append(channels, f.Manifest.Provides.Channels...)
		}
	}
	return channels
}

// ChannelTools are the tools of the plugins that have a channel.
func (g *Stage) ChannelTools(channel string) (tools []plugin.ToolSpec) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, f := range g.found {
		if slices.Contains(f.Manifest.Provides.Channels, channel) {
			tools = append(tools, f.Manifest.Provides.Tools...)
		}
	}
	return tools
}

// Plugin is a plugin as it was when it was found.
func (g *Stage) Plugin(name nacre.PluginName) pluginhost.Found {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.found[name]
}

// reach is what was confirmed of a plugin.
func (g *Stage) reach(name nacre.PluginName) access.Reach {
	return access.ReachOf(g.Inst, g.Plugin(name))
}

// launch starts a handler with what was confirmed of its plugin.
func (g *Stage) launch(ctx context.Context, spec pluginhost.LaunchSpec, more []nacre.Mount) (pluginhost.Process, error) {
	return g.handlers.Launch(ctx, spec, g.reach(spec.Name).Rules, more)
}

// Close ends what is left when the hosts of the stage are closed.
func (g *Stage) Close() { g.handlers.Close() }

// Clean takes secrets out of a text: those that look like one, and those that
// were handed out here.
func (g *Stage) Clean(text string) string { return g.handed.clean(text) }
