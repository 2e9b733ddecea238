package posture_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/posture"
)

// M-20: exact hosts and explicit ports; everything ambiguous is refused.
func TestEgressIsWrittenExactly(t *testing.T) {
	good := map[string]string{
		"proxy.example.com":          "proxy.example.com:443",
		"Proxy.Example.com:8443":     "proxy.example.com:8443",
		"mirror.example.com:80/http": "mirror.example.com:80/http",
		"git.example.com:22/tcp":     "git.example.com:22/tcp",
		"localhost:8080":             "localhost:8080",
	}
	for in, want := range good {
		rule, err := posture.ParseEgress(in)
		if err != nil || rule.String() != want {
			t.Errorf("%q: have %v %v, want %s", in, rule, err, want)
		}
	}
	for _, in := range []string{
		"", ":443", "*", "*.example.com", "127.0.0.1:80", "[::1]:80", "2130706433:80", "0x7f.1:80", "a.1",
		"exa mple.com", "example.com:0", "example.com:65536", "example.com:x", "example.com/udp",
		"exämple.com", "example..com", "-a.com", "example.com.", "user@example.com", strings.Repeat("a", 64) + ".com",
	} {
		if rule, err := posture.ParseEgress(in); err == nil {
			t.Errorf("%q was read as %v", in, rule)
		}
	}
}

// M-12: the environment is built from nothing, and the project is the only thing that can be written.
func TestAPostureHoldsOnlyWhatWasGiven(t *testing.T) {
	p, err := posture.Compute(posture.Input{Project: "/srv/p q", Protected: []string{".git"}, Programs: map[string]string{"ipc": "/opt/ipc"}})
	if err != nil {
		t.Fatal(err)
	}
	var writable []string
	for _, m := range p.Mounts {
		if m.Kind == nacre.BindReadWrite {
			writable = append(writable, m.Source)
		}
	}
	if !slices.Equal(writable, []string{"/srv/p q"}) {
		t.Errorf("writable: %q", writable)
	}
	git := slices.IndexFunc(p.Mounts, func(m nacre.Mount) bool { return m.Target == "/workspace/.git" })
	if git < 0 || p.Mounts[git].Kind != nacre.BindReadOnly {
		t.Errorf(".git is not read-only: %v", p.Mounts)
	}
	if len(p.Egress) != 0 {
		t.Errorf("egress without being asked for: %v", p.Egress)
	}
	for _, bad := range []string{"", "..", "../x", "a/../b", "/etc", "a//b"} {
		if _, err := posture.Compute(posture.Input{Project: "/p", Protected: []string{bad}}); err == nil {
			t.Errorf("protected path %q was taken", bad)
		}
	}
}

// U-14: each variable is there once, with what was set last: which of two counts, programs read
// differently.
func TestAVariableIsThereOnce(t *testing.T) {
	p, err := posture.Compute(posture.Input{Env: []string{"NO_PROXY=localhost", "A=1", "NO_PROXY=localhost,tips.example"}})
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, kv := range p.Env {
		if name, _, _ := strings.Cut(kv, "="); name == "NO_PROXY" || name == "A" {
			have = append(have, kv)
		}
	}
	if !slices.Equal(have, []string{"NO_PROXY=localhost,tips.example", "A=1"}) {
		t.Errorf("have %q", have)
	}
}

// F-24, M-35: what a session may use of credentials is part of its posture: those whose host
// it can reach, and those inside. What verifies code has none.
func TestCredentialsArePartOfThePosture(t *testing.T) {
	rule := func(text string) nacre.EgressRule {
		r, err := posture.ParseEgress(text)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	hub := nacre.CredentialScope{Name: "hub", Host: "api.hub.example", Port: 443, Methods: []string{"GET"}, Paths: []string{"/acme/"}, Minted: "vault for policies deploy"}
	inside := nacre.CredentialScope{Name: "old", Inside: "$OLD"}
	for name, c := range map[string]struct {
		rules   []nacre.EgressRule
		offline bool
		want    string
	}{
		"no way to the host": {want: "old inside, as $OLD"},
		"another host":       {rules: []nacre.EgressRule{rule("hub.example")}, want: "old inside, as $OLD"},
		"another port":       {rules: []nacre.EgressRule{rule("api.hub.example:8443")}, want: "old inside, as $OLD"},
		"in the clear":       {rules: []nacre.EgressRule{rule("api.hub.example:443/http")}, want: "old inside, as $OLD"},
		"the host":           {rules: []nacre.EgressRule{rule("api.hub.example")}, want: "hub for api.hub.example:443 GET /acme/, minted by vault for policies deploy; old inside, as $OLD"},
		"a wildcard":         {rules: []nacre.EgressRule{{Host: "*.hub.example", Port: 443}}, want: "hub for api.hub.example:443 GET /acme/, minted by vault for policies deploy; old inside, as $OLD"},
		"offline":            {rules: []nacre.EgressRule{rule("api.hub.example")}, offline: true},
	} {
		p, err := posture.Compute(posture.Input{Egress: c.rules, Credentials: []nacre.CredentialScope{hub, inside}, Offline: c.offline})
		if err != nil {
			t.Fatal(err)
		}
		var have []string
		for _, scope := range p.Credentials {
			have = append(have, scope.String())
		}
		if text := strings.Join(have, "; "); text != c.want {
			t.Errorf("%s: have %q, want %q", name, text, c.want)
		}
	}
}
