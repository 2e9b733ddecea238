package schema_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/nacre-dev/nacre/internal/schema"
	"github.com/nacre-dev/nacre/internal/wire"
)

// local refuses to load what an oracle's schema refers to.
type local struct{}

func (local) Load(url string) (any, error) { return nil, errors.New(url) }

// oracle is what a library that others keep makes of a schema.
func oracle(raw []byte) (*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(local{})
	if err := c.AddResource("nacre:oracle", document); err != nil {
		return nil, err
	}
	return c.Compile("nacre:oracle")
}

// said are schemas of one argument, good and bad.
func said() []string {
	all := []string{
		`{"type":"string"}`, `{"type":"string","minLength":1,"maxLength":3}`, `{"type":"string","minLength":1e0}`, `{"type":"string","pattern":"^a+$"}`,
		`{"type":"string","enum":["a","b"]}`, `{"enum":["a",1,null,true,[1],{"a":1.0}]}`, `{"enum":[]}`, `{"const":{"a":[1.0]}}`, `{"const":null}`,
		`{"type":"integer","minimum":1,"maximum":3}`, `{"type":["integer","null"]}`, `{"type":"number","exclusiveMinimum":0.1,"exclusiveMaximum":1e1}`,
		`{"type":"number","multipleOf":0.01}`, `{"type":"integer","multipleOf":3}`, `{"type":"boolean"}`, `{"type":"null"}`, `{}`, `true`, `false`,
		`{"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":2}`, `{"type":"array","uniqueItems":true,"items":{"type":["number","string"]}}`,
		`{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":false}`, `{"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"integer"}}`,
		`{"type":"array","items":{"type":["integer","string"]},"contains":{"type":"string"}}`,
		`{"type":"array","items":{"type":["integer","string"]},"contains":{"type":"string"},"minContains":0,"maxContains":1}`,
		`{"type":"array","prefixItems":[{"type":"string"}],"contains":{"const":1},"unevaluatedItems":{"type":"boolean"}}`,
		`{"type":"array","prefixItems":[{"type":"string"}],"unevaluatedItems":false}`, `{"type":"array","items":{"type":"string"},"unevaluatedItems":false}`,
		`{"anyOf":[{"type":"string","format":"date"},{"type":"null"}]}`, `{"oneOf":[{"type":"integer"},{"type":"number","minimum":2}]}`,
		`{"allOf":[{"type":["string","null"]},{"maxLength":2}],"type":["string","null"]}`, `{"type":"string","not":{"const":"a"}}`,
		`{"type":["string","integer"],"if":{"type":"string"},"then":{"minLength":2},"else":{"minimum":2}}`, `{"type":"string","if":{"maxLength":1},"else":{"pattern":"b"}}`,
		`{"type":"object","additionalProperties":false,"properties":{"b":{"type":"string"},"c":{"type":"integer"}},"required":["b"]}`,
		`{"type":"object","additionalProperties":false,"patternProperties":{"^x-":{"type":"string"},"1$":{"minLength":2}}}`,
		`{"type":"object","additionalProperties":false,"properties":{"b":{"type":"string"}},"minProperties":1,"maxProperties":1}`,
		`{"type":"object","additionalProperties":false,"patternProperties":{".":{"type":"string"}},"propertyNames":{"maxLength":2,"pattern":"^[a-z]*$"}}`,
		`{"type":"object","additionalProperties":false,"properties":{"b":{"type":"string"},"c":{"type":"string"}},"dependentRequired":{"b":["c"]}}`,
		`{"type":"object","unevaluatedProperties":false,"properties":{"b":{"type":"string"}},"dependentSchemas":{"b":{"properties":{"c":{"type":"string"}},"required":["c"]}}}`,
		`{"type":"object","unevaluatedProperties":false,"allOf":[{"properties":{"b":{"type":"string"}}}],"anyOf":[{"properties":{"c":{"const":1}},"required":["c"]},{"properties":{"d":{"const":2}},"required":["d"]},{"maxProperties":1}]}`,
		`{"type":"object","unevaluatedProperties":false,"if":{"properties":{"b":{"const":"x"}},"required":["b"]},"then":{"properties":{"c":{"type":"string"}}},"else":{"properties":{"d":{"type":"string"}}}}`,
		`{"type":"object","unevaluatedProperties":false,"oneOf":[{"properties":{"b":{"type":"string"}},"required":["b"]},{"$ref":"#/$defs/x"}]}`,
		`{"type":"object","unevaluatedProperties":false,"not":{"properties":{"b":{"type":"string"}},"required":["b"]},"properties":{"c":{"type":"string"}}}`,
		`{"$ref":"#/$defs/x"}`, `{"$ref":"#/$defs/y"}`, `{"type":"array","items":{"$ref":"#/$defs/x"}}`, `{"type":"string","contentEncoding":"base64"}`,
		`{"type":"string","x-more":1,"title":"a","examples":[1]}`, `{"type":"string","$defs":{"z":{"type":"integer"}}}`, `{"type":"string","then":{"type":"integer"}}`,
	}
	for _, format := range schema.Formats() {
		all = append(all, `{"type":["string","integer"],"format":"`+format+`"}`)
	}
	for _, wrong := range malformed {
		all = append(all, `{"type":"string",`+wrong+`}`)
	}
	return all
}

