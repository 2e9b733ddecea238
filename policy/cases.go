package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/constraint"
)

// MaxCases is how many cases one file may hold.
const MaxCases = 10_000

// Case is a request and what a policy should decide on it (K-06).
type Case struct {
	Name    string
	Line    int
	Request Request
	Expect  nacre.Verdict
	// Code and Rule are looked at where they are given; Rule is a rule's name,
	// or "default".
	Code nacre.ReasonCode
	Rule string
}

// Failure says how a decision differs from what was expected; empty where it
// does not.
func (c Case) Failure(d nacre.Decision) string {
	var wrong []string
	if d.Verdict != c.Expect {
		wrong = append(wrong, fmt.Sprintf("%s, not %s", d.Verdict, c.Expect))
	}
	if c.Code != "" && d.Code != c.Code {
		wrong = append(wrong, fmt.Sprintf("code %s, not %s", d.Code, c.Code))
	}
	named := d.Rule == c.Rule || strings.HasSuffix(d.Rule, fmt.Sprintf("rule %q", c.Rule)) || c.Rule == "default" && strings.HasSuffix(d.Rule, ", default")
	if c.Rule != "" && !named {
		wrong = append(wrong, fmt.Sprintf("by %s, not rule %q", d.Rule, c.Rule))
	}
	return strings.Join(wrong, "; ")
}

// ParseCases reads cases, as TOML with [[cases]] tables, or as YAML or JSON: a
// list, or a mapping with cases. It refuses what it does not know, and a file
// without any case: nothing would be tested by it.
func ParseCases(name string, data []byte) ([]Case, error) {
	tree, err := readTree(name, "cases", data)
	if err != nil {
		return nil, err
	}
	f := file{name}
	list := tree
	if tree.kind == kindTable {
		if err := f.known(tree, []string{"cases"}); err != nil {
			return nil, err
		}
		list = tree.table["cases"]
	}
	if list == nil || list.kind != kindList || len(list.list) == 0 {
		return nil, f.errorf(tree.line, "there are no cases: a test of nothing proves nothing")
	}
	if len(list.list) > MaxCases {
		return nil, f.errorf(list.line, "%d cases, the limit is %d", len(list.list), MaxCases)
	}
	cases := make([]Case, 0, len(list.list))
	for i, n := range list.list {
		c, err := f.testCase(i, n)
		if err != nil {
			return nil, err
		}
		cases = append(cases, c)
	}
	return cases, nil
}

func (f file) testCase(i int, n *node) (Case, error) {
	if n.kind != kindTable {
		return Case{}, f.errorf(n.line, "case %d is a table of name, request and expect", i)
	}
	if err := f.known(n, []string{"name", "request", "expect", "code", "rule"}); err != nil {
		return Case{}, err
	}
	c := Case{Line: n.line}
	var err error
	if c.Name, err = f.text(n, "name"); err != nil {
		return c, err
	}
	if c.Name == "" {
		c.Name = fmt.Sprintf("case-%d", i)
	}
	code, err := f.text(n, "code")
	if err != nil {
		return c, err
	}
	c.Code = nacre.ReasonCode(code)
	if c.Rule, err = f.text(n, "rule"); err != nil {
		return c, err
	}
	expect, request := n.table["expect"], n.table["request"]
	if expect == nil || request == nil {
		return c, f.errorf(n.line, "case %q wants a request, and expect: allow, ask or deny", c.Name)
	}
	if c.Expect, err = f.verdict("expect", expect); err != nil {
		return c, err
	}
	c.Request, err = f.request(request)
	return c, err
}

// ParseRequest reads one request, in the form of a case's, as JSON, YAML or TOML.
func ParseRequest(name string, data []byte) (Request, error) {
	tree, err := readTree(name, "\x00", data)
	if err != nil {
		return Request{}, err
	}
	return file{name}.request(tree)
}

// capabilityForm is a capability as a person writes it in a request.
type capabilityForm struct {
	Capability    nacre.CapabilityID `json:"capability"`
	Tool          nacre.ToolName     `json:"tool"`
	Safety        *nacre.SafetyClass `json:"safety_class"`
	Sensitivity   nacre.Sensitivity  `json:"sensitivity"`
	HighRisk      bool               `json:"high_risk"`
	Behavioural   bool               `json:"behavioural"`
	Sinks         []string           `json:"sinks"`
	AllowedFields []string           `json:"allowed_fields"`
}

// principalForm is a principal as a person writes it in a request.
type principalForm struct {
	Principal     string            `json:"principal"`
	Group         nacre.Group       `json:"group"`
	Roles         []string          `json:"roles"`
	Attributes    map[string]string `json:"attributes"`
	Justification string            `json:"justification"`
	Intent        string            `json:"intent"`
	Scope         map[string]string `json:"scope"`
	Channel       string            `json:"channel"`
}

// requestForm is a request as a person writes it.
type requestForm struct {
	capabilityForm
	principalForm
	Taint         bool                        `json:"taint"`
	ReadUntrusted bool                        `json:"read_untrusted"`
	Provenance    map[string]nacre.Provenance `json:"provenance"`
	Arguments     json.RawMessage             `json:"arguments"`
	Constraints   json.RawMessage             `json:"constraints"`
}

