package pluginhost_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nacre-dev/nacre/internal/pluginhost"
)

// local is a manifest of an MCP server that is started.
const local = `{
  "description": "Local", "version": "1.0.0", "project": "write",
  "mcp": {"command": ["./server", "/project"], "env": {"API_KEY": "TOKEN"}},
  "install": {"credentials": [{"key": "TOKEN"}]},
  "provides": {"tools": [{"name": "add", "description": "Add", "arguments_schema": {"type": "object", "additionalProperties": false}}]}
}`

// advice is how a refusal says what to write.
var advice = regexp.MustCompile(`write |use |keep |leave |known here are|at most|such as|put |list it|save |needs|is missing|not true or false|not within|neither .* nor|the only one is|want `)

// A member is one key of a manifest, with the path that errors name it by.
type member struct {
	path  string
	value any
}

// members are all keys of a manifest outside of schemas, which the kernel reads.
func members(value any, path string) []member {
	var all []member
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			at := strings.TrimPrefix(path+"."+key, ".")
			all = append(all, member{at, v[key]})
			if !strings.HasSuffix(key, "_schema") {
				all = append(all, members(v[key], at)...)
			}
		}
	case []any:
		for i, item := range v {
			all = append(all, members(item, fmt.Sprintf("%s[%d]", path, i))...)
		}
	}
	return all
}

// written is a manifest with another text for one member, key and all.
func written(value any, path, at, instead string) string {
	switch v := value.(type) {
	case map[string]any:
		var parts []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			below := strings.TrimPrefix(path+"."+key, ".")
			text := fmt.Sprintf("%q: %s", key, written(v[key], below, at, instead))
			if below == at {
				text = instead
			}
			if text != "" {
				parts = append(parts, text)
			}
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		var parts []string
		for i, item := range v {
			parts = append(parts, written(item, fmt.Sprintf("%s[%d]", path, i), at, instead))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	text, _ := json.Marshal(value)
	return string(text)
}

// kind is what a JSON value is.
func kind(value any) string {
	switch value.(type) {
	case string:
		return "text"
	case bool:
		return "truth"
	case float64:
		return "number"
	case []any:
		return "list"
	}
	return "object"
}

// wrongs are what a member can be mistaken for, by name; an empty text leaves it out.
func wrongs(m member) map[string]string {
	key := m.path[strings.LastIndex(m.path, ".")+1:]
	good, _ := json.Marshal(m.value)
	wrong := map[string]string{
		"null":             fmt.Sprintf("%q: null", key),
		"twice":            fmt.Sprintf("%q: %s, %[1]q: %[2]s", key, good),
		"in another case":  fmt.Sprintf("%q: %s", swapped(key), good),
		"beside a strange": fmt.Sprintf("%q: %s, \"zzz\": 1", key, good),
		"far too deep":     fmt.Sprintf("%q: %s1%s", key, strings.Repeat(`[`, 90), strings.Repeat(`]`, 90)),
	}
	for name, text := range map[string]string{"text": `"x"`, "truth": "true", "number": "7", "list": "[1]", "object": `{"a": 1}`} {
		if name != kind(m.value) {
			wrong["a "+name] = fmt.Sprintf("%q: %s", key, text)
		}
	}
	switch kind(m.value) {
	case "text":
		wrong["too long"] = fmt.Sprintf("%q: %q", key, strings.Repeat("x", 5000))
	case "list":
		wrong["too many"] = fmt.Sprintf("%q: [%s1]", key, strings.Repeat("1, ", 5000))
		wrong["a list of null"] = fmt.Sprintf("%q: [null]", key)
	case "number":
		wrong["without end"] = fmt.Sprintf("%q: 1e999", key)
		wrong["below zero"] = fmt.Sprintf("%q: -1", key)
	}
	return wrong
}

func swapped(key string) string {
	if strings.ToUpper(key) == key {
		return strings.ToLower(key)
	}
	return strings.ToUpper(key[:1]) + key[1:]
}

// D-20: whatever key is wrong, and however, the refusal names the file, the key
// and what to write.
func TestEachKeyOfAManifestWrongInEachWay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "p")
	file := filepath.Join(dir, "manifest.json")
	for name, good := range map[string]string{"a handler's": everything, "a remote server's": remote, "a local server's": local} {
		var tree any
		if err := json.Unmarshal([]byte(good), &tree); err != nil {
			t.Fatal(err)
		}
		writeFile(t, file, good, 0o644)
		if f := pluginhost.Inspect(dir); f.Err != nil {
			t.Fatal(f.Err)
		}
		for _, m := range members(tree, "") {
			for how, instead := range wrongs(m) {
				writeFile(t, file, written(tree, "", m.path, instead), 0o644)
				err := pluginhost.Inspect(dir).Err
				key := m.path[strings.LastIndex(m.path, ".")+1:]
				if how == "beside a strange" {
					key = "zzz"
				}
				if err == nil || !strings.HasPrefix(err.Error(), file+": ") || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(key)) {
					t.Errorf("%s %s %s: have %v\nwant the file and %s", name, m.path, how, err, key)
					continue
				}
				if rest := strings.TrimPrefix(err.Error(), file); !advice.MatchString(rest) || len(rest) > 2000 {
					t.Errorf("%s %s %s: have %.300s\nwant what to write", name, m.path, how, rest)
				}
			}
		}
	}
}

