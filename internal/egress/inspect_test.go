package egress_test

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
)

// M-58: what must not leave is seen in the clear of an opened host, wherever in a
// request it stands, and does not leave.
func TestARequestOnAnOpenedHostIsInspected(t *testing.T) {
	const decoy = "AKIADECOYDECOYDECOY"
	var leaked, plain atomic.Int64
	srv := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		plain.Add(1)
		if strings.Contains(r.RequestURI+string(body)+r.Header.Get("X-Key")+r.Header.Get("Authorization"), decoy) {
			leaked.Add(1)
		}
	}))
	t.Cleanup(srv.Close)
	authority, err := egress.NewAuthority([]string{"example.com"}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	v := &vault{log: newLedger(), pool: x509.NewCertPool()}
	v.pool.AppendCertsFromPEM(authority.PEM())
	v.proxy, v.socket = start(t, egress.Options{
		Rules: []nacre.EgressRule{rule("example.com", 443, nacre.ProtocolTLS, pinOf(t, srv))}, Record: v.log,
		Credentials: []egress.Credential{credential(srv)}, Authority: authority,
		Inspect: egress.Inspection{Each: func() func([]byte) error {
			return func(piece []byte) error {
				if bytes.Contains(piece, []byte(decoy)) {
					return errors.New("a decoy")
				}
				return nil
			}
		}},
	})
	for name, c := range map[string]struct{ path, header, authorization, body string }{
		"in the path":                {"/user?k=" + decoy, "", "", ""},
		"in a header":                {"/user", decoy, "", ""},
		"in one that is taken away":  {"/user", "", "Bearer " + decoy, ""},
		"in the body":                {"/user", "", "", "key=" + decoy},
		"nowhere, which is let pass": {"/user", "x", "", "y"},
	} {
		for _, h2 := range []bool{false, true} {
			request, err := http.NewRequest(http.MethodPost, "https://example.com"+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("X-Key", c.header)
			request.Header.Set("Authorization", c.authorization)
			answer, err := v.client(t, h2).Do(request)
			if err != nil {
				continue // the connection was ended
			}
			if _ = answer.Body.Close(); answer.StatusCode == http.StatusOK && !strings.HasPrefix(name, "nowhere") {
				t.Errorf("%s: have %d", name, answer.StatusCode)
			}
		}
	}
	if leaked.Load() != 0 || plain.Load() < 2 {
		t.Errorf("%d of %d requests leaked", leaked.Load(), plain.Load())
	}
}

// M-58: chunks that each hold a part of a decoy are put together before they
// are looked at, over plain HTTP too.
func TestADecoyOverManyChunksDoesNotLeave(t *testing.T) {
	const head = "POST http://plain.example/ HTTP/1.1\r\nHost: plain.example\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, size := range []int{1, 7, len(packedDecoy) - 1} {
		host := &hoarder{}
		v := inspected(t, host)
		var body strings.Builder
		for rest := packedDecoy; rest != ""; rest = rest[min(size, len(rest)):] {
			piece := rest[:min(size, len(rest))]
			fmt.Fprintf(&body, "%x\r\n%s\r\n", len(piece), piece)
		}
		conn := dial(t, v.socket)
		_, _ = io.WriteString(conn, head+body.String()+"0\r\n\r\n")
		if answer := status(t, conn); answer.code == http.StatusOK {
			t.Errorf("in chunks of %d: have %d", size, answer.code)
		}
		for _, got := range host.got() {
			if bytes.Contains(got, []byte(packedDecoy)) {
				t.Errorf("in chunks of %d: the host got it", size)
			}
		}
	}
}
