package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/plugin"
	files "github.com/nacre-dev/nacre/plugins/files"
)

// project is a folder that the plugin serves, beside one that it must not reach.
type project struct {
	t       testing.TB
	dir     string
	outside string
	tools   map[nacre.ToolName]plugin.ToolFunc
}

func newProject(t testing.TB, texts map[string]string) project {
	t.Helper()
	top := t.TempDir()
	p := project{t, filepath.Join(top, "project"), filepath.Join(top, "outside"), nil}
	p.tools = files.Handler(p.dir).Tools
	for _, dir := range []string{p.dir, p.outside} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(p.outside, "secret"), []byte("SECRET"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, text := range texts {
		p.plant(name, text)
	}
	return p
}

func (p project) plant(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		p.t.Fatal(err)
	}
}

// call returns the answer as JSON, or the code of the refusal.
func (p project) call(tool, args string) string {
	p.t.Helper()
	result, err := p.tools[nacre.ToolName(tool)](p.t.Context(), &plugin.Request{Arguments: json.RawMessage(args)})
	var refused *plugin.ToolError
	if errors.As(err, &refused) {
		if strings.Contains(refused.Message, p.dir) || strings.Contains(refused.Message, "openat") {
			p.t.Errorf("%s %s: the refusal tells of the machine: %s", tool, args, refused.Message)
		}
		return refused.Code
	}
	if err != nil {
		return "error: " + err.Error()
	}
	text, err := json.Marshal(result)
	if err != nil || len(text) > plugin.MaxResult {
		p.t.Fatalf("%s: answer of %d bytes, %v", tool, len(text), err)
	}
	return string(text)
}

func (p project) want(tool, args, want string) {
	p.t.Helper()
	have := p.call(tool, args)
	if !strings.Contains(have, want) {
		p.t.Errorf("%s %.200s\nhave %.500s\nwant %s", tool, args, have, want)
	}
}

func (p project) text(name string) string {
	p.t.Helper()
	data, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(data)
}

