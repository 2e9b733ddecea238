package main_test

import (
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// F-20: who allowed a host is told that its address is why nothing comes of it, and what helps.
// F-23: a host has one spelling, and the answer to another says which.
func TestAHostThatFailsForItsAddressIsTold(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	i := install(t)
	i.nacre("exec", "--egress", "nothing.invalid:80/http", "--", "sh", "-c", "curl -s -o /dev/null http://nothing.invalid/; curl -s -o /dev/null http://nothing.invalid/; exit 0").
		want(t, 0, "nothing.invalid:80: no address; pin it in [egress] (not_resolved)")
	i.nacre("exec", "--egress", "h.test:80/http", "--", "sh", "-c", "curl -s http://h.test./; exit 0").
		want(t, 0, "without the dot at its end")
}
