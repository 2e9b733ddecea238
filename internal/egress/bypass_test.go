package egress_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
)

// spellings are ways to write a host that must not be taken for it, nor for any other.
func spellings(host string) []string {
	var all []string
	for i := range host {
		for c := range 256 {
			b := byte(c)
			plain := 'a' <= b|0x20 && b|0x20 <= 'z' || '0' <= b && b <= '9' || b == '-' || b == '_' || b == '.'
			if !plain && b != '\r' && b != '\n' {
				all = append(all, host[:i]+string([]byte{b})+host[i:])
			}
		}
		all = append(all, host[:i]+host[i+1:], host[:i]+string(host[i])+host[i:], host[:i]+fmt.Sprintf("%%%02x", host[i])+host[i+1:],
			host[:i]+string(rune(host[i])+0xfee0)+host[i+1:], host[:i]+"."+host[i:], host[:i]+"-"+host[i:], host[:i]+"x"+host[i+1:])
	}
	for _, around := range []string{
		"x%s", "%sx", "x.%s", "%s.x", "x-%s", "%s-x", ".%s", "%s.", "%s..", "*.%s", "@%s", "x@%s", "x:y@%s", "%s@x", "//%s", "http://%s", "[%s]", "%s\x00", "%s%%00",
		"%s%%20", " %s", "%s ", "%s,x", "%s;x", "%s#x", "%s?x", "%s/x", "%s\\x", "%s:443:443", "xn--%s", "%s.1", "%s.0x1",
	} {
		all = append(all, fmt.Sprintf(around, host))
	}
	return all
}

// M-21: one spelling a host. Whatever else is written is refused, and not resolved.
func TestEveryOtherSpellingIsRefused(t *testing.T) {
	up, log, names := newSink(t), newLedger(), &resolver{}
	_, socket := start(t, egress.Options{Rules: corpusRules(up.addr), Record: log, Resolve: names.resolve, Dial: dialOnly(t, up.addr)})
	tried := 0
	for _, spelling := range spellings("plain.test") {
		for _, request := range []string{
			"CONNECT " + strings.ReplaceAll(spelling, "plain", "allowed") + ":443 HTTP/1.1\r\n\r\n",
			"GET http://" + spelling + " HTTP/1.1\r\nHost: plain.test\r\n\r\n",
			"GET http://plain.test/ HTTP/1.1\r\nHost: " + spelling + "\r\n\r\n",
		} {
			if legitimate(spelling, request) {
				continue
			}
			tried++
			conn := dial(t, socket)
			_, _ = io.WriteString(conn, request)
			_, _ = conn.Write(hello("allowed.test", nil))
			_ = conn.CloseWrite()
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
			if n := up.connections(); n != 0 {
				t.Fatalf("LET THROUGH: %q: %q", request, up.text(0))
			}
		}
	}
	if denied := len(log.find(nacre.OutcomeDenied)); denied != tried {
		t.Errorf("%d refusals of %d are recorded", denied, tried)
	}
	if names.count() != 0 {
		t.Errorf("resolved: %q", names.asked)
	}
	t.Logf("%d spellings refused", tried)
}

// legitimate spots the few spellings that mean the same: a path or query after
// the host of a URL, and white space around a header's value.
func legitimate(spelling, request string) bool {
	switch {
	case strings.HasPrefix(request, "CONNECT "):
		return false
	case strings.HasPrefix(request, "GET http://plain.test/ "):
		return strings.Trim(spelling, " \t") == "plain.test"
	}
	return spelling == "plain.test/x" || spelling == "plain.test?x"
}

// M-21: a hello with one byte changed passes only if a server reads the same name in it.
func TestAHelloWithAByteChangedNamesTheSameHost(t *testing.T) {
	passed := 0
	for _, whole := range [][]byte{hello("allowed.test", nil), corpusHello("go12"), corpusHello("goh2"), fragmented(hello("allowed.test", nil), 7)} {
		for i := range whole {
			for _, b := range []byte{0, 1, 0xff, whole[i] ^ 0x20, whole[i] + 1, whole[i] - 1} {
				changed := edit(whole, i, b)
				raw, err := egress.ReadHello(bytes.NewReader(changed), "allowed.test")
				if err != nil {
					continue
				}
				passed++
				if name, ok := standardName(raw); ok && !strings.EqualFold(name, "allowed.test") {
					t.Fatalf("LET THROUGH: byte %d as %#x: the server reads %q", i, b, name)
				}
			}
		}
	}
	if passed == 0 {
		t.Error("no hello passed")
	}
}

