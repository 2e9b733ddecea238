package atom_test

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/corpus"
)

// seedTask is the seed's sample, with an id that can be one and without the
// null that TOML does not have.
const seedTask = `[task]
role = "edit-local"
agent-id = "abc123"              # allocated by kei-ledger fork

[scope]
# Parameterizes scope::files-whitelist + scope::files-denylist
files-whitelist = [
  "_primitives/_rust/kei-forge/**",
]
files-denylist = [
  "_primitives/_rust/Cargo.toml",
  "_primitives/_rust/Cargo.lock",
  "scripts/**",
  ".github/**",
]

[verification]
# Parameterizes quality/* caps
cargo-check-crates = ["kei-forge"]
cargo-test-crates = ["kei-forge"]
test-count-min = 44

[output]
# Parameterizes output/report-format
report-fields-required = ["files-touched", "cargo-check", "cargo-test", "loc-delta"]

[body]
# Free-text task instructions, concatenated AFTER role capability fragments
text = """
Replace shell-out with pure-Rust templating. …
"""
`

// S-09: agent ids.
func TestAgentIDs(t *testing.T) {
	data, err := os.ReadFile("testdata/agent-ids.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases struct {
		Good []string
		Bad  map[string]string
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, id := range cases.Good {
		if err := atom.CheckAgentID(id); err != nil {
			t.Errorf("%q is refused: %v", id, err)
		}
	}
	for id, want := range cases.Bad {
		if err := atom.CheckAgentID(id); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: have %v, want %q", id, err, want)
		}
	}
}

// S-09: the seed's sample loads, and its canonical form is the same task.
func TestSeedTaskLoads(t *testing.T) {
	task, err := atom.ParseTask([]byte(seedTask))
	if err != nil {
		t.Fatal(err)
	}
	if task.Role != "edit-local" || task.AgentID != "abc123" || task.Parent != "" || len(task.Denylist) != 4 || task.TestCount != 44 ||
		len(task.ReportFields) != 4 || task.Body != "Replace shell-out with pure-Rust templating. …\n" {
		t.Errorf("%+v", task)
	}
	sameAgain(t, task)
}

func sameAgain(t *testing.T, task atom.Task) {
	t.Helper()
	again, err := atom.ParseTask(task.Canonical())
	if err != nil {
		t.Fatalf("%v\n%s", err, task.Canonical())
	}
	if !reflect.DeepEqual(again, task) || again.SpecSHA() != task.SpecSHA() {
		t.Errorf("have %+v, want %+v", again, task)
	}
}

// S-09: the digest is of what is asked for, not of how the file is laid out.
func TestSpecSHA(t *testing.T) {
	const plain = "[task]\nrole = \"r\"\n[scope]\nfiles-whitelist = [\"a\"]\n[body]\ntext = \"x\"\n"
	first, err := atom.ParseTask([]byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		source string
		same   bool
	}{
		"comments and order": {"# x\n[body]\ntext = 'x'\n[scope]\nfiles-whitelist = [\n 'a', # b\n]\n[task]\nrole = \"\"\"r\"\"\"\n", true},
		"what means none":    {plain + "[output]\nreport-fields-required = []\n", true},
		"an empty denylist":  {strings.Replace(plain, "[body]", "files-denylist = []\n[body]", 1), true},
		"another text":       {strings.Replace(plain, `"x"`, `"x\n"`, 1), false},
		"an id":              {strings.Replace(plain, "[scope]", "agent-id = \"a\"\n[scope]", 1), false},
		"two files for one":  {strings.Replace(plain, `["a"]`, `["a", "b"]`, 1), false},
		"one with a comma":   {strings.Replace(plain, `["a"]`, `["a\", \"b"]`, 1), false},
	} {
		task, err := atom.ParseTask([]byte(c.source))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if same := task.SpecSHA() == first.SpecSHA(); same != c.same {
			t.Errorf("%s: have the same digest: %v, want %v", name, same, c.same)
		}
		sameAgain(t, task)
	}
}