func TestManifestParses(t *testing.T) {
	data, err := os.ReadFile("manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	m, err := plugin.ParseManifest(data)
	if err != nil {
		t.Fatal(err)
	}
	tools := files.Handler(".").Tools
	for _, spec := range m.Provides.Tools {
		if tools[spec.Name] == nil {
			t.Errorf("no %s in the handler", spec.Name)
		}
		if dangerous := spec.Name == "files_delete"; spec.HighRisk != dangerous || (spec.Safety == nacre.Destructive) != dangerous {
			t.Errorf("%s: high risk %v, %v", spec.Name, spec.HighRisk, spec.Safety)
		}
		if spec.Safety == nacre.Read && spec.Returns != nacre.Untrusted {
			t.Errorf("%s returns what a repository says, as %v", spec.Name, spec.Returns)
		}
	}
}

func TestListIsPagedInOrder(t *testing.T) {
	p := newProject(t, map[string]string{"b/x": "1", "b/y/z": "2", "a": "3", "b.txt": "", "node_modules/m/i.js": ""})
	if err := os.Symlink("../outside", filepath.Join(p.dir, "link")); err != nil {
		t.Fatal(err)
	}
	var all []string
	for after, pages := "", 0; ; pages++ {
		var page struct {
			Entries []struct{ Path, Kind, Target string }
			Next    string
		}
		args := fmt.Sprintf(`{"path":".","depth":5,"limit":2,"after":%q}`, after)
		if err := json.Unmarshal([]byte(p.call("files_list", args)), &page); err != nil || pages > 9 {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			all = append(all, e.Path+":"+e.Kind+e.Target)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	want := "a:file b:folder b/x:file b/y:folder b/y/z:file b.txt:file link:link../outside node_modules:folder"
	if have := strings.Join(all, " "); have != want {
		t.Errorf("\nhave %s\nwant %s", have, want)
	}
	p.want("files_list", `{"path":"."}`, `"path":"b"`)
	p.want("files_list", `{"path":".","depth":9}`, `"not_listed":true`)
	p.want("files_list", `{"path":"node_modules"}`, `"node_modules/m"`)
	p.want("files_list", `{"path":"a"}`, `NOT_A_FOLDER`)
}

func TestAHugeFolderIsBounded(t *testing.T) {
	p := newProject(t, nil)
	for i := range 20_100 {
		f, err := os.Create(fmt.Sprintf("%s/%06d", p.dir, i))
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	p.want("files_list", `{"path":"."}`, `"next":"`)
	p.want("files_search", `{"pattern":"x","path":"."}`, `more files than are looked at`)
}

func TestRead(t *testing.T) {
	p := newProject(t, map[string]string{
		"text": "one\r\ntwo\nthree", "binary": "a\x00b", "latin": "caf\xe9", "empty": "",
		"long": strings.Repeat("é", 100_000), "lines": strings.Repeat("x\n", 100_000), "late": strings.Repeat("a", 20_000) + "\xff",
	})
	for _, c := range []struct{ args, want string }{
		{`{"path":"text"}`, `"content":"one\r\ntwo\nthree"`},
		{`{"path":"./text"}`, `"path":"text"`},
		{`{"path":"text","line":2,"lines":1}`, `"content":"two\n","line":2,"offset":5,"next_line":3,"next_offset":9`},
		{`{"path":"text","line":3}`, `"content":"three","line":3,"offset":9}`},
		{`{"path":"text","line":9}`, `RANGE`},
		{`{"path":"text","line":1,"bytes":3}`, `RANGE`},
		{`{"path":"text","offset":1,"bytes":2}`, `"content":"ne","offset":1,"next_offset":3`},
		{`{"path":"text","offset":999}`, `"offset":999}`},
		{`{"path":"binary"}`, `"binary":true,"offset":0,"hint"`},
		{`{"path":"binary","as":"base64"}`, `"content_base64":"YQBi"`},
		{`{"path":"latin"}`, `"binary":true`},
		{`{"path":"late"}`, `not UTF-8 from here`},
		{`{"path":"late","line":1}`, `not UTF-8 from here`},
		{`{"path":"empty"}`, `"bytes":0,"sha256":"e3b0c442`},
		{`{"path":"empty","line":1}`, `"offset":0}`},
		{`{"path":"long"}`, `"next_offset":73728`},
		{`{"path":"long","offset":0,"bytes":3}`, `"content":"é","offset":0,"next_offset":2`},
		{`{"path":"long","line":1}`, `LONG_LINE`},
		{`{"path":"lines","line":1}`, `"next_line":36865,"next_offset":73728`},
		{`{"path":"lines","line":99999}`, `"content":"x\nx\n","line":99999`},
		{`{"path":"none"}`, `NOT_FOUND`},
		{`{"path":"text/x"}`, `NOT_A_FOLDER`},
		{`{"path":"."}`, `FOLDER`},
	} {
		p.want("files_read", c.args, c.want)
	}
}

func TestSearch(t *testing.T) {
	p := newProject(t, map[string]string{
		"a.go": "package a\nfunc F() {}\r\n", "b.txt": "func (x)", "bin": "func\x00", "node_modules/x.go": "func", "sub/c.go": "FUNC",
		"wide": strings.Repeat("y", 5000) + "needle" + strings.Repeat("z", 5000), "deep": strings.Repeat("a", 1<<20),
	})
	for _, c := range []struct{ args, want string }{
		{`{"pattern":"^func [A-Z]\\w*\\(\\) \\{\\}$","path":"."}`, `[{"path":"a.go","line":2,"column":1,"text":"func F() {}"}]`},
		{`{"pattern":"func (","literal":true,"path":"."}`, `[{"path":"b.txt","line":1,`},
		{`{"pattern":"func","name":"*.go","path":"."}`, `"files_searched":2`},
		{`{"pattern":"func","ignore_case":true,"path":"sub"}`, `"text":"FUNC"`},
		{`{"pattern":"func","path":"node_modules"}`, `"path":"node_modules/x.go"`},
		{`{"pattern":"func","path":"a.go"}`, `"files_searched":1`},
		{`{"pattern":"func","path":".","limit":1}`, `there are more matches`},
		{`{"pattern":"needle","path":"wide"}`, `"column":5001`},
		{`{"pattern":"(","path":"."}`, `PATTERN`},
		{`{"pattern":"(?=x)","path":"."}`, `PATTERN`},
		{`{"pattern":"((a{0,30}){0,30}){0,30}","path":"."}`, `PATTERN`},
		{`{"pattern":"(a*)*b","path":"deep"}`, `"matches":[]`},
		{`{"pattern":"x","name":"[","path":"."}`, `NAME`},
	} {
		p.want("files_search", c.args, c.want)
	}
}

func TestASearchEndsWithItsCall(t *testing.T) {
	p := newProject(t, map[string]string{"a": "x"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := p.tools["files_search"](ctx, &plugin.Request{Arguments: json.RawMessage(`{"pattern":"x","path":"."}`)})
	var refused *plugin.ToolError
	if !errors.As(err, &refused) || refused.Code != "TIMEOUT" {
		t.Errorf("have %v", err)
	}
}

func shaOf(t *testing.T, p project, name string) string {
	t.Helper()
	var c struct{ SHA256 string }
	if err := json.Unmarshal([]byte(p.call("files_read", `{"path":"`+name+`"}`)), &c); err != nil {
		t.Fatal(err)
	}
	return c.SHA256
}

func TestWrite(t *testing.T) {
	p := newProject(t, map[string]string{"run.sh": "#!/bin/sh\n"})
	if err := os.Chmod(filepath.Join(p.dir, "run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.want("files_write", `{"path":"new/dir/a.txt","content":"one"}`, `"status":"created","bytes":3`)
	p.want("files_write", `{"path":"new/dir/a.txt","content":"two"}`, `EXISTS`)
	sum := shaOf(t, p, "new/dir/a.txt")
	p.want("files_write", `{"path":"new/dir/a.txt","content":"two","expected_sha256":"`+sum+`"}`, `"status":"replaced"`)
	p.want("files_write", `{"path":"new/dir/a.txt","content":"three","expected_sha256":"`+sum+`"}`, `CONFLICT`)
	p.want("files_write", `{"path":"none","content":"x","expected_sha256":"`+sum+`"}`, `NOT_FOUND`)
	p.want("files_write", `{"path":"gone/none","content":"x","expected_sha256":"`+sum+`"}`, `NOT_FOUND`)
	if have := p.text("new/dir/a.txt"); have != "two" {
		t.Errorf("have %q", have)
	}
	p.want("files_write", `{"path":"b","content":"AP8=","encoding":"base64"}`, `"bytes":2`)
	p.want("files_write", `{"path":"c","content":"AP8","encoding":"base64"}`, `CONTENT`)
	p.want("files_write", `{"path":"run.sh","content":"#!/bin/sh\r\n","expected_sha256":"`+shaOf(t, p, "run.sh")+`"}`, `replaced`)
	if info, err := os.Stat(filepath.Join(p.dir, "run.sh")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the mode is not as it was: %v %v", info.Mode(), err)
	}
	p.want("files_write", `{"path":"big","content":"`+strings.Repeat("x", 100<<10+1)+`"}`, `TOO_LARGE`)
	p.noRemains()
}

// noRemains looks for temporary files.
func (p project) noRemains() {
	p.t.Helper()
	found, err := filepath.Glob(p.dir + "/.write-*")
	if err != nil || len(found) > 0 {
		p.t.Errorf("left behind: %v %v", found, err)
	}
}

func TestEdit(t *testing.T) {
	p := newProject(t, map[string]string{"unix": "a\nb\nc\n", "dos": "a\r\nb\r\nc\r\n", "mixed": "a\r\nb\nc\n", "aaa": "aaa", "bin": "\x00a", "bom": "\ufeffa\r\n"})
	for _, c := range []struct{ name, before, after, want, text string }{
		{"unix", `b\nc`, `B`, `edited`, "a\nB\n"},
		{"dos", `b\nc`, `B\nC\r\nD`, `edited`, "a\r\nB\r\nC\r\nD\r\n"},
		{"mixed", `a\nb`, `x`, `NOT_THERE`, "a\r\nb\nc\n"},
		{"mixed", `a\r\nb`, `x`, `edited`, "x\nc\n"},
		{"aaa", `aa`, `b`, `NOT_UNIQUE`, "aaa"},
		{"aaa", `aaa`, ``, `edited`, ""},
		{"bin", `a`, `b`, `BINARY`, "\x00a"},
		{"bom", `a`, `b\nc`, `edited`, "\ufeffb\r\nc\r\n"},
		{"unix", `B`, `B`, `OLD`, "a\nB\n"},
	} {
		p.want("files_edit", `{"path":"`+c.name+`","old":"`+c.before+`","new":"`+c.after+`"}`, c.want)
		if have := p.text(c.name); have != c.text {
			t.Errorf("%s: have %q, want %q", c.name, have, c.text)
		}
	}
	p.want("files_edit", `{"path":"unix","old":"a","new":"b","expected_sha256":"`+strings.Repeat("0", 64)+`"}`, `CONFLICT`)
}

func TestMoveAndDelete(t *testing.T) {
	p := newProject(t, map[string]string{"a": "1", "b": "2", "d/x": "3"})
	p.want("files_move", `{"from":"a","to":"b"}`, `EXISTS`)
	p.want("files_move", `{"from":"a","to":"new/a"}`, `moved`)
	p.want("files_move", `{"from":"d","to":"d/e"}`, `PATH`)
	p.want("files_move", `{"from":"d","to":"e"}`, `moved`)
	p.want("files_move", `{"from":"none","to":"f"}`, `NOT_FOUND`)
	p.want("files_delete", `{"path":"e"}`, `NOT_EMPTY`)
	p.want("files_delete", `{"path":"e/x","expected_sha256":"`+strings.Repeat("0", 64)+`"}`, `CONFLICT`)
	p.want("files_delete", `{"path":"e/x"}`, `deleted`)
	p.want("files_delete", `{"path":"e"}`, `deleted`)
	p.want("files_delete", `{"path":"none"}`, `NOT_FOUND`)
	if p.text("b") != "2" || p.text("new/a") != "1" {
		t.Error("a move replaced or lost something")
	}
}

// M-13: nothing that a tool of the host would obey later can be made, in any spelling.
func TestProtectedPlaces(t *testing.T) {
	p := newProject(t, map[string]string{".git/config": "[core]\n", "a": "1", ".vscode/tasks.json": "{}"})
	for _, name := range []string{
		".git/hooks/post-commit", ".GIT/config", "sub/.git/config", ".git", "git~1/config", ".gitattributes", ".vscode/x", ".Idea/x", ".envrc",
		".claude/settings.json", ".mcp.json", ".npmrc", "x/HEAD", ".husky/pre-commit", "x.code-workspace", ".git::$INDEX_ALLOCATION/config",
		".git./config", ".git /config", ".g\u200cit/config", "-rf", "a\nb", "sub/\u202egit",
	} {
		path, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ tool, args string }{
			{"files_write", `{"path":` + string(path) + `,"content":"x"}`},
			{"files_move", `{"from":"a","to":` + string(path) + `}`},
			{"files_edit", `{"path":` + string(path) + `,"old":"a","new":"x"}`},
			{"files_delete", `{"path":` + string(path) + `}`},
		} {
			if have := p.call(c.tool, c.args); have != "PROTECTED" && have != "PATH" {
				t.Errorf("%s %q: have %s", c.tool, name, have)
			}
		}
	}
	p.want("files_read", `{"path":".git/config"}`, `[core]`)
	p.want("files_move", `{"from":".vscode","to":"x"}`, `PROTECTED`)
	p.want("files_write", `{"path":".gitignore","content":"bin/\n"}`, `created`)
}

func TestPathsThatLeaveTheProject(t *testing.T) {
	p := newProject(t, map[string]string{"a": "1", "d/x": "2"})
	for link, target := range map[string]string{"out": "../outside", "abs": p.outside, "file": "../outside/secret", "in": "d", "loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(p.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{
		"../outside/secret", "d/../../outside/secret", "/etc/passwd", "out/secret", "abs/secret", "file", "in/x", "loop", "d/..", "", "a\x00b",
		strings.Repeat("d/", 70) + "x", strings.Repeat("x", 300), "out/../a",
	} {
		path, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		for tool, args := range map[string]string{
			"files_read": `{"path":%s}`, "files_list": `{"path":%s}`, "files_search": `{"pattern":"SECRET","path":%s}`,
			"files_write": `{"path":%s,"content":"x"}`, "files_edit": `{"path":%s,"old":"SECRET","new":"x"}`, "files_move": `{"from":"a","to":%s}`,
		} {
			have := p.call(tool, fmt.Sprintf(args, path))
			if strings.Contains(have, "{") || strings.HasPrefix(have, "error") {
				t.Errorf("%s %q: have %.200s", tool, name, have)
			}
		}
	}
	p.want("files_search", `{"pattern":"SECRET","path":"."}`, `"matches":[]`)
	p.want("files_list", `{"path":".","depth":9}`, `"kind":"link"`)
	p.want("files_delete", `{"path":"file"}`, `deleted`)
	if data, err := os.ReadFile(filepath.Join(p.outside, "secret")); err != nil || string(data) != "SECRET" {
		t.Errorf("outside: have %q %v", data, err)
	}
}

func TestSpecialFilesAreNotOpened(t *testing.T) {
	p := newProject(t, map[string]string{"a": "x"})
	if err := syscall.Mkfifo(filepath.Join(p.dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.want("files_read", `{"path":"pipe"}`, `SPECIAL`)
	p.want("files_edit", `{"path":"pipe","old":"a","new":"b"}`, `SPECIAL`)
	p.want("files_search", `{"pattern":"x","path":"."}`, `"files_searched":1`)
	p.want("files_list", `{"path":"."}`, `"kind":"special"`)
	p.want("files_read", `{"path":"pipe/x"}`, `SPECIAL`)
}

func TestWithoutAProject(t *testing.T) {
	p := newProject(t, nil)
	p.tools = files.Handler(p.dir + "/none").Tools
	p.want("files_list", `{"path":"."}`, `NO_PROJECT`)
}
