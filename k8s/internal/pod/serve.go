package pod

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/sandbox/inside"
	"github.com/nacre-dev/nacre/k8s/internal/snapshot"
	"github.com/nacre-dev/nacre/k8s/internal/stream"
)

// Work is what the host gives a pod, on the control stream.
type Work struct {
	Entries []inside.PodEntry `json:"entries"`
	Sockets []string          `json:"sockets,omitempty"` // names in nacre.SocketDir
	Input   bool              `json:"input,omitempty"`
	Inside  inside.Container  `json:"inside"`
}

// Ready answers the work: the files are there, and the network is closed.
type Ready struct {
	Error string `json:"error,omitempty"`
}

// streams are those that the host opened.
type streams struct{ control, files, back, in, out, err *yamux.Stream }

// serve dials, is given its work, and does it.
func serve(ctx context.Context, address string, key stream.Key) error {
	session, err := dial(ctx, address, key)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }() // all was said
	s, err := expect(session)
	if err != nil {
		return err
	}
	var work Work
	if err := inside.Receive(s.control, &work); err != nil {
		return fmt.Errorf("work: %w", err)
	}
	placed, output, err := prepare(ctx, session, s, work)
	if err != nil {
		return errors.Join(inside.Send(s.control, Ready{Error: err.Error()}), drained(s.control))
	}
	if err := inside.Send(s.control, Ready{}); err != nil {
		return err
	}
	if err := work.Inside.Run(s.control, 0); err != nil {
		return err
	}
	_ = unix.Kill(-1, unix.SIGKILL) // what the agent left; nobody may be there
	output.Wait()
	err = placed.Return(s.back)
	if err == nil {
		err = s.back.Close()
	}
	return errors.Join(err, drained(s.back))
}

// drained waits until the host has nothing more to say: a session that is closed loses
// what was not read.
func drained(s *yamux.Stream) error {
	_, err := io.Copy(io.Discard, s)
	return err
}

// dial tries for as long as a host may take to learn which pod it was given.
func dial(ctx context.Context, address string, key stream.Key) (*yamux.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, redial)
	defer cancel()
	for {
		session, err := stream.Dial(ctx, address, key)
		if err == nil {
			return session, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the host at %s: %w", address, err)
		case <-time.After(look):
		}
	}
}

func expect(session *yamux.Session) (streams, error) {
	var s streams
	for _, next := range []struct {
		kind stream.Kind
		to   **yamux.Stream
	}{
		{stream.Control, &s.control}, {stream.Files, &s.files}, {stream.Return, &s.back},
		{stream.Stdin, &s.in}, {stream.Stdout, &s.out}, {stream.Stderr, &s.err},
	} {
		var err error
		if *next.to, err = stream.Expect(session, next.kind); err != nil {
			return s, err
		}
	}
	return s, nil
}

// prepare does all that there has to be before there is an agent.
func prepare(ctx context.Context, session *yamux.Session, s streams, work Work) (*snapshot.Placed, *sync.WaitGroup, error) {
	if err := sealed(ctx); err != nil {
		return nil, nil, err
	}
	placed, err := snapshot.Place(s.files, work.Entries)
	if err != nil {
		return nil, nil, err
	}
	if err := offer(ctx, session, work.Sockets); err != nil {
		return nil, nil, fmt.Errorf("sockets: %w", err)
	}
	output, err := connect(s, work.Input)
	if err != nil {
		return nil, nil, fmt.Errorf("streams: %w", err)
	}
	return placed, output, nil
}

// offer listens where the session's sockets are in every sandbox, and leads each
// connection to the host's.
func offer(ctx context.Context, session *yamux.Session, names []string) error {
	if len(names) == 0 {
		return nil
	}
	if err := volume(nacre.SocketDir); err != nil {
		return err
	}
	for _, name := range names {
		l, err := new(net.ListenConfig).Listen(ctx, "unix", path.Join(nacre.SocketDir, path.Base(name)))
		if err != nil {
			return err
		}
		go lead(session, l, name)
	}
	return nil
}

func lead(session *yamux.Session, l net.Listener, name string) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = conn.Close() }() // either way it has ended
			to, err := stream.Open(session, stream.Socket, name)
			if err != nil {
				return
			}
			stream.Join(conn, to)
		}()
	}
}

// connect puts pipes in the place of this program's own streams, which the agent gets:
// they end with it. The group waits until what it wrote is the host's.
func connect(s streams, input bool) (*sync.WaitGroup, error) {
	var output sync.WaitGroup
	in, err := redirect(0, input)
	if err != nil {
		return nil, err
	}
	if in != nil {
		go func() {
			_, _ = io.Copy(in, s.in) // an agent that reads no more
			_ = in.Close()
		}()
	}
	for fd, to := range map[int]*yamux.Stream{1: s.out, 2: s.err} {
		out, err := redirect(fd, true)
		if err != nil {
			return nil, err
		}
		output.Go(func() {
			_, _ = io.Copy(to, out) // a host that is gone reads nothing
			_ = to.Close()
			_, _ = io.Copy(io.Discard, out) // which the agent need not know
		})
	}
	return &output, nil
}

// redirect makes one of the three streams the end of a pipe, or of nothing, and returns
// the other end.
func redirect(fd int, piped bool) (*os.File, error) {
	if !piped {
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		return nil, errors.Join(unix.Dup3(int(null.Fd()), fd, 0), null.Close())
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	theirs, ours := w, r
	if fd == 0 {
		theirs, ours = r, w
	}
	return ours, errors.Join(unix.Dup3(int(theirs.Fd()), fd, 0), theirs.Close())
}
