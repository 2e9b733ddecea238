package main_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// demoShape is what the demo prints without what differs from run to run and from
// machine to machine: ids, times, and what a sandbox is made of. Lines are sorted:
// what the host says comes a moment before or after what the brain says.
func demoShape(text string) []string {
	for form, word := range map[string]string{
		`\S+/nacre-demo-\d+`: "FOLDER", `approve \w{4}\b`: "approve ID", `expires in \S+`: "expires in TIME",
		`\b([0-9.]+ m?s|\d+:\d\d)$`: "TIME", `[0-9a-f]{7} → [0-9a-f]{7}`: "FROM → TO",
	} {
		text = regexp.MustCompile("(?m)"+form).ReplaceAllString(text, word)
	}
	head, rest, _ := strings.Cut(text, "         sealed by ")
	_, rest, _ = strings.Cut(rest, "\n  ·") // it has not begun before that
	lines := slices.DeleteFunc(strings.Split(head+rest, "\n"), func(line string) bool {
		return strings.TrimSpace(line) == "" || strings.Contains(line, "independent verifier") // which wants Python
	})
	slices.Sort(lines)
	return lines
}

// What docs/demo.md shows of the demo, and README.md's picture with it, is what `nacre demo` prints.
func TestTheDocsShowTheDemo(t *testing.T) {
	t.Parallel()
	_, block, found := strings.Cut(page(t, "docs/demo.md"), "```\ndemo     ")
	block, _, ended := strings.Cut(block, "\n```\n")
	if !found || !ended {
		t.Fatal("docs/demo.md has no block that begins with the demo")
	}
	testpeer.Need(t, "go") // the demo works on a Go project
	i := install(t)
	i.withGo()
	r := i.nacre("demo")
	r.want(t, 0)
	want, have := demoShape("demo     "+block), demoShape(r.stdout)
	for _, line := range want {
		if !slices.Contains(have, line) {
			t.Errorf("docs/demo.md shows what the demo does not print: %s", line)
		}
	}
	for _, line := range have {
		if !slices.Contains(want, line) {
			t.Errorf("the demo prints what docs/demo.md does not show: %s", line)
		}
	}
	if len(have) != len(want) {
		t.Errorf("the demo prints %d lines, docs/demo.md shows %d", len(have), len(want))
	}
}

// U-33: each page is in the list of pages by task, once, and README.md and that list lead
// nowhere else than to what is there.
func TestThePagesAreListedByTask(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)#]+)\)`)
	listed := map[string]int{}
	for _, list := range []string{"README.md", "docs/README.md"} {
		for _, to := range link.FindAllStringSubmatch(page(t, list), -1) {
			path := filepath.Join(filepath.Dir(list), to[1])
			if !isThere(filepath.Join("../..", path)) {
				t.Errorf("%s leads to %s, which is not there", list, path)
			}
			if list == "docs/README.md" {
				listed[path]++
			}
		}
	}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) < 30 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	for _, path := range pages {
		name := filepath.Join("docs", filepath.Base(path))
		if n := listed[name]; name != "docs/README.md" && n != 1 {
			t.Errorf("docs/README.md names %s %d times", name, n)
		}
	}
}
