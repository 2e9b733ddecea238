package egress_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
)

// M-35: a download and an upload that carry a credential end when it is lost, and what carries
// another credential of the same host goes on.
func TestWhatCarriesALostCredentialEndsAlone(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		for what, method := range map[string]string{"a download": http.MethodGet, "an upload": http.MethodPost} {
			t.Run(fmt.Sprintf("%s over HTTP/2 %t", what, http2), func(t *testing.T) {
				t.Parallel()
				over := make(chan struct{})
				v := newVault(t, func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.WriteString(w, "begun")
					_ = http.NewResponseController(w).Flush()
					select {
					case <-over:
					case <-r.Context().Done():
					}
				}, nil, func(c *egress.Credential) { c.Name, c.Paths = "other", []string{"/other/"} })
				client := v.client(t, http2)
				client.Timeout = 0
				theirs, others := stream(client, method, "/user"), stream(client, method, "/other/two")
				<-v.arrived
				<-v.arrived
				v.lost.Store("hub")
				if err := <-theirs.ended; err == nil {
					t.Error("what carried the lost credential came to its end in order")
				}
				if have := v.log.await(t, egress.OutcomeAnswered, 1)[0]; have.Reason != string(egress.ReasonRevoked) || detailOf(t, have).Path != "/user" {
					t.Errorf("the record says %s of %s", have.Reason, have.Detail)
				}
				close(over)
				_ = others.body.Close()
				if err := <-others.ended; err != nil {
					t.Errorf("what carried another credential ended too: %v", err)
				}
				_ = theirs.body.Close()
			})
		}
	}
}

// streaming is a request that lasts as long as its body, or its answer, does.
type streaming struct {
	body  io.Closer
	ended chan error
}

func stream(client *http.Client, method, path string) streaming {
	from, to := io.Pipe()
	s := streaming{to, make(chan error, 1)}
	go func() { _, _ = to.Write([]byte("begun")) }() // ends when the pipe is closed
	go func() {
		var body io.Reader
		if method == http.MethodPost {
			body = from
		}
		req, _ := http.NewRequest(method, "https://example.com"+path, body)
		resp, err := client.Do(req)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if err == nil && resp.StatusCode != http.StatusOK {
				err = fmt.Errorf("status %d", resp.StatusCode)
			}
		}
		_ = from.Close()
		s.ended <- err
	}()
	return s
}

// M-35: a stream of SSH ends when the key that logged in over it is lost. One that began after that
// login is another key's.
func TestAStreamEndsWithTheKeyThatLoggedInOverIt(t *testing.T) {
	t.Parallel()
	hosts, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hosts.Close() })
	go func() {
		for {
			host, err := hosts.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(host, host); _ = host.Close() }()
		}
	}()
	log := newLedger()
	var lost atomic.Pointer[time.Time] // when the key that was lost logged in
	address := netip.MustParseAddrPort(hosts.Addr().String())
	_, socket := start(t, egress.Options{
		Record: log, Rules: []nacre.EgressRule{rule("a.example", address.Port(), nacre.ProtocolTCP, address)},
		Revoked: egress.Revocation{Login: func(host string, port uint16, since time.Time) bool {
			at := lost.Load()
			return host == "a.example" && port == address.Port() && at != nil && !at.Before(since)
		}},
	})
	open := func() net.Conn {
		conn := dial(t, socket)
		_, _ = fmt.Fprintf(conn, "CONNECT a.example:%d HTTP/1.1\r\n\r\n", address.Port())
		echoed(t, conn, "HTTP/1.1 200 Connection established\r\n\r\n", "")
		echoed(t, conn, "said", "said")
		return conn
	}
	first := open()
	at := time.Now()
	second := open()
	lost.Store(&at)
	if rest, err := io.ReadAll(first); err != nil || len(rest) > 0 {
		t.Errorf("have %q, %v", rest, err)
	}
	if have := log.await(t, egress.OutcomeClosed, 1)[0]; have.Reason != string(egress.ReasonRevoked) {
		t.Errorf("it ended for %q", have.Reason)
	}
	echoed(t, second, "more", "more")
}

// echoed says something and reads what is to come of it.
func echoed(t *testing.T, conn net.Conn, want, say string) {
	t.Helper()
	_, _ = io.WriteString(conn, say)
	have := make([]byte, len(want))
	if _, err := io.ReadFull(conn, have); err != nil || !strings.HasSuffix(string(have), want) {
		t.Fatalf("have %q, %v", have, err)
	}
}
