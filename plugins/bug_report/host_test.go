package main_test

import (
	"cmp"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre/internal/testhost"
	"github.com/nacre-dev/nacre/plugin"
	report "github.com/nacre-dev/nacre/plugins/bug_report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A peer is the host's end of the handler.
type peer struct {
	*testhost.Host
	t   *testing.T
	log map[string]string // what getAuditLog answers, by correlation
	now time.Time
}

func begin(t *testing.T, token string) *peer {
	t.Helper()
	p := &peer{t: t, log: map[string]string{}, now: time.Date(2026, 2, 17, 17, 0, 0, 0, time.UTC)}
	serve := func(in io.Reader, out io.Writer) error {
		return plugin.ServeOn(report.NewHandler(func() time.Time { return p.now }), in, out)
	}
	p.Host = testhost.Start(t, serve, func(method string, asked plugin.Service) json.RawMessage {
		if method == plugin.MethodCredential {
			return json.RawMessage(quote(token))
		}
		return json.RawMessage(cmp.Or(p.log[string(asked.Filters.Correlation)], "[]"))
	})
	return p
}

func started(t *testing.T, dir, config string) *peer {
	t.Helper()
	p := begin(t, "the-token")
	if m := p.initialize(dir, config); m.Error != nil {
		t.Fatalf("initialize: %s", m.Error.Message)
	}
	return p
}

func (p *peer) initialize(dir, config string) plugin.Message {
	return p.Ask(plugin.MethodInitialize, plugin.InitializeParams{Protocol: 1, Plugin: "bug_report", Config: json.RawMessage(config), DataDir: dir, Ticket: "I"})
}

func (p *peer) verify() plugin.Message {
	return p.Ask(plugin.MethodVerify, plugin.VerifyParams{Ticket: "V"})
}

// file is the tool's result, or its error as CODE: message.
func (p *peer) file(args string) string {
	p.t.Helper()
	return p.Call("family", "create_bug_report", json.RawMessage(args))
}

func (p *peer) want(args, want string) {
	p.t.Helper()
	if have := p.file(args); !strings.Contains(have, want) {
		p.t.Errorf("have %s, want %s", have, want)
	}
}

func quote(s string) string {
	raw, _ := json.Marshal(s)
	return string(raw)
}
