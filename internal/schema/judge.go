package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/constraint"
	"github.com/nacre-dev/nacre/internal/wire"
)

// maxSteps is how often a schema is held against a value for one set of arguments:
// schemas that refer to each other could be made to multiply without an end.
const maxSteps = 3_000_000

// stepSize is how many bytes of a value are read, compared or spelled for a step.
const stepSize = 8

// sizeOfText is how many steps it takes to read a value that is a text.
func sizeOfText(value any) int {
	text, _ := value.(string)
	return len(text) / stepSize
}

// judge holds a schema against one value.
type judge struct {
	steps  int
	path   []string // of the value that is looked at
	active []*rules // what is being held against that value, so that circles end
}

// finding is what is wrong with a value.
type finding struct {
	place []string // of the value
	order string   // of what was said, among what was said of the place
	field []string // nil where no argument is at fault
	say   func() string
	plain bool // say names the argument by itself
}

// judged is the worst of what is wrong with a value, nil where nothing is.
func judged(r *rules, value any) *nacre.Refusal {
	j := &judge{steps: maxSteps}
	f := j.hold(r, value, nil)
	switch {
	case j.steps < 0:
		return &nacre.Refusal{Message: "the arguments take too long to be checked against their schema"}
	case f == nil:
		return nil
	}
	return f.refusal()
}

func (f *finding) refusal() *nacre.Refusal {
	why := f.say()
	if !f.plain && len(f.place) > 0 {
		why = dotted(f.place) + ": " + why
	}
	return &nacre.Refusal{Field: dotted(f.field), Message: cut(why, maxViolation)}
}

// worse is the first of two findings by place, so that the same arguments always
// get the same answer.
func worse(a, b *finding) *finding {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	c := slices.Compare(a.place, b.place)
	if c == 0 {
		c = strings.Compare(a.order, b.order)
	}
	if c > 0 {
		return b
	}
	return a
}

// say finds something wrong with the value that is looked at.
func (j *judge) say(r *rules, word string, text func() string) *finding {
	j.steps -= len(r.at) / stepSize
	at := slices.Clone(j.path)
	return &finding{place: at, order: r.at + "/" + word, field: at, say: text}
}

// name finds something wrong with a property that is, or should be, there.
func (j *judge) name(r *rules, word, name, text string) *finding {
	f := j.say(r, word, func() string { return text })
	f.field, f.plain = append(slices.Clone(f.place), name), true
	return f
}

// hold holds a schema against a value, and notes in m what it looked at.
func (j *judge) hold(r *rules, value any, m *marks) *finding {
	if r.never {
		return j.denied(r)
	}
	if j.steps -= r.cost + r.reads*sizeOfText(value) + len(j.active)/stepSize; j.steps < 0 {
		return j.say(r, "", func() string { return "it takes too long to be checked" })
	}
	if slices.Contains(j.active, r) {
		return j.say(r, "$ref", func() string { return "the schema refers to itself in a circle" })
	}
	j.active = append(j.active, r)
	defer func() { j.active = j.active[:len(j.active)-1] }()
	if f := j.itself(r, value); f != nil {
		return f
	}
	if m == nil && (r.rest.properties != nil || r.rest.items != nil) {
		m = &marks{}
	}
	var worst *finding
	if r.ref != nil {
		worst = j.inPlace(r.ref, value, m)
	}
	for _, check := range r.checks {
		worst = worse(worst, check(j, value))
	}
	switch v := value.(type) {
	case map[string]any:
		worst = worse(worst, j.object(r, v, m))
	case []any:
		worst = worse(worst, j.array(r, v, m))
	}
	for _, combined := range r.combined {
		worst = worse(worst, combined(j, value, m))
	}
	return worse(worst, j.rest(r, value, m))
}

func (j *judge) denied(r *rules) *finding {
	f := j.say(r, "", nil)
	f.say, f.plain = func() string { return fmt.Sprintf("property %.80q not allowed", dotted(f.place)) }, true
	return f
}

// itself asks what the value is: of one that is another, nothing else is said.
func (j *judge) itself(r *rules, value any) *finding {
	if len(r.kinds) > 0 && !isKind(value, r.kinds) {
		return j.say(r, "type", func() string { return fmt.Sprintf("got %s, want %s", kindOf(value), strings.Join(r.kinds, " or ")) })
	}
	for _, v := range r.values {
		key := keyOf(value)
		if j.steps -= len(key) / stepSize; !v.known[key] {
			return j.say(r, v.word, v.text)
		}
	}
	text, ok := value.(string)
	if r.format == "" || !ok {
		return nil
	}
	if err := checkFormat(r.format, text); err != nil {
		return j.say(r, "format", func() string { return fmt.Sprintf("%s is not valid %s: %v", shown(value), r.format, err) })
	}
	return nil
}

func (v values) text() string {
	var all []string
	for _, one := range v.shown {
		all = append(all, shown(one))
	}
	if len(all) == 1 {
		return "value must be " + all[0]
	}
	return "value must be one of " + strings.Join(all, ", ")
}

// shown is a value as a message has it.
func shown(value any) string {
	switch v := value.(type) {
	case string:
		return "'" + cut(v, maxViolation/3) + "'"
	case map[string]any, []any:
		return "value"
	case nil:
		return "null"
	}
	return fmt.Sprint(value)
}

// inPlace holds another schema against the same value: what it looked at counts
// where nothing is wrong.
func (j *judge) inPlace(r *rules, value any, m *marks) *finding {
	if m == nil {
		return j.hold(r, value, nil)
	}
	own := &marks{}
	f := j.hold(r, value, own)
	if f == nil {
		m.merge(own)
	}
	return f
}

