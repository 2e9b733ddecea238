package handler

import (
	"context"
	"net"
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/session"
)

// Way is one handler's way out: a proxy of its own on a socket that no other
// sandbox sees. A nil Way is closed already.
type Way struct {
	dir    string // what the sandbox sees as nacre.SocketDir
	end    context.CancelFunc
	served chan struct{}
}

// OpenWay lets what runs for a session out to the hosts of rules, until it is closed or the session
// ends. It serves a proxy with its own limits on a socket in dir.
func OpenWay(s *session.Session, inst *installation.Installation, dir string, rules []nacre.EgressRule, record nacre.Recorder, lost func(error)) (*Way, error) {
	return serveWay(s.Context(), inst, dir, egress.Options{Rules: rules, Record: record, Session: s.ID(), Group: s.Group(), Now: inst.Options.Now}, func(_ context.Context, err error) { lost(err) })
}

// serveWay serves a proxy on a socket in dir, which is there and empty, until it is
// closed or ctx ends. lost is told where it ended before that.
func serveWay(ctx context.Context, inst *installation.Installation, dir string, o egress.Options, lost func(context.Context, error)) (*Way, error) {
	if err := installation.GiveAuthorities(inst, dir, nil); err != nil {
		return nil, err
	}
	var err error
	if o.Upstream, err = inst.Config.Egress.Upstream(inst.Options.Getenv); err != nil {
		return nil, &config.Error{Err: err}
	}
	proxy, err := egress.New(o)
	if err != nil {
		return nil, err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, nacre.EgressSocket), Net: "unix"})
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(ctx)
	w := &Way{dir: dir, end: end, served: make(chan struct{})}
	go func() {
		defer close(w.served)
		if err := proxy.Serve(ctx, listener); err != nil {
			lost(ctx, err)
		}
	}()
	return w, nil
}

// path is where the way's proxy listens.
func (w *Way) path() string { return filepath.Join(w.dir, nacre.EgressSocket) }

// Close ends the way, if there is one.
func (w *Way) Close() {
	if w == nil {
		return
	}
	w.end()
	<-w.served
	_ = os.RemoveAll(w.dir) // the session's own end removes what is left
}
