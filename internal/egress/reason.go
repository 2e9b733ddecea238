package egress

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/nacre-dev/nacre"
)

// Reason is a stable code for why egress was refused or a connection ended.
type Reason string

// The reasons.
const (
	// ReasonListed allows: a rule names host, port and protocol.
	ReasonListed Reason = "listed"
	// ReasonNotListed refuses: no rule names the host and port. Nothing was resolved.
	ReasonNotListed Reason = "not_listed"
	// ReasonProtocol refuses: the host and port are listed for another protocol.
	ReasonProtocol Reason = "protocol_not_listed"
	// ReasonTarget refuses a target that is not a plain host name and port.
	ReasonTarget Reason = "bad_target"
	// ReasonIPLiteral refuses an address in any spelling: rules name hosts.
	ReasonIPLiteral Reason = "ip_literal"
	// ReasonMalformed refuses a request that could be read in two ways.
	ReasonMalformed Reason = "malformed_request"
	// ReasonHostMismatch refuses a Host header that is not the target's.
	ReasonHostMismatch Reason = "host_mismatch"
	// ReasonMethod refuses a method that the proxy does not carry.
	ReasonMethod Reason = "method_not_allowed"
	// ReasonTooLarge refuses a head or hello over its limit.
	ReasonTooLarge Reason = "too_large"
	// ReasonTimeout refuses what did not come in time.
	ReasonTimeout Reason = "timeout"
	// ReasonBusy refuses a connection over the limit of connections.
	ReasonBusy Reason = "too_many_connections"
	// ReasonSpent refuses: the session has had all its connections.
	ReasonSpent Reason = "connections_exhausted"
	// ReasonBytes ends a connection: the session's bytes are used up.
	ReasonBytes Reason = "bytes_exhausted"
	// ReasonAddress refuses a host that resolves to an address inside.
	ReasonAddress Reason = "address_refused"
	// ReasonResolve says that a listed host has no address now.
	ReasonResolve Reason = "not_resolved"
	// ReasonDial says that a listed host could not be reached.
	ReasonDial Reason = "not_reached"
	// ReasonUpstreamProxy says that the operator's own proxy did not let a listed host be
	// reached.
	ReasonUpstreamProxy Reason = "upstream_proxy"
	// ReasonUpstream says that the host's answer could not be read.
	ReasonUpstream Reason = "bad_upstream"
	// ReasonNotTLS refuses what does not begin with a TLS client hello.
	ReasonNotTLS Reason = "not_tls"
	// ReasonNoSNI refuses a hello without a server name.
	ReasonNoSNI Reason = "no_server_name"
	// ReasonSNIMismatch refuses a hello for another host than the CONNECT's.
	ReasonSNIMismatch Reason = "server_name_mismatch"
	// ReasonECH refuses an encrypted client hello: its real server name is hidden.
	ReasonECH Reason = "encrypted_hello"
	// ReasonEarlyData refuses TLS early data, behind which a second hello could hide.
	ReasonEarlyData Reason = "early_data"
	// ReasonAudit refuses: the record could not be written (K-21).
	ReasonAudit Reason = "audit_failed"
	// ReasonDone ends a connection in order.
	ReasonDone Reason = "done"
	// ReasonStopped ends a connection with its session.
	ReasonStopped Reason = "stopped"
	// ReasonGrantEnded ends a connection with the time for which its rule was approved.
	ReasonGrantEnded Reason = "grant_ended"
	// ReasonRevoked refuses, and ends what is open: what the session was granted was
	// taken back.
	ReasonRevoked Reason = "revoked"
	// ReasonReset ends a connection that one side broke off.
	ReasonReset Reason = "reset"
	// ReasonIdle ends a connection that was silent for too long.
	ReasonIdle Reason = "idle"
)

