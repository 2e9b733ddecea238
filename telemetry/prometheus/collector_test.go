package prometheus_test

import (
	"math"
	"strings"
	"testing"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/kernel"
	"github.com/nacre-dev/nacre/telemetry"
	"github.com/nacre-dev/nacre/telemetry/prometheus"
)

// K-23: a registry of Prometheus' library gathers the counters, and its text of
// them is the text that we write without it.
func TestTheTextIsThatOfTheLibrary(t *testing.T) {
	for name, stats := range map[string]kernel.Stats{
		"nothing was counted": {},
		"every counter stands for itself": {
			Grants: 1, Invocations: 2, InvocationFailures: 3, Fallbacks: 4, Redactions: 5, BudgetDowngrades: 6, HandleStores: 7, Expansions: 8,
			Denials: map[nacre.ReasonCode]int64{"unknown_tool": 9, "invalid_arguments": 10, "budget": 11},
		},
		"values that are written with an exponent, and such as a float cannot hold": {
			Grants: 999_999, Invocations: 1_000_000, Fallbacks: 123_456_789, Redactions: 1<<53 + 1, Expansions: math.MaxInt64,
		},
		"reasons that need escaping": {
			Denials: map[nacre.ReasonCode]int64{"": 1, `"`: 2, `\`: 3, "\n": 4, `\n"` + "\n": 5, "ü}": 6, "{": 7},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var have strings.Builder
			if err := telemetry.Write(&have, stats); err != nil {
				t.Fatal(err)
			}
			if want := gathered(t, stats); have.String() != want {
				t.Errorf("have\n%s\nwant\n%s", have.String(), want)
			}
		})
	}
}

// gathered is what an embedder's registry says.
func gathered(t *testing.T, stats kernel.Stats) string {
	t.Helper()
	registry := client.NewPedanticRegistry()
	if err := registry.Register(prometheus.NewCollector(func() kernel.Stats { return stats })); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}