// S-09: what is no task is an error that says what to do.
func TestBadTasks(t *testing.T) {
	const good = "[task]\nrole = \"r\"\nagent-id = \"a\"\n[body]\ntext = \"x\"\n"
	swap := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	for name, c := range map[string]struct{ source, want string }{
		"null":                      {swap("agent-id = \"a\"", "parent-agent = null"), "line 3: TOML has no null"},
		"null in a list":            {good + "[scope]\nfiles-whitelist = [\n \"a\",\n null,\n]\n", "line 9: TOML has no null"},
		"null before a comment":     {swap("agent-id = \"a\"", "parent-agent = null # none"), "absent means none"},
		"an unknown key":            {swap("agent-id", "agent_id"), `line 3: unknown key "task.agent_id"; did you mean "task.agent-id"`},
		"an unknown key like none":  {"x = 1\n" + good, `line 1: unknown key "x"; known here are body, output, scope, task, verification`},                                                          // F-131
		"one in a table, misspelt":  {good + "[scope]\nfiles-denylst = []\n", `did you mean "scope.files-denylist"? Known here are scope.files-denylist, scope.files-whitelist, scope.max-deletes`}, // U-32
		"one in a table":            {good + "[scope]\nzzzzzzzz = 1\n", `line 7: unknown key "scope.zzzzzzzz"; known here are scope.files-denylist, scope.files-whitelist, scope.max-deletes`},
		"an unknown table":          {good + "[scopes]\n", `line 6: unknown key "scopes"; did you mean "scope"`},
		"a dotted unknown key":      {good + "[scope]\na.b = 1\n", "line 7: unknown key"},
		"an inline unknown key":     {good + "scope = { whitelist = [] }\n", "unknown key"},
		"a key below a long text":   {swap("\"x\"", "\"\"\"\n[scope]\nextra = 1\n\"\"\"\nextra = 1"), "line 9: unknown key"},
		"a number for a text":       {swap("\"r\"", "3"), "line 2: task.role is a number, and has to be a text"}, // U-32
		"no role":                   {swap("role = \"r\"", ""), "task.role is missing"},
		"a role that is a path":     {swap("\"r\"", "\"../r\""), "task.role"},
		"no body":                   {swap("text = \"x\"", ""), "body.text is missing"},
		"a blank body":              {swap("\"x\"", "\" \\n\""), "body.text is missing"},
		"a body with an escape":     {swap("\"x\"", "\"\\u001b[2J\""), "cannot be seen"},
		"a body with a hidden word": {swap("\"x\"", "\"x\\U000E0041\""), "cannot be seen"},
		"a body turned around":      {swap("\"x\"", "\"x\\u202Ey\""), "cannot be seen"},
		"a body too long":           {swap("\"x\"", `"`+strings.Repeat("x", atom.MaxBody+1)+`"`), "bytes"},
		"ten thousand lines":        {swap("\"x\"", `"""`+strings.Repeat("x\n", 10_000)+`"""`), "lines"},
		"an id with a slash":        {swap("\"a\"", "\"a/b\""), "task.agent-id"},
		"an empty id":               {swap("\"a\"", "\"\""), "it is empty"},
		"an empty parent":           {swap("agent-id = \"a\"", "parent-agent = \"\""), "leave it out"},
		"a parent that is a path":   {swap("agent-id = \"a\"", "parent-agent = \"../a\""), "task.parent-agent"},
		"its own parent":            {swap("agent-id = \"a\"", "agent-id = \"a\"\nparent-agent = \"A\""), "the agent itself"},
		"a list with a blank":       {good + "[scope]\nfiles-whitelist = [\" \"]\n", "empty"},
		"a list with a line break":  {good + "[scope]\nfiles-whitelist = [\"a\\nb\"]\n", "cannot be seen"},
		"a list too long":           {good + "[scope]\nfiles-whitelist = [" + strings.Repeat("\"a\",", 1025) + "]\n", "1024"},
		"an entry too long":         {good + "[scope]\nfiles-whitelist = [\"" + strings.Repeat("a", 1025) + "\"]\n", "1024"},
		"a language that is none":   {good + "[verification]\nlanguage = \"Go 1\"\n", "verification.language"},
		"a number below zero":       {good + "[verification]\ntest-count-min = -1\n", "below zero"},
		"a text for a list":         {good + "[scope]\nfiles-whitelist = \"a\"\n", "line"},
		"a key twice":               {good + "[task]\n", "task"},
		"half a file":               {good[:30], ""},
		"not text":                  {"\xff\xfe", ""},
	} {
		if _, err := atom.ParseTask([]byte(c.source)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: have %v, want %q", name, err, c.want)
		}
	}
}

