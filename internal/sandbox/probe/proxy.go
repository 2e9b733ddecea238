//go:build linux

package probe

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

// proxyTimeout of one exchange with the proxy.
const proxyTimeout = 3 * time.Second

// elsewhere is a host that no rule names.
const elsewhere = "elsewhere.example"

// proxyBypasses try to get past the egress proxy. Whatever it lets through ends
// at a decoy, which answers with the marker and what it was sent.
func proxyBypasses() []Probe {
	tunnels := map[string]func(Target) string{
		"proxy-unlisted-host": func(Target) string { return elsewhere + ":443" },
		"proxy-unlisted-port": func(t Target) string { return t.Allowed + ":22" },
		"proxy-address":       func(Target) string { return "93.184.215.14:443" },
		"proxy-loopback":      func(Target) string { return "127.0.0.1:443" },
		"proxy-decimal":       func(Target) string { return "2130706433:443" },
		"proxy-hex":           func(Target) string { return "0x7f.1:443" },
		"proxy-octal":         func(Target) string { return "0177.0.0.1:443" },
		"proxy-mapped-ipv6":   func(Target) string { return "[::ffff:127.0.0.1]:443" },
		"proxy-metadata":      func(Target) string { return "169.254.169.254:80" },
		"proxy-rebinding":     func(t Target) string { return t.Private + ":443" },
		"proxy-subdomain":     func(t Target) string { return "x." + t.Allowed + ":443" },
		"proxy-suffix":        func(t Target) string { return t.Allowed + "." + elsewhere + ":443" },
		"proxy-trailing-dot":  func(Target) string { return elsewhere + ".:443" },
		"proxy-user-info":     func(t Target) string { return t.Allowed + ":443@" + elsewhere + ":443" },
		"proxy-null":          func(t Target) string { return elsewhere + "\x00." + t.Allowed + ":443" },
		"proxy-path":          func(t Target) string { return elsewhere + ":443/" + t.Allowed },
		"proxy-two-targets":   func(t Target) string { return elsewhere + ":443 " + t.Allowed + ":443" },
	}
	var probes []Probe
	for _, name := range []string{
		"proxy-unlisted-host", "proxy-unlisted-port", "proxy-address", "proxy-loopback", "proxy-decimal", "proxy-hex", "proxy-octal",
		"proxy-mapped-ipv6", "proxy-metadata", "proxy-rebinding", "proxy-subdomain", "proxy-suffix", "proxy-trailing-dot",
		"proxy-user-info", "proxy-null", "proxy-path", "proxy-two-targets",
	} {
		probes = append(probes, Probe{"proxy", name, Always, func(t Target) Finding { return tunnel(t, tunnels[name](t), greet) }})
	}
	return append(probes, proxyGames()...)
}

