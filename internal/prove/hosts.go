//go:build linux

package prove

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
)

// proxy serves the egress proxy of the sandboxes on a socket in a folder, and wants it to let
// through what is listed. One that refuses all would block every probe and prove nothing.
func (g *Ground) proxy(ctx context.Context) error {
	rules := append([]nacre.EgressRule{
		{Host: allowedHost, Port: 443}, {Host: privateHost, Port: 443}, {Host: plainHost, Port: 80, Protocol: nacre.ProtocolHTTP},
	}, g.options.Rules...)
	p, err := egress.New(egress.Options{Rules: rules, Record: recorder{nil}, Session: "probe", Group: "main", Now: time.Now, Dial: toDecoy, Resolve: resolve})
	if err != nil {
		return err
	}
	g.sockets = filepath.Join(g.dir, "sockets")
	if err := os.Mkdir(g.sockets, 0o755); err != nil {
		return err
	}
	var config net.ListenConfig
	socket := filepath.Join(g.sockets, nacre.EgressSocket)
	l, err := config.Listen(ctx, "unix", socket)
	if err != nil {
		return err
	}
	g.serve(ctx, func(ctx context.Context) { _ = p.Serve(ctx, l) })
	for _, rule := range []nacre.EgressRule{rules[0], rules[2]} {
		if !(served{socket: socket}).lets(ctx, rule.Host, rule) {
			return fmt.Errorf("the egress proxy refuses %s, which is listed", rule)
		}
	}
	return nil
}

// permissive serves a proxy that lets everything through, as it stands.
func (g *Ground) permissive(ctx context.Context) (string, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	g.serve(ctx, func(ctx context.Context) {
		stop := context.AfterFunc(ctx, func() { _ = l.Close() })
		defer stop()
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go passOn(c)
		}
	})
	return l.Addr().String(), nil
}

func passOn(c net.Conn) {
	head := make([]byte, 7)
	if _, err := io.ReadFull(c, head); err != nil {
		_ = c.Close()
		return
	}
	if string(head) != "CONNECT" {
		repeat(&replay{Conn: c, head: head})
		return
	}
	rest := make([]byte, 1)
	for tail := []byte(nil); !bytes.HasSuffix(tail, []byte("\r\n\r\n")); tail = append(tail, rest[0]) {
		if _, err := c.Read(rest); err != nil {
			return
		}
	}
	_, _ = io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
	repeat(c)
}

// replay gives back what was read already.
type replay struct {
	net.Conn
	head []byte
}

func (r *replay) Read(b []byte) (int, error) {
	n := copy(b, r.head)
	r.head = r.head[n:]
	if n == len(b) {
		return n, nil
	}
	more, err := r.Conn.Read(b[n:])
	return n + more, err
}

// serve runs a server until the ground is lifted.
func (g *Ground) serve(ctx context.Context, run func(context.Context)) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	g.later(func() { cancel(); <-done })
}
