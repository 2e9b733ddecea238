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

// D-31: an agent reads in the skill which arguments name files.
func TestASkillSaysWhichArgumentsNameFiles(t *testing.T) {
	have := pluginhost.GenerateSkill("post", []nacre.Capability{{Tool: "post", Files: []string{"letter", "parts.file"}}})
	if want := "In `letter`, `parts.file` name files by their path from the project's folder."; !strings.Contains(have, want) {
		t.Errorf("have no %q in\n%s", want, have)
	}
}
