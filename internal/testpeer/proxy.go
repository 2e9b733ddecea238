package testpeer

import (
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
)

// Proxy is a company's HTTP proxy: it resolves names itself, and leads all of them to one place of
// this machine. It refuses what has "forbidden" in it, and may want a user and a password.
type Proxy struct {
	// To is the address that it leads to.
	To string
	// Want is USER:PASSWORD, or "" where it wants neither.
	Want string
	// Plain answers requests that want no tunnel; "" leads them on too.
	Plain string

	mu    sync.Mutex
	asked []string
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked = append(p.asked, r.Method+" "+r.RequestURI)
	p.mu.Unlock()
	if have := r.Header.Get("Proxy-Authorization"); p.Want != "" && have != "Basic "+base64.StdEncoding.EncodeToString([]byte(p.Want)) {
		w.Header().Set("Proxy-Authenticate", "Basic")
		http.Error(w, "who are you?", http.StatusProxyAuthRequired)
		return
	}
	if strings.Contains(r.RequestURI, "forbidden") {
		http.Error(w, "not from here", http.StatusForbidden)
		return
	}
	if r.Method != http.MethodConnect && p.Plain != "" {
		_, _ = io.WriteString(w, p.Plain)
		return
	}
	up, err := net.Dial("tcp", p.To)
	if err != nil {
		http.Error(w, "no route", http.StatusBadGateway)
		return
	}
	defer func() { _ = up.Close() }()
	conn, client, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	if r.Method == http.MethodConnect {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(up, client); _ = up.(*net.TCPConn).CloseWrite() }()
	} else {
		_, _ = fmt.Fprintf(up, "%s %s HTTP/1.1\r\nHost: %s\r\n\r\n", r.Method, r.RequestURI, r.Host)
	}
	_, _ = io.Copy(conn, up)
}

// Log is what it was asked for, a line each.
func (p *Proxy) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.asked, "\n")
}
