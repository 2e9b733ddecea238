package asking

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"sync"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
)

// maxNotices is how many different things a session's notices tell.
const maxNotices = 100

// Notice is a recorder that also tells the person of what was stopped at the
// walls, which the agent inside need not mention.
type Notice struct {
	nacre.Recorder
	Tell func(nacre.Step)
	// Warn tells what the operator has to know of a host that the list allows;
	// nil means Tell.
	Warn func(nacre.Step)
}

// Append records, then tells.
func (n Notice) Append(ctx context.Context, r nacre.Record) error {
	err := n.Recorder.Append(ctx, r)
	n.note(r)
	return err
}

// Commit records, then tells.
func (n Notice) Commit(ctx context.Context, r nacre.Record) error {
	err := n.Recorder.Commit(ctx, r)
	n.note(r)
	return err
}

func (n Notice) note(r nacre.Record) {
	denied := r.Outcome == nacre.OutcomeDenied
	switch {
	case r.Kind == nacre.KindEgress && r.Reason == string(egress.ReasonUpstreamProxy) && n.Warn != nil:
		n.Warn(nacre.Step{Kind: nacre.StepResult, Name: "egress", Text: noRoute(r), IsError: true})
	case r.Kind == nacre.KindEgress && denied && n.Warn != nil && noAddress(r) != "":
		n.Warn(nacre.Step{Kind: nacre.StepResult, Name: "egress", Text: noRoute(r), IsError: true})
	case r.Kind == nacre.KindEgress && n.Warn != nil && usedUp(r) != "":
		n.Warn(nacre.Step{Kind: nacre.StepResult, Name: "egress", Text: usedUp(r), IsError: true})
	case r.Kind == nacre.KindEgress && denied:
		n.Tell(nacre.Step{Kind: nacre.StepResult, Name: "egress", Text: noRoute(r), IsError: true})
	case r.Kind == nacre.KindModelBegin && denied:
		n.Tell(nacre.Step{Kind: nacre.StepResult, Name: "model", Text: r.Reason, IsError: true})
	}
}

// noRoute says where a refused connection was to go, and what would allow it.
func noRoute(r nacre.Record) string {
	var to struct {
		Host    string `json:"host"`
		Port    int    `json:"port"`
		Address string `json:"address"`
		Why     string `json:"why"`
	}
	if json.Unmarshal(r.Detail, &to) != nil || to.Host == "" {
		return r.Reason
	}
	address := fmt.Sprintf("%s:%d", to.Host, to.Port)
	if r.Reason == string(egress.ReasonNotListed) {
		return "no route: " + address + " is not on the list (--egress)"
	}
	because := ""
	if to.Why != "" {
		because = ": " + to.Why
	}
	switch why := noAddress(r); {
	case r.Reason == string(egress.ReasonUpstreamProxy):
		return fmt.Sprintf("%s: your proxy %s did not let it be reached%s; [egress.proxy] in config.toml, or HTTPS_PROXY and NO_PROXY, say how it is used (%s)",
			address, to.Address, because, r.Reason)
	case to.Address != "" && r.Reason == string(egress.ReasonAddress):
		return fmt.Sprintf("%s: no public address, but %s; to let it through, write %q = %q below [egress.pin] in config.toml (%s)",
			address, to.Address, address, net.JoinHostPort(to.Address, strconv.Itoa(to.Port)), r.Reason)
	case why != "":
		return fmt.Sprintf("%s: %s; pin it in [egress] (%s)", address, why, r.Reason)
	}
	return r.Reason + ": " + address
}

// noAddress says why a host that is on the list could not be dialled for its
// address's sake, or "": nobody who allowed it expects that.
func noAddress(r nacre.Record) string {
	switch egress.Reason(r.Reason) {
	case egress.ReasonResolve:
		return "no address"
	case egress.ReasonAddress:
		return "no public address"
	default: // the others have nothing to do with an address
		return ""
	}
}

// usedUp says which limit of a session's network ends what would else be let through, or "".
func usedUp(r nacre.Record) string {
	const limits = "%s; [egress.limits] in config.toml says how much it may, in %s (%s)"
	switch egress.Reason(r.Reason) {
	case egress.ReasonSpent:
		return fmt.Sprintf(limits, "the session has made all the connections that it may", "connections_total", r.Reason)
	case egress.ReasonBytes:
		return fmt.Sprintf(limits, "the session has moved all the bytes that it may", "mib", r.Reason)
	case egress.ReasonBusy:
		return fmt.Sprintf(limits, "the session has as many connections at once as it may", "connections", r.Reason)
	default: // no limit of a whole session
		return ""
	}
}

// Noticed gives a function that tells of each thing once: who tries a refused
// host a thousand times fills the audit, not the screen.
func Noticed(tell func(nacre.Step)) func(nacre.Step) {
	var mu sync.Mutex
	told := map[string]bool{}
	return func(s nacre.Step) {
		mu.Lock()
		again := told[s.Text] || len(told) == maxNotices
		if !again {
			told[s.Text] = true
		}
		mu.Unlock()
		if !again {
			tell(s)
		}
	}
}
