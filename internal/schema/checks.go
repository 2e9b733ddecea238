package schema

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// size compiles a limit of how long or many something is.
func (r *rules) size(name string, value any) error {
	want, err := r.sizeOf(name, value)
	if err != nil || name == "minContains" || name == "maxContains" {
		return err // of contains, which reads them
	}
	least, of := name[:3] == "min", name[3:]
	if of == "Length" {
		r.reads++
	}
	r.checks = append(r.checks, func(j *judge, value any) *finding {
		have, ok := measure(of, value)
		if !ok || least && have >= want || !least && have <= want {
			return nil
		}
		return j.say(r, name, func() string { return fmt.Sprintf("%s: got %d, want %d", name, have, want) })
	})
	return nil
}

// measure says how large a value is, if it is of the kind that the limit is of.
func measure(limit string, value any) (int, bool) {
	switch v := value.(type) {
	case string:
		return utf8.RuneCountInString(v), limit == "Length"
	case []any:
		return len(v), limit == "Items"
	case map[string]any:
		return len(v), limit == "Properties"
	}
	return 0, false
}

// needs compiles what an object must have, and that a list must not have twice.
func (r *rules) needs(name string, value any) error {
	switch name {
	case "required":
		return r.required(value)
	case "dependentRequired":
		return r.dependentRequired(value)
	}
	unique, ok := value.(bool)
	if !ok {
		return r.wrong(name, "true or false")
	}
	if unique {
		r.checks = append(r.checks, func(j *judge, value any) *finding { return j.unique(r, value) })
	}
	return nil
}

func (r *rules) required(value any) error {
	names, err := r.stringList("required", value)
	r.cost += len(names)
	slices.Sort(names)
	r.checks = append(r.checks, func(j *judge, value any) *finding {
		name, lacks := lacking(value, names)
		if !lacks {
			return nil
		}
		return j.name(r, "required", name, fmt.Sprintf("missing required property %q", name))
	})
	return err
}

func (r *rules) dependentRequired(value any) error {
	object, ok := value.(map[string]any)
	if !ok {
		return r.wrong("dependentRequired", "an object of lists")
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		names, err := r.stringList("dependentRequired", object[key])
		if err != nil {
			return err
		}
		r.cost += len(names)
		slices.Sort(names)
		r.checks = append(r.checks, func(j *judge, value any) *finding {
			given, _ := value.(map[string]any)
			name, lacks := lacking(value, names)
			if _, there := given[key]; !there || !lacks {
				return nil
			}
			return j.name(r, "dependentRequired/"+key, name, fmt.Sprintf("missing property %q, which %q needs", name, key))
		})
	}
	return nil
}

// lacking is the first of the names that an object does not have.
func lacking(value any, names []string) (string, bool) {
	object, ok := value.(map[string]any)
	if !ok {
		return "", false
	}
	for _, name := range names {
		if _, there := object[name]; !there {
			return name, true
		}
	}
	return "", false
}

// unique finds the first element that equals one before it.
func (j *judge) unique(r *rules, value any) *finding {
	list, ok := value.([]any)
	if !ok {
		return nil
	}
	seen := make(map[string]int, len(list))
	for i, one := range list {
		key := keyOf(one)
		j.steps -= 1 + len(key)/stepSize
		if before, twice := seen[key]; twice {
			return j.say(r, "uniqueItems", func() string { return fmt.Sprintf("items at %d and %d are equal", before, i) })
		}
		seen[key] = i
	}
	return nil
}

// contains compiles that some of a list's elements are valid by a schema. A list is
// looked at in the order of combinations: what it has notes in marks.
func (b *builder) contains(r *rules, s map[string]any, value any) error {
	inner, err := b.part(r, value, "contains")
	if err != nil {
		return err
	}
	least, most := 1, -1
	if given, ok := s["minContains"]; ok {
		if least, err = r.sizeOf("minContains", given); err != nil {
			return err
		}
	}
	if given, ok := s["maxContains"]; ok {
		if most, err = r.sizeOf("maxContains", given); err != nil {
			return err
		}
	}
	r.combined = append(r.combined, func(j *judge, value any, m *marks) *finding {
		list, ok := value.([]any)
		if !ok {
			return nil
		}
		matched, worst := 0, (*finding)(nil)
		for i, one := range list {
			f := j.below(inner, one, strconv.Itoa(i))
			if f == nil {
				matched++
				m.item(i)
			}
			worst = worse(worst, f)
		}
		switch {
		case matched < least && worst != nil:
			return worst
		case matched < least:
			return j.say(r, "contains", func() string {
				return fmt.Sprintf("%d items match the contains schema, %d have to", matched, least)
			})
		case most >= 0 && matched > most:
			return j.say(r, "maxContains", func() string {
				return fmt.Sprintf("%d items match the contains schema, %d may", matched, most)
			})
		}
		return nil
	})
	return nil
}

// combine compiles what holds other schemas against the same value.
func (b *builder) combine(r *rules, s map[string]any, name string, value any) error {
	switch name {
	case "allOf", "anyOf", "oneOf":
		all, err := b.parts(r, name, value)
		r.combined = append(r.combined, combinationOf(r, name, all))
		return err
	case "not":
		inner, err := b.part(r, value, name)
		r.combined = append(r.combined, func(j *judge, value any, _ *marks) *finding {
			if j.inPlace(inner, value, nil) != nil {
				return nil
			}
			return j.say(r, name, func() string { return "what it is is not allowed: it matches the schema under not" })
		})
		return err
	case "if":
		return b.condition(r, s, value)
	case "then", "else":
		_, err := b.part(r, value, name) // what "if" asks for, and checked where there is none
		return err
	}
	return b.dependentSchemas(r, value)
}

func combinationOf(r *rules, name string, all []*rules) combination {
	return func(j *judge, value any, m *marks) *finding {
		matched, worst := 0, (*finding)(nil)
		for _, one := range all {
			f := j.inPlace(one, value, m)
			worst = worse(worst, f)
			if f == nil {
				matched++
			}
			if f == nil && (name == "anyOf" && m == nil || name == "oneOf" && matched > 1) {
				break
			}
		}
		switch {
		case name == "allOf":
			return worst
		case name == "oneOf" && matched > 1:
			return j.say(r, name, func() string { return "it matches more than one of the schemas under oneOf" })
		case matched == 0:
			return worst
		}
		return nil
	}
}

func (b *builder) condition(r *rules, s map[string]any, value any) error {
	asked, err := b.part(r, value, "if")
	if err != nil {
		return err
	}
	branch := func(name string) *rules {
		node, there := s[name]
		if !there || err != nil {
			return nil
		}
		var made *rules
		made, err = b.part(r, node, name)
		return made
	}
	then, otherwise := branch("then"), branch("else")
	r.combined = append(r.combined, func(j *judge, value any, m *marks) *finding {
		next := otherwise
		if j.inPlace(asked, value, m) == nil {
			next = then
		}
		if next == nil {
			return nil
		}
		return j.inPlace(next, value, m)
	})
	return err
}

func (b *builder) dependentSchemas(r *rules, value any) error {
	all, err := b.named(r, "dependentSchemas", value)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		inner := all[name]
		r.combined = append(r.combined, func(j *judge, value any, m *marks) *finding {
			object, _ := value.(map[string]any)
			if _, there := object[name]; !there {
				return nil
			}
			return j.inPlace(inner, value, m)
		})
	}
	return err
}
