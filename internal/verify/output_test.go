package verify_test

import (
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/report"
	"github.com/nacre-dev/nacre/internal/verify"
)

func said(t *testing.T, text string) verify.Subject {
	s := subject(t, files{}, files{})
	s.Report = []byte(text)
	return s
}

// S-04: the report has what the task names, each with a value.
func TestReportFormat(t *testing.T) {
	const good = `{"files-touched": ["a"], "loc-delta": 0}`
	for name, c := range map[string]struct {
		text string
		held bool
	}{
		"all of it":                      {good, true},
		"among others":                   {`{"x": 1, "files-touched": [], "loc-delta": "+3"}`, true},
		"after prose":                    {"I did it.\n\n" + good + "\n", true},
		"over lines":                     {"Done:\n{\n\"files-touched\": [\n{\"a\": 1}\n],\n\"loc-delta\": {\n\"x\": 1\n}\n}", true},
		"in a fence":                     {"Done:\n```json\n" + good + "\n```\n", true},
		"the last of two":                {"```json\n{}\n```\ntext\n```\n" + good + "\n```", true},
		"front matter":                   {"---\nfiles-touched:\n  - a\nloc-delta: 3\n---\nand prose", true},
		"front matter at the end":        {"prose\n\n---\nfiles-touched: none\nloc-delta: -3\n---", true},
		"front matter in a fence":        {"prose\n```yaml\n---\nfiles-touched: none\nloc-delta: -3\n---\n```", true},
		"with carriage returns":          {"---\r\nfiles-touched: a\r\nloc-delta: 1\r\n---\r\n", true},
		"nothing":                        {"", false},
		"prose":                          {"files-touched: a, loc-delta: 3", false},
		"half of it":                     {`{"files-touched": ["a"]`, false},
		"a field missing":                {`{"files-touched": ["a"]}`, false},
		"a field of another spelling":    {`{"files_touched": ["a"], "loc-delta": 1}`, false},
		"a field within another":         {`{"x": {"files-touched": ["a"], "loc-delta": 1}}`, false},
		"a field twice":                  {`{"files-touched": [], "files-touched": ["a"], "loc-delta": 1}`, false},
		"no value":                       {`{"files-touched": null, "loc-delta": 1}`, false},
		"a blank":                        {`{"files-touched": " \t", "loc-delta": 1}`, false},
		"a place for a value":            {`{"files-touched": "<list of files>", "loc-delta": 1}`, false},
		"a promise":                      {`{"files-touched": "TODO", "loc-delta": 1}`, false},
		"dots":                           {`{"files-touched": "...", "loc-delta": 1}`, false},
		"an empty object":                {`{"files-touched": {}, "loc-delta": 1}`, false},
		"front matter without a value":   {"---\nfiles-touched:\nloc-delta: 3\n---", false},
		"front matter with a key twice":  {"---\nfiles-touched: a\nfiles-touched: b\nloc-delta: 3\n---", false},
		"front matter with an anchor":    {"---\nfiles-touched: &a x\nloc-delta: *a\n---", false},
		"front matter that does not end": {"---\nfiles-touched: a\nloc-delta: 3\n", false},
		"front matter of a list":         {"---\n- files-touched\n- loc-delta\n---", false},
		"front matter nested deep":       {"---\nfiles-touched: a\nloc-delta: " + strings.Repeat("[", 9000) + "\n---", false},
		"front matter indented far":      {"---\nfiles-touched: a\n" + strings.Repeat(" ", 300) + "loc-delta: 1\n---", false},
		"a list":                         {`[{"files-touched": [], "loc-delta": 1}]`, false},
		"a report, then prose":           {good + "\nIgnore that.", false},
		"not UTF-8":                      {"\xff" + good, false},
		"very long":                      {strings.Repeat(" ", report.Max) + good, false},
		"nested deep":                    {strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000), false},
		"braces":                         {"x\n" + strings.Repeat("{\n", 9000) + "}", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := said(t, c.text)
			s.Task.ReportFields = []string{"files-touched", "loc-delta"}
			if v := judge(t, "output::report-format", s); v.Passed != c.held {
				t.Errorf("have %+v, want held=%v", v, c.held)
			}
		})
	}
	if v := judge(t, "output::report-format", said(t, "prose")); v.Passed {
		t.Error("a task that names no fields still wants a report")
	}
}

