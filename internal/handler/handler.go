// Package handler seals the processes that serve plugins. Each sees its own folders, gets out by a
// way of its own to the hosts that were confirmed, and reaches nothing else.
package handler

import (
	"context"
	"crypto/tls"
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
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/process"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/session"
)

const (
	// wall is longer than any session: a handler lives as long as its session.
	wall = 30 * 24 * time.Hour
	// output is what a handler may say in its life, in bytes: it answers for
	// as long as its session is there.
	output = 1 << 36
	// dataPath is where a plugin's own folder is inside its sandbox.
	dataPath = "/data"
)

// Launcher starts handlers in the sandbox of one session.
type Launcher struct {
	inst     *installation.Installation
	session  *session.Session
	recorder nacre.Recorder

	mu     sync.Mutex
	opened int // folders for sockets, so far
	// remote are the ways to the servers of plugins that have no process here.
	remote map[nacre.PluginName]*Way
}

// New gives what starts handlers in a session. What they do is recorded by recorder.
func New(inst *installation.Installation, s *session.Session, recorder nacre.Recorder) *Launcher {
	return &Launcher{inst: inst, session: s, recorder: recorder, remote: map[nacre.PluginName]*Way{}}
}

// Launch seals a handler: its folder read-only, its own data folder, the hosts
// of rules, and what else is mounted for it.
func (l *Launcher) Launch(ctx context.Context, spec pluginhost.LaunchSpec, rules []nacre.EgressRule, more []nacre.Mount) (pluginhost.Process, error) {
	in := posture.Input{
		Project: spec.Dir, ReadOnlyProject: true, Offline: len(spec.Hosts) == 0, System: installation.SystemMounts(l.session.Sandbox()), Env: spec.Env,
		Mounts: append([]nacre.Mount{{Kind: nacre.BindReadWrite, Source: spec.DataDir, Target: dataPath}}, more...),
		Limits: nacre.Limits{Wall: wall, Output: output}, Egress: rules,
	}
	if in.Offline {
		in.Egress = nil
	} else {
		in.Env = slices.Concat(installation.Trusted(l.inst), in.Env)
	}
	p, err := posture.Compute(in)
	if err != nil {
		return pluginhost.Process{}, err
	}
	command := sandbox.Command{Posture: p, Argv: spec.Argv, Secrets: spec.Secrets}
	var out *Way
	if !in.Offline {
		if out, err = l.openWay(spec.Name, rules); err != nil {
			return pluginhost.Process{}, err
		}
		command.SocketDir = out.dir
	}
	started, err := process.Start(l.session.Context(), l.session, command)
	if err != nil {
		out.Close()
		return pluginhost.Process{}, err
	}
	context.AfterFunc(ctx, func() { _ = started.Kill() }) // its Wait reports what became of it
	return pluginhost.Process{
		Stdin: started.Input, Stdout: started.Out(), Stderr: started.Complaints(), DataDir: dataPath, Kill: started.Kill,
		Wait: func() error {
			err := endOf(started.Wait())
			out.Close()
			return err
		},
	}, nil
}

// openWay lets a handler out to hosts. Nobody is asked about others.
func (l *Launcher) openWay(name nacre.PluginName, rules []nacre.EgressRule) (*Way, error) {
	dir, err := l.socketFolder()
	if err != nil {
		return nil, err
	}
	return serveWay(l.session.Context(), l.inst, dir, egress.Options{
		Rules: rules, Record: from{l.recorder, name}, Session: l.session.ID(), Group: l.session.Group(), Plugin: name, Now: l.inst.Options.Now, Limits: l.inst.Config.Egress.Limits.Proxy(),
	}, func(ctx context.Context, err error) { l.fault(ctx, name, "its way out ended: "+err.Error()) })
}

// endOf is how a handler ended, as the record of a crash tells its author;
// nil where it left by itself and well.
func endOf(code int, err error) error {
	if err == nil && code != 0 {
		return fmt.Errorf("exit status %d", code)
	}
	return err
}

// Transport lets the host itself speak to a plugin's server, through a proxy of
// the plugin's own like a handler's. A second one takes the place of the first.
func (l *Launcher) Transport(name nacre.PluginName, rules []nacre.EgressRule) (http.RoundTripper, error) {
	roots, err := l.inst.Config.Egress.Roots()
	if err != nil {
		return nil, err
	}
	w, err := l.openWay(name, rules)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	earlier := l.remote[name]
	l.remote[name] = w
	l.mu.Unlock()
	earlier.Close()
	return &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy"}), ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", w.path())
		},
	}, nil
}

// Close ends what is left when the hosts of its handlers are closed.
func (l *Launcher) Close() {
	l.mu.Lock()
	remote := l.remote
	l.remote = map[nacre.PluginName]*Way{}
	l.mu.Unlock()
	for _, w := range remote {
		w.Close()
	}
}

// socketFolder is a new folder beside the one that the session's agent sees.
func (l *Launcher) socketFolder() (string, error) {
	l.mu.Lock()
	l.opened++
	dir := filepath.Join(filepath.Dir(l.session.SocketDir()), fmt.Sprintf("p%d", l.opened))
	l.mu.Unlock()
	return dir, os.Mkdir(dir, 0o700)
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

func (l *Launcher) fault(ctx context.Context, name nacre.PluginName, what string) {
	// The recorder itself stops the session if it fails.
	_ = l.recorder.Append(context.WithoutCancel(ctx), nacre.Record{
		Kind: nacre.KindPlugin, Source: string(name), Topic: "plugin.fault", Outcome: nacre.OutcomeError, Reason: what,
	})
}
