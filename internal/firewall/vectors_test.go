package firewall_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/firewall"
)

// bees replaces the word SECRET, which is all that a redactor has to do here.
type bees struct{}

func (bees) String(s string) (string, bool) {
	return strings.ReplaceAll(s, "SECRET", "[R]"), strings.Contains(s, "SECRET")
}

func (bees) Harmless(_, _ []byte) bool { return false }

func (b bees) JSON(raw []byte) ([]byte, []string, error) {
	if !json.Valid(raw) {
		return nil, nil, fmt.Errorf("not JSON")
	}
	out, found := b.String(string(raw))
	if found {
		return []byte(out), []string{"somewhere"}, nil
	}
	return raw, nil, nil
}

func array(n int, element string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
}

func read[T any](t testing.TB, name string) (cases []T) {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err == nil {
		err = json.Unmarshal(data, &cases)
	}
	if err != nil || len(cases) == 0 {
		t.Fatal(err, len(cases))
	}
	return cases
}

// K-14: what is said of a result, case by case.
func TestFactsAreTheSeeds(t *testing.T) {
	type fact struct {
		In    json.RawMessage
		Facts []string
	}
	for i, c := range read[fact](t, "facts.json") {
		r, err := firewall.Read(c.In, nacre.Constraints{})
		if err != nil {
			t.Fatal(err)
		}
		v, err := r.Frame(firewall.Request{Limits: firewall.DefaultLimits()}, bees{})
		if err != nil || !slices.Equal(v.Frame.Facts, c.Facts) {
			t.Errorf("%d: %.200s %v\nhave %q\nwant %q", i, c.In, err, v.Frame.Facts, c.Facts)
		}
	}
}

// K-16: the mode goes down as the budget runs out.
func TestTheModeGoesDownWithTheBudget(t *testing.T) {
	type escalation struct {
		Remaining, Total     int
		Requested, Effective nacre.Mode
	}
	for _, c := range read[escalation](t, "modes.json") {
		if have := firewall.Suggest(c.Requested, c.Remaining, c.Total); have != c.Effective {
			t.Errorf("%v with %d of %d: have %v, want %v", c.Requested, c.Remaining, c.Total, have, c.Effective)
		}
	}
}
