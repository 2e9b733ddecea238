package children

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/basis"
	"github.com/nacre-dev/nacre/internal/budget"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/intrinsic"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/receipt"
)

// leastTime is the shortest time that a child is worth starting for.
const leastTime = 10 * time.Second

// grace is for how long the tokens of a child are good beyond its time: it begins to count when
// the child works, which it does a little later.
const grace = time.Minute

// shareOfBudget is which part of what its parent has left a child gets that asks for none.
const shareOfBudget = 4

// asked is what an agent asks for.
type asked struct {
	Task    string   `json:"task"`
	Role    string   `json:"role"`
	Tools   []string `json:"tools"`
	Egress  []string `json:"egress"`
	Checks  []string `json:"checks"`
	Budget  string   `json:"budget_usd"`
	Minutes int64    `json:"minutes"`
	Memory  string   `json:"memory"`
}

// offer gives the tools by which the agent of the session asks for children.
func (f *Family) offer() []nacre.Tool {
	return intrinsic.ChildTools(intrinsic.Parent{Start: f.start, Wait: f.wait, Stop: f.stop, Memories: f.memories})
}

// start begins a child, or says in a sentence why not. It has a record before it begins.
func (f *Family) start(ctx context.Context, in nacre.Invocation) (json.RawMessage, error) {
	var a asked
	if err := json.Unmarshal(in.Arguments, &a); err != nil {
		return nil, err
	}
	c, err := f.admit(ctx, a, in)
	if err != nil {
		what := recorded{By: in.Principal.ID, Task: receipt.TaskDigest(a.Task), Role: a.Role}
		return nil, errors.Join(told(err), f.record(ctx, "", receipt.ChildRefused, err.Error(), what))
	}
	return json.Marshal(map[string]any{
		"child": c.ID, "state": "running", "memory": c.working().ID, "seconds": int64(c.Wall / time.Second),
		"next": "wait_child tells what came of it",
	})
}

// told is an error in the words that its agent is given.
func told(err error) error {
	return &nacre.Refusal{Code: nacre.CodeHandlerError, Message: err.Error(), Original: "CHILD_REFUSED"}
}

// admit makes a child of what was asked for, where that is no more than its parent has, and
// sets it to work.
func (f *Family) admit(ctx context.Context, a asked, in nacre.Invocation) (*Child, error) {
	leave, err := f.tree.Enter()
	if err != nil {
		return nil, err
	}
	begun := false
	defer func() {
		if !begun {
			leave(false)
		}
	}()
	c, err := f.narrowed(a, in)
	if err != nil {
		return nil, err
	}
	if c.Budget, c.settle, err = f.lend(a.Budget); err != nil {
		return nil, err
	}
	defer func() {
		if !begun {
			c.settle(0)
		}
	}()
	if c.Kin.Row, err = f.Row(f.parent); err != nil {
		return nil, err
	}
	if begun, err = f.adopt(ctx, c, in, leave); err != nil {
		return nil, err
	}
	return c, nil
}

// narrowed is a child that gets what was asked for: no tool, host, role or time that its parent
// lacks.
func (f *Family) narrowed(a asked, in nacre.Invocation) (*Child, error) {
	inst := f.Inst
	c := &Child{ID: f.Name(), Wish: Wish{a.Task, a.Role, a.Checks}, family: f, done: make(chan struct{})}
	var err error
	if c.Wall, err = f.time(a.Minutes); err != nil {
		return nil, err
	}
	if err := f.Fits(a.Role, a.Task); err != nil {
		return nil, err
	}
	handed := &basis.Handed{Principal: in.Principal, Told: in.Label, Over: func(tainted bool) { c.tainted.Store(tainted) }}
	handed.Principal.Session = c.ID
	handed.Principal.ID = in.Principal.ID + "/" + string(c.ID)
	if handed.Rules, err = f.reach(a.Egress); err != nil {
		return nil, err
	}
	if handed.Memory, err = f.remembers(a.Memory, c.ID); err != nil {
		return nil, err
	}
	own, err := purseOf(f, in.Principal)
	if err != nil {
		return nil, err
	}
	names, err := f.tools(a.Tools, in.Principal)
	if err != nil {
		return nil, err
	}
	if c.purse, err = own.hand(handed.Principal, names, inst.Options.Now().Add(c.Wall+grace)); err != nil {
		return nil, err
	}
	handed.Tools = map[nacre.ToolName]nacre.CapabilityID{}
	for name, held := range c.purse.tokens {
		handed.Tools[name] = held.Capability
	}
	handed.Check = func(tool nacre.ToolName) error { return c.purse.check(in.Principal.Group, c.ID, tool) }
	c.Kin = basis.Kin{Parent: f.parent.ID(), Handed: handed}
	return c, nil
}

