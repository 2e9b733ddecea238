package egress_test

import (
	"bufio"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
)

// addressTable is what the hosts of the corpus that are listed but not pinned resolve to.
func addressTable() map[string][]netip.Addr {
	table := map[string][]netip.Addr{}
	for host, addrs := range map[string]string{
		"loopback.test": "127.0.0.1", "loopbackhttp.test": "127.8.8.8", "private10.test": "10.1.2.3", "private172.test": "172.31.0.1",
		"private192.test": "192.168.1.1", "metadata.test": "169.254.169.254", "wireserver.test": "168.63.129.16",
		"cgnat.test": "100.100.100.200", "unspecified.test": "0.0.0.0", "broadcast.test": "255.255.255.255",
		"multicast.test": "239.1.1.1", "reserved.test": "240.0.0.1", "benchmark.test": "198.19.0.1", "loopback6.test": "::1",
		"unspecified6.test": "::", "mapped.test": "::ffff:127.0.0.1", "mappedpublic.test": "::ffff:93.184.216.34",
		"compatible.test": "::127.0.0.1", "nat64.test": "64:ff9b::7f00:1", "nat64local.test": "64:ff9b:1::a00:1",
		"sixtofour.test": "2002:7f00:1::", "teredo.test": "2001:0:4136:e378:8000:63bf:3fff:fdd2", "linklocal6.test": "fe80::1",
		"zoned.test": "fe80::1%eth0", "unique.test": "fd00:ec2::254", "multicast6.test": "ff02::1", "documentation6.test": "2001:db8::1",
		"mixed.test": "93.184.216.34 127.0.0.1", "public.test": "93.184.216.34 2606:2800:220:1::1", "only6.test": "2606:2800:220:1::1",
		"zero8.test": "0.1.2.3", "this.test": "0.255.255.255", "protocol.test": "192.0.0.8", "protocoloracle.test": "192.0.0.192",
		"testnet1.test": "192.0.2.1", "testnet2.test": "198.51.100.1", "testnet3.test": "203.0.113.1", "sixrelay.test": "192.88.99.1",
		"amt.test": "192.52.193.1", "as112.test": "192.31.196.1", "gcp6.test": "fd20:ce::254", "site6.test": "fec0::1",
		"discard6.test": "100::1", "srv6.test": "5f00::1", "orchid6.test": "2001:10::1", "orchid2.test": "2001:20::1",
		"bench6.test": "2001:2::1", "dummy6.test": "100:0:0:1::1", "docs6new.test": "3fff::1", "as112six.test": "2620:4f:8000::1",
		"sixbone.test": "3ffe::1", "nat64meta.test": "64:ff9b::a9fe:a9fe", "sixtofourmeta.test": "2002:a9fe:a9fe::1",
		"mappedmeta.test": "::ffff:169.254.169.254", "translated.test": "::ffff:0:7f00:1", "compatmeta.test": "::169.254.169.254",
		"mixed6.test": "2606:2800:220:1::1 ::1", "mixedlast.test": "93.184.216.34 93.184.216.34 93.184.216.34 93.184.216.34 10.0.0.1",
		"publicthenmapped.test": "93.184.216.34 ::ffff:93.184.216.34", "loopbacklast.test": "93.184.216.34 127.0.0.1",
		"zonedglobal.test": "2606:2800:220:1::1%eth0",
	} {
		for a := range strings.FieldsSeq(addrs) {
			table[host] = append(table[host], netip.MustParseAddr(a))
		}
	}
	table["invalid.test"] = []netip.Addr{{}}
	table["empty.test"] = nil
	return table
}

func corpusRules(pin netip.AddrPort) []nacre.EgressRule {
	var none netip.AddrPort
	rules := []nacre.EgressRule{
		rule("allowed.test", 443, nacre.ProtocolTLS, pin), rule("plain.test", 80, nacre.ProtocolHTTP, pin),
		rule("plain.test", 8080, nacre.ProtocolHTTP, pin), rule("raw.test", 22, nacre.ProtocolTCP, pin),
		rule("*.wild.test", 443, nacre.ProtocolTLS, pin), rule("xn--bcher-kva.test", 443, nacre.ProtocolTLS, pin),
		rule("nowhere.test", 443, nacre.ProtocolTLS, none),
	}
	for host := range addressTable() {
		rules = append(rules, rule(host, 443, nacre.ProtocolTLS, none), rule(host, 80, nacre.ProtocolHTTP, none))
	}
	return rules
}

