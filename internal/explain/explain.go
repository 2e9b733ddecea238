// Package explain says what a run would be able to do, before anything of it is started. It tells which
// files, hosts, tools and credentials it would have, and what this machine cannot hold.
package explain

import (
	"context"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/access"
	"github.com/nacre-dev/nacre/internal/basis"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/leasing"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/upstream"
	"github.com/nacre-dev/nacre/internal/watch"
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
	// Locked are the credentials that a run would not have, each with its power, which is locked.
	Locked []string `json:"locked,omitempty"`
	// Folders are those of the host outside of the project that its agent is shown when it asks, and nobody
	// is asked.
	Folders []string `json:"folders,omitempty"`
	Thinking
	Policy string `json:"policy"`
	Tools  []Tool `json:"tools"`
	// Idle says of the config's [groups] and [access] what reaches nothing.
	Idle []string `json:"idle,omitempty"`
}

// Thinking is how its brain would reach a model.
type Thinking struct {
	// Model is where model calls would go, and Key where its key comes from;
	// empty where no key is set.
	Model     string `json:"model,omitempty"`
	Key       string `json:"key_from,omitempty"`
	BudgetUSD string `json:"budget_usd,omitempty"`
	// Today is what is left of the day's budgets, where there are any, and
	// VendorTools what may run at the vendor.
	Today       []upstream.DayBudget `json:"budget_today,omitempty"`
	VendorTools []string             `json:"vendor_tools,omitempty"`
}

// Tool is what would become of a call, of a session that has read
// nothing untrusted yet.
type Tool struct {
	Tool    nacre.ToolName     `json:"tool"`
	Safety  nacre.SafetyClass  `json:"safety_class"`
	Verdict nacre.Verdict      `json:"verdict"`
	Code    nacre.ReasonCode   `json:"code"`
	Rule    string             `json:"rule,omitempty"`
	Sinks   []string           `json:"sinks,omitempty"`
	From    nacre.CapabilityID `json:"capability"`
}

// LeftToday says what is left of the day's budgets; empty where there are none.
func (e Explanation) LeftToday() string { return upstream.LeftToday(e.Today) }

// Asked is the run that is asked about.
type Asked struct {
	Project string // empty is the folder that nacre was started in
	Group   nacre.Group
	Task    string
	Egress  []string // hosts beside those of the config
	Limits  nacre.Limits
}

// Run says what a run of a group on a project would be able to do.
func Run(ctx context.Context, inst *installation.Installation, run Asked) (Explanation, error) {
	project, err := installation.ProjectFolder(config.OrDot(run.Project))
	if err != nil {
		return Explanation{}, err
	}
	reach, err := access.EgressAt(inst, inst.Options.Now())
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
	box, err := inst.Backend("") //nolint:contextcheck // opening starts nothing
	if err != nil {
		return Explanation{}, err
	}
	defer func() { _ = box.Close() }() // nothing was started in it
	if native, ok := box.(*sandbox.Native); ok {
		if err := native.Check(); err != nil {
			return Explanation{}, &installation.NotReady{What: "the native sandbox cannot start", Err: err}
		}
	}
	found := basis.LookAround(ctx, inst, func() ([]pluginhost.Found, error) { return access.PluginsOf(inst, group) })
	found.Wait.Wait()
	if found.Err != nil {
		return Explanation{}, found.Err
	}
	thinking, err := thinkingOf(inst, group) //nolint:contextcheck // the book of the day is a file of this machine
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{
		Group: group, Project: project, Backend: box.Name(), Sandbox: box.Holds(), NotEnforced: box.NotEnforced(),
		Locked: leasing.Locked(inst, group, reach.Unlocked()),
		Egress: inst.Config.Reach(group, rules, reach.Unlocked()...), Inside: inst.Config.Delivered(group), Policy: inst.Policy.Version(), Tools: toolsOf(inst, group, run.Task, found),
		Idle: access.Idle(inst, found.Plugins), Thinking: thinking,
	}
	if e.Folders, err = access.FoldersAt(inst, group, inst.Options.Now()); err != nil {
		return Explanation{}, err
	}
	e.Egress, e.Decoys = inst.Config.Egress.Explained(e.Egress), watch.DecoyNames()
	if !box.HostTools() {
		found.Toolchains = nil
	}
	e.Posture, err = posture.Compute(posture.Input{
		Project: project, Protected: []string{".git"}, System: installation.SystemMounts(box), Toolchains: found.Toolchains, Egress: rules, Credentials: inst.Config.Scopes(group, reach.Uses(), reach.Unlocked()...),
		Programs: installation.Programs(inst), Model: e.Key != "", Limits: inst.Config.Limits.Over(run.Limits),
	})
	if err != nil {
		return Explanation{}, &config.Error{Err: err}
	}
	return e, nil
}

func thinkingOf(inst *installation.Installation, group nacre.Group) (t Thinking, err error) {
	places, err := upstream.Places(inst)
	if err != nil {
		return t, &config.Error{Err: err}
	}
	var from []string
	for _, p := range slices.DeleteFunc(slices.Clone(places), upstream.Lacking) {
		from = append(from, p.KeyFrom)
	}
	t.Model, t.Key, t.BudgetUSD = upstream.Hosts(places), strings.Join(from, ", "), inst.Config.Model.BudgetUSD
	t.VendorTools = inst.Config.VendorTools(group)
	t.Today, err = upstream.Rooms(inst, group)
	return t, err
}

// toolsOf holds every tool that the group may use against the policy.
func toolsOf(inst *installation.Installation, group nacre.Group, task string, found *basis.Findings) []Tool {
	principal := inst.Principal(group, "explained", task)
	tools, groups := []Tool{}, access.ToolGroups(inst, inst.Options.Now())
	for _, f := range found.Plugins {
		for _, t := range f.Manifest.Provides.Tools {
			c := inst.Config.Tools[string(t.Name)].Apply(t.Capability(f.Name, f.Hash))
			if !groups.Allows(group, c) {
				continue
			}
			d := installation.Decide(inst, principal, c)
			if c.HighRisk && d.Verdict == nacre.Allow {
				d.Verdict, d.Code = nacre.Ask, nacre.ReasonHighRisk
			}
			tools = append(tools, Tool{c.Tool, c.Safety, d.Verdict, d.Code, d.Rule, c.Sinks, c.ID})
		}
	}
	slices.SortFunc(tools, func(a, b Tool) int { return strings.Compare(string(a.Tool), string(b.Tool)) })
	return tools
}
