package plugintest

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nacre-dev/nacre/internal/schema"
	"github.com/nacre-dev/nacre/plugin"
)

const (
	maxGenerate = 16 // levels of a schema that are filled
	maxTried    = 64 // sets of arguments that are tried for one tool
)

// marker is what a text of one group must not be found by in another.
const marker = "mark-7d1f3c"

// awkward is a text that handlers trip over: not ASCII, quotes, a line's end in
// three spellings.
const awkward = marker + " naïve 日本 \"quoted\" \\ \u2028 line\nend 🙂"

// A sample is arguments that fit a tool's schema, with defaults inserted.
type sample struct {
	kind      string // "smallest", "all", "awkward", or "example"
	arguments json.RawMessage
}

// samples are the arguments a tool is called with: the manifest's own examples
// first, then the smallest valid, all optional ones, and texts that are awkward.
func samples(t plugin.ToolSpec) []sample {
	compiled, err := schema.Compile(t.ArgumentsSchema)
	if err != nil {
		return nil
	}
	root, ok := decode(t.ArgumentsSchema).(map[string]any)
	if !ok {
		return nil
	}
	var found []sample
	add := func(kind string, value any) bool {
		raw, err := json.Marshal(value)
		if err != nil {
			return false
		}
		full, refusal := compiled.Arguments(raw)
		if refusal != nil {
			return false
		}
		if !slices.ContainsFunc(found, func(s sample) bool { return bytes.Equal(s.arguments, full) }) {
			found = append(found, sample{kind, full})
		}
		return true
	}
	for _, example := range listOf(root["examples"]) {
		add("example", example)
	}
	for _, g := range []generator{{kind: "smallest"}, {kind: "all", optional: true}, {kind: "awkward", optional: true, text: awkward}} {
		g.root = root
		for g.turn = 0; g.turn < maxTried; g.turn++ {
			if add(g.kind, g.value(root, 0)) {
				break
			}
		}
	}
	return found
}

// generator makes values for a schema. What it cannot know, such as what a
// pattern wants, it tries: each turn takes the next candidate.
type generator struct {
	kind     string
	root     map[string]any
	optional bool
	text     string // for strings that may be anything
	turn     int
}

func (g *generator) value(of any, depth int) any {
	s, ok := of.(map[string]any)
	if !ok || depth > maxGenerate {
		return nil
	}
	if v, ok := s["const"]; ok {
		return v
	}
	if list := listOf(s["examples"]); len(list) > 0 && depth > 0 {
		return list[g.turn%len(list)]
	}
	if list := listOf(s["enum"]); len(list) > 0 {
		return list[g.turn%len(list)]
	}
	if ref, ok := s["$ref"].(string); ok {
		return g.value(g.resolve(ref), depth+1)
	}
	for _, key := range []string{"oneOf", "anyOf"} {
		if list := listOf(s[key]); len(list) > 0 {
			return g.value(merged(s, list[g.turn%len(list)], key), depth+1)
		}
	}
	if list := listOf(s["allOf"]); len(list) > 0 {
		whole := s
		for _, one := range list {
			whole = merged(whole, one, "allOf")
		}
		return g.value(whole, depth+1)
	}
	return g.typed(s, depth)
}

func (g *generator) typed(s map[string]any, depth int) any {
	switch kindOf(s) {
	case "object":
		return g.object(s, depth)
	case "array":
		return g.array(s, depth)
	case "integer", "number":
		return g.number(s)
	case "boolean":
		return g.turn%2 == 1
	case "string":
		return g.string(s)
	}
	return nil
}

func (g *generator) object(s map[string]any, depth int) map[string]any {
	object := map[string]any{}
	properties, _ := s["properties"].(map[string]any)
	required := listOf(s["required"])
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if g.optional || slices.Contains(required, any(name)) {
			object[name] = g.value(properties[name], depth+1)
		}
	}
	return object
}

func (g *generator) array(s map[string]any, depth int) []any {
	n := int(numberOf(s["minItems"], 0))
	if g.optional {
		n = max(n, int(min(1, numberOf(s["maxItems"], 1))))
	}
	list := []any{}
	prefix := listOf(s["prefixItems"])
	for i := range min(n, 100) {
		item := s["items"]
		if i < len(prefix) {
			item = prefix[i]
		}
		each := *g
		each.turn += i // for uniqueItems
		list = append(list, each.value(item, depth+1))
	}
	return list
}