type corpusCase struct {
	line                   int
	verdict, reason, hello string
	request                string
}

func readCorpus(t testing.TB) []corpusCase {
	t.Helper()
	text, err := os.ReadFile("testdata/corpus.txt")
	if err != nil {
		t.Fatal(err)
	}
	var cases []corpusCase
	seen := map[string]bool{}
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		if seen[line] {
			t.Fatalf("corpus.txt:%d: twice", i+1)
		}
		seen[line] = true
		f := strings.SplitN(line, " ", 4)
		request, err := strconv.Unquote(f[3])
		if err != nil {
			t.Fatalf("corpus.txt:%d: %v", i+1, err)
		}
		cases = append(cases, corpusCase{i + 1, f[0], f[1], f[2], request})
	}
	return cases
}

// corpusSeeds are the corpus' requests that leave the proxy nothing to wait for.
func corpusSeeds(t testing.TB) []string {
	t.Helper()
	var seeds []string
	for _, c := range readCorpus(t) {
		seeds = append(seeds, c.request)
	}
	return seeds
}

// M-21: nothing of the corpus is let through that must not be, and the rest is.
func TestCorpus(t *testing.T) {
	passed := map[string]int{}
	total := map[string]int{}
	for _, c := range readCorpus(t) {
		total[c.verdict]++
		if t.Run("line "+strconv.Itoa(c.line), func(t *testing.T) { runCase(t, c) }) {
			passed[c.verdict]++
		}
	}
	t.Logf("denied as they must be: %d of %d; allowed as they must be: %d of %d",
		passed["deny"], total["deny"], passed["allow"], total["allow"])
	if total["deny"] < 900 || total["allow"] < 95 {
		t.Errorf("the corpus has shrunk: %v", total)
	}
}

func runCase(t *testing.T, c corpusCase) {
	up, log, names := newSink(t), newLedger(), &resolver{table: addressTable()}
	listed := map[string]bool{}
	rules := corpusRules(up.addr)
	for _, r := range rules {
		listed[r.Host] = true
	}
	_, socket := start(t, egress.Options{
		Rules: rules, Record: log, Resolve: names.resolve, Dial: dialOnly(t, up.addr),
	})
	conn := dial(t, socket)
	sendCase(t, conn, c)
	if c.verdict == "allow" {
		log.await(t, nacre.OutcomeAllowed, 1)
		log.await(t, egress.OutcomeClosed, 1)
		if have := log.find(nacre.OutcomeDenied); len(have) != 0 || up.connections() != 1 {
			t.Errorf("denied %v, %d connections", have, up.connections())
		}
		return
	}
	have := log.await(t, nacre.OutcomeDenied, 1)[0]
	if have.Reason != c.reason || have.Kind != nacre.KindEgress {
		t.Errorf("reason: have %q, want %q", have.Reason, c.reason)
	}
	if n := up.connections(); n != 0 {
		t.Errorf("LET THROUGH: the upstream saw %d connections: %q", n, up.text(0))
	}
	if n := len(log.find(nacre.OutcomeAllowed)); n != 0 {
		t.Errorf("%d records say allowed", n)
	}
	for _, host := range names.asked {
		if !listed[host] {
			t.Errorf("%q was resolved without being listed", host)
		}
	}
}

// sendCase plays a case to its end, as far as the proxy lets it.
func sendCase(t *testing.T, conn *net.UnixConn, c corpusCase) {
	t.Helper()
	if _, err := io.WriteString(conn, c.request); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	line, _ := r.ReadString('\n')
	if c.hello != "-" && strings.Contains(line, " 200 ") {
		_, _ = r.ReadString('\n')
		_, _ = conn.Write(corpusHello(c.hello)) // it may be refused before it is whole
		_, _ = r.ReadByte()
	}
	_ = conn.CloseWrite()
	_, _ = io.Copy(io.Discard, r)
}
