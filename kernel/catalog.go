package kernel

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/search"
)

// Register adds a tool. It refuses what is malformed or open (D-11), and a
// name or capability that another tool has, naming both (D-25). A default that
// violates its own schema is left out, with a warning in Warnings.
func (k *catalog) Register(t nacre.Tool) error { return k.Replace(nil, []nacre.Tool{t}) }

// Check refuses of a capability what Register refuses of it in a kernel with a Pinner.
func Check(c nacre.Capability) error {
	t, _, err := newTool(nacre.Tool{Capability: c, Driver: nacre.DriverFunc(nil)})
	if err == nil {
		err = checkFileArguments(t)
	}
	if err != nil {
		return fmt.Errorf("register %.80q: %w", c.ID, err)
	}
	return nil
}

// Replace puts tools in the place of others, all of them or none (D-27). What it refuses is what
// Register refuses. A capability of old that is not there is no error. Calls that have begun keep
// the tool they began with. What a person agreed to for other content, or another schema, is asked
// again.
func (k *catalog) Replace(old []nacre.CapabilityID, fresh []nacre.Tool) error {
	built := make([]*tool, 0, len(fresh))
	var warnings []string
	for _, t := range fresh {
		b, notes, err := newTool(t)
		if err == nil {
			err = k.checkFiles(b)
		}
		if err != nil {
			return fmt.Errorf("register %.80q: %w", t.Capability.ID, err)
		}
		for _, w := range notes {
			warnings = append(warnings, fmt.Sprintf("%s: %s", t.Capability.ID, w))
		}
		built = append(built, b)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.swap(old, built); err != nil {
		return err
	}
	k.warnings = append(k.warnings, warnings...)
	k.index.Store(nil)
	if slices.ContainsFunc(built, func(b *tool) bool { return b.risky() }) {
		k.risky.Store(true)
	}
	return nil
}

// swap changes what is registered, with mu held.
func (k *catalog) swap(old []nacre.CapabilityID, fresh []*tool) error {
	gone, tools, ids := map[*tool]bool{nil: true}, map[nacre.ToolName]*tool{}, map[nacre.CapabilityID]*tool{}
	for _, id := range old {
		gone[k.ids[id]] = true
	}
	for _, b := range fresh {
		c := b.capability
		name, id := k.tools[c.Tool], k.ids[c.ID]
		if gone[name] {
			name = tools[c.Tool]
		}
		if gone[id] {
			id = ids[c.ID]
		}
		switch {
		case name != nil:
			return fmt.Errorf("register %s: the tool name %s belongs to %s already", c.ID, c.Tool, name.capability.ID)
		case id != nil:
			return fmt.Errorf("register %s: that capability is the tool %s already", c.ID, id.capability.Tool)
		}
		tools[c.Tool], ids[c.ID] = b, b
	}
	for _, id := range old {
		if t := k.ids[id]; t != nil {
			delete(k.ids, id)
			delete(k.tools, t.capability.Tool)
		}
	}
	maps.Copy(k.tools, tools)
	maps.Copy(k.ids, ids)
	return nil
}

// AddRoute adds a driver that is tried where those before it have failed. What
// writes is tried again only where the failed driver provably sent nothing
// (K-13). id names the driver in records.
func (k *catalog) AddRoute(id nacre.CapabilityID, driverID string, driver nacre.Driver) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	old := k.ids[id]
	switch {
	case old == nil:
		return fmt.Errorf("route of %.80q: there is no such capability: register it first", id)
	case driver == nil || driverID == "" || len(driverID) > maxName:
		return fmt.Errorf("route of %s: a driver and its id of 1–%d bytes are needed", id, maxName)
	case len(old.routes) >= maxRoutes:
		return fmt.Errorf("route of %s: it has %d drivers already", id, maxRoutes)
	case slices.ContainsFunc(old.routes, func(r route) bool { return r.id == driverID }):
		return fmt.Errorf("route of %s: it has a driver %s already", id, driverID)
	}
	more := *old // calls that have begun keep theirs
	more.routes = append(slices.Clone(old.routes), route{driverID, driver})
	k.tools[old.capability.Tool], k.ids[id] = &more, &more
	return nil
}

