// Command nacre-web serves the web page of an installation, on this machine only and for
// the user who starts it. nacre web starts it: what templates need would make every start
// of nacre slower (P-01).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/internal/person"
	"github.com/nacre-dev/nacre/internal/web"
)

// The limits of a connection.
const (
	readTime, writeTime, idleTime = 10 * time.Second, time.Minute, time.Minute
	maxHeader                     = 16 << 10
)

// The exit codes of nacre.
const (
	exitFailed      = 1
	exitInterrupted = 130
)

// version is set by the linker.
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := serve(ctx, os.Stdout)
	switch {
	case ctx.Err() != nil:
		os.Exit(exitInterrupted)
	case err != nil:
		_, _ = fmt.Fprintf(os.Stderr, "nacre: %v\n", err) // nobody else is there to tell
		os.Exit(exitFailed)
	}
}

// serve prints the link that signs in once, and serves the page until ctx ends.
func serve(ctx context.Context, out io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	opened := assembly.Options{Getenv: os.Getenv, Executable: filepath.Join(filepath.Dir(self), "nacre"), Now: time.Now, Version: version}
	rt, err := assembly.Open(ctx, opened)
	if err != nil {
		return err
	}
	port, hosts := assembly.WebAddress(rt)
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	host := listener.Addr().String()
	shown := of(rt, opened)
	shown.Host, shown.Hosts = host, hosts
	site, code, err := web.New(shown)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer site.Close()
	server := &http.Server{
		Handler: site.Handler(), ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // Serve says that it was closed
	defer stop()
	if _, err := fmt.Fprintf(out, "http://%s/#%s\n", host, code); err != nil {
		return errors.Join(err, listener.Close())
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// of is what a page shows of an installation, and whose rights count where somebody decides.
func of(rt *assembly.Runtime, opened assembly.Options) web.Options {
	rt = assembly.As(rt, string(visitor()))
	again := func(ctx context.Context) (*assembly.Runtime, error) { return assembly.Open(ctx, opened) }
	return web.Options{
		Desk: desk{rt}, Work: work{rt}, Records: records{rt}, Facts: facts{rt}, Memory: remembers{rt}, Learn: learns{rt}, Powers: powers{rt},
		Rules: rules{rt, again}, Identity: visitor(), Now: time.Now,
	}
}

// visitor is whose presses the page brings: the user's who started it.
func visitor() person.Identity { return person.OfVisitor(os.Geteuid()) }