const defs = `"$defs":{"x":{"type":"object","unevaluatedProperties":false,"properties":{"c":{"type":"string"},"x":{"$ref":"#/$defs/x"}}},` +
	`"y":{"type":["array","string"],"items":{"$ref":"#/$defs/y"},"maxItems":2}}`

// given are arguments, good and bad.
func given() []string {
	var all []string
	for _, value := range []string{
		`"a"`, `"ab"`, `"b"`, `""`, `"äöü"`, `"abcd"`, `0`, `1`, `1.0`, `2`, `3`, `-1`, `0.1`, `0.07`, `0.075`, `10`, `1e1`, `1.5`, `9007199254740993`, `1e300`,
		`true`, `false`, `null`, `[]`, `[1]`, `[1,2]`, `[1,2,3]`, `["a"]`, `["a",1]`, `["a",1,1]`, `["a",1,true]`, `[1,1.0]`, `["1",1]`, `["a","b"]`, `["a",["b",["c","d","e"]]]`, `[["a"],["a"]]`,
		`{}`, `{"b":"x"}`, `{"b":1}`, `{"b":"x","c":1}`, `{"b":"x","c":"y"}`, `{"c":"y"}`, `{"c":1}`, `{"d":2}`, `{"c":1,"d":2}`, `{"b":"x","c":1,"d":2}`, `{"d":"z"}`, `{"e":1}`, `{"x-a":"b"}`, `{"x-1":"b"}`, `{"a1":"bc"}`,
		`{"x":{"c":"y"}}`, `{"x":{"x":{"z":1}}}`, `[{"c":"y"},{"x":{}}]`, `{"a":[1]}`, `{"abc":"x"}`, `{"A":"x"}`,
		`"2026-02-28T23:59:59Z"`, `"2026-02-28"`, `"23:59:60Z"`, `"22:59:60-01:00"`, `"00:59:60+01:00"`, `"10:00:00.5-05:30"`, `"P1Y2M3DT4H5M6S"`, `"P"`, `"P2W"`, `"PT"`, `"P1DT1H/2026-02-28T23:59:59Z"`,
		`"a@b.co"`, `"\"a b\"@[127.0.0.1]"`, `"a@[IPv6:::1]"`, `"@b"`, `"127.0.0.1"`, `"::1"`, `"::ffff:1.2.3.4"`, `"fe80::1%eth0"`, `"example.com."`, `"-a"`, `"https://example.com/a?b#c"`, `"https://[::1]:8/"`,
		`"//[::1"`, `"a b"`, `"%zz"`, `"/a/{id}/{x"`, `"/a/{id}"`, `"2eb8aa08-aa98-11ea-b4aa-73b441d16380"`, `"/a/~0"`, `"/~2"`, `"0#"`, `"01"`, `"1.2.3-rc.1+b"`, `"1.2.3-01"`, `"1.2.3+"`, `"("`, `"\\\\a"`,
	} {
		all = append(all, `{"a":`+value+`}`)
	}
	return append(all, `{}`, `{"b":1}`, `{"a":"a","b":1}`)
}

// D-11: what schemas and arguments are valid is what a library that others keep
// says, and where a schema is refused it is for being open or less than clear.
func TestSchemasMeanWhatTheySayElsewhere(t *testing.T) {
	taken := 0
	for _, inner := range said() {
		text := one(inner, defs)
		if _, err := schema.Compile(json.RawMessage(text)); err == nil {
			taken++
		}
		for _, arguments := range given() {
			compareWithOracle(t, text, arguments)
		}
	}
	if taken < 60 {
		t.Errorf("only %d schemas were taken: nothing is compared", taken)
	}
}

// What is taken of an operator's settings is what the oracle takes.
func TestSettingsMeanWhatTheySayElsewhere(t *testing.T) { // D-25
	for _, text := range []string{
		`{}`, `{"type":"object"}`, `{"type":"object","additionalProperties":{"type":"string"}}`, `{"properties":{"a":{"items":{"type":"integer"}}}}`,
		`{"type":"object","properties":{"a":{"$ref":"#/properties/b"},"b":{"type":"string"}}}`, `{"type":"object","properties":{"a":{"$ref":"#"}}}`,
		`{"type":"object","unevaluatedProperties":{"type":"integer"},"properties":{"a":true}}`, `{"properties":{"a":{"format":"nobody-checks"}}}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"s":{"type":"string"}},"properties":{"a":{"$ref":"#/definitions/s"}}}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"b":["c"],"c":{"required":["d"]}}}`,
		`{"$schema":"http://json-schema.org/draft-06/schema","properties":{"a":{"items":[{"type":"string"},{"type":"integer"}],"additionalItems":{"type":"boolean"}}}}`,
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","properties":{"a":{"items":{"type":"string"},"additionalItems":false}}}`,
	} {
		ours, err := schema.CompileSettings(json.RawMessage(text))
		theirs, wrong := oracle([]byte(text))
		if err != nil || wrong != nil {
			t.Errorf("%s: have %v, the oracle %v", text, err, wrong)
			continue
		}
		for _, settings := range given() {
			value, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(settings)))
			if err != nil {
				t.Fatal(err)
			}
			have, want := ours.Check(json.RawMessage(settings)), theirs.Validate(value)
			if (have == nil) != (want == nil) {
				t.Errorf("%s with %s: have %v, want %v", text, settings, have, want)
			}
		}
	}
}

