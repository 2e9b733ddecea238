package kernel_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
)

func echo(_ context.Context, in nacre.Invocation) (json.RawMessage, error) { return in.Arguments, nil }

func withSchema(schema string) nacre.Tool {
	return nacre.Tool{
		Capability: note(func(c *nacre.Capability) { c.Schema = json.RawMessage(schema) }),
		Driver:     nacre.DriverFunc(echo),
	}
}

// object is a schema with properties p and whatever more there is.
func object(p string, more ...string) string {
	return `{"type":"object","additionalProperties":false,"properties":{` + p + `}` + strings.Join(append([]string{""}, more...), ",") + `}`
}

// D-11: a schema is closed at every level, refers to itself only, and means what it says.
func TestASchemaThatIsOpenAnywhereIsRefused(t *testing.T) {
	tests := map[string]struct{ schema, want string }{
		"none":                             {``, "missing"},
		"not JSON":                         {`{`, "schema"},
		"a key given twice":                {`{"type":"object","type":"object","additionalProperties":false}`, "schema"},
		"true":                             {`true`, `declare "type":"object"`},
		"no type":                          {`{"additionalProperties":false}`, `declare "type":"object"`},
		"two types":                        {`{"type":["object","null"],"additionalProperties":false}`, `declare "type":"object"`},
		"an open object":                   {`{"type":"object"}`, "arguments accepts objects with anything in them"},
		"an object that says so":           {`{"type":"object","additionalProperties":true}`, "arguments accepts objects"},
		"a map":                            {`{"type":"object","additionalProperties":{"type":"string"}}`, "arguments accepts objects"},
		"an open property":                 {object(`"a":{"type":"object"}`), "arguments.a accepts objects"},
		"a property of any kind":           {object(`"a":{}`), "arguments.a accepts objects"},
		"a property that is true":          {object(`"a":true`), "arguments.a accepts objects"},
		"a property with a description":    {object(`"a":{"description":"anything"}`), "arguments.a accepts objects"},
		"one of two types":                 {object(`"a":{"type":["string","object"]}`), "arguments.a accepts objects"},
		"a list of anything":               {object(`"a":{"type":"array"}`), "arguments.a accepts arrays"},
		"a list of open objects":           {object(`"a":{"type":"array","items":{"type":"object"}}`), "arguments.a/items accepts objects"},
		"a list that is open at its end":   {object(`"a":{"type":"array","prefixItems":[{"type":"string"}]}`), "arguments.a accepts arrays"},
		"a list with an open first":        {object(`"a":{"type":"array","prefixItems":[{}],"items":false}`), "arguments.a/prefixItems[0] accepts objects"},
		"an open pattern":                  {object(``, `"patternProperties":{"^x":{}}`), "arguments.^x accepts objects"},
		"an open one of two":               {object(`"a":{"anyOf":[{"type":"string"},{}]}`), "arguments.a accepts objects"},
		"an open property in a branch":     {object(``, `"allOf":[{"properties":{"b":{}}}]`), "arguments/allOf[0].b accepts objects"},
		"a branch that opens its object":   {object(``, `"allOf":[{"additionalProperties":true}]`), `"additionalProperties" must be false`},
		"an if that opens its object":      {`{"type":"object","unevaluatedProperties":false,"if":{"properties":{"a":true}}}`, "arguments/if.a accepts objects"},
		"unevaluated under additional":     {`{"type":"object","unevaluatedProperties":false,"additionalProperties":true}`, `"additionalProperties" must be false`},
		"an open definition":               {object(`"a":{"$ref":"#/$defs/x"}`, `"$defs":{"x":{"type":"object"}}`), "arguments.a accepts objects"},
		"an open part of a definition":     {object(`"a":{"$ref":"#/$defs/x"}`, `"$defs":{"x":`+object(`"b":{}`)+`}`), "arguments.a.b accepts objects"},
		"a reference to the network":       {object(`"a":{"$ref":"https://example.com/x"}`), "arguments.a accepts objects"},
		"a typed reference to the network": {object(`"a":{"type":"string","$ref":"https://example.com/x"}`), "refer to #/$defs/"},
		"a reference to a file":            {object(`"a":{"type":"string","$ref":"file:///etc/passwd"}`), "refer to #/$defs/"},
		"a reference to nothing":           {object(`"a":{"type":"string","$ref":"#/$defs/x"}`), "there is no such schema"},
		"an anchor":                        {object(`"a":{"type":"string","$anchor":"x"}`), `"$anchor" is not supported`},
		"a dynamic reference":              {object(`"a":{"type":"string","$dynamicRef":"#x"}`), `"$dynamicRef" is not supported`},
		"an id inside":                     {object(`"a":{"type":"string","$id":"https://example.com/"}`), "$id is for the whole schema"},
		"another draft":                    {`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","additionalProperties":false}`, "only https://json-schema.org/draft/2020-12/schema"},
		"a pattern that is none":           {object(`"a":{"type":"string","pattern":"("}`), "schema"},
		"a format that nobody checks":      {object(`"a":{"type":"string","format":"credit-card"}`), `format "credit-card" is not checked`},
		"a type that is none":              {object(`"a":{"type":"text"}`), "schema"},
		"too deep":                         {object(strings.Repeat(`"a":{"type":"object","additionalProperties":false,"properties":{`, 40) + strings.Repeat(`}}`, 40)), "nested deeper than"},
		"references that grow":             {object(`"a":{"$ref":"#/$defs/d0"}`, doubling(30)), "arguments.a accepts objects"},
		"too large":                        {object(`"a":{"type":"string","description":"` + strings.Repeat("x", 256<<10) + `"}`), "the limit is 262144"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := open(t, nil).Register(withSchema(test.schema))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("have %v\nwant %s", err, test.want)
			}
		})
	}
}

