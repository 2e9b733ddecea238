package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/policy"
)

// maxPolicyInput is the largest policy, request or file of cases, in bytes.
const maxPolicyInput = policy.MaxFile

func (a *app) policyCommand() *cobra.Command {
	return group("policy", "check, test and try out policies, offline",
		a.policyCheckCommand(), a.policyTestCommand(), a.policyExplainCommand(), a.policyReplayCommand())
}

func (a *app) policyCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use: "check FILE", Short: "read a policy and say what is wrong with it",
		Long: `Reads a policy in TOML, or in YAML where its name ends in .yaml, .yml or .json.
Exit 0: it can be used; what may not be meant is shown. Exit 1: it does not parse,
or its default is allow, which the daemon refuses. Exit 2: the file cannot be read.`,
		Example: "  nacre policy check policy.toml", Args: oneArgument("a file"),
		RunE: func(_ *cobra.Command, args []string) error { return a.checkPolicy(args[0]) },
	}
}

// checkedPolicy is what policy check says.
type checkedPolicy struct {
	OK       bool             `json:"ok"`
	File     string           `json:"file"`
	Error    string           `json:"error,omitempty"`
	Rules    int              `json:"rules"`
	Default  nacre.Verdict    `json:"default"`
	Version  string           `json:"version,omitempty"`
	Findings []policy.Finding `json:"findings"`
}

func (a *app) checkPolicy(path string) error {
	data, err := readInput(path)
	if err != nil {
		return err
	}
	said := checkedPolicy{File: path, Findings: []policy.Finding{}}
	p, err := policy.Parse(path, data)
	if err != nil {
		said.Error = err.Error()
	} else {
		said.Rules, said.Default, said.Version, said.Findings = p.Rules(), p.Default(), p.Version(), p.Findings()
		said.OK = p.Default() != nacre.Allow
	}
	if a.json {
		if err := printJSON(a.stdout, said); err != nil {
			return err
		}
		if !said.OK {
			return &exitError{code: exitFailed}
		}
		return nil
	}
	if err != nil {
		return &exitError{exitFailed, err}
	}
	printer := a.printer(a.stdout)
	for _, f := range said.Findings {
		printer.Line("%s:%d: %s: %s", path, f.Line, f.Code, f.Text)
	}
	if !said.OK {
		return &exitError{exitFailed, fmt.Errorf("%s: default = \"allow\": write deny or ask", path)}
	}
	printer.Mark("ok", "", fmt.Sprintf("%s: %d rules, default %s", path, said.Rules, said.Default))
	return nil
}

// readInput reads a file of bounded size; what cannot be read is exit 2.
func readInput(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &usageError{err}
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, maxPolicyInput+1))
	if err != nil {
		return nil, &usageError{err}
	}
	if len(data) > maxPolicyInput {
		return nil, usage("%s: more than %d bytes", path, maxPolicyInput)
	}
	return data, nil
}

// readPolicy reads a policy to decide with; one that does not parse is exit 2.
func readPolicy(path string) (*policy.Policy, error) {
	data, err := readInput(path)
	if err != nil {
		return nil, err
	}
	p, err := policy.Parse(path, data)
	if err != nil {
		return nil, &usageError{err}
	}
	return p, nil
}

func (a *app) policyTestCommand() *cobra.Command {
	return &cobra.Command{
		Use: "test FILE CASES", Short: "hold a policy against expected decisions",
		Long: `Decides each case of CASES (TOML with [[cases]] tables, YAML or JSON) and compares.
A case has a name, a request, and expect: allow, ask or deny; code and rule where
they matter. Exit 1 where a case fails, 2 where a file cannot be used or holds no case.`,
		Example: "  nacre policy test policy.toml cases.yaml", Args: twoArguments("a policy and a file of cases"),
		RunE: func(_ *cobra.Command, args []string) error { return a.testPolicy(args[0], args[1]) },
	}
}

func twoArguments(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 2 {
			return usage("%s takes %s; see %s --help", c.CommandPath(), what, c.CommandPath())
		}
		return nil
	}
}

// testedCase is what became of one case.
type testedCase struct {
	Name    string           `json:"name"`
	OK      bool             `json:"ok"`
	Verdict nacre.Verdict    `json:"verdict"`
	Code    nacre.ReasonCode `json:"code"`
	Rule    string           `json:"rule"`
	Failure string           `json:"failure,omitempty"`
	line    int
}

