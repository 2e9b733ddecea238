package model_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/budget"
	"github.com/nacre-dev/nacre/internal/model"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// codex finds Codex: NACRE_CODEX, else on the path.
func codex(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("NACRE_CODEX"); path != "" {
		return testpeer.Need(t, path)
	}
	return testpeer.Need(t, "codex")
}

// codexConfig points Codex at a gateway. Its search is the vendor's, and so is off.
const codexConfig = `model = "gpt-5.1"
model_provider = "gateway"
check_for_update_on_startup = false
web_search = "disabled"
[model_providers.gateway]
name = "gateway"
base_url = "URL/v1"
wire_api = "responses"
env_key = "GATEWAY_TOKEN"
request_max_retries = 0
stream_max_retries = 0
`

// M-03, M-04: Codex works through the gateway with two turns and a tool, and never holds the key.
func TestCodexWorksThroughTheGateway(t *testing.T) {
	program := codex(t)
	up := scripted(t, `{
		"want_header": {"Authorization": "Bearer `+realKey+`"}, "forbid": ["`+token+`"],
		"turns": [
			{"expect": {"contains": ["count the beans"], "tools": ["exec_command"], "no_tools": ["web_search"]},
			 "thinking": "hm", "text": "Counting.", "tools": [{"name": "exec_command", "input": {"cmd": "echo beans-$((6*7))"}}],
			 "usage": {"input_tokens": 1000, "output_tokens": 50}},
			{"expect": {"contains": ["beans-42"], "error": false}, "text": "There are 42.",
			 "usage": {"input_tokens": 100, "cache_read_input_tokens": 1000, "output_tokens": 10}}
		]}`)
	b := start(t, up, everyDialect)
	out := runCodex(t, program, b, "gpt-5.1")
	if !strings.Contains(out, "There are 42.") {
		t.Errorf("the second turn did not arrive: %s", out)
	}
	b.stop()
	if cost, in, tokens := b.gateway.Spent(); cost != (1000*1_250_000+50*10_000_000+999_999)/1_000_000+(100*1_250_000+1000*125_000+10*10_000_000+999_999)/1_000_000 || in != 2100 || tokens != 60 {
		t.Errorf("spent: have %d, %d, %d", cost, in, tokens)
	}
	for _, r := range b.log.all() {
		if r.Outcome == "denied" || r.Outcome == model.OutcomeCut {
			t.Errorf("have %+v", r)
		}
	}
}

// M-03, M-04: the newer models get their tools in an item, and call them from a script.
func TestCodexsNewerModelsWorkThroughTheGateway(t *testing.T) {
	program := codex(t)
	up := scripted(t, `{
		"want_header": {"Authorization": "Bearer `+realKey+`"}, "forbid": ["`+token+`"],
		"turns": [
			{"expect": {"contains": ["count the beans"], "tools": ["exec"], "no_tools": ["web_search"]},
			 "tools": [{"name": "exec", "raw": "text(await tools.exec_command({cmd: \"echo beans-$((6*7))\"}))"}]},
			{"expect": {"contains": ["beans-42"]}, "text": "There are 42."}
		]}`)
	b := start(t, up, func(o *model.Options) {
		everyDialect(o)
		o.Upstreams[0].Prices = budget.Table{"gpt-6-sol": {Free: true}}
	})
	if out := runCodex(t, program, b, "gpt-6-sol"); !strings.Contains(out, "There are 42.") {
		t.Errorf("the second turn did not arrive: %s", out)
	}
	b.stop()
	for _, r := range b.log.all() {
		if r.Outcome == "denied" || r.Outcome == model.OutcomeCut {
			t.Errorf("have %+v", r)
		}
	}
}

// A refusal reaches the person in front of Codex.
func TestCodexShowsWhyItIsRefused(t *testing.T) {
	program := codex(t)
	b := start(t, scripted(t, `{"turns":[{"text":"x"}]}`), func(o *model.Options) {
		everyDialect(o)
		o.Budget = 1
	})
	if out := runCodex(t, program, b, "gpt-5.1"); !strings.Contains(out, "budget exhausted") {
		t.Errorf("have %s", out)
	}
}

func runCodex(t *testing.T, program string, b *bench, name string) string {
	t.Helper()
	// Codex does not run its tools with a home under the temporary directory of the system.
	home, err := os.MkdirTemp(".", "codex-home") //nolint:usetesting // t.TempDir is under it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	if home, err = filepath.Abs(home); err != nil {
		t.Fatal(err)
	}
	config := strings.NewReplacer("URL", loopback(t, b.socket), "gpt-5.1", name).Replace(codexConfig)
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "exec", "--json", "--skip-git-repo-check", "-s", "danger-full-access", "count the beans")
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"HOME=" + home, "CODEX_HOME=" + home, "PATH=" + os.Getenv("PATH"), "GATEWAY_TOKEN=" + token}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run() // a refusal is a failure to Codex; what it says is looked at
	return out.String()
}
