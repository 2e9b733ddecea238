package agent

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/guard"
)

const (
	// maxRefusals are heard at once; what comes beyond waits.
	maxRefusals = 8
	// refusalTime is how long a connection has to say what was refused.
	refusalTime = 10 * time.Second
)

// HearRefusals listens in a session's folder of sockets for the calls that the gates of
// its task refuse (M-65), until ctx ends or stop is called.
// Everything inside may speak there: who claims a refusal harms nobody but itself.
func HearRefusals(ctx context.Context, dir string, told func(guard.Refusal)) (stop func(), err error) {
	path := filepath.Join(dir, nacre.GateSocket)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // of the conversation before
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o666); err != nil { // the sandbox's user may be another; the folder is the session's
		return nil, errors.Join(err, listener.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	go func() {
		free := make(chan struct{}, maxRefusals)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			free <- struct{}{}
			go func() {
				defer func() { <-free }()
				hear(ctx, conn, told)
			}()
		}
	}()
	return cancel, nil
}

// hear takes one refusal. What is malformed refuses nothing more than was refused.
func hear(ctx context.Context, conn net.Conn, told func(guard.Refusal)) {
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	_ = conn.SetReadDeadline(time.Now().Add(refusalTime))
	_ = guard.Hear(conn, told)
}
