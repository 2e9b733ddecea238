package terminal_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/terminal"
)

// U-12: what a line has no room for is read before it is approved; a host is shown whole.
func TestAQuestionThatIsCutIsNotOfferedForApproval(t *testing.T) {
	host := strings.Repeat("a", 60) + ".example"
	for arguments, want := range map[string]string{
		`{"title":"t"}`: "nacre approvals approve 7d2q",
		`{"title":"` + strings.Repeat("t", 60) + `"}`: "nacre approvals show 7d2q",
	} {
		var out bytes.Buffer
		p := terminal.New(&out, terminal.Style{Unicode: true})
		p.Question(nacre.Question{ID: "7d2q", Capability: "a.b", Arguments: []byte(arguments)}, time.Time{})
		if !strings.Contains(out.String(), want) {
			t.Errorf("have %s, want %s", out.String(), want)
		}
		p.Question(nacre.Question{ID: "7d2q", Capability: "nacre.egress", Arguments: []byte(`{"host":"` + host + `","port":443,"protocol":"tls"}`)}, time.Time{})
		if !strings.Contains(out.String(), host+":443") {
			t.Errorf("have %s", out.String())
		}
	}
}

// M-05: nothing from a sandbox reaches the terminal as a control character.
func TestControlAndHiddenCharactersAreShownAndNotObeyed(t *testing.T) {
	for in, want := range map[string]string{
		"plain äöü 漢字":        "plain äöü 漢字",
		"\x1b[31mred\x1b[0m":  `\x1b[31mred\x1b[0m`,
		"a\x1b]0;title\x07b":  `a\x1b]0;title\ab`,
		"line\nnext\rover":    `line\nnext\rover`,
		"tab\there":           "tab here",
		"user\u202egnp.exe":   `user\u202egnp.exe`,
		"zero\u200bwidth":     `zero\u200bwidth`,
		"c1\u009b31m":         `c1\u009b31m`,
		"eight bits \x9b31m":  `eight bits \x9b31m`,
		"half \xe2\x80":       `half \xe2\x80`,
		"both \x9b\x1b":       `both \x9b\x1b`,
		"a real \ufffd":       "a real \ufffd",
		"separator\u2028next": `separator\u2028next`,
		"\x00\x7f":            `\x00\x7f`,
	} {
		if have := terminal.Escape(in); have != want {
			t.Errorf("%q: have %q, want %q", in, have, want)
		}
	}
}

func TestEveryLineOfARunIsSafeAndFits(t *testing.T) {
	var out bytes.Buffer
	p := terminal.New(&out, terminal.Style{Unicode: true})
	evil := strings.Repeat("very long text \x1b[2J\u202e ", 40)
	one := 1
	for _, step := range []nacre.Step{
		{Kind: nacre.StepSay, Text: evil}, {Kind: nacre.StepTool, Name: "shell", Text: evil},
		{Kind: nacre.StepResult, Name: "shell", Text: evil, ExitCode: &one, IsError: true},
		{Kind: nacre.StepRetry, Name: "rate", Text: evil},
		{Kind: nacre.StepCheck, Check: &nacre.CheckResult{Command: evil, ExitCode: 1, Duration: time.Second}},
	} {
		p.Step(step)
	}
	p.Question(nacre.Question{ID: "7d2q", Capability: "a.b", Arguments: []byte(evil), Expires: time.Now()}, time.Now())
	for _, line := range strings.Split(out.String(), "\n") {
		if strings.ContainsAny(line, "\x1b\u202e") {
			t.Errorf("a control character got through: %q", line)
		}
		if n := len([]rune(line)); n > 110 { // escapes make a line longer, and cannot be cut in two
			t.Errorf("%d columns: %q", n, line)
		}
	}
}

func TestAPlainTerminalGetsNoColourAndNoUnicodeMarks(t *testing.T) {
	none := func(string) string { return "" }
	if style := terminal.Detect(false, none); style.Colour {
		t.Error("colour without a terminal")
	}
	for name, terms := range map[string]struct {
		set    map[string]string
		colour bool
	}{
		"an ordinary one":       {map[string]string{"TERM": "xterm"}, true},
		"one without colours":   {map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, false},
		"one that can do none":  {map[string]string{"TERM": "dumb"}, false},
		"one that is not named": {nil, false},
	} {
		if style := terminal.Detect(true, func(name string) string { return terms.set[name] }); style.Colour != terms.colour {
			t.Errorf("%s: colour is %v", name, style.Colour)
		}
	}
	if style := terminal.Detect(true, func(name string) string { return map[string]string{"LANG": "C"}[name] }); style.Unicode {
		t.Error("unicode in the C locale")
	}
	set := map[string]string{"LC_ALL": "C", "LC_CTYPE": "de_DE.UTF-8", "LANG": "en_US.UTF-8"}
	if style := terminal.Detect(true, func(name string) string { return set[name] }); style.Unicode {
		t.Error("unicode although LC_ALL, which decides, is C")
	}
	set = map[string]string{"LC_CTYPE": "de_DE.UTF-8", "LANG": "C"}
	if style := terminal.Detect(true, func(name string) string { return set[name] }); !style.Unicode {
		t.Error("no unicode although LC_CTYPE, which decides, has it")
	}
	var out bytes.Buffer
	terminal.New(&out, terminal.Style{}).Mark("denied", "shell", "no")
	if out.String() != "  x shell  no\n" {
		t.Errorf("%q", out.String())
	}
}

