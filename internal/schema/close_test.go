package schema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/corpus"
	"github.com/nacre-dev/nacre/internal/schema"
)

func TestSchemasAreClosed(t *testing.T) { // D-11, K-13
	for _, c := range []struct{ name, schema, good, bad string }{
		{"an open object", `{"type":"object","properties":{"a":{"type":"string"}}}`, `{"a":"x"}`, `{"a":"x","b":1}`},
		{"explicitly open", `{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":true}`, `{"a":"x"}`, `{"b":1}`},
		{"no arguments", `{"type":"object"}`, `{}`, `{"b":1}`},
		{"no type", `{"properties":{"a":{"type":"string"}}}`, `{"a":"x"}`, `{"b":1}`},
		{"an object inside", `{"type":"object","properties":{"o":{"type":"object","properties":{"a":{"type":"string"}}}}}`, `{"o":{"a":"x"}}`, `{"o":{"b":1}}`},
		{"objects in a list", `{"type":"object","properties":{"l":{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"}}}}}}`, `{"l":[{"a":"x"}]}`, `{"l":[{"b":1}]}`},
		{"an optional string", `{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`, `{"a":null}`, `{"a":{}}`},
		{"a union of objects", `{"type":"object","properties":{"u":{"oneOf":[{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},{"type":"object","properties":{"b":{"type":"string"}},"required":["b"]}]}}}`, `{"u":{"b":"x"}}`, `{"u":{"a":"x","c":1}}`},
		{"an object of parts", `{"type":"object","allOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"b":{"type":"string"}}}]}`, `{"a":"x","b":"y"}`, `{"c":1}`},
		{"a reference", `{"type":"object","properties":{"p":{"$ref":"#/$defs/P"}},"$defs":{"P":{"type":"object","properties":{"a":{"type":"string"},"more":{"$ref":"#/$defs/P"}}}}}`, `{"p":{"a":"x","more":{"a":"y"}}}`, `{"p":{"more":{"c":1}}}`},
		{"an older draft", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"p":{"$ref":"#/definitions/P"}},"definitions":{"P":{"type":"object","properties":{"a":{"type":"string"}}}}}`, `{"p":{"a":"x"}}`, `{"p":{"b":"x"}}`},
		{"a tuple of an older draft", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"t":{"type":"array","items":[{"type":"string"},{"type":"integer"}]}}}`, `{"t":["a",1]}`, `{"t":["a",1,{}]}`},
		{"an optional free form is left out", `{"type":"object","properties":{"a":{"type":"string"},"meta":{"type":"object"}}}`, `{"a":"x"}`, `{"meta":{}}`},
		{"an optional anything is left out", `{"type":"object","properties":{"a":{"type":"string"},"meta":{}}}`, `{"a":"x"}`, `{"meta":1}`},
		{"an optional list of anything is left out", `{"type":"object","properties":{"a":{"type":"string"},"l":{"type":"array"}}}`, `{"a":"x"}`, `{"l":[]}`},
		{"an optional map is left out", `{"type":"object","properties":{"a":{"type":"string"},"env":{"type":"object","additionalProperties":{"type":"string"}}}}`, `{"a":"x"}`, `{"env":{}}`},
		{"a format that nothing checks", `{"type":"object","properties":{"n":{"type":"integer","format":"int64"}}}`, `{"n":1}`, `{"n":"x"}`},
		{"patterns of names", `{"type":"object","patternProperties":{"^x-":{"type":"string"}}}`, `{"x-a":"b"}`, `{"y":"b"}`},
		{"closed already", `{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`, `{"a":"x"}`, `{"b":1}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw, warnings, err := schema.Close(decoded(t, c.schema))
			if err != nil {
				t.Fatal(err)
			}
			compiled, err := schema.Compile(raw)
			if err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
			if _, refusal := compiled.Arguments(json.RawMessage(c.good)); refusal != nil {
				t.Errorf("%s refuses %s: %v", raw, c.good, refusal)
			}
			if _, refusal := compiled.Arguments(json.RawMessage(c.bad)); refusal == nil {
				t.Errorf("%s accepts %s", raw, c.bad)
			}
			if quiet := strings.HasPrefix(c.name, "closed already"); quiet != (len(warnings) == 0) {
				t.Errorf("warnings %q", warnings)
			}
		})
	}
}

func TestSchemasThatCannotBeClosed(t *testing.T) { // D-11
	for name, input := range map[string]string{
		"no object":                   `true`,
		"a list":                      `[]`,
		"not an object of arguments":  `{"type":"string"}`,
		"a map":                       `{"type":"object","additionalProperties":{"type":"string"}}`,
		"free form":                   `{"type":"object","additionalProperties":true}`,
		"a required free form":        `{"type":"object","properties":{"o":{"type":"object"}},"required":["o"]}`,
		"a required anything":         `{"type":"object","properties":{"o":{}},"required":["o"]}`,
		"a required true":             `{"type":"object","properties":{"o":true},"required":["o"]}`,
		"a required list of anything": `{"type":"object","properties":{"o":{"type":"array"}},"required":["o"]}`,
		"a list in a list":            `{"type":"object","properties":{"o":{"type":"array","items":{"type":"array"}}},"required":["o"]}`,
		"an unknown draft":            `{"$schema":"http://json-schema.org/draft-03/schema#","type":"object"}`,
		"a reference outside":         `{"type":"object","properties":{"o":{"$ref":"https://evil.example/s.json"}}}`,
		"a reference to nothing":      `{"type":"object","properties":{"o":{"$ref":"#/$defs/none"}}}`,
		"a bad pattern":               `{"type":"object","properties":{"o":{"type":"string","pattern":"("}}}`,
		"a dynamic reference":         `{"type":"object","properties":{"o":{"type":"string","$dynamicRef":"#x"}}}`,
		"endless nesting":             strings.Repeat(`{"type":"object","properties":{"o":`, 60) + `{"type":"string"}` + strings.Repeat(`},"required":["o"]}`, 60),
	} {
		t.Run(name, func(t *testing.T) {
			if raw, _, err := schema.Close(decoded(t, input)); err == nil {
				t.Errorf("accepted as %s", raw)
			}
		})
	}
}

func decoded(t *testing.T, raw string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(raw), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestClosingLeavesTheServersOwnAlone(t *testing.T) {
	input := decoded(t, `{"type":"object","properties":{"o":{"type":"object","properties":{}}}}`)
	before, _ := json.Marshal(input)
	if _, _, err := schema.Close(input); err != nil {
		t.Fatal(err)
	}
	if after, _ := json.Marshal(input); string(after) != string(before) {
		t.Errorf("have %s, want %s", after, before)
	}
}

func FuzzClose(f *testing.F) {
	for _, seed := range []string{
		`{"type":"object","properties":{"a":{"type":"string"}}}`, `{"anyOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"properties":{"x":{"$ref":"#/$defs/a"}}}}}`,
		`{"type":["object","null"],"items":[{}]}`, `{"if":{"properties":{}},"then":true}`, `{"type":"object","unevaluatedProperties":true}`,
	} {
		corpus.Add(f, seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		var input any
		if json.Unmarshal([]byte(raw), &input) != nil {
			return
		}
		made, _, err := schema.Close(input)
		if err != nil {
			return
		}
		compiled, err := schema.Compile(made)
		if err != nil {
			t.Fatalf("%s became %s: %v", raw, made, err)
		}
		if _, refusal := compiled.Arguments(json.RawMessage(`{"a name that nobody gave":{"x":1}}`)); refusal == nil && !strings.Contains(raw, "patternProperties") && !strings.Contains(raw, "nobody") {
			t.Errorf("%s became %s, which is open", raw, made)
		}
	})
}
