package main_test

import (
	"strings"
	"testing"
)

// F-63, F-66: what keeps sessions from their work is a failing check of doctor's, though none of
// them runs. It reads and starts what they do, with the limits that they have.
func TestDoctorSeesWhatSessionsSee(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config, file string
		args         []string
		says         string
	}{
		"authorities that are not there":       {"[egress]\nca = [\"/no/such.pem\"]\n", "", []string{"exec", "--", "true"}, "✕ config"},
		"prices that are not there":            {"[model]\nprices = \"none.json\"\n", "", []string{"run", "x", "--brain", "anthropic", "--project", "p"}, "✕ config"},
		"the password of a proxy":              {"[egress.proxy]\nurl = \"http://127.0.0.1:9\"\nuser = \"u\"\npassword_file = \"/no/such\"\n", "", nil, "✕ config"},
		"less memory than an agent needs":      {"[limits]\nmemory_mib = 1\n", "", []string{"run", "x", "--brain", "replay", "--recording", "rec.jsonl", "--check", "true", "--project", "p"}, "✕ "},
		"schedules that are damaged":           {"", "schedules.sqlite", []string{"serve"}, "✕ schedules"},
		"the rest, with nothing that is wrong": {"[egress]\nallow = [\"a.example.com:443\", \"b.example.com:80/http\"]\n", "", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			i.write("home/.config/nacre/config.toml", c.config)
			i.write("p/a.txt", "a\n")
			i.project()
			i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+`{"tool":"shell","input":{"command":"echo b >a.txt"}}`+"\n")
			i.env = append(i.env, "ANTHROPIC_API_KEY=decoy")
			if c.file != "" {
				i.write("home/.local/state/nacre/"+c.file, strings.Repeat("garbage ", 20))
			}
			if c.args != nil {
				if have := i.nacre(c.args...); have.code == 0 {
					t.Errorf("it works: %s%s", have.stdout, have.stderr)
				}
			}
			if c.says == "" {
				// M-60: the egress proxy itself is tried, with these rules.
				// M-60: what is asked for and is not there is said, too.
				i.nacre("doctor", "--no-turns", "--live", "--probe").want(t, 0, "✓ verify no plugin that is in use verifies itself", "✓ probe  config.toml has no credential that is minted")
				i.nacre("doctor").want(t, 0, "✓ egress the proxy let through what is listed, and refused what lies beside it and what it could not record · 2 listed")
				return
			}
			i.nacre("doctor").want(t, 4, c.says)
		})
	}
}
