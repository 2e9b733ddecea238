package policy

import (
	"strings"

	"github.com/nacre-dev/nacre"
)

// maxLists is how many lists of candidates a decision merges; a request that
// has more is held against every rule.
const maxLists = 32

// anchor is something that a request must have for a rule to match.
type anchor struct{ key, name, value string }

// keySegment anchors globs of capabilities that share their first part.
const keySegment = "segment"

// index finds the rules that may match a request, in their order, so that a
// decision costs the same with one rule and with a thousand (K-05). A rule
// stands under that of its anchors that fewest rules share.
type index struct {
	lists map[anchor][]int32
	// used are the keys that any rule is anchored under.
	used map[string]bool
	// free are the rules that have no anchor.
	free        []int32
	safety      [3][]int32
	sensitivity [5][]int32
}

func newIndex(rules []rule) *index {
	shared := map[anchor]int{}
	choices := make([][][]anchor, len(rules))
	for i := range rules {
		choices[i] = rules[i].anchors()
		for _, choice := range choices[i] {
			for _, a := range choice {
				shared[a]++
			}
		}
	}
	x := &index{lists: map[anchor][]int32{}, used: map[string]bool{}}
	for i := range rules {
		x.add(int32(i), rarest(choices[i], shared))
	}
	return x
}

func rarest(choices [][]anchor, shared map[anchor]int) []anchor {
	var best []anchor
	fewest := 0
	for _, choice := range choices {
		n := 0
		for _, a := range choice {
			n += shared[a]
		}
		if best == nil || n < fewest {
			best, fewest = choice, n
		}
	}
	return best
}

func (x *index) add(i int32, anchors []anchor) {
	if anchors == nil {
		x.free = append(x.free, i)
	}
	for _, a := range anchors {
		switch a.key {
		case keySafety:
			x.safety[a.value[0]] = append(x.safety[a.value[0]], i)
		case keySensitivity:
			x.sensitivity[a.value[0]] = append(x.sensitivity[a.value[0]], i)
		default:
			if list := x.lists[a]; len(list) == 0 || list[len(list)-1] != i {
				x.lists[a] = append(list, i)
			}
			x.used[a.key] = true
		}
	}
}

// anchors are the sets of anchors of which a request must have one each.
func (r *rule) anchors() [][]anchor {
	var choices [][]anchor
	for i := range r.match {
		if choice := r.match[i].anchors(); choice != nil {
			choices = append(choices, choice)
		}
	}
	return choices
}

func (c *condition) anchors() []anchor {
	switch c.key {
	case keyTool, keyGroup, keyChannel:
		return c.exactGlobs()
	case keyCapability:
		if exact := c.exactGlobs(); exact != nil {
			return exact
		}
		return c.segments()
	case keySafety:
		return c.bitAnchors(3)
	case keySensitivity:
		return c.bitAnchors(5)
	case keyRoles:
		anchors := make([]anchor, len(c.words))
		for i, role := range c.words {
			anchors[i] = anchor{keyRoles, "", role}
		}
		return anchors
	case keyIntent, keyAttributes, keyScope:
		return c.exactPatterns()
	}
	return nil
}

func (c *condition) exactGlobs() []anchor {
	anchors := make([]anchor, len(c.globs))
	for i, g := range c.globs {
		if strings.Contains(string(g), "*") {
			return nil
		}
		anchors[i] = anchor{c.key, "", string(g)}
	}
	return anchors
}

func (c *condition) segments() []anchor {
	anchors := make([]anchor, len(c.globs))
	for i, g := range c.globs {
		segment, _, dotted := strings.Cut(string(g), ".")
		if !dotted || strings.Contains(segment, "*") {
			return nil
		}
		anchors[i] = anchor{keySegment, "", segment}
	}
	return anchors
}

func (c *condition) exactPatterns() []anchor {
	if c.from != "" {
		return nil
	}
	anchors := make([]anchor, len(c.patterns))
	for i := range c.patterns {
		exact, ok := c.patterns[i].exact()
		if !ok || c.patterns[i].mail != nil {
			return nil
		}
		anchors[i] = anchor{c.key, c.name, exact}
	}
	return anchors
}

