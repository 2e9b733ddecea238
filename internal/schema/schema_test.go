package schema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/schema"
)

// properties are of each type that a flat schema knows.
const properties = `"properties":{"a":{"type":"string"},"b":{"type":"integer","default":3},"c":{"type":"number"},"d":{"type":"boolean","default":false},
	"e\u00e9\"":{"type":"string","default":"<x>"}},"required":["a"]`

func compile(t testing.TB, text string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile(json.RawMessage(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// both are one schema: the first is checked without decoding, the second, which
// says something more that means nothing, by the library.
func both(t testing.TB) (quick, whole *schema.Schema) {
	t.Helper()
	return compile(t, `{"type":"object","additionalProperties":false,`+properties+`}`),
		compile(t, `{"type":"object","additionalProperties":false,"minProperties":0,`+properties+`}`)
}

func agree(t *testing.T, arguments string) {
	t.Helper()
	quick, whole := both(t)
	have, refused := quick.Arguments(json.RawMessage(arguments))
	want, wanted := whole.Arguments(json.RawMessage(arguments))
	if string(have) != string(want) || fmt.Sprint(refused) != fmt.Sprint(wanted) {
		t.Errorf("%s: have %s, %v, want %s, %v", arguments, have, refused, want, wanted)
	}
}

var samples = []string{
	`{}`, `null`, `[]`, `"a"`, `{"a":"x"}`, `{"a":1}`, `{"a":null}`, `{"a":{}}`, `{"a":[]}`, `{"a":"x","z":1}`, `{"b":1}`,
	`{"a":"\"}","b":1}`, `{"a":"\\","c":1}`, `{"a":"x","b":1.0}`, `{"a":"x","b":1.5}`, `{"a":"x","b":1e3}`, `{"a":"x","b":-7}`,
	`{"a":"x","b":123456789012345678901234567890}`, `{"a":"x","c":-1.5e-3}`, `{"a":"x","c":"1"}`, `{"a":"x","d":true}`, `{"a":"x","d":false}`,
	`{"a":"x","d":"true"}`, `{"a":"x","d":0}`, `{"d":true,"c":1,"b":2,"a":"x"}`, `{"a":"x","e\u00e9\"":"y"}`, `{"a":"x","eé\"":1}`, ` { "a" : "é" } `, `{"a":"x","A":"y"}`,
	`{"a":"x","a":"y"}`, `{"":"x"}`, `{"a":""}`,
}

// D-11: what is checked quickly is what the whole schema says.
func TestAFlatSchemaSaysWhatTheWholeOneSays(t *testing.T) {
	for _, arguments := range samples {
		agree(t, arguments)
	}
}

func FuzzFlat(f *testing.F) {
	for _, arguments := range samples {
		f.Add(arguments)
	}
	f.Fuzz(agree)
}

// D-11: a schema of a thousand arguments is none the worse.
func TestAWideSchemaIsChecked(t *testing.T) {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, `,"p%d":{"type":"integer"}`, i)
	}
	s := compile(t, `{"type":"object","additionalProperties":false,"properties":{`+b.String()[1:]+`}}`)
	if have, refused := s.Arguments(json.RawMessage(`{"p999":1}`)); refused != nil || string(have) != `{"p999":1}` {
		t.Errorf("have %s, %v", have, refused)
	}
	if _, refused := s.Arguments(json.RawMessage(`{"p999":"1"}`)); refused == nil {
		t.Error("a text was taken for an integer")
	}
}

func BenchmarkArguments(b *testing.B) {
	quick, whole := both(b)
	for name, s := range map[string]*schema.Schema{"floor": nil, "ours": quick, "ours,whole": whole} {
		b.Run(name, func(b *testing.B) {
			raw := json.RawMessage(`{"a":"some words","b":10}`)
			b.ReportAllocs()
			for b.Loop() {
				if s == nil {
					_ = json.Valid(raw)
				} else if _, refused := s.Arguments(raw); refused != nil {
					b.Fatal(refused)
				}
			}
		})
	}
}

// The flat reading of names knows no escapes: a name that ends with a backslash must
// not be taken for the beginning of one with a quote in it.
func TestANameWithAQuoteIsNotAnother(t *testing.T) { // D-11
	s := compile(t, `{"type":"object","additionalProperties":false,"properties":{"a\\":{"type":"integer"},"c":{"type":"integer"},"s\\":{"type":"string"}}}`)
	for _, arguments := range []string{`{"a\"b1,Zc":5}`, `{"s\"b":1}`, `{"s\"b":"x"}`} {
		if have, refused := s.Arguments(json.RawMessage(arguments)); refused == nil {
			t.Errorf("%s: have %s, want a refusal", arguments, have)
		}
	}
}
