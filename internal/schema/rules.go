package schema

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// rules are what a schema says of a value, compiled.
type rules struct {
	at       string // the schema's place in the whole, by which findings are ordered
	never    bool   // nothing is valid
	kinds    []string
	values   []values // enum and const
	format   string
	fallback *any // the default
	ref      *rules
	checks   []check // what can be said without looking inside of the value
	object   objectRules
	array    arrayRules
	combined []combination
	rest     rest
	cost     int
	reads    int // how often a value that is a text is read to its end
}

// check says what is wrong with a value, nil where nothing is, or where it is of
// another kind than the check is about.
type check func(j *judge, value any) *finding

// combination holds other schemas against the same value, and notes in m what
// they looked at.
type combination func(j *judge, value any, m *marks) *finding

// values are those that a value has to be one of.
type values struct {
	word  string
	known map[string]bool
	shown []any
}

// objectRules are about an object's properties.
type objectRules struct {
	properties map[string]*rules
	patterns   []patternRules
	additional *rules
	names      *rules
}

func (o objectRules) empty() bool {
	return len(o.properties) == 0 && len(o.patterns) == 0 && o.additional == nil && o.names == nil
}

// patternRules are about properties whose names match.
type patternRules struct {
	names *regexp.Regexp
	rules *rules
}

// arrayRules are about a list's elements.
type arrayRules struct {
	prefix []*rules
	items  *rules
}

// rest is about what nothing else looked at.
type rest struct{ properties, items *rules }

// builder compiles a schema, and each part of it once.
type builder struct {
	root map[string]any
	// open takes references to anywhere in the schema, and formats that nothing
	// checks: what holds an operator's settings need not be closed (D-25).
	open bool
	// older takes the words of drafts 6, 7 and 2019-09, too.
	older bool
	made  map[string]*rules
}

func compileRules(root map[string]any) (*rules, error) {
	b := &builder{root: root, made: map[string]*rules{}}
	return b.schema(root, "")
}

// schema compiles what stands at a place, a JSON pointer.
func (b *builder) schema(node any, at string) (*rules, error) {
	if made := b.made[at]; made != nil {
		return made, nil
	}
	r := &rules{at: at, cost: 1}
	b.made[at] = r // before what is inside of it: that may refer to it
	switch s := node.(type) {
	case bool:
		r.never = !s
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(s)) {
			if err := b.keyword(r, s, name); err != nil {
				return nil, err
			}
		}
	default:
		return nil, fmt.Errorf("%s: a schema is an object or a boolean", place(at))
	}
	return r, nil
}

func place(at string) string {
	if at == "" {
		return "schema"
	}
	return "schema at " + cut(at, maxViolation)
}

// escaped and unescaped are what a name is in a JSON Pointer, and back.
var (
	escaped   = sync.OnceValue(func() *strings.Replacer { return strings.NewReplacer("~", "~0", "/", "~1") })
	unescaped = sync.OnceValue(func() *strings.Replacer { return strings.NewReplacer("~1", "/", "~0", "~") })
)

// part compiles a schema under a keyword.
func (b *builder) part(r *rules, node any, path ...string) (*rules, error) {
	at := r.at
	for _, p := range path {
		at += "/" + escaped().Replace(p)
	}
	return b.schema(node, at)
}

// parts compiles the schemas of a list.
func (b *builder) parts(r *rules, name string, value any) ([]*rules, error) {
	list, ok := value.([]any)
	if !ok || len(list) == 0 {
		return nil, r.wrong(name, "a list of schemas, with one at least")
	}
	all := make([]*rules, len(list))
	for i, node := range list {
		var err error
		if all[i], err = b.part(r, node, name, strconv.Itoa(i)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// named compiles the schemas of an object.
func (b *builder) named(r *rules, name string, value any) (map[string]*rules, error) {
	object, ok := value.(map[string]any)
	if !ok {
		return nil, r.wrong(name, "an object of schemas")
	}
	all := make(map[string]*rules, len(object))
	for _, key := range slices.Sorted(maps.Keys(object)) {
		var err error
		if all[key], err = b.part(r, object[key], name, key); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (r *rules) wrong(name, want string) error {
	return fmt.Errorf("%s: %q is not %s", place(r.at), name, want)
}

// reference compiles what a $ref refers to.
func (b *builder) reference(r *rules, value any) (*rules, error) {
	text, ok := value.(string)
	if !ok {
		return nil, r.wrong("$ref", "a text")
	}
	if name, old := strings.CutPrefix(text, "#/definitions/"); old && b.open && b.root["definitions"] == nil {
		text = "#/$defs/" + name // as older drafts say it
	}
	at, node, err := find(b.root, text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", place(r.at), err)
	}
	return b.schema(node, at)
}

// find looks up a reference within a schema. The place that it returns is spelled
// in one way.
func find(root map[string]any, ref string) (at string, node any, err error) {
	pointer, local := strings.CutPrefix(ref, "#")
	if !local || pointer != "" && pointer[0] != '/' || strings.Contains(pointer, "%") {
		return "", nil, fmt.Errorf("$ref %.80q: refer to #/$defs/… in the same schema", ref)
	}
	node = root
	if pointer == "" {
		return "", node, nil
	}
	for _, part := range strings.Split(pointer, "/")[1:] {
		name := unescaped().Replace(part)
		if list, ok := node.([]any); ok {
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(list) || strconv.Itoa(i) != name {
				return "", nil, fmt.Errorf("$ref %.80q: there is no such schema", ref)
			}
		}
		if node = child(node, name); node == nil {
			return "", nil, fmt.Errorf("$ref %.80q: there is no such schema", ref)
		}
		at += "/" + escaped().Replace(name)
	}
	return at, node, nil
}
