package kernel_test

import (
	"os"
	"strings"
	"testing"
)

// K-01: what the README shows is what runs.
func TestTheREADMEShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(readme), "```go\n")
	shown, _, _ = strings.Cut(shown, "```")
	for line := range strings.Lines(shown) {
		if !strings.Contains(string(example), strings.TrimSpace(line)) {
			t.Errorf("the example does not say %s", line)
		}
	}
	if n := strings.Count(shown, "\n"); n < 20 || n > 40 {
		t.Errorf("the README shows %d lines", n)
	}
}