// proxyGames speak otherwise than a client does, to hosts that are listed.
func proxyGames() []Probe {
	const class = "proxy"
	request := func(name, text, sign string) Probe {
		return Probe{class, name, Always, func(t Target) Finding {
			fill := strings.NewReplacer("PLAIN", t.Plain, "ALLOWED", t.Allowed, "ELSE", elsewhere)
			return exchange(t, fill.Replace(text), fill.Replace(sign))
		}}
	}
	return []Probe{
		{class, "proxy-server-name", Always, func(t Target) Finding {
			return tunnel(t, t.Allowed+":443", func(c net.Conn) { hello(c, elsewhere) })
		}},
		{class, "proxy-no-server-name", Always, func(t Target) Finding {
			return tunnel(t, t.Allowed+":443", func(c net.Conn) { hello(c, "") })
		}},
		{class, "proxy-plain-in-tunnel", Always, func(t Target) Finding { return tunnel(t, t.Allowed+":443", greet) }},
		{class, "proxy-ssh-in-tunnel", Always, func(t Target) Finding {
			return tunnel(t, t.Allowed+":443", func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-x\r\n") })
		}},
		request("proxy-absolute", "GET http://ELSE/ HTTP/1.1\r\nHost: ELSE\r\n\r\n", ""),
		request("proxy-origin-form", "GET / HTTP/1.1\r\nHost: ELSE\r\n\r\n", ""),
		request("proxy-host-header", "GET http://PLAIN/ HTTP/1.1\r\nHost: ELSE\r\n\r\n", "Host: ELSE"),
		request("proxy-two-hosts", "GET http://PLAIN/ HTTP/1.1\r\nHost: PLAIN\r\nHost: ELSE\r\n\r\n", "Host: ELSE"),
		request("proxy-user-in-url", "GET http://PLAIN@ELSE/ HTTP/1.1\r\nHost: ELSE\r\n\r\n", ""),
		request("proxy-bare-return", "GET http://PLAIN/ HTTP/1.1\r\nHost: PLAIN\r\nX: a\rHost: ELSE\r\n\r\n", "\rHost: ELSE"),
		request("proxy-bare-line", "GET http://PLAIN/ HTTP/1.1\r\nHost: PLAIN\r\nX: a\nHost: ELSE\r\n\r\n", "Host: ELSE"),
		request("proxy-folded", "GET http://PLAIN/ HTTP/1.1\r\nHost: PLAIN\r\nX: a\r\n Host: ELSE\r\n\r\n", "Host: ELSE"),
		request("proxy-smuggle",
			"POST http://PLAIN/ HTTP/1.1\r\nHost: PLAIN\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: ELSE\r\n\r\n", "Host: ELSE"),
		request("proxy-two-lengths",
			"POST http://PLAIN/ HTTP/1.1\r\nHost: PLAIN\r\nContent-Length: 0\r\nContent-Length: 40\r\n\r\nGET / HTTP/1.1\r\nHost: ELSE\r\n\r\n", "Host: ELSE"),
		request("proxy-https-as-http", "GET http://ALLOWED:443/ HTTP/1.1\r\nHost: ALLOWED:443\r\n\r\n", ""),
		request("proxy-scheme", "GET ftp://PLAIN/ HTTP/1.1\r\nHost: PLAIN\r\n\r\n", ""),
		{class, "proxy-second-request", Always, secondRequest},
	}
}

func (t Target) proxied() (net.Conn, error) {
	c, err := net.DialTimeout("tcp", t.Proxy, proxyTimeout)
	if err != nil {
		return nil, err
	}
	return c, c.SetDeadline(time.Now().Add(proxyTimeout))
}

// greet speaks first, and in the clear.
func greet(c net.Conn) { _, _ = io.WriteString(c, "GET / HTTP/1.0\r\n\r\n") }

// hello begins TLS with a server name, and leaves it at that.
func hello(c net.Conn, name string) {
	client := tls.Client(c, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	_ = client.Handshake() // it fails; what came back was read by c
}

// tunnel asks for a tunnel and speaks through it.
func tunnel(t Target, to string, speak func(net.Conn)) Finding {
	c, err := t.proxied()
	if err != nil {
		return untestable(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", to, to); err != nil {
		return blocked("%v", err)
	}
	heard := &listener{Conn: c}
	status := make([]byte, 12)
	if _, err := io.ReadFull(heard, status); err != nil || !bytes.HasSuffix(status, []byte(" 200")) {
		return blocked("%q %v", status, err)
	}
	rest := make([]byte, 1)
	for tail := ""; !strings.HasSuffix(tail, "\r\n\r\n"); tail += string(rest) {
		if _, err := heard.Read(rest); err != nil {
			return blocked("%v", err)
		}
	}
	speak(heard)
	_, _ = io.Copy(io.Discard, heard) // until the decoy, or the proxy, ends it
	return decide(t, heard.text.Bytes(), "")
}

// listener keeps what it reads.
type listener struct {
	net.Conn
	text bytes.Buffer
}

func (l *listener) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	l.text.Write(b[:n])
	return n, err
}

// exchange sends one request as it stands. Only an answer in which the decoy
// repeats sign got past.
func exchange(t Target, request, sign string) Finding {
	c, err := t.proxied()
	if err != nil {
		return untestable(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, request); err != nil {
		return blocked("%v", err)
	}
	text, err := io.ReadAll(io.LimitReader(c, 64<<10))
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return blocked("%v", err)
	}
	return decide(t, text, sign)
}

func decide(t Target, text []byte, sign string) Finding {
	if bytes.Contains(text, []byte(t.Marker)) && bytes.Contains(text, []byte(sign)) {
		return escaped("what was not listed answered")
	}
	return blocked("%.60q", text)
}

// secondRequest uses a connection that was let through once more, for another host.
func secondRequest(t Target) Finding {
	return exchange(t, fmt.Sprintf("GET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\nGET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n",
		t.Plain, t.Plain, elsewhere, elsewhere), "Host: "+elsewhere)
}
