// Package embed_test runs the three programs as somebody would who embeds the kernel.
package embed_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/grant"
)

// patience is how long a program may take on a busy machine.
const patience = time.Minute

// built is a folder with the three programs.
func built(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	command := exec.Command("go", "build", "-o", dir+"/", "./service", "./worker", "./gateway")
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// service is the HTTP service while it runs.
type service struct {
	url  string
	stop func()
}

func serve(t *testing.T, bin, dir string) *service {
	t.Helper()
	command := exec.Command(filepath.Join(bin, "service"), "-dir", dir)
	command.Env = append(os.Environ(), "AGENT_KEY=agent-key", "OPERATOR_KEY=operator-key")
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	s := &service{stop: func() {
		if stopped {
			return
		}
		stopped = true
		_ = command.Process.Signal(syscall.SIGTERM)
		if err := command.Wait(); err != nil {
			t.Errorf("the service ended with %v", err)
		}
	}}
	t.Cleanup(s.stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	s.url = strings.TrimSpace(line)
	return s
}

// ask sends a request and returns the answer, and whether it is a refusal.
func (s *service) ask(t *testing.T, key, path, body string) (answer string, refused bool) {
	t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	request, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	client := http.Client{Timeout: patience}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK && response.StatusCode != http.StatusForbidden {
		t.Fatalf("%s: %s %s %v", path, response.Status, text, err)
	}
	return string(text), response.StatusCode == http.StatusForbidden
}

func (s *service) must(t *testing.T, key, path, body string) string {
	t.Helper()
	answer, refused := s.ask(t, key, path, body)
	if refused {
		t.Fatalf("%s %s is refused: %s", path, body, answer)
	}
	return answer
}

const (
	agentKey    = "agent-key"
	operatorKey = "operator-key"
)

// K-33: three programs embed the kernel, share what outlasts them, and leave evidence.
func TestTheProgramsWork(t *testing.T) {
	bin, dir := built(t), filepath.Join(t.TempDir(), "state")
	s := serve(t, bin, dir)
	agentsCall(t, s)
	operatorIsAsked(t, s)
	rulesChange(t, s, dir)
	workersSpendGrants(t, s, bin, dir)
	clientsSpeakMCP(t, bin, dir)
	s.stop()
	evidenceHolds(t, dir)
}

func agentsCall(t *testing.T, s *service) {
	t.Helper()
	s.must(t, operatorKey, "/task", `{"session":"s1","text":"Refund 15.00 for order ORD-1001; that is 1500 cents."}`)
	listed := s.must(t, agentKey, "/call", `{"session":"s1","tool":"order_list","arguments":{}}`)
	if !strings.Contains(listed, `"shape":"result"`) || strings.Contains(listed, "ada@example.com") {
		t.Errorf("a list with addresses in it, or of no shape: %s", listed)
	}
	refunded := s.must(t, agentKey, "/call", `{"session":"s1","tool":"order_refund","arguments":{"id":"ORD-1001","cents":1500}}`)
	if !strings.Contains(refunded, `"refunded":"ORD-1001"`) {
		t.Errorf("the refund that the operator named: %s", refunded)
	}
	if answer, refused := s.ask(t, agentKey, "/call", `{"session":"s1","tool":"order_delete","arguments":{}}`); !refused || !strings.Contains(answer, "UNKNOWN_TOOL") {
		t.Errorf("an unknown tool: %s", answer)
	}
}

// operatorIsAsked about what a customer's note may have said, and says yes.
func operatorIsAsked(t *testing.T, s *service) {
	t.Helper()
	answers := make(chan string, 1)
	go func() {
		answer, _ := s.ask(t, agentKey, "/call", `{"session":"s1","tool":"order_refund","arguments":{"id":"ORD-1002","cents":9000}}`)
		answers <- answer
	}()
	var open []nacre.Question
	for begun := time.Now(); len(open) == 0 && time.Since(begun) < patience; {
		if err := json.Unmarshal([]byte(s.must(t, operatorKey, "/questions", "")), &open); err != nil {
			t.Fatal(err)
		}
	}
	if len(open) != 1 || string(open[0].Arguments) != `{"cents":9000,"id":"ORD-1002"}` {
		t.Fatalf("have questions %+v", open)
	}
	s.must(t, operatorKey, "/answers", `{"id":"`+open[0].ID+`","by":"ann","allow":true}`)
	if answer := <-answers; !strings.Contains(answer, `"refunded":"ORD-1002"`) {
		t.Errorf("have %s", answer)
	}
}

func rulesChange(t *testing.T, s *service, dir string) {
	t.Helper()
	policy := filepath.Join(dir, "policy.toml")
	const list = `{"session":"s1","tool":"order_list","arguments":{}}`
	if err := os.WriteFile(policy, []byte("default = \"deny\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.must(t, operatorKey, "/reload", `{}`)
	if answer, refused := s.ask(t, agentKey, "/call", list); !refused {
		t.Errorf("rules that deny: %s", answer)
	}
	if err := os.Remove(policy); err != nil {
		t.Fatal(err)
	}
	s.must(t, operatorKey, "/reload", `{}`)
	s.must(t, agentKey, "/call", list)
}

// workersSpendGrants that a holder has narrowed without a kernel, until they are revoked.
func workersSpendGrants(t *testing.T, s *service, bin, dir string) {
	t.Helper()
	var handed struct{ ID, Token string }
	answer := s.must(t, operatorKey, "/grants", `{"session":"s1","capability":"shop.order_list","justification":"the nightly report of orders"}`)
	if err := json.Unmarshal([]byte(answer), &handed); err != nil {
		t.Fatal(err)
	}
	whole, err := grant.Parse(handed.Token)
	if err != nil {
		t.Fatal(err)
	}
	const holder = "support/agent/worker"
	narrower, err := grant.Derive(whole, nacre.Caveat{Principal: holder, Constraints: nacre.Constraints{AllowedFields: []string{"id"}}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := grant.Text(narrower)
	if err != nil {
		t.Fatal(err)
	}
	job := `{"token":"` + text + `","session":"s1","holder":"` + holder + `","arguments":{}}` + "\n"
	if done := work(t, bin, dir, job+"nonsense\n"); !strings.Contains(done, `"ORD-1001"`) || strings.Contains(done, "Refund") || !strings.Contains(done, "no job") {
		t.Errorf("the worker did %s", done)
	}
	s.must(t, operatorKey, "/revoke", `{"id":"`+handed.ID+`"}`)
	if done := work(t, bin, dir, job); !strings.Contains(done, "revoked") {
		t.Errorf("the worker did, under a grant that was revoked: %s", done)
	}
}

func work(t *testing.T, bin, dir, jobs string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(bin, "worker"), "-dir", dir)
	command.Stdin, command.Stderr = strings.NewReader(jobs), os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func clientsSpeakMCP(t *testing.T, bin, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: exec.CommandContext(ctx, filepath.Join(bin, "gateway"), "-dir", dir)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tools, err := session.ListTools(ctx, nil)
	if err != nil || len(tools.Tools) != 2 {
		t.Fatalf("have %d tools: %v", len(tools.Tools), err)
	}
	for _, c := range []struct {
		tool, says string
		arguments  any
		refused    bool
	}{
		{"order_list", "ORD-1001", map[string]any{}, false},
		{"order_refund", "consent", map[string]any{"id": "ORD-1002", "cents": 100}, true}, // nobody named it, and nobody is there to be asked
	} {
		answer, err := session.CallTool(ctx, &mcp.CallToolParams{Name: c.tool, Arguments: c.arguments})
		if err != nil {
			t.Fatal(err)
		}
		said := answer.Content[0].(*mcp.TextContent).Text
		if answer.IsError != c.refused || !strings.Contains(said, c.says) {
			t.Errorf("%s: %s", c.tool, said)
		}
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
}

// evidenceHolds for who has the public key alone, until a byte is changed.
func evidenceHolds(t *testing.T, dir string) {
	t.Helper()
	keys, err := audit.LoadKeys(filepath.Join(dir, "audit-keys"))
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(dir, "audit")
	verify := func() error {
		_, err := audit.VerifyAll(root, audit.VerifyOptions{PublicKey: keys.Public()})
		return err
	}
	if err := verify(); err != nil {
		t.Error(err)
	}
	segments, err := filepath.Glob(filepath.Join(root, "service", "*.jsonl"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("have %d segments: %v", len(segments), err)
	}
	data, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(segments[0], bytes.Replace(data, []byte(`"allowed"`), []byte(`"refused"`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := verify(); !errors.Is(err, audit.ErrTampered) {
		t.Errorf("a chain that was changed: have %v, want %v", err, audit.ErrTampered)
	}
}
