//go:build linux

package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/door"
	"github.com/nacre-dev/nacre/internal/pluginhost"
)

// controlLimit bounds the unsealed run.
const controlLimit = 5 * time.Minute

// Control plays the same recording unsealed: no sandbox, a door without a
// kernel, a proxy that asks nobody, all against the decoys. It fails with
// ErrNotShown where an attack does not succeed, for then the sealed run would
// prove nothing.
func Control(ctx context.Context, o Options) (err error) {
	ctx, cancel := context.WithTimeout(ctx, controlLimit)
	defer cancel()
	s, err := openScene(ctx, o.Getenv)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.plantReminders(); err != nil {
		return err
	}
	p := o.Printer
	p.Field("control", "the same recording, unsealed, against decoys in a throw-away home")
	output, err := s.unsealedRun(ctx, o)
	if err != nil {
		return err
	}
	findings, err := judge(s, nil, observed{output})
	if err != nil {
		return err
	}
	for i := range findings {
		findings[i].tried = true // the recording is the same; here only the witnesses speak
	}
	p.Line("")
	printFindings(p, findings, true)
	for _, f := range findings {
		if !f.reached {
			return fmt.Errorf("%w: unsealed, %q does not succeed either", ErrNotShown, f.attack)
		}
	}
	p.Line("")
	p.Field("control", "unsealed, each of them succeeds: what the sealed run stops is real")
	return nil
}

// unsealedRun plays the recording as the operator, in a home of decoys.
func (s *scene) unsealedRun(ctx context.Context, o Options) (string, error) {
	tools, stop, err := s.openDoor(ctx, o)
	if err != nil {
		return "", err
	}
	proxy, err := s.openProxy(ctx)
	if err != nil {
		return "", errors.Join(err, stop())
	}
	command := exec.CommandContext(ctx, filepath.Join(filepath.Dir(o.Executable), "brain"), "replay")
	command.Dir = s.project
	getenv := s.getenv(o.Getenv)
	command.Env = []string{
		"HOME=" + s.home, "PATH=" + filepath.Dir(o.Executable) + ":" + getenv("PATH"), "NACRE_DOOR=" + tools,
		"HTTP_PROXY=" + proxy.url, "GOCACHE=" + getenv("GOCACHE"), "GOMODCACHE=" + getenv("GOMODCACHE"),
		"GOFLAGS=", "GOTOOLCHAIN=local", "GOPROXY=off", "CGO_ENABLED=0",
	}
	input, err := os.Open(s.recording)
	if err != nil {
		return "", errors.Join(err, proxy.close(), stop())
	}
	command.Stdin = input
	out, err := command.Output()
	return string(out), errors.Join(err, input.Close(), proxy.close(), stop())
}

// openDoor serves the plugins' tools to anyone who asks: what a bridge without
// a kernel does.
func (s *scene) openDoor(ctx context.Context, o Options) (string, func() error, error) {
	found, err := pluginhost.Discover(filepath.Join(filepath.Dir(o.Executable), "plugins"))
	if err != nil {
		return "", nil, err
	}
	log := audit.Memory(1000)
	host, err := pluginhost.Start(ctx, found, pluginhost.Options{
		Launch: launchUnsealed, Recorder: log, Now: o.Now, Version: "0.1.0",
		DataRoot: filepath.Dir(filepath.Dir(filepath.Dir(s.reminderFile()))),
	})
	if err != nil {
		return "", nil, err
	}
	path := filepath.Join(s.dir, "door.sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return "", nil, errors.Join(err, host.Close(ctx))
	}
	serving, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	who := nacre.Principal{ID: "control", Group: group, Session: "control"}
	whole := func(document []byte) ([]byte, []string) { return document, nil }
	go func() {
		done <- door.Serve(serving, listener, door.Session{ID: who.Session, Group: group, Principal: who, PeerUID: []uint32{uint32(os.Getuid())}},
			open{host.Tools()}, door.Deps{
				Recorder: log, Now: o.Now, NewID: rand.Text,
				Redact: whole, Sanitize: whole,
			})
	}()
	return path, func() error {
		cancel()
		return errors.Join(<-done, host.Close(context.WithoutCancel(ctx)))
	}, nil
}

// open is a kernel that is none: it checks nothing, asks nobody, hides nothing.
type open struct{ tools []nacre.Tool }

func (k open) find(name nacre.ToolName) (nacre.Tool, bool) {
	for _, t := range k.tools {
		if t.Capability.Tool == name {
			return t, true
		}
	}
	return nacre.Tool{}, false
}

// Has implements door.Kernel. Memory is left out: the attacks do not need it.
func (k open) Has(name nacre.ToolName) bool { _, ok := k.find(name); return ok }

// Source implements door.Kernel.
func (open) Source(nacre.ToolName) string { return "control" }

// Call implements door.Kernel by doing what it is told.
func (k open) Call(ctx context.Context, c nacre.Call) (nacre.Outcome, error) {
	t, ok := k.find(c.Tool)
	if !ok {
		return nacre.Outcome{}, &nacre.Refusal{Code: nacre.CodeUnknownTool, Stage: 2, Message: "no such tool"}
	}
	result, err := t.Driver.Do(ctx, nacre.Invocation{
		ID: c.ID, Principal: c.Principal, Capability: t.Capability.ID, Tool: c.Tool, Arguments: c.Arguments,
		Correlation: c.Correlation, Time: time.Now(),
	})
	return nacre.Outcome{Result: result}, err
}

// launchUnsealed starts a handler as a plain process.
func launchUnsealed(ctx context.Context, spec pluginhost.LaunchSpec) (pluginhost.Process, error) {
	command := exec.CommandContext(ctx, spec.Argv[0], spec.Argv[1:]...)
	command.Dir, command.Env = spec.Dir, append(spec.Env, "PATH="+os.Getenv("PATH"))
	stdin, inErr := command.StdinPipe()
	stdout, outErr := command.StdoutPipe()
	stderr, errErr := command.StderrPipe()
	if err := errors.Join(inErr, outErr, errErr); err != nil {
		return pluginhost.Process{}, err
	}
	if err := command.Start(); err != nil {
		return pluginhost.Process{}, err
	}
	return pluginhost.Process{
		Stdin: stdin, Stdout: stdout, Stderr: stderr,
		Wait: func() error { _, err := command.Process.Wait(); return err }, Kill: command.Process.Kill,
	}, nil
}

// anyProxy forwards every request, the attacker's host to the witness.
type anyProxy struct {
	url    string
	server *http.Server
	done   chan error
}

func (s *scene) openProxy(ctx context.Context) (*anyProxy, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: s.collector.address()})
		},
		ErrorLog: nil,
	}
	p := &anyProxy{
		url: "http://" + listener.Addr().String(), done: make(chan error, 1),
		server: &http.Server{Handler: forward, ReadHeaderTimeout: 5 * time.Second},
	}
	go func() { p.done <- p.server.Serve(listener) }()
	return p, nil
}

func (p *anyProxy) close() error {
	err := p.server.Close()
	if serveErr := <-p.done; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}
