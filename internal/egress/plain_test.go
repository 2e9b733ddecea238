package egress_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
)

// U-40: of a host that was learned from requests over plain HTTP, those requests may be
// made and nothing else; another host stays free of that.
func TestAHostIsAskedThePlainRequestsAlone(t *testing.T) {
	t.Parallel()
	up := newSink(t)
	log := newLedger()
	only := egress.Credential{Name: "learned", Host: "a.test", Port: 80, Plain: true, Scheme: egress.SchemeNone, Methods: []string{"GET"}, Paths: []string{"/pool/main"}}
	_, socket := start(t, egress.Options{Record: log, Credentials: []egress.Credential{only}, Rules: []nacre.EgressRule{
		rule("a.test", 80, nacre.ProtocolHTTP, up.addr), rule("b.test", 80, nacre.ProtocolHTTP, up.addr),
	}})
	for _, c := range []struct {
		method, url, reason string
		want                int
	}{
		{"GET", "a.test/pool/main", "", 200},
		{"GET", "a.test/pool/main/x?y=../z", "", 200},
		{"GET", "a.test:80/pool/mainly", "request_not_listed", 403},
		{"GET", "a.test/", "request_not_listed", 403},
		{"POST", "a.test/pool/main", "request_not_listed", 403},
		{"GET", "a.test/pool/main/../../x", "ambiguous_path", 400},
		{"GET", "a.test/pool/main/%2e%2e/x", "ambiguous_path", 400},
		{"POST", "b.test/anything", "", 200},
	} {
		conn := dial(t, socket)
		host, _, _ := strings.Cut(c.url, "/")
		_, _ = fmt.Fprintf(conn, "%s http://%s HTTP/1.1\r\nHost: %s\r\n\r\n", c.method, c.url, host)
		if have := status(t, conn); have.code != c.want || have.header.Get("X-Nacre-Reason") != c.reason {
			t.Errorf("%s %s: have %+v", c.method, c.url, have)
		}
	}
	if denied := log.find(nacre.OutcomeDenied); len(denied) != 5 || detailOf(t, denied[0]).Path != "/pool/mainly" {
		t.Errorf("have %+v", denied)
	}
	if up.connections() != 3 {
		t.Errorf("%d requests arrived, want 3", up.connections())
	}
	only.Scheme = egress.SchemeBearer
	if _, err := egress.New(egress.Options{Record: log, Now: time.Now, Credentials: []egress.Credential{only}}); err == nil {
		t.Error("a secret is added to plain HTTP")
	}
}
