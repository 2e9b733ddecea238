package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/quantity"
)

// Refused reports whether a finding is of what can never do what it says: a policy
// with one decides otherwise than its author meant (K-32).
func (f Finding) Refused() bool {
	return slices.Contains([]string{findingUncompared, findingNever, findingNoTool}, f.Code)
}

const (
	findingUncompared = "not_compared"
	findingNever      = "never_matches"
	findingNoTool     = "no_tool"
)

// FindingsFor are those of Findings, and what the arguments' types in the schemas of tools say of
// the rules (K-32). That tells conditions that no argument of these tools can meet, and rules that
// no call of them can reach.
func (p *Policy) FindingsFor(tools []nacre.Capability) []Finding {
	findings := p.Findings()
	for i := range p.rules {
		findings = append(findings, p.rules[i].fit(tools)...)
	}
	slices.SortStableFunc(findings, func(a, b Finding) int { return a.Line - b.Line })
	return findings
}

// fit holds a rule against the tools that it is about.
func (r *rule) fit(tools []nacre.Capability) []Finding {
	var meant []nacre.Capability
	for _, c := range tools {
		if r.about(&c) {
			meant = append(meant, c)
		}
	}
	if len(meant) == 0 {
		return []Finding{{r.line, findingNoTool, fmt.Sprintf("rule %q is about none of the %d tools that there are", r.name, len(tools))}}
	}
	var findings []Finding
	for i := range r.match {
		if c := &r.match[i]; c.key == keyArguments {
			findings = append(findings, r.argumentFit(c, meant)...)
		}
	}
	return findings
}

// about reports whether a rule can match some call of a tool.
func (r *rule) about(tool *nacre.Capability) bool {
	s := subject{request: &Request{Capability: *tool}}
	for i := range r.match {
		switch c := &r.match[i]; c.key {
		case keyTool, keyCapability, keySafety, keySensitivity, keyHighRisk, keyBehavioural:
			if c.holds(&s, true) == no {
				return false
			}
		}
	}
	return true
}

// argumentFit tells of a condition that no argument of these tools meets: none of them has
// it, or its type is another one in all of them.
func (r *rule) argumentFit(c *condition, tools []nacre.Capability) []Finding {
	have := map[string]bool{}
	for i := range tools {
		types, known := typesAt(tools[i].Schema, c.name)
		if !known {
			return nil // the schema says it in a way that is not read here
		}
		for _, one := range types {
			have[one] = true
		}
	}
	if len(have) == 0 {
		return []Finding{{c.line, findingNever, fmt.Sprintf("rule %q: none of its tools has an argument %q", r.name, c.name)}}
	}
	if wants := wantedBy(c, r.verdict == nacre.Allow); wants != nil && !slices.ContainsFunc(wants, func(one string) bool { return have[one] }) {
		text := fmt.Sprintf("rule %q: argument %q is %s, and the rule can only match %s", r.name, c.name, said(have), strings.Join(wants, " or "))
		return []Finding{{c.line, findingNever, text}}
	}
	return nil
}

func said(types map[string]bool) string {
	var all []string
	for one := range types {
		all = append(all, one)
	}
	slices.Sort(all)
	return strings.Join(all, " or ")
}

// The types of JSON Schema.
const (
	typeText    = "string"
	typeNumber  = "number"
	typeInteger = "integer"
	typeBool    = "boolean"
	typeList    = "array"
	typeObject  = "object"
)

// wantedBy are the types of the values that a condition can match; nil where any can. What
// does not let through also looks into lists and objects, and for numbers in texts.
func wantedBy(c *condition, lets bool) []string {
	wants := map[string]bool{typeList: true}
	if !lets {
		wants[typeObject] = true
	}
	for i := range c.patterns {
		if c.patterns[i].any {
			return nil
		}
		wants[typeText] = true
	}
	if len(c.scalars) > 0 {
		wants[typeNumber], wants[typeInteger], wants[typeBool], wants[typeText] = true, true, true, wants[typeText] || !lets
	}
	for i := range c.bounds {
		switch c.bounds[i].Kind() {
		case quantity.Numbers:
			wants[typeNumber], wants[typeInteger], wants[typeText] = true, true, wants[typeText] || !lets
		case quantity.Days:
			wants[typeText] = true
			wants[typeNumber], wants[typeInteger] = wants[typeNumber] || !lets, wants[typeInteger] || !lets
		case quantity.Lengths:
			wants[typeText] = true
		}
	}
	all := []string{}
	for _, one := range [...]string{typeText, typeNumber, typeInteger, typeBool, typeList, typeObject} {
		if wants[one] {
			all = append(all, one)
		}
	}
	return all
}

// schemaNode is as much of a JSON Schema as tells the type of a place. Anything else in it that
// could is not read.
type schemaNode struct {
	Type       json.RawMessage            `json:"type"`
	Properties map[string]json.RawMessage `json:"properties"`
	Items      json.RawMessage            `json:"items"`
	Ref        json.RawMessage            `json:"$ref"`
	AnyOf      json.RawMessage            `json:"anyOf"`
	OneOf      json.RawMessage            `json:"oneOf"`
	AllOf      json.RawMessage            `json:"allOf"`
	Pattern    json.RawMessage            `json:"patternProperties"`
	Additional json.RawMessage            `json:"additionalProperties"`
}

// typesAt are the types that a schema allows at a dotted path; none where there is no
// such place. known is false where the schema says it in another way.
func typesAt(raw json.RawMessage, path string) (types []string, known bool) {
	var s schemaNode
	if json.Unmarshal(raw, &s) != nil || s.Ref != nil || s.AnyOf != nil || s.OneOf != nil || s.AllOf != nil || s.Pattern != nil {
		return nil, false
	}
	if path == "" {
		var one string
		if json.Unmarshal(s.Type, &one) == nil {
			return []string{one}, true
		}
		return types, json.Unmarshal(s.Type, &types) == nil && len(types) > 0
	}
	name, rest, _ := strings.Cut(path, ".")
	if below, has := s.Properties[name]; has {
		return typesAt(below, rest)
	}
	if _, err := strconv.ParseUint(name, 10, 31); err == nil && s.Items != nil {
		return typesAt(s.Items, rest)
	}
	if s.Properties[path] != nil || string(s.Additional) != "false" {
		return nil, false
	}
	return nil, true
}
