package pluginhost_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/plugin"
)

// copied is a pinned file with this content.
func copied(t *testing.T, argument, content string) nacre.FilePin {
	t.Helper()
	path := filepath.Join(t.TempDir(), "copy")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(content))
	return nacre.FilePin{Argument: argument, Name: "a.txt", SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(content)), Path: path}
}

// D-13: a handler is given what the call was decided on, or nothing at all.
func TestAHandlerIsGivenTheFilesOfTheCall(t *testing.T) {
	changed, gone, longer := copied(t, "letter", "one"), copied(t, "letter", "one"), copied(t, "letter", "one")
	if err := errors.Join(
		os.WriteFile(changed.Path, []byte("two"), 0o600), os.Remove(gone.Path), os.WriteFile(longer.Path, []byte("one more"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	half := strings.Repeat("x", plugin.MaxFiles/2)
	h := mode(t, "sdk", options(t), "files")
	for name, test := range map[string]struct {
		files []nacre.FilePin
		want  string
		code  string
	}{
		"none":                       {nil, `{}`, ""},
		"one":                        {[]nacre.FilePin{copied(t, "letter", "one")}, `{"letter":"a.txt 3 7692 3"}`, ""},
		"an empty one":               {[]nacre.FilePin{copied(t, "parts.0.file", "")}, `{"parts.0.file":"a.txt 0 e3b0 0"}`, ""},
		"as much as there can be":    {[]nacre.FilePin{copied(t, "a", half), copied(t, "b", half)}, `{"a":"a.txt 524288 ec8b 524288","b":"a.txt 524288 ec8b 524288"}`, ""},
		"a byte more":                {[]nacre.FilePin{copied(t, "a", half), copied(t, "b", half+"x")}, "", "HANDLER_ERROR"},
		"a copy that was changed":    {[]nacre.FilePin{changed}, "", "PLUGIN_ERROR"},
		"a copy that has grown":      {[]nacre.FilePin{longer}, "", "PLUGIN_ERROR"},
		"a copy that is gone":        {[]nacre.FilePin{gone}, "", "PLUGIN_ERROR"},
		"one that is there, one not": {[]nacre.FilePin{copied(t, "a", "one"), gone}, "", "PLUGIN_ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			tool := h.Tools()[0]
			result, err := tool.Driver.Do(t.Context(), nacre.Invocation{
				ID: "id", Tool: tool.Capability.Tool, Capability: tool.Capability.ID, Arguments: json.RawMessage(`{}`), Files: test.files,
			})
			if string(result) != test.want || code(err) != test.code {
				t.Errorf("have %s %v", result, err)
			}
			if refusal := new(nacre.Refusal); test.code == "HANDLER_ERROR" && (!errors.As(err, &refusal) || !strings.Contains(refusal.Message, "1048576 bytes in all")) {
				t.Errorf("have %v", err)
			}
		})
	}
}

// D-13, M-48: a tool that says how much its files hold reads them in parts, to the last byte, and
// no other file. What is more is refused before the handler hears of it, with both numbers.
func TestAHandlerReadsLargeFilesInParts(t *testing.T) {
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "p", "manifest.json"), `{"description":"d","version":"1.0.0","handler":["self","sdk"],"provides":{"tools":[{"name":"parts","description":"d",
		"files":["a","b"],"file_bytes":3000000,"arguments_schema":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}}]}}`, 0o644)
	h := start(t, root, options(t))
	changed := copied(t, "a", "one")
	if err := os.WriteFile(changed.Path, []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	large, whole := strings.Repeat("0123456789", 250_000), strings.Repeat("x", plugin.FilePart)
	nothing := `"":"the call names no file in \"nothing\""`
	for name, test := range map[string]struct {
		files      []nacre.FilePin
		want, code string
	}{
		"of many parts":           {[]nacre.FilePin{copied(t, "a", large), copied(t, "b", "x")}, `{` + nothing + `,"a":"2500000 of 2500000, 0 at once, whole: true, \u003cnil\u003e","b":"1 of 1, 0 at once, whole: true, \u003cnil\u003e"}`, ""},
		"of one part":             {[]nacre.FilePin{copied(t, "a", whole)}, `{` + nothing + `,"a":"262144 of 262144, 0 at once, whole: true, \u003cnil\u003e"}`, ""},
		"an empty one":            {[]nacre.FilePin{copied(t, "a", "")}, `{` + nothing + `,"a":"0 of 0, 0 at once, whole: true, \u003cnil\u003e"}`, ""},
		"more than it takes":      {[]nacre.FilePin{copied(t, "a", large), copied(t, "b", large)}, "", "HANDLER_ERROR"},
		"a copy that was changed": {[]nacre.FilePin{changed}, "", "PLUGIN_ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			tool := h.Tools()[0]
			result, err := tool.Driver.Do(t.Context(), nacre.Invocation{
				ID: "id", Tool: tool.Capability.Tool, Capability: tool.Capability.ID, Arguments: json.RawMessage(`{}`), Files: test.files,
			})
			if string(result) != test.want || code(err) != test.code {
				t.Errorf("have %s %v", result, err)
			}
			refusal := new(nacre.Refusal)
			if test.code == "HANDLER_ERROR" && (!errors.As(err, &refusal) || refusal.Message != "b: the file has 2500000 bytes, and the files of one call to parts hold at most 3000000 bytes in all: name a smaller one, or a part of it") {
				t.Errorf("have %v", err)
			}
		})
	}
}

// D-31: an agent reads in the skill which arguments name files.
func TestASkillSaysWhichArgumentsNameFiles(t *testing.T) {
	have := pluginhost.GenerateSkill("post", []nacre.Capability{{Tool: "post", Handling: nacre.Handling{Files: []string{"letter", "parts.file"}}}})
	if want := "In `letter`, `parts.file` name files by their path from the project's folder."; !strings.Contains(have, want) {
		t.Errorf("have no %q in\n%s", want, have)
	}
}
