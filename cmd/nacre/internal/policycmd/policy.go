package policycmd

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/policy"
)

type policyCommand Commands

func (cmd policyCommand) command() *cobra.Command {
	return command.Group("policy", "write, check, test, try out, compare and accept policies",
		cmd.initCommand(), cmd.checkCommand(), cmd.testCommand(), cmd.explainCommand(), cmd.replayCommand(), cmd.diffCommand(), cmd.acceptCommand())
}

func (cmd policyCommand) checkCommand() *cobra.Command {
	var plugins []string
	check := &cobra.Command{
		Use: "check FILE", Short: "read a policy and say what is wrong with it",
		Long: `Reads a policy in TOML, or in YAML where its name ends in .yaml, .yml or .json.
With --plugins its rules are held against the tools of the plugins in a folder: what no
argument of theirs can meet is named with the argument's type, and so are rules about
no tool. Exit 0: it can be used; what may not be meant is shown. Exit 1: it does not
parse, a rule can never match, or its default is allow, which nacre refuses. Exit
2: a file cannot be read.`,
		Example: "  nacre policy check policy.toml\n  nacre policy check policy.toml --plugins ~/.local/share/nacre/plugins",
		Args:    command.OneArgument("a file"),
		RunE:    func(_ *cobra.Command, args []string) error { return cmd.checkPolicy(args[0], plugins) },
	}
	check.Flags().StringArrayVar(&plugins, "plugins", nil, "a `FOLDER` of plugins to hold the rules against")
	return check
}

// toolsIn are the tools of the plugins in folders.
func toolsIn(folders []string) ([]nacre.Capability, error) {
	found, err := pluginhost.Discover(folders...)
	if err != nil {
		return nil, command.UsageOf(err)
	}
	var tools []nacre.Capability
	for _, f := range found {
		if f.Err != nil {
			return nil, command.UsageOf(fmt.Errorf("%s: %w", f.Dir, f.Err))
		}
		for _, t := range f.Manifest.Provides.Tools {
			tools = append(tools, t.Capability(f.Name, f.Hash))
		}
	}
	if len(tools) == 0 {
		return nil, command.UsageOf(fmt.Errorf("%s: there is no plugin with a tool", strings.Join(folders, ", ")))
	}
	return tools, nil
}

