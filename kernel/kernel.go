// Package kernel promises that no tool runs unless its arguments are valid, its
// caller's group and policy allow it, a person agreed where one had to be
// asked, and a record of it is durable; and that nobody sees what it returns
// before that is redacted, cut to a budget and recorded. [Kernel.Call] is that
// promise as one function to be read from top to bottom.
//
// It does not listen, start processes, or keep anything on disk: tools, the
// person to ask and the audit chain are handed to it, and so are the clock and
// the randomness. Identity is the caller's to establish; what an agent says of
// itself counts for nothing here.
package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/firewall"
	"github.com/nacre-dev/nacre/internal/handle"
	"github.com/nacre-dev/nacre/internal/redact"
	"github.com/nacre-dev/nacre/internal/schema"
	"github.com/nacre-dev/nacre/internal/search"
	"github.com/nacre-dev/nacre/internal/token"
	"github.com/nacre-dev/nacre/policy"
)

// The limits of a call.
const (
	// DefaultAskTTL is how long a person has to answer (D-13).
	DefaultAskTTL = 5 * time.Minute
	// DefaultDeadline is how long a driver may take (D-14), and MaxDeadline the
	// longest that a capability can declare.
	DefaultDeadline = 30 * time.Second
	MaxDeadline     = time.Hour
	// MaxArguments and MaxResult are in bytes.
	MaxArguments = schema.MaxArguments
	MaxResult    = 1 << 20
	// DefaultOutputBudget is what one session may see of results, in tokens (K-16).
	DefaultOutputBudget = 100_000
	// MaxSearch is the most capabilities that one search looks at.
	MaxSearch = 1000
	// maxRoutes is how many drivers a capability can have.
	maxRoutes = 8
	// randomBytes is how many random bytes are read at once.
	randomBytes = 1 << 10
	// recordDeadline bounds every write to the audit chain.
	recordDeadline = 30 * time.Second
)

// DefaultKeyID names the key that a kernel signs its grants with.
const DefaultKeyID = "kernel"

// ResultHook sees a result before it is redacted, and returns what stands in
// its place. An error refuses the result (K-22).
type ResultHook func(ctx context.Context, in nacre.Invocation, result json.RawMessage) (json.RawMessage, error)

// Revocations say which grants hold no more (K-12). Implementations are safe
// for concurrent use; a kernel without one keeps them in memory.
type Revocations interface {
	// Revoke takes effect before it returns. One of id, a token's, and principal
	// is set; until, where not zero, is when the entry may be forgotten.
	Revoke(id, principal string, until time.Time) error
	// Revoked reports whether a token's id, or a principal or one that it lies
	// under, was revoked. An error means that nobody can tell, which refuses.
	Revoked(id, principal string, now time.Time) (bool, error)
	// Sweep forgets what has expired.
	Sweep(now time.Time) error
}

// Config is what a kernel is made of. Policy, Recorder, Now, Random and
// TokenKey are required.
type Config struct {
	Policy policy.Engine
	// Groups says which tools each group may use; nil allows intrinsics only.
	Groups policy.Groups
	// Approver asks a person; nil refuses every call that needs one.
	Approver nacre.Approver
	Recorder nacre.Recorder
	Now      func() time.Time
	Random   io.Reader
	// TokenKey is a secret of at least 32 random bytes, TokenKeyID its name;
	// empty means DefaultKeyID. RetiredKeys still verify what they signed.
	TokenKey    []byte
	TokenKeyID  string
	RetiredKeys []RetiredKey
	// Revocations of grants; nil keeps them in memory.
	Revocations Revocations
	// Pinner copies the files that calls name; nil refuses capabilities that take any.
	Pinner Pinner
	// AskTTL is how long a person has to answer; zero means DefaultAskTTL.
	AskTTL time.Duration
	// OutputBudget is how much of results one session may see in all, in tokens
	// of four characters; zero means DefaultOutputBudget.
	OutputBudget int
	// ResultHooks see every result, in order, before it is redacted.
	ResultHooks []ResultHook
}

// RetiredKey still verifies what it signed, until its end; zero means for good.
type RetiredKey struct {
	ID     string
	Secret []byte
	Until  time.Time
}

// Kernel decides, asks, records and carries out calls. It is safe for
// concurrent use.
type Kernel struct {
	policy   policy.Engine
	groups   policy.Groups
	approver nacre.Approver
	pinner   Pinner
	recorder nacre.Recorder
	now      func() time.Time
	random   io.Reader
	askTTL   time.Duration
	redactor *redact.Engine
	hooks    []ResultHook

	keys         *token.Ring
	revocations  Revocations
	uses         token.Ledger
	granted      granted
	limiter      policy.Limiter
	handles      *handle.Store
	outputBudget int
	sessions     sessions
	index        atomic.Pointer[searchable]
	// rooms are where frames are made, of *firewall.Room.
	rooms sync.Pool
	// risky is set once a capability has sinks: until then nobody asks where a
	// value was seen.
	risky atomic.Bool

	left     leftovers
	traces   traces
	counters counters
	health   health

	// drawing guards random, drawn and undrawn, what of it was not used yet; mu
	// what is registered.
	drawing sync.Mutex
	drawn   [randomBytes]byte
	undrawn []byte

	mu       sync.RWMutex
	tools    map[nacre.ToolName]*tool
	ids      map[nacre.CapabilityID]*tool
	warnings []string
}

