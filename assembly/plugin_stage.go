package assembly

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/session"
)

const (
	// compatible is the version of nacre that a plugin's app_compat is held against.
	// It moves with the plugin protocol, not with builds.
	compatible = "0.1.0"
	// pluginWall is longer than any session: a handler lives as long as its session.
	pluginWall = 30 * 24 * time.Hour
	// pluginOutput is what a handler may say in its life, in bytes: it answers for
	// as long as its session is there.
	pluginOutput = 1 << 36
	// pluginData is where a plugin's own folder is inside its sandbox.
	pluginData = "/data"
)

// stage is where plugins run: a session, or what `nacre serve` keeps for all of
// its sessions. It seals each handler like an agent and gives it what it may
// reach, and no more.
type stage struct {
	*session.Session
	runtime  *Runtime
	recorder nacre.Recorder
	// of finds the open session that a request came from; nil for none.
	of func(nacre.SessionID) *sealed
	// publish takes events; nil where nobody does.
	publish publisher

	mu     sync.Mutex
	found  map[nacre.PluginName]pluginhost.Found
	values map[string][]string // of credentials that handlers have read, with their spellings
	opened int                 // folders for sockets, so far
	// remote are the ways to the servers of plugins that have no process here.
	remote map[nacre.PluginName]*way
}

func (r *Runtime) newStage(s *session.Session, found []pluginhost.Found) *stage {
	g := &stage{Session: s, runtime: r, recorder: s.Recorder, found: map[nacre.PluginName]pluginhost.Found{}, values: map[string][]string{}, remote: map[nacre.PluginName]*way{}}
	for _, f := range found {
		g.found[f.Name] = f
	}
	return g
}

// options are what a host of plugins on this stage is started with.
func (g *stage) options(taken map[nacre.ToolName]string) (pluginhost.Options, error) {
	config, err := g.runtime.pluginConfig()
	return pluginhost.Options{
		Launch: func(ctx context.Context, spec pluginhost.LaunchSpec) (pluginhost.Process, error) {
			return g.launch(ctx, spec, nil)
		},
		Transport: g.transport,
		Recorder:  g.recorder, Now: g.runtime.options.Now, DataRoot: g.runtime.registry.Paths().PluginData(),
		Version: compatible, Config: config, Taken: taken, Check: g.runtime.checkCapability,
		Admit: g.admit, Services: g.services(), Redact: g.clean,
	}, err
}

// channelTools are the tools of the plugins that have a channel.
func (g *stage) channelTools(channel string) (tools []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, f := range g.found {
		if !slices.Contains(f.Manifest.Provides.Channels, channel) {
			continue
		}
		for _, t := range f.Manifest.Provides.Tools {
			tools = append(tools, string(t.Name))
		}
	}
	return tools
}

// plugin is a plugin as it was when it was found.
func (g *stage) plugin(name nacre.PluginName) pluginhost.Found {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.found[name]
}

// launch seals a handler: its folder read-only, its own data folder, the hosts
// that were confirmed, and what else is mounted for it.
func (g *stage) launch(ctx context.Context, spec pluginhost.LaunchSpec, more []nacre.Mount) (pluginhost.Process, error) {
	to := g.runtime.reachOf(g.plugin(spec.Name))
	in := posture.Input{
		Project: spec.Dir, ReadOnlyProject: true, Offline: len(spec.Hosts) == 0, System: systemMounts(g.Sandbox()), Env: spec.Env,
		Mounts: append([]nacre.Mount{{Kind: nacre.BindReadWrite, Source: spec.DataDir, Target: pluginData}}, more...),
		Limits: nacre.Limits{Wall: pluginWall, Output: pluginOutput}, Egress: to.rules,
	}
	if in.Offline {
		in.Egress = nil
	}
	p, err := posture.Compute(in)
	if err != nil {
		return pluginhost.Process{}, err
	}
	command := sandbox.Command{Posture: p, Argv: spec.Argv, Secrets: spec.Secrets}
	var out *way
	if !in.Offline {
		if out, err = g.openWay(spec.Name, to.rules); err != nil {
			return pluginhost.Process{}, err
		}
		command.SocketDir = out.dir
	}
	started, err := startPiped(g.Context(), g.Session, command)
	if err != nil {
		out.close()
		return pluginhost.Process{}, err
	}
	context.AfterFunc(ctx, func() { _ = started.Kill() }) // its Wait reports what became of it
	return pluginhost.Process{
		Stdin: started.stdin, Stdout: started.out(), Stderr: started.complaints(), DataDir: pluginData, Kill: started.Kill,
		Wait: func() error {
			err := handlerEnd(started.Wait())
			out.close()
			return err
		},
	}, nil
}

