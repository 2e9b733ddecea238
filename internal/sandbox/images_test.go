package sandbox_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// M-15: recipes are pinned by a digest or build on ours, and take nothing in.
func TestRecipesOfImagesArePinnedAndBringNothingAlong(t *testing.T) {
	files, err := filepath.Glob("../../images/*/Dockerfile")
	if err != nil || len(files) < 2 {
		t.Fatalf("have %q, %v", files, err)
	}
	from := regexp.MustCompile(`^FROM (nacre-base|\S+@sha256:[0-9a-f]{64})$`)
	instruction := regexp.MustCompile(`^[A-Z]+ `)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			switch word := instruction.FindString(line); word {
			case "", "RUN ":
			case "FROM ":
				if !from.MatchString(line) {
					t.Errorf("%s: %s: pin it by its digest", file, line)
				}
			default:
				t.Errorf("%s: %s: a recipe has FROM and RUN only", file, line)
			}
		}
	}
}
