package egress_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/urlpath"
)

// M-22: the authority is good for its hosts alone, whoever signs with it.
func TestTheAuthorityIsForItsHostsAlone(t *testing.T) {
	authority, err := egress.NewAuthority([]string{"example.com", "b.example"}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(authority.PEM())
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if !cert.PermittedDNSDomainsCritical || len(cert.PermittedDNSDomains) != 2 || len(cert.ExcludedIPRanges) != 2 || !cert.MaxPathLenZero || !cert.IsCA {
		t.Errorf("constraints: %+v", cert)
	}
	for _, hosts := range [][]string{nil, {"*.example.com"}, {"EXAMPLE.com"}, {"127.0.0.1"}, {""}} {
		if _, err := egress.NewAuthority(hosts, time.Now); err == nil {
			t.Errorf("an authority for %q", hosts)
		}
	}
	v := newVault(t, nil, nil)
	leaf := v.raw(t).ConnectionState().PeerCertificates[0]
	if life := leaf.NotAfter.Sub(leaf.NotBefore); life > 2*time.Hour || leaf.IsCA || leaf.VerifyHostname("other.example") == nil {
		t.Errorf("the leaf: %v, %v", life, leaf.DNSNames)
	}
}

func TestCredentialsThatAreNotCompleteAreRefused(t *testing.T) {
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	authority, _ := egress.NewAuthority([]string{"example.com"}, time.Now)
	for name, change := range map[string]func(*egress.Credential){
		"no name":                  func(c *egress.Credential) { c.Name = "" },
		"another host":             func(c *egress.Credential) { c.Host = "other.example" },
		"a wildcard":               func(c *egress.Credential) { c.Host = "*.example.com" },
		"no port":                  func(c *egress.Credential) { c.Port = 0 },
		"no paths":                 func(c *egress.Credential) { c.Paths = nil },
		"a path without a slash":   func(c *egress.Credential) { c.Paths = []string{"repos"} },
		"a path with dots":         func(c *egress.Credential) { c.Paths = []string{"/a/../b"} },
		"a path with escapes":      func(c *egress.Credential) { c.Paths = []string{"/a%20b"} },
		"a method in small":        func(c *egress.Credential) { c.Methods = []string{"get"} },
		"CONNECT":                  func(c *egress.Credential) { c.Methods = []string{"CONNECT"} },
		"no scheme":                func(c *egress.Credential) { c.Scheme = "" },
		"no header":                func(c *egress.Credential) { c.Header = "" },
		"Host as header":           func(c *egress.Credential) { c.Header = "Host" },
		"a header with a value":    func(c *egress.Credential) { c.Header = "X: y" },
		"query without its name":   func(c *egress.Credential) { c.Scheme = egress.SchemeQuery },
		"a user for bearer":        func(c *egress.Credential) { c.User = "me" },
		"sigv4 without its region": func(c *egress.Credential) { c.Scheme = egress.SchemeSigV4 },
		"no source":                func(c *egress.Credential) { c.Material = nil },
	} {
		c := credential(srv)
		change(&c)
		_, err := egress.New(egress.Options{Record: newLedger(), Now: time.Now, Credentials: []egress.Credential{c}, Authority: authority})
		if err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := egress.New(egress.Options{Record: newLedger(), Now: time.Now, Credentials: []egress.Credential{credential(srv)}}); err == nil {
		t.Error("credentials without an authority are accepted")
	}
}

// A host that a credential is for is not reached over a plain tunnel, where it would pass unseen.
func TestAnOpenedHostIsReachedOverTLSAlone(t *testing.T) {
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	authority, _ := egress.NewAuthority([]string{"example.com"}, time.Now)
	_, socket := start(t, egress.Options{
		Rules:       []nacre.EgressRule{rule("example.com", 443, nacre.ProtocolTCP, pinOf(t, srv))},
		Credentials: []egress.Credential{credential(srv)}, Authority: authority,
	})
	conn := dial(t, socket)
	_, _ = io.WriteString(conn, "CONNECT example.com:443 HTTP/1.1\r\n\r\n")
	if answer := status(t, conn); answer.code != 403 || strings.Contains(answer.body, "--egress") {
		t.Errorf("have %d %s", answer.code, answer.body)
	}
}

// The session's limits hold for requests as for connections.
func TestRequestsCountAgainstTheSessionsTotal(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	authority, _ := egress.NewAuthority([]string{"example.com"}, time.Now)
	few := &vault{log: newLedger(), pool: x509.NewCertPool()}
	few.pool.AppendCertsFromPEM(authority.PEM())
	few.proxy, few.socket = start(t, egress.Options{
		Rules: []nacre.EgressRule{rule("example.com", 443, nacre.ProtocolTLS, pinOf(t, srv))}, Record: few.log,
		Credentials: []egress.Credential{credential(srv)}, Authority: authority, Limits: egress.Limits{Total: 4},
	})
	client := few.client(t, true)
	for i, want := range []int{200, 200, 200, 403, 403, 403} {
		resp, err := client.Get("https://example.com/user")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("request %d: %d", i, resp.StatusCode)
		}
	}
	// They are without an end, and the disk is not.
	if denied := few.log.find(nacre.OutcomeDenied); len(denied) != 1 || denied[0].Reason != string(egress.ReasonSpent) {
		t.Errorf("have %+v", denied)
	}
}

// What is no secret passes the search byte for byte, and little of it waits.
func FuzzLeakScan(f *testing.F) {
	for _, text := range encodings() {
		f.Add([]byte(text), 3)
	}
	f.Add([]byte("%%%\\u00%41\\x4\\\\\n\r\n\n"), 1)
	f.Add([]byte(theSecret[:12]+"%6e0\\"), 2)
	f.Fuzz(func(t *testing.T, stream []byte, n int) {
		n = 1 + (n&0xff)%64
		clear, leak, most := egress.LeakScan([]string{theSecret, "second-secret"}, stream, n)
		if most > 32*len(theSecret) { // of each 3 bytes 4 characters, each with an escaped line end
			t.Errorf("%d bytes wait", most)
		}
		if !leak && !bytes.Equal(clear, stream) {
			t.Errorf("have %q, want %q", clear, stream)
		}
		if leak && !bytes.HasPrefix(stream, clear) {
			t.Errorf("what came through is not what was sent")
		}
		for _, form := range []string{theSecret, hex.EncodeToString([]byte(theSecret)), base64.StdEncoding.EncodeToString([]byte(theSecret))[:30]} {
			if bytes.Contains(stream, []byte(form)) && !leak || bytes.Contains(clear, []byte(form)) {
				t.Errorf("%q came through", form)
			}
		}
	})
}

// However a server decodes a path that was let through, it stays below the prefix.
func FuzzPath(f *testing.F) {
	for _, g := range games() {
		f.Add(g.target)
	}
	f.Fuzz(func(t *testing.T, target string) {
		p, err := egress.CheckTarget(target)
		if err != nil || !urlpath.Below(p, "/repos/acme/") {
			return
		}
		reading := p
		for range 6 {
			cut := reading
			if i := strings.IndexByte(cut, ';'); i >= 0 {
				cut = cut[:i]
			}
			for _, r := range []string{reading, cut, strings.ReplaceAll(reading, `\`, "/")} {
				if clean := path.Clean(r) + "/"; !strings.HasPrefix(clean, "/repos/acme/") {
					t.Fatalf("%q reads as %q", target, clean)
				}
			}
			next, err := url.PathUnescape(reading)
			if err != nil {
				break
			}
			reading = next
		}
	})
}

// BenchmarkOpened is one request on a connection that is open, answered with size bytes. It goes
// direct, passed through, and opened: with the credential added, the answer searched and every
// request recorded durably.
func BenchmarkOpened(b *testing.B) {
	for _, size := range []int{100, 1 << 20} {
		payload := bytes.Repeat([]byte("the quick brown fox jumps over the lazy dog 0123456789\n"), size/55+1)[:size]
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(payload) }))
		srv.EnableHTTP2 = true
		srv.StartTLS()
		run := func(b *testing.B, client *http.Client, where string) {
			b.SetBytes(int64(size))
			for b.Loop() {
				resp, err := client.Get(where)
				if err != nil {
					b.Fatal(err)
				}
				if n, _ := io.Copy(io.Discard, resp.Body); n != int64(size) {
					b.Fatalf("%d bytes", n)
				}
				_ = resp.Body.Close()
			}
			client.CloseIdleConnections()
		}
		b.Run(fmt.Sprintf("%d bytes/floor", size), func(b *testing.B) { run(b, &http.Client{Transport: srv.Client().Transport}, srv.URL+"/user") })
		b.Run(fmt.Sprintf("%d bytes/passed through", size), func(b *testing.B) {
			client := throughProxy(proxied(b, pinOf(b, srv), durable(b)), srv)
			run(b, client, "https://example.com/user")
		})
		for name, record := range map[string]func() nacre.Recorder{"ours": func() nacre.Recorder { return durable(b) }, "ours, records in memory": func() nacre.Recorder { return audit.Memory(1000) }} {
			b.Run(fmt.Sprintf("%d bytes/%s", size, name), func(b *testing.B) { run(b, openedClient(b, srv, record()), "https://example.com/user") })
		}
		srv.Close()
	}
}

func openedClient(b *testing.B, srv *httptest.Server, record nacre.Recorder) *http.Client {
	b.Helper()
	authority, err := egress.NewAuthority([]string{"example.com"}, time.Now)
	if err != nil {
		b.Fatal(err)
	}
	v := &vault{pool: x509.NewCertPool()}
	v.pool.AppendCertsFromPEM(authority.PEM())
	_, v.socket = start(b, egress.Options{
		Rules: []nacre.EgressRule{rule("example.com", 443, nacre.ProtocolTLS, pinOf(b, srv))}, Record: record,
		Credentials: []egress.Credential{credential(srv)}, Authority: authority, Limits: egress.Limits{Total: math.MaxInt64, Bytes: math.MaxInt64},
	})
	return v.client(b, true)
}

// BenchmarkLeakScan is the search alone, of text that holds nothing.
func BenchmarkLeakScan(b *testing.B) {
	text := bytes.Repeat([]byte("{\"name\": \"the quick brown fox\", \"url\": \"https:\\/\\/example.com\\/x%20y\"},\n"), 1000)
	b.Run("ours", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			if _, leak, _ := egress.LeakScan([]string{theSecret}, text, 32<<10); leak {
				b.Fatal("a leak")
			}
		}
	})
	b.Run("floor", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			_ = bytes.Contains(append([]byte(nil), text...), []byte(theSecret))
		}
	})
}

// A connection of a session that ends, ends.
func TestOpenedConnectionsEndWithTheSession(t *testing.T) {
	started := make(chan struct{})
	v := newVault(t, func(w http.ResponseWriter, r *http.Request) {
		close(started)
		<-r.Context().Done()
	}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", "https://example.com/user", nil)
	done := make(chan error, 1)
	client := v.client(t, true)
	go func() {
		resp, err := client.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		done <- err
	}()
	<-started
	cancel() // the client is gone: the request to the host ends too, and is recorded
	if err := <-done; err == nil {
		t.Error("the request has an answer")
	}
	v.log.await(t, egress.OutcomeAnswered, 1)
	v.raw(t, "h2") // left open: the proxy's end closes it
}

// Base64 is found wherever in it something is escaped, also where nothing was
// for long before, and after.
func TestBase64IsFoundWhereverItIsEscaped(t *testing.T) {
	plain := strings.Repeat("n0t-in-here, but like it. ", 20)
	encoded := base64.StdEncoding.EncodeToString([]byte(theSecret))
	for at := range len(encoded) - 2 {
		for _, escaped := range []string{fmt.Sprintf("%%%02x", encoded[at]), fmt.Sprintf(`\u%04x`, encoded[at]), "%0d%0a" + encoded[at:at+1], `\n` + encoded[at:at+1]} {
			text := plain + encoded[:at] + escaped + encoded[at+1:] + plain
			for _, piece := range []int{1, 5, len(text)} {
				if _, leak, _ := egress.LeakScan([]string{theSecret}, []byte(text), piece); !leak {
					t.Fatalf("%q came through in pieces of %d", text, piece)
				}
			}
		}
	}
}