// Warnings are what Register left out, in order.
func (k *catalog) Warnings() []string {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return slices.Clone(k.warnings)
}

// Has reports whether a tool is registered.
func (k *catalog) Has(name nacre.ToolName) bool { return k.tool(name) != nil }

// Source is who answers for a tool: its capability's name up to the tool's
// own, such as the plugin's; empty for an unknown tool.
func (k *catalog) Source(name nacre.ToolName) string {
	if t := k.tool(name); t != nil {
		return t.source
	}
	return ""
}

// Catalog is what a principal's group may use, sorted by tool. Policy may
// still deny or ask.
func (k *catalog) Catalog(p nacre.Principal) []nacre.Capability {
	groups := k.governed.now.Load().groups
	k.mu.RLock()
	defer k.mu.RUnlock()
	var all []nacre.Capability
	for _, t := range k.tools {
		if groups.Allows(p.Group, t.capability) {
			all = append(all, cloneCapability(t.capability))
		}
	}
	slices.SortFunc(all, func(a, b nacre.Capability) int { return strings.Compare(string(a.Tool), string(b.Tool)) })
	return all
}

// Search returns what fits a goal best among what a principal's group may use,
// the best first, at most limit; of a limit below 1, nothing. No model is asked (K-03).
func (k *catalog) Search(goal string, p nacre.Principal, limit int) []nacre.Capability {
	held := k.governed.now.Load()
	found := k.searchable(held)
	allowed := found.allowed(p.Group)
	hits := found.index.SearchWhere(goal, min(limit, MaxSearch), func(id nacre.CapabilityID) bool { return allowed[id] != nil })
	best := make([]nacre.Capability, 0, len(hits))
	for _, hit := range hits {
		best = append(best, *allowed[hit.ID])
	}
	ownAll(best)
	return best
}

// searchable is an index of what was registered when it was made, under the rules
// that held then.
type searchable struct {
	index *search.Index
	rules *rules
	all   []*nacre.Capability

	mu sync.Mutex
	// groups are what each group that has searched may use. There are as many as the host has
	// configured, and one for all others.
	groups map[nacre.Group]map[nacre.CapabilityID]*nacre.Capability
}

func (s *searchable) allowed(group nacre.Group) map[nacre.CapabilityID]*nacre.Capability {
	groups := s.rules.groups
	if _, known := groups[group]; !known {
		group = ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if allowed := s.groups[group]; allowed != nil {
		return allowed
	}
	allowed := make(map[nacre.CapabilityID]*nacre.Capability)
	for _, c := range s.all {
		if groups.Allows(group, *c) {
			allowed[c.ID] = c
		}
	}
	s.groups[group] = allowed
	return allowed
}

// searchable is made again after a capability was added, and for other rules.
func (k *catalog) searchable(held *rules) *searchable {
	if made := k.index.Load(); made != nil && made.rules == held {
		return made
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	made := &searchable{rules: held, groups: make(map[nacre.Group]map[nacre.CapabilityID]*nacre.Capability)}
	documents := make([]search.Document, 0, len(k.ids))
	for id, t := range k.ids {
		c := &t.capability
		made.all = append(made.all, c)
		documents = append(documents, search.Document{ID: id, Tags: c.Tags, Name: c.Name, Description: c.Description})
	}
	made.index = search.New(documents)
	k.index.Store(made)
	return made
}

func (k *catalog) warn(text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.warnings = append(k.warnings, text)
}

func (k *catalog) capability(id nacre.CapabilityID) *tool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.ids[id]
}

func (k *catalog) tool(name nacre.ToolName) *tool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.tools[name]
}
