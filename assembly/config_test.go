package assembly_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/internal/brain"
)

func load(t *testing.T, text string) (assembly.Config, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return assembly.LoadConfig(dir)
}

// M-61: what the file does not say exactly is refused, and the message names the place.
func TestAConfigThatIsNotExactIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"[groups.main]\ntool = [\"*\"]":                                "groups.main.tool",
		"brain = \"claude\"\nbrian = \"x\"":                            "brian",
		"checks = \"go test\"":                                         "checks",
		"[groups.\"a b\"]\ntools = []":                                 "group",
		"[egress]\nallow = [\"*.example.com:443\"]":                    "wildcards",
		"[egress]\nallow = [\"127.0.0.1:80\"]":                         "addresses are refused",
		"[egress.pin]\n\"a.example:80\" = \"localhost:80\"":            "ADDRESS:PORT",
		"[model]\nbudget_usd = \"lots\"":                               "budget_usd",
		"[model]\nbudget_usd = \"-1\"":                                 "budget_usd",
		"[model]\nkey_env = \"A\"\nkey_file = \"/b\"":                  "not both",
		"[model]\nkey_env = \"sk-ant-api03-0123456789\"":               "does not belong",
		"ask_seconds = -1":                                             "ask_seconds",
		"brain = \"nonesuch\"":                                         "unknown brain",
		"brain = ":                                                     "config.toml:1",
		"[model]\nkey = \"sk-ant-0123456789012345678901234567890123\"": "model.key",
	} {
		_, err := load(t, text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: have %v, want it to name %q", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "0123456789") {
			t.Errorf("%q: the error repeats a secret: %v", text, err)
		}
	}
}

// M-61: a config may name each brain that there is.
func TestEveryBrainIsKnownToTheConfig(t *testing.T) {
	for _, b := range brain.All(brain.Options{}) {
		if _, err := load(t, "brain = \""+b.Name()+"\""); err != nil {
			t.Error(err)
		}
	}
}

// M-61: one in another format would hold nothing that it says.
func TestAConfigInAnotherFormatIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := assembly.LoadConfig(dir); err == nil || !strings.Contains(err.Error(), "config.yaml: nacre reads config.toml alone") {
		t.Errorf("have %v", err)
	}
}

func TestAMissingConfigIsTheSafeDefault(t *testing.T) {
	c, err := assembly.LoadConfig(t.TempDir())
	if err != nil || len(c.Groups) != 0 || len(c.Egress.Allow) != 0 || len(c.Checks) != 0 {
		t.Fatalf("have %+v %v", c, err)
	}
}

func TestAWholeConfigIsRead(t *testing.T) {
	c, err := load(t, `
brain = "claude"
checks = ["go test ./..."]
ask_seconds = 60
[groups.main]
tools = ["memory_*"]
roles = ["writer"]
[egress]
allow = ["proxy.example.com:443", "mirror.example.com:80/http"]
[egress.pin]
"mirror.example.com:80" = "127.0.0.1:8080"
[model]
base_url = "http://127.0.0.1:9"
budget_usd = "1.50"
[plugins.reminders]
default_list = "Work"
`)
	if err != nil || c.Groups["main"].Tools[0] != "memory_*" || c.Plugins["reminders"]["default_list"] != "Work" {
		t.Fatalf("have %+v %v", c, err)
	}
}