// doubling is definitions each of which refers to the next one twice.
func doubling(n int) string {
	var defs []string
	for i := range n {
		next := string(rune('0'+(i+1)/10)) + string(rune('0'+(i+1)%10))
		at := string(rune('0'+i/10)) + string(rune('0'+i%10))
		if i == 0 {
			at = "0"
		}
		defs = append(defs, `"d`+at+`":{"anyOf":[{"$ref":"#/$defs/d`+next+`"},{"$ref":"#/$defs/d`+next+`"}]}`)
	}
	return `"$defs":{` + strings.Join(append(defs, `"d30":{"type":"object"}`), ",") + `}`
}

func TestASchemaThatIsClosedIsTaken(t *testing.T) {
	for name, schema := range map[string]string{
		"no arguments":       `{"type":"object","additionalProperties":false}`,
		"the version":        `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","additionalProperties":false}`,
		"kinds":              object(`"a":{"type":"string"},"b":{"type":["integer","null"]},"c":{"enum":["x",{"y":1}]},"d":{"const":{}},"e":false`),
		"lists":              object(`"a":{"type":"array","items":{"type":"string"}},"b":{"type":"array","prefixItems":[{"type":"string"}],"items":false}`),
		"objects in objects": object(`"a":` + object(`"b":`+object(`"c":{"type":"string"}`))),
		"branches":           object(`"a":{"oneOf":[{"type":"string"},` + object(`"b":{"type":"number"}`) + `]}`),
		"composed":           `{"type":"object","unevaluatedProperties":false,"allOf":[{"properties":{"a":{"type":"string"}}}],"if":{"required":["a"]},"then":{"properties":{"b":{"type":"string"}}}}`,
		"a definition":       object(`"a":{"$ref":"#/$defs/x"}`, `"$defs":{"x":{"type":"string","format":"date-time"}}`),
		"a tree":             object(`"a":{"$ref":"#/$defs/n"}`, `"$defs":{"n":`+object(`"kids":{"type":"array","items":{"$ref":"#/$defs/n"}}`)+`}`),
		"not":                object(`"a":{"type":"string","not":{"const":"x"}}`),
		"a pattern":          object(``, `"patternProperties":{"^x-[a-z]+$":{"type":"string"}}`),
	} {
		if err := open(t, nil).Register(withSchema(schema)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// D-11: validation first, then defaults; one that violates its schema is left
// out with a warning, as in the seed's memory manifest.
func TestDefaultsAreInsertedAfterValidation(t *testing.T) {
	const memory = `{"type":"object","required":["type","content"],"additionalProperties":false,"properties":{
		"type":{"type":"string","enum":["preference","fact","instruction","context","correction"]},
		"content":{"type":"string","maxLength":2000},
		"tags":{"type":"array","items":{"type":"string","maxLength":50},"maxItems":10,"default":[]},
		"supersedes":{"type":"string","description":"ID of the entry this one replaces","default":null}}}`
	tests := map[string]struct{ schema, arguments, want, warning string }{
		"the seed's memory": {memory, `{"type":"fact","content":"x"}`, `{"content":"x","tags":[],"type":"fact"}`,
			"notes.note_add: the default of supersedes violates its own schema and is ignored"},
		"given values win":           {memory, `{"type":"fact","content":"x","tags":["a"],"supersedes":"m"}`, `{"content":"x","supersedes":"m","tags":["a"],"type":"fact"}`, "supersedes"},
		"a default of a definition":  {object(`"a":{"$ref":"#/$defs/x"}`, `"$defs":{"x":{"type":"integer","default":7}}`), `{}`, `{"a":7}`, ""},
		"a default inside":           {object(`"a":` + object(`"b":{"type":"string","default":"x"}`)), `{"a":{}}`, `{"a":{"b":"x"}}`, ""},
		"none inside of what is not": {object(`"a":` + object(`"b":{"type":"string","default":"x"}`)), `{}`, `{}`, ""},
		"a default with its own":     {object(`"a":{"type":"object","additionalProperties":false,"default":{},"properties":{"b":{"type":"string","default":"x"}}}`), `{}`, `{"a":{"b":"x"}}`, ""},
		"a number as it is spelled":  {object(`"a":{"type":"number","default":1.50}`), `{}`, `{"a":1.50}`, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := open(t, nil)
			if err := h.Register(withSchema(test.schema)); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				outcome, err := h.Call(t.Context(), call(test.arguments))
				if err != nil || string(outcome.Result) != test.want {
					t.Errorf("have %s %v\nwant %s", outcome.Result, err, test.want)
				}
			}
			if have := strings.Join(h.Warnings(), ";"); !strings.Contains(have, test.warning) || test.warning == "" && have != "" {
				t.Errorf("warnings %q", have)
			}
		})
	}
	t.Run("a default that breaks the whole", func(t *testing.T) {
		h := open(t, nil)
		if err := h.Register(withSchema(object(`"a":{"type":"string","default":"x"},"b":{"type":"string"}`, `"dependentRequired":{"a":["b"]}`))); err != nil {
			t.Fatal(err)
		}
		_, err := h.Call(t.Context(), call(`{}`))
		if have := refusal(t, err); have.Code != nacre.CodeValidationFailed || have.Field != "b" {
			t.Errorf("have %+v", have)
		}
	})
}

// D-11: field names the property, and the same arguments always get the same answer.
func TestAViolationNamesItsField(t *testing.T) {
	schema := object(`"when":`+object(`"day":{"type":"string","format":"date"}`, `"required":["day"]`)+
		`,"list":{"type":"array","items":`+object(`"n":{"type":"integer"}`)+`},"mail":{"type":"string","format":"email"},"x":{"type":"string","pattern":"^a+$"}`,
		`"dependentRequired":{"mail":["x"]}`)
	tests := map[string]struct{ arguments, field string }{
		"an unknown property":          {`{"zz":1,"yy":2}`, "yy"},
		"an unknown property inside":   {`{"when":{"day":"2026-01-01","hour":1}}`, "when.hour"},
		"a missing property inside":    {`{"when":{}}`, "when.day"},
		"a format":                     {`{"when":{"day":"tomorrow"}}`, "when.day"},
		"an element":                   {`{"list":[{"n":1},{"n":"x"}]}`, "list.1.n"},
		"a pattern":                    {`{"x":"b"}`, "x"},
		"what another property needs":  {`{"mail":"a@b.co"}`, "x"},
		"the first of many by its way": {`{"x":"b","list":[{"n":"x"}],"when":{"day":"x"}}`, "list.0.n"},
	}
	h := open(t, nil)
	if err := h.Register(withSchema(schema)); err != nil {
		t.Fatal(err)
	}
	for name, test := range tests {
		for range 10 {
			_, err := h.Call(t.Context(), call(test.arguments))
			if have := refusal(t, err); have.Field != test.field || have.Message == "" || len(have.Message) > 600 {
				t.Errorf("%s: have %+v, want %s", name, have, test.field)
			}
		}
	}
}

// D-25, K-24: what is malformed, unknown or taken is refused by name.
func TestAToolThatIsMalformedOrTakenIsRefused(t *testing.T) {
	h := open(t, nil)
	h.add(t, note(nil), nil)
	tests := map[string]struct {
		change func(*nacre.Capability)
		want   string
	}{
		"the same tool":          {func(c *nacre.Capability) { c.ID = "other.note_add" }, "the tool name note_add belongs to notes.note_add already"},
		"the same capability":    {func(c *nacre.Capability) { c.Tool = "note_new" }, "that capability is the tool note_add already"},
		"no capability":          {func(c *nacre.Capability) { c.ID = "" }, "capability"},
		"a capability of a word": {func(c *nacre.Capability) { c.ID = "notes" }, "capability"},
		"a tool with a dot":      {func(c *nacre.Capability) { c.Tool = "a.b" }, "tool"},
		"an unknown class":       {func(c *nacre.Capability) { c.Safety = 3 }, "unknown safety class 3"},
		"an unknown sensitivity": {func(c *nacre.Capability) { c.Sensitivity = 5 }, "unknown sensitivity 5"},
		"an unknown label":       {func(c *nacre.Capability) { c.Returns = 2 }, "unknown label 2"},
		"a negative deadline":    {func(c *nacre.Capability) { c.Deadline = -1 }, "deadline"},
		"a deadline of a day":    {func(c *nacre.Capability) { c.Deadline = 24 * time.Hour }, "deadline"},
		"a rate without a time":  {func(c *nacre.Capability) { c.Rate.Calls = 1 }, "rate"},
		"a negative rate":        {func(c *nacre.Capability) { c.Rate = nacre.RateLimit{Calls: -1, Window: 1} }, "rate"},
		"a sink that is nothing": {func(c *nacre.Capability) { c.Sinks = []string{"to"} }, `sink "to" is not declared in the input schema`},
		"too long a description": {func(c *nacre.Capability) { c.Description = strings.Repeat("x", 9000) }, "description"},
	}
	for name, test := range tests {
		err := h.Register(nacre.Tool{Capability: note(test.change), Driver: nacre.DriverFunc(echo)})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: have %v, want %s", name, err, test.want)
		}
	}
	if err := h.Register(nacre.Tool{Capability: note(func(c *nacre.Capability) { c.ID, c.Tool = "a.b", "b" })}); err == nil {
		t.Error("a tool without a driver was taken")
	}
}