func (g *generator) number(s map[string]any) any {
	low, high := numberOf(s["minimum"], math.Inf(-1)), numberOf(s["maximum"], math.Inf(1))
	if v, ok := s["exclusiveMinimum"]; ok {
		low = math.Max(low, math.Floor(numberOf(v, 0))+1)
	}
	if v, ok := s["exclusiveMaximum"]; ok {
		high = math.Min(high, math.Ceil(numberOf(v, 0))-1)
	}
	n := float64(1 + g.turn)
	if !math.IsInf(low, -1) {
		n = math.Ceil(low) + float64(g.turn)
	}
	n = math.Min(n, high)
	if step := numberOf(s["multipleOf"], 0); step > 0 {
		n = math.Ceil(n/step) * step
	}
	return json.Number(strings.TrimSuffix(strings.TrimRight(formatNumber(n), "0"), "."))
}

func formatNumber(n float64) string {
	raw, err := json.Marshal(n)
	if err != nil || !bytes.ContainsRune(raw, '.') {
		return string(raw) + "."
	}
	return string(raw)
}

// patterned are texts that patterns often want.
func patterned() []string {
	return []string{
		"a", "A", "1", "a1", "A1", "abc", "ABC", "R-1", "a-1", "a_b", "abc-123", "2026-01-02", "12:30", "0", "10", "1.0", "1.0.0", "#123456", "a@example.com",
		"https://example.com/", "00000000-0000-4000-8000-000000000000", "deadbeef", "en", "en-US", "EUR", "+15550100", "/a", "a/b", "a.b", "@a", "#a", "$1",
	}
}

// formatted are texts in the formats that schemas name.
func formatted() map[string]string {
	return map[string]string{
		"date-time": "2026-01-02T15:04:05Z", "date": "2026-01-02", "time": "15:04:05Z", "duration": "P1D", "period": "2026-01-02T15:04:05Z/P1D",
		"email": "ada@example.com", "hostname": "example.com", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1", "uri": "https://example.com/",
		"uri-reference": "/a", "iri": "https://example.com/", "iri-reference": "/a", "uri-template": "https://example.com/{a}",
		"uuid": "00000000-0000-4000-8000-000000000000", "json-pointer": "/a", "relative-json-pointer": "0", "regex": "a", "semver": "1.0.0",
	}
}

func (g *generator) string(s map[string]any) string {
	if format, ok := s["format"].(string); ok {
		return formatted()[format]
	}
	least, most := int(numberOf(s["minLength"], 0)), int(numberOf(s["maxLength"], 1000))
	text := "test"
	if _, ok := s["pattern"]; ok {
		texts := patterned()
		text = texts[g.turn%len(texts)]
		if g.turn >= len(texts) {
			text = strings.Repeat(text, 4)
		}
	} else if g.text != "" {
		text = g.text
	}
	runes := []rune(text)
	if len(runes) > most {
		return string(runes[:max(0, most)])
	}
	if least > len(runes) && least < 1<<16 {
		text = string(runes) + strings.Repeat(string(runes[len(runes)-1]), least-utf8.RuneCountInString(text))
	}
	return text
}

func (g *generator) resolve(ref string) any {
	var at any = g.root
	for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		object, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
	}
	return at
}

// merged is a schema with another one's keywords in it, and without the one
// that composed them.
func merged(s map[string]any, with any, but string) map[string]any {
	whole := maps.Clone(s)
	delete(whole, but)
	more, _ := with.(map[string]any)
	for key, value := range more {
		switch old := whole[key].(type) {
		case map[string]any:
			if v, ok := value.(map[string]any); ok {
				both := maps.Clone(old)
				maps.Copy(both, v)
				value = both
			}
		case []any:
			if v, ok := value.([]any); ok && key == "required" {
				value = slices.Concat(old, v)
			}
		}
		whole[key] = value
	}
	return whole
}

func kindOf(s map[string]any) string {
	switch t := s["type"].(type) {
	case string:
		return t
	case []any:
		for _, one := range t {
			if name, ok := one.(string); ok && name != "null" {
				return name
			}
		}
	}
	if _, ok := s["properties"]; ok {
		return "object"
	}
	return "string"
}

func listOf(v any) []any {
	list, _ := v.([]any)
	return list
}

func numberOf(v any, otherwise float64) float64 {
	n, ok := v.(json.Number)
	if !ok {
		return otherwise
	}
	f, err := n.Float64()
	if err != nil {
		return otherwise
	}
	return f
}

func decode(raw []byte) any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}
