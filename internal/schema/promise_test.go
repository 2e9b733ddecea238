package schema_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nacre-dev/nacre/internal/schema"
)

// one is a schema of one argument, a, of which inner says what it is.
func one(inner string, more ...string) string {
	return `{"type":"object","additionalProperties":false,"properties":{"a":` + inner + `}` + strings.Join(append([]string{""}, more...), ",") + `}`
}

// malformed are keywords with values that they cannot have.
var malformed = []string{
	`"type":"nothing"`, `"type":[]`, `"type":["string","string"]`, `"type":["string",1]`, `"type":null`, `"type":{}`, `"type":"String"`,
	`"enum":null`, `"enum":{}`, `"enum":"a"`,
	`"minLength":-1`, `"minLength":1.5`, `"minLength":"1"`, `"minLength":null`, `"maxLength":-1`, `"maxLength":true`,
	`"minItems":-1`, `"maxItems":0.5`, `"minProperties":-1`, `"maxProperties":[]`, `"minContains":-1`, `"maxContains":"1"`,
	`"multipleOf":0`, `"multipleOf":-2`, `"multipleOf":"2"`, `"multipleOf":null`,
	`"minimum":"1"`, `"minimum":null`, `"maximum":[]`, `"exclusiveMinimum":true`, `"exclusiveMaximum":{}`,
	`"pattern":"("`, `"pattern":1`, `"pattern":null`, `"pattern":"(?=a)"`, `"pattern":"\\1"`,
	`"format":1`, `"format":null`, `"format":"credit-card"`,
	`"required":"b"`, `"required":["b","b"]`, `"required":[1]`, `"required":null`, `"required":{}`,
	`"properties":[]`, `"properties":null`, `"properties":{"b":null}`, `"properties":{"b":1}`, `"properties":{"b":"string"}`, `"properties":{"b":{"type":"nothing"}}`,
	`"patternProperties":{"(":{"type":"string"}}`, `"patternProperties":[]`, `"patternProperties":{"^b":[]}`,
	`"additionalProperties":null`, `"additionalProperties":0`, `"unevaluatedProperties":"false"`, `"unevaluatedItems":[]`,
	`"propertyNames":[]`, `"propertyNames":{"type":"nothing"}`, `"propertyNames":null`,
	`"items":[]`, `"items":[{"type":"string"}]`, `"items":null`, `"items":"string"`, `"items":{"type":"nothing"}`,
	`"prefixItems":[]`, `"prefixItems":{}`, `"prefixItems":[null]`, `"contains":null`, `"contains":[]`,
	`"uniqueItems":1`, `"uniqueItems":"true"`, `"uniqueItems":null`,
	`"allOf":[]`, `"allOf":{}`, `"allOf":null`, `"allOf":[null]`, `"allOf":[{"type":"nothing"}]`, `"anyOf":[]`, `"anyOf":[1]`, `"oneOf":[]`, `"oneOf":"a"`,
	`"not":null`, `"not":[]`, `"not":{"type":"nothing"}`, `"if":1`, `"then":[]`, `"else":"a"`,
	`"dependentRequired":{"b":["c","c"]}`, `"dependentRequired":{"b":"c"}`, `"dependentRequired":{"b":[1]}`, `"dependentRequired":[]`,
	`"dependentSchemas":[]`, `"dependentSchemas":{"b":[]}`,
	`"$ref":1`, `"$ref":"#/$defs/none"`, `"$ref":"#/properties/a"`, `"$ref":"#"`, `"$ref":"other.json"`, `"$ref":"https://example.com/s"`, `"$ref":"%zz"`,
	`"$defs":[]`, `"$defs":{"x":1}`, `"$defs":null`, `"$id":"x"`, `"$anchor":"x"`, `"$dynamicAnchor":"x"`, `"$dynamicRef":"#x"`,
	`"$recursiveRef":"#"`, `"$recursiveAnchor":true`, `"definitions":{}`, `"dependencies":{"b":["c"]}`, `"additionalItems":false`,
	`"title":1`, `"description":null`, `"$comment":1`, `"deprecated":"yes"`, `"readOnly":1`, `"writeOnly":null`, `"examples":"a"`, `"examples":{}`,
	`"contentEncoding":1`, `"contentMediaType":[]`, `"contentSchema":1`, `"$schema":1`, `"$vocabulary":[]`,
}

