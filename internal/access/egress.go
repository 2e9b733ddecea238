package access

import (
	"slices"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/learned"
	"github.com/nacre-dev/nacre/policy"
)

// EgressAt is what runs that begin at a moment may reach: what the config allows, and
// what a person approved, as it is written now.
func EgressAt(inst *installation.Installation, now time.Time) (config.Egress, error) {
	all, _, err := ReachAt(inst, now)
	return all, err
}

// ReachAt is what runs that begin at a moment may reach, with the powers that were unlocked
// for them, and what every session may, without (M-51). Both are of one reading.
func ReachAt(inst *installation.Installation, now time.Time) (all, plain config.Egress, err error) {
	approvals, err := learned.Load(inst.Registry.Paths().Config)
	if err == nil {
		all, err = with(inst, approvals, now)
	}
	if err == nil {
		plain, err = with(inst, approvals.Plain(), now)
	}
	if err != nil {
		return config.Egress{}, config.Egress{}, &config.Error{Err: err}
	}
	return all, plain, nil
}

func with(inst *installation.Installation, approvals learned.Approvals, now time.Time) (config.Egress, error) {
	all, err := approvals.At(now)
	return inst.Config.Egress.With(all), err
}

// FoldersAt are the folders of the host that a group's agents are shown at a moment when they ask, and
// nobody is asked.
func FoldersAt(inst *installation.Installation, group nacre.Group, now time.Time) ([]string, error) {
	approvals, err := learned.Load(inst.Registry.Paths().Config)
	if err != nil {
		return nil, &config.Error{Err: err}
	}
	return approvals.FoldersAt(now, group), nil
}

// ToolGroups are the tools of each group at a moment: those of the config, and those that a
// person approved. What cannot be read adds nothing; no session begins then (ReachAt).
func ToolGroups(inst *installation.Installation, now time.Time) policy.Groups {
	groups := inst.Config.ToolGroups()
	approvals, err := learned.Load(inst.Registry.Paths().Config)
	if err != nil {
		return groups
	}
	for _, t := range approvals.ToolsAt(now) {
		group := groups[t.Group]
		if t.Any {
			group.Tools = append(slices.Clone(group.Tools), string(t.Tool))
		} else {
			group.Exactly = append(group.Exactly, policy.ExactTool{Tool: t.Tool, Arguments: t.Arguments})
		}
		groups[t.Group] = group
	}
	return groups
}
