package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/policy"
)

// many are n rules that do not match and one that does, at the end.
func many(t testing.TB, n int, match func(i int) string) *policy.Policy {
	var text strings.Builder
	for i := range n - 1 {
		fmt.Fprintf(&text, "[[rules]]\naction = \"allow\"\nmatch = { %s }\n", match(i))
	}
	text.WriteString("[[rules]]\naction = \"allow\"\nmatch = { capability = [\"notes.*\"], safety_class = [\"WRITE\"], roles = [\"agent\"], min_justification = 10 }\n")
	return parse(t, text.String())
}

func caller() policy.Request {
	return policy.Request{
		Principal:  nacre.Principal{Group: "family", Roles: []string{"agent"}, Justification: "a task of some length"},
		Capability: capability(nacre.Write, nacre.SensitiveNone),
	}
}

// K-05: a decision costs the same with one rule and with a thousand.
func BenchmarkRules(b *testing.B) {
	kinds := map[string]func(int) string{
		"capability": func(i int) string { return fmt.Sprintf(`capability = ["svc%d.op"]`, i) },
		"role":       func(i int) string { return fmt.Sprintf(`safety_class = ["WRITE"], roles = ["role%d"]`, i) },
		"tenant":     func(i int) string { return fmt.Sprintf(`safety_class = ["WRITE"], attributes = { tenant = "t%d" }`, i) },
	}
	b.Run("floor", func(b *testing.B) { // what one look-up by name costs
		names := map[nacre.CapabilityID]nacre.Verdict{}
		for i := range 1000 {
			names[nacre.CapabilityID(fmt.Sprintf("svc%d.op", i))] = nacre.Allow
		}
		for b.Loop() {
			if names["svc7.op"] != nacre.Allow {
				b.Fatal("denied")
			}
		}
	})
	for kind, match := range kinds {
		for _, n := range []int{1, 10, 100, 1000} {
			p, r := many(b, n, match), caller()
			b.Run(fmt.Sprintf("%s/%d", kind, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if p.Decide(r).Verdict != nacre.Allow {
						b.Fatal("denied")
					}
				}
			})
		}
	}
}

// A decision that lets through allocates nothing.
func TestAHitAllocatesNothing(t *testing.T) {
	p, r := many(t, 100, func(i int) string { return fmt.Sprintf(`capability = ["svc%d.op"]`, i) }), caller()
	if n := testing.AllocsPerRun(100, func() { p.Decide(r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A value is read once for all the patterns of a list, and one that nobody reads
// in two ways is not copied, for all the colons in it.
func TestAValueIsReadOnce(t *testing.T) {
	var hosts strings.Builder
	for i := range 100 {
		fmt.Fprintf(&hosts, `"https://*.h%d.test/**", `, i)
	}
	p := parse(t, fmt.Sprintf("[[rules]]\naction = \"allow\"\nmatch = { attributes = { tenant = [%s\"urn:*\"] } }\n", hosts.String()))
	for value, most := range map[string]float64{"urn:tenant:42": 0, "https://a.h99.test/x%20y": 30} {
		r := caller()
		r.Principal.Attributes = map[string]string{"tenant": value}
		if p.Decide(r).Verdict != nacre.Allow {
			t.Errorf("%s is denied", value)
		}
		if n := testing.AllocsPerRun(100, func() { p.Decide(r) }); n > most {
			t.Errorf("%s: %v allocations", value, n)
		}
	}
}
