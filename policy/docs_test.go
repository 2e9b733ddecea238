package policy_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/policy"
)

// K-05: the reference says what the code does: its policies parse, its cases
// hold, it names every key, and the shipped policy is as it ships.
func TestTheReferenceIsTrue(t *testing.T) {
	data, err := os.ReadFile("../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	var last *policy.Policy
	policies, cases := 0, 0
	for i, block := range strings.Split(string(data), "```") {
		notation, text, _ := strings.Cut(block, "\n")
		if i%2 == 0 || notation != "toml" && notation != "yaml" {
			continue
		}
		name := fmt.Sprintf("block%d.%s", i, notation)
		if strings.HasPrefix(text, "# cases") {
			cases += held(t, last, name, text)
			continue
		}
		p, err := policy.Parse(name, []byte(text))
		if err != nil {
			t.Error(err)
			continue
		}
		last = p
		policies++
		if found := p.Findings(); len(found) > 0 {
			t.Errorf("%s: %+v", name, found)
		}
	}
	if policies < 6 || cases < 6 || last.Version() != policy.Shipped().Version() {
		t.Errorf("%d policies, %d cases; the last is the shipped one: %v", policies, cases, last.Version() == policy.Shipped().Version())
	}
	_, err = policy.Parse("p.toml", []byte("[[rules]]\naction = \"deny\"\n[rules.match]\nzzzzzzzzzz = 1"))
	_, keys, _ := strings.Cut(err.Error(), "the keys here are ")
	for key := range strings.SplitSeq(keys, ", ") {
		if !strings.Contains(string(data), "`"+key+"`") {
			t.Errorf("the reference does not name %q", key)
		}
	}
}

func held(t *testing.T, p *policy.Policy, name, text string) int {
	t.Helper()
	all, err := policy.ParseCases(name, []byte(text))
	if err != nil {
		t.Error(err)
	}
	for _, c := range all {
		if failure := c.Failure(p.Decide(c.Request)); failure != "" {
			t.Errorf("%s: %s: %s", name, c.Name, failure)
		}
	}
	return len(all)
}
