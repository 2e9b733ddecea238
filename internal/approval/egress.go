package approval

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/question"
)

// Egress is the capability of a question whether one host may be reached, which
// is asked after a connection to it was refused (M-23).
const Egress = question.Egress

// EgressSpan is for how long an approval that names no time lets a host be
// reached. All end with their session.
const EgressSpan = 30 * time.Minute

// EgressQuestion asks for exactly one host, port and protocol.
func EgressQuestion(rule nacre.EgressRule, why string) (nacre.Question, error) {
	arguments, err := json.Marshal(question.Host{Host: rule.Host, Port: rule.Port, Protocol: rule.Protocol})
	if err != nil {
		return nacre.Question{}, err
	}
	return nacre.Question{Capability: Egress, Arguments: arguments, Digest: question.Digest(Egress, arguments), Why: why, Safety: nacre.Write}, nil
}

// Span is how long a host may be reached by this ruling; zero where it may not.
func Span(r nacre.Ruling) time.Duration {
	switch {
	case r.Verdict != nacre.Allow:
		return 0
	case r.For > 0:
		return min(r.For, MaxStanding)
	}
	return EgressSpan
}

// Propose is Ask for whoever must not wait: it returns the question's id as soon
// as it can be answered. decided is called once, with what Ask would have
// returned, before Close returns; the desk's own goroutine calls it.
func (d *Desk) Propose(ctx context.Context, q nacre.Question, decided func(nacre.Question, nacre.Ruling, error)) (string, error) {
	if err := d.check(ctx, &q); err != nil {
		return "", err
	}
	p, err := d.open(q)
	if err != nil {
		return "", err
	}
	go func() { // Close waits for it
		defer d.asking.Done()
		d.await(ctx, p)
		<-p.settled
		decided(copyOf(p.q), p.ruling, p.err)
	}()
	if d.o.Notify != nil {
		d.o.Notify(copyOf(p.q))
	}
	return p.q.ID, nil
}

// egress shows what would be reachable; it is false for any other question. A host is ASCII
// by the time that it is asked for; what it is in another alphabet is not shown, and said.
func (r *renderer) egress(q nacre.Question) bool {
	var host question.Host
	if q.Capability != Egress || json.Unmarshal(q.Arguments, &host) != nil {
		return false
	}
	r.line("? %s  %s wants to reach", question.Escape(q.ID), r.shown(string(q.Group), maxWhy))
	r.line("    host       %s:%s (%s)", r.shown(host.Host, maxWhy), strconv.Itoa(int(host.Port)), host.Protocol)
	if strings.Contains(host.Host, "xn--") {
		r.line("    look       this name is in another alphabet: it may look like a name that it is not")
	}
	r.line("    opens      this host and port alone, for %s or as long as you say, in this session only", long(EgressSpan))
	r.reason(q)
	r.expiry(q)
	return true
}

// prompt is what a terminal asks below a question. whole says that all of it was shown.
func prompt(q nacre.Question, whole bool) string {
	if !whole {
		return "    not all of it is shown. all: show it, to approve it then; or n: "
	}
	if o, ok := openingOf(q); ok {
		return "    approve? y or n (y: " + o.yes + "; y 15m: for 15 minutes): "
	}
	vouch := ""
	if q.Text != nil {
		vouch = "; y text: trust what that text says"
	}
	return "    approve? y or n (y 3x: three times; y 15m: the same for 15 minutes; y exact 15m; y tool 15m" + vouch + "; never): "
}
