// Package outward is how nacre itself reaches the network where a company has put a proxy
// before it (U-07). It promises that a host which is reached through a proxy is reached by
// no other way, and that no error holds a password. It decides nothing: what may be
// reached was decided before it is asked.
package outward

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/nacre-dev/nacre"
)

const (
	// dialTimeout bounds the connection to a proxy.
	dialTimeout = 10 * time.Second
	// answerTimeout bounds a proxy's answer to a CONNECT: it resolves the name and
	// connects to the host meanwhile.
	answerTimeout = 30 * time.Second
	// maxHead is the largest head of that answer, in bytes.
	maxHead = 16 << 10
)

// Options say through which proxies the host itself reaches the network.
type Options struct {
	// Tunnels is the URL of the proxy for all but plain HTTP, and Plain of that for plain HTTP.
	// Each is http://HOST:PORT or https://HOST:PORT, with USER:PASSWORD@ where it wants them and
	// User is not set. Where one is empty, that is reached without a proxy.
	Tunnels, Plain string
	// Except are hosts that are reached without a proxy, as NO_PROXY has them.
	Except string
	// User and Password are for both proxies. The password is read for each connection.
	User     string
	Password func(ctx context.Context) (nacre.Secret, error)
	// NoSecrets refuses URLs that hold a password.
	NoSecrets bool
	// Roots verify a proxy's own certificate; nil means the system's.
	Roots *x509.CertPool
}

// Proxies are the proxies of a company (U-07). They are told the name of a host and
// resolve it: what is checked of a host is then its name. A host that they do not reach
// is not reached: nothing is tried without them. A nil one stands for none.
type Proxies struct {
	tunnels, plain *Server
	except         func(*url.URL) (*url.URL, error)
}

// Server is one proxy.
type Server struct {
	address  string
	secured  *tls.Config // nil where it is spoken to in the clear
	user     string
	password func(ctx context.Context) (nacre.Secret, error)
}

// New reads the proxies; nil where none is named. No error repeats a URL, which
// may hold a password.
func New(o Options) (*Proxies, error) {
	tunnels, err := o.server(o.Tunnels)
	if err != nil {
		return nil, err
	}
	plain, err := o.server(o.Plain)
	if err != nil || tunnels == nil && plain == nil {
		return nil, err
	}
	const somewhere = "http://proxy"
	except := &httpproxy.Config{HTTPProxy: somewhere, HTTPSProxy: somewhere, NoProxy: o.Except}
	return &Proxies{tunnels: tunnels, plain: plain, except: except.ProxyFunc()}, nil
}

func (o Options) server(text string) (*Server, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // none
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text // as curl and others read the variables
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
		return nil, errors.New("a proxy is http://HOST:PORT or https://HOST:PORT")
	}
	if u.User != nil && o.NoSecrets {
		return nil, errors.New("the URL of a proxy has no user and no password here: user, and password_env or password_file, name them")
	}
	port, s := u.Port(), &Server{user: o.User, password: o.Password}
	if u.Scheme == "https" {
		s.secured = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.Roots, ServerName: u.Hostname(), NextProtos: []string{"http/1.1"}}
	}
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	s.address = net.JoinHostPort(u.Hostname(), port)
	if password, given := u.User.Password(); given && o.User == "" {
		s.user = u.User.Username()
		s.password = func(context.Context) (nacre.Secret, error) { return nacre.NewSecret(password), nil }
	}
	return s, nil
}

// Through is the proxy that a host is reached through; nil where that is none.
func (p *Proxies) Through(host string, port uint16, plain bool) *Server {
	if p == nil {
		return nil
	}
	server := p.tunnels
	if plain {
		server = p.plain
	}
	if through, err := p.except(&url.URL{Scheme: "https", Host: net.JoinHostPort(host, strconv.Itoa(int(port)))}); err != nil || through == nil {
		return nil
	}
	return server
}