// below holds a schema against a value inside of the one that is looked at.
func (j *judge) below(r *rules, value any, name string) *finding {
	around := j.active
	j.active, j.path = around[len(around):], append(j.path, name)
	f := j.hold(r, value, nil)
	j.active, j.path = around, j.path[:len(j.path)-1]
	return f
}

func (j *judge) object(r *rules, object map[string]any, m *marks) (worst *finding) {
	o := r.object
	if o.empty() {
		return nil
	}
	first, more := "", false // of what is not named
	for name, value := range object {
		f, known := j.property(o, name, value)
		switch {
		case known || o.additional == nil:
		case o.additional.never:
			if !more || name < first {
				first, more = name, true
			}
		default:
			f = j.below(o.additional, value, name)
		}
		if known || o.additional != nil {
			m.property(name)
		}
		if o.names != nil {
			f = worse(f, j.called(r, name))
		}
		worst = worse(worst, f)
	}
	if more {
		worst = worse(worst, j.name(r, "additionalProperties", first, fmt.Sprintf("additionalProperties %.80q not allowed", first)))
	}
	return worst
}

// property judges one by its name, and says whether anything was said of it.
func (j *judge) property(o objectRules, name string, value any) (worst *finding, known bool) {
	if inner, ok := o.properties[name]; ok {
		worst, known = j.below(inner, value, name), true
	}
	j.steps -= len(o.patterns)
	for _, p := range o.patterns {
		if p.names.MatchString(name) {
			worst, known = worse(worst, j.below(p.rules, value, name)), true
		}
	}
	return worst, known
}

// called judges the name of a property.
func (j *judge) called(r *rules, name string) *finding {
	own := &judge{steps: j.steps}
	inner := own.hold(r.object.names, name, nil)
	if j.steps = own.steps; inner == nil {
		return nil
	}
	said := func() string {
		return fmt.Sprintf("property name %.80q not allowed: %s", name, inner.say())
	}
	return &finding{place: append(slices.Clone(j.path), name), order: r.at + "/propertyNames", say: said, plain: true}
}

func (j *judge) array(r *rules, list []any, m *marks) (worst *finding) {
	for i, value := range list {
		switch {
		case i < len(r.array.prefix):
			worst = worse(worst, j.below(r.array.prefix[i], value, strconv.Itoa(i)))
			m.item(i)
		case r.array.items != nil:
			worst = worse(worst, j.below(r.array.items, value, strconv.Itoa(i)))
			m.item(i)
		default:
			return worst
		}
	}
	return worst
}

// rest judges what nothing else looked at.
func (j *judge) rest(r *rules, value any, m *marks) (worst *finding) {
	switch v := value.(type) {
	case map[string]any:
		if r.rest.properties == nil {
			return nil
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if !m.names[name] {
				worst = worse(worst, j.below(r.rest.properties, v[name], name))
				m.property(name)
			}
		}
	case []any:
		if r.rest.items == nil {
			return nil
		}
		for i, one := range v {
			if !m.items[i] {
				worst = worse(worst, j.below(r.rest.items, one, strconv.Itoa(i)))
				m.item(i)
			}
		}
	}
	return worst
}

// marks are what was looked at of an object or a list. A nil one notes nothing:
// nobody asks.
type marks struct {
	names map[string]bool
	items map[int]bool
}

func (m *marks) property(name string) {
	if m == nil {
		return
	}
	if m.names == nil {
		m.names = map[string]bool{}
	}
	m.names[name] = true
}

func (m *marks) item(i int) {
	if m == nil {
		return
	}
	if m.items == nil {
		m.items = map[int]bool{}
	}
	m.items[i] = true
}

func (m *marks) merge(other *marks) {
	for name := range other.names {
		m.property(name)
	}
	for i := range other.items {
		m.item(i)
	}
}

// kindOf is what JSON calls a value.
func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}

func isKind(value any, kinds []string) bool {
	if slices.Contains(kinds, kindOf(value)) {
		return true
	}
	number, ok := value.(json.Number)
	return ok && slices.Contains(kinds, "integer") && isWhole(number)
}

// isWhole says that a number is one, however it is spelled.
func isWhole(number json.Number) bool {
	if !strings.ContainsAny(string(number), ".eE") {
		return true
	}
	n, ok := new(big.Rat).SetString(string(number))
	return ok && n.IsInt()
}

// keyOf is the same for two values that are equal, and for no others: numbers
// count by what they are worth.
func keyOf(value any) string { return string(appendKey(nil, value)) }

func appendKey(out []byte, value any) []byte {
	switch v := value.(type) {
	case map[string]any:
		out = append(out, '{')
		for _, name := range slices.Sorted(maps.Keys(v)) {
			out = append(appendKey(append(wire.AppendText(out, name), ':'), v[name]), ',')
		}
		return append(out, '}')
	case []any:
		out = append(out, '[')
		for _, one := range v {
			out = append(appendKey(out, one), ',')
		}
		return append(out, ']')
	case string:
		return wire.AppendText(out, v)
	case json.Number:
		return appendNumberKey(out, v)
	case bool:
		return strconv.AppendBool(out, v)
	}
	return append(out, "null"...)
}

func appendNumberKey(out []byte, number json.Number) []byte {
	if form, err := constraint.Canonical([]byte(number)); err == nil {
		return append(out, form...)
	}
	if n, ok := new(big.Rat).SetString(string(number)); ok { // longer than anybody writes
		return append(out, n.RatString()...)
	}
	return append(out, number...)
}
