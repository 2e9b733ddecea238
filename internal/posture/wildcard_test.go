package posture_test

import (
	"testing"

	"github.com/nacre-dev/nacre/internal/posture"
)

// M-20: a wildcard is written out, and never for a domain that is anyone's.
func TestWildcardsThatAreNobodysOwnAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"*.example.com": "*.example.com:443", "*.Example.com:8443": "*.example.com:8443", "*.a.example.com/tcp": "*.a.example.com:443/tcp",
		"*.example.co.uk": "*.example.co.uk:443", "*.me.github.io": "*.me.github.io:443", "*.corp.internal": "*.corp.internal:443",
	} {
		if !posture.IsWildcard(text) {
			t.Errorf("%s is no wildcard", text)
		}
		if rule, err := posture.ParseWildcard(text); err != nil || rule.String() != want {
			t.Errorf("%s: have %q %v", text, rule, err)
		}
		if _, err := posture.ParseEgress(text); err == nil {
			t.Errorf("%s is taken in passing", text)
		}
	}
	for _, text := range []string{
		"*", "*.", "*.com", "*.com:443", "*.co.uk", "*.github.io", "*.s3.amazonaws.com", "*.workers.dev", "*.vercel.app", "*.herokuapp.com",
		"*.kawasaki.jp", "*.foo.ck", "*.*.example.com", "a.*.example.com", "**.example.com", "*example.com", "a*.example.com", "*.10.0.0.1",
		"*.example.com.", "*..example.com", "*.example.com:0", "*.example.com:65536", "*.example.com/udp", "*.exa mple.com", "*.localhost", "example.com",
	} {
		if rule, err := posture.ParseWildcard(text); err == nil {
			t.Errorf("%s is taken as %s", text, rule)
		}
	}
}

func TestNamesThatLeadInsideAreNotProposed(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "db": true, "metadata.google.internal": true, "printer.local": true, "x.home.arpa": true, "router.lan": true, "a.localhost": true,
		"example.com": false, "local.example.com": false, "internal.example": false, "notlocal": true, "x.notlocal": false,
	} {
		if posture.Inside(host) != want {
			t.Errorf("%s: want %v", host, want)
		}
	}
}
