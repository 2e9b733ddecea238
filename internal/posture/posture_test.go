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