// The reasons of requests on a host whose TLS is opened (M-22).
const (
	// ReasonPath refuses a path that two servers could take for two places.
	ReasonPath Reason = "ambiguous_path"
	// ReasonPathNotLeased refuses a path that no credential is for.
	ReasonPathNotLeased Reason = "path_not_leased"
	// ReasonMethodNotLeased refuses a method that the credential is not for.
	ReasonMethodNotLeased Reason = "method_not_leased"
	// ReasonGit refuses another repository, service or ref than the credential's.
	ReasonGit Reason = "git_not_leased"
	// ReasonNotInBundle refuses a request that the bundle of its host does not name.
	ReasonNotInBundle Reason = "request_not_listed"
	// ReasonAuthority refuses a Host or :authority that is not the CONNECT's.
	ReasonAuthority Reason = "authority_mismatch"
	// ReasonRedirecting refuses what makes a server act on another method, path or host,
	// or for another user.
	ReasonRedirecting Reason = "request_redirecting"
	// ReasonUpgrade refuses another protocol, such as a websocket: it could not be searched.
	ReasonUpgrade Reason = "upgrade_refused"
	// ReasonCredential says that there is no value to use now.
	ReasonCredential Reason = "credential_unavailable"
	// ReasonPlaceholder refuses what holds a placeholder where no credential is put.
	ReasonPlaceholder Reason = "placeholder_left"
	// ReasonCertificate says that the host's certificate was not accepted.
	ReasonCertificate Reason = "certificate_not_trusted"
	// ReasonPacked refuses a body whose compressed text could not be searched.
	ReasonPacked Reason = "packed_body"
	// ReasonOpaque refuses a body in a coding that cannot be searched.
	ReasonOpaque Reason = "opaque_body"
	// ReasonLeak ends an answer that held the credential.
	ReasonLeak Reason = "credential_in_answer"
	// ReasonEncoded refuses an answer in a coding that cannot be searched.
	ReasonEncoded Reason = "encoded_answer"
	// ReasonHandshake says that the client did not accept the session's authority,
	// or broke off the handshake.
	ReasonHandshake Reason = "handshake_failed"
)

// reasonError carries a reason through the readers of this package.
type reasonError struct {
	reason Reason
	detail string
	// address is for the record only: the sandbox is not told what a name leads to.
	address string
}

func (e *reasonError) Error() string { return string(e.reason) + ": " + e.detail }

func refusal(reason Reason, detail string) error { return &reasonError{reason: reason, detail: detail} }

