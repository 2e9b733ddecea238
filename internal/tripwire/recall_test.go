package tripwire_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/tripwire"
)

// F-58: the tripwire knows stock phrases and is a hint. docs/tripwires.md says how many of
// the attacks' texts in the injection corpus it knows, and this is that number.
func TestTheDocsSayHowManyAttacksTheTripwireKnows(t *testing.T) {
	var texts []string
	for _, pattern := range []string{"world-*.json", "second/world-*.json"} {
		files, err := filepath.Glob(filepath.Join("../../kernel/testdata/injection", pattern))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			texts = append(texts, attackTexts(t, file)...)
		}
	}
	told := 0
	for _, text := range texts {
		if wires(tripwire.New(tripwire.Default()).Read("shell", text)) != "" {
			told++
		}
	}
	page, err := os.ReadFile("../../docs/tripwires.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("of the %d attacks' texts in our injection corpus it knows %d", len(texts), told); !strings.Contains(string(page), want) {
		t.Errorf("docs/tripwires.md does not say %q", want)
	}
}

func attackTexts(t *testing.T, file string) (texts []string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var world struct {
		Attacks, Inside []struct{ Text string }
	}
	if err := json.Unmarshal(data, &world); err != nil {
		t.Fatal(err)
	}
	for _, a := range append(world.Attacks, world.Inside...) {
		texts = append(texts, a.Text)
	}
	return texts
}
