package egress

import (
	"bufio"
	"encoding/binary"
	"io"
	"strings"
)

const (
	recordCCS       = 20
	recordAlert     = 21
	recordHandshake = 22
	recordData      = 23
	recordHeader    = 5
	// maxRecord is the largest plaintext record of TLS (RFC 8446, 5.1).
	maxRecord = 1 << 14
	// maxHello is the largest client hello: post-quantum keys and a ticket take a few KiB.
	maxHello = 64 << 10

	handshakeClientHello = 1

	extServerName = 0
	extEarlyData  = 42
	extESNI       = 0xffce
	// What ECH is and was numbered: 0xfe0d, its drafts around it and before, and
	// the marker of an inner hello.
	extECHFirst, extECHLast           = 0xfe00, 0xfe0f
	extECHOldDraft, extECHOldDraftTwo = 0xff02, 0xff03
	extECHOuter                       = 0xfd00
)

// readHello reads a whole client hello, which may be spread over records, and
// checks that it names host. It returns the records as they came.
func readHello(r *bufio.Reader, host string) (raw []byte, err error) {
	var message []byte
	for {
		fragment, record, err := readHandshakeRecord(r)
		if err != nil {
			return nil, err
		}
		raw = append(raw, record...)
		message = append(message, fragment...)
		if message[0] != handshakeClientHello {
			return nil, refusal(ReasonNotTLS, "the connection does not begin with a TLS client hello")
		}
		if len(message) < 4 {
			continue
		}
		size := 4 + int(message[1])<<16 + int(message[2])<<8 + int(message[3])
		switch {
		case size > maxHello || len(raw) > 2*maxHello:
			return nil, refusal(ReasonTooLarge, "the TLS client hello is too large")
		case len(message) > size:
			return nil, refusal(ReasonNotTLS, "something follows the TLS client hello in its record")
		case len(message) == size:
			return raw, checkHello(message[4:], host)
		}
	}
}

// readHandshakeRecord reads one plaintext handshake record that is not empty.
func readHandshakeRecord(r *bufio.Reader) (fragment, record []byte, err error) {
	var h [recordHeader]byte
	if _, err := io.ReadFull(r, h[:1]); err != nil {
		return nil, nil, notTLS(err)
	}
	if h[0] != recordHandshake {
		return nil, nil, notTLS(nil)
	}
	if _, err := io.ReadFull(r, h[1:]); err != nil {
		return nil, nil, notTLS(err)
	}
	size := int(binary.BigEndian.Uint16(h[3:]))
	if h[1] != 3 || size == 0 || size > maxRecord {
		return nil, nil, notTLS(nil)
	}
	record = make([]byte, recordHeader+size)
	copy(record, h[:])
	if _, err := io.ReadFull(r, record[recordHeader:]); err != nil {
		return nil, nil, notTLS(err)
	}
	return record[recordHeader:], record, nil
}

func notTLS(err error) error {
	if err != nil && isTimeout(err) {
		return err
	}
	return refusal(ReasonNotTLS, "the connection does not begin with a TLS client hello")
}

// checkHello accepts a client hello (RFC 8446, 4.1.2) whose one server name is host.
func checkHello(body []byte, host string) error {
	extensions, err := helloExtensions(body)
	if err != nil {
		return err
	}
	name, seen := "", map[uint16]bool{}
	for !extensions.empty() {
		kind, data := extensions.uint16(), extensions.vector16()
		if extensions.bad || seen[kind] {
			return refusal(ReasonNotTLS, "malformed TLS extensions")
		}
		seen[kind] = true
		switch {
		case hidesName(kind):
			return refusal(ReasonECH, "encrypted client hellos are refused: turn ECH off")
		case kind == extEarlyData:
			return refusal(ReasonEarlyData, "TLS early data is refused: turn it off")
		case kind == extServerName:
			if name, err = serverName(data); err != nil {
				return err
			}
		}
	}
	if name == "" {
		return refusal(ReasonNoSNI, "the TLS client hello names no server")
	}
	if !strings.EqualFold(name, host) {
		return refusal(ReasonSNIMismatch, "the TLS client hello names another server")
	}
	return nil
}

// hidesName reports whether an extension encrypts the name that the server acts on.
func hidesName(kind uint16) bool {
	switch kind {
	case extESNI, extECHOldDraft, extECHOldDraftTwo, extECHOuter:
		return true
	}
	return kind >= extECHFirst && kind <= extECHLast
}

// helloExtensions skips to the extensions, which must end the hello.
func helloExtensions(body []byte) (cursor, error) {
	c := cursor{rest: body}
	version := c.uint16()
	c.take(32)
	session := c.vector8()
	ciphers := c.vector16()
	compression := c.vector8()
	extensions := c.vector16()
	if c.bad || !c.empty() || version>>8 != 3 || len(session) > 32 ||
		len(ciphers) < 2 || len(ciphers)%2 != 0 || len(compression) == 0 {
		return cursor{}, refusal(ReasonNotTLS, "malformed TLS client hello")
	}
	return cursor{rest: extensions}, nil
}

// serverName reads a list of exactly one host name in ASCII (RFC 6066, 3).
func serverName(data []byte) (string, error) {
	outer := cursor{rest: data}
	list := cursor{rest: outer.vector16()}
	kind, name := list.uint8(), list.vector16()
	if outer.bad || list.bad || !outer.empty() || !list.empty() || kind != 0 || len(name) == 0 {
		return "", refusal(ReasonNotTLS, "malformed TLS server name")
	}
	for _, c := range name {
		if c <= ' ' || c > '~' {
			return "", refusal(ReasonNotTLS, "malformed TLS server name")
		}
	}
	return string(name), nil
}

// cursor reads big-endian fields; what runs past the end sets bad.
type cursor struct {
	rest []byte
	bad  bool
}

func (c *cursor) empty() bool { return len(c.rest) == 0 }

func (c *cursor) take(n int) []byte {
	if c.bad || n > len(c.rest) {
		c.bad, c.rest = true, nil
		return nil
	}
	b := c.rest[:n]
	c.rest = c.rest[n:]
	return b
}

func (c *cursor) uint8() int {
	if b := c.take(1); b != nil {
		return int(b[0])
	}
	return 0
}

func (c *cursor) uint16() uint16 {
	if b := c.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) vector8() []byte  { return c.take(c.uint8()) }
func (c *cursor) vector16() []byte { return c.take(int(c.uint16())) }

// alert is a fatal TLS alert, so that a client says more than "connection closed".
func alert(reason Reason) []byte {
	const internalError, accessDenied = 80, 49
	code := byte(accessDenied)
	if reason == ReasonDial || reason == ReasonAudit {
		code = internalError
	}
	return []byte{recordAlert, 3, 3, 0, 2, 2, code}
}
