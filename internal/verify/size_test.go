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
	"Go":                         {"a.go", "package a\n\n// doc {\nfunc f() {\n" + long(29, "\t_ = `}`") + "}\n", 31, "f"},
	"Go at the limit":            {"a.go", "package a\n\nfunc f() {\n" + long(28, "\t_ = '}'") + "}\n", 0, ""},
	"a Go literal":               {"a.go", "package a\n\nvar f = func() {\n" + long(29, "") + "}\n", 31, "a function literal"},
	"a Go line directive":        {"a.go", "package a\n\nfunc f() {\n" + long(28, "\t//line a.go:1") + "\t_ = 1\n}\n", 31, "f"},
	"Rust":                       {"a.rs", "#[test]\npub(crate) async fn f<'a>(x: &'a str) -> Foo<{ N + 1 }>\nwhere T: X,\n{\n" + long(27, "    let c = '{'; // }") + "}\n", 30 + 1, "f"},
	"Rust at the limit":          {"a.rs", "fn f() -> [u8; { 3 }] {\n" + long(28, "    let s = \"}\\\"}\";") + "}\n", 0, ""},
	"a raw Rust string":          {"a.rs", "fn f() {\n" + long(29, "    let s = br##\"}\"# fn g() { \"##;") + "}\n", 31, "f"},
	"a nested Rust comment":      {"a.rs", "fn f() {\n" + long(29, "    /* } /* } */ } */") + "}\n", 31, "f"},
	"Rust, a declaration":        {"a.rs", "trait T { fn f(&self);\n" + long(40, "    const A: fn(i32) -> i32 = g;") + "}\n", 0, ""},
	"Rust lifetimes":             {"a.rs", "fn f<'a, 'b>() {\n" + long(29, "    let x: &'a str = y; let q = '\\''; let z = '\\u{7d}';") + "}\n", 31, "f"},
	"a raw Rust identifier":      {"a.rs", "fn r#match() {\n" + long(29, "    r#fn();") + "}\n", 31, "r#match"},
	"a Rust method":              {"a.rs", "impl X {\n    fn short() {}\n    fn f() {\n" + long(29, "    m! { fn }") + "    }\n}\n", 31, "f"},
	"JavaScript":                 {"a.js", "async function f({ a, b } = {}) {\n" + long(29, "  const s = '}' + \"}\" // }") + "}\n", 31, "f"},
	"JavaScript at the limit":    {"a.js", "function f() {\n" + long(28, "  x = /[/}]{/.test(y) / 2") + "}\n", 0, ""},
	"a template":                 {"a.mjs", "function f() {\n" + long(29, "  x = `} ${ g(`}${h}`) } }`") + "}\n", 31, "f"},
	"an arrow":                   {"a.js", "const f = async (a) => {\n" + long(29, "  if (a) /}/.test(a)") + "}\n", 31, "an arrow function"},
	"an arrow's expression":      {"a.jsx", "const F = () => (\n" + long(29, "  <p>Don't {x} http://y</p>") + ")\n", 31, "an arrow function"},
	"a method":                   {"a.js", "class A {\n  static async *f(a) {\n" + long(29, "    for (;;) { if (x) { } }") + "  }\n}\n", 31, "f"},
	"control flow is no method":  {"a.js", "for (;;) {\n" + long(40, "  x()") + "}\nif (a) {\n" + long(40, "  x()") + "} else if (b) {\n" + long(40, "  y()") + "}\nswitch (x) {\n" + long(40, "") + "}\n", 0, ""},
	"TypeScript":                 {"a.ts", "export function f<T extends { a: string }>(x: T): { a: string } | Promise<{ b: number }> {\n" + long(29, "  y()") + "}\n", 31, "f"},
	"a TypeScript method":        {"a.ts", "class A {\n  private f(x: number): x is { a: 1 } {\n" + long(29, "    y()") + "  }\n}\n", 31, "f"},
	"a TypeScript arrow":         {"a.tsx", "const f = (x: number): Map<string, { a: 1 }> => {\n" + long(29, "  y()") + "}\n", 31, "an arrow function"},
	"TypeScript declarations":    {"a.ts", "interface A {\n" + long(40, "  f(x: { a: 1 }): { b: 2 };") + "}\ndeclare function g(): void;\nconst o = {\n" + long(40, "  a: 1,") + "}\n", 0, ""},
	"Python":                     {"a.py", "@deco(\n  1)\nasync def f(a,\n            b):\n" + long(29, "    x = ')' # )") + "\n\n\ny = 1\n", 31, "f"},
	"Python at the limit":        {"a.py", "def f():\n" + long(29, "    x = 1") + "\n\n\n# more\n\n\n" + "class A:\n" + long(40, "    x = 1"), 0, ""},
	"a Python string":            {"a.py", "def f():\n    x = '''\n" + long(27, "def g(): \"\"\"") + "'''\n    return 1\n", 31, "f"},
	"a nested Python function":   {"a.py", "def f():\n    def g():\n" + long(29, "        pass") + "\n", 31, "f"},
	"a Python method":            {"a.py", "class A:\n\tdef f(self):\n" + long(30, "\t\tpass") + "\tdef g(self): pass\n", 31, "f"},
	"Python, a joined line":      {"a.py", "def f():\n" + long(14, "    x = 1 + \\\n2") + "    y = (\n1)\n", 31, "f"},
	"Python with carriage lines": {"a.py", "def f():\r" + strings.Repeat("    x = 1\r", 30), 31, "f"},
	"a script of no suffix":      {"tool", "#!/usr/bin/env python3\ndef f():\n" + long(30, "    x = 1"), 31, "f"},
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
		"Go that cannot be read":         {files{}, files{"a.go": "package a\nfunc f( {"}, false},
		"Rust that does not end":         {files{}, files{"a.rs": "fn f() { \""}, false},
		"Rust that crosses":              {files{}, files{"a.rs": "fn f() { ( } )"}, false},
		"JavaScript that does not end":   {files{}, files{"a.js": "function f() { `"}, false},
		"JavaScript that is not closed":  {files{}, files{"a.js": "function f() {"}, false},
		"Python that does not end":       {files{}, files{"a.py": "x = '''"}, false},
		"Python that closes nothing":     {files{}, files{"a.py": "x = )"}, false},
		"code that is not UTF-8":         {files{}, files{"a.py": "x = '\xff'"}, false},
		"code of very many bytes":        {files{}, files{"a.py": strings.Repeat("x", 3<<20)}, false},
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
	s := subject(t, files{}, files{"a.py": "def f():\n" + long(39, "    x = 1"), "b": at(300)})
	s.Task.MaxFileLines, s.Task.MaxFunctionLines = 300, 40
	if v := judge(t, "quality::constructor-pattern", s); !v.Passed {
		t.Errorf("the task allows it: %+v", v)
	}
}