func TestAStepReadsAsAPersonWouldSayIt(t *testing.T) {
	three := 3
	for name, test := range map[string]struct {
		step nacre.Step
		want string
	}{
		"a path is shown from the project":        {nacre.Step{Kind: nacre.StepTool, Name: "Read", Text: "/workspace/docs/a.md"}, "  ▸ Read   docs/a.md\n"},
		"a path elsewhere is shown whole":         {nacre.Step{Kind: nacre.StepTool, Name: "Read", Text: "/etc/passwd"}, "  ▸ Read   /etc/passwd\n"},
		"lines of a command stay apart":           {nacre.Step{Kind: nacre.StepTool, Name: "Bash", Text: "make\nrm x\n"}, "  ▸ Bash   make ⏎ rm x\n"},
		"a line that a shell continues is one":    {nacre.Step{Kind: nacre.StepTool, Name: "Bash", Text: "curl \\\n  -d x"}, "  ▸ Bash   curl -d x\n"},
		"a failure without words has its code":    {nacre.Step{Kind: nacre.StepResult, Name: "Bash", ExitCode: &three, IsError: true}, "  ✕ Bash   exit 3\n"},
		"a failure has the first of its words":    {nacre.Step{Kind: nacre.StepResult, Name: "Bash", Text: "no\nmore", ExitCode: &three}, "  ✕ Bash   exit 3 · no\n"},
		"what went well is not told":              {nacre.Step{Kind: nacre.StepResult, Name: "Bash", Text: "yes"}, ""},
		"a retry says why":                        {nacre.Step{Kind: nacre.StepRetry, Name: "overload", Text: "attempt 2"}, "  ! retry  the model is overloaded · attempt 2\n"},
		"a retry of an unknown class says it":     {nacre.Step{Kind: nacre.StepRetry, Name: "protocol", Text: "attempt 1"}, "  ! retry  protocol · attempt 1\n"},
		"a check is announced, as it can be long": {nacre.Step{Kind: nacre.StepStage, Name: "check", Text: "go test ./..."}, "  ▸ check  go test ./...\n"},
		"other stages are not":                    {nacre.Step{Kind: nacre.StepStage, Name: "converse", Text: "replay"}, ""},
	} {
		var out bytes.Buffer
		terminal.New(&out, terminal.Style{Unicode: true}).Step(test.step)
		if out.String() != test.want {
			t.Errorf("%s: have %q, want %q", name, out.String(), test.want)
		}
	}
}

// F-134: what is printed while a question waits is on lines of its own, and the question's
// line stands below it again until it is answered.
func TestWhatIsPrintedKeepsOutOfTheLineOfAQuestion(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := terminal.New(&out, terminal.Style{})
	ask := p.Prompts()
	for _, written := range []string{"? send\n", "    approve? ", "", "    approve? ", "    approved\n"} {
		if written == "" {
			p.Line("now a reminder")
			continue
		}
		if _, err := ask.Write([]byte(written)); err != nil {
			t.Fatal(err)
		}
	}
	p.Line("done")
	want := "? send\n    approve? \nnow a reminder\n    approve?     approve?     approved\ndone\n"
	if have := out.String(); have != want {
		t.Errorf("have %q, want %q", have, want)
	}
}

func TestProseIsBrokenBetweenWords(t *testing.T) {
	var out bytes.Buffer
	terminal.New(&out, terminal.Style{}).Prose("not merged", strings.Repeat("twelve chars ", 12)+"\x1b[2J")
	for i, line := range strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n") {
		if len(line) > terminal.Width || strings.Contains(line, "\x1b") || strings.HasPrefix(line, "         ") != (i > 0) {
			t.Errorf("line %d: %q", i+1, line)
		}
	}
	if have := strings.Join(strings.Fields(out.String()), " "); have != "not merged "+strings.Repeat("twelve chars ", 12)+`\x1b[2J` {
		t.Errorf("have %q", have)
	}
}

// U-14: on a terminal no line is longer than it, and none is broken inside a word. Elsewhere a line
// stays whole, for scripts.
func TestLinesAreFoldedToTheTerminal(t *testing.T) {
	for columns, want := range map[int]string{
		0:  "git      1 commit on main, kept as nacre/work\n  ! look   a.sh: a program\n",
		30: "git      1 commit on main,\n         kept as nacre/work\n  ! look   a.sh: a program\n",
		20: "git      1 commit on\n         main, kept\n         as\n         nacre/work\n  ! look   a.sh: a\n           program\n",
	} {
		var out bytes.Buffer
		p := terminal.New(&out, terminal.Style{Unicode: true, Columns: columns})
		p.Field("git", "%s", "1 commit on main, kept as nacre/work")
		p.Mark("warn", "look", "a.sh: a program")
		if have := out.String(); have != want {
			t.Errorf("%d columns: have\n%s\nwant\n%s", columns, have, want)
		}
	}
}

// U-33: where a locale has no UTF-8, nothing but ASCII is written, however it came about.
func TestATerminalWithoutUnicodeIsShownASCII(t *testing.T) {
	var out bytes.Buffer
	p := terminal.New(&out, terminal.Style{})
	p.Field("nacre", "session %s · brain %s", "7d2q", "claude")
	p.Mark("ok", "hosts", "“a” → b…, größer ≥ 10 – ein 漢")
	p.Step(nacre.Step{Kind: nacre.StepTool, Name: "shell", Text: "one\ntwo " + strings.Repeat("x", 100)})
	p.Output("ü 😀", 3)
	p.Table([]string{"NAME", "WHAT"}, [][]string{{"a…", "x"}, {"abcdef", "y"}})
	want := `nacre    session 7d2q - brain claude
  + hosts  "a" -> b..., gr\u00f6\u00dfer >= 10 - ein \u6f22
  > shell  one \n two ` + strings.Repeat("x", 58) + `...
         | \u00fc \U0001f600
NAME    WHAT
a...    x
abcdef  y
`
	if out.String() != want {
		t.Errorf("have\n%s\nwant\n%s", out.String(), want)
	}
}
