// Package zmtp promises the framing of ZMTP 3.0 and 3.1 with the NULL
// mechanism, both ways: greeting, READY, commands, multipart messages. It reads
// from an io.Reader and appends to byte slices; every limit holds before memory
// is taken for what a peer announces. It opens nothing, keeps no clock, and
// takes nothing that a peer says of itself as identity (D-01, D-03).
package zmtp

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// GreetingSize is the length of a greeting, in bytes.
const GreetingSize = 64

const (
	signatureSize = 10
	majorAt       = 10
	mechanismAt   = 12
	mechanismSize = 20
)

// maxCommand is the largest command that is read, in bytes: a READY with its
// properties, or a PING.
const maxCommand = 4 << 10

// The bits of a frame's first byte; the others must be 0.
const (
	flagMore    = 1 << 0
	flagLong    = 1 << 1
	flagCommand = 1 << 2
)

// The names of the commands that are understood.
const (
	Ready = "READY"
	Error = "ERROR"
	Ping  = "PING"
	Pong  = "PONG"
)

// SocketType is the property of a READY command that every peer sends.
const SocketType = "Socket-Type"

// ErrProtocol is under every error that a peer caused by not speaking ZMTP 3 within the limits. The
// connection is of no further use.
var ErrProtocol = errors.New("not ZMTP 3")

func broken(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

// AppendGreeting appends our greeting: version 3.1, NULL mechanism.
func AppendGreeting(dst []byte) []byte {
	var g [GreetingSize]byte
	g[0], g[9] = 0xff, 0x7f
	g[majorAt], g[majorAt+1] = 3, 1
	copy(g[mechanismAt:], "NULL")
	return append(dst, g[:]...)
}

// checkGreeting accepts a greeting, or as much of one as has come, of version
// 3 or later with the NULL mechanism.
func checkGreeting(g []byte) error {
	if len(g) > 0 && g[0] != 0xff || len(g) >= signatureSize && g[9]&1 == 0 {
		return broken("no signature")
	}
	if len(g) > majorAt && g[majorAt] < 3 {
		return broken("version %d", g[majorAt])
	}
	if len(g) < GreetingSize {
		return nil
	}
	var null [mechanismSize]byte
	copy(null[:], "NULL")
	if [mechanismSize]byte(g[mechanismAt:mechanismAt+mechanismSize]) != null {
		return broken("a mechanism other than NULL")
	}
	return nil
}

// Property is one name and value of a READY command.
type Property struct{ Name, Value string }

// AppendReady appends a READY command with the properties, in their order.
// Names are at most 255 bytes.
func AppendReady(dst []byte, properties ...Property) []byte {
	var body []byte
	for _, p := range properties {
		body = append(body, byte(len(p.Name)))
		body = append(body, p.Name...)
		body = binary.BigEndian.AppendUint32(body, uint32(len(p.Value)))
		body = append(body, p.Value...)
	}
	return AppendCommand(dst, Ready, body)
}

// ParseProperties reads the body of a READY command. A name twice is an
// error, in another case too, since names are compared without case.
func ParseProperties(body []byte) ([]Property, error) {
	var properties []Property
	for len(body) > 0 {
		name, rest, ok := cut(body[1:], uint64(body[0]))
		if !ok || len(name) == 0 || len(rest) < 4 {
			return nil, broken("malformed READY")
		}
		value, rest, ok := cut(rest[4:], uint64(binary.BigEndian.Uint32(rest)))
		if !ok {
			return nil, broken("malformed READY")
		}
		if _, twice := Lookup(properties, string(name)); twice {
			return nil, broken("a property twice in READY")
		}
		properties = append(properties, Property{string(name), string(value)})
		body = rest
	}
	return properties, nil
}

func cut(b []byte, n uint64) (head, rest []byte, ok bool) {
	if n > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}

// Lookup finds a property by name, without case in ASCII.
func Lookup(properties []Property, name string) (value string, ok bool) {
	for _, p := range properties {
		if equalFold(p.Name, name) {
			return p.Value, true
		}
	}
	return "", false
}

func equalFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// AppendCommand appends a command; its name is at most 255 bytes.
func AppendCommand(dst []byte, name string, body []byte) []byte {
	dst = appendHead(dst, flagCommand, 1+len(name)+len(body))
	dst = append(dst, byte(len(name)))
	dst = append(dst, name...)
	return append(dst, body...)
}

// AppendPong appends the answer to a PING with this body; ok is false where
// the PING is malformed.
func AppendPong(dst, ping []byte) (pong []byte, ok bool) {
	const ttl, maxContext = 2, 16
	if len(ping) < ttl || len(ping) > ttl+maxContext {
		return dst, false
	}
	return AppendCommand(dst, Pong, ping[ttl:]), true
}

// AppendMessage appends a message of these parts, of which there is at least one.
func AppendMessage(dst []byte, parts ...[]byte) []byte {
	for i, part := range parts {
		flags := byte(flagMore)
		if i == len(parts)-1 {
			flags = 0
		}
		dst = append(appendHead(dst, flags, len(part)), part...)
	}
	return dst
}

// Room is what Framed needs before a body, in bytes: an empty part and the
// longest head.
const Room = 2 + 9

// Framed makes a message of what b holds from Room on, in place: alone, or
// behind an empty part. The bytes before Room are its to write.
func Framed(b []byte, delimited bool) []byte {
	var head [Room]byte
	var parts []byte
	if delimited {
		parts = appendHead(head[:0], flagMore, 0)
	} else {
		parts = head[:0]
	}
	parts = appendHead(parts, 0, len(b)-Room)
	start := Room - len(parts)
	copy(b[start:], parts)
	return b[start:]
}

func appendHead(dst []byte, flags byte, size int) []byte {
	if size <= 0xff {
		return append(dst, flags, byte(size))
	}
	return binary.BigEndian.AppendUint64(append(dst, flags|flagLong), uint64(size))
}
