package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/redact"
)

// The limits of a runner's report.
const (
	// maxTests is how many tests one run may report.
	maxTests = 200_000
	// maxSaid is how much of what one test printed is kept, in bytes.
	maxSaid = 2 << 10
	// maxDetail is how long a verdict's detail is, in bytes.
	maxDetail = 8 << 10
)

// status is how one test ended. The zero value is none that has.
type status uint8

const (
	unfinished status = iota
	green
	skipped
	red
)

var statusNames = [...]string{"did not finish", "passed", "was skipped", "failed"}

func (s status) String() string { return statusNames[s] }

// results are what a runner reported, test by test.
type results struct {
	tests map[string]status
	said  map[string]string
	// odd is what no honest report has.
	odd []string
}

// building is where what a build printed is kept.
const building = ""

func newResults() *results {
	return &results{tests: map[string]status{}, said: map[string]string{}}
}

// begin notes that a test has started.
func (r *results) begin(name string) {
	if _, ok := r.tests[name]; !ok && r.room() {
		r.tests[name] = unfinished
	}
}

// end notes how a test ended, which happens once.
func (r *results) end(name string, s status) {
	if was := r.tests[name]; was != unfinished {
		r.strange("%s is reported twice", name)
		s = max(s, was)
	}
	if r.room() {
		r.tests[name] = s
	}
	if s == green {
		delete(r.said, name)
	}
}

// again is end for runners in which two tests may have one name.
func (r *results) again(name string, s status) {
	unique := name
	for n := 2; r.tests[unique] != unfinished && n < maxNamesakes; n++ {
		unique = fmt.Sprintf("%s (%d)", name, n)
	}
	r.end(unique, s)
}

// maxNamesakes is how many tests of one name are told apart.
const maxNamesakes = 100

func (r *results) room() bool {
	if len(r.tests) < maxTests {
		return true
	}
	if len(r.odd) == 0 {
		r.strange("more than %d tests", maxTests)
	}
	return false
}

// says keeps the beginning of what a test printed.
func (r *results) says(name, text string) {
	if have := r.said[name]; len(have) < maxSaid && r.tests[name] != green && (have != "" || len(r.said) < maxTests) {
		r.said[name] = have + text[:min(len(text), maxSaid-len(have))]
	}
}

func (r *results) strange(format string, args ...any) {
	if len(r.odd) < maxNamed {
		r.odd = append(r.odd, fmt.Sprintf(format, args...))
	}
}

// names are all tests in order.
func (r *results) names() []string {
	list := make([]string, 0, len(r.tests))
	for name := range r.tests {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

func (r *results) count(s status) int {
	n := 0
	for _, have := range r.tests {
		if have == s {
			n++
		}
	}
	return n
}

// canary is a test of the host's own that must be seen to fail.
type canary struct {
	// name is part of the test's name, text of what it prints: no code under test
	// can know either before it runs.
	name, text string
	// beside is how the names of the tests begin that the canary sits among:
	// where none is run, neither is it. Empty means that it always is.
	beside string
}

// missing compares with the tests that the base ran: each must be there by its
// name, and have passed (S-13).
func (r *results) missing(base *results) []string {
	var list []string
	for _, name := range base.names() {
		was, is := base.tests[name], r.tests[name]
		_, there := r.tests[name]
		switch {
		case was == skipped && is != red:
		case !there:
			list = append(list, name+" is no longer run")
		case is == green:
		case is == skipped && was == red:
			list = append(list, name+" is skipped; on the base it failed")
		case is == skipped:
			list = append(list, name+" is skipped; on the base it ran")
		case was == is:
			list = append(list, fmt.Sprintf("%s %s, as on the base", name, is)+quote(r.said[name]))
		default:
			list = append(list, fmt.Sprintf("%s %s", name, is)+quote(r.said[name]))
		}
	}
	return list
}

// unseen are the canaries that were not reported as they should have been.
func (r *results) unseen(base *results, nonce string, canaries []canary) []string {
	own := newResults()
	for name, s := range r.tests {
		if strings.Contains(name, nonce) {
			own.tests[name], own.said[name] = s, r.said[name]
		}
	}
	var list []string
	expected, names := 0, base.names()
	for _, c := range canaries {
		at, _ := slices.BinarySearch(names, c.beside)
		if c.beside != "" && (at == len(names) || !strings.HasPrefix(names[at], c.beside)) {
			continue
		}
		expected++
		if !own.sees(c) {
			list = append(list, strings.TrimSpace("the host's own test, which fails, is not reported as failed "+c.beside))
		}
	}
	if expected == 0 {
		list = append(list, "there is no place among the tests for the host's own test")
	}
	return list
}

func (r *results) sees(c canary) bool {
	for name, s := range r.tests {
		if strings.Contains(name, c.name) && s == red && strings.Contains(r.said[name], c.text) {
			return true
		}
	}
	return false
}

// without is a report without the host's own tests.
func (r *results) without(nonce string) *results {
	left := newResults()
	left.odd, left.said[building] = r.odd, r.said[building]
	for name, s := range r.tests {
		if !strings.Contains(name, nonce) {
			left.tests[name], left.said[name] = s, r.said[name]
		}
	}
	return left
}

// quote is foreign output behind a finding.
func quote(text string) string {
	if text = strings.TrimSpace(printable(text)); text == "" {
		return ""
	}
	return ":\n    " + strings.ReplaceAll(text, "\n", "\n    ")
}

// printable is foreign text without what moves a terminal's cursor.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}

// ending is the end of foreign output, where tools say what went wrong, without secrets. They are
// taken out before it is cut, since half of one is not known for one.
func ending(data []byte) string {
	const most = 4 << 10
	text, _ := redact.New().String(string(data[max(0, len(data)-16*most):]))
	return strings.TrimSpace(printable(text[max(0, len(text)-most):]))
}

// clip shortens foreign text for an error.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		s = s[:most] + "…"
	}
	return printable(s)
}

// detail joins findings to what a report can hold.
func detail(findings []string) string {
	text := summary(findings)
	if len(text) > maxDetail {
		text = strings.ToValidUTF8(text[:maxDetail], "") + "…"
	}
	return text
}
