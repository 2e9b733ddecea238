package verify

import (
	"maps"
	"slices"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/manifest"
)

// PartsOf are the projects that are judged, each as its language and folder.
func PartsOf(t *testing.T, base, named string, changes []nacre.Change) []string {
	t.Helper()
	c, err := readCheckout(base)
	if err != nil {
		t.Fatal(err)
	}
	list, err := parts(c, named, changes)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range list {
		names = append(names, p.language+" "+p.dir)
	}
	return names
}

// Decides says that a file of a project is taken from the base.
func Decides(language, name string) bool { return classOf(language, name) != code }

// ReportOf reads one report: how each test ended, and what was odd.
func ReportOf(language string, out Output, nonce string) (map[string]string, []string) {
	r := testerOf(language).parse(out, nonce)
	ended := map[string]string{}
	for name, s := range r.tests {
		ended[name] = s.String()
	}
	return maps.Clone(ended), slices.Clone(r.odd)
}

// Splice puts the test modules of one Rust file into another.
func Splice(was, is []byte) []byte { return splice(was, is) }

// SameButDependencies compares two manifests.
func SameButDependencies(name, was, is string) bool {
	return manifest.SameButDependencies(name, []byte(was), []byte(is))
}
