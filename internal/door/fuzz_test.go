package door_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/nacre-dev/nacre/internal/zmtp"
)

// FuzzConnection writes any bytes to a door, with and without a handshake
// before them: the connection ends, and the session goes on.
func FuzzConnection(f *testing.F) {
	f.Add(true, zmtp.AppendMessage(nil, nil, []byte(request("echo", "c"))))
	f.Add(true, zmtp.AppendCommand(nil, zmtp.Ping, []byte("\x00\x01x")))
	f.Add(true, bytes.Repeat([]byte{1, 0}, 300))
	f.Add(true, zmtp.AppendMessage(zmtp.AppendMessage(nil, []byte("null")), []byte(request("leaks", "c")), nil))
	f.Add(false, zmtp.AppendReady(zmtp.AppendGreeting(nil), zmtp.Property{Name: "Socket-Type", Value: "REQ"}))
	f.Add(false, []byte("GET /"))
	s := serve(f, crew(), config{})
	f.Fuzz(func(t *testing.T, shake bool, stream []byte) {
		nc := raw(t, s)
		if shake {
			stream = append(zmtp.AppendReady(zmtp.AppendGreeting(nil), zmtp.Property{Name: "Socket-Type", Value: "DEALER"}), stream...)
		}
		_, _ = nc.Write(stream) // it may be closed before it took everything
		_ = nc.CloseWrite()     // the same
		if _, err := io.Copy(io.Discard, nc); isTimeout(err) {
			t.Fatal("the connection does not end")
		}
		alive(t, s)
	})
}

func isTimeout(err error) bool {
	timeout, ok := err.(interface{ Timeout() bool })
	return ok && timeout.Timeout()
}