// compareWithOracle holds what is valid against the oracle's word.
func compareWithOracle(t *testing.T, text, arguments string) {
	t.Helper()
	ours, err := schema.Compile(json.RawMessage(text))
	if err != nil {
		return // open, or less than clear
	}
	theirs, err := oracle([]byte(text))
	if err != nil {
		t.Fatalf("%s was taken; the oracle: %v", text, err)
	}
	canonical, err := wire.Canonical([]byte(arguments))
	if err != nil {
		return
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(canonical))
	if err != nil {
		t.Fatal(err)
	}
	wanted := theirs.Validate(value)
	have, refused := ours.Arguments(json.RawMessage(arguments))
	if refused == nil && wanted != nil {
		t.Errorf("%s with %s: have %s, the oracle: %v", text, arguments, have, wanted)
	}
	// what is valid by itself may be refused with its defaults inserted
	if refused != nil && wanted == nil && !bytes.Contains([]byte(text), []byte(`"default"`)) {
		t.Errorf("%s with %s: refused (%v), which the oracle is not", text, arguments, refused)
	}
}

func FuzzOracle(f *testing.F) {
	for i, inner := range said() {
		f.Add(inner, given()[i%len(given())])
	}
	f.Fuzz(func(t *testing.T, inner, arguments string) {
		if json.Valid([]byte(inner)) && json.Valid([]byte(arguments)) {
			compareWithOracle(t, one(inner, defs), arguments)
		}
	})
}

func FuzzFormats(f *testing.F) {
	for _, arguments := range given() {
		f.Add(arguments)
	}
	f.Fuzz(func(t *testing.T, text string) {
		quoted, err := json.Marshal(text)
		if err != nil || json.Unmarshal(quoted, &text) != nil {
			return
		}
		for _, format := range schema.Formats() {
			theirs, err := oracle([]byte(fmt.Sprintf(`{"format":%q}`, format)))
			if err != nil {
				t.Fatal(err)
			}
			if have, want := schema.CheckFormat(format, text), theirs.Validate(any(text)); have == nil && want != nil {
				t.Errorf("%s: %q was taken; the oracle: %v", format, text, want)
			}
		}
	})
}

// The schemas of our own tools are whole.
func TestOurOwnSchemasCompile(t *testing.T) {
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
			compareWithOracle(t, string(tool.Schema), `{}`)
			if _, err := schema.Compile(tool.Schema); err != nil {
				t.Errorf("%s: %v: %s", file, err, tool.Schema)
			}
		}
	}
}

// D-11: schemas that refer to each other cannot be made to take for ever.
func TestASchemaThatMultipliesEnds(t *testing.T) {
	s := compile(t, one(`{"$ref":"#/$defs/t"}`, `"$defs":{"t":{"type":"object","additionalProperties":false,"properties":{"x":{"anyOf":[{"$ref":"#/$defs/t"},{"allOf":[{"$ref":"#/$defs/t"}],"type":"object"},{"$ref":"#/$defs/t","title":"again"}]},"y":false}}}`))
	arguments := `{"y":1}`
	for range 40 {
		arguments = `{"x":` + arguments + `}`
	}
	if _, refused := s.Arguments(json.RawMessage(`{"a":` + arguments + `}`)); refused == nil {
		t.Error("arguments that could not be checked were taken")
	}
}

// D-11: neither can schemas that read a large value over and over.
func TestASchemaThatReadsOverAndOverEnds(t *testing.T) {
	numbers, text := `[`+strings.Repeat("1,", 200_000)+`1]`, `"`+strings.Repeat("a", 900_000)+`"`
	for _, c := range [][2]string{
		{`{"type":"array","items":{"type":"integer"},"allOf":[` + strings.Repeat(`{"not":{"enum":[1]}},`, 9000) + `{}]}`, numbers},
		{`{"type":"string","allOf":[` + strings.Repeat(`{"pattern":"(a|b)*a$"},`, 9000) + `{}]}`, text},
		{`{"type":"array","items":{"type":"integer"},"allOf":[` + strings.Repeat(`{"not":{"uniqueItems":true}},`, 8000) + `{}]}`, `[` + numbers + `]`},
	} {
		s, err := schema.Compile(json.RawMessage(one(c[0], defs)))
		if err != nil {
			t.Error(err)
			continue
		}
		_, refused := s.Arguments(json.RawMessage(`{"a":` + c[1] + `}`))
		if refused == nil || !strings.Contains(refused.Message, "too long") {
			t.Errorf("%.80s: have %v, want that it takes too long", c[0], refused)
		}
	}
}
