package egress

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"sync/atomic"
)

// helloGuard reads a client's stream after its first hello. A server may ask for a second one (RFC
// 8446, 4.1.4), which must name the same host. The guard ends with the first record that no server
// would take a hello after, or when the server was seen not to ask for one. From then on records
// are encrypted, and may look like anything.
type helloGuard struct {
	r       *bufio.Reader
	host    string
	server  *serverWatch
	pending []byte
	done    bool
}

func (g *helloGuard) Read(p []byte) (int, error) {
	if len(g.pending) == 0 && !g.done {
		if err := g.next(); err != nil {
			return 0, err
		}
	}
	if len(g.pending) > 0 {
		n := copy(p, g.pending)
		g.pending = g.pending[n:]
		return n, nil
	}
	return g.r.Read(p)
}

func (g *helloGuard) next() error {
	b, err := g.r.Peek(recordHeader + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if len(b) <= recordHeader || g.server.settled.Load() {
		g.done = true
		return nil
	}
	size := binary.BigEndian.Uint16(b[3:])
	switch {
	case b[0] == recordCCS && size == 1, b[0] == recordAlert && size == 2:
		g.pending = make([]byte, recordHeader+int(size))
		_, err = io.ReadFull(g.r, g.pending)
		return err
	case b[0] == recordHandshake && b[5] == handshakeClientHello:
		g.pending, err = readHello(g.r, g.host)
		return err
	case size == 0 || b[0] < recordCCS || b[0] > recordData:
		return refusal(ReasonNotTLS, "not a TLS record that may follow a client hello")
	}
	g.done = true
	return nil
}

const (
	// watchLimit is how much of a server's stream is looked at, in bytes.
	watchLimit = 1 << 10
	// handshakeServerHello precedes the hello's length, version and random value.
	handshakeServerHello = 2
	randomAt, randomSize = 4 + 2, 32
)

// helloRetry is the random value of a ServerHello that asks for a second hello
// (RFC 8446, 4.1.3).
const helloRetry = "\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91" +
	"\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c"

// serverWatch reads a server's stream until it has seen whether the server
// asks for a second hello. What it cannot tell leaves the guard up.
type serverWatch struct {
	r    io.Reader
	seen []byte
	over bool
	// settled says that the server took the first hello.
	settled atomic.Bool
}

func (w *serverWatch) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if n > 0 && !w.over {
		w.seen = append(w.seen, p[:min(n, watchLimit)]...)
		w.look()
	}
	return n, err
}

// look skips warnings, which may come before the hello, and reads its random value.
func (w *serverWatch) look() {
	message, strange := handshakeOf(w.seen)
	switch {
	case len(message) >= randomAt+randomSize:
		w.settled.Store(message[0] == handshakeServerHello && !bytes.Equal(message[randomAt:randomAt+randomSize], []byte(helloRetry)))
	case !strange && len(w.seen) < watchLimit:
		return
	}
	w.over, w.seen = true, nil
}

// handshakeOf joins what a stream's handshake records hold, up to a record of another kind.
func handshakeOf(stream []byte) (message []byte, strange bool) {
	for len(stream) >= recordHeader {
		end := min(recordHeader+int(binary.BigEndian.Uint16(stream[3:])), len(stream))
		switch stream[0] {
		case recordHandshake:
			message = append(message, stream[recordHeader:end]...)
		case recordAlert:
		default:
			return message, true
		}
		stream = stream[end:]
	}
	return message, false
}
