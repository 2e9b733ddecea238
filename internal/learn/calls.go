package learn

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/access"
	"github.com/nacre-dev/nacre/internal/installation"
)

// call is a tool that was refused, of whom and why.
type call struct {
	group  nacre.Group
	tool   string
	reason nacre.ReasonCode
}

// ofTheGroup tells a call that another list of its group's tools would let through.
func (c call) ofTheGroup() bool {
	return c.reason == nacre.ReasonUnknownTool || c.reason == nacre.ReasonGroupNotAllowed
}

// ofThePolicy tells a call that another policy would let through.
func (c call) ofThePolicy() bool {
	return slices.Contains([]nacre.ReasonCode{
		nacre.ReasonNoMatchingRule, nacre.ReasonExplicitDeny, nacre.ReasonMissingRole, nacre.ReasonIntentNotAllowed, nacre.ReasonScopeNotAllowed,
	}, c.reason)
}

// callOf is the refused call that a record tells of, where it is one that the operator's word
// would let through.
func callOf(rec nacre.Record) (c call, is bool) {
	name, isCall := strings.CutPrefix(rec.Topic, "tool.invoke.")
	c = call{rec.Group, name, nacre.ReasonCode(rec.Reason)}
	return c, isCall && rec.Kind == nacre.KindCallReject && (c.ofTheGroup() || c.ofThePolicy())
}

// leave says of refused calls what would let them through: the word of the operator in a file
// of theirs, which no proposal writes. Their arguments are in no record.
func (p *Proposal) leave(inst *installation.Installation, calls map[call]int) error {
	found, err := access.Plugins(inst)
	if err != nil {
		return err
	}
	brought := map[string]bool{}
	for _, f := range found {
		for _, t := range f.Manifest.Provides.Tools {
			brought[string(t.Name)] = true
		}
	}
	for c, times := range calls {
		left := Left{What: fmt.Sprintf("the tool %s, for the group %s", c.tool, c.group), Times: times}
		switch {
		case c.ofThePolicy():
			left.Why = fmt.Sprintf("the policy denies it (%s): nacre policy diff current FILE --replay shows what another would change", c.reason)
		case brought[c.tool]:
			left.Why = fmt.Sprintf("the group may not use it: write %q under [groups.%s] tools in config.toml, where each of its sessions may", c.tool, c.group)
		default:
			left.Why = "no plugin here has a tool of this name"
		}
		p.Left = append(p.Left, left)
	}
	slices.SortFunc(p.Left, func(a, b Left) int {
		return cmp.Or(strings.Compare(a.What, b.What), strings.Compare(a.Why, b.Why))
	})
	return nil
}
