package prove

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
)

const (
	// failOpen is the class of rows about installations of which a part is broken.
	failOpen = "fail open"
	// ownRules is the class of rows about the operator's rules.
	ownRules = "egress rules"
	// maxRules is how many rules are tried; the others are counted.
	maxRules = 64
	// answerTime is how long the proxy has for an answer.
	answerTime = 20 * time.Second
)

// Rules tries the operator's egress rules in a proxy that reaches decoys only: what
// they name is let through, and nothing that lies beside it. The last row is about a
// proxy that cannot record, which lets nothing through.
func Rules(ctx context.Context, rules []nacre.EgressRule) (rows []Row, err error) {
	dir, err := os.MkdirTemp("", "prove")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	// What is said in the clear is dialled, and so recorded, before the first answer.
	decoy := nacre.EgressRule{Host: plainHost, Port: 80, Protocol: nacre.ProtocolHTTP}
	open, err := serveRules(ctx, filepath.Join(dir, "a"), append(slices.Clone(rules), decoy), recorder{nil})
	if err != nil {
		return nil, err
	}
	defer open.stop()
	for _, rule := range rules[:min(len(rules), maxRules)] {
		rows = append(rows, open.around(ctx, rule, rules))
	}
	if more := len(rules) - maxRules; more > 0 {
		rows = append(rows, Row{Class: ownRules, Probe: fmt.Sprintf("%d more rules", more), Outcome: NotTestable, Reason: fmt.Sprintf("%d are tried", maxRules)})
	}
	mute, err := serveRules(ctx, filepath.Join(dir, "b"), []nacre.EgressRule{decoy}, recorder{errors.New("no space left on device")})
	if err != nil {
		return nil, err
	}
	defer mute.stop()
	row := Row{Class: failOpen, Probe: "egress that cannot be recorded", Outcome: Blocked, Reason: "the proxy refused it", Control: "escaped: it is let through where it can be recorded"}
	if !open.lets(ctx, decoy.Host, decoy) {
		row.Outcome, row.Control = Unproven, "blocked: it is refused where it can be recorded, too"
	}
	if mute.lets(ctx, decoy.Host, decoy) {
		row.Outcome, row.Reason = GotThrough, "the proxy let it through"
	}
	return append(rows, row), nil
}

// served is a proxy with rules, on a socket.
type served struct {
	socket string
	stop   func()
}

func serveRules(ctx context.Context, socket string, rules []nacre.EgressRule, record nacre.Recorder) (served, error) {
	p, err := egress.New(egress.Options{
		Rules: rules, Record: record, Session: "probe", Group: "main", Now: time.Now, Dial: toDecoy,
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
		},
	})
	if err != nil {
		return served{}, err
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "unix", socket)
	if err != nil {
		return served{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.Serve(ctx, l)
	}()
	return served{socket, func() { cancel(); <-done }}, nil
}

// around tries a rule's own host, and then its neighbours.
func (s served) around(ctx context.Context, rule nacre.EgressRule, all []nacre.EgressRule) Row {
	row := Row{Class: ownRules, Probe: rule.String(), Outcome: Blocked}
	own := strings.Replace(rule.Host, "*", "nacre-prove", 1)
	row.Control = "escaped: " + own + " is let through"
	if !s.lets(ctx, own, rule) {
		row.Outcome, row.Control, row.Reason = Unproven, "blocked: the host of the rule is refused", "its neighbours are refused because all is"
		return row
	}
	tried := neighbours(rule, all)
	for _, n := range tried {
		if s.lets(ctx, n.Host, n) {
			row.Outcome, row.Reason = GotThrough, n.String()+" is let through, and no rule names it"
			return row
		}
	}
	row.Reason = strconv.Itoa(len(tried)) + " neighbours of it are refused"
	return row
}

// neighbours are hosts and ports that look like a rule's, and that no rule names.
func neighbours(rule nacre.EgressRule, all []nacre.EgressRule) []nacre.EgressRule {
	host := strings.TrimPrefix(rule.Host, "*.")
	var beside []nacre.EgressRule
	for _, name := range []string{"nacre-prove-" + host, "a.nacre-prove." + host, host + ".nacre-prove.example", strings.ReplaceAll(host, ".", "-") + ".example"} {
		beside = append(beside, nacre.EgressRule{Host: name, Port: rule.Port, Protocol: rule.Protocol})
	}
	for _, port := range []uint16{1, 22, 443, 3128, 8443} {
		beside = append(beside, nacre.EgressRule{Host: host, Port: port, Protocol: rule.Protocol})
	}
	for _, address := range []string{"127.0.0.1", "169.254.169.254", "0x7f000001", "localhost"} {
		beside = append(beside, nacre.EgressRule{Host: address, Port: rule.Port, Protocol: rule.Protocol})
	}
	return slices.DeleteFunc(beside, func(n nacre.EgressRule) bool {
		return slices.ContainsFunc(all, func(r nacre.EgressRule) bool { return names(r, n) })
	})
}

// names reports whether a rule may mean a host and port: generously, for what it
// means shall not be called a neighbour.
func names(r, n nacre.EgressRule) bool {
	_, parent, _ := strings.Cut(n.Host, ".")
	return r.Port == n.Port && (r.Host == n.Host || r.Host == "*."+parent)
}

// lets reports whether the proxy answers a request for the host, by the rule's
// protocol, with 200.
func (s served) lets(ctx context.Context, host string, rule nacre.EgressRule) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "unix", s.socket)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	target := net.JoinHostPort(host, strconv.Itoa(int(rule.Port)))
	request := "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n"
	if rule.Protocol == nacre.ProtocolHTTP {
		request = "GET http://" + target + "/ HTTP/1.1\r\nHost: " + target + "\r\n\r\n"
	}
	if _, err := io.WriteString(c, request); err != nil {
		return false
	}
	answer := make([]byte, 12)
	_, err = io.ReadFull(c, answer)
	return err == nil && strings.HasSuffix(string(answer), " 200")
}
