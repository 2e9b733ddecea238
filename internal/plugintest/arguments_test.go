package plugintest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nacre-dev/nacre/internal/plugintest"
)

// called is the arguments that a tool with this schema would be called with.
func called(schema string) []string {
	return plugintest.Samples(json.RawMessage(schema))
}

// D-22: arguments are made for what schemas of plugins have in them.
func TestArgumentsAreMadeUp(t *testing.T) {
	t.Parallel()
	object := func(properties, more string) string {
		return `{"type":"object","additionalProperties":false,"properties":{` + properties + `}` + more + `}`
	}
	for name, c := range map[string]struct{ schema, want string }{
		"none":                 {object("", ""), `{}`},
		"required first":       {object(`"a":{"type":"string"},"b":{"type":"integer"}`, `,"required":["a"]`), `{"a":"test"}`},
		"then all":             {object(`"a":{"type":"string"},"b":{"type":"integer"}`, `,"required":["a"]`), `{"a":"test","b":1}`},
		"a default":            {object(`"a":{"type":"string","default":"x"}`, ""), `{"a":"x"}`},
		"an enum":              {object(`"a":{"enum":["x","y"]}`, `,"required":["a"]`), `{"a":"x"}`},
		"a constant":           {object(`"a":{"const":7}`, `,"required":["a"]`), `{"a":7}`},
		"bounds":               {object(`"a":{"type":"integer","minimum":10,"multipleOf":4}`, `,"required":["a"]`), `{"a":12}`},
		"exclusive bounds":     {object(`"a":{"type":"number","exclusiveMinimum":0,"maximum":1}`, `,"required":["a"]`), `{"a":1}`},
		"negative":             {object(`"a":{"type":"integer","maximum":-5}`, `,"required":["a"]`), `{"a":-5}`},
		"a length":             {object(`"a":{"type":"string","minLength":6}`, `,"required":["a"]`), `{"a":"testtt"}`},
		"a short one":          {object(`"a":{"type":"string","maxLength":2}`, `,"required":["a"]`), `{"a":"te"}`},
		"a date":               {object(`"a":{"type":"string","format":"date-time"}`, `,"required":["a"]`), `{"a":"2026-01-02T15:04:05Z"}`},
		"a usual pattern":      {object(`"a":{"type":"string","pattern":"^R-[0-9]+$"}`, `,"required":["a"]`), `{"a":"R-1"}`},
		"a list":               {object(`"a":{"type":"array","minItems":2,"items":{"type":"string"}}`, `,"required":["a"]`), `{"a":["test","test"]}`},
		"a list of all others": {object(`"a":{"type":"array","minItems":2,"uniqueItems":true,"items":{"type":"integer"}}`, `,"required":["a"]`), `{"a":[1,2]}`},
		"an object in it":      {object(`"a":`+object(`"b":{"type":"boolean"}`, `,"required":["b"]`), `,"required":["a"]`), `{"a":{"b":false}}`},
		"a reference":          {object(`"a":{"$ref":"#/$defs/x"}`, `,"required":["a"],"$defs":{"x":{"type":"integer","minimum":3}}`), `{"a":3}`},
		"one of two":           {object(`"a":{"oneOf":[{"type":"integer","minimum":3},{"type":"string"}]}`, `,"required":["a"]`), `{"a":3}`},
		"all of two":           {object(`"a":{"allOf":[{"type":"integer"},{"minimum":3}]}`, `,"required":["a"]`), `{"a":3}`},
		"two types":            {object(`"a":{"type":["null","string"]}`, `,"required":["a"]`), `{"a":"test"}`},
		"an example":           {object(`"a":{"type":"string","pattern":"^q{9}$"}`, `,"required":["a"],"examples":[{"a":"qqqqqqqqq"}]`), `{"a":"qqqqqqqqq"}`},
		"an argument's":        {object(`"a":{"type":"string","pattern":"^q{9}$","examples":["qqqqqqqqq"]}`, `,"required":["a"]`), `{"a":"qqqqqqqqq"}`},
	} {
		if have := strings.Join(called(c.schema), "\n"); !strings.Contains("\n"+have+"\n", "\n"+c.want+"\n") {
			t.Errorf("%s: have\n%s\nwant %s", name, have, c.want)
		}
	}
	for name, schema := range map[string]string{
		"a pattern that is hard": object(`"a":{"type":"string","pattern":"^q{7}-[xyz]{9}$"}`, `,"required":["a"]`),
		"an endless object":      object(`"a":{"$ref":"#/$defs/x"}`, `,"required":["a"],"$defs":{"x":`+object(`"a":{"$ref":"#/$defs/x"}`, `,"required":["a"]`)+`}`),
		"no schema":              `3`, "an open one": `{"type":"object"}`,
	} {
		if have := called(schema); len(have) > 0 {
			t.Errorf("%s: have %v", name, have)
		}
	}
}

// Whatever the bounds, making arguments ends and never gives any that do not fit.
func TestArgumentsEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		property := map[string]any{"type": rapid.SampledFrom([]string{"integer", "number", "string", "array", "boolean"}).Draw(t, "type")}
		for _, key := range []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"} {
			if rapid.Bool().Draw(t, key+"?") {
				property[key] = rapid.Float64Range(-1e12, 1e12).Draw(t, key)
			}
		}
		for _, key := range []string{"minLength", "maxLength", "minItems", "maxItems"} {
			if rapid.Bool().Draw(t, key+"?") {
				property[key] = rapid.IntRange(0, 1e9).Draw(t, key)
			}
		}
		property["items"] = map[string]any{"type": "string"}
		raw, err := json.Marshal(map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{"a": property}, "required": []string{"a"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, have := range called(string(raw)) {
			if !json.Valid([]byte(have)) {
				t.Errorf("have %s", have)
			}
		}
	})
}