func (a *app) testPolicy(path, casesPath string) error {
	p, err := readPolicy(path)
	if err != nil {
		return err
	}
	data, err := readInput(casesPath)
	if err != nil {
		return err
	}
	cases, err := policy.ParseCases(casesPath, data)
	if err != nil {
		return &usageError{err}
	}
	results, failed := make([]testedCase, 0, len(cases)), 0
	for _, c := range cases {
		d := p.Decide(c.Request)
		r := testedCase{c.Name, true, d.Verdict, d.Code, d.Rule, c.Failure(d), c.Line}
		if r.Failure != "" {
			r.OK = false
			failed++
		}
		results = append(results, r)
	}
	if err := a.printTested(casesPath, results, failed); err != nil {
		return err
	}
	if failed > 0 {
		return &exitError{exitFailed, fmt.Errorf("%d of %d cases failed", failed, len(cases))}
	}
	return nil
}

func (a *app) printTested(path string, results []testedCase, failed int) error {
	if a.json {
		return printJSON(a.stdout, map[string]any{"ok": failed == 0, "failed": failed, "cases": results})
	}
	rows := make([][]string, 0, len(results))
	for _, r := range results {
		mark := "ok"
		if !r.OK {
			mark = fmt.Sprintf("FAILED %s:%d: %s", filepath.Base(path), r.line, r.Failure)
		}
		rows = append(rows, []string{r.Name, r.Verdict.String(), string(r.Code), mark})
	}
	printer := a.printer(a.stdout)
	printer.Table([]string{"case", "decision", "code", "result"}, rows)
	if failed == 0 {
		printer.Mark("ok", "", fmt.Sprintf("%d cases hold", len(results)))
	}
	return nil
}

// requestFlags are a request on a command line.
type requestFlags struct {
	file                                          string
	capability, tool, safety, sensitivity         string
	group, channel, intent, justification         string
	roles, arguments, attributes, scope, seen     []string
	taint, readUntrusted, highRisk, behaviouralOn bool
}

func (a *app) policyExplainCommand() *cobra.Command {
	var f requestFlags
	c := &cobra.Command{
		Use: "explain FILE", Short: "show how a policy decides on one request, and what would change it",
		Example: `  nacre policy explain policy.toml --capability mail.send --safety WRITE --role writer --arg to=bob@example.com
  nacre policy explain policy.toml --request request.json`,
		Args: oneArgument("a policy"),
		RunE: func(c *cobra.Command, args []string) error { return a.explainPolicy(args[0], f, c) },
	}
	flags := c.Flags()
	flags.StringVar(&f.file, "request", "", "file with the request, in JSON, YAML or TOML, in place of the other flags")
	flags.StringVar(&f.capability, "capability", "", "capability that is called, such as mail.send")
	flags.StringVar(&f.tool, "tool", "", "name of its tool (default: the last part of the capability)")
	flags.StringVar(&f.safety, "safety", "", "READ, WRITE or DESTRUCTIVE")
	flags.StringVar(&f.sensitivity, "sensitivity", "NONE", "NONE, MEMORY, PII, PCI or SECRETS")
	flags.StringVar(&f.group, "group", "", "group of the principal")
	flags.StringVar(&f.channel, "channel", "", "where the work came from")
	flags.StringVar(&f.intent, "intent", "", "what the session was opened for")
	flags.StringVar(&f.justification, "justification", "", "the operator's task text")
	flags.StringArrayVar(&f.roles, "role", nil, "role of the principal; may be repeated")
	flags.StringArrayVar(&f.arguments, "arg", nil, "argument as NAME=VALUE, JSON or text; may be repeated")
	flags.StringArrayVar(&f.attributes, "attribute", nil, "attribute as NAME=VALUE; may be repeated")
	flags.StringArrayVar(&f.scope, "scope", nil, "scope as NAME=VALUE; may be repeated")
	flags.StringArrayVar(&f.seen, "provenance", nil, "where a sink's value was seen, as NAME=operator|trusted|untrusted|nowhere")
	flags.BoolVar(&f.taint, "taint", false, "the session is tainted")
	flags.BoolVar(&f.readUntrusted, "read-untrusted", false, "the session has read untrusted text")
	flags.BoolVar(&f.highRisk, "high-risk", false, "the tool is marked as high risk")
	flags.BoolVar(&f.behaviouralOn, "behavioural", false, "later sessions act on what it writes")
	return c
}

