package schema_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/nacre-dev/nacre/internal/schema"
)

// inner are schemas of one argument, good and bad.
func inner() []string {
	return []string{
		`{"type":"string"}`, `{"type":"string","minLength":1,"maxLength":3,"default":"ab"}`, `{"type":"string","maxLength":3,"default":"abcd"}`,
		`{"type":"string","maxLength":3,"default":"äöü"}`, `{"type":"string","minLength":2,"default":"a"}`, `{"type":"string","minLength":-1}`,
		`{"type":"string","minLength":"1"}`, `{"type":"string","minLength":1.5}`, `{"type":"string","minLength":1e2}`, `{"type":"string","default":1}`,
		`{"type":"string","enum":["a","b"],"default":"a"}`, `{"type":"string","enum":["a","b"],"default":"c"}`, `{"type":"string","enum":[]}`,
		`{"type":"string","enum":"a"}`, `{"type":"string","enum":["a",1]}`, `{"type":"string","enum":["a","a"]}`, `{"type":"string","format":"date"}`,
		`{"type":"string","format":"date","default":"x"}`, `{"type":"string","format":"nonsense"}`, `{"type":"string","format":7}`,
		`{"type":"string","pattern":"^a+$"}`, `{"type":"string","pattern":"("}`, `{"type":"string","pattern":1}`, `{"type":"string","pattern":"^a$","default":"b"}`,
		`{"type":"integer"}`, `{"type":"integer","minimum":1,"maximum":3,"default":2}`, `{"type":"integer","minimum":1,"default":0}`,
		`{"type":"integer","maximum":1,"default":2}`, `{"type":"integer","minimum":"1"}`, `{"type":"integer","default":1.0}`, `{"type":"integer","default":1.5}`,
		`{"type":"integer","minimum":1.5,"default":1}`, `{"type":"integer","minimum":123456789012345678901234567890}`, `{"type":"number","default":-0}`,
		`{"type":"number","minimum":1e3}`, `{"type":"boolean","default":true}`, `{"type":"boolean","default":"true"}`, `{"type":"boolean","enum":["true"],"default":true}`,
		`{"enum":["a","b"]}`, `{"enum":["a"],"default":"a"}`, `{"enum":["a"],"type":1}`, `{"type":"null"}`, `{"type":"null","default":null}`, `{"type":"string","default":null}`, `{"type":["string"],"default":null}`, `{"enum":["a"],"default":null}`,
		`{"type":"string","enum":["a"],"default":null}`, `{"type":"object","additionalProperties":false,"properties":{"b":{"type":"string","default":null}}}`,
		`{"type":"array","items":{"type":"string"},"default":["a"]}`, `{"type":"array","items":{"type":"string"},"minItems":1,"default":[]}`, `{"type":"string","default":[]}`, `{"type":"nothing"}`, `{"type":1}`, `{"type":[]}`, `{"type":["string"]}`, `{"type":["string","null"]}`, `{"type":["string","string"]}`, `{}`, `true`, `false`, `[]`, `"string"`,
		`{"type":"array","items":{"type":"string"}}`, `{"type":"array","items":{"type":"string"},"default":[]}`, `{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":2}`,
		`{"type":"array","items":{"type":"string"},"maxItems":-1}`, `{"type":"array","items":[{"type":"string"}]}`, `{"type":"array"}`, `{"type":"array","items":{"type":"object"}}`,
		`{"type":"array","items":{"type":"object","additionalProperties":false,"properties":{"b":{"type":"string","default":"x"}}}}`,
		`{"type":"object","additionalProperties":false,"properties":{"b":{"type":"string","default":"x"},"c":{"type":"integer"}}}`,
		`{"type":"object","additionalProperties":false,"properties":{"b":{"type":"string","default":1}}}`, `{"type":"object"}`,
		`{"type":"object","additionalProperties":false,"required":["b","b"]}`, `{"type":"object","additionalProperties":false,"required":[1]}`,
		`{"type":"object","additionalProperties":false,"properties":[]}`, `{"type":"object","additionalProperties":false,"default":{}}`,
		`{"type":"string","description":1}`, `{"type":"string","title":null}`, `{"type":"string","examples":["a"]}`, `{"type":"string","examples":"a"}`,
		`{"type":"string","$ref":"#/properties/b"}`, `{"type":"string","const":"a"}`, `{"type":"string","deprecated":true}`, `{"type":"string","$comment":"x"}`,
	}
}

func wholes(t *testing.T) []json.RawMessage {
	t.Helper()
	var all []json.RawMessage
	for _, one := range inner() {
		all = append(all, json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"a":`+one+`}}`),
			json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","additionalProperties":false,"required":["a"],"properties":{"a":`+one+`,"z":{"type":"string"}}}`))
	}
	for _, text := range []string{
		`{"type":"object","additionalProperties":false}`, `{"type":"object","additionalProperties":false,"required":"a"}`, `{"type":"object","additionalProperties":false,"default":1}`,
		`{"type":"object","additionalProperties":false,"properties":{"a/b":{"type":"string"}}}`, `{"type":"object","additionalProperties":false,"properties":{"":{"type":"string"}}}`,
		`{"type":"object","additionalProperties":false,"$schema":"http://json-schema.org/draft-07/schema#"}`, `{"type":"object","additionalProperties":false,"$schema":1}`,
		`{"type":["object"],"additionalProperties":false}`, `{"type":"object","additionalProperties":false,"$id":"x"}`, `{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string","$id":"x"}}}`,
	} {
		all = append(all, json.RawMessage(text))
	}
	files, err := filepath.Glob("../../plugins/*/manifest.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no manifests", err)
	}
	for _, file := range files {
		var m struct {
			Provides struct {
				Tools []struct {
					Schema json.RawMessage `json:"arguments_schema"`
				} `json:"tools"`
			} `json:"provides"`
		}
		data, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(data, &m)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range m.Provides.Tools {
			if !schema.Plain(tool.Schema) {
				t.Errorf("%s: a schema of ours is not plain: %s", file, tool.Schema)
			}
			all = append(all, tool.Schema)
		}
	}
	return all
}

// What is taken for a plain schema is what compiling it would have found it to be.
func TestPlainSchemasAreSeenAsTheyAre(t *testing.T) {
	paths := []string{"a", "b", "c", "z", "query", "path"}
	for _, raw := range wholes(t) {
		checkSeen(t, raw, paths)
	}
}

func checkSeen(t *testing.T, raw json.RawMessage, paths []string) {
	t.Helper()
	want, wantErr := schema.Whole(raw, paths)
	s, err := schema.Compile(raw)
	if (err == nil) != (wantErr == nil) {
		t.Errorf("%s:\nhave %v, want %v", raw, err, wantErr)
		return
	}
	if err != nil || !schema.Plain(raw) {
		return
	}
	if have := schema.Seen(s, paths); !reflect.DeepEqual(have, want) {
		t.Errorf("%s:\nhave %+v\nwant %+v", raw, have, want)
	}
}

func FuzzPlain(f *testing.F) {
	for _, one := range inner() {
		f.Add(one, "a")
	}
	f.Fuzz(func(t *testing.T, one, name string) {
		key, err := json.Marshal(name)
		if err != nil || !json.Valid([]byte(one)) {
			return
		}
		checkSeen(t, json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{`+string(key)+`:`+one+`}}`), []string{"a", "b"})
	})
}
