package egress

import (
	"bytes"
	"context"
	"io"
	"strconv"
	"time"

	"github.com/nacre-dev/nacre"
)

const established = "HTTP/1.1 200 Connection established\r\n\r\n"

// connect carries a CONNECT: who? → listed? → where to? → the hello → record → dial → bytes.
func (p *Proxy) connect(ctx context.Context, c *client, h *head) {
	d := denial{method: h.method}
	t, err := h.connectTarget()
	if err != nil {
		p.denyFor(ctx, c, d, err)
		return
	}
	d.target = t
	until, admitted := c.admit(ctx, p, &d, nacre.ProtocolTLS, nacre.ProtocolTCP)
	if !admitted {
		return
	}
	rule := d.rule
	list := p.opened[t]
	if len(list) > 0 && rule.Protocol != nacre.ProtocolTLS {
		d.opened, d.reason, d.detail = true, ReasonProtocol, "a credential is for this host, so it is reached over TLS alone"
		p.deny(ctx, c, d)
		return
	}
	ctx, cancel := p.while(ctx, t, rule, until)
	defer cancel()
	to, err := p.addresses(ctx, t.host, rule)
	if err != nil {
		p.denyFor(ctx, c, d, err)
		return
	}
	if len(list) > 0 {
		p.tunnelOpened(ctx, c, d, to)
		return
	}
	if rule.Protocol == nacre.ProtocolTLS {
		p.tunnelTLS(ctx, c, d, to)
		return
	}
	p.tunnelTCP(ctx, c, d, to)
}

// connectTarget reads the one host and port that a CONNECT names.
func (h *head) connectTarget() (target, error) {
	if h.length != 0 {
		return target{}, refusal(ReasonMalformed, "a CONNECT has no body")
	}
	t, err := parseAuthority(h.target, 0)
	if err != nil {
		return target{}, err
	}
	if h.namesProxy() {
		return t, nil
	}
	return t, h.checkHost(t, t.port)
}

// namesProxy reports whether the Host header is the proxy's own address, as
// Node's http.request writes it. A CONNECT's Host goes nowhere.
func (h *head) namesProxy() bool {
	value, _ := h.get("host")
	port := strconv.Itoa(nacre.EgressPort)
	return value == "127.0.0.1:"+port || value == "localhost:"+port
}

// checkHost refuses a Host header that names anything but t.
func (h *head) checkHost(t target, standard uint16) error {
	value, ok := h.get("host")
	if !ok {
		return nil
	}
	if named, err := parseAuthority(value, standard); err != nil || named != t {
		return refusal(ReasonHostMismatch, "the Host header names another host than the request")
	}
	return nil
}

// tunnelTLS answers a CONNECT to a host whose TLS passes through.
func (p *Proxy) tunnelTLS(ctx context.Context, c *client, d denial, to route) {
	flow, hello := p.greeted(ctx, c, d, to)
	if flow == nil {
		return
	}
	defer flow.end(ctx)
	if err := flow.dial(ctx, to); err != nil {
		_, _ = c.conn.Write(alert(reasonOf(err)))
		return
	}
	server := &serverWatch{r: flow.up}
	guard := &helloGuard{r: c.r, host: d.target.host, server: server}
	flow.splice(c.conn, io.MultiReader(bytes.NewReader(hello), guard), server, p.limits.FirstByte)
}

// greeted answers a CONNECT, reads the client's hello and allows the connection
// that it asks for. Where there is none, the client has been told.
func (p *Proxy) greeted(ctx context.Context, c *client, d denial, to route) (*flow, []byte) {
	if _, err := io.WriteString(c.conn, established); err != nil {
		return nil, nil
	}
	_ = c.conn.SetDeadline(time.Now().Add(p.limits.Request))
	hello, err := readHello(c.r, d.target.host)
	if err != nil {
		d.reason = reasonOf(err)
		p.recordDenied(ctx, d)
		_, _ = c.conn.Write(alert(d.reason)) // best effort: the connection ends here
		return nil, nil
	}
	flow, err := p.allow(ctx, d, to)
	if err != nil {
		_, _ = c.conn.Write(alert(reasonOf(err)))
		return nil, nil
	}
	return flow, hello
}

func (p *Proxy) tunnelTCP(ctx context.Context, c *client, d denial, to route) {
	flow, err := p.allow(ctx, d, to)
	if err != nil {
		c.answer(denial{reason: reasonOf(err), target: d.target, method: d.method})
		return
	}
	defer flow.end(ctx)
	if err := flow.dial(ctx, to); err != nil {
		c.answer(denial{target: d.target, method: d.method}.because(err))
		return
	}
	_ = c.conn.SetDeadline(time.Now().Add(p.limits.Request))
	if _, err := io.WriteString(c.conn, established); err != nil {
		return
	}
	flow.splice(c.conn, c.r, flow.up, p.limits.Idle)
}