// D-20, D-23: whatever lies where a manifest should, the refusal says which file
// and what to do, at once, and the other plugins start.
func TestWhatIsNoManifest(t *testing.T) {
	utf16 := func(order func(hi, lo byte) []byte, mark bool) string {
		var b []byte
		if mark {
			b = order(0xfe, 0xff)
		}
		for _, c := range []byte(everything) {
			b = append(b, order(0, c)...)
		}
		return string(b)
	}
	little, big := func(hi, lo byte) []byte { return []byte{lo, hi} }, func(hi, lo byte) []byte { return []byte{hi, lo} }
	text := func(s string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) { writeFile(t, path, s, 0o644) }
	}
	root := t.TempDir()
	wants := map[string]string{}
	for i, c := range []struct {
		put  func(t *testing.T, path string)
		want string
	}{
		{func(*testing.T, string) {}, "is missing: nacre plugin new makes one"},
		{text(""), "the file is empty: nacre plugin new makes a manifest"},
		{text(" \n"), "the file is empty"},
		{text("\xef\xbb\xbf" + everything), "begins with a byte order mark: save it as UTF-8 without one"},
		{text(utf16(little, true)), "not valid UTF-8: save it as UTF-8"},
		{text(utf16(big, true)), "not valid UTF-8: save it as UTF-8"},
		{text(utf16(little, false)), "not valid UTF-8: save it as UTF-8"},
		{text(utf16(big, false)), "not valid UTF-8: save it as UTF-8"},
		{text(strings.Repeat(" ", 10<<20) + everything), "bytes, at most 1048576"},
		{text("[]"), "manifest: not an object: write it between { and }"},
		{text("null"), "manifest: not an object"},
		{text("{\n\n  \"description\": Notes}"), "line 3: not JSON"},
		{text("{\n  \"description\": \"a\",\n}"), "line 3: not JSON"},
		{text(strings.Repeat(`{"a":`, 100_000)), "nested deeper than 64 levels: write it flatter"},
		{text(`{"description": NaN}`), "not JSON"},
		{text(everything + everything), "something follows the JSON value: leave it out"},
		{func(t *testing.T, path string) {
			elsewhere := filepath.Join(t.TempDir(), "manifest.json")
			writeFile(t, elsewhere, everything, 0o644)
			if err := os.Symlink(elsewhere, path); err != nil {
				t.Fatal(err)
			}
		}, "is a link or a special file: put the file itself there"},
		{func(t *testing.T, path string) {
			if err := os.Symlink("nowhere", path); err != nil {
				t.Fatal(err)
			}
		}, "is a link or a special file: put the file itself there"},
		{func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o755); err != nil {
				t.Fatal(err)
			}
		}, "is not a file: put the file itself there"},
		{func(t *testing.T, path string) {
			if err := syscall.Mkfifo(path, 0o644); err != nil {
				t.Fatal(err)
			}
		}, "is a link or a special file: put the file itself there"},
	} {
		dir := filepath.Join(root, fmt.Sprintf("bad%02d", i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		c.put(t, filepath.Join(dir, "manifest.json"))
		wants[filepath.Base(dir)] = c.want
	}
	writePlugin(t, root, "good", `"handler":["self","sdk"]`, "echo")
	found, err := pluginhost.Discover(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		want := wants[string(f.Name)]
		if want != "" && (f.Err == nil || !strings.Contains(f.Err.Error(), want) || !strings.Contains(f.Err.Error(), filepath.Join(root, string(f.Name), "manifest.json"))) {
			t.Errorf("%s: have %.300v\nwant its file and %q", f.Name, f.Err, want)
		}
	}
	o := options(t)
	h, err := pluginhost.Start(t.Context(), found, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close(context.Background()) }()
	if health := h.Health(); len(health.Failed) != len(wants) || len(health.Healthy) != 1 {
		t.Errorf("have %v", health)
	}
}
