package work

import (
	"context"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/seal"
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
	Today       []installation.DayBudget `json:"budget_today,omitempty"`
	VendorTools []string                 `json:"vendor_tools,omitempty"`
	Policy      string                   `json:"policy"`
	Tools       []ExplainedTool          `json:"tools"`
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
func (e Explanation) LeftToday() string { return installation.LeftToday(e.Today) }

// ExplainRun says what a run of a group on a project would be able to do.
func ExplainRun(ctx context.Context, inst *installation.Installation, run Run) (Explanation, error) {
	project, err := config.ProjectFolder(config.OrDot(run.Project))
	if err != nil {
		return Explanation{}, err
	}
	reach, err := seal.EgressAt(inst, inst.Options.Now())
	if err != nil {
		return Explanation{}, err
	}
	rules, err := reach.Rules(run.Egress)
	if err != nil {
		return Explanation{}, &config.Error{Err: err}
	}
	group, err := inst.Group(run.Group)
	if err != nil {
		return Explanation{}, err
	}
	box, err := inst.Backend("")
	if err != nil {
		return Explanation{}, err
	}
	defer func() { _ = box.Close() }() // nothing was started in it
	found := seal.LookAround(ctx, inst, group, false)
	found.Wait.Wait()
	if found.Err != nil {
		return Explanation{}, found.Err
	}
	e := Explanation{
		Group: group, Project: project, Backend: box.Name(), Sandbox: box.Holds(), NotEnforced: box.NotEnforced(),
		Egress: inst.Config.Reach(group, rules), Inside: inst.Config.Delivered(group), Policy: inst.Policy.Version(), Tools: explainTools(inst, group, run.Task, found),
		Idle: found.Idle(inst),
	}
	e.Egress, e.Decoys = inst.Config.Egress.Explained(e.Egress), seal.DecoyNames()
	if err := explainModel(inst, &e); err != nil {
		return Explanation{}, err
	}
	if !box.HostTools() {
		found.Toolchains = nil
	}
	e.Posture, err = posture.Compute(posture.Input{
		Project: project, Protected: []string{".git"}, System: installation.SystemMounts(box), Toolchains: found.Toolchains, Egress: rules, Credentials: inst.Config.Scopes(group),
		Programs: installation.Programs(inst), Model: e.Key != "", Limits: inst.Config.Limits.Over(run.Limits),
	})
	if err != nil {
		return Explanation{}, &config.Error{Err: err}
	}
	return e, nil
}

func explainModel(inst *installation.Installation, e *Explanation) error {
	places, err := inst.Upstreams()
	if err != nil {
		return &config.Error{Err: err}
	}
	var from []string
	for _, p := range slices.DeleteFunc(slices.Clone(places), installation.Lacking) {
		from = append(from, p.KeyFrom)
	}
	e.Model, e.Key, e.BudgetUSD = installation.Hosts(places), strings.Join(from, ", "), inst.Config.Model.BudgetUSD
	e.VendorTools = inst.Config.VendorTools(e.Group)
	e.Today, err = inst.Rooms(e.Group)
	return err
}

// explainTools holds every tool that the group may use against the policy.
func explainTools(inst *installation.Installation, group nacre.Group, task string, found *seal.Findings) []ExplainedTool {
	principal := inst.Principal(group, "explained", task)
	tools := []ExplainedTool{}
	for _, f := range found.Plugins {
		for _, t := range f.Manifest.Provides.Tools {
			c := inst.Config.Tools[string(t.Name)].Apply(t.Capability(f.Name, f.Hash))
			if !inst.Config.ToolGroups().Allows(group, c) {
				continue
			}
			d := installation.Decide(inst, principal, c)
			if c.HighRisk && d.Verdict == nacre.Allow {
				d.Verdict, d.Code = nacre.Ask, nacre.ReasonHighRisk
			}
			tools = append(tools, ExplainedTool{c.Tool, c.Safety, d.Verdict, d.Code, d.Rule, c.Sinks, c.ID})
		}
	}
	slices.SortFunc(tools, func(a, b ExplainedTool) int { return strings.Compare(string(a.Tool), string(b.Tool)) })
	return tools
}
