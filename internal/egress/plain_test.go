package egress_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
)

// U-40: of a host that was learned from requests over plain HTTP, those requests may be made and
// nothing else. Another host stays free of that.
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
		{"GET", "a.test/pool/main?_method=PUT", "request_redirecting", 403},
		{"GET", "a.test/pool/main/x?y=../z", "", 200},
		{"GET", "a.test:80/pool/mainly", "request_not_listed", 403},
		{"GET", "a.test/", "request_not_listed", 403},
		{"POST", "a.test/pool/main", "request_not_listed", 403},
		{"GET", "a.test/pool/main/../../x", "ambiguous_path", 400},
		{"GET", "a.test/pool/main/%2e%2e/x", "ambiguous_path", 400},
		{"POST", "b.test/bot110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw/send", "", 200},
	} {
		conn := dial(t, socket)
		host, _, _ := strings.Cut(c.url, "/")
		_, _ = fmt.Fprintf(conn, "%s http://%s HTTP/1.1\r\nHost: %s\r\n\r\n", c.method, c.url, host)
		if have := status(t, conn); have.code != c.want || have.header.Get("X-Nacre-Reason") != c.reason {
			t.Errorf("%s %s: have %+v", c.method, c.url, have)
		}
	}
	if denied := log.find(nacre.OutcomeDenied); len(denied) != 6 || detailOf(t, denied[1]).Path != "/pool/mainly" || detailOf(t, denied[5]).Path != "/pool/main/%2e%2e/x" {
		t.Errorf("have %+v", denied)
	}
	if up.connections() != 3 {
		t.Errorf("%d requests arrived, want 3", up.connections())
	}
	if allowed := log.find(nacre.OutcomeAllowed); detailOf(t, allowed[1]).Path != "/pool/main/x" || detailOf(t, allowed[2]).Path != "" {
		t.Errorf("the records of what was allowed say %+v and %+v, which may hold a bot's token", detailOf(t, allowed[1]), detailOf(t, allowed[2]))
	}
	only.Scheme = egress.SchemeBearer
	if _, err := egress.New(egress.Options{Record: log, Now: time.Now, Credentials: []egress.Credential{only}}); err == nil {
		t.Error("a secret is added to plain HTTP")
	}
}

// U-40: nothing in a listed request over plain HTTP makes another one of it at the host.
func TestAPlainRequestIsTheOneThatIsListed(t *testing.T) {
	t.Parallel()
	only := egress.Credential{Name: "learned", Host: "a.test", Port: 80, Plain: true, Scheme: egress.SchemeNone, Methods: []string{"GET", "POST"}, Paths: []string{"/pool"}}
	for name, c := range map[string]struct {
		header, body string
		through      bool
	}{
		"another path":              {"X-Original-URL: /evil", "", false},
		"another path, rewritten":   {"X-Rewrite-Url: /evil", "", false},
		"another method":            {"X_HTTP_Method_Override: DELETE", "", false},
		"another host":              {"X-Forwarded-Host: evil.test", "", false},
		"another user":              {"X-Remote-User: root", "", false},
		"another method in a form":  {"Content-Type: application/x-www-form-urlencoded", "a=b&_method=DELETE", false},
		"another method in JSON":    {"Content-Type: application/json", `{"_method":"DELETE"}`, false},
		"another method, announced": {"Content-Type: application/json\r\nContent-Encoding: br", `{"a":"DELETE"}`, false},
		"nothing":                   {"X-Requested-With: apt", "", true},
	} {
		up := newSink(t)
		_, socket := start(t, egress.Options{Credentials: []egress.Credential{only}, Rules: []nacre.EgressRule{
			rule("a.test", 80, nacre.ProtocolHTTP, up.addr), rule("b.test", 80, nacre.ProtocolHTTP, up.addr),
		}})
		for host, through := range map[string]bool{"a.test": c.through, "b.test": c.through || c.body == ""} {
			if host == "b.test" && !through {
				continue // the sink knows no such body
			}
			conn := dial(t, socket)
			length := ""
			if c.body != "" {
				length = fmt.Sprintf("Content-Length: %d\r\n", len(c.body))
			}
			_, _ = fmt.Fprintf(conn, "POST http://%[1]s/pool HTTP/1.1\r\nHost: %[1]s\r\n%[2]s\r\n%[3]s\r\n%[4]s", host, c.header, length, c.body)
			have := status(t, conn)
			if (have.code == 200) != through {
				t.Errorf("%s at %s: have %+v", name, host, have)
			}
		}
		if c.body != "" && strings.Contains(up.text(0), c.body) {
			t.Errorf("%s: the host got all of it", name)
		}
	}
}
