package assembly

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/policy"
)

// Explanation is what a run would be able to do (M-10). Nothing was started to
// find it out.
type Explanation struct {
	Group   nacre.Group `json:"group"`
	Project string      `json:"project,omitempty"`
	Backend string      `json:"backend"`
	Sandbox string      `json:"sandbox"`
	// NotEnforced is what this machine cannot hold.
	NotEnforced []string      `json:"not_enforced"`
	Posture     nacre.Posture `json:"posture"`
	// Egress are the addresses that may be reached, with the operator's pins.
	Egress []string `json:"egress"`
	// Decoys are credentials that open nothing: the use of one ends the run (M-58).
	Decoys []string `json:"decoys"`
	// Inside are the credentials that its agent could read, and where.
	Inside []string `json:"credentials_inside,omitempty"`
	// Model is where model calls would go, and Key where its key comes from;
	// empty where no key is set.
	Model     string `json:"model,omitempty"`
	Key       string `json:"key_from,omitempty"`
	BudgetUSD string `json:"budget_usd,omitempty"`
	// Today is what is left of the day's budgets, where there are any, and
	// VendorTools what may run at the vendor.
	Today       []DayBudget     `json:"budget_today,omitempty"`
	VendorTools []string        `json:"vendor_tools,omitempty"`
	Policy      string          `json:"policy"`
	Tools       []ExplainedTool `json:"tools"`
	// Idle says of the config's [groups] and [access] what reaches nothing.
	Idle []string `json:"idle,omitempty"`
}

// ExplainedTool is what would become of a call, of a session that has read
// nothing untrusted yet.
type ExplainedTool struct {
	Tool    nacre.ToolName     `json:"tool"`
	Safety  nacre.SafetyClass  `json:"safety_class"`
	Verdict nacre.Verdict      `json:"verdict"`
	Code    nacre.ReasonCode   `json:"code"`
	Rule    string             `json:"rule,omitempty"`
	Sinks   []string           `json:"sinks,omitempty"`
	From    nacre.CapabilityID `json:"capability"`
}

// LeftToday says what is left of the day's budgets; empty where there are none.
func (e Explanation) LeftToday() string { return leftToday(e.Today) }

// DayBudget is what is left today of one budget, in micro-dollars (M-04).
type DayBudget struct {
	// Which names it, such as "the day's budget of group main".
	Which string `json:"budget"`
	Left  int64  `json:"left_micro_usd"`
	Limit int64  `json:"limit_micro_usd"`
	// Held is set aside for calls that run, or whose process ended without a word.
	Held   int64     `json:"held_micro_usd"`
	Refill time.Time `json:"refills"`
}

// Explain says what a run of a group on a project would be able to do.
func (r *Runtime) Explain(ctx context.Context, run Run) (Explanation, error) {
	project, err := projectFolder(orDot(run.Project))
	if err != nil {
		return Explanation{}, err
	}
	rules, err := r.config.Egress.rules(run.Egress)
	if err != nil {
		return Explanation{}, &ConfigError{err}
	}
	group, err := r.group(run.Group)
	if err != nil {
		return Explanation{}, err
	}
	box, err := r.backend("")
	if err != nil {
		return Explanation{}, err
	}
	defer func() { _ = box.Close() }() // nothing was started in it
	found := r.look(ctx, group, false)
	found.wait.Wait()
	if found.err != nil {
		return Explanation{}, found.err
	}
	e := Explanation{
		Group: group, Project: project, Backend: box.Name(), Sandbox: box.Holds(), NotEnforced: box.NotEnforced(),
		Egress: r.config.reach(group, rules), Inside: r.config.delivered(group), Policy: r.policy.Version(), Tools: r.explainTools(group, run.Task, found),
		Idle: append(r.idleTools(found.plugins), r.idleAccess(found.plugins)...),
	}
	e.Egress, e.Decoys = r.config.Egress.explained(e.Egress), decoyNames()
	if err := r.explainModel(&e); err != nil {
		return Explanation{}, err
	}
	if !box.HostTools() {
		found.toolchains = nil
	}
	e.Posture, err = posture.Compute(posture.Input{
		Project: project, Protected: []string{".git"}, System: systemMounts(box), Toolchains: found.toolchains, Egress: rules,
		Programs: r.programs(), Model: e.Key != "", Limits: r.config.Limits.over(run.Limits),
	})
	if err != nil {
		return Explanation{}, &ConfigError{err}
	}
	return e, nil
}

// programs are nacre's own, as they are bound inside.
func (r *Runtime) programs() map[string]string {
	return map[string]string{"ipc": r.program("ipc"), "ipc-mcp": r.program("ipc-mcp"), "brain": r.program("brain")}
}

func (r *Runtime) explainModel(e *Explanation) error {
	places, err := r.upstreams()
	if err != nil {
		return &ConfigError{err}
	}
	var from []string
	for _, p := range slices.DeleteFunc(slices.Clone(places), lacking) {
		from = append(from, p.keyFrom)
	}
	e.Model, e.Key, e.BudgetUSD = hosts(places), strings.Join(from, ", "), r.config.Model.BudgetUSD
	e.VendorTools = r.config.vendorTools(e.Group)
	e.Today, err = r.rooms(e.Group)
	return err
}

// explainTools holds every tool that the group may use against the policy.
func (r *Runtime) explainTools(group nacre.Group, task string, found *findings) []ExplainedTool {
	principal := r.principal(group, "explained", task)
	tools := []ExplainedTool{}
	for _, f := range found.plugins {
		for _, t := range f.Manifest.Provides.Tools {
			c := r.config.Tools[string(t.Name)].apply(t.Capability(f.Name, f.Hash))
			if !r.config.groups().Allows(group, c) {
				continue
			}
			d := r.policy.Decide(policy.Request{Principal: principal, Capability: c})
			if c.HighRisk && d.Verdict == nacre.Allow {
				d.Verdict, d.Code = nacre.Ask, nacre.ReasonHighRisk
			}
			tools = append(tools, ExplainedTool{c.Tool, c.Safety, d.Verdict, d.Code, d.Rule, c.Sinks, c.ID})
		}
	}
	slices.SortFunc(tools, func(a, b ExplainedTool) int { return strings.Compare(string(a.Tool), string(b.Tool)) })
	return tools
}
