package sandbox_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// M-15: recipes are pinned by a digest or build on ours, and take nothing in.
// TestImagesOfTheRecipes in cmd/nacre builds them.
func TestRecipesOfImagesArePinnedAndBringNothingAlong(t *testing.T) {
	files, err := filepath.Glob("../../images/*/Dockerfile")
	if err != nil || len(files) < 2 {
		t.Fatalf("have %q, %v", files, err)
	}
	allowed := map[string]*regexp.Regexp{
		"ARG ":  regexp.MustCompile(`^ARG (MIRROR|BASE=(nacre-base|\S+@sha256:[0-9a-f]{64}))$`), // nothing that could be a secret
		"FROM ": regexp.MustCompile(`^FROM \$BASE$`),
		"RUN ":  regexp.MustCompile(``),
	}
	instruction := regexp.MustCompile(`^\w+\s`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		bases := 0
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSuffix(line, "\n")
			word := instruction.FindString(line)
			if strings.HasPrefix(line, "ARG BASE=") {
				bases++
			}
			if want, known := allowed[word]; word != "" && (!known || !want.MatchString(line)) {
				t.Errorf("%s: %s: a recipe has a pinned ARG BASE, FROM $BASE and RUN only", file, line)
			}
		}
		if bases != 1 {
			t.Errorf("%s names %d bases", file, bases)
		}
	}
}