func requestKeys() []string {
	return []string{
		"capability", "tool", "safety_class", "sensitivity", "high_risk", "behavioural", "sinks", "allowed_fields", "principal", "group",
		"roles", "attributes", "justification", "intent", "scope", "channel", "taint", "read_untrusted", "provenance", "arguments", "constraints",
	}
}

func (f file) request(n *node) (Request, error) {
	if n.kind != kindTable {
		return Request{}, f.errorf(n.line, "a request is a table with a capability and a safety_class")
	}
	if err := f.known(n, requestKeys()); err != nil {
		return Request{}, err
	}
	if asked := n.table["constraints"]; asked != nil && asked.table["max_rows"] != nil {
		asked.table["max_rows"].round()
	}
	form := requestForm{capabilityForm: capabilityForm{Sensitivity: nacre.SensitiveNone}}
	for _, key := range n.keys() {
		raw, err := n.table[key].json()
		if err != nil {
			return Request{}, f.errorf(n.table[key].line, "%s: %w", key, err)
		}
		member := slices.Concat([]byte(`{"`+key+`":`), raw, []byte("}"))
		if err := json.Unmarshal(member, &form); err != nil {
			return Request{}, f.errorf(n.table[key].line, "%s: %w", key, err)
		}
	}
	if form.Capability == "" || form.Safety == nil {
		return Request{}, f.errorf(n.line, "a request needs a capability and a safety_class: READ, WRITE or DESTRUCTIVE")
	}
	r, err := form.request()
	if err != nil {
		return Request{}, f.errorf(n.line, "%w", err)
	}
	return r, nil
}

// round makes a number of rows that a request asks for of how it may be written (K-04): as a text,
// or with a fraction, which is dropped. Fewer than none are none. What is something else is left to
// be refused.
func (n *node) round() {
	whole := n.text
	if n.kind == kindFloat {
		var fraction string
		if whole, fraction, _ = strings.Cut(n.text, "."); strings.Trim(fraction, "0123456789") != "" {
			return
		}
	}
	if rows, err := strconv.ParseInt(whole, 10, 32); err == nil {
		n.kind, n.text = kindInt, strconv.FormatInt(max(rows, 0), 10)
	}
}

func (form requestForm) request() (Request, error) {
	constraints, err := constraint.Parse(form.Constraints)
	if err != nil {
		return Request{}, err
	}
	if form.Tool == "" {
		form.Tool = nacre.ToolName(form.Capability[strings.LastIndexByte(string(form.Capability), '.')+1:])
	}
	arguments := bytes.TrimSpace(form.Arguments)
	if len(arguments) > 0 && arguments[0] != '{' {
		return Request{}, fmt.Errorf("arguments: use a table")
	}
	r := Request{
		Principal: nacre.Principal{
			ID: form.Principal, Group: form.Group, Roles: form.Roles, Attributes: form.Attributes, Justification: form.Justification,
			Intent: form.Intent, Scope: form.Scope, Channel: form.Channel,
		},
		Capability: nacre.Capability{
			ID: form.Capability, Tool: form.Tool, Safety: *form.Safety, Sensitivity: form.Sensitivity, Handling: nacre.Handling{HighRisk: form.HighRisk,
				Behavioural: form.Behavioural}, Values: nacre.Values{Sinks: form.Sinks}, AllowedFields: form.AllowedFields,
		},
		Arguments: arguments, Constraints: constraints, Tainted: form.Taint, ReadUntrusted: form.ReadUntrusted,
	}
	for path, p := range form.Provenance {
		r.Origins = append(r.Origins, nacre.Origin{Argument: path, Provenance: p})
	}
	slices.SortFunc(r.Origins, func(a, b nacre.Origin) int { return strings.Compare(a.Argument, b.Argument) })
	return r, nil
}

// json is a value as JSON.
func (n *node) json() ([]byte, error) {
	switch n.kind {
	case kindTable:
		return joined(n.keys(), "{", "}", func(key string) ([]byte, error) {
			name, err := json.Marshal(key)
			if err != nil {
				return nil, err
			}
			value, err := n.table[key].json()
			return slices.Concat(name, []byte(":"), value), err
		})
	case kindList:
		return joined(n.list, "[", "]", (*node).json)
	case kindText:
		return json.Marshal(n.text)
	case kindNull:
		return []byte("null"), nil
	case kindBool, kindInt, kindFloat:
		return []byte(n.text), nil
	case kindOther:
	}
	return nil, fmt.Errorf("%.80s has no form in JSON; put it in quotes", n.text)
}

func joined[T any](all []T, open, end string, of func(T) ([]byte, error)) ([]byte, error) {
	parts := make([][]byte, 0, len(all))
	for _, one := range all {
		part, err := of(one)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return slices.Concat([]byte(open), bytes.Join(parts, []byte(",")), []byte(end)), nil
}
