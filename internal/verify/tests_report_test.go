package verify_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/verify"
)

// canariesIn are the names of the host's own tests in the copy that a command
// is run over.
func canariesIn(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasPrefix(d.Name(), "zz_nacre_") {
			return err
		}
		data, err := os.ReadFile(name)
		list = append(list, canaryName.FindString(string(data)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

var canaryName = regexp.MustCompile(`TestNacre[0-9a-f]{24}_\d+`)

// scripted is a runner that answers with what a test says, call by call.
type scripted struct {
	t       *testing.T
	answers []func(c verify.Command) verify.Output
	calls   []verify.Command
}

func (s *scripted) run(_ context.Context, c verify.Command) (verify.Output, error) {
	if strings.Contains(strings.Join(c.Argv, " "), "command -v") {
		return verify.Output{}, nil
	}
	if len(s.answers) == 0 {
		s.t.Fatalf("one command too many: %q", c.Argv)
	}
	answer := s.answers[0]
	s.answers, s.calls = s.answers[1:], append(s.calls, c)
	return answer(c), nil
}

// goLines are the events of one package in which tests ended as told.
func goLines(ended ...string) string {
	var b strings.Builder
	last := "pass"
	for _, one := range ended {
		name, action, _ := strings.Cut(one, "=")
		fmt.Fprintf(&b, "{\"Action\":\"run\",\"Package\":\"example.com/sum\",\"Test\":%q}\n", name)
		if action == "fail" {
			last = "fail"
			fmt.Fprintf(&b, "{\"Action\":\"output\",\"Package\":\"example.com/sum\",\"Test\":%q,\"Output\":\"seen %s %s\\n\"}\n",
				name, strings.Split(strings.TrimPrefix(name, "TestNacre"), "_")[0], name[strings.LastIndex(name, "_")+1:])
		}
		if action != "" {
			fmt.Fprintf(&b, "{\"Action\":%q,\"Package\":\"example.com/sum\",\"Test\":%q}\n", action, name)
		}
	}
	fmt.Fprintf(&b, "{\"Action\":%q,\"Package\":\"example.com/sum\"}\n", last)
	return b.String()
}

func answer(code int, text string) func(verify.Command) verify.Output {
	return func(verify.Command) verify.Output { return verify.Output{ExitCode: code, Stdout: []byte(text)} }
}

// withCanary answers as an honest runner does: the host's own test fails.
func withCanary(t *testing.T, code int, ended ...string) func(verify.Command) verify.Output {
	return func(c verify.Command) verify.Output {
		names := canariesIn(t, c.Dir)
		if len(names) != 1 {
			t.Errorf("have %v, want one test of the host's own", names)
		}
		all := slices.Clone(ended)
		for _, name := range names {
			all = append(all, name+"=fail")
		}
		return verify.Output{ExitCode: code, Stdout: []byte(goLines(all...))}
	}
}

// S-13: what of a report is believed, and what never is.
func TestReportsOfGo(t *testing.T) {
	base := files{"go.mod": "module example.com/sum\n", "sum.go": "package sum\n", "sum_test.go": "package sum\n\nfunc TestA() {}\n"}
	good := goLines("TestA=pass", "TestA/x=pass", "TestB=skip")
	canary := withCanary(t, 1, "TestA=pass", "TestA/x=pass", "TestB=skip")
	for _, c := range []struct {
		name    string
		answers []func(verify.Command) verify.Output
		want    string
	}{
		{"an honest one", []func(verify.Command) verify.Output{answer(0, good), canary, answer(0, good)}, ""},
		{"a test that the base skips may run", []func(verify.Command) verify.Output{answer(0, good), canary, answer(0, goLines("TestA=pass", "TestA/x=pass", "TestB=pass"))}, ""},
		{"a base without a test", []func(verify.Command) verify.Output{answer(0, goLines())}, "no test that passes"},
		{"a base that skips all", []func(verify.Command) verify.Output{answer(0, goLines("TestA=skip"))}, "no test that passes"},
		{"a base that does not build", []func(verify.Command) verify.Output{answer(1, "")}, "on the base"},
		{"no test of the host's own", []func(verify.Command) verify.Output{answer(0, good), answer(1, good)}, "host's own test"},
		{"one of another name", []func(verify.Command) verify.Output{answer(0, good), answer(1, good+goLines("TestNacre000_0=fail"))}, "not to be trusted"},
		{"one that passed", []func(verify.Command) verify.Output{answer(0, good), func(c verify.Command) verify.Output {
			return verify.Output{ExitCode: 1, Stdout: []byte(goLines("TestA=pass", "TestA/x=pass", "TestB=skip", canariesIn(t, c.Dir)[0]+"=pass"))}
		}}, "host's own test"},
		{"an exit status that does not fit", []func(verify.Command) verify.Output{answer(0, good), withCanary(t, 0, "TestA=pass", "TestA/x=pass", "TestB=skip")}, "forged"},
		{"an exit status that fails", []func(verify.Command) verify.Output{answer(0, good), canary, answer(1, good)}, "exit status is 1"},
		{"a subtest that is gone", []func(verify.Command) verify.Output{answer(0, good), withCanary(t, 1, "TestA=pass", "TestB=skip")}, "TestA/x is no longer run"},
		{"a test that did not finish", []func(verify.Command) verify.Output{answer(0, good), withCanary(t, 1, "TestA", "TestA/x=pass", "TestB=skip")}, "TestA did not finish"},
		{"one reported twice", []func(verify.Command) verify.Output{answer(0, good), withCanary(t, 1, "TestA=fail", "TestA=pass", "TestA/x=pass")}, "reported twice"},
		{"a package reported twice", []func(verify.Command) verify.Output{answer(0, good), answer(1, good+good)}, "reported twice"},
		{"a line that is none", []func(verify.Command) verify.Output{answer(0, good), answer(1, good+"ok\n")}, "a line of the report is none"},
		{"one that was cut off", []func(verify.Command) verify.Output{answer(0, good), func(verify.Command) verify.Output {
			return verify.Output{Stdout: []byte(good), Cut: true}
		}}, "not whole"},
		{"one that came too late", []func(verify.Command) verify.Output{answer(0, good), func(verify.Command) verify.Output {
			return verify.Output{Stdout: []byte(good), TimedOut: true}
		}}, "did not end"},
		{"a test that fails on the base too", []func(verify.Command) verify.Output{answer(1, goLines("TestA=fail")), withCanary(t, 1, "TestA=fail")}, "as on the base"},
		{"a test that the work repairs", []func(verify.Command) verify.Output{answer(1, goLines("TestA=fail")), withCanary(t, 1, "TestA=pass"), answer(0, goLines("TestA=pass"))}, ""},
		{"one that it skips in place of that", []func(verify.Command) verify.Output{answer(1, goLines("TestA=fail")), withCanary(t, 1, "TestA=skip")}, "on the base it failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &scripted{t: t, answers: c.answers}
			v := verdictOf(t, "tests-green", base, files{"sum.go": "package sum\n\n// more\n"}, nil, s.run)
			if said := v.Reason + "\n" + v.Detail; v.Passed != (c.want == "") || !strings.Contains(said, c.want) {
				t.Errorf("passed %v, want %q, have:\n%s", v.Passed, c.want, said)
			}
			if len(s.answers) > 0 {
				t.Errorf("%d commands were not run", len(s.answers))
			}
		})
	}
}

// S-13: a command is one of fixed words over a copy, and its limit is set.
func TestCommandsAreFixedWords(t *testing.T) {
	base := files{"go.mod": "module x\n", "a.go": "package x\n", "a_test.go": "package x\n", "$(touch ran)/go.mod": "module y\n", "$(touch ran)/-x.go": "package y\n", "$(touch ran)/x_test.go": "package y\n"}
	s := &scripted{t: t}
	for range 12 {
		s.answers = append(s.answers, answer(1, ""))
	}
	_ = verdictOf(t, "tests-green", base, files{"a.go": "package x\n\n"}, nil, s.run)
	for _, c := range s.calls {
		if c.Limit <= 0 || c.Dir == "" || c.Argv[0] != "/bin/sh" || strings.Contains(c.Argv[2], "touch") {
			t.Errorf("%+v", c)
		}
	}
}

// S-04: which language is judged.
func TestLanguages(t *testing.T) {
	many := files{"go.mod": "module x\n", "a.go": "package x\n", "web/package.json": "{}", "web/a.js": "1\n", "web/b.ts": "1\n", "tools/go.mod": "module y\n", "lib/Cargo.toml": "[package]\n", "py/setup.py": ""}
	for _, c := range []struct {
		name, language string
		base, edits    files
		want           []string
	}{
		{"the one that is touched", "", many, files{"a.go": "package x\n\n"}, []string{"go ."}},
		{"two that are", "", many, files{"a.go": "-", "web/b.ts": "2\n"}, []string{"go .", "node web"}},
		{"data, which any test may read", "", many, files{"data.json": "1"}, []string{"go .", "node web", "python py", "rust lib"}},
		{"the one that is named", "python", many, files{"a.go": "package x\n\n"}, []string{"python py"}},
		{"one that is named and not there", "rust", files{"a.go": "package x\n", "go.mod": "module x\n"}, files{"a.go": "-"}, nil},
		{"one that nobody knows", "cobol", many, files{"a.go": "-"}, nil},
		{"none", "", files{"README": "x"}, files{"README": "y"}, nil},
		{"two without a manifest", "", files{"a.py": "", "b.js": ""}, files{"a.py": "1"}, nil},
		{"one without a manifest", "", files{"a.py": ""}, files{"a.py": "1"}, []string{"python ."}},
		{"other people's code", "", files{"node_modules/x/package.json": "{}", "testdata/go.mod": "module x\n", "a.py": ""}, files{"a.py": "1"}, []string{"python ."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []string
			run := func(_ context.Context, command verify.Command) (verify.Output, error) {
				line := strings.Join(command.Argv, " ")
				for tool, language := range map[string]string{"go": "go", "cargo": "rust", "node": "node", "python3": "python"} {
					if strings.HasSuffix(line, "sh "+tool) {
						asked = append(asked, language)
					}
				}
				return verify.Output{ExitCode: 1}, nil
			}
			v := verdictOf(t, "tests-green", c.base, c.edits, func(s *verify.Subject) { s.Task.Language = c.language }, run)
			if c.want == nil {
				if v.Passed || len(asked) > 0 || !strings.Contains(v.Reason+v.Detail, "language") {
					t.Errorf("have %v, %+v", asked, v)
				}
				return
			}
			if len(asked) == 0 || !strings.HasPrefix(c.want[0], asked[0]) {
				t.Errorf("have %v, want %v first", asked, c.want)
			}
			have := verify.PartsOf(t, folder(t, c.base), c.language, changesOf(c.base, edited(c.base, c.edits)))
			if !slices.Equal(have, c.want) {
				t.Errorf("have %v, want %v", have, c.want)
			}
		})
	}
}