// places are where a schema may stand in that of a tool.
func places(inner string) map[string]string {
	return map[string]string{
		"as an argument":  one(inner),
		"in all of":       one(`{"allOf":[` + inner + `],"type":["string","number","boolean","null"]}`),
		"in any of":       one(`{"anyOf":[` + inner + `,{"type":"null"}]}`),
		"in one of":       one(`{"oneOf":[{"type":"null"},` + inner + `]}`),
		"in an element":   one(`{"type":"array","items":` + inner + `}`),
		"in a definition": one(`{"$ref":"#/$defs/x"}`, `"$defs":{"x":`+inner+`}`),
	}
}

// D-11: a schema that is not one is refused when it is loaded, wherever the
// mistake stands, and not only once arguments meet it.
func TestASchemaThatIsMalformedIsRefused(t *testing.T) {
	inner := func(keyword string) string {
		if strings.HasPrefix(keyword, `"type"`) {
			return `{` + keyword + `,"additionalProperties":false,"items":false}`
		}
		return `{"type":"string",` + keyword + `}`
	}
	for place, text := range places(inner(`"title":"x"`)) {
		if _, err := schema.Compile(json.RawMessage(text)); err != nil {
			t.Errorf("%s: a schema that is well formed was refused: %v", place, err)
		}
	}
	for _, wrong := range malformed {
		for place, text := range places(inner(wrong)) {
			if _, err := schema.Compile(json.RawMessage(text)); err == nil {
				t.Errorf("%s %s was taken: %s", wrong, place, text)
			}
		}
	}
}

// D-11: an integer may be spelled 1e1 or 10.0; a driver gets it as every reader
// of integers takes it, wherever it stands. Where a schema takes other numbers,
// and where there are more digits than anybody reads, nothing changes.
func TestIntegersArePlain(t *testing.T) {
	for name, c := range map[string]struct{ schema, arguments, want string }{
		"an argument":      {one(`{"type":"integer"}`), `{"a":1e1}`, `{"a":10}`},
		"one with a limit": {one(`{"type":"integer","maximum":100}`), `{"a":20.0}`, `{"a":20}`},
		"below zero":       {one(`{"type":["integer","null"]}`), `{"a":-3e0}`, `{"a":-3}`},
		"elements":         {one(`{"type":"array","items":{"type":"integer"}}`), `{"a":[1.0,2,30e-1]}`, `{"a":[1,2,3]}`},
		"in an object":     {one(`{"type":"object","additionalProperties":false,"properties":{"b":{"type":"integer"}}}`), `{"a":{"b":1.0}}`, `{"a":{"b":1}}`},
		"behind a reference": {
			`{"type":"object","additionalProperties":false,"properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"integer"}}}`, `{"a":1.0}`, `{"a":1}`},
		"beside a default": {
			`{"type":"object","additionalProperties":false,"properties":{"a":{"type":"integer"},"b":{"type":"string","default":"<x>"}}}`, `{"a":1.0}`, `{"a":1,"b":"<x>"}`},
		"a number":       {one(`{"type":"number"}`), `{"a":1.0}`, `{"a":1.0}`},
		"either of them": {one(`{"type":["integer","number"]}`), `{"a":1.0}`, `{"a":1.0}`},
		"a long one":     {one(`{"type":"integer"}`), `{"a":1e300}`, `{"a":1e300}`},
	} {
		s := compile(t, c.schema)
		if have, refused := s.Arguments(json.RawMessage(c.arguments)); refused != nil || string(have) != c.want {
			t.Errorf("%s: have %s, %v, want %s", name, have, refused, c.want)
		}
	}
}

