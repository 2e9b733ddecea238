package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/nacre-dev/nacre"
)

// The limits of a policy file.
const (
	MaxFile  = 1 << 20
	MaxRules = 4096
	maxText  = 500
)

// What may stand in each table of the file.
var (
	fileKeys  = []string{"default", "rules"}
	ruleKeys  = []string{"name", "action", "reason", "match"}
	matchKeys = []string{
		"tool", "capability", "group", "safety_class", "sensitivity",
		"roles", "attributes", "min_justification", "high_risk",
	}
)

// Parse reads a policy in TOML. name is what messages call the file. Unknown
// keys, wrong types, empty lists and malformed patterns are errors that name
// the line; nothing is ignored (K-05).
func Parse(name string, data []byte) (*Policy, error) {
	if len(data) > MaxFile {
		return nil, fmt.Errorf("%s: %d bytes, the limit is %d", name, len(data), MaxFile)
	}
	var tree map[string]any
	if _, err := toml.Decode(string(data), &tree); err != nil {
		var bad toml.ParseError
		if errors.As(err, &bad) {
			return nil, fmt.Errorf("%s:%d: %s", name, bad.Position.Line, bad.Message)
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f := file{name: name, lines: locate(string(data))}
	p := &Policy{name: name, version: digest(data)}
	if err := f.policy(p, tree); err != nil {
		return nil, err
	}
	return p, nil
}

// file reads values out of a decoded tree, and knows where they stand.
type file struct {
	name  string
	lines places
}

// errorf names the line of a key: of the rule with that number, or of the file for -1.
func (f file) errorf(rule int, key, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", f.name, f.lines.of(rule, key), fmt.Errorf(format, args...))
}

func (f file) policy(p *Policy, tree map[string]any) error {
	if err := f.known(-1, "", tree, fileKeys); err != nil {
		return err
	}
	if value, ok := tree["default"]; ok {
		verdict, err := f.verdict(-1, "default", value)
		if err != nil {
			return err
		}
		p.fallback = verdict
	}
	value, ok := tree["rules"]
	if !ok {
		return nil
	}
	rules, ok := value.([]map[string]any)
	if !ok {
		return f.errorf(-1, "rules", "rules: write each rule as a [[rules]] table")
	}
	if len(rules) > MaxRules {
		return f.errorf(-1, "rules", "%d rules, the limit is %d", len(rules), MaxRules)
	}
	for i, entry := range rules {
		rule, err := f.rule(i, entry)
		if err != nil {
			return err
		}
		p.rules = append(p.rules, rule)
	}
	return nil
}

func (f file) rule(i int, entry map[string]any) (rule, error) {
	if err := f.known(i, "", entry, ruleKeys); err != nil {
		return rule{}, err
	}
	name, err := f.text(i, "name", entry)
	if err != nil {
		return rule{}, err
	}
	if name == "" {
		name = fmt.Sprintf("rule-%d", i)
	}
	r := rule{place: fmt.Sprintf("%s:%d, rule %q", f.name, f.lines.of(i, ""), name)}
	if r.reason, err = f.text(i, "reason", entry); err != nil {
		return rule{}, err
	}
	action, ok := entry["action"]
	if !ok {
		return rule{}, f.errorf(i, "", "rule %q has no action: allow, ask or deny", name)
	}
	if r.verdict, err = f.verdict(i, "action", action); err != nil {
		return rule{}, err
	}
	match, ok := entry["match"].(map[string]any)
	if !ok {
		return rule{}, f.errorf(i, "match", "rule %q has no match table; to match everything write match = {}", name)
	}
	r.match, err = f.match(i, match)
	return r, err
}

func (f file) match(i int, table map[string]any) ([]condition, error) {
	if err := f.known(i, "match.", table, matchKeys); err != nil {
		return nil, err
	}
	var conditions []condition
	for _, key := range matchKeys { // in this order, whatever the file's
		value, ok := table[key]
		if !ok {
			continue
		}
		more, err := f.condition(i, key, value)
		if err != nil {
			return nil, err
		}
		conditions = append(conditions, more...)
	}
	return conditions, nil
}

func (f file) condition(i int, key string, value any) ([]condition, error) {
	switch key {
	case "attributes":
		return f.attributes(i, value)
	case "min_justification":
		n, ok := value.(int64)
		if !ok || n < 0 || n > maxText {
			return nil, f.errorf(i, "match."+key, "min_justification: use a number from 0 to %d", maxText)
		}
		return []condition{justified(int(n))}, nil
	case "high_risk":
		want, ok := value.(bool)
		if !ok {
			return nil, f.errorf(i, "match."+key, "high_risk: use true or false")
		}
		return []condition{{"", func(r Request) bool { return r.Capability.HighRisk == want }}}, nil
	}
	list, err := f.list(i, "match."+key, value)
	if err != nil {
		return nil, err
	}
	c, err := listed(key, list)
	if err != nil {
		return nil, f.errorf(i, "match."+key, "%s: %w", key, err)
	}
	return []condition{c}, nil
}

// listed makes the condition of a key whose value is a list.
func listed(key string, list []string) (condition, error) {
	switch key {
	case "safety_class":
		classes, err := parseAll(list, func(s string) (c nacre.SafetyClass, err error) {
			err = c.UnmarshalText([]byte(s))
			return c, err
		})
		return condition{"", func(r Request) bool { return slices.Contains(classes, r.Capability.Safety) }}, err
	case "sensitivity":
		kinds, err := parseAll(list, func(s string) (k nacre.Sensitivity, err error) {
			err = k.UnmarshalText([]byte(s))
			return k, err
		})
		return condition{"", func(r Request) bool { return slices.Contains(kinds, r.Capability.Sensitivity) }}, err
	case "roles":
		return anyRole(list), nil
	}
	globs, err := parseAll(list, parseGlob)
	return globbed(globs, nameOf(key)), err
}

// nameOf is what a list of globs under key is held against.
func nameOf(key string) func(Request) string {
	switch key {
	case "tool":
		return func(r Request) string { return string(r.Capability.Tool) }
	case "capability":
		return func(r Request) string { return string(r.Capability.ID) }
	default:
		return func(r Request) string { return string(r.Principal.Group) }
	}
}

func parseAll[T any](list []string, parse func(string) (T, error)) ([]T, error) {
	all := make([]T, 0, len(list))
	for _, s := range list {
		value, err := parse(s)
		if err != nil {
			return nil, err
		}
		all = append(all, value)
	}
	return all, nil
}

func (f file) attributes(i int, value any) ([]condition, error) {
	table, ok := value.(map[string]any)
	if !ok || len(table) == 0 {
		return nil, f.errorf(i, "match.attributes", `attributes: use a table of names and values, "*" for any value`)
	}
	names := make([]string, 0, len(table))
	for name := range table {
		names = append(names, name)
	}
	slices.Sort(names)
	var conditions []condition
	for _, name := range names {
		want, ok := table[name].(string)
		if !ok {
			return nil, f.errorf(i, "match.attributes."+name, "attribute %s: use a string", name)
		}
		conditions = append(conditions, attribute(name, want))
	}
	return conditions, nil
}

func (f file) verdict(i int, key string, value any) (nacre.Verdict, error) {
	var v nacre.Verdict
	s, ok := value.(string)
	if !ok || v.UnmarshalText([]byte(s)) != nil {
		return nacre.Deny, f.errorf(i, key, "%s %q: use allow, ask or deny", key, fmt.Sprint(value))
	}
	return v, nil
}

// text is an optional string of at most maxText bytes.
func (f file) text(i int, key string, table map[string]any) (string, error) {
	value, ok := table[key]
	if !ok {
		return "", nil
	}
	s, ok := value.(string)
	if !ok || len(s) > maxText {
		return "", f.errorf(i, key, "%s: use a string of at most %d bytes", key, maxText)
	}
	return s, nil
}

// list refuses an empty list, which would match nothing and look like a rule.
func (f file) list(i int, key string, value any) ([]string, error) {
	values, ok := value.([]any)
	if !ok || len(values) == 0 {
		return nil, f.errorf(i, key, "%s: use a list of strings, such as [\"*\"]", strings.TrimPrefix(key, "match."))
	}
	list := make([]string, 0, len(values))
	for _, v := range values {
		s, ok := v.(string)
		if !ok || s == "" {
			return nil, f.errorf(i, key, "%s: %v is not a string that names something", strings.TrimPrefix(key, "match."), v)
		}
		list = append(list, s)
	}
	return list, nil
}

func (f file) known(i int, prefix string, table map[string]any, allowed []string) error {
	unknown := make([]string, 0, 1)
	for key := range table {
		if !slices.Contains(allowed, key) {
			unknown = append(unknown, key)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.SortFunc(unknown, func(a, b string) int { return f.lines.of(i, prefix+a) - f.lines.of(i, prefix+b) })
	return f.errorf(i, prefix+unknown[0], "unknown key %q; %s", unknown[0], suggest(unknown[0], allowed))
}