// findings are what a policy's author should look at again.
func findings(p *policy.Policy, folders []string) ([]policy.Finding, error) {
	if len(folders) == 0 {
		return p.Findings(), nil
	}
	tools, err := toolsIn(folders)
	if err != nil {
		return nil, err
	}
	return p.FindingsFor(tools), nil
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

func (cmd policyCommand) checkPolicy(path string, folders []string) error {
	data, err := command.ReadInput(path)
	if err != nil {
		return err
	}
	said := checkedPolicy{File: path, Findings: []policy.Finding{}}
	p, err := policy.Parse(path, data)
	if err != nil {
		said.Error = err.Error()
	} else {
		said.Rules, said.Default, said.Version = p.Rules(), p.Default(), p.Version()
		if said.Findings, err = findings(p, folders); err != nil {
			return err
		}
		said.OK = p.Default() != nacre.Allow && !slices.ContainsFunc(said.Findings, policy.Finding.Refused)
	}
	if cmd.JSON {
		if err := cmd.PrintJSON(said); err != nil {
			return err
		}
		if !said.OK {
			return command.Exit(command.ExitFailed)
		}
		return nil
	}
	if err != nil {
		return command.ExitWith(command.ExitFailed, err)
	}
	printer := cmd.Printer(cmd.Stdout)
	for _, f := range said.Findings {
		printer.Line("%s:%d: %s: %s", path, f.Line, f.Code, f.Text)
	}
	if !said.OK && said.Default == nacre.Allow {
		return command.ExitWith(command.ExitFailed, fmt.Errorf("%s: default = \"allow\": write deny or ask", path))
	}
	if !said.OK {
		return command.ExitWith(command.ExitFailed, fmt.Errorf("%s: a rule of it can never match as it is written", path))
	}
	printer.Mark("ok", "", fmt.Sprintf("%s: %d rules, default %s", path, said.Rules, said.Default))
	return nil
}

// readPolicy reads a policy to decide with; one that does not parse is exit 2.
func readPolicy(path string) (*policy.Policy, error) {
	data, err := command.ReadInput(path)
	if err != nil {
		return nil, err
	}
	p, err := policy.Parse(path, data)
	if err != nil {
		return nil, command.UsageOf(err)
	}
	return p, nil
}

func (cmd policyCommand) testCommand() *cobra.Command {
	return &cobra.Command{
		Use: "test FILE CASES", Short: "hold a policy against expected decisions",
		Long: `Decides each case of CASES (TOML with [[cases]] tables, YAML or JSON) and compares.
A case has a name, a request, and expect: allow, ask or deny; code and rule where
they matter. Exit 1 where a case fails, 2 where a file cannot be used or holds no case.`,
		Example: "  nacre policy test policy.toml cases.yaml", Args: command.TwoArguments("a policy and a file of cases"),
		RunE: func(_ *cobra.Command, args []string) error { return cmd.testPolicy(args[0], args[1]) },
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

func (cmd policyCommand) testPolicy(path, casesPath string) error {
	p, err := readPolicy(path)
	if err != nil {
		return err
	}
	data, err := command.ReadInput(casesPath)
	if err != nil {
		return err
	}
	cases, err := policy.ParseCases(casesPath, data)
	if err != nil {
		return command.UsageOf(err)
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
	if err := cmd.printTested(casesPath, results, failed); err != nil {
		return err
	}
	if failed > 0 {
		return command.ExitWith(command.ExitFailed, fmt.Errorf("%d of %d cases failed", failed, len(cases)))
	}
	return nil
}

func (cmd policyCommand) printTested(path string, results []testedCase, failed int) error {
	if cmd.JSON {
		return cmd.PrintJSON(map[string]any{"ok": failed == 0, "failed": failed, "cases": results})
	}
	rows := make([][]string, 0, len(results))
	for _, r := range results {
		mark := "ok"
		if !r.OK {
			mark = fmt.Sprintf("FAILED %s:%d: %s", filepath.Base(path), r.line, r.Failure)
		}
		rows = append(rows, []string{r.Name, r.Verdict.String(), string(r.Code), mark})
	}
	printer := cmd.Printer(cmd.Stdout)
	printer.Table([]string{"case", "decision", "code", "result"}, rows)
	if failed == 0 {
		printer.Mark("ok", "", fmt.Sprintf("%d cases hold", len(results)))
	}
	return nil
}

// requestFlags are a request on a command line.
type requestFlags struct {
	file string
	calledFlags
	group, channel, intent, justification         string
	roles, arguments, attributes, scope, seen     []string
	taint, readUntrusted, highRisk, behaviouralOn bool
}

// calledFlags are those of what is called.
type calledFlags struct{ capability, tool, safety, sensitivity string }

func (cmd policyCommand) explainCommand() *cobra.Command {
	var f requestFlags
	c := &cobra.Command{
		Use: "explain FILE", Short: "show how a policy decides on one request, and what would change it",
		Example: `  nacre policy explain policy.toml --capability mail.send --safety WRITE --role writer --arg to=bob@example.com
  nacre policy explain policy.toml --request request.json`,
		Args: command.OneArgument("a policy"),
		RunE: func(c *cobra.Command, args []string) error { return cmd.explainPolicy(args[0], f, c) },
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

func (cmd policyCommand) explainPolicy(path string, f requestFlags, c *cobra.Command) error {
	p, err := readPolicy(path)
	if err != nil {
		return err
	}
	r, err := f.request(c)
	if err != nil {
		return err
	}
	d, trace, denial := p.Decide(r), p.Trace(r), p.Explain(r)
	if cmd.JSON {
		return cmd.PrintJSON(map[string]any{"decision": d, "trace": trace, "denial": denial})
	}
	printer := cmd.Printer(cmd.Stdout)
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
			return policy.Request{}, command.Usage("--request stands in place of the other flags; see %s --help", c.CommandPath())
		}
		data, err := command.ReadInput(f.file)
		if err != nil {
			return policy.Request{}, err
		}
		r, err := policy.ParseRequest(f.file, data)
		if err != nil {
			return policy.Request{}, command.UsageOf(err)
		}
		return r, nil
	}
	if f.capability == "" || f.safety == "" {
		return policy.Request{}, command.Usage("--capability and --safety, or --request, are needed; see %s --help", c.CommandPath())
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
		return policy.Request{}, command.Usage("%s", strings.TrimPrefix(err.Error(), "flags.json:1: "))
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
				return nil, command.Usage("%s %q: use NAME=VALUE, each name once", table.flag, one)
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
