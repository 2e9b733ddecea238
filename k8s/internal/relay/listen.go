package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/nacre-dev/nacre/internal/sandbox/inside"
	"github.com/nacre-dev/nacre/k8s/internal/stream"
)

const (
	// dialTimeout is how long a pod may take to learn whom to dial, and to prove itself.
	dialTimeout = 2 * time.Minute
	// maxStrangers prove themselves at once.
	maxStrangers = 16
)

// where pods dial.
type where struct {
	host        string
	first, last uint16
	announced   string
}

// place reads the settings: "ADDRESS:PORT" or "ADDRESS:FIRST-LAST".
func place(s inside.PodSettings) (where, error) {
	wrong := fmt.Errorf("[sandbox.k8s] listen = %q: write ADDRESS:PORT or ADDRESS:FIRST-LAST, such as \"10.0.0.5:30100-30199\"", s.Listen)
	host, ports, err := net.SplitHostPort(s.Listen)
	if err != nil {
		return where{}, wrong
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return where{}, wrong
	}
	first, last, ranged := strings.Cut(ports, "-")
	if !ranged {
		last = first
	}
	from, err := strconv.ParseUint(first, 10, 16)
	to, toErr := strconv.ParseUint(last, 10, 16)
	if err != nil || toErr != nil || from == 0 || to < from {
		return where{}, wrong
	}
	w := where{host, uint16(from), uint16(to), s.Address}
	if w.announced == "" {
		if address.IsUnspecified() {
			return where{}, fmt.Errorf("[sandbox.k8s] listen = %q is every address of this machine: write address = \"…\" too, the one that pods reach it at", s.Listen)
		}
		w.announced = host
	}
	return w, nil
}

// listen takes the first port that is free, and returns what a pod has to dial.
func (w where) listen(ctx context.Context) (net.Listener, string, error) {
	var failed error
	for port := int(w.first); port <= int(w.last); port++ {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(w.host, strconv.Itoa(port)))
		if err == nil {
			return l, net.JoinHostPort(w.announced, strconv.Itoa(port)), nil
		}
		failed = err
	}
	return nil, "", fmt.Errorf("no port from %d to %d is free for a pod to dial: end other sessions, or name more ports ([sandbox.k8s] listen): %w", w.first, w.last, failed)
}

// accept takes the connection of the one pod that has the key. Whoever else dials is
// refused, and keeps nobody waiting.
func accept(ctx context.Context, l net.Listener, key stream.Key) (*yamux.Session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dialTimeout, fmt.Errorf("it did not dial within %s: does its network policy let it reach this machine, and is its downward API volume there?", dialTimeout))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	proved := make(chan *yamux.Session)
	var mu sync.Mutex
	refused := errors.New("nobody has")
	go func() {
		places := make(chan struct{}, maxStrangers)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			places <- struct{}{}
			go func() {
				defer func() { <-places }()
				session, err := stream.Accept(ctx, conn, key)
				if err != nil {
					mu.Lock()
					refused = err
					mu.Unlock()
					return
				}
				select {
				case proved <- session:
				case <-ctx.Done():
					_ = session.Close() // it came too late
				}
			}()
		}
	}()
	select {
	case session := <-proved:
		return session, nil
	case <-ctx.Done():
		mu.Lock()
		defer mu.Unlock()
		return nil, fmt.Errorf("%w (last to try: %w)", context.Cause(ctx), refused)
	}
}