// D-11: numbers are what they are spelled, of any size: no two are taken for
// each other because a machine's words are too short for them.
func TestNumbersAreComparedAsTheyAreSpelled(t *testing.T) {
	for inner, numbers := range map[string]struct{ good, bad []string }{
		`{"type":"integer"}`:                                {[]string{`1`, `123456789012345678901234567890`}, []string{`1.5`, `1e-300`, `0.1`}},
		`{"type":"number","maximum":9007199254740992}`:      {[]string{`9007199254740992`}, []string{`9007199254740993`, `9007199254740992.5`}},
		`{"type":"number","maximum":9007199254740993}`:      {[]string{`9007199254740993`}, []string{`9007199254740994`}},
		`{"type":"number","minimum":9007199254740993}`:      {[]string{`9007199254740993`}, []string{`9007199254740992`}},
		`{"type":"integer","maximum":18446744073709551616}`: {[]string{`18446744073709551616`}, []string{`18446744073709551617`, `1e300`}},
		`{"type":"number","exclusiveMaximum":0.3}`:          {[]string{`0.29999999999999999999`}, []string{`0.3`, `3e-1`}},
		`{"type":"number","exclusiveMinimum":0}`:            {[]string{`1e-300`}, []string{`0`, `-0`, `0.0`}},
		`{"const":9007199254740993}`:                        {[]string{`9007199254740993`, `9007199254740993.0`}, []string{`9007199254740992`, `"9007199254740993"`}},
		`{"enum":[18446744073709551617,0.1]}`:               {[]string{`18446744073709551617`, `0.10`, `1e-1`}, []string{`18446744073709551616`, `0.10000000000000000001`}},
		`{"type":"number","multipleOf":0.01}`:               {[]string{`0.07`, `4.35`, `1.1`}, []string{`0.075`}},
		`{"type":"integer","multipleOf":2}`:                 {[]string{`9007199254740992`}, []string{`9007199254740993`, `18446744073709551617`}},
		`{"type":"array","items":{"type":"number"},"uniqueItems":true}`: {
			[]string{`[18446744073709551616,18446744073709551617]`, `[0.1,0.10000000000000000001]`}, []string{`[1,1.0]`, `[100,1e2]`, `[3,1,2,3]`}},
		`{"type":"string"}`: {[]string{`"1"`}, []string{`1`}},
	} {
		s := compile(t, one(inner))
		for _, number := range numbers.good {
			want := `{"a":` + number + `}`
			if have, refused := s.Arguments(json.RawMessage(want)); refused != nil || string(have) != want {
				t.Errorf("%s: %s became %s, %v", inner, number, have, refused)
			}
		}
		for _, number := range numbers.bad {
			if _, refused := s.Arguments(json.RawMessage(`{"a":` + number + `}`)); refused == nil || refused.Field != "a" {
				t.Errorf("%s: %s was not refused, or not at its place: %v", inner, number, refused)
			}
		}
	}
}

// D-11: a number given beside a default that is inserted stays as it is spelled.
func TestADefaultLeavesOtherNumbersAlone(t *testing.T) {
	s := compile(t, `{"type":"object","additionalProperties":false,"minProperties":0,"properties":{"a":{"type":"number"},"b":{"type":"integer","default":18446744073709551617}}}`)
	have, refused := s.Arguments(json.RawMessage(`{"a":9007199254740993.10}`))
	if want := `{"a":9007199254740993.10,"b":18446744073709551617}`; refused != nil || string(have) != want {
		t.Errorf("have %s, %v, want %s", have, refused, want)
	}
}

// D-11: formats are asserted, wherever they stand.
func TestFormatsAreAsserted(t *testing.T) {
	for format, values := range map[string]struct{ good, bad []string }{
		"date-time":             {[]string{"2026-02-28T23:59:59Z", "2026-02-28T23:59:59.5+02:00", "1998-12-31T23:59:60Z"}, []string{"", "2026-02-29T00:00:00Z", "2026-02-28 23:59:59Z", "2026-02-28T25:00:00Z", "2026-02-28T23:59:59"}},
		"date":                  {[]string{"2024-02-29"}, []string{"2026-02-29", "2026-2-1", "26-02-01", "tomorrow"}},
		"time":                  {[]string{"23:59:59Z", "10:00:00.123-05:00"}, []string{"24:00:00Z", "10:00Z", "10:00:00"}},
		"duration":              {[]string{"P1D", "PT5M", "P1Y2M3DT4H5M6S", "P2W"}, []string{"", "P", "1D", "P1DT", "PT1D"}},
		"period":                {[]string{"2026-01-01T00:00:00Z/P1D"}, []string{"2026-01-01T00:00:00Z", "P1D/P1D"}},
		"email":                 {[]string{"a@b.co", "joe.bloggs@example.com"}, []string{"a", "a@", ".a@b.co", "a@-b.co"}},
		"hostname":              {[]string{"example.com", "a-b.example"}, []string{"", "-a.example", "a..b", "a_b", strings.Repeat("a", 64) + ".example"}},
		"ipv4":                  {[]string{"127.0.0.1"}, []string{"127.0.0", "256.0.0.1", "0127.0.0.1", "::1"}},
		"ipv6":                  {[]string{"::1", "2001:db8::1", "::ffff:1.2.3.4"}, []string{"1.2.3.4", ":::1", "12345::", "fe80::1%eth0"}},
		"uri":                   {[]string{"https://example.com/a?b#c", "urn:x:y"}, []string{"", "/a", "//example.com", "http://[::1", "a b"}},
		"uri-reference":         {[]string{"/a", "https://example.com", "#x"}, []string{"%zz", "http://[::1", `\\a`}},
		"iri":                   {[]string{"https://exämple.com/ä"}, []string{"/ä", ""}},
		"iri-reference":         {[]string{"/ä"}, []string{"%zz"}},
		"uri-template":          {[]string{"https://example.com/{id}"}, []string{"https://example.com/{id"}},
		"uuid":                  {[]string{"2eb8aa08-aa98-11ea-b4aa-73b441d16380"}, []string{"2eb8aa08aa9811eab4aa73b441d16380", "2eb8aa08-aa98-11ea-b4aa-73b441d1638g"}},
		"json-pointer":          {[]string{"", "/a/0/~0~1"}, []string{"a", "/~2"}},
		"relative-json-pointer": {[]string{"0", "1/a", "0#"}, []string{"", "/a", "-1/a", "01/a"}},
		"regex":                 {[]string{"^a+$"}, []string{"("}},
		"semver":                {[]string{"1.2.3-rc.1+b"}, []string{"1.2", "v1.2.3", "01.2.3"}},
	} {
		for place, text := range places(`{"type":"string","format":"` + format + `"}`) {
			s := compile(t, text)
			check := func(value string, want bool) {
				quoted, err := json.Marshal(value)
				if err != nil {
					t.Fatal(err)
				}
				if place == "in an element" {
					quoted = append(append([]byte{'['}, quoted...), ']')
				}
				if _, refused := s.Arguments(json.RawMessage(`{"a":` + string(quoted) + `}`)); (refused == nil) != want {
					t.Errorf("%s %s: %q: have %v, want valid: %v", format, place, value, refused, want)
				}
			}
			for _, value := range values.good {
				check(value, true)
			}
			for _, value := range values.bad {
				check(value, false)
			}
		}
	}
}