// reasonOf is the reason an error carries; errors of the connection itself are time-outs or malformed.
func reasonOf(err error) Reason {
	var r *reasonError
	if errors.As(err, &r) {
		return r.reason
	}
	if isTimeout(err) {
		return ReasonTimeout
	}
	return ReasonMalformed
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// denial is one refusal: what was asked for, as far as it could be read.
type denial struct {
	reason Reason
	target target
	rule   nacre.EgressRule
	method string
	detail string
	// address is what the host resolved to where that is why.
	address string
	// path and credential are of a request on a host whose TLS is opened.
	path, credential string
	opened           bool
	// proposal is how a person can approve it now, or "".
	proposal string
	// plugin is whose proxy refused, or "" for a session's.
	plugin nacre.PluginName
}

// ruleName is the rule that matched, or "" where none did.
func (d denial) ruleName() string {
	if d.rule.Host == "" {
		return ""
	}
	return d.rule.String()
}

func (d denial) status() int {
	switch d.reason {
	case ReasonMalformed, ReasonPath:
		return 400
	case ReasonAuthority:
		return http.StatusMisdirectedRequest
	case ReasonMethod:
		return 405
	case ReasonTimeout, ReasonIdle:
		return 408
	case ReasonOpaque:
		return http.StatusUnsupportedMediaType
	case ReasonTooLarge:
		return 431
	case ReasonResolve, ReasonDial, ReasonUpstream, ReasonUpstreamProxy, ReasonCertificate, ReasonLeak, ReasonEncoded:
		return http.StatusBadGateway
	case ReasonBusy, ReasonAudit, ReasonCredential:
		return 503
	}
	return 403
}

// response is the whole answer: what was denied, why, and how to ask (M-23).
// Most clients show no more of a refused CONNECT than its status line, so that
// says it too.
func (d denial) response() []byte {
	body, how := d.text(), ""
	switch ask := d.ask(); {
	case ask != "" && d.plugin != "":
		how = fmt.Sprintf("; ask for [access.%s] hosts = [%q]", d.plugin, ask)
	case ask != "":
		how = "; ask for " + d.option()
	}
	if d.proposal != "" {
		how += ", or " + d.proposal
	}
	what := "Denied by nacre"
	if d.failed() {
		what = "Not reached by nacre"
	}
	return fmt.Appendf(nil, "HTTP/1.1 %d %s: %s%s\r\nContent-Type: text/plain; charset=utf-8\r\n"+
		"Content-Length: %d\r\nX-Nacre-Reason: %s\r\nConnection: close\r\n\r\n%s",
		d.status(), what, d.reason, how, len(body), d.reason, body)
}

// failed tells a host that is listed and does not answer from a refusal.
func (d denial) failed() bool { return d.status() == http.StatusBadGateway }

func (d denial) text() string {
	var b strings.Builder
	what, verb := "this request", "is denied"
	if d.target.valid() {
		what = d.target.String()
	}
	if d.failed() {
		verb = "is allowed, and failed"
	}
	fmt.Fprintf(&b, "nacre: egress to %s %s (%s)\n", what, verb, d.reason)
	if d.detail != "" {
		fmt.Fprintf(&b, "  %s\n", d.detail)
	}
	switch ask := d.ask(); {
	case ask != "" && d.plugin != "":
		fmt.Fprintf(&b, "To allow it, where the plugin's manifest lists the host, the operator adds %q to hosts under [access.%s] in config.toml\n", ask, d.plugin)
	case ask != "":
		fmt.Fprintf(&b, "To allow it, the operator starts the session with: nacre run … %s\n", d.option())
		fmt.Fprintf(&b, "or: nacre exec %s -- …\n", d.option())
	}
	if d.proposal != "" {
		fmt.Fprintf(&b, "To allow it now, for a time, the operator answers: %s\n", d.proposal)
	}
	return b.String()
}

// option is what lets this through, where a session is started.
func (d denial) option() string {
	if d.target.host == "localhost" { // which --egress refuses
		return "--reach " + d.target.String()
	}
	return "--egress " + d.ask()
}

// ask is the rule that would let this through, or "" where none would.
func (d denial) ask() string {
	if d.opened || !d.target.valid() || (d.reason != ReasonNotListed && d.reason != ReasonProtocol) {
		return ""
	}
	rule := d.target.String()
	switch {
	case d.target.host == "localhost": // a service of this machine (U-06)
		return rule + "/tcp"
	case d.method != "CONNECT":
		return rule + "/http"
	case d.target.port == 22:
		return rule + "/tcp" // SSH, which is no TLS
	case d.reason == ReasonProtocol:
		return rule + "/tcp" // it is listed as http, and a tunnel is not looked into
	}
	return rule
}

// maxDenials is how many different denials a session remembers.
const maxDenials = 64

// Denial is a host and port that was refused, and how often.
type Denial struct {
	Host   string
	Port   uint16
	Reason Reason
	Count  int
	// Rule is what --egress would have to name, or "" where no rule would help.
	Rule string
}

// denialList keeps the first maxDenials different denials.
type denialList struct {
	mu   sync.Mutex
	list []Denial
}

func (l *denialList) add(d denial) {
	if !d.target.valid() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.list {
		e := &l.list[i]
		if e.Host == d.target.host && e.Port == d.target.port && e.Reason == d.reason {
			e.Count++
			return
		}
	}
	if len(l.list) < maxDenials {
		l.list = append(l.list, Denial{d.target.host, d.target.port, d.reason, 1, d.ask()})
	}
}

// Denials lists what was refused, for the account at a session's end: the first 64 different ones.
func (p *Proxy) Denials() []Denial {
	p.denials.mu.Lock()
	defer p.denials.mu.Unlock()
	return append([]Denial(nil), p.denials.list...)
}

func (t target) String() string { return t.host + ":" + strconv.Itoa(int(t.port)) }
