package policy

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/nacre-dev/nacre"
)

// The limits of a policy file.
const (
	MaxFile  = 1 << 20
	MaxRules = 4096
	maxText  = 500
	// maxList is how many names one key may list.
	maxList = 1024
)

// fileKeys are what may stand at the top of a policy, ruleKeys in a rule.
func fileKeys() []string { return []string{"default", "rules"} }

func ruleKeys() []string {
	return []string{"name", "action", "approvers", "reason", "match", "constraints"}
}

func matchKeys() []string {
	return []string{
		keyTool, keyCapability, keySafety, keySensitivity, keyHighRisk, keyBehavioural, keyGroup, keyChannel, keyTaint,
		keyUntrusted, keyIntent, keyRoles, keyJustified, keyAttributes, keyScope, keySinks, keyProvenance, keyArguments,
	}
}

// Parse reads a policy: in YAML where name ends in .yaml or .yml, in JSON where
// it ends in .json, else in TOML. name is what messages call the file. Unknown keys, wrong types,
// empty lists and malformed patterns are errors that name the line; nothing is
// ignored (K-05).
func Parse(name string, data []byte) (*Policy, error) {
	tree, err := readTree(name, "rules", data)
	if err != nil {
		return nil, err
	}
	if tree.kind != kindTable {
		return nil, (file{name}).errorf(tree.line, "a policy is a mapping of default and rules")
	}
	p := &Policy{name: name, version: digest(data)}
	if err := (file{name}).policy(p, tree); err != nil {
		return nil, err
	}
	p.index = newIndex(p.rules)
	return p, nil
}