// time is how long a child may work: within what its parent's agent has left.
func (f *Family) time(minutes int64) (time.Duration, error) {
	left := time.Unix(0, f.until.Load()).Sub(f.Inst.Options.Now())
	wanted := time.Duration(minutes) * time.Minute
	switch {
	case left < leastTime:
		return 0, errors.New("your own time is over: do the rest yourself, or leave it")
	case wanted > left:
		return 0, fmt.Errorf("it asks for %d minutes, and you have %s left: ask for less", minutes, left.Truncate(time.Second))
	}
	return cmp.Or(wanted, left), nil
}

// reach are the rules of a child: of its parent's, those that it names.
func (f *Family) reach(hosts []string) ([]nacre.EgressRule, error) {
	if len(hosts) == 0 {
		return nil, nil
	}
	own := f.Inst.Config.Egress
	rules, err := config.Egress{Pin: own.Pin, Wildcards: own.Wildcards}.Rules(hosts) // of none but those
	if err != nil {
		return nil, err
	}
	for _, rule := range rules {
		if !slices.Contains(f.parent.Rules, rule) {
			return nil, fmt.Errorf("it asks to reach %s, which you may not: ask for hosts that you have", rule)
		}
	}
	return rules, nil
}

// remembers is the memory of a child: a new one, or that of an elder child.
func (f *Family) remembers(id string, child nacre.SessionID) (memory.Working, error) {
	w := memory.Working{ID: "memory-" + string(child), TTL: f.tree.Remembers()}
	if id == "" {
		return w, nil
	}
	for _, elder := range f.all() {
		if elder.working().ID == id {
			w.ID = id
			return w, nil
		}
	}
	return w, fmt.Errorf("no sub-agent of yours has the memory %.64q: start_child names that of each", id)
}

// purseOf are the tokens of a child's parent.
func purseOf(f *Family, who nacre.Principal) (purse, error) {
	if f.Above != nil {
		return f.Above.purse, nil
	}
	return minted(f.Inst, who, f.parent.Catalog(who), time.Unix(0, f.until.Load()).Add(grace))
}

