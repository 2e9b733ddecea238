package assembly_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/assembly"
)

// M-03: which brain, and the operator's own agent.
func TestTheConfigNamesABrainInOneWordOrInATable(t *testing.T) {
	agent := assembly.ACPConfig{
		Command: []string{"node", "/opt/agent/index.js"}, Folders: []string{"/opt/agent"}, Env: map[string]string{"A": "b"}, Mode: "default",
	}
	const acp = "[brain.acp]\ncommand = [\"node\", \"/opt/agent/index.js\"]\nfolders = [\"/opt/agent\"]\nmode = \"default\"\nenv = { A = \"b\" }\n"
	for text, want := range map[string]assembly.BrainConfig{
		`brain = "codex"`:                 {Name: "codex"},
		acp:                               {ACP: agent},
		"[brain]\nname = \"acp\"\n" + acp: {Name: "acp", ACP: agent},
		"brain.name = \"acp\"\n" + acp:    {Name: "acp", ACP: agent},
		"":                                {},
	} {
		have, err := load(t, text)
		if err != nil || !reflect.DeepEqual(have.Brain, want) {
			t.Errorf("%q: have %+v, %v", text, have.Brain, err)
		}
	}
	for text, want := range map[string]string{
		"brain = 7":                        "brain",
		"[brain.acp]\ncommand = \"node\"":  "brain",
		"[brain.acp]\ncomand = [\"node\"]": "acp.comand",
		"[brain]\nkey = \"x\"":             "brain.key",
		"[model]\ncontext = -1":            "context",
		"[model]\nmax_tokens = -1":         "max_tokens",
		"[model]\nmax_tokens = \"many\"":   "max_tokens",
	} {
		if _, err := load(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: have %v, want %q in it", text, err, want)
		}
	}
}
