package verify_test

import (
	"fmt"
	"strings"
	"testing"
)

// long is a function's body of n lines.
func long(n int, line string) string { return strings.Repeat(line+"\n", n) }

// sized are sources of which the named function has exactly the lines given.
// Each holds what a search by pattern gets wrong.
var sized = map[string]struct {
	name, source string
	lines        int
	function     string
}{
	"Go":                  {"a.go", "package a\n\n// doc {\nfunc f() {\n" + long(29, "\t_ = `}`") + "}\n", 31, "f"},
	"Go at the limit":     {"a.go", "package a\n\nfunc f() {\n" + long(28, "\t_ = '}'") + "}\n", 0, ""},
	"a Go literal":        {"a.go", "package a\n\nvar f = func() {\n" + long(29, "") + "}\n", 31, "a function literal"},
	"a Go line directive": {"a.go", "package a\n\nfunc f() {\n" + long(28, "\t//line a.go:1") + "\t_ = 1\n}\n", 31, "f"},
}

// S-04: functions are found where they are, and nowhere else.
func TestFunctionsAreMeasured(t *testing.T) {
	for name, c := range sized {
		t.Run(name, func(t *testing.T) {
			v := judge(t, "quality::constructor-pattern", subject(t, files{}, files{c.name: c.source}))
			want := fmt.Sprintf(": %s has %d lines, 30 are allowed", c.function, c.lines)
			if c.lines == 0 && !v.Passed || c.lines > 0 && !strings.Contains(v.Detail, want) {
				t.Errorf("have %q, want %q", v.Detail, want)
			}
		})
	}
}

// S-04: files have 200 lines, unless the task says otherwise; only touched ones.
func TestFilesAreMeasured(t *testing.T) {
	at := func(n int) string { return long(n, "x") }
	for name, c := range map[string]struct {
		base, edits files
		held        bool
	}{
		"at the limit":                   {files{}, files{"a.txt": at(200)}, true},
		"over the limit":                 {files{}, files{"a.txt": at(201)}, false},
		"without a line end at the end":  {files{}, files{"a.txt": at(200) + "x"}, false},
		"with carriage returns alone":    {files{}, files{"a.txt": strings.Repeat("x\r", 201)}, false},
		"with both":                      {files{}, files{"a.txt": strings.Repeat("x\r\n", 200)}, true},
		"with separators of Unicode":     {files{}, files{"a.js": strings.Repeat("x;\u2028", 201)}, false},
		"not touched":                    {files{"a.txt": at(900)}, files{"b.txt": "x"}, true},
		"touched":                        {files{"a.txt": at(900)}, files{"a.txt": at(899)}, false},
		"made executable":                {files{"a.txt": at(900)}, files{"a.txt": "exec:" + at(900)}, false},
		"deleted":                        {files{"a.txt": at(900)}, files{"a.txt": "-"}, true},
		"a link":                         {files{"a.txt": at(900)}, files{"b": "link:a.txt"}, true},
		"bytes that are no text":         {files{}, files{"a.png": "\x00" + at(900)}, true},
		"code that says it is no text":   {files{}, files{"a.py": "#\x00\n" + at(900)}, false},
		"a lock file":                    {files{}, files{"go.sum": at(900), "Cargo.lock": at(900)}, true},
		"a long function of Python":      {files{}, files{"a.py": "def f():\n" + long(150, "    x = 1")}, true},
		"a long file of Python":          {files{}, files{"a.py": "def f():\n" + long(200, "    x = 1")}, false},
		"Go that cannot be read":         {files{}, files{"a.go": "package a\nfunc f( {"}, false},
		"Go that is not UTF-8":           {files{}, files{"a.go": "package a\n\nvar x = `\xff`\n"}, false},
		"Go of very many bytes":          {files{}, files{"a.go": "package a\n//" + strings.Repeat("x", 3<<20)}, false},
		"text of very many bytes":        {files{}, files{"a.txt": strings.Repeat("x", 3<<20)}, true},
		"an empty file of each language": {files{}, files{"a.rs": "", "a.ts": "", "a.py": ""}, true},
	} {
		t.Run(name, func(t *testing.T) {
			v := judge(t, "quality::constructor-pattern", subject(t, c.base, edited(c.base, c.edits)))
			if v.Passed != c.held {
				t.Errorf("have %+v, want held=%v", v, c.held)
			}
		})
	}
	s := subject(t, files{}, files{"a.go": "package a\n\nfunc f() {\n" + long(38, "\t_ = 1") + "}\n", "b": at(300)})
	s.Task.MaxFileLines, s.Task.MaxFunctionLines = 300, 40
	if v := judge(t, "quality::constructor-pattern", s); !v.Passed {
		t.Errorf("the task allows it: %+v", v)
	}
}
