package assembly_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/assembly"
)

// M-04, M-61: what cannot be meant of money and grants is refused with the place that says it.
func TestBudgetsAndGrantsThatAreRefused(t *testing.T) {
	for name, test := range map[string]struct{ config, says string }{
		"no number":                  {"[model]\nbudget_usd_day = \"much\"", "model.budget_usd_day"},
		"nothing, which is no limit": {"[model]\nbudget_usd_day = \"0\"", "leave it out"},
		"no dollars":                 {"[model]\nbudget_usd = \".5\"", "model.budget_usd"},
		"no cents":                   {"[model]\nbudget_usd = \"5.\"", "model.budget_usd"},
		"a sign":                     {"[groups.a]\nbudget_usd_day = \"-1\"", "groups.a.budget_usd_day"},
		"a fraction of a fraction":   {"[groups.a]\nbudget_usd_day = \"1.0000001\"", "groups.a.budget_usd_day"},
		"a number":                   {"[groups.a]\nbudget_usd_day = 1.5", "groups.a.budget_usd_day is a number with a fraction, and has to be a text"},
		"a zone that is none":        {"[model]\nday_zone = \"Atlantis/Capital\"", "model.day_zone"},
		"a zone by a path":           {"[model]\nday_zone = \"../../etc/passwd\"", "model.day_zone"},
		"a tool that is never given": {"[model]\nvendor_tools = [\"code_execution\"]", "web_search, web_fetch"},
		"a group's, too":             {"[groups.a]\nvendor_tools = [\"mcp\"]", "groups.a.vendor_tools"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(test.config), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := assembly.LoadConfig(dir); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: have %v", name, err)
		}
	}
}
