// Package children lets the agent of a session ask for sub-agents (M-56, M-69). Each is a run of
// its own in the process of its parent's: sealed, on its own clone, with a memory, a budget and a
// time of its own. Its tokens are derived from its parent's. It gets no more than its parent has,
// and ends before it.
//
// It starts nothing itself: whoever opens the session says how a run begins.
package children

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/basis"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/posture"
)

// Options are what a family is made with. All but Above are required.
type Options struct {
	Inst *installation.Installation
	// Above is the sub-agent whose own children they are; nil for those of a person's run.
	Above *Child
	// Row is the row of the parent's run in the ledger; it is entered by the time it is asked for.
	Row func(p Parent) (string, error)
	// Begin carries out a child's run. It returns when nothing of it runs any more.
	Begin func(ctx context.Context, p Parent, c *Child) (nacre.RunResult, error)
	// Name gives each child's session its name, and Settle ends what one has left and says
	// what it came to.
	Name   func() nacre.SessionID
	Settle func(ctx context.Context, c *Child) (Settled, error)
	// Fits refuses what a child is to do in a role; empty is that of its parent.
	Fits func(role, task string) error
}

// Settled is what a child came to by its own records, whatever ended it.
type Settled struct {
	// Cost is in millionths of a dollar.
	Cost int64
	// Commit is that by which its work has landed; empty where it has not.
	Commit string
}

// Parent is the session that has a family: what it stands on, and what it shares with its
// children.
type Parent struct {
	*basis.Basis
	Memory *memory.Store
	// Catalog are the capabilities that a principal may use there.
	Catalog func(nacre.Principal) []nacre.Capability
	// Budget is what its model may still cost; nil where no model is paid for.
	Budget Budget
}

// Budget is money that children get a part of, in millionths of a dollar.
type Budget interface {
	// Left is what nobody has spent or set aside.
	Left() int64
	// SetAside takes a part out of it, until settle is told what of the part was spent.
	SetAside(part int64) (settle func(cost int64), err error)
}

// Family are the children of one session. A nil family has none, and starts none.
type Family struct {
	Options
	tree  *posture.Tree
	depth int // of its children: those of a person's run are at 1

	parent Parent
	until  atomic.Int64 // when the time of the parent's agent is over, in Unix nanoseconds

	mu       sync.Mutex
	children []*Child
	over     bool
}

// Wish is what a child is to do.
type Wish struct {
	Task string
	// Role holds it; empty is that of its parent, if it has any.
	Role string
	// Checks verify its work beside those of the operator.
	Checks []string
}

// Child is one sub-agent.
type Child struct {
	ID nacre.SessionID
	Wish
	// Budget is what it may cost, in millionths of a dollar, and Wall how long it may work.
	Budget int64
	Wall   time.Duration
	// Kin is its place in the family.
	Kin basis.Kin
	// Number counts the children of its parent, from 1.
	Number int

	family  *Family
	by      string // the principal that asked
	purse   purse
	settle  func(cost int64)
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed when it has ended
	tainted atomic.Bool
	end
}

// end is what came of a child, once it has ended.
type end struct {
	result nacre.RunResult
	err    error
	cost   int64 // in millionths of a dollar
}

// errStopped is why a child ends that its parent stopped.
var errStopped = errors.New("its parent stopped it")

// errOver is why the children end whose parent has come to its end.
var errOver = errors.New("its parent has ended")

// New makes the family of a session that is about to be opened, or none where the operator
// allows no children there.
func New(o Options) *Family {
	f := &Family{Options: o, depth: 1}
	if o.Above != nil {
		f.depth, f.tree = o.Above.family.depth+1, o.Above.family.tree
	} else {
		f.tree = &posture.Tree{Children: o.Inst.Config.Children}
	}
	return f
}

// Kin is the place of the session that has the family.
func (f *Family) Kin() basis.Kin {
	var kin basis.Kin
	if f == nil {
		return kin
	}
	if f.Above != nil {
		kin = f.Above.Kin
	}
	if f.tree.Allow && f.depth <= f.tree.Generations() {
		kin.Offer = f.offer
	}
	return kin
}