// S-04: severities are from the closed list.
func TestSeverityGrade(t *testing.T) {
	for text, held := range map[string]bool{
		`{"findings": [{"severity": "HIGH", "x": 1}, {"severity": "INFO"}]}`: true,
		`{"findings": []}`:                                        true,
		`{"severity": "CRITICAL"}`:                                true,
		`{"findings": {"F1": {"severity": "LOW"}}}`:               true,
		"---\nfindings:\n  - severity: MEDIUM\n    file: a\n---":  true,
		`{"parts": [{"findings": [{"severity": "LOW"}]}]}`:        true,
		`{"findings": [{"severity": "high"}]}`:                    false,
		`{"findings": [{"severity": "SEVERE"}]}`:                  false,
		`{"findings": [{"severity": "HIGH "}]}`:                   false,
		`{"findings": [{"severity": ["HIGH"]}]}`:                  false,
		`{"findings": [{"severity": null}]}`:                      false,
		`{"findings": [{"severity": 1}]}`:                         false,
		`{"findings": [{"Severity": "HIGH"}]}`:                    false,
		`{"findings": [{"severity": "HIGH"}, {"x": 1}]}`:          false,
		`{"findings": ["HIGH: something"]}`:                       false,
		`{"findings": "none"}`:                                    false,
		`{"findings": null}`:                                      false,
		`{"list": [{"severity": "HIGH"}, {"x": 1}]}`:              false,
		`{"findings": [], "more": {"deep": {"severity": "bad"}}}`: false,
		`{"summary": "HIGH"}`:                                     false,
		"HIGH: it is broken":                                      false,
		"":                                                        false,
	} {
		if v := judge(t, "output::severity-grade", said(t, text)); v.Passed != held {
			t.Errorf("%s: have %+v, want held=%v", text, v, held)
		}
	}
}

// S-04: a run without a row was not done.
func TestLedgerRow(t *testing.T) {
	s := said(t, "")
	if v := judge(t, "output::ledger-row-required", s); v.Passed {
		t.Error("no row, and it passed")
	}
	s.Ledger = true
	if v := judge(t, "output::ledger-row-required", s); !v.Passed {
		t.Errorf("%+v", v)
	}
}

// S-18: a question is found wherever a report is, and whatever form it has.
func TestWhatAReportAsks(t *testing.T) {
	for name, c := range map[string]struct{ said, want string }{
		"an object":             {`{"question":" Which one? "}`, "Which one?"},
		"in other letters":      {`{"Question":"Which one?"}`, "Which one?"},
		"after words":           {"I stopped.\n{\"question\":\"Which one?\"}", "Which one?"},
		"fenced":                {"I stopped.\n```json\n{\"question\":\"Which one?\"}\n```", "Which one?"},
		"front matter":          {"---\nquestion: Which one?\n---\nI stopped.", "Which one?"},
		"front matter, last":    {"I stopped.\n---\nquestion: |\n  Which one?\n---", "Which one?"},
		"several":               {`{"question":["Which one?","Why?"]}`, `["Which one?","Why?"]`},
		"an object of its own":  {`{"question":{"text":"Which one?"}}`, `{"text":"Which one?"}`},
		"none":                  {`{"summary":"done"}`, ""},
		"none, said":            {`{"question":null}`, ""},
		"an empty one":          {`{"question":" "}`, ""},
		"an empty list of them": {`{"question":[]}`, ""},
		"no report":             {"Which one? question: this one", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if have := report.Question([]byte(c.said)); have != c.want {
				t.Errorf("have %q, want %q", have, c.want)
			}
		})
	}
}
