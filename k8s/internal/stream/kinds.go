package stream

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/nacre-dev/nacre/internal/sandbox/inside"
)

// Kind says what a stream carries.
type Kind string

// The streams that the host opens, each once, in this order.
const (
	// Control carries the work to the pod, and then what PID 1 reports and is told.
	Control Kind = "control"
	// Files carries the snapshot to the pod, and Return what comes back.
	Files  Kind = "files"
	Return Kind = "return"
	Stdin  Kind = "stdin"
	Stdout Kind = "stdout"
	Stderr Kind = "stderr"
)

// Socket is what the pod opens, for each connection that is made inside.
const Socket Kind = "socket"

// openTimeout is how long the other end may take to say what a stream is for.
const openTimeout = 10 * time.Second

// opening is the first message of a stream.
type opening struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name,omitempty"` // of a Socket
}

// Open makes a stream of a kind; name is a socket's.
func Open(session *yamux.Session, kind Kind, name string) (*yamux.Stream, error) {
	s, err := session.OpenStream()
	if err != nil {
		return nil, err
	}
	if err := inside.Send(s, opening{kind, name}); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Expect takes the next stream, which must be of this kind.
func Expect(session *yamux.Session, kind Kind) (*yamux.Stream, error) {
	s, err := session.AcceptStream()
	if err != nil {
		return nil, err
	}
	have, _, err := Opened(s)
	if err == nil && have != kind {
		err = fmt.Errorf("stream %q came where %q was expected", have, kind)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Opened reads what an accepted stream is for.
func Opened(s net.Conn) (Kind, string, error) {
	if err := s.SetReadDeadline(time.Now().Add(openTimeout)); err != nil {
		return "", "", err
	}
	var o opening
	if err := inside.Receive(s, &o); err != nil {
		return "", "", fmt.Errorf("stream without a kind: %w", err)
	}
	return o.Kind, o.Name, s.SetReadDeadline(time.Time{})
}

// Join carries bytes between the two until both have ended. Each direction ends by itself.
func Join(conn net.Conn, s *yamux.Stream) {
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(s, conn) // an error ends this direction, as the end of the stream does
		_ = s.Close()
	})
	both.Go(func() {
		_, _ = io.Copy(conn, s)
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite() // it may be gone
		}
	})
	both.Wait()
}