// Below says whose children they are, once that session is open and before its agent works.
func (f *Family) Below(p Parent) {
	if f != nil {
		f.parent = p
	}
}

// Works says when the time of the parent's agent is over.
func (f *Family) Works(until time.Time) {
	if f != nil {
		f.until.Store(until.UnixNano())
	}
}

// Delegated tells whether children have landed a part of the work.
func (f *Family) Delegated() bool {
	if f == nil {
		return false
	}
	for _, c := range f.all() {
		if c.ended() && c.result.Landed {
			return true
		}
	}
	return false
}

// Outcomes says what came of each child, by its session.
func (f *Family) Outcomes() map[string]string {
	all := map[string]string{}
	if f == nil {
		return all
	}
	for _, c := range f.all() {
		all[string(c.ID)] = c.state()
	}
	return all
}

// Await returns when all children have ended. Where their parent's agent did not come to a
// good end, they are stopped.
func (f *Family) Await(ctx context.Context, well bool) {
	if f == nil {
		return
	}
	stop := context.AfterFunc(ctx, func() { f.cancel(errOver) })
	defer stop()
	if !well {
		f.cancel(errOver)
	}
	for _, c := range f.all() {
		<-c.done
	}
}

// Close ends all children, and returns when nothing of them runs. None is started any more.
func (f *Family) Close() {
	if f == nil {
		return
	}
	f.mu.Lock()
	f.over = true
	f.mu.Unlock()
	f.Await(context.Background(), false)
}

func (f *Family) cancel(why error) {
	for _, c := range f.all() {
		c.cancel(why)
	}
}

func (f *Family) all() []*Child {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*Child{}, f.children...)
}

// Turn waits until the children that were started before have ended, so that what they
// return lands in that order.
func (c *Child) Turn(ctx context.Context) error {
	for _, elder := range c.family.all()[:c.Number-1] {
		select {
		case <-elder.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// working is the memory that the child works with.
func (c *Child) working() memory.Working { return c.Kin.Handed.Memory }

func (c *Child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// state is how the child stands, in a word.
func (c *Child) state() string {
	if !c.ended() {
		return "running"
	}
	return stateOf(c.result, c.err)
}

// stateOf is what a child came to.
func stateOf(r nacre.RunResult, err error) string {
	switch {
	case r.Landed:
		return "landed"
	case err != nil:
		return "stopped"
	case r.Delivered:
		return "delivered"
	}
	return "not landed"
}

// recorded is what the parent's chain says of a child.
type recorded struct {
	Child     nacre.SessionID  `json:"child,omitempty"`
	By        string           `json:"by"` // the principal that asked
	Principal string           `json:"principal,omitempty"`
	Task      string           `json:"task_digest,omitempty"`
	Role      string           `json:"role,omitempty"`
	Tools     []nacre.ToolName `json:"tools,omitempty"`
	Egress    []string         `json:"egress,omitempty"`
	Memory    string           `json:"memory,omitempty"`
	Seconds   int64            `json:"seconds,omitempty"`
	Depth     int              `json:"depth"`
	Reserved  int64            `json:"reserved_micro_usd,omitempty"`
	Micro     int64            `json:"micro_usd"`
	Commit    string           `json:"commit,omitempty"`
	State     string           `json:"state,omitempty"`
}

// record commits what becomes of a child to its parent's chain.
func (f *Family) record(ctx context.Context, child nacre.SessionID, outcome, reason string, what recorded) error {
	what.Child, what.Depth = child, f.depth
	detail, err := json.Marshal(what)
	if err != nil {
		return err
	}
	reason, _ = f.Inst.Redact.String(reason)
	return f.parent.Recorder.Commit(context.WithoutCancel(ctx), nacre.Record{
		Kind: nacre.KindChild, Source: "core", Correlation: nacre.Correlation(child), Outcome: outcome, Reason: reason, Detail: detail,
	})
}

// Suffix names the file of a child beside its parent's, such as that of a recording.
func (c *Child) Suffix() string { return "." + strconv.Itoa(c.Number) }
