package egress_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
)

// serverHello begins a server's first flight; retry asks for a second hello.
func serverHello(retry bool) []byte {
	random := bytes.Repeat([]byte{9}, 32)
	if retry {
		random = []byte("\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c")
	}
	body := append(append([]byte{3, 3}, random...), 0, 0x13, 1, 0)
	return record(append([]byte{2, 0, 0, byte(len(body))}, body...))
}

// What follows the first hello is looked at for as long as a server may take a
// second one, and not longer: encrypted bytes look like anything.
func TestTheGuardOfTheHello(t *testing.T) {
	ccs, warning := []byte{20, 3, 3, 0, 1, 1}, []byte{21, 3, 3, 0, 2, 1, 112}
	finished := append([]byte{22, 3, 3, 0, 40, 1}, bytes.Repeat([]byte{0xee}, 39)...)
	tests := map[string]struct {
		server, then []byte
		want         egress.Reason
	}{
		"a session is resumed, and its first encrypted byte looks like a hello": {serverHello(false), append(ccs[:6:6], finished...), egress.ReasonDone},
		"the same after a warning of the server":                                {append(warning[:7:7], serverHello(false)...), append(ccs[:6:6], finished...), egress.ReasonDone},
		"the server asks again, and the name is the same":                       {serverHello(true), append(ccs[:6:6], hello("allowed.test", nil)...), egress.ReasonDone},
		"the server asks again, and the name is another":                        {serverHello(true), append(ccs[:6:6], hello("evil.test", nil)...), egress.ReasonSNIMismatch},
		"the same after a warning":                                              {serverHello(true), append(warning[:7:7], hello("evil.test", nil)...), egress.ReasonSNIMismatch},
		"the same after many changes of cipher":                                 {serverHello(true), append(bytes.Repeat(ccs, 50), hello("evil.test", nil)...), egress.ReasonSNIMismatch},
		"the same after the server's warning":                                   {append(warning[:7:7], serverHello(true)...), hello("evil.test", nil), egress.ReasonSNIMismatch},
		"the server's request comes in small records":                           {fragmented(serverHello(true), 1), hello("evil.test", nil), egress.ReasonSNIMismatch},
		"an old hello":     {serverHello(true), edit(hello("evil.test", nil), 9, 4), egress.ReasonNotTLS},
		"a heartbeat":      {serverHello(true), append([]byte{24, 3, 3, 0, 3, 1, 0, 0}, hello("evil.test", nil)...), egress.ReasonNotTLS},
		"a hello of SSL 2": {serverHello(true), append([]byte{0x80, 46, 1, 3, 1}, make([]byte, 43)...), egress.ReasonNotTLS},
		"a silent server":  {nil, append(ccs[:6:6], hello("evil.test", nil)...), egress.ReasonSNIMismatch},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			log := newLedger()
			var got bytes.Buffer
			first := hello("allowed.test", nil)
			served := make(chan struct{})
			dialer := serving(t, func(c net.Conn) {
				defer close(served)
				_, _ = io.CopyN(&got, c, int64(len(first)))
				_, _ = c.Write(test.server)
				_, _ = io.Copy(&got, c)
			})
			_, socket := start(t, egress.Options{Rules: corpusRules(netip.MustParseAddrPort("127.0.0.1:1")), Record: log, Dial: dialer})
			conn := dial(t, socket)
			_, _ = io.WriteString(conn, "CONNECT allowed.test:443 HTTP/1.1\r\n\r\n")
			_, _ = conn.Write(first)
			_, _ = io.CopyN(io.Discard, conn, int64(len("HTTP/1.1 200 Connection established\r\n\r\n")+len(test.server)))
			_, _ = conn.Write(test.then)
			_ = conn.CloseWrite()
			_, _ = io.Copy(io.Discard, conn)
			<-served
			if have := log.await(t, egress.OutcomeClosed, 1)[0]; have.Reason != string(test.want) {
				t.Errorf("have %q, want %q", have.Reason, test.want)
			}
			if test.want == egress.ReasonDone && got.String() != string(first)+string(test.then) {
				t.Error("the upstream got something else than was sent")
			}
			if bytes.Contains(got.Bytes(), []byte("evil.test")) {
				t.Error("LET THROUGH: a hello for another host")
			}
		})
	}
}

// Sessions are resumed as often as a client likes. Chacha's records begin with
// encrypted bytes: one in 256 looks like a hello.
func TestResumedSessionsWork(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	defer srv.Close()
	_, socket := start(t, egress.Options{Rules: []nacre.EgressRule{rule("example.com", 443, nacre.ProtocolTLS, pinOf(t, srv))}, Limits: egress.Limits{Total: 10_000}})
	client := throughProxy(socket, srv)
	transport := client.Transport.(*http.Transport)
	transport.DisableKeepAlives, transport.ForceAttemptHTTP2 = true, false
	transport.TLSClientConfig.MaxVersion, transport.TLSClientConfig.ClientSessionCache = tls.VersionTLS12, tls.NewLRUClientSessionCache(1)
	transport.TLSClientConfig.CipherSuites = []uint16{tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256}
	resumed := 0
	for range 600 {
		resp, err := client.Get("https://example.com/")
		if err != nil {
			t.Fatal(err)
		}
		if resp.TLS.DidResume {
			resumed++
		}
		_ = resp.Body.Close()
	}
	if resumed < 500 {
		t.Errorf("only %d sessions were resumed", resumed)
	}
}
