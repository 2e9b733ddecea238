package main_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// evil moves the cursor, sets the title, hides, reorders and rings.
const evil = "\x1b[2J\x1b]0;owned\x07\u009b31m\u202egnp\u200b\x7f\r\b"

// hidden are the characters that a terminal would act on.
func hidden(text string) string {
	for _, r := range text {
		if r != '\n' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp)) || r == utf8.RuneError {
			return string(r)
		}
	}
	return ""
}

func quoted(text string) string {
	data, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string is always JSON
	}
	return string(data)
}

// M-05: whatever an agent says, names, prints or asks, a terminal is shown
// printable characters only.
func TestNothingFromInsideActsOnTheTerminal(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	i.write("home/.config/nacre/config.toml", "ask_seconds = 1\n"+toolsConfig)
	rec := i.write("rec.jsonl", strings.Join([]string{
		`{"v":1,"name":"evil"}`,
		`{"say":` + quoted("hello "+evil) + `}`,
		`{"tool":"shell","input":{"command":` + quoted("printf '"+`\033[2Jout\n'; exit 3 # `+evil) + `}}`,
		`{"tool":` + quoted("evil"+evil) + `,"input":{}}`,
		`{"tool":"write","input":{"path":` + quoted("a\x1b[31m\u202e\u009b.txt") + `,"content":"x"}}`,
		`{"tool":"shell","input":{"command":` + quoted(`ipc delete_reminder '{"reminder_id":"R-1"}'`) + `}}`,
	}, "\n")+"\n")
	for name, args := range map[string][]string{
		"run": {"run", "task " + evil, "--recording", rec, "--project", "p", "--session", "a", "--check", `printf '\033[2J\302\233\r\b'; false`},
		"json": {"run", "task " + evil, "--recording", rec, "--project", "p", "--session", "b", "--json",
			"--check", `printf '\033[2J\302\233\r\b'; false`},
	} {
		r := i.nacre(args...)
		r.want(t, 1)
		if bad := hidden(r.stdout + r.stderr); bad != "" {
			t.Errorf("%s shows %q:\n%q", name, bad, r.stdout+r.stderr)
		}
	}
	for _, args := range [][]string{
		{"audit", "show", "a"}, {"audit", "show", "a", "--json"}, {"sessions", "list"}, {"sessions", "list", "--json"},
		{"sessions", "show", "a"}, {"sessions", "show", "a", "--json"}, {"run", evil + "\x00"[:0], "--brain", evil, "--project", "p"},
		{"sessions", "show", evil}, {evil}, {"exec", "--egress", evil, "--", "true"}, {"exec", "--", evil}, {"run", "x", "--project", evil},
		{"audit", "verify", "--receipt", evil}, {"approvals", "approve", evil}, {"run", "--" + evil}, {"run", "--prompt-file", evil},
	} {
		r := i.nacre(args...)
		if bad := hidden(r.stdout + r.stderr); bad != "" {
			t.Errorf("%q shows %q:\n%q", args, bad, r.stdout+r.stderr)
		}
	}
}

// M-05: lines fit a terminal, but for what cannot be broken, such as a path or
// a command to copy.
func TestLinesFitATerminal(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	rec := i.write("rec.jsonl", strings.Join([]string{
		`{"v":1,"name":"long"}`,
		`{"say":` + quoted(strings.Repeat("many words ", 80)) + `}`,
		`{"tool":"shell","input":{"command":` + quoted("echo "+strings.Repeat("x", 300)+"; exit 1") + `}}`,
		`{"tool":"write","input":{"path":"f","content":"x"}}`,
	}, "\n")+"\n")
	r := i.nacre("run", strings.Repeat("long ", 60), "--recording", rec, "--project", "p", "--check", "true # "+strings.Repeat("c", 200))
	r.want(t, 0)
	for _, line := range strings.Split(r.stdout, "\n") {
		if n := utf8.RuneCountInString(line); n > 80 && !strings.Contains(line, i.work) {
			t.Errorf("%d columns: %q", n, line)
		}
	}
}