// A task without a scope may write nothing, and is not one whose list was lost.
func TestAbsentMeansNone(t *testing.T) {
	task, err := atom.ParseTask([]byte("[task]\nrole = \"r\"\n[body]\ntext = \"x\"\n"))
	if err != nil || !task.Has("files-whitelist") || !task.Has("files-denylist") || len(task.Whitelist)+len(task.Denylist) != 0 {
		t.Errorf("%+v, %v", task, err)
	}
}

// A file of bounded size is read, or refused, in bounded time and memory.
func TestDeepFilesAreRefused(t *testing.T) {
	const good = "[task]\nrole = \"r\"\n[body]\ntext = \"x\"\n"
	for name, source := range map[string]string{
		"a dotted key":         strings.Repeat("a.", 100_000) + "b = 1\n",
		"a dotted table":       "[" + strings.Repeat("a.", 100_000) + "b]\n",
		"quoted parts":         strings.Repeat("\"a\".", 50_000) + "b = 1\n",
		"parts with space":     strings.Repeat("a . ", 50_000) + "b = 1\n",
		"arrays in arrays":     "x = " + strings.Repeat("[", 200_000),
		"tables in tables":     "x = " + strings.Repeat("{a=", 50_000),
		"a key in a table":     "x = {" + strings.Repeat("a.", 100_000) + "b = 1}\n",
		"a key behind a text":  "x = \"\"\"a\\\"\"\"\"\"\"\n" + strings.Repeat("a.", 100_000) + "b = 1\n",
		"a key behind letters": "x = '''a'''''\n" + strings.Repeat("a.", 100_000) + "b = 1\n",
		"a key behind a short": "x = 'a\\'\n" + strings.Repeat("a.", 100_000) + "b = 1\n",
	} {
		if err := atom.CheckShape([]byte(source)); err == nil || !strings.Contains(err.Error(), "nested") {
			t.Errorf("%s: have %v", name, err)
		}
		if _, err := atom.ParseTask([]byte(source)); err == nil {
			t.Errorf("%s is a task", name)
		}
	}
	for name, text := range map[string]string{
		"a text with dots": strings.Repeat("a.", 20_000), "a text with brackets": strings.Repeat("[{", 20_000), "a text with lines": strings.Repeat("[a.\n", 3000),
	} {
		if _, err := atom.ParseTask([]byte(strings.Replace(good, `"x"`, `"""`+text+`"""`, 1))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzTask(f *testing.F) {
	corpus.Add(f, []byte(seedTask))
	for _, text := range []string{`\u0000`, `\"\\`, `\U0001F600`, `a\r\n\tb`} {
		corpus.Add(f, fmt.Appendf(nil, "[task]\nrole = \"r\"\n[scope]\nfiles-whitelist = [\"%s\"]\n[body]\ntext = \"%s\"\n", text, text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if task, err := atom.ParseTask(data); err == nil {
			sameAgain(t, task)
		}
	})
}
