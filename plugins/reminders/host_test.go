package main_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre/plugin"
	reminders "github.com/nacre-dev/nacre/plugins/reminders"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A peer is the host's end of the handler, over its real protocol.
type peer struct {
	t        *testing.T
	in       io.Writer
	out      *bufio.Reader
	password string
	last     int
}

// begin starts a handler that is not initialized.
func begin(t *testing.T, password string) *peer {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := plugin.ServeOn(reminders.NewHandler(), inR, outW)
		_ = outW.CloseWithError(io.ErrUnexpectedEOF) // whoever waits for an answer waits no more
		ended <- err
	}()
	p := &peer{t: t, in: inW, out: bufio.NewReader(outR), password: password}
	t.Cleanup(func() {
		_ = inW.Close()
		go func() { _, _ = io.Copy(io.Discard, outR) }()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return p
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
	p.t.Helper()
	return p.ask("initialize", fmt.Sprintf(`{"protocol":1,"plugin":"reminders","config":%s,"data_dir":%q,"ticket":"I"}`, config, dir))
}

// ask sends a request, serves what the handler asks back, and returns its answer.
func (p *peer) ask(method, params string) plugin.Message {
	p.t.Helper()
	p.last++
	p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, p.last, method, params))
	for {
		line, err := p.out.ReadBytes('\n')
		if err != nil {
			p.t.Fatal(err)
		}
		var m plugin.Message
		if err := json.Unmarshal(line, &m); err != nil {
			p.t.Fatal(err)
		}
		if m.Method == "" {
			return m
		}
		secret, _ := json.Marshal(p.password)
		p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, secret))
	}
}

func (p *peer) say(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

// call is a tool's result, or its error as CODE: message.
func (p *peer) call(group, tool, args string) string {
	p.t.Helper()
	m := p.ask("handleRequest", fmt.Sprintf(
		`{"ticket":"T","timeout_ms":1000,"envelope":{"topic":"tool.invoke.%s","group":%q,"payload":{"arguments":%s}}}`, tool, group, args))
	if m.Error == nil {
		return string(m.Result)
	}
	e, ok := plugin.ParseToolError(m.Error.Data)
	if !ok {
		return m.Error.Message
	}
	return fmt.Sprintf("%s (retriable %t): %s", e.Code, e.Retriable, e.Message)
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
