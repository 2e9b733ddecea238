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
	"net/netip"
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

// version is set by the linker, where it is told one.
var version string

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
	opened := assembly.Options{Getenv: os.Getenv, Executable: filepath.Join(filepath.Dir(self), "nacre"), Now: time.Now, Version: assembly.Version(version)}
	rt, err := assembly.Open(ctx, opened)
	if err != nil {
		return err
	}
	port, hosts := assembly.WebAddress(rt)
	here, err := listen(ctx, port, func(port uint16) error { return assembly.ClaimPort(ctx, rt, port) })
	if err != nil {
		return err
	}
	shown := of(rt, opened)
	shown.Host, shown.Local, shown.Hosts = here.host, here.local, hosts
	site, code, err := web.New(shown)
	if err != nil {
		return errors.Join(err, here.close())
	}
	defer site.Close()
	server := &http.Server{
		Handler: site.Handler(), ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // Serve says that it was closed
	defer stop()
	if _, err := fmt.Fprintf(out, "http://%s/#%s\n", append(here.local, here.host)[0], code); err != nil {
		return errors.Join(err, here.close())
	}
	defer assembly.Rest(ctx)()
	return here.serve(server)
}

// ownName is the name under which the page is opened. A cookie of it goes to no other server of
// this machine, such as one that a session publishes on 127.0.0.1 (U-06). Browsers look for each
// name below localhost at this machine (RFC 6761).
const ownName = "nacre.localhost"

// address is where the page answers: on 127.0.0.1, and on ::1 where this machine has that.
type address struct {
	host      string
	listeners []net.Listener
	// local are the names that browsers look for at both addresses: none where another program
	// answers at one of them.
	local []string
}

// listen claims the port, so that no session reaches it (U-06). One that the kernel chooses is
// claimed before anything is accepted there.
func listen(ctx context.Context, port uint16, claim func(port uint16) error) (address, error) {
	if port != 0 {
		if err := claim(port); err != nil {
			return address{}, err
		}
	}
	var with net.ListenConfig
	four, err := with.Listen(ctx, "tcp4", netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port).String())
	if err != nil {
		return address{}, err
	}
	at, err := netip.ParseAddrPort(four.Addr().String())
	if err == nil && port == 0 {
		err = claim(at.Port())
	}
	if err != nil {
		return address{}, errors.Join(err, four.Close())
	}
	a := address{host: at.String(), listeners: []net.Listener{four}}
	bound := strconv.Itoa(int(at.Port()))
	six, err := with.Listen(ctx, "tcp6", net.JoinHostPort("::1", bound))
	if err == nil {
		a.listeners = append(a.listeners, six)
	}
	if err == nil || errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) {
		a.local = []string{net.JoinHostPort(ownName, bound), net.JoinHostPort("localhost", bound)}
	}
	return a, nil
}

func (a address) close() error {
	var errs []error
	for _, l := range a.listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// serve answers at all addresses until the server is closed.
func (a address) serve(server *http.Server) error {
	ended := make(chan error, len(a.listeners))
	for _, l := range a.listeners {
		go func() { ended <- server.Serve(l) }()
	}
	var errs []error
	for range a.listeners {
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			errs = append(errs, err, server.Close())
		}
	}
	return errors.Join(errs...)
}

// of is what a page shows of an installation, and whose rights count where somebody decides.
func of(rt *assembly.Runtime, opened assembly.Options) web.Options {
	again := func(ctx context.Context) (*assembly.Runtime, error) { return assembly.Open(ctx, opened) }
	return web.Options{
		Desk: desk{rt}, Work: work{rt}, Records: records{rt}, Facts: facts{rt}, Memory: remembers{rt}, Learn: learns{rt}, Powers: powers{rt},
		Rules: rules{rt, again}, Passkeys: keys{rt}, Identity: person.OfVisitor(os.Geteuid()), Now: time.Now,
	}
}

// visitor is who is signed in where the page asks for something.
func visitor(ctx context.Context) string { return string(web.Visitor(ctx)) }

// as is the installation, used by whoever is signed in.
func as(ctx context.Context, rt *assembly.Runtime) *assembly.Runtime {
	return assembly.As(rt, visitor(ctx))
}
