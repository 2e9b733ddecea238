package main_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre/internal/testhost"
	"github.com/nacre-dev/nacre/plugin"
	reminders "github.com/nacre-dev/nacre/plugins/reminders"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A peer is the host's end of the handler.
type peer struct {
	*testhost.Host
	t *testing.T
}

// begin starts a handler that is not initialized.
func begin(t *testing.T, password string) *peer {
	t.Helper()
	serve := func(in io.Reader, out io.Writer) error { return plugin.ServeOn(reminders.NewHandler(), in, out) }
	return &peer{t: t, Host: testhost.Start(t, serve, func(string, plugin.Service) json.RawMessage {
		return json.RawMessage(quote(password))
	})}
}

// started is a handler with a configuration.
func started(t *testing.T, dir, config, password string) *peer {
	t.Helper()
	p := begin(t, password)
	if m := p.initialize(dir, config); m.Error != nil {
		t.Fatalf("initialize: %s %s", m.Error.Message, m.Error.Data)
	}
	return p
}

func (p *peer) initialize(dir, config string) plugin.Message {
	return p.Ask(plugin.MethodInitialize, plugin.InitializeParams{Protocol: 1, Plugin: "reminders", Config: json.RawMessage(config), DataDir: dir, Ticket: "I"})
}

func (p *peer) verify() plugin.Message {
	return p.Ask(plugin.MethodVerify, plugin.VerifyParams{Ticket: "V"})
}

// call is a tool's result, or its error as CODE: message.
func (p *peer) call(group, tool, args string) string {
	p.t.Helper()
	return p.Call(group, tool, json.RawMessage(args))
}

// want calls a tool whose answer must hold the text.
func (p *peer) want(group, tool, args, want string) string {
	p.t.Helper()
	have := p.call(group, tool, args)
	if !strings.Contains(have, want) {
		p.t.Errorf("%s %.200s: have %.500s, want %s", tool, args, have, want)
	}
	return have
}

func quote(s string) string {
	raw, _ := json.Marshal(s)
	return string(raw)
}
