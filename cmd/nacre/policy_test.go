package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/policy"
)

// K-06: a chain as a kernel writes it, replayed from its folder and from the
// folder of all chains.
func TestAChainIsReplayed(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "audit")
	keys, err := audit.NewKeys(make([]byte, 32), make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	chain, err := audit.Open(t.Context(), audit.Options{Root: root, Chain: "k1.1", Keys: keys, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	detail, err := json.Marshal(map[string]any{"code": nacre.ReasonRuleAllow, "request": policy.RecordedOf(policy.Request{
		Capability: nacre.Capability{ID: "notes.add", Tool: "add", Safety: nacre.Write, Sensitivity: nacre.SensitiveNone},
		Arguments:  json.RawMessage(`{"text":"milk","n":1.5}`),
	})})
	if err != nil {
		t.Fatal(err)
	}
	begin := nacre.Record{Kind: nacre.KindCallBegin, Time: time.Now(), Outcome: nacre.OutcomeAllowed, Detail: detail}
	if err := chain.Commit(t.Context(), begin); err != nil {
		t.Fatal(err)
	}
	if err := chain.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	rules := filepath.Join(t.TempDir(), "new.yaml")
	const text = "rules:\n- {name: no milk, action: deny, match: {arguments: {text: milk, n: 1.50}}}\n"
	if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{root, filepath.Join(root, "k1.1")} {
		out, err := exec.Command(filepath.Join(bin, "nacre"), "policy", "replay", rules, from).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "allow → deny") || !strings.Contains(string(out), "1 calls: 0 decided as before, 1 changed") {
			t.Errorf("%v\n%s", err, out)
		}
	}
}
