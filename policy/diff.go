package policy

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre"
)

// RuleChange is how a rule of one policy differs in another.
type RuleChange struct {
	Rule string `json:"rule"` // its name, or "default"
	// Was and Is are what the rule decides; nil where the rule is not there.
	Was *nacre.Verdict `json:"was,omitempty"`
	Is  *nacre.Verdict `json:"is,omitempty"`
	// What is "added", "removed", "changed" or "moved".
	What string `json:"what"`
}

// Diff lists what differs from an older policy, in the order of this one's rules; what
// was removed comes last. A rule is the same where its name is; one without a name is
// where all that it says is. "moved" is a rule that other common rules come before now.
func (p *Policy) Diff(old *Policy) []RuleChange {
	var changes []RuleChange
	if p.fallback != old.fallback {
		changes = append(changes, RuleChange{"default", &old.fallback, &p.fallback, "changed"})
	}
	taken := map[int]bool{}
	last := -1
	for i := range p.rules {
		r := &p.rules[i]
		at := old.find(r, taken)
		if at < 0 {
			changes = append(changes, RuleChange{r.name, nil, &r.verdict, "added"})
			continue
		}
		taken[at] = true
		before := &old.rules[at]
		switch {
		case !r.says(before):
			changes = append(changes, RuleChange{r.name, &before.verdict, &r.verdict, "changed"})
		case at < last:
			changes = append(changes, RuleChange{r.name, &before.verdict, &r.verdict, "moved"})
		}
		last = max(last, at)
	}
	for i := range old.rules {
		if !taken[i] {
			changes = append(changes, RuleChange{old.rules[i].name, &old.rules[i].verdict, nil, "removed"})
		}
	}
	return changes
}

// find is where a policy has the rule, or less than zero.
func (p *Policy) find(r *rule, taken map[int]bool) int {
	same := func(other *rule) bool { return other.name == r.name }
	if numbered(r.name) {
		same = r.says
	}
	for i := range p.rules {
		if !taken[i] && same(&p.rules[i]) {
			return i
		}
	}
	return -1
}

// numbered reports whether a rule has no name but that of its place.
func numbered(name string) bool {
	n, of := strings.CutPrefix(name, "rule-")
	_, err := strconv.ParseUint(n, 10, 16)
	return of && err == nil
}

// says reports whether two rules mean the same, wherever they stand.
func (r *rule) says(other *rule) bool {
	plain := func(match []condition) []condition {
		match = slices.Clone(match)
		for i := range match {
			match[i].line = 0
		}
		return match
	}
	return r.verdict == other.verdict && r.reason == other.reason && reflect.DeepEqual(plain(r.match), plain(other.match)) &&
		reflect.DeepEqual(r.constraints, other.constraints)
}