// D-11: field is the place in the arguments, not that in the schema, through
// references, lists and compositions.
func TestAViolationIsFoundAtItsPlace(t *testing.T) {
	const tree = `"$defs":{"n":{"type":"object","unevaluatedProperties":false,"required":["name"],"properties":{"name":{"type":"string"},` +
		`"when":{"anyOf":[{"type":"string","format":"date"},{"type":"null"}]},"kids":{"type":"array","items":{"$ref":"#/$defs/n"}}},` +
		`"allOf":[{"properties":{"tag":{"enum":["x"]}}}],"dependentRequired":{"tag":["when"]}}}`
	s := compile(t, one(`{"$ref":"#/$defs/n"}`, tree))
	for arguments, field := range map[string]string{
		`{"a":{"name":1}}`: "a.name",
		`{"a":{"name":"x","kids":[{"name":"y"},{"kids":[]}]}}`:                        "a.kids.1.name",
		`{"a":{"name":"x","kids":[{"name":"y"},{"name":"z","when":"x"}]}}`:            "a.kids.1.when",
		`{"a":{"name":"x","kids":[{"name":"y","kids":[{"name":"z","more":1}]}]}}`:     "a.kids.0.kids.0.more",
		`{"a":{"name":"x","tag":"y","when":null}}`:                                    "a.tag",
		`{"a":{"name":"x","tag":"x"}}`:                                                "a.when",
		`{"a":{"name":"x","kids":[{"name":1},{"name":1}],"when":1,"more":1}}`:         "a.kids.0.name",
		`{"a":{"name":"x","kids":{"0":{"name":"x"}}}}`:                                "a.kids",
		`{"b":1,"a":{"name":"x"}}`:                                                    "b",
		`{"a":{"name":"x","kids":[{"name":"y","when":"2026-01-01","kids":[[], 1]}]}}`: "a.kids.0.kids.0",
	} {
		var first string
		for range 10 { // the same arguments always get the same answer
			_, refused := s.Arguments(json.RawMessage(arguments))
			if refused == nil || refused.Field != field || refused.Message == "" || first != "" && refused.Message != first {
				t.Fatalf("%s: have %+v, want %s; before: %s", arguments, refused, field, first)
			}
			first = refused.Message
		}
	}
	if _, refused := s.Arguments(json.RawMessage(`{"a":{"name":"x","when":"2026-01-01","tag":"x","kids":[{"name":"y","kids":[]}]}}`)); refused != nil {
		t.Error(refused)
	}
}