// D-12, D-30: what a group may use, sorted; intrinsics for everybody.
func TestTheCatalogIsWhatAGroupMayUse(t *testing.T) {
	h := open(t, nil)
	h.add(t, note(nil), nil)
	h.add(t, note(func(c *nacre.Capability) {
		c.ID, c.Tool, c.Intrinsic, c.Safety = "core.list_tools", "list_tools", true, nacre.Read
	}), nil)
	h.add(t, note(func(c *nacre.Capability) { c.ID, c.Tool = "alarms.alarm_set", "alarm_set" }), nil)
	names := func(group nacre.Group) (names []string) {
		for _, c := range h.Catalog(nacre.Principal{Group: group}) {
			names = append(names, string(c.Tool))
			c.Schema[0] = 'x' // a copy, whoever writes to it
		}
		return names
	}
	if have := strings.Join(names("main"), " "); have != "alarm_set list_tools note_add" {
		t.Errorf("have %s", have)
	}
	if have := strings.Join(names("other"), " "); have != "list_tools" {
		t.Errorf("have %s", have)
	}
	if have := h.Catalog(nacre.Principal{Group: "main"})[0].Schema[0]; have != '{' {
		t.Error("the catalog hands out the kernel's own schema")
	}
	if !h.Has("note_add") || h.Has("note_drop") || h.Source("note_add") != "notes" || h.Source("note_drop") != "" {
		t.Error("Has or Source is wrong")
	}
	c := call(milk)
	c.Tool, c.Principal = "list_tools", nacre.Principal{ID: "x", Group: "other", Session: "s"}
	if _, err := h.Call(t.Context(), c); err != nil {
		t.Errorf("an intrinsic of another group: %v", err)
	}
}