// New makes a kernel without tools. What is missing in c is an error, never a
// default that allows (K-24).
func New(c Config) (*Kernel, error) {
	switch {
	case c.Policy == nil:
		return nil, errors.New("kernel: no policy: use policy.Shipped() or one of your own")
	case c.Recorder == nil:
		return nil, errors.New("kernel: no recorder: nothing runs without a record")
	case c.Now == nil || c.Random == nil:
		return nil, errors.New("kernel: a clock and a source of randomness are needed, such as time.Now and crypto/rand.Reader")
	case c.AskTTL < 0:
		return nil, fmt.Errorf("kernel: ask TTL of %v: use a positive time", c.AskTTL)
	case c.OutputBudget < 0:
		return nil, fmt.Errorf("kernel: output budget of %d: use a positive number of tokens", c.OutputBudget)
	}
	if err := c.Groups.Check(); err != nil {
		return nil, fmt.Errorf("kernel: %w", err)
	}
	keys, err := keyRing(c)
	if err != nil {
		return nil, fmt.Errorf("kernel: %w", err)
	}
	if c.AskTTL == 0 {
		c.AskTTL = DefaultAskTTL
	}
	if c.OutputBudget == 0 {
		c.OutputBudget = DefaultOutputBudget
	}
	c.Revocations = sureRevocations(c.Revocations)
	k := &Kernel{
		policy: c.Policy, groups: maps.Clone(c.Groups), approver: c.Approver, pinner: c.Pinner, recorder: c.Recorder,
		now: c.Now, random: c.Random, keys: keys, revocations: c.Revocations, askTTL: c.AskTTL, redactor: redact.New(),
		hooks: slices.Clone(c.ResultHooks), handles: handle.New(), outputBudget: c.OutputBudget,
		tools: make(map[nacre.ToolName]*tool), ids: make(map[nacre.CapabilityID]*tool),
		rooms: sync.Pool{New: func() any { return new(firewall.Room) }},
	}
	return k, nil
}

func keyRing(c Config) (*token.Ring, error) {
	if c.TokenKeyID == "" {
		c.TokenKeyID = DefaultKeyID
	}
	retired := make([]token.Key, 0, len(c.RetiredKeys))
	for _, key := range c.RetiredKeys {
		retired = append(retired, token.Key(key))
	}
	return token.NewRing(token.Key{ID: c.TokenKeyID, Secret: c.TokenKey}, retired...)
}

// Register adds a tool. It refuses what is malformed or open (D-11), and a
// name or capability that another tool has, naming both (D-25). A default that
// violates its own schema is left out, with a warning in Warnings.
func (k *Kernel) Register(t nacre.Tool) error { return k.Replace(nil, []nacre.Tool{t}) }

// Replace puts tools in the place of others, all of them or none (D-27). What it
// refuses is what Register refuses. A capability of old that is not there is no
// error. Calls that have begun keep the tool they began with; what a person agreed
// to for other content, or another schema, is asked again.
func (k *Kernel) Replace(old []nacre.CapabilityID, fresh []nacre.Tool) error {
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
	if slices.ContainsFunc(built, func(b *tool) bool { return len(b.capability.Sinks) > 0 }) {
		k.risky.Store(true)
	}
	return nil
}

// swap changes what is registered, with mu held.
func (k *Kernel) swap(old []nacre.CapabilityID, fresh []*tool) error {
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
func (k *Kernel) AddRoute(id nacre.CapabilityID, driverID string, driver nacre.Driver) error {
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
func (k *Kernel) Warnings() []string {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return slices.Clone(k.warnings)
}

// Has reports whether a tool is registered.
func (k *Kernel) Has(name nacre.ToolName) bool { return k.tool(name) != nil }

// Source is who answers for a tool: its capability's name up to the tool's
// own, such as the plugin's; empty for an unknown tool.
func (k *Kernel) Source(name nacre.ToolName) string {
	if t := k.tool(name); t != nil {
		return t.source
	}
	return ""
}

// Catalog is what a principal's group may use, sorted by tool. Policy may
// still deny or ask.
func (k *Kernel) Catalog(p nacre.Principal) []nacre.Capability {
	k.mu.RLock()
	defer k.mu.RUnlock()
	var all []nacre.Capability
	for _, t := range k.tools {
		if k.groups.Allows(p.Group, t.capability) {
			all = append(all, cloneCapability(t.capability))
		}
	}
	slices.SortFunc(all, func(a, b nacre.Capability) int { return strings.Compare(string(a.Tool), string(b.Tool)) })
	return all
}

// Search returns what fits a goal best among what a principal's group may use,
// the best first, at most limit. No model is asked (K-03).
func (k *Kernel) Search(goal string, p nacre.Principal, limit int) []nacre.Capability {
	found := k.searchable()
	allowed := found.allowed(k.groups, p.Group)
	hits := found.index.SearchWhere(goal, min(limit, MaxSearch), func(id nacre.CapabilityID) bool { return allowed[id] != nil })
	best := make([]nacre.Capability, 0, len(hits))
	for _, hit := range hits {
		best = append(best, *allowed[hit.ID])
	}
	ownAll(best)
	return best
}

// searchable is an index of what was registered when it was made.
type searchable struct {
	index *search.Index
	all   []*nacre.Capability

	mu sync.Mutex
	// groups are what each group that has searched may use; there are as many as
	// the host has configured, and one for all others.
	groups map[nacre.Group]map[nacre.CapabilityID]*nacre.Capability
}

func (s *searchable) allowed(groups policy.Groups, group nacre.Group) map[nacre.CapabilityID]*nacre.Capability {
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

// searchable is made again after a capability was added.
func (k *Kernel) searchable() *searchable {
	if made := k.index.Load(); made != nil {
		return made
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	made := &searchable{groups: make(map[nacre.Group]map[nacre.CapabilityID]*nacre.Capability)}
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

func (k *Kernel) warn(text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.warnings = append(k.warnings, text)
}

func (k *Kernel) capability(id nacre.CapabilityID) *tool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.ids[id]
}

func (k *Kernel) tool(name nacre.ToolName) *tool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.tools[name]
}