func (a *app) explainPolicy(path string, f requestFlags, c *cobra.Command) error {
	p, err := readPolicy(path)
	if err != nil {
		return err
	}
	r, err := f.request(c)
	if err != nil {
		return err
	}
	d, trace, denial := p.Decide(r), p.Trace(r), p.Explain(r)
	if a.json {
		return printJSON(a.stdout, map[string]any{"decision": d, "trace": trace, "denial": denial})
	}
	printer := a.printer(a.stdout)
	printer.Line("%s  %s  %s", d.Verdict, d.Code, d.Rule)
	if d.Message != "" {
		printer.Line("  %s", d.Message)
	}
	if !d.Constraints.IsZero() {
		narrowed, err := json.Marshal(d.Constraints)
		if err != nil {
			return err
		}
		printer.Line("  narrowed to %s", narrowed)
	}
	rows := make([][]string, 0, len(trace.Steps))
	for _, s := range trace.Steps {
		rows = append(rows, []string{s.Outcome, s.Rule, s.Detail, string(s.Code)})
	}
	printer.Table([]string{"step", "rule", "detail", "code"}, rows)
	if !denial.Denied {
		return nil
	}
	printer.Line("%s", denial.Narrative)
	for _, failed := range denial.Failed {
		printer.Line("  %s: wants %s, has %s (%s)", failed.Condition, failed.Required, failed.Actual, failed.Code)
	}
	for _, remedy := range denial.Remediation {
		printer.Line("  → %s", remedy)
	}
	return nil
}

func (f requestFlags) request(c *cobra.Command) (policy.Request, error) {
	if f.file != "" {
		allowed := 1
		if c.Flags().Changed("json") {
			allowed = 2
		}
		if c.Flags().NFlag() > allowed {
			return policy.Request{}, usage("--request stands in place of the other flags; see %s --help", c.CommandPath())
		}
		data, err := readInput(f.file)
		if err != nil {
			return policy.Request{}, err
		}
		r, err := policy.ParseRequest(f.file, data)
		if err != nil {
			return policy.Request{}, &usageError{err}
		}
		return r, nil
	}
	if f.capability == "" || f.safety == "" {
		return policy.Request{}, usage("--capability and --safety, or --request, are needed; see %s --help", c.CommandPath())
	}
	form, err := f.form()
	if err != nil {
		return policy.Request{}, err
	}
	data, err := json.Marshal(form)
	if err != nil {
		return policy.Request{}, err
	}
	r, err := policy.ParseRequest("flags.json", data)
	if err != nil {
		return policy.Request{}, usage("%s", strings.TrimPrefix(err.Error(), "flags.json:1: "))
	}
	return r, nil
}

// form is what the flags say, in the form of a file.
func (f requestFlags) form() (map[string]any, error) {
	form := map[string]any{
		"capability": f.capability, "safety_class": f.safety, "sensitivity": f.sensitivity, "group": f.group, "channel": f.channel,
		"intent": f.intent, "justification": f.justification, "taint": f.taint, "read_untrusted": f.readUntrusted,
		"high_risk": f.highRisk, "behavioural": f.behaviouralOn,
	}
	if f.tool != "" {
		form["tool"] = f.tool
	}
	if f.roles != nil {
		form["roles"] = f.roles
	}
	for _, table := range []struct {
		flag, key string
		given     []string
	}{
		{"--arg", "arguments", f.arguments}, {"--attribute", "attributes", f.attributes},
		{"--scope", "scope", f.scope}, {"--provenance", "provenance", f.seen},
	} {
		values := map[string]any{}
		for _, one := range table.given {
			name, value, ok := strings.Cut(one, "=")
			if _, twice := values[name]; !ok || name == "" || twice {
				return nil, usage("%s %q: use NAME=VALUE, each name once", table.flag, one)
			}
			values[name] = value
			if table.key == "arguments" && json.Valid([]byte(value)) {
				values[name] = json.RawMessage(value)
			}
		}
		if len(values) > 0 {
			form[table.key] = values
		}
	}
	return form, nil
}

// sortedKeys are the keys of a map, in order.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