// Dial gives what http.Transport dials with: a tunnel through the proxy, or direct for
// hosts that are excepted. A nil Proxies gives direct.
func (p *Proxies) Dial(direct func(ctx context.Context, network, address string) (net.Conn, error)) func(ctx context.Context, network, address string) (net.Conn, error) {
	if p == nil {
		return direct
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return nil, err
		}
		if server := p.Through(strings.ToLower(host), uint16(number), false); server != nil {
			return server.Connect(ctx, host, uint16(number))
		}
		return direct(ctx, network, address)
	}
}

// Authorization is the header of a request to the proxy, whole, or "".
func (s *Server) Authorization(ctx context.Context) (string, error) {
	if s.password == nil {
		return "", nil
	}
	secret, err := s.password(ctx)
	if err != nil {
		return "", s.refused("the password for the operator's proxy cannot be read")
	}
	return "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(s.user+":"+secret.Reveal())) + "\r\n", nil
}

func (s *Server) refused(why string) error { return &Refused{Proxy: s.address, Why: why} }

// Refused is why a proxy did not let a host be reached.
type Refused struct {
	// Proxy is its HOST:PORT.
	Proxy string
	Why   string
}

func (r *Refused) Error() string { return r.Why }

// Address is the proxy's own HOST:PORT.
func (s *Server) Address() string { return s.address }

// Dial connects to the proxy itself.
func (s *Server) Dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", s.address)
	if err != nil {
		return nil, s.refused("the operator's proxy could not be reached")
	}
	if s.secured == nil {
		return conn, nil
	}
	secured := tls.Client(conn, s.secured)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, s.refused("the certificate of the operator's proxy is not trusted")
	}
	return secured, nil
}

// Connect asks the proxy for a tunnel to a host.
func (s *Server) Connect(ctx context.Context, host string, port uint16) (net.Conn, error) {
	authorization, err := s.Authorization(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := s.Dial(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	tunnel, err := s.tunnel(conn, net.JoinHostPort(host, strconv.Itoa(int(port))), authorization)
	if !stop() || err != nil {
		_ = conn.Close()
		return nil, errors.Join(err, ctx.Err())
	}
	return tunnel, nil
}

func (s *Server) tunnel(conn net.Conn, to, authorization string) (net.Conn, error) {
	_ = conn.SetDeadline(time.Now().Add(answerTimeout))
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", to, to, authorization); err != nil {
		return nil, s.refused("the operator's proxy could not be reached")
	}
	r := bufio.NewReader(io.LimitReader(conn, maxHead))
	answer, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return nil, s.refused("the operator's proxy did not answer")
	}
	_ = answer.Body.Close() // the answer to a CONNECT has none
	switch {
	case answer.StatusCode == http.StatusProxyAuthRequired:
		return nil, s.refused("the operator's proxy wants other credentials: [egress.proxy] names them")
	case answer.StatusCode < 200 || answer.StatusCode > 299:
		return nil, s.refused("the operator's proxy refused it: it answered " + strconv.Itoa(answer.StatusCode))
	}
	_ = conn.SetDeadline(time.Time{})
	first, err := r.Peek(r.Buffered()) // what the host said at once
	if err != nil || len(first) == 0 {
		return conn, err
	}
	return &begun{Conn: conn, from: io.MultiReader(bytes.NewReader(bytes.Clone(first)), conn)}, nil
}

// begun is a connection of which something was read already.
type begun struct {
	net.Conn
	from io.Reader
}

// Read implements net.Conn.
func (b *begun) Read(p []byte) (int, error) { return b.from.Read(p) }

// CloseWrite tells the other side that no more will come.
func (b *begun) CloseWrite() error {
	if half, ok := b.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return b.Close()
}

// Reach connects to where a host is asked: the proxy itself, which is asked for URLs of
// plain HTTP, or a tunnel to the host.
func (s *Server) Reach(ctx context.Context, host string, port uint16, plain bool) (net.Conn, error) {
	if plain {
		return s.Dial(ctx)
	}
	return s.Connect(ctx, host, port)
}
