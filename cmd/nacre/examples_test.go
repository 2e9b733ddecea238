package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// U-33: examples/team is an installation that works, and says who may decide what.
func TestTheTeamsExampleCanBeUsed(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.config(page(t, "examples/serve/config.toml")) // M-62
	i.nacre("config", "check").want(t, 0, "can be used")
	i.config(page(t, "examples/team/config.toml"))
	i.nacre("config", "check").want(t, 0, "can be used")
	i.nacre("operators", "list").want(t, 0, "ada", "slack:T012AB3CD:U012AB3CD", "bob", "support")
	i.nacre("exec", "-q", "--", "true").want(t, 0)
	i.nacre("policy", "init").want(t, 0)
	i.nacre("exec", "-q", "--", "true").want(t, 125, "nacre policy diff --replay") // U-42: a change that nobody has seen yet
}

// workflow is what the test reads of a workflow of GitHub Actions.
type workflow struct {
	Jobs map[string]struct {
		Steps []struct{ Name, Run string }
	}
}

// U-33: the steps of examples/ci/agent.yml that are nacre's own, as the runner's shell runs them:
// what passed the check is committed, and its receipt verifies.
func TestTheWorkflowOfTheExamplesIsPlayed(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "npm")
	var file workflow
	if err := yaml.Unmarshal([]byte(page(t, "examples/ci/agent.yml")), &file); err != nil {
		t.Fatal(err)
	}
	server, url := upstreamOf(t, scriptedmodel.Script{Turns: []scriptedmodel.Turn{
		{Text: "I will fix it.", Tools: []scriptedmodel.Tool{{Name: "shell", Input: []byte(`{"command":"echo fixed >state; echo 'exit 0' >.envrc"}`)}}},
		{Text: "Done."},
	}})
	i := install(t)
	i.write("p/package.json", `{"name":"shop","version":"1.0.0","scripts":{"test":"grep -qx fixed state"}}`)
	i.project()
	i.config(fmt.Sprintf("brain = \"anthropic\"\n[model]\nname = \"claude-sonnet-4-5\"\nbase_url = %q\n", url))
	i.env = append(i.env, "ANTHROPIC_API_KEY=key-of-the-runner", "TASK=Fix the state. $(touch injected)", "GITHUB_RUN_ID=42")
	var played []string
	for _, step := range file.Jobs["agent"].Steps {
		if !slices.Contains([]string{"what this runner can hold", "work", "account"}, step.Name) {
			continue
		}
		played = append(played, step.Name)
		command := i.command("bash", "-e", "-c", step.Run)
		command.Dir = filepath.Join(i.work, "p")
		if said, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", step.Name, err, said)
		}
	}
	if len(played) != 3 {
		t.Errorf("played are %q", played)
	}
	if have := i.read("p/state"); have != "fixed\n" {
		t.Errorf("have %q", have)
	}
	for _, name := range []string{".envrc", "injected"} {
		if isThere(filepath.Join(i.work, "p", name)) {
			t.Errorf("%s is there", name)
		}
	}
	i.nacre("receipt", "verify", "p/work.receipt.json", "--public-key", i.state("keys/audit.pub")).want(t, 0)
	branch, err := os.ReadFile(filepath.Join(i.work, "p/.git/HEAD"))
	if err != nil || strings.TrimSpace(string(branch)) != "ref: refs/heads/agent/42" {
		t.Errorf("on %q: %v", branch, err)
	}
	for _, request := range server.Requests() {
		if strings.Contains(string(request.Body), "key-of-the-runner") {
			t.Error("the agent knows the key")
		}
	}
}
