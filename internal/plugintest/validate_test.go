package plugintest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/plugintest"
)

// validated is what is found, a line each.
func validated(t testing.TB, dir string, at plugintest.Place) string {
	t.Helper()
	var all strings.Builder
	for _, f := range plugintest.Validate(dir, at) {
		kind := "wrong"
		if f.Warning {
			kind = "warning"
		}
		fmt.Fprintf(&all, "%s %s %s %s %s\n", kind, f.File, f.Key, f.Text, f.Fix)
	}
	return all.String()
}

const schemaOf = `"arguments_schema":{"type":"object","additionalProperties":false,"properties":{"a":{"type":"integer","default":"x"}}}`

// D-22: everything that is wrong is found at once.
func TestValidateFindsAllAtOnce(t *testing.T) {
	t.Parallel()
	dir := folder(t, `{"version":"one","homepage":"x","hosts":["API","api.example.com"],"handler":["python3","handler.py"],"app_compat":">=9",
		"install":{"credentials":[{"key":"a b"},{"key":"token"}]},
		"provides":{"tools":[
			{"name":"add-it","description":"d",`+schemaOf+`},
			{"name":"open","description":"d","returns":"trusted","arguments_schema":{"type":"object"}},
			{"name":"list_tools","description":"","danger":1,`+schemaOf+`}]}}`)
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "skill"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int{"skill/big.md": 300 << 10, "skill/x.txt": 1} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat("x", size)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	have := validated(t, dir, plugintest.Place{Version: "0.1.0"})
	for _, want := range []string{
		"version: \"one\"", `unknown key "homepage"`, "hosts[0]", "handler.py is missing", "install.credentials[0].key", "provides.tools[0].name",
		"description is missing", `unknown key "provides.tools[2].danger"`, "provides.tools[2].description", "tool open: ", "wrong link", "wrong skill/big.md", "warning skill/x.txt",
		"violates its own schema", "excludes this version", "belongs to nacre itself",
	} {
		if !strings.Contains(have, want) {
			t.Errorf("no %q in\n%s", want, have)
		}
	}
}

// D-22: one wrong thing at a time.
func TestValidate(t *testing.T) {
	t.Parallel()
	installed := pluginhost.Inspect(folderCalled(t, "other_one", `{"description":"d","version":"1.0.0","handler":["sh"],"provides":{"tools":[{"name":"taken","description":"d",`+strings.Replace(schemaOf, `"x"`, "1", 1)+`}]}}`))
	at := plugintest.Place{Version: "0.1.0", Installed: []pluginhost.Found{installed}}
	good := `{"description":"d","version":"1.0.0","handler":["sh"],"provides":{"tools":[{"name":"mine","description":"d","safety_class":"READ",` + strings.Replace(schemaOf, `"x"`, "1", 1) + `}]}}`
	for name, c := range map[string]struct{ folder, from, to, want string }{
		"nothing":                 {"notes", `"d"`, `"d"`, ""},
		"a name in capitals":      {"Notes", `"d"`, `"d"`, "rename the folder"},
		"a reserved name":         {"core", `"d"`, `"d"`, "nacre's own"},
		"a name much like one":    {"other-one", `"d"`, `"d"`, "too much like"},
		"a tool that is taken":    {"notes", `"mine"`, `"taken"`, "belongs to plugin other_one"},
		"a program that is none":  {"notes", `["sh"]`, `["no-such-program-here"]`, "not on the PATH"},
		"a script that is none":   {"notes", `["sh"]`, `["sh", "run.sh"]`, "run.sh is missing"},
		"a handler that is none":  {"notes", `"handler":["sh"],`, ``, "handler  missing"},
		"a key twice":             {"notes", `"version"`, `"description":"e","version"`, "comes twice"},
		"half a manifest":         {"notes", `"d","version`, `"d`, "not JSON"},
		"no JSON at all":          {"notes", good, `hello`, "not JSON"},
		"a list":                  {"notes", good, `[]`, "not an object"},
		"tools that are no list":  {"notes", `{"tools":[`, `{"hooks":3,"tools":[`, "provides.hooks"},
		"arguments nobody guards": {"notes", `"name":"mine"`, `"name":"mine","sinks":["a.b"]`, "no argument \"a.b\""},
		"a change without sinks":  {"notes", `"READ"`, `"WRITE"`, "has no sinks"},
		"a change of a text that is nothing": {"notes", `"READ","arguments_schema":{"type":"object","additionalProperties":false,"properties":{`,
			`"WRITE","sinks":["a"],"arguments_schema":{"type":"object","additionalProperties":false,"properties":{"when":{"type":"string","format":"date"},"how":{"enum":["x"]},"to":{"type":"array","items":{"type":"object","additionalProperties":false,"properties":{"name":{"type":"string"}}}},`,
			"nothing says what these arguments are: to.name"},
		"a kind that is none":    {"notes", `"name":"mine"`, `"name":"mine","sinks":{"a":"mail"}`, "use email"},
		"a kind that fits":       {"notes", `"name":"mine"`, `"name":"mine","sinks":{"a":"amount"}`, ""},
		"a kind of no number":    {"notes", `"name":"mine"`, `"name":"mine","sinks":{"a":"email"}`, "\"a\" is of type integer, and no value of that is of kind email"},
		"text that is none":      {"notes", `"name":"mine"`, `"name":"mine","text":["b"]`, "not a property"},
		"nothing provided":       {"notes", good, `{"description":"d","version":"1.0.0","handler":["sh"]}`, "gives nobody anything"},
		"a pattern that is hard": {"notes", `{"type":"integer","default":1}`, `{"type":"string","pattern":"^q{7}-[xyz]{9}$"}},"required":["a"]`, "examples"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(good, c.from, c.to, 1)
			if name == "a pattern that is hard" {
				text = strings.Replace(text, `"required":["a"]}}`, `"required":["a"]}`, 1)
			}
			have := validated(t, folderCalled(t, c.folder, text), at)
			if c.want == "" && have != "" || !strings.Contains(have, c.want) {
				t.Errorf("have %q, want %q", have, c.want)
			}
		})
	}
	if have := validated(t, filepath.Join(t.TempDir(), "none"), at); !strings.Contains(have, "not a folder") {
		t.Errorf("no folder: have %q", have)
	}
}

func folderCalled(t testing.TB, name, manifest string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest.json"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// FuzzValidate: whatever a manifest is, validating it ends, and finds nothing
// only where the host takes it.
func FuzzValidate(f *testing.F) {
	for _, seed := range []string{
		manifestOf("none"), `{"version":"one","provides":{"tools":[{"name":"A"},{"name":"A"}]}}`, `{"provides":{"tools":[[[]]]}}`, `{"install":{"credentials":[3]}}`,
		`{"hosts":[[]],"handler":[[]],"mcp":{"url":"x"}}`, `{"a":{"a":{"a":1}},"A":2}`, `[]`, `null`, ``,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, manifest string) {
		dir := folderCalled(t, "notes", manifest)
		wrong := false
		for _, finding := range plugintest.Validate(dir, plugintest.Place{Version: "0.1.0"}) {
			wrong = wrong || !finding.Warning
		}
		if found := pluginhost.Inspect(dir); !wrong && found.Err != nil {
			t.Errorf("nothing is wrong, but %v", found.Err)
		}
	})
}