// readTree reads the notation that a file's name says.
func readTree(name, list string, data []byte) (*node, error) {
	if len(data) > MaxFile {
		return nil, fmt.Errorf("%s: %d bytes, the limit is %d", name, len(data), MaxFile)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // some editors begin every file with it
	switch lower := strings.ToLower(name); {
	case strings.HasSuffix(lower, ".yaml"), strings.HasSuffix(lower, ".yml"):
		return readYAML(name, data)
	case strings.HasSuffix(lower, ".json"):
		return readJSON(name, data)
	}
	return readTOML(name, list, data)
}

func (f file) policy(p *Policy, tree *node) error {
	if err := f.known(tree, fileKeys()); err != nil {
		return err
	}
	if n := tree.table["default"]; n != nil {
		verdict, err := f.verdict("default", n)
		if err != nil {
			return err
		}
		p.fallback, p.fallbackLine = verdict, n.line
	}
	rules := tree.table["rules"]
	if rules == nil {
		return nil
	}
	if rules.kind != kindList {
		return f.errorf(rules.line, "rules: write a list of rules")
	}
	if len(rules.list) > MaxRules {
		return f.errorf(rules.line, "%d rules, the limit is %d", len(rules.list), MaxRules)
	}
	for i, n := range rules.list {
		r, err := f.rule(i, n)
		if err != nil {
			return err
		}
		p.rules = append(p.rules, r)
	}
	return nil
}

func (f file) rule(i int, n *node) (rule, error) {
	if n.kind != kindTable {
		return rule{}, f.errorf(n.line, "rule %d is %.80s: a rule is a table of name, action and match", i, n)
	}
	if err := f.known(n, ruleKeys()); err != nil {
		return rule{}, err
	}
	name, err := f.text(n, "name")
	if err != nil {
		return rule{}, err
	}
	if name == "" {
		name = fmt.Sprintf("rule-%d", i)
	}
	r := rule{name: name, line: n.line, place: fmt.Sprintf("%s:%d, rule %q", f.name, n.line, name)}
	if r.reason, err = f.text(n, "reason"); err != nil {
		return rule{}, err
	}
	action := n.table["action"]
	if action == nil {
		return rule{}, f.errorf(n.line, "rule %q has no action: allow, ask or deny", name)
	}
	if r.verdict, err = f.verdict("action", action); err != nil {
		return rule{}, err
	}
	if r.approvers, err = f.approvers(n, r.verdict); err != nil {
		return rule{}, err
	}
	match := n.table["match"]
	if match == nil || match.kind != kindTable {
		line := n.line
		if match != nil {
			line = match.line
		}
		return rule{}, f.errorf(line, "rule %q has no match table; to match everything write match = {}", name)
	}
	if r.match, err = f.match(match); err != nil {
		return rule{}, err
	}
	if constraints := n.table["constraints"]; constraints != nil {
		r.constraints, err = f.constraints(constraints)
	}
	r.code = r.codeOf()
	return r, err
}

// maxApprovers is how many persons a rule may want.
const maxApprovers = 9

// approvers is how many persons have to approve what a rule asks (M-46); 0 means one.
func (f file) approvers(table *node, verdict nacre.Verdict) (int, error) {
	n := table.table["approvers"]
	switch {
	case n == nil:
		return 0, nil
	case n.kind != kindInt || n.num < 1 || n.num > maxApprovers:
		return 0, f.errorf(n.line, "approvers: use a number from 1 to %d", maxApprovers)
	case verdict != nacre.Ask:
		return 0, f.errorf(n.line, "approvers goes with action = \"ask\"")
	}
	return int(n.num), nil
}

func (f file) match(table *node) ([]condition, error) {
	if err := f.known(table, matchKeys()); err != nil {
		return nil, err
	}
	var conditions []condition
	for _, key := range matchKeys() { // in this order, whatever the file's
		n := table.table[key]
		if n == nil {
			continue
		}
		more, err := f.condition(key, n)
		if err != nil {
			return nil, err
		}
		for i := range more {
			more[i].line = n.line
		}
		conditions = append(conditions, more...)
	}
	return conditions, nil
}

func (f file) condition(key string, n *node) ([]condition, error) {
	switch key {
	case keyAttributes, keyScope, keyArguments:
		return f.values(key, n)
	case keyProvenance:
		if n.kind == kindTable {
			return f.provenances(n)
		}
	case keyJustified:
		if n.kind != kindInt || n.num < 0 || n.num > maxText {
			return nil, f.errorf(n.line, "min_justification: use a number from 0 to %d", maxText)
		}
		return []condition{{key: key, count: int(n.num)}}, nil
	case keyHighRisk, keyBehavioural, keyTaint, keyUntrusted, keySinks:
		if n.kind != kindBool {
			return nil, f.errorf(n.line, "%s: use true or false", key)
		}
		return []condition{{key: key, want: n.yes}}, nil
	}
	list, err := f.texts(key, n)
	if err != nil {
		return nil, err
	}
	if len(list) > maxList {
		return nil, f.errorf(n.line, "%s: %d names, the limit is %d", key, len(list), maxList)
	}
	c, err := listed(key, list)
	if err != nil {
		return nil, f.errorf(n.line, "%s: %w", key, err)
	}
	return []condition{c}, nil
}

// listed makes the condition of a key whose value is a list.
func listed(key string, list []string) (condition, error) {
	c := condition{key: key}
	var err error
	switch key {
	case keySafety:
		c.bits, err = bitsOf(list, func(s string) (uint8, error) {
			var class nacre.SafetyClass
			err := class.UnmarshalText([]byte(s))
			return uint8(class), err
		})
	case keySensitivity:
		c.bits, err = bitsOf(list, func(s string) (uint8, error) {
			var kind nacre.Sensitivity
			err := kind.UnmarshalText([]byte(s))
			return uint8(kind), err
		})
	case keyProvenance:
		c.bits, err = provenanceBits(list)
	case keyRoles:
		c.words = list
	case keyIntent:
		c.patterns, err = parseAll(list, parsePattern)
	default:
		c.globs, err = parseAll(list, parseGlob)
	}
	return c, err
}

func provenanceBits(list []string) (uint16, error) {
	return bitsOf(list, func(s string) (uint8, error) {
		var p nacre.Provenance
		err := p.UnmarshalText([]byte(s))
		return uint8(p), err
	})
}

func bitsOf(list []string, parse func(string) (uint8, error)) (uint16, error) {
	bits := uint16(0)
	for _, s := range list {
		bit, err := parse(s)
		if err != nil {
			return 0, err
		}
		bits |= 1 << bit
	}
	return bits, nil
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

func (f file) verdict(key string, n *node) (nacre.Verdict, error) {
	var v nacre.Verdict
	if n.kind != kindText || v.UnmarshalText([]byte(n.text)) != nil {
		return nacre.Deny, f.errorf(n.line, "%s %q: use allow, ask or deny", key, n.String())
	}
	return v, nil
}

// text is an optional string of at most maxText bytes.
func (f file) text(n *node, key string) (string, error) {
	value := n.table[key]
	if value == nil {
		return "", nil
	}
	if value.kind != kindText || len(value.text) > maxText {
		return "", f.errorf(value.line, "%s: use a string of at most %d bytes", key, maxText)
	}
	return value.text, nil
}