// D-11: what refers to itself without an end gets an answer; it does not end the
// process.
func TestReferencesInACircleAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want bool
	}{
		"to itself":            {one(`{"type":"string"}`, `"allOf":[{"$ref":"#/$defs/x"}],"$defs":{"x":{"$ref":"#/$defs/x"}}`), false},
		"through all of":       {one(`{"type":"string"}`, `"allOf":[{"$ref":"#/$defs/x"}],"$defs":{"x":{"allOf":[{"$ref":"#/$defs/x"}]}}`), false},
		"of two":               {one(`{"type":"string","$ref":"#/$defs/x"}`, `"$defs":{"x":{"type":"string","$ref":"#/$defs/y"},"y":{"type":"string","$ref":"#/$defs/x"}}`), false},
		"through not":          {one(`{"type":"string"}`, `"not":{"$ref":"#/$defs/x"},"$defs":{"x":{"not":{"$ref":"#/$defs/x"}}}`), false},
		"through a dependency": {one(`{"type":"string"}`, `"dependentSchemas":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"dependentSchemas":{"a":{"$ref":"#/$defs/x"}}}}`), false},
		// a condition that has no answer does not hold, and nothing depends on it
		"through a condition": {one(`{"type":"string"}`, `"if":{"$ref":"#/$defs/x"},"$defs":{"x":{"if":{"$ref":"#/$defs/x"}}}`), true},
		"of values":           {one(`{"$ref":"#/$defs/x"}`, `"$defs":{"x":{"type":["string","array"],"items":{"$ref":"#/$defs/x"}}}`), true},
	} {
		s, err := schema.Compile(json.RawMessage(test.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if have, refused := s.Arguments(json.RawMessage(`{"a":"x"}`)); (refused == nil) != test.want {
			t.Errorf("%s: have %s, %v", name, have, refused)
		}
	}
}

// D-11: a keyword that is not one of JSON Schema's says nothing, also where it
// looks like one, and a schema is not refused for it: servers add their own.
func TestUnknownKeywordsSayNothing(t *testing.T) {
	s := compile(t, one(`{"type":"string","x-order":1,"MaxLength":1,"Pattern":"^z","minlength":9}`))
	if _, refused := s.Arguments(json.RawMessage(`{"a":"abc"}`)); refused != nil {
		t.Error(refused)
	}
}

// D-11: large arguments take time that grows as they do.
func TestLargeListsAreJudged(t *testing.T) {
	s := compile(t, one(`{"type":"array","uniqueItems":true,"items":{"anyOf":[{"type":"string","format":"ipv4"},{"type":"object","additionalProperties":false,"properties":{"n":{"type":"integer"}}}]}}`))
	var b strings.Builder
	for i := range 20_000 {
		b.WriteString(`,{"n":`)
		b.WriteString(strconv.Itoa(i))
		b.WriteString(`}`)
	}
	if _, refused := s.Arguments(json.RawMessage(`{"a":[` + b.String()[1:] + `]}`)); refused != nil {
		t.Error(refused)
	}
	_, refused := s.Arguments(json.RawMessage(`{"a":[` + b.String()[1:] + `,{"n":7}]}`))
	if refused == nil || refused.Field != "a" || len(refused.Message) > 400 {
		t.Errorf("have %+v", refused)
	}
}

// What is compiled first may be asked for by many at once.
func TestSchemasAreCompiledByManyAtOnce(t *testing.T) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := schema.Compile(json.RawMessage(one(`{"anyOf":[{"type":"string","format":"date"},{"type":"null"}]}`)))
			if err != nil {
				t.Error(err)
				return
			}
			if _, refused := s.Arguments(json.RawMessage(`{"a":"2026-01-01"}`)); refused != nil {
				t.Error(refused)
			}
		})
	}
	wg.Wait()
}

// D-11: a size beyond a machine's word is refused; it would be kept by nothing.
func TestSizesThatNobodyCountsToAreRefused(t *testing.T) {
	wide := strconv.IntSize == 64
	for size, want := range map[string]bool{"2147483647": true, "4294967295": wide, "9007199254740992": wide, "9007199254740994": false, "9223372036854775808": false, "18446744073709551617": false, "1e30": false, "1e400": false} {
		for _, inner := range []string{
			`{"type":"string","minLength":` + size + `}`, `{"type":"string","maxLength":` + size + `}`,
			`{"type":"array","items":{"type":"string"},"minItems":` + size + `}`,
			`{"type":"object","additionalProperties":false,"minProperties":` + size + `}`,
		} {
			if _, err := schema.Compile([]byte(one(inner))); (err == nil) != want {
				t.Errorf("%s: have %v", inner, err)
			}
		}
	}
}

// D-11: a name that may not be is named.
func TestANameThatMayNotBeIsNamed(t *testing.T) {
	s := compile(t, one(`{"type":"object","additionalProperties":false,"propertyNames":{"maxLength":2},"patternProperties":{"^[a-z]+$":{"type":"string"}}}`))
	_, refused := s.Arguments(json.RawMessage(`{"a":{"long":"x","ab":"x","longer":"x"}}`))
	if want := `property name "long" not allowed: maxLength: got 4, want 2`; refused == nil || refused.Message != want {
		t.Errorf("have %+v, want %s", refused, want)
	}
}
