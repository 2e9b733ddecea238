package main_test

import (
	"encoding/json"
	"errors"
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

// K-32: a check holds the rules against the tools that there are, and names the type.
func TestAPolicyIsHeldAgainstTheToolsOfPlugins(t *testing.T) {
	t.Parallel()
	rules := filepath.Join(t.TempDir(), "policy.toml")
	const text = "[[rules]]\naction = \"allow\"\nmatch = { tool = [\"create_reminder\"], arguments = { title = \">100\" } }\n" +
		"[[rules]]\naction = \"deny\"\nmatch = { tool = [\"create_remainder\"] }\n"
	if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(filepath.Join(bin, "nacre"), "policy", "check", rules).CombinedOutput(); err != nil {
		t.Errorf("without plugins: %v\n%s", err, out)
	}
	out, err := exec.Command(filepath.Join(bin, "nacre"), "policy", "check", rules, "--plugins", filepath.Join(bin, "plugins")).CombinedOutput()
	var failed *exec.ExitError
	if !errors.As(err, &failed) || failed.ExitCode() != 1 {
		t.Errorf("have %v, want exit 1", err)
	}
	for _, want := range []string{`argument "title" is string`, "about none of the", "can never match"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("does not say %s:\n%s", want, out)
		}
	}
}

// U-42: what a changed policy decides otherwise on the calls that were recorded is shown before it
// goes live. With require_replay no session begins under a policy that nobody accepted.
func TestAPolicyIsSeenBeforeItDecides(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.config("[policy]\nrequire_replay = true\n[groups.main]\ntools = [\"memory_*\"]\n")
	exec := []string{"exec", "--", "ipc", "memory_store", `{"type":"fact","content":"milk"}`}
	i.nacre(exec...).want(t, 0) // the shipped policy is whoever's who installed nacre
	const rules = "[[rules]]\nname = \"no notes\"\naction = \"deny\"\nmatch = { capability = [\"*\"] }\n"
	i.write("home/.config/nacre/policy.toml", rules)
	refused := i.nacre(exec...)
	refused.want(t, 125, "nobody accepted it", "nacre policy diff --replay", "nacre policy accept sha256:")
	i.nacre("policy", "diff").want(t, 0, "added", "no notes", "removed")
	r := i.nacre("policy", "diff", "--replay", "--json")
	r.want(t, 0, `"changes":[{`, `"would_be":"deny"`, `"rule":"no notes"`)
	var said struct{ New string }
	if err := json.Unmarshal([]byte(r.stdout), &said); err != nil {
		t.Fatal(err)
	}
	i.write("home/.config/nacre/policy.toml", rules+"# and a word\n")
	i.nacre("policy", "accept", said.New).want(t, 2, "the policy in force is sha256:")
	i.nacre(exec...).want(t, 125, "nobody accepted it")
	i.write("home/.config/nacre/policy.toml", rules)
	i.nacre("policy", "accept", said.New).want(t, 0, "is accepted")
	i.nacre("policy", "diff").want(t, 0, "0 rules differ")
	i.nacre(exec...).want(t, 1, "no notes")
	i.nacre("audit", "verify").want(t, 0)
	i.write("home/.local/state/nacre/policy-accepted.json", `{"version":"`+said.New+`","name":"p.toml","text":""}`)
	i.nacre("policy", "diff").want(t, 1, "is damaged")
	i.write("home/.local/state/nacre/policy-accepted.json", "{")
	i.nacre(exec...).want(t, 125, "what policy was accepted cannot be read")
}
