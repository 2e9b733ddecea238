package main_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre/plugin"
	report "github.com/nacre-dev/nacre/plugins/bug_report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A peer is the host's end of the handler, over its real protocol.
type peer struct {
	t     *testing.T
	in    io.Writer
	out   *bufio.Reader
	token string
	log   map[string]string // what getAuditLog answers, by correlation
	now   time.Time
	last  int
}

func begin(t *testing.T, token string) *peer {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p := &peer{t: t, in: inW, out: bufio.NewReader(outR), token: token, log: map[string]string{}, now: time.Date(2026, 2, 17, 17, 0, 0, 0, time.UTC)}
	ended := make(chan error, 1)
	go func() {
		err := plugin.ServeOn(report.NewHandler(func() time.Time { return p.now }), inR, outW)
		_ = outW.CloseWithError(io.ErrUnexpectedEOF) // whoever waits for an answer waits no more
		ended <- err
	}()
	t.Cleanup(func() {
		_ = inW.Close()
		go func() { _, _ = io.Copy(io.Discard, outR) }()
		if err := <-ended; err != nil {
			t.Error(err)
		}
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
	p.t.Helper()
	return p.ask("initialize", fmt.Sprintf(`{"protocol":1,"plugin":"bug_report","config":%s,"data_dir":%q,"ticket":"I"}`, config, dir))
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
		var s plugin.Service
		if err := json.Unmarshal(m.Params, &s); err != nil {
			p.t.Fatal(err)
		}
		answer := "[]"
		switch {
		case m.Method == plugin.MethodCredential:
			answer = quote(p.token)
		case p.log[string(s.Filters.Correlation)] != "":
			answer = strings.ReplaceAll(p.log[string(s.Filters.Correlation)], "\n", "")
		}
		p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, answer))
	}
}

func (p *peer) say(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

// file is the tool's result, or its error as CODE: message.
func (p *peer) file(args string) string {
	p.t.Helper()
	m := p.ask("handleRequest", `{"ticket":"T","timeout_ms":1000,"envelope":{"topic":"tool.invoke.create_bug_report","group":"family","payload":{"arguments":`+args+`}}}`)
	if m.Error == nil {
		return string(m.Result)
	}
	e, ok := plugin.ParseToolError(m.Error.Data)
	if !ok {
		return m.Error.Message
	}
	return fmt.Sprintf("%s (retriable %t): %s", e.Code, e.Retriable, e.Message)
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