// embedded are the ways to carry an IPv4 address in an IPv6 one that lead to it.
func embedded(four netip.Addr) []netip.Addr {
	a := four.As4()
	v6 := func(at int, prefix ...byte) netip.Addr {
		var b [16]byte
		copy(b[:], prefix)
		copy(b[at:], a[:])
		return netip.AddrFrom16(b)
	}
	return []netip.Addr{
		v6(12), v6(12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff), v6(12, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff), // compatible, mapped, translated
		v6(12, 0, 0x64, 0xff, 0x9b), v6(12, 0, 0x64, 0xff, 0x9b, 0, 1), v6(2, 0x20, 0x02), v6(4, 0x20, 0x01), // NAT64, 6to4, Teredo
	}
}

// M-21: no address that leads inside is dialled, however it is written, and one among many refuses all.
func TestNoAddressInsideIsDialled(t *testing.T) {
	public := netip.MustParseAddr("93.184.216.34")
	var inside []netip.Addr
	for _, block := range []string{
		"0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "127.0.0.0", "127.255.255.255", "169.254.0.0",
		"169.254.169.254", "169.254.255.255", "172.16.0.0", "172.31.255.255", "192.0.0.0", "192.0.0.255", "192.168.0.0", "192.168.255.255", "198.18.0.0", "198.19.255.255",
		"224.0.0.0", "239.255.255.255", "240.0.0.0", "255.255.255.255", "168.63.129.16", "100.100.100.200",
	} {
		four := netip.MustParseAddr(block)
		inside = append(append(inside, four), embedded(four)...)
	}
	inside = append(inside, embedded(public)...) // even of a public one: who translates is not known
	for _, six := range []string{"::", "::1", "fe80::1", "febf::1", "fec0::1", "fc00::", "fdff:ffff::1", "ff00::1", "ff02::1", "100::1", "1fff::1", "4000::1", "5f00::1", "8000::1", "2001:db8::1", "3fff::1", "2606:2800:220:1::1%lo"} {
		inside = append(inside, netip.MustParseAddr(six))
	}
	var answer []netip.Addr
	log := newLedger()
	var dialled []netip.AddrPort
	_, socket := start(t, egress.Options{
		Rules: []nacre.EgressRule{rule("a.test", 80, nacre.ProtocolHTTP, netip.AddrPort{})}, Record: log,
		Resolve: func(context.Context, string) ([]netip.Addr, error) { return answer, nil },
		Dial: func(_ context.Context, to netip.AddrPort) (net.Conn, error) {
			dialled = append(dialled, to)
			return nil, errors.New("refused")
		},
	})
	get := func() answerText {
		conn := dial(t, socket)
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n")
		have := status(t, conn)
		return answerText{have.code, have.body}
	}
	for _, a := range inside {
		for _, answer = range [][]netip.Addr{{a}, {public, a}, {a, public}, {public, public, public, public, public, a}} {
			if have := get(); have.code != 403 || len(dialled) != 0 || strings.Contains(have.body, a.String()) {
				t.Fatalf("LET THROUGH: %v: %+v, dialled %v", answer, have, dialled)
			}
		}
	}
	denied := log.find(nacre.OutcomeDenied)
	if last := detailOf(t, denied[len(denied)-1]); last.Address != inside[len(inside)-1].String() {
		t.Errorf("the record does not say which address was refused: %+v", last)
	}
	answer = []netip.Addr{public, netip.MustParseAddr("2606:2800:220:1::1")}
	if have := get(); have.code != 502 || len(dialled) != 2 {
		t.Errorf("public addresses: %+v, dialled %v", have, dialled)
	}
}

type answerText struct {
	code int
	body string
}

// M-21: a name that changes its mind is resolved once a connection, and what was checked is what is dialled.
func TestARebindingNameIsDialledWhereItWasChecked(t *testing.T) {
	up, log := newSink(t), newLedger()
	public, inside := netip.MustParseAddr("93.184.216.34"), netip.MustParseAddr("127.0.0.1")
	var mu sync.Mutex
	asked := 0
	_, socket := start(t, egress.Options{
		Rules: []nacre.EgressRule{rule("rebind.test", 80, nacre.ProtocolHTTP, netip.AddrPort{})}, Record: log, Dial: dialOnly(t, up.addr),
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			mu.Lock()
			defer mu.Unlock()
			asked++
			return []netip.Addr{[]netip.Addr{inside, public}[asked%2]}, nil
		},
	})
	codes := map[int]int{}
	for range 10 {
		conn := dial(t, socket)
		_, _ = io.WriteString(conn, "GET http://rebind.test/ HTTP/1.1\r\nHost: rebind.test\r\n\r\n")
		codes[status(t, conn).code]++
	}
	if asked != 10 || codes[200] != 5 || codes[403] != 5 {
		t.Errorf("resolved %d times, %v", asked, codes)
	}
}
