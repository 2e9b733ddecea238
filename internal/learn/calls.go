package learn

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
)

// Call is a call of a tool that was refused, as its record tells it.
type Call struct {
	Seen
	Tool   nacre.ToolName
	Reason nacre.ReasonCode
	// Arguments is the SHA-256 of the arguments as they were written; empty where there were
	// none. What they were is in no record.
	Arguments string
	// Doubtful says that a value that does harm where it is wrong came from text that nobody
	// vouches for, or from nowhere that was seen.
	Doubtful bool
}

// ToolFacts are what a tool's author and the operator say of it.
type ToolFacts struct {
	// Reads says that it changes nothing, asks nobody, and sends nothing.
	Reads bool
	// Sinks says that it has arguments in which a wrong value does harm.
	Sinks bool
}

// ofTheGroup tells a call that another list of its group's tools would let through.
func (c Call) ofTheGroup() bool {
	return c.Reason == nacre.ReasonUnknownTool || c.Reason == nacre.ReasonGroupNotAllowed
}

// ofThePolicy tells a call that another policy would let through.
func (c Call) ofThePolicy() bool {
	return slices.Contains([]nacre.ReasonCode{
		nacre.ReasonNoMatchingRule, nacre.ReasonExplicitDeny, nacre.ReasonMissingRole, nacre.ReasonIntentNotAllowed, nacre.ReasonScopeNotAllowed,
	}, c.Reason)
}

// callOf is the refused call that a record tells of, where it is one that the operator's word
// would let through.
func callOf(seen Seen, e audit.Entry) (c Call, is bool, err error) {
	name, isCall := strings.CutPrefix(e.Topic, "tool.invoke.")
	c = Call{Seen: seen, Tool: nacre.ToolName(name), Reason: nacre.ReasonCode(e.Reason)}
	c.Group = e.Group
	if !isCall || e.Kind != nacre.KindCallReject || !c.ofTheGroup() && !c.ofThePolicy() {
		return Call{}, false, nil
	}
	var d struct {
		Arguments struct{ SHA256 string }
		Request   struct {
			Tainted    bool
			Provenance map[string]nacre.Provenance
		}
	}
	if err := json.Unmarshal(e.Detail, &d); err != nil {
		return Call{}, false, fmt.Errorf("record %d: %w", e.Seq, err)
	}
	c.Arguments, c.Untrusted = d.Arguments.SHA256, c.Untrusted || d.Request.Tainted
	for _, from := range d.Request.Provenance {
		c.Doubtful = c.Doubtful || from != nacre.SeenOperator && from != nacre.SeenTrusted
	}
	return c, true, nil
}

// stays says why no line lets the call through; empty where one may.
func (c Call) stays(facts Facts) string {
	tool, brought := facts.Tools[c.Tool]
	switch {
	case c.ofThePolicy():
		return fmt.Sprintf("the policy denies it (%s): nacre policy diff current FILE --replay shows what another would change", c.Reason)
	case !brought:
		return "no plugin here has a tool of this name"
	case c.Doubtful:
		return "a value that does harm where it is wrong came from text that nobody vouches for"
	case c.Reason == nacre.ReasonUnknownTool && tool.Sinks:
		return "nobody looked where the values came from that do harm where they are wrong: the tool was not there"
	case c.Arguments == "":
		return fmt.Sprintf("it had no arguments that could be approved: write %q under [groups.%s] tools in config.toml", c.Tool, c.Group)
	}
	return ""
}

func toolText(tool nacre.ToolName, group nacre.Group) string {
	return fmt.Sprintf("the tool %s, for the group %s", tool, group)
}

// lineOfTool makes one line of calls that have their tool and group in common. Whether each
// is carried out is still the policy's to say.
func lineOfTool(k key, calls []Call, facts ToolFacts) Line {
	line := Line{Tool: k.tool, Group: k.group, Times: len(calls), Wider: anyArguments}
	untrusted := true
	for _, c := range calls {
		untrusted = untrusted && c.Untrusted
		if len(line.Evidence) < maxEvidence {
			line.Evidence = append(line.Evidence, fmt.Sprintf("%s#%d", c.Chain, c.Seq))
		}
		if !slices.Contains(line.Arguments, c.Arguments) {
			line.Arguments = append(line.Arguments, c.Arguments)
		}
	}
	slices.Sort(line.Arguments)
	if untrusted {
		line.Apart = append(line.Apart, apartUntrusted)
	}
	if !facts.Reads {
		line.Apart = append(line.Apart, apartSends)
	}
	if len(line.Arguments) > maxPaths {
		line.Arguments, line.Wider = nil, ""
		line.Apart = append(line.Apart, apartWider)
	}
	return line
}

// letsCall tells whether the line would have let a refused call through.
func (l Line) letsCall(c Call) bool {
	return c.ofTheGroup() && c.Tool == l.Tool && c.Group == l.Group && (len(l.Arguments) == 0 || slices.Contains(l.Arguments, c.Arguments))
}
