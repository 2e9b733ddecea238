// Package kernel promises that no tool runs unless its arguments are valid, its caller's group and policy
// allow it, and a record of it is durable. A person has agreed where one had to be asked. Nobody sees what the
// tool returns before that is redacted, cut to a budget and recorded. [Kernel.Call] is that promise as one
// function to be read from top to bottom.
//
// It does not listen, start processes, or keep anything on disk. Tools, the person to ask and the audit chain
// are handed to it, and so are the clock and the randomness. Identity is the caller's to establish; what an
// agent says of itself counts for nothing here.
package kernel

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/firewall"
	"github.com/nacre-dev/nacre/internal/handle"
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
	// MaxArguments and MaxResult are in bytes. A text of a MiB fits as JSON (K-31).
	MaxArguments = schema.MaxArguments
	MaxResult    = 2 << 20
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

// Shared is what kernels have in common.
type Shared struct {
	// Revocations of grants; nil keeps them in memory.
	Revocations Revocations
	// Limiter counts the calls of all kernels that are given it, and may hold them to more than the rate of
	// each capability. Nil counts this kernel's own.
	Limiter *policy.Limiter
}

// Config is what a kernel is made of. Policy, Recorder, Now, Random, and one of Keys
// and TokenKey are required.
type Config struct {
	Policy policy.Engine
	// Groups says which tools each group may use; nil allows intrinsics only.
	Groups policy.Groups
	// Approver asks a person; nil refuses every call that needs one.
	Approver nacre.Approver
	Recorder nacre.Recorder
	Now      func() time.Time
	Random   io.Reader
	// Keys sign and verify grants; package grant loads those that outlast the process.
	Keys Keys
	// TokenKey, of 32 bytes or more, is short for Keys with one key, [DefaultKeyID], and none that is retired.
	TokenKey []byte
	// Shared is what outlives the kernel, or is common to several; its zero value shares nothing.
	Shared Shared
	// Pinner copies the files that calls name; nil refuses capabilities that take any.
	Pinner Pinner
	// AskTTL is how long a person has to answer; zero means DefaultAskTTL.
	AskTTL time.Duration
	// OutputBudget is how much of results one session may see in all, in tokens
	// of four characters; zero means DefaultOutputBudget.
	OutputBudget int
	// Without are the grounds on which the kernel does not trust a value here (K-29):
	// each that is taken away asks more. Nil takes none away.
	Without []nacre.Grounds
	// ResultLimits says how much of one result of a tool a group's sessions are shown, at most
	// [nacre.MaxResultLimits]. Nil, and fields that are zero, mean 50 rows, 20 fields, 4,000 characters and a
	// depth of 3 (K-14). What does not fit is had by its handle (K-31).
	ResultLimits func(nacre.Group, nacre.ToolName) nacre.ResultLimits
	// ResultHooks see every result, in order, before it is redacted.
	ResultHooks []ResultHook
}

// Kernel decides, asks, records and carries out calls. It is safe for
// concurrent use. Each of its parts holds a state of its own.
type Kernel struct {
	*catalog
	*sessions
	*judge
	*grants
	*desk
	*acts
	*results
	*journal
	*traces
	*entropy
}

// New makes a kernel without tools. What is missing in c is an error, never a
// default that allows (K-24).
func New(c Config) (*Kernel, error) {
	switch {
	case c.Recorder == nil:
		return nil, errors.New("kernel: no recorder: nothing runs without a record")
	case c.Now == nil || c.Random == nil:
		return nil, errors.New("kernel: a clock and a source of randomness are needed, such as time.Now and crypto/rand.Reader")
	case c.AskTTL < 0:
		return nil, fmt.Errorf("kernel: ask TTL of %v: use a positive time", c.AskTTL)
	case c.OutputBudget < 0:
		return nil, fmt.Errorf("kernel: output budget of %d: use a positive number of tokens", c.OutputBudget)
	}
	held, err := newRules(c.Policy, c.Groups)
	if err != nil {
		return nil, err
	}
	if err := c.oneKey(); err != nil {
		return nil, err
	}
	current, retired := c.Keys.ring()
	keys, err := token.NewRing(current, retired...)
	if err != nil {
		return nil, fmt.Errorf("kernel: %w", err)
	}
	if c.AskTTL == 0 {
		c.AskTTL = DefaultAskTTL
	}
	if c.OutputBudget == 0 {
		c.OutputBudget = DefaultOutputBudget
	}
	return assembled(c, held, keys), nil
}

// oneKey takes TokenKey for Keys. It is an error to give both: which of them signs
// would be a guess.
func (c *Config) oneKey() error {
	switch {
	case len(c.TokenKey) == 0:
		return nil
	case c.Keys.Current.ID != "" || len(c.Keys.Current.Secret) > 0 || len(c.Keys.Retired) > 0:
		return errors.New("kernel: both Keys and TokenKey are given: use one of them")
	}
	c.Keys.Current.Secret = c.TokenKey
	return nil
}

// assembled puts the parts together that c was checked for.
func assembled(c Config, held *rules, keys *token.Ring) *Kernel {
	redactor, revocations, rules := redact.New(), sureRevocations(c.Shared.Revocations), new(governed)
	rules.now.Store(held)
	tools := &catalog{
		governed: rules, takesFiles: c.Pinner != nil, tools: make(map[nacre.ToolName]*tool), ids: make(map[nacre.CapabilityID]*tool),
	}
	events := &traces{cleaner: redactor}
	written := &journal{recorder: c.Recorder, now: c.Now, redactor: redactor, events: events, warn: tools.warn}
	random, left, sealing := &entropy{random: c.Random}, new(leftovers), sealing{slices.Clone(c.Keys.Current.Secret)}
	return &Kernel{
		catalog: tools, traces: events, journal: written, entropy: random,
		sessions: &sessions{budget: c.OutputBudget, without: slices.Clone(c.Without), secret: slices.Clone(c.Keys.Current.Secret)},
		judge:    &judge{revocations: revocations, limiter: cmp.Or(c.Shared.Limiter, new(policy.Limiter))},
		grants:   &grants{keys: keys, revoked: revocations, clock: c.Now, ids: random},
		desk:     &desk{approver: c.Approver, askTTL: c.AskTTL, waiting: left, log: written, ids: random},
		acts:     &acts{hooks: slices.Clone(c.ResultHooks), pinner: c.Pinner, left: left, log: written, sealing: sealing},
		results: &results{
			sealing: sealing,
			handles: handle.New(), limit: c.ResultLimits, rooms: sync.Pool{New: func() any { return new(firewall.Room) }}, risky: &tools.risky, log: written, ids: random,
		},
	}
}