// handlerEnd is how a handler ended, as the record of a crash tells its author;
// nil where it left by itself and well.
func handlerEnd(code int, err error) error {
	if err == nil && code != 0 {
		return fmt.Errorf("exit status %d", code)
	}
	return err
}

// way is one handler's way out: a proxy of its own on a socket that no other
// sandbox sees. A nil way is closed already.
type way struct {
	dir    string // what the sandbox sees as nacre.SocketDir
	end    context.CancelFunc
	served chan struct{}
}

// openWay lets a handler out to hosts. Nobody is asked about others.
func (g *stage) openWay(name nacre.PluginName, rules []nacre.EgressRule) (*way, error) {
	dir, err := g.socketFolder()
	if err != nil {
		return nil, err
	}
	return openWay(g.Context(), dir, egress.Options{
		Rules: rules, Record: from{g.recorder, name}, Session: g.ID(), Group: g.Group(), Plugin: name, Now: g.runtime.options.Now,
	}, func(ctx context.Context, err error) { g.fault(ctx, name, "its way out ended: "+err.Error()) })
}

// openWay serves a proxy on a socket in dir, which is there and empty, until it is
// closed or ctx ends. lost is told where it ended before that.
func openWay(ctx context.Context, dir string, o egress.Options, lost func(context.Context, error)) (*way, error) {
	proxy, err := egress.New(o)
	if err != nil {
		return nil, err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, nacre.EgressSocket), Net: "unix"})
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(ctx)
	w := &way{dir: dir, end: end, served: make(chan struct{})}
	go func() {
		defer close(w.served)
		if err := proxy.Serve(ctx, listener); err != nil {
			lost(ctx, err)
		}
	}()
	return w, nil
}

// transport lets the host itself speak to a plugin's server, through a proxy of
// the plugin's own like a handler's. A second one takes the place of the first.
func (g *stage) transport(spec pluginhost.LaunchSpec) (http.RoundTripper, error) {
	w, err := g.openWay(spec.Name, g.runtime.reachOf(g.plugin(spec.Name)).rules)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	earlier := g.remote[spec.Name]
	g.remote[spec.Name] = w
	g.mu.Unlock()
	earlier.close()
	return &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy"}), ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", w.path())
		},
	}, nil
}

// close ends what is left when the hosts of the stage are closed.
func (g *stage) close() {
	g.mu.Lock()
	remote := g.remote
	g.remote = map[nacre.PluginName]*way{}
	g.mu.Unlock()
	for _, w := range remote {
		w.close()
	}
}

// socketFolder is a new folder beside the one that the session's agent sees.
func (g *stage) socketFolder() (string, error) {
	g.mu.Lock()
	g.opened++
	dir := filepath.Join(filepath.Dir(g.SocketDir()), fmt.Sprintf("p%d", g.opened))
	g.mu.Unlock()
	return dir, os.Mkdir(dir, 0o700)
}

// path is where the way's proxy listens.
func (w *way) path() string { return filepath.Join(w.dir, nacre.EgressSocket) }

func (w *way) close() {
	if w == nil {
		return
	}
	w.end()
	<-w.served
	_ = os.RemoveAll(w.dir) // the session's own end removes what is left
}

// from is a recorder whose records say which plugin they are about.
type from struct {
	nacre.Recorder
	plugin nacre.PluginName
}

// Append implements nacre.Recorder.
func (f from) Append(ctx context.Context, r nacre.Record) error {
	r.Source = string(f.plugin)
	return f.Recorder.Append(ctx, r)
}

// Commit implements nacre.Recorder.
func (f from) Commit(ctx context.Context, r nacre.Record) error {
	r.Source = string(f.plugin)
	return f.Recorder.Commit(ctx, r)
}

func (g *stage) fault(ctx context.Context, name nacre.PluginName, what string) {
	// The recorder itself stops the session if it fails.
	_ = g.recorder.Append(context.WithoutCancel(ctx), nacre.Record{
		Kind: nacre.KindPlugin, Source: string(name), Topic: "plugin.fault", Outcome: nacre.OutcomeError, Reason: what,
	})
}
