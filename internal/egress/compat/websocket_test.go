package compat_test

import (
	"bufio"
	"crypto/sha1" //nolint:gosec // the protocol's own (RFC 6455, 4.2.2)
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
)

// websocket echoes short text frames (RFC 6455) until the client closes.
func websocket(w http.ResponseWriter, r *http.Request) {
	conn, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // the protocol's own
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		base64.StdEncoding.EncodeToString(sum[:]))
	for {
		opcode, text, err := frame(buffered.Reader)
		if err != nil || opcode != 1 {
			_, _ = conn.Write([]byte{0x88, 0})
			return
		}
		_, _ = conn.Write(append([]byte{0x81, byte(len(text))}, text...))
	}
}

// frame reads one masked frame of less than 126 bytes.
func frame(r *bufio.Reader) (opcode byte, text []byte, err error) {
	var head [6]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	text = make([]byte, head[1]&0x7f)
	_, err = io.ReadFull(r, text)
	for i := range text {
		text[i] ^= head[2+i%4]
	}
	return head[0] & 15, text, err
}
