package model_test

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/model"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// claude finds Claude Code: NACRE_CLAUDE, else on the path.
func claude(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("NACRE_CLAUDE"); path != "" {
		return testpeer.Need(t, path)
	}
	return testpeer.Need(t, "claude")
}

// loopback forwards a TCP port to the gateway's socket, as the sandbox's forwarder does.
func loopback(t *testing.T, socket string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	join := func(a, b net.Conn) {
		defer func() { _ = a.Close(); _ = b.Close() }()
		_, _ = io.Copy(a, b)
	}
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("unix", socket)
			if err != nil {
				_ = in.Close()
				continue
			}
			all.Go(func() { join(in, out) })
			all.Go(func() { join(out, in) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	return "http://" + l.Addr().String()
}

// M-03, M-04: the real command-line agent works through the gateway with two
// turns and a tool, and never holds the key.
func TestClaudeCodeWorksThroughTheGateway(t *testing.T) {
	program := claude(t)
	up := scripted(t, `{
		"want_header": {"X-Api-Key": "`+realKey+`"}, "forbid": ["`+token+`"],
		"turns": [
			{"expect": {"contains": ["count the beans"], "tools": ["Bash"], "no_tools": ["WebSearch"]},
			 "text": "Counting.", "tools": [{"name": "Bash", "input": {"command": "echo beans-$((6*7))", "description": "count"}}],
			 "usage": {"input_tokens": 1000, "output_tokens": 50}},
			{"expect": {"contains": ["beans-42"], "error": false}, "text": "There are 42.",
			 "usage": {"input_tokens": 1100, "output_tokens": 10}}
		]}`)
	b := start(t, up, nil)
	home := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-p", "count the beans", "--output-format", "stream-json", "--verbose",
		"--setting-sources", "", "--strict-mcp-config", "--permission-mode", "dontAsk", "--allowedTools", "Bash(echo:*)")
	cmd.Dir = t.TempDir()
	cmd.Env = []string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"), "ANTHROPIC_BASE_URL=" + loopback(t, b.socket), "ANTHROPIC_API_KEY=" + token,
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_MAX_RETRIES=1",
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, &stderr)
	}
	if !strings.Contains(string(out), "There are 42.") {
		t.Errorf("the second turn did not arrive: %s", out)
	}
	b.stop()
	if cost, in, tokens := b.gateway.Spent(); cost != 2100*4+60*20 || in != 2100 || tokens != 60 {
		t.Errorf("spent: have %d, %d, %d", cost, in, tokens)
	}
	if n := len(up.Requests()); n != 2 {
		t.Errorf("have %d requests", n)
	}
	for _, r := range b.log.all() {
		if r.Outcome == "denied" || r.Outcome == model.OutcomeCut {
			t.Errorf("have %+v", r)
		}
	}
	if strings.Contains(string(out)+stderr.String(), realKey) {
		t.Error("the key is in the agent's output")
	}
	keepsNoKey(t, home)
}

func keepsNoKey(t *testing.T, home string) {
	t.Helper()
	err := filepath.WalkDir(home, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(realKey)) {
			t.Errorf("the key is in %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// A refused budget reaches the person who runs the agent.
func TestClaudeCodeShowsAnExhaustedBudget(t *testing.T) {
	program := claude(t)
	b := start(t, scripted(t, `{"turns":[{"text":"x"}]}`), func(o *model.Options) { o.Budget = 100 })
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-p", "hi", "--setting-sources", "", "--strict-mcp-config", "--tools", "Bash")
	cmd.Dir = t.TempDir()
	cmd.Env = []string{
		"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "ANTHROPIC_BASE_URL=" + loopback(t, b.socket), "ANTHROPIC_API_KEY=" + token,
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1",
	}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "budget exhausted") {
		t.Errorf("have %v: %s", err, out)
	}
}

// M-04: Claude Code goes on without beta features that are not on its version's list. An upstream
// that refused them would end it at its first call.
func TestClaudeCodeGoesOnWithoutBetas(t *testing.T) {
	program := claude(t)
	for name, refuses := range map[string]bool{"dropped": false, "refused": true} {
		up := scripted(t, `{"turns":[{"text":"Hello there."}]}`)
		var asked string
		b := start(t, up, func(o *model.Options) { o.Agent = "claude 0.0.1" })
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = r.Header.Get("Anthropic-Beta")
			if refuses {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, `{"type":"error","error":{"type":"invalid_request_error","message":"nacre: anthropic-beta is refused"}}`)
				return
			}
			b.gateway.ServeHTTP(w, r)
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		cmd := exec.CommandContext(ctx, program, "-p", "hi", "--setting-sources", "", "--strict-mcp-config", "--tools", "Bash")
		cmd.Dir = t.TempDir()
		cmd.Env = []string{
			"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "ANTHROPIC_BASE_URL=" + front.URL, "ANTHROPIC_API_KEY=" + token,
			"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_MAX_RETRIES=1",
		}
		out, err := cmd.CombinedOutput()
		cancel()
		front.Close()
		b.stop()
		if (err == nil) == refuses || strings.Contains(string(out), "Hello there.") == refuses || !strings.Contains(asked, "claude-code-20250219") {
			t.Errorf("%s: asked for %s, have %v: %s", name, asked, err, out)
		}
		t.Logf("%s: asked for %s, have %v: %.300s", name, asked, err, out)
	}
}