func (c *condition) bitAnchors(n byte) []anchor {
	var anchors []anchor
	for bit := range n {
		if c.bits&(1<<bit) != 0 {
			anchors = append(anchors, anchor{c.key, "", string([]byte{bit})})
		}
	}
	return anchors
}

// candidates merges the lists of rules that a request has the anchors of.
type candidates struct {
	lists [maxLists][]int32
	n     int
	full  bool
}

func (c *candidates) add(list []int32) {
	switch {
	case len(list) == 0:
	case c.n == maxLists:
		c.full = true
	default:
		c.lists[c.n] = list
		c.n++
	}
}

// next is the number of the next rule, or -1.
func (c *candidates) next() int {
	least := int32(-1)
	for i := range c.n {
		if list := c.lists[i]; len(list) > 0 && (least < 0 || list[0] < least) {
			least = list[0]
		}
	}
	for i := range c.n {
		if list := c.lists[i]; len(list) > 0 && list[0] == least {
			c.lists[i] = list[1:]
		}
	}
	return int(least)
}

// collect gathers the lists for a request.
func (x *index) collect(c *candidates, r *Request) {
	c.add(x.free)
	if int(r.Capability.Safety) < len(x.safety) {
		c.add(x.safety[r.Capability.Safety])
	}
	if int(r.Capability.Sensitivity) < len(x.sensitivity) {
		c.add(x.sensitivity[r.Capability.Sensitivity])
	}
	x.named(c, r)
	if x.used[keyRoles] {
		for _, role := range r.Principal.Roles {
			c.add(x.lists[anchor{keyRoles, "", role}])
		}
	}
	if x.used[keyIntent] {
		x.read(c, keyIntent, "", r.Principal.Intent)
	}
	x.all(c, keyAttributes, r.Principal.Attributes)
	x.all(c, keyScope, r.Principal.Scope)
}

func (x *index) named(c *candidates, r *Request) {
	if x.used[keyCapability] {
		c.add(x.lists[anchor{keyCapability, "", string(r.Capability.ID)}])
	}
	if x.used[keySegment] {
		segment, _, _ := strings.Cut(string(r.Capability.ID), ".")
		c.add(x.lists[anchor{keySegment, "", segment}])
	}
	if x.used[keyTool] {
		c.add(x.lists[anchor{keyTool, "", string(r.Capability.Tool)}])
	}
	if x.used[keyGroup] {
		c.add(x.lists[anchor{keyGroup, "", string(r.Principal.Group)}])
	}
	if x.used[keyChannel] {
		c.add(x.lists[anchor{keyChannel, "", r.Principal.Channel}])
	}
}

func (x *index) all(c *candidates, key string, values map[string]string) {
	if !x.used[key] {
		return
	}
	for name, value := range values {
		x.read(c, key, name, value)
	}
}

// read looks for every reading of a value that a pattern may be held against.
func (x *index) read(c *candidates, key, name, value string) {
	c.add(x.lists[anchor{key, name, value}])
	read := readings(value)
	if read.clean != value {
		c.add(x.lists[anchor{key, name, read.clean}])
	}
	if read.loose != value && read.loose != read.clean {
		c.add(x.lists[anchor{key, name, read.loose}])
	}
	if read.bare != value && read.bare != read.clean && read.bare != read.loose {
		c.add(x.lists[anchor{key, name, read.bare}])
	}
	c.full = c.full || read.obscure
}

// first is the number of the first rule that matches, or -1.
func (p *Policy) first(s *subject) int {
	var c candidates
	if p.index != nil {
		p.index.collect(&c, s.request)
	}
	if p.index == nil || c.full {
		return p.scan(s)
	}
	for {
		i := c.next()
		if i < 0 || p.rules[i].matches(s) == yes {
			return i
		}
	}
}

// scan holds a request against every rule.
func (p *Policy) scan(s *subject) int {
	for i := range p.rules {
		if p.rules[i].matches(s) == yes {
			return i
		}
	}
	return -1
}

// matches is unknown where a condition is and no other fails.
func (r *rule) matches(s *subject) truth {
	all := yes
	for i := range r.match {
		switch r.match[i].holds(s, r.verdict == nacre.Allow) {
		case no:
			return no
		case unknown:
			all = unknown
		case yes:
		}
	}
	return all
}
