package gate_test

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/corpus"
	"github.com/nacre-dev/nacre/internal/gate"
)

// rules is one rule of every kind.
func rules() []gate.Rule {
	var list []gate.Rule
	for k := gate.NoGitOps; k <= gate.Patterns; k++ {
		list = append(list, gate.Rule{
			Kind: k, Commands: commands, Whitelist: []string{"src/**"}, Denylist: []string{"secrets/**"},
			Forbidden: []string{`^svn( |$)`}, Denied: []string{"WebFetch"},
		})
	}
	return list
}

// pieces are what people's commands are made of.
var pieces = strings.Fields(`ls -la src/a.rs cargo test --workspace && || ; | & ! { } ( ) (( )) [[ ]] [ ] if then else fi for x in do done while until case esac
	function f() time echo $x "$x" ${x:-y} ${x#y} $(pwd) $(git ` + "`git`" + ` <(ls) >(sh) > >> 2>&1 &> < <<EOF EOF <<<x 'single "' "double '" \ \; $'\x67' env sudo -u bob xargs -n1 -I{} {} find . -exec + \; sh -c 'git push' eval
	git commit -m npm run -- python3 -c 'print(1)' rm -rf /tmp/x tee out sed -i s/a/b/ awk '{print $1}' 2>/dev/null A=1 export declare local a=(1 2) ${a[@]} $((1+2)) * ?.go {a,b} ~/x => == # comment -o -f timeout 5 nice bash - . source cd /w/repo gh repo api`)

// S-05: tens of thousands of commands as people and attackers put them together:
// none may panic, and each is decided.
func TestManyCommands(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	list := rules()
	for range 20_000 {
		words := make([]string, 1+random.IntN(12))
		for i := range words {
			words[i] = pieces[random.IntN(len(pieces))]
		}
		separator := " "
		if random.IntN(8) == 0 {
			separator = "\n"
		}
		command := strings.Join(words, separator)
		call, err := gate.ParseHook(hook(t, "Bash", map[string]any{"command": command}))
		if err != nil {
			t.Fatalf("%q: %v", command, err)
		}
		if d := list[random.IntN(len(list))].Check(call, world()); !d.Allowed && d.Reason == "" {
			t.Errorf("%q is refused without a reason", command)
		}
	}
}

// A literal call of git is refused however it is wrapped, and the same words
// after echo are not.
func TestWrappedInWrappers(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	wrap := []func(string) string{
		func(s string) string { return "env A=1 sh -c " + quoted(s) },
		func(s string) string { return "bash -lc " + quoted(s) },
		func(s string) string { return "eval " + quoted(s) },
		func(s string) string { return "( " + s + "\n)" },
		func(s string) string { return "{ " + s + "\n}" },
		func(s string) string { return "if true; then " + s + "\nfi" },
		func(s string) string { return "f() {\n" + s + "\n}\nf" },
		func(s string) string { return "echo x && " + s },
		func(s string) string { return "echo \"$( : ;" + s + "\n)\"" },
		func(s string) string { return "bash <<'END'\n" + s + "\nEND" },
		func(s string) string { return "nohup sudo -u bob timeout 5 sh -c " + quoted(s) },
		func(s string) string { return "find . -exec sh -c " + quoted(s) + " \\;" },
		func(s string) string { return "ls | xargs -n1 sh -c " + quoted(s) },
		func(s string) string { return "for i in 1 2; do " + s + "\ndone" },
		func(s string) string { return "cat <(" + s + "\n)" },
	}
	rule := gate.Rule{Kind: gate.NoGitOps}
	for range 2000 {
		bad, good := "git push", "echo git push"
		for range 1 + random.IntN(3) {
			next := wrap[random.IntN(len(wrap))]
			if strings.Contains(bad, "END") && strings.Contains(next(""), "END") {
				continue // one delimiter does not nest
			}
			bad, good = next(bad), next(good)
		}
		if bash(t, rule, bad).Allowed {
			t.Errorf("allowed: %q", bad)
		}
		if d := bash(t, rule, good); !d.Allowed {
			t.Errorf("refused: %q: %s", good, d.Reason)
		}
	}
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// Deep nesting is refused in bounded time and memory, before the parser sees it.
func TestDeepNestingIsRefused(t *testing.T) {
	for _, unit := range []string{"(", "$(", "\"$(", "${a-", "$((", "{ ", "<(", "`", "a[", "((a["} {
		command := strings.Repeat(unit, gate.MaxCommand/len(unit))
		if bash(t, gate.Rule{Kind: gate.NoGitOps}, command).Allowed {
			t.Errorf("%q… is allowed", unit)
		}
	}
	for _, unit := range []string{"a|", "if ", "! ", "a && ", "time ", "sudo ", "xargs ", "strace -f ", "sh -c ", "bwrap ", "strace a -o b ", "case x in x) ", "f() "} {
		bash(t, gate.Rule{Kind: gate.NoGitOps}, strings.Repeat(unit, gate.MaxCommand/len(unit)-8)+" ls")
	}
}

func FuzzShell(f *testing.F) {
	for _, c := range lines[shellCase](f, "testdata/shell.jsonl") {
		f.Add(c.Command)
	}
	data, err := os.ReadFile("testdata/class.txt")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if fields := strings.SplitN(strings.TrimSpace(line), " ", 3); len(fields) == 3 {
			f.Add(fields[2])
		}
	}
	f.Fuzz(func(t *testing.T, command string) {
		call, err := gate.ParseHook(hook(t, "Bash", map[string]any{"command": command}))
		if err != nil {
			return
		}
		for _, rule := range rules() {
			if d := rule.Check(call, world()); !d.Allowed && d.Reason == "" {
				t.Errorf("%s refuses %q without a reason", rule.Kind, command)
			}
		}
	})
}

func FuzzHook(f *testing.F) {
	corpus.Add(f, hook(f, "Edit", map[string]any{"file_path": "a"}))
	corpus.Add(f, hook(f, "apply_patch", map[string]any{"input": "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"}))
	corpus.Add(f, []byte(`{"tool_name":"shell","tool_input":{"command":["bash","-lc","ls"]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		call, err := gate.ParseHook(data)
		if err != nil {
			if (gate.Rule{Kind: gate.NoGitOps}).Check(gate.Call{}, world()).Allowed {
				t.Error("a call that was not read is allowed")
			}
			return
		}
		for _, rule := range rules() {
			rule.Check(call, world())
		}
	})
}

// BenchmarkCorpus prints the median over the commands of the corpus.
func BenchmarkCorpus(b *testing.B) {
	cases := lines[shellCase](b, "testdata/shell.jsonl")
	var calls []gate.Call
	for _, c := range cases {
		call, err := gate.ParseHook(hook(b, "Bash", map[string]any{"command": c.Command}))
		if err != nil {
			b.Fatal(err)
		}
		calls = append(calls, call)
	}
	rule, w := gate.Rule{Kind: gate.NoGitOps}, world()
	var took []time.Duration
	for b.Loop() {
		for _, call := range calls {
			start := time.Now()
			rule.Check(call, w)
			took = append(took, time.Since(start))
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "median-ns")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
}
