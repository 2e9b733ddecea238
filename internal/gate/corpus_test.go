package gate_test

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"github.com/nacre-dev/nacre/internal/gate"
)

// commands is the allow-list that the corpus of bash-allowlist assumes: the
// seed's cargo pattern and a few more.
var commands = []string{`^cargo( |$)`, `^ls( |$)`, `^pwd( |$)`, `^mkdir( |$)`, `^rm -rf /tmp/`, `^rustc( |$)`, `^rustup show( |$)`}

type shellCase struct {
	Gate, Want, Tier, Command, Why string
}

func lines[T any](tb testing.TB, file string) []T {
	tb.Helper()
	f, err := os.Open(file)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	var list []T
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		var one T
		if err := json.Unmarshal(scanner.Bytes(), &one); err != nil {
			tb.Fatal(err)
		}
		list = append(list, one)
	}
	return list
}

// hook is the message that Claude Code sends before a call.
func hook(tb testing.TB, tool string, input any) []byte {
	tb.Helper()
	data, err := json.Marshal(map[string]any{
		"session_id": "s", "hook_event_name": "PreToolUse", "cwd": "/w/repo", "tool_name": tool, "tool_input": input,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func world() gate.World {
	return gate.World{Project: "/w/repo", Home: "/home/u"}
}

func decide(tb testing.TB, rule gate.Rule, w gate.World, data []byte) gate.Decision {
	tb.Helper()
	call, err := gate.ParseHook(data)
	if err != nil {
		return gate.Decision{Reason: err.Error()}
	}
	return rule.Check(call, w)
}

func verdict(d gate.Decision) string {
	if d.Allowed {
		return "allow"
	}
	return "deny"
}

func bash(tb testing.TB, rule gate.Rule, command string) gate.Decision {
	tb.Helper()
	return decide(tb, rule, world(), hook(tb, "Bash", map[string]any{"command": command}))
}

// S-05: every case that parsing can decide is right in both directions, nine
// of ten of the others, and nothing good is refused.
func TestShellCorpus(t *testing.T) {
	right, total := map[string]int{}, map[string]int{}
	for _, c := range lines[shellCase](t, "testdata/shell.jsonl") {
		d := bash(t, gate.Rule{Kind: gate.KindOf(c.Gate), Commands: commands}, c.Command)
		key := c.Tier + " " + c.Want
		total[key]++
		if have := verdict(d); have == c.Want {
			right[key]++
			continue
		}
		if c.Tier == "heuristic" {
			t.Logf("missed: %s %q (%s)", c.Gate, c.Command, c.Why)
			continue
		}
		t.Errorf("%s %q: %s, want %s (%s): %s", c.Gate, c.Command, verdict(d), c.Want, c.Why, d.Reason)
	}
	for key, n := range total {
		t.Logf("%-16s %3d of %3d", key, right[key], n)
	}
	if have, want := right["heuristic deny"]*10, total["heuristic deny"]*9; have < want {
		t.Errorf("heuristics find %d of %d, fewer than nine in ten", right["heuristic deny"], total["heuristic deny"])
	}
}

type pathCase struct {
	Gate, Want, Tool, Why string
	Input                 json.RawMessage
	Whitelist, Denylist   []string
	Links                 map[string]string
}

// S-06: paths are resolved against the project.
func TestPathCorpus(t *testing.T) {
	for _, c := range lines[pathCase](t, "testdata/paths.jsonl") {
		w := world()
		w.Readlink = func(path string) (string, bool, error) {
			for name, target := range c.Links {
				if path == "/w/repo/"+name {
					return target, true, nil
				}
			}
			return "", false, nil
		}
		rule := gate.Rule{Kind: gate.KindOf(c.Gate), Whitelist: c.Whitelist, Denylist: c.Denylist}
		d := decide(t, rule, w, hook(t, c.Tool, c.Input))
		if have := verdict(d); have != c.Want {
			t.Errorf("%s %s %s: %s, want %s (%s): %s", c.Gate, c.Tool, c.Input, have, c.Want, c.Why, d.Reason)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	const command = "cd pkg && cargo test -p forge -- --nocapture 2>&1 | tail -n 40 && echo \"done: $?\""
	data := hook(b, "Bash", map[string]any{"command": command})
	b.Run("floor", func(b *testing.B) { // reading the message alone
		for b.Loop() {
			if _, err := gate.ParseHook(data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("ours", func(b *testing.B) {
		rule := gate.Rule{Kind: gate.NoGitOps}
		for b.Loop() {
			call, err := gate.ParseHook(data)
			if err != nil || !rule.Check(call, world()).Allowed {
				b.Fatal("refused")
			}
		}
	})
}