// tools are those of a child: the session's own, its memory, and what was asked for.
func (f *Family) tools(wanted []string, who nacre.Principal) ([]nacre.ToolName, error) {
	family := map[nacre.ToolName]bool{}
	for _, tool := range intrinsic.ChildTools(intrinsic.Parent{}) {
		family[tool.Capability.Tool] = true
	}
	var names []nacre.ToolName
	for _, c := range f.parent.Catalog(who) {
		own := c.Intrinsic && strings.HasPrefix(string(c.ID), "core.") || strings.HasPrefix(string(c.ID), memory.Plugin+".")
		if own && !family[c.Tool] {
			names = append(names, c.Tool)
		}
	}
	for _, name := range wanted {
		tool := nacre.ToolName(name)
		switch {
		case family[tool] && f.depth >= f.tree.Generations():
			return nil, fmt.Errorf("it asks for %s, and its sub-agents would be of generation %d, where %d is the last (depth under [children] in config.toml)", tool, f.depth+1, f.tree.Generations())
		case tool == intrinsic.StartChild:
			for one := range family {
				names = append(names, one)
			}
		case !slices.Contains(names, tool):
			names = append(names, tool)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// lend sets aside what a child may spend, out of what its parent has left. Where no model is
// paid for there is nothing to set aside.
func (f *Family) lend(dollars string) (micro int64, settle func(int64), err error) {
	if dollars != "" {
		if micro, err = config.MicroDollars("budget_usd", dollars); err != nil {
			return 0, nil, err
		}
		if micro == 0 {
			return 0, nil, errors.New("budget_usd is 0: ask for more, or leave it out")
		}
	}
	budgeted := f.parent.Budget
	if budgeted == nil {
		return micro, func(int64) {}, nil
	}
	left := budgeted.Left()
	micro = cmp.Or(micro, left/shareOfBudget)
	switch {
	case micro == 0:
		return 0, nil, errors.New("your budget is spent")
	case micro > left:
		return 0, nil, fmt.Errorf("it asks for a budget of %s, and you have %s left: ask for less", budget.Dollars(micro), budget.Dollars(left))
	}
	settle, err = budgeted.SetAside(micro)
	return micro, settle, err
}

// adopt records a child, and sets it to work; begun says whether it is.
//
//nolint:contextcheck // a child lives as long as the session of its parent, and not as the call that asked for it
func (f *Family) adopt(ctx context.Context, c *Child, in nacre.Invocation, leave func(bool)) (begun bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over || f.parent.Context().Err() != nil {
		return false, errOver
	}
	c.Number, c.by = len(f.children)+1, in.Principal.ID
	if err := f.record(ctx, c.ID, receipt.ChildAsked, "", c.recorded()); err != nil {
		return false, err
	}
	var work context.Context
	work, c.cancel = context.WithCancelCause(f.parent.Context())
	f.children = append(f.children, c)
	f.parent.Tell(nacre.Step{Kind: nacre.StepStage, Name: "child", Text: fmt.Sprintf("%s begins, asked for by %s: %.60q", c.ID, f.parent.ID(), c.Task)})
	go func() {
		defer close(c.done)
		defer leave(true)
		defer c.cancel(nil)
		c.result, c.err = f.Begin(work, f.parent, c)
		c.err = errors.Join(c.err, f.bury(context.WithoutCancel(work), c))
	}()
	return true, nil
}

// recorded is what is said of the child when it begins. The caller holds the family.
func (c *Child) recorded() recorded {
	what := recorded{
		By: c.by, Principal: c.Kin.Handed.Principal.ID, Task: receipt.TaskDigest(c.Task), Role: c.Role, Memory: c.working().ID,
		Seconds: int64(c.Wall / time.Second), Reserved: c.Budget,
	}
	for name := range c.purse.tokens {
		what.Tools = append(what.Tools, name)
	}
	slices.Sort(what.Tools)
	for _, rule := range c.Kin.Handed.Rules {
		what.Egress = append(what.Egress, rule.String())
	}
	return what
}

// bury ends what a child left, settles what it cost, and records its end.
func (f *Family) bury(ctx context.Context, c *Child) error {
	settled, err := f.Settle(ctx, c)
	c.cost = settled.Cost
	c.settle(c.cost)
	if settled.Commit != "" { // it was ended after that, and before it could say so
		c.result.Landed, c.result.Commit = true, settled.Commit
	}
	reason := c.result.Reason
	if c.err != nil {
		reason = c.err.Error()
	}
	state := stateOf(c.result, errors.Join(c.err, err))
	said := strings.TrimSuffix(fmt.Sprintf("%s has ended, %s: %s", c.ID, state, reason), ": ")
	f.parent.Tell(nacre.Step{Kind: nacre.StepStage, Name: "child", Text: said})
	return errors.Join(err, f.record(ctx, c.ID, receipt.ChildEnded, reason, recorded{By: c.by, State: state, Micro: c.cost, Commit: c.result.Commit}))
}
