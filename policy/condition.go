package policy

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/quantity"
)

// The keys of a match table, in the order in which they are looked at: what
// costs least and what no caller can change comes first.
const (
	keyTool        = "tool"
	keyCapability  = "capability"
	keySafety      = "safety_class"
	keySensitivity = "sensitivity"
	keyHighRisk    = "high_risk"
	keyBehavioural = "behavioural"
	keyGroup       = "group"
	keyChannel     = "channel"
	keyTaint       = "taint"
	keyUntrusted   = "read_untrusted"
	keyIntent      = "intent"
	keyRoles       = "roles"
	keyJustified   = "min_justification"
	keyAttributes  = "attributes"
	keyScope       = "scope"
	keySinks       = "sinks"
	keyProvenance  = "provenance"
	keyArguments   = "arguments"
)

// truth is what is known of a condition. Only of a recorded request may it be
// unknown.
type truth uint8

const (
	no truth = iota
	yes
	unknown
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

// condition is one key of a rule's match table. It is data, so that it can be
// explained, and so that looking at it allocates nothing.
type condition struct {
	key string
	// name is the attribute, the scope, the argument or the sink meant.
	name string
	// from is the scope whose value an attribute must have.
	from     string
	words    []string
	globs    []glob
	patterns []pattern
	scalars  []string // JSON
	// numbers are those of the scalars that are numbers, bounds the comparisons.
	numbers []quantity.Number
	bounds  []quantity.Bound
	bits    uint16 // safety classes, sensitivities, provenances
	want    bool
	count   int
	line    int
}

// subject is a request while it is decided on.
type subject struct {
	request *Request
	// recorded is set where the request comes from a record, without its values.
	recorded *Recorded
	checked  bool
	valid    bool
	raw      string
}

// holds reports whether a condition of a rule is met. Where a value can be read
// in several ways, lets says that the rule lets through: then all must match.
func (c *condition) holds(s *subject, lets bool) truth {
	r := s.request
	switch c.key {
	case keyTool:
		return truthOf(anyGlob(c.globs, string(r.Capability.Tool)))
	case keyCapability:
		return truthOf(anyGlob(c.globs, string(r.Capability.ID)))
	case keyGroup:
		return truthOf(anyGlob(c.globs, string(r.Principal.Group)))
	case keyChannel:
		return truthOf(r.Principal.Channel != "" && anyGlob(c.globs, r.Principal.Channel))
	case keySafety:
		return truthOf(c.bits&(1<<r.Capability.Safety) != 0)
	case keySensitivity:
		return truthOf(c.bits&(1<<r.Capability.Sensitivity) != 0)
	case keyHighRisk:
		return truthOf(r.Capability.HighRisk == c.want)
	case keyBehavioural:
		return truthOf(r.Capability.Behavioural == c.want)
	case keyTaint:
		return truthOf(r.Tainted == c.want)
	case keyUntrusted:
		return truthOf(r.untrusted() == c.want)
	case keyIntent:
		return truthOf(r.Principal.Intent != "" && c.anyPattern(r.Principal.Intent, lets))
	case keyRoles:
		return truthOf(c.anyRole(r.Principal.Roles))
	case keyJustified:
		return truthOf(s.justification() >= c.count)
	case keyAttributes:
		return c.attribute(s, lets)
	case keyScope:
		value, ok := r.Principal.Scope[c.name]
		return truthOf(ok && c.anyPattern(value, lets))
	case keySinks:
		_, n := s.lowest("")
		return truthOf((n > 0) == c.want)
	case keyProvenance:
		lowest, n := s.lowest(c.name)
		return truthOf((c.name == "" || n > 0) && c.bits&(1<<lowest) != 0)
	case keyArguments:
		return c.argument(s, lets)
	}
	return no
}

func anyGlob(globs []glob, name string) bool {
	for _, g := range globs {
		if g.matches(name) {
			return true
		}
	}
	return false
}

func (c *condition) anyPattern(value string, lets bool) bool {
	var read reading // once for all patterns: a list of hosts is long
	known := false
	for i := range c.patterns {
		p := &c.patterns[i]
		if !known && !p.any && !p.beyond(value) {
			read, known = readings(value), true
		}
		if p.matches(value, &read, lets) {
			return true
		}
	}
	return false
}

func (c *condition) anyRole(roles []string) bool {
	for _, role := range c.words {
		if slices.Contains(roles, role) {
			return true
		}
	}
	return false
}

func (c *condition) attribute(s *subject, lets bool) truth {
	principal := &s.request.Principal
	want, ok := "", true
	if c.from != "" {
		want, ok = principal.Scope[c.from]
	}
	if s.recorded != nil {
		digest, there := s.recorded.Attributes[c.name]
		if !there || !ok {
			return no
		}
		if c.from != "" {
			return digest.equals(attributeDigest(want))
		}
		return c.recorded(digest, attributeDigest)
	}
	have, there := principal.Attributes[c.name]
	if !there || !ok {
		return no
	}
	if c.from != "" {
		return truthOf(have == want)
	}
	return truthOf(c.anyPattern(have, lets))
}

func (c *condition) argument(s *subject, lets bool) truth {
	if s.recorded != nil {
		return c.recordedArgument(s.recorded)
	}
	if !s.readable() {
		return truthOf(!lets && len(s.request.Arguments) > 0)
	}
	value, found, twice := lookup(s.raw, c.name)
	if twice {
		return truthOf(!lets)
	}
	return truthOf(found && c.value(value, lets, 0))
}

// value holds a JSON value against the patterns and scalars. A list matches
// where all its elements do. Where the rule does not let through, a list or an
// object matches where anything in it does.
func (c *condition) value(raw string, lets bool, depth int) bool {
	for i := range c.patterns {
		if c.patterns[i].any {
			return true
		}
	}
	if raw == "" || depth > maxArgumentDepth {
		return !lets
	}
	if measured(raw, c.bounds, lets, depth) {
		return true
	}
	switch raw[0] {
	case '"':
		text, ok := unquote(raw)
		return ok && (c.anyPattern(text, lets) || dated(text, c.bounds, lets) || !lets && (c.numeral(text) || c.spells(text)))
	case '[', '{':
		if lets && raw[0] == '{' {
			return false
		}
		n, matched := 0, 0
		for m := membersOf(raw); n <= maxElements; n++ {
			_, element, after, ok := m.next()
			if !ok {
				break
			}
			m = after
			if c.value(element, lets, depth+1) {
				matched++
			}
		}
		if n > maxElements {
			return !lets
		}
		if lets {
			return n > 0 && matched == n
		}
		return matched > 0
	}
	if isNumber(raw) {
		return c.number(raw, lets)
	}
	return slices.Contains(c.scalars, raw)
}

// spells reports whether a text is true or false to who reads it as that.
func (c *condition) spells(text string) bool {
	return slices.ContainsFunc(c.scalars, func(scalar string) bool {
		return scalar[0] != '-' && !isNumber(scalar) && strings.EqualFold(strings.TrimSpace(text), scalar)
	})
}

// readable reads the arguments once, where a rule looks at them.
func (s *subject) readable() bool {
	if !s.checked {
		s.checked, s.valid = true, json.Valid(s.request.Arguments)
		if s.valid {
			s.raw = string(s.request.Arguments)
		}
	}
	return s.valid
}

// justification is the number of code points of the operator's words, without
// the white space around them.
func (s *subject) justification() int {
	if s.recorded != nil {
		return s.recorded.Justification
	}
	return justificationOf(s.request.Principal)
}

func justificationOf(p nacre.Principal) int {
	return utf8.RuneCountInString(strings.TrimSpace(p.Justification))
}

// untrusted reports whether the session is known to have read untrusted text.
func (r *Request) untrusted() bool {
	if r.Tainted || r.ReadUntrusted {
		return true
	}
	for i := range r.Origins {
		if r.Origins[i].Provenance == nacre.SeenUntrusted {
			return true
		}
	}
	return false
}

// lowest is the least trusted provenance of the values of one sink, or of all,
// and how many values there are. Of no values it is nowhere, and so it is of a
// sink that has a value and no origin.
func (s *subject) lowest(sink string) (nacre.Provenance, int) {
	lowest, n := nacre.SeenOperator, 0
	for i := range s.request.Origins {
		if origin := &s.request.Origins[i]; sink == "" || within(origin.Argument, sink) {
			lowest, n = min(lowest, known(origin.Provenance)), n+1
		}
	}
	for _, declared := range s.request.Capability.Sinks {
		if (sink == "" || within(declared, sink)) && s.forgotten(declared) {
			lowest, n = nacre.SeenNowhere, n+1
		}
	}
	if n == 0 {
		return nacre.SeenNowhere, 0
	}
	return lowest, n
}

// known takes what no provenance is for the strictest.
func known(p nacre.Provenance) nacre.Provenance {
	if p > nacre.SeenOperator {
		return nacre.SeenNowhere
	}
	return p
}

// forgotten reports whether a sink may have a value that no origin speaks for.
func (s *subject) forgotten(sink string) bool {
	for i := range s.request.Origins {
		if within(s.request.Origins[i].Argument, sink) {
			return false
		}
	}
	if !s.readable() {
		return true
	}
	_, found, twice := lookup(s.raw, sink)
	return found || twice
}

// within reports whether path is sink, or a place in it.
func within(path, sink string) bool {
	rest, ok := strings.CutPrefix(path, sink)
	return ok && (rest == "" || rest[0] == '.')
}
