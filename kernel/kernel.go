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
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/redact"
	"github.com/nacre-dev/nacre/internal/schema"
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
	// recordDeadline bounds every write to the audit chain.
	recordDeadline = 30 * time.Second
)

// keyID names the one key that a kernel signs its grants with.
const keyID = "kernel"

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
	// TokenKey is a secret of at least 32 random bytes.
	TokenKey []byte
	// AskTTL is how long a person has to answer; zero means DefaultAskTTL.
	AskTTL time.Duration
}

// Kernel decides, asks, records and carries out calls. It is safe for
// concurrent use.
type Kernel struct {
	policy   policy.Engine
	groups   policy.Groups
	approver nacre.Approver
	recorder nacre.Recorder
	now      func() time.Time
	random   io.Reader
	keys     token.Keys
	askTTL   time.Duration
	redactor *redact.Engine

	uses    token.Uses
	limiter policy.Limiter
	left    leftovers

	// drawing guards random, mu what is registered.
	drawing sync.Mutex

	mu       sync.RWMutex
	tools    map[nacre.ToolName]*tool
	ids      map[nacre.CapabilityID]nacre.ToolName
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
	}
	if err := c.Groups.Check(); err != nil {
		return nil, fmt.Errorf("kernel: %w", err)
	}
	keys, err := token.NewKeys(keyID, map[string][]byte{keyID: c.TokenKey})
	if err != nil {
		return nil, fmt.Errorf("kernel: %w", err)
	}
	if c.AskTTL == 0 {
		c.AskTTL = DefaultAskTTL
	}
	return &Kernel{
		policy: c.Policy, groups: c.Groups, approver: c.Approver, recorder: c.Recorder,
		now: c.Now, random: c.Random, keys: keys, askTTL: c.AskTTL, redactor: redact.New(),
		tools: make(map[nacre.ToolName]*tool), ids: make(map[nacre.CapabilityID]nacre.ToolName),
	}, nil
}

// Register adds a tool. It refuses what is malformed or open (D-11), and a
// name or capability that another tool has, naming both (D-25). A default that
// violates its own schema is left out, with a warning in Warnings.
func (k *Kernel) Register(t nacre.Tool) error {
	built, warnings, err := newTool(t)
	if err != nil {
		return fmt.Errorf("register %.80q: %w", t.Capability.ID, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	c := built.capability
	if other, taken := k.tools[c.Tool]; taken {
		return fmt.Errorf("register %s: the tool name %s belongs to %s already", c.ID, c.Tool, other.capability.ID)
	}
	if other, taken := k.ids[c.ID]; taken {
		return fmt.Errorf("register %s: that capability is the tool %s already", c.ID, other)
	}
	k.tools[c.Tool], k.ids[c.ID] = built, c.Tool
	for _, w := range warnings {
		k.warnings = append(k.warnings, fmt.Sprintf("%s: %s", c.ID, w))
	}
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

func (k *Kernel) tool(name nacre.ToolName) *tool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.tools[name]
}
